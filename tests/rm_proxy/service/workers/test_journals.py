"""Journals follow the number of workers: each application's records go to its worker, whatever wrote them."""

from pathlib import Path

import pytest

from quicksilver.common.errors import QuicksilverError
from rm_proxy.coordinator.workers.spread import Spread
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.attempt_journal import AttemptJournal
from rm_proxy.service.workers.journals import divide_journals, journal_of

ATTEMPTS = [f"appattempt_17_{app:04d}_000001" for app in range(1, 6)]


def written(path: Path, attempts: list[str], *, close: bool = True) -> AttemptJournal:
    """Write a journal in which each attempt has a serial of its own."""
    journal = AttemptJournal(path, ProxyMetrics())
    journal.open()
    journal.compact([], 0.0)
    for attempt in attempts:
        journal.write(attempt, {"registered": "", "serial": int(attempt[-11:-7])})
    if close:
        journal.close()
    return journal


def serials(path: Path) -> dict[str, int]:
    journal = AttemptJournal(path, ProxyMetrics())
    snapshots = journal.open()
    journal.close()
    return {attempt: snapshot.serial for attempt, snapshot in snapshots.items()}


def test_one_process_becomes_two_workers_then_three_then_one(tmp_path: Path) -> None:
    path = tmp_path / "attempts-h-1.journal"
    written(path, ATTEMPTS)
    for count in (2, 3, 1):
        divide_journals(path, count)
        files = [journal_of(path, Spread(number, count)) for number in range(count)]
        assert sorted(tmp_path.glob("*.journal")) == sorted(files)
        by_worker = [serials(file) for file in files]
        assert {name: serial for each in by_worker for name, serial in each.items()} == {
            name: number for number, name in enumerate(ATTEMPTS, 1)
        }
        for number, each in enumerate(by_worker):
            assert {Spread(number, count).of_attempt(name) for name in each} <= {number}


def test_the_same_number_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "attempts-h-1.journal"
    own = journal_of(path, Spread(1, 2))
    written(own, ATTEMPTS)
    before = own.read_bytes()
    divide_journals(path, 2)
    assert own.read_bytes() == before


def test_a_division_that_was_cut_off_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "attempts-h-1.journal"
    written(path, ATTEMPTS)
    written(journal_of(path, Spread(0, 2)), [])
    divide_journals(path, 2)
    assert sum(len(serials(journal_of(path, Spread(number, 2)))) for number in range(2)) == len(ATTEMPTS)


def test_a_damaged_journal_is_set_aside_and_one_in_use_refused(tmp_path: Path) -> None:
    path = tmp_path / "attempts-h-1.journal"
    path.write_text("nonsense\n")
    divide_journals(path, 2)
    assert (tmp_path / "attempts-h-1.journal.aside").exists()
    assert serials(journal_of(path, Spread(0, 2))) == {}
    used = written(path, ATTEMPTS, close=False)
    with pytest.raises(QuicksilverError, match="another process uses it"):
        divide_journals(path, 2)
    used.close()
