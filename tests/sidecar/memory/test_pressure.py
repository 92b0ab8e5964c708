"""Reading memory and stalls: on this machine, and where the kernel says nothing or nonsense."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from quicksilver.common.process.logs import get_logger
from sidecar.memory import pressure
from sidecar.memory.pressure import Gauge, GroupMemory, group_memory, stall_ratio

TEXT = "some avg10=12.34 avg60=0.02 avg300=0.25 total=3671246509\nfull avg10=3.00 avg60=0.00 avg300=0.00 total=0\n"
MB = 2**20


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is logged as a warning."""
    said: list[str] = []
    log = get_logger("test")
    monkeypatch.setattr(pressure, "log", log)
    monkeypatch.setattr(log, "warning", said.append, raising=False)
    return said


def proc(folder: Path, **files: str) -> Path:
    """Return a /proc with these files in `pressure`."""
    (folder / "pressure").mkdir()
    for name, text in files.items():
        (folder / "pressure" / name).write_text(text)
    return folder


def group(folder: Path, **files: str) -> Path:
    """Return a group with these control files of its memory controller."""
    for name, text in files.items():
        (folder / f"memory.{name}").write_text(text)
    return folder


def test_this_machine() -> None:
    before_mb = psutil.virtual_memory().available // MB
    now = Gauge().read()
    assert now.total_mb == psutil.virtual_memory().total // MB
    assert 0 < now.free_mb <= now.total_mb
    assert abs(now.free_mb - before_mb) < now.total_mb / 2
    assert now.swap_free_mb == psutil.swap_memory().free // MB
    for ratio in (now.memory_stall_ratio, now.cpu_stall_ratio):
        assert ratio is None or 0 <= ratio <= 1


def test_stalls_of_ten_seconds(tmp_path: Path) -> None:
    gauge = Gauge(proc(tmp_path, memory=TEXT, cpu=TEXT))
    now = gauge.read()
    assert (now.memory_stall_ratio, now.cpu_stall_ratio) == (pytest.approx(0.03), pytest.approx(0.1234))
    assert gauge.blind == ""


def test_kernel_without_psi_is_told_once(tmp_path: Path, warnings: list[str]) -> None:
    gauge = Gauge(tmp_path)
    for _ in range(3):
        assert (now := gauge.read()).memory_stall_ratio is None
        assert now.cpu_stall_ratio is None
        assert now.free_mb > 0
    assert len(warnings) == 1
    assert "CONFIG_PSI" in warnings[0]
    assert "free memory alone counts" in warnings[0]


def test_psi_that_is_switched_off_or_strange_is_told_and_not_fatal(tmp_path: Path, warnings: list[str]) -> None:
    folder = proc(tmp_path, cpu="some avg10=1.00\n")
    (folder / "pressure" / "memory").mkdir()  # reading it fails, as with psi=0
    gauge = Gauge(folder)
    assert (now := gauge.read()).memory_stall_ratio is None
    assert now.cpu_stall_ratio == pytest.approx(0.01)
    assert "cannot be read" in gauge.blind
    (folder / "pressure" / "memory").rmdir()
    (folder / "pressure" / "memory").write_text("full avg10=lots")
    assert gauge.read().memory_stall_ratio is None
    assert "not understood: no avg10 in 'full avg10=lots'" in gauge.blind
    (folder / "pressure" / "memory").write_bytes(b"\xff\xff")
    assert gauge.read().memory_stall_ratio is None
    assert len(warnings) == 1
    (folder / "pressure" / "memory").write_text(TEXT)
    assert gauge.read().memory_stall_ratio == pytest.approx(0.03)
    assert gauge.blind == ""


@pytest.mark.parametrize("text", ["", "some avg10=1.00", "full", "full avg60=1.00", "full avg10=nan", "full avg10=101"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"avg10|no line 'full'"):
        stall_ratio(text, "full")


def test_group_of_v1(tmp_path: Path) -> None:
    stat = f"inactive_file 5\ntotal_inactive_file {30 * MB}\n"
    path = group(tmp_path, usage_in_bytes=f"{150 * MB}\n", limit_in_bytes=f"{200 * MB}\n", stat=stat)
    assert group_memory(path) == GroupMemory(used_mb=150, limit_mb=200, room_mb=80)
    group(tmp_path, limit_in_bytes="9223372036854771712\n")
    assert group_memory(path) == GroupMemory(used_mb=150, limit_mb=None, room_mb=None)


def test_group_of_v2(tmp_path: Path) -> None:
    path = group(tmp_path, current=f"{250 * MB}\n", max=f"{200 * MB}\n", stat=f"anon 1\ninactive_file {20 * MB}\n")
    assert group_memory(path) == GroupMemory(used_mb=250, limit_mb=200, room_mb=0)
    group(tmp_path, max="max\n")
    assert group_memory(path) == GroupMemory(used_mb=250, limit_mb=None, room_mb=None)


def test_group_that_is_gone(tmp_path: Path) -> None:
    assert group_memory(tmp_path / "gone") is None
