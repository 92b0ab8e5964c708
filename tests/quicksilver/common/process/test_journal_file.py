"""The journals' file format: what survives, what is refused, and who may write."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from quicksilver.common.process.journal_file import DamagedJournalError, JournalFile, JournalInUseError
from tests.small_disk import fill, no_descriptors, small_disk


def journal(path: Path, form: str = "test 1") -> JournalFile:
    return JournalFile(path, form=form, setting="test.state_dir")


def written(path: Path, *records: bytes) -> bytes:
    """Write a file, as a process does that is killed then, and return its bytes."""
    made = journal(path)
    made.rewrite(records[:1])
    if records[1:]:
        made.append(*records[1:])
    made.close()
    return path.read_bytes()


@given(st.lists(st.binary().filter(lambda record: b"\n" not in record), max_size=6))
def test_records_come_back(tmp_path_factory: pytest.TempPathFactory, records: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("j") / "new" / "a.journal"
    data = written(path, *records)
    assert journal(path).read() == records
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    made = journal(path)
    made.rewrite(records)
    assert (path.read_bytes(), made.size) == (data, len(data))
    made.close()


@given(st.data())
def test_a_cut_anywhere_leaves_whole_records(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("j") / "a.journal"
    records = [b"one", b"two", b"three"]
    whole = written(path, *records)
    at = data.draw(st.integers(whole.index(b"\n") + 1, len(whole)))
    path.write_bytes(whole[:at])
    with capture_logs() as logs:
        found = journal(path).read()
    assert found == records[: whole[:at].count(b"\n") - 1]
    assert [line["event"] for line in logs] == (
        [] if whole[:at].endswith(b"\n") else ["the last line of the journal is unfinished and is cut"]
    )


@given(at=st.integers(0, 60), instead=st.binary(min_size=1, max_size=3))
def test_damage_is_found(tmp_path_factory: pytest.TempPathFactory, at: int, instead: bytes) -> None:
    """Whatever a few bytes become: the records are as they were, the last one is missing, or the file is refused."""
    path = tmp_path_factory.mktemp("j") / "a.journal"
    data = written(path, b"first record", b"second record")
    path.write_bytes(data[:at] + instead + data[at + len(instead) :])
    try:
        found = journal(path).read()
    except DamagedJournalError:
        return
    assert found in ([b"first record", b"second record"], [b"first record"], [])


def test_another_format_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    data = written(path, b"x")
    with pytest.raises(DamagedJournalError, match=r"'quicksilver-journal test 1' instead of '.* test 2'"):
        journal(path, "test 2").read()
    with capture_logs() as logs:
        journal(path).set_aside("it is of another format")
    assert (tmp_path / "a.journal.aside").read_bytes() == data and not path.exists()
    assert [line["why"] for line in logs] == ["it is of another format"]


def test_no_file_and_an_empty_one_have_no_records(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    assert journal(path).read() == []
    path.write_bytes(b"")
    assert journal(path).read() == []


def test_one_process_at_a_time(tmp_path: Path) -> None:
    first, second = (journal(tmp_path / "a.journal") for _ in range(2))
    first.lock()
    first.lock()
    with pytest.raises(JournalInUseError, match=r"name another directory in test\.state_dir"):
        second.rewrite([])
    first.close()
    second.rewrite([])
    second.close()


def test_a_rewrite_that_fails_leaves_the_file_before(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    data = written(path, b"one")
    made = journal(path)
    (tmp_path / "a.journal.new").mkdir()
    with pytest.raises(OSError, match="directory"):
        made.rewrite([b"two"])
    assert path.read_bytes() == data and not made.is_open
    made.close()


def test_a_full_disk_is_an_error_and_an_outdated_file_can_be_removed(tmp_path: Path) -> None:
    made = journal(tmp_path / "a.journal")
    made.rewrite([b"one"])
    assert made._file is not None
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, made._file)
    os.close(full)
    with pytest.raises(OSError, match="No space"):
        made.append(b"two")
    made.remove()
    assert not made.path.exists() and not made.is_open
    made.close()


def test_the_lock_survives_the_removal_of_its_file_and_follows_no_link(tmp_path: Path) -> None:
    first, second = (journal(tmp_path / "a.journal") for _ in range(2))
    first.rewrite([b"one"])
    (tmp_path / "a.lock").unlink()
    second.lock()
    with pytest.raises(JournalInUseError):
        second.read()
    first.close()
    assert second.read() == [b"one"]
    second.close()
    (tmp_path / "a.lock").unlink()
    (tmp_path / "a.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        journal(tmp_path / "a.journal").lock()
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_that_was_read_is_open_for_more_without_its_unfinished_line(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    written(path, b"one")
    with path.open("ab") as file:
        file.write(b"1234 hal")
    made = journal(path)
    made.lock()
    assert made.read() == [b"one"]
    made.append(b"two")
    made.close()
    assert journal(path).read() == [b"one", b"two"]


def test_a_rewrite_without_descriptors_leaves_the_file_open(tmp_path: Path) -> None:
    made = journal(tmp_path / "a.journal")
    made.rewrite([b"one"])
    with no_descriptors(), pytest.raises(OSError, match="Too many open files"):
        made.rewrite([b"two"])
    made.append(b"three")
    made.close()
    assert journal(made.path).read() == [b"one", b"three"]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to mount")
def test_a_rewrite_on_a_full_disk_leaves_the_file_open_and_nothing_beside_it(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        made = journal(disk / "a.journal")
        made.rewrite([b"one"])
        filler = fill(disk)
        with pytest.raises(OSError, match="No space"):
            made.rewrite([b"two"])
        assert sorted(path.name for path in disk.iterdir()) == ["a.journal", "a.lock", "filler"]
        made.append(b"three")  # there is room in its last page
        filler.unlink()
        made.close()
        assert journal(made.path).read() == [b"one", b"three"]
