"""The journal's file: who may read it, what happens to one that cannot be read, and to a disk that takes nothing."""

from __future__ import annotations

import resource
import signal
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sidecar.node.journal_records import acked_line, head_line, line_of, read
from sidecar.service.journal_file import Journal
from tests.sidecar.words import arrived, node


def journal(path: Path, *more: str) -> Journal:
    return Journal(path, lambda: [head_line("n:1", "boot", 7), *more])


def test_it_is_written_before_the_next_step_and_for_its_owner_alone(tmp_path: Path) -> None:
    kept = journal(tmp_path / "new" / "j")
    assert kept.recall("n:1") is None
    kept.write([acked_line(1)])
    kept.write([acked_line(2)])
    kept.write([])
    assert kept.path.read_text() == f"{head_line('n:1', 'boot', 7)}\n{acked_line(1)}\n{acked_line(2)}\n"
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.path.parent.stat().st_mode) == 0o700
    kept.close()
    memory = journal(kept.path).recall("n:1")
    assert memory is not None
    assert (memory.boot, memory.seq) == ("boot", 7)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"garbage\n", "does not begin as a journal"),
        (b"\xff\xfe", "codec"),
        (head_line("other:2", "b", 1).encode() + b"\n", "it is of other:2, this node is n:1"),
        (b'{"journal":9,"node":"n:1","boot":"b","seq":0}\n', "ValueError"),
    ],
)
def test_one_that_cannot_be_used_is_set_aside_with_one_line(tmp_path: Path, text: bytes, why: str) -> None:
    path = tmp_path / "j"
    path.write_bytes(text)
    kept = journal(path)
    with capture_logs() as logs:
        assert kept.recall("n:1") is None
    (line,) = logs
    assert why in line["why"]
    assert not path.exists()
    assert (tmp_path / "j.bad").read_bytes() == text
    kept.write([acked_line(1)])
    assert read(path.read_text()).boot == "boot"
    kept.close()


def test_a_full_disk_stops_nobody_and_everything_is_written_anew_afterwards(tmp_path: Path) -> None:
    of = node()
    of.handle(arrived("g", 1, q=False))
    lines = [line_of(of, "g")]
    kept = journal(tmp_path / "j", *lines)
    kept.write(lines)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
        with capture_logs() as logs:
            kept.write([acked_line(1)])
            kept.write([acked_line(2)])
        full = kept.why
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert full
    assert [line["log_level"] for line in logs if line["log_level"] == "error"] == ["error"]
    kept.write([acked_line(3)])
    assert kept.why == ""
    assert kept.failures >= 1
    memory = read(kept.path.read_text())
    assert list(memory.entries) == ["g"]
    kept.close()


def test_it_stays_small(tmp_path: Path) -> None:
    kept = journal(tmp_path / "j")
    for number in range(40_000):
        kept.write([acked_line(number)])
    assert kept.path.stat().st_size < 300_000
    assert not list(tmp_path.glob("*.new"))
    kept.close()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    kept = journal(blocked / "j")
    with capture_logs() as logs:
        kept.write([acked_line(1)])
        kept.write([acked_line(2)])
    assert len(logs) == 1
    assert str(blocked) in kept.why
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
