"""The file of a proxy's memory: what survives, what is not believed."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.common.errors import QuicksilverError
from rm_proxy.attempt.snapshot import Note, Snapshot
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service import attempt_journal as module
from rm_proxy.service.attempt_journal import AttemptJournal
from tests.small_disk import fill, no_descriptors, small_disk

A, B = "appattempt_1_0001_000001", "appattempt_1_0002_000001"


def opened(path: Path) -> tuple[AttemptJournal, dict[str, Snapshot]]:
    journal = AttemptJournal(path, ProxyMetrics())
    return journal, journal.open()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "attempts.journal"


def begun(path: Path, *notes: tuple[str, Note]) -> AttemptJournal:
    journal, snapshots = opened(path)
    assert snapshots == {}
    journal.compact(notes, 0.0)
    return journal


def killed(journal: AttemptJournal) -> None:
    """Let go of the file as the kernel does when the process is killed."""
    for number in (journal._file._file, journal._file._lock):
        if number is not None:
            os.close(number)


def set_aside(path: Path) -> list[Path]:
    return list(path.parent.glob("*.aside"))


@pytest.mark.parametrize("text", ["n:1", "nœud-ü:1", "lone \ud800:1", "line\nend"])
def test_texts_and_numbers_are_read_as_they_were_written(path: Path, text: str) -> None:
    live = {text: {"node": text, "granted_s": 1764228000.1234567, "expected_s": float("inf"), "size": [1 << 62, 0.1]}}
    first = begun(path)
    first.write(A, {"registered": "QQ==", "live": live})
    killed(first)
    second, snapshots = opened(path)
    assert snapshots[A].live == live
    killed(second)


def test_what_was_written_is_there_after_a_kill(path: Path) -> None:
    first = begun(path, (A, {"registered": "QQ=="}))
    first.write(A, {"ended": ["c1"], "live": {"c2": {"node": "n"}}})
    first.write(B, {"registered": "Qg=="})
    first.write(A, {"ended": ["c3"], "live": {"c2": None}, "resync": 7})
    killed(first)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    second, snapshots = opened(path)
    assert list(snapshots) == [A, B]
    assert (snapshots[A].registered, list(snapshots[A].ended), snapshots[A].live, snapshots[A].resync) == (
        "QQ==",
        ["c1", "c3"],
        {},
        7,
    )
    killed(second)


def test_what_is_over_is_forgotten(path: Path) -> None:
    first = begun(path, (A, {"registered": "QQ=="}), (B, {"registered": "Qg=="}))
    first.write(A, {"over": True})
    killed(first)
    second, snapshots = opened(path)
    assert list(snapshots) == [B]
    killed(second)


def test_a_last_line_that_was_not_finished_is_nothing(path: Path) -> None:
    killed(begun(path, (A, {"registered": "QQ=="})))
    with path.open("ab") as file:
        file.write(b"12345678 appattempt_1_00")
    second, snapshots = opened(path)
    assert list(snapshots) == [A] and not set_aside(path)
    killed(second)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.replace(b"QQ==", b"QR=="),
        lambda data: b"",
        lambda data: b"\n" + data,
        lambda data: data[: data.index(b"\n") + 1] + b"0\n",
        lambda data: _line(b'quicksilver {"version":0,"boot":"b"}'),
        lambda data: data.replace(_line(b"quicksilver-journal rm_proxy attempts 1"), _line(b"quicksilver-journal x 1")),
        lambda data: _line(b"quicksilver-journal rm_proxy attempts 1") + _line(b"closed {}"),
        lambda data: data + _line(A.encode() + b' {"live":[1]}'),
        lambda data: data + _line(A.encode() + b' {"rows":["QQ=="]}'),
        lambda data: data + _line(A.encode() + b" [1]"),
    ],
)
def test_a_file_out_of_form_is_set_aside(path: Path, damage: Any) -> None:
    killed(begun(path, (A, {"registered": "QQ=="})))
    data = path.read_bytes()
    path.write_bytes(damage(data))
    second, snapshots = opened(path)
    assert snapshots == {}
    assert bool(set_aside(path)) == bool(damage(data))
    killed(second)


def _line(body: bytes) -> bytes:
    return b"%08x %b\n" % (crc32(body), body)


@given(st.integers(0, 200), st.binary(min_size=1, max_size=3))
def test_damage_is_never_believed(tmp_path_factory: pytest.TempPathFactory, at: int, instead: bytes) -> None:
    """Whatever a few bytes become: it is found as it was, set aside, or the last line is missing."""
    path = tmp_path_factory.mktemp("j") / "a.journal"
    killed(begun(path, (A, {"registered": "QQ=="}), (B, {"registered": "Qg=="})))
    data = path.read_bytes()
    path.write_bytes(data[:at] + instead + data[at + len(instead) :])
    second, snapshots = opened(path)
    assert {name: kept.registered for name, kept in snapshots.items()} in ({A: "QQ==", B: "Qg=="}, {A: "QQ=="}, {})
    killed(second)


def test_another_run_of_the_machine_believes_only_a_closed_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(begun(path, (A, {"registered": "QQ=="})))
    monkeypatch.setattr(module, "_boot", lambda: "another")
    second, snapshots = opened(path)
    assert snapshots == {} and set_aside(path)
    second.compact([(A, {"registered": "QQ=="})], 0.0)
    second.close()
    monkeypatch.setattr(module, "_boot", lambda: "a third")
    third, snapshots = opened(path)
    assert list(snapshots) == [A]
    killed(third)


def test_one_proxy_at_a_time(path: Path) -> None:
    first = begun(path)
    with pytest.raises(QuicksilverError, match=r"another process uses it; stop that process"):
        opened(path)
    first.close()
    opened(path)[0].close()


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(QuicksilverError, match=r"correct proxy.state_dir"):
        opened(tmp_path / "file" / "attempts.journal")


def test_a_full_disk_takes_the_file_away_until_there_is_room(path: Path) -> None:
    first = begun(path, (A, {"registered": "QQ=="}))
    assert first._file._file is not None
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, first._file._file)
    os.close(full)
    first.write(A, {"ended": ["c1"]})
    assert first.broken and not path.exists(), "what it said is true no longer"
    first.write(A, {"ended": ["c2"]})
    assert first.due(10.0)
    first.compact([(A, {"registered": "QQ==", "ended": ["c1", "c2"]})], 10.0)
    assert not first.broken and not first.due(10.0)
    killed(first)
    second, snapshots = opened(path)
    assert list(snapshots[A].ended) == ["c1", "c2"]
    killed(second)


def test_it_is_written_anew_when_it_has_grown(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_GROWTH", 1000)
    first = begun(path, (A, {"registered": "QQ=="}))
    written = 0
    while not first.due(1.0):
        first.write(A, {"resync": written})
        written += 1
    assert written > 5
    first.compact([(A, {"registered": "QQ==", "resync": written})], 1.0)
    assert path.stat().st_size < 300 and not first.due(1.0)
    killed(first)
    second, snapshots = opened(path)
    assert snapshots[A].resync == written
    killed(second)


def test_notes_are_plain_json(path: Path) -> None:
    killed(begun(path, (A, {"registered": "QQ=="})))
    lines = path.read_text().splitlines()
    assert [json.loads(line.split(" ", 2)[2]) for line in lines[1:]][1] == {"registered": "QQ=="}


def test_a_rewrite_without_descriptors_loses_nothing(path: Path) -> None:
    first = begun(path, (A, {"registered": "QQ=="}))
    with no_descriptors():
        first.compact([(A, {"registered": "QQ=="})], 1.0)
        first.write(A, {"ended": ["c1"]})
    assert not first.broken and not first.due(1.1), "it is tried again later"
    killed(first)
    second, snapshots = opened(path)
    assert list(snapshots[A].ended) == ["c1"]
    killed(second)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to mount")
def test_a_start_on_a_full_disk_goes_on_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after another start of the machine: the file was closed in order, and now names this start."""
    with small_disk(tmp_path / "disk") as disk:
        path = disk / "a.journal"
        begun(path, (A, {"registered": "QQ=="})).close()
        monkeypatch.setattr(module, "_boot", lambda: "another")
        filler = fill(disk)
        for ended in (["c1"], ["c1", "c2"]):
            process, snapshots = opened(path)
            assert list(snapshots) == [A] and list(snapshots[A].ended) == ended[:-1]
            process.compact([(A, {"registered": "QQ==", "ended": ended[:-1]})], 0.0)
            process.write(A, {"ended": [ended[-1]]})
            assert not process.broken and not (disk / "a.journal.new").exists()
            killed(process)
        filler.unlink()
        process, snapshots = opened(path)
        assert list(snapshots[A].ended) == ["c1", "c2"]
        killed(process)
