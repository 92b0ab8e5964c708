"""The journal's file: who may read it, what happens to one that cannot be read, and to a disk that takes nothing."""

from __future__ import annotations

import os
import resource
import signal
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from quicksilver.common.process.journal_file import JournalFile, JournalInUseError
from sidecar.node.journal_records import MemoryRecord, acked_line, head_line, line_of, read
from sidecar.service.journal_file import Journal
from tests.sidecar.words import arrived, node
from tests.small_disk import fill, no_descriptors, small_disk


def journal(path: Path, *more: str) -> Journal:
    return Journal(path, lambda: [head_line("n:1", "boot", 7), *more])


def test_it_is_written_before_the_next_step_and_for_its_owner_alone(tmp_path: Path) -> None:
    kept = journal(tmp_path / "new" / "j")
    assert kept.recall("n:1") is None
    kept.write([acked_line(1)])
    kept.write([acked_line(2)])
    kept.write([])
    assert records(kept.path) == [head_line("n:1", "boot", 7), acked_line(1), acked_line(2)]
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.path.parent.stat().st_mode) == 0o700
    kept.close()
    memory = journal(kept.path).recall("n:1")
    assert memory is not None
    assert (memory.boot, memory.seq) == ("boot", 7)


def records(path: Path) -> list[str]:
    return [record.decode() for record in JournalFile(path, form="sidecar 1", setting="").read()]


def memory_of(path: Path) -> MemoryRecord:
    return read("".join(f"{record}\n" for record in records(path)))


def file_of(folder: Path, line: str) -> bytes:
    """The bytes of a journal of one line."""
    file = JournalFile(folder / "other", form="sidecar 1", setting="")
    file.rewrite([line.encode()])
    file.close()
    return file.path.read_bytes()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"garbage\n", "line 1 is damaged, or not of a journal"),
        (b"\xff\xfe", "does not begin as a journal"),
        (head_line("n:1", "b", 1).encode() + b"\n", "line 1 is damaged, or not of a journal"),
        (head_line("other:2", "b", 1), "it is of other:2, this node is n:1"),
        (acked_line(1), "does not begin as a journal of a sidecar"),
        ('{"journal":9,"node":"n:1","boot":"b","seq":0}', "ValueError"),
    ],
)
def test_one_that_cannot_be_used_is_set_aside_with_one_line(tmp_path: Path, text: bytes | str, why: str) -> None:
    path = tmp_path / "j"
    data = text if isinstance(text, bytes) else file_of(tmp_path, text)
    path.write_bytes(data)
    kept = journal(path)
    with capture_logs() as logs:
        assert kept.recall("n:1") is None
    (line,) = logs
    assert why in line["why"]
    assert not path.exists()
    assert (tmp_path / "j.aside").read_bytes() == data
    kept.write([acked_line(1)])
    assert memory_of(path).boot == "boot"
    kept.close()


def test_a_full_disk_stops_nobody_and_everything_is_written_anew_afterwards(tmp_path: Path) -> None:
    of = node()
    of.handle(arrived("g", 1, q=False))
    lines = [line_of(of.state, "g")]
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
    memory = memory_of(kept.path)
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


def test_one_process_at_a_time(tmp_path: Path) -> None:
    first = journal(tmp_path / "j")
    first.renew()
    with pytest.raises(JournalInUseError, match=r"another process uses it; stop that process"):
        journal(tmp_path / "j").recall("n:1")
    first.close()
    second = journal(tmp_path / "j")
    assert second.recall("n:1") is not None
    second.close()


def test_a_rewrite_without_descriptors_loses_nothing(tmp_path: Path) -> None:
    first = journal(tmp_path / "j")
    first.renew()
    with no_descriptors():
        first.renew()
        first.write([acked_line(3)])
    assert first.why == "" and first.failures == 1
    assert records(first.path) == [head_line("n:1", "boot", 7), acked_line(3)]
    first.close()


def test_a_file_that_could_not_be_read_at_the_start_is_not_overwritten(tmp_path: Path) -> None:
    first = journal(tmp_path / "j")
    first.write([acked_line(3)])
    first.close()
    before = first.path.read_bytes()
    second = journal(tmp_path / "j")
    with no_descriptors():
        assert second.recall("n:1") is None
    second.write([acked_line(1)])
    assert (tmp_path / "j.aside").read_bytes() == before
    assert records(second.path)[1:] == [acked_line(1)]
    second.close()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to mount")
def test_after_a_full_disk_an_outdated_file_is_not_believed(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        first = journal(disk / "j")
        first.renew()
        fill(disk)
        while not first.why:
            first.write([acked_line(number) for number in range(100)])
        first.close()
        assert sorted(path.name for path in disk.iterdir()) == ["filler", "j.lock"]
        assert journal(disk / "j").recall("n:1") is None
