"""What job names took, between the estimator and the store; how good estimates were, by the store."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.config.schema import Estimate
from policies.model import AppView
from quicksilver.common.messages import EventKind
from rm_proxy.domain.records import DurationRecord
from rm_proxy.estimates.estimator import Estimator
from rm_proxy.store import estimate_errors, learned_state
from rm_proxy.store.durations import stored_durations
from rm_proxy.store.learned_state import LearnedState
from rm_proxy.store.queries import History
from rm_proxy.store.store import Store
from rm_proxy.store.writer import StoreUnavailableError
from tests.rm_proxy.store.test_store import APP, grant, happened

RECORD = DurationRecord("SPARK", "etl", 20, 3, 20.0, 200.0, 100.0)


class Thread(Executor):
    """Runs what is submitted when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def work() -> None:
            try:
                future.set_result(call(*arguments))
            except StoreUnavailableError as error:
                future.set_exception(error)

        self.waiting.append(work)
        return future

    def work(self) -> None:
        while self.waiting:
            self.waiting.pop()()


class Kept:
    """A store that can be out, and an estimator that is kept in it."""

    def __init__(self, *records: DurationRecord) -> None:
        self.records, self.thread, self.estimator = list(records), Thread(), Estimator()
        self.ready, self.out = True, False
        self.written: list[DurationRecord] = []
        self.part = LearnedState(
            "durations",
            self.estimator,
            self.thread,
            ready=lambda: self.ready,
            read=self._read,
            keep=self.written.append,
        )

    def _read(self) -> list[DurationRecord]:
        if self.out:
            raise StoreUnavailableError("out")
        return self.records

    def observe(self, name: str, seconds: float) -> None:
        self.estimator.observe(AppView("a1", type="SPARK", name=name), 20, seconds, Estimate())

    def rounds(self, *at_s: float) -> None:
        for now_s in at_s:
            self.part.round(now_s)
            self.thread.work()


def test_what_was_kept_is_read_before_anything_is_written() -> None:
    it = Kept(RECORD)
    it.ready = False
    it.observe("etl", 40.0)
    it.rounds(0, 1, 2)
    assert not it.thread.waiting and not it.written, "the store has no tables yet"
    it.ready = True
    it.rounds(3, 4, 5)
    assert not it.written
    it.rounds(40)
    (row,) = it.written
    assert (row.count, row.mean_s, row.at_s) == (4, 25.0, 40.0), "the three that were kept and the one since"


def test_a_store_that_is_out_is_asked_again_and_nothing_is_overwritten() -> None:
    it = Kept(RECORD)
    it.out = True
    it.observe("etl", 40.0)
    it.rounds(*range(60))
    it.part.close(60)
    assert not it.written, "absolute rows would replace what is kept"
    it = Kept(RECORD)
    it.out = True
    it.observe("etl", 40.0)
    it.rounds(0, 1, 2)
    it.out = False
    it.rounds(*range(3, 60))
    assert [row.count for row in it.written] == [4]


def test_changes_are_written_each_half_minute_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_state, "MAX_WRITTEN", 2)
    it = Kept()
    it.rounds(0, 1)
    for name in ("a", "b", "c"):
        it.observe(name, 5.0)
    it.rounds(2, 20)
    assert not it.written
    it.rounds(31, 32)
    assert [row.app_name for row in it.written] == ["a", "b"], "no more at a time"
    it.observe("a", 7.0)
    it.part.close(33)
    assert [(row.app_name, row.mean_s) for row in it.written[2:]] == [("c", 5.0), ("a", 6.0)]


def test_rows_come_back_from_the_store_the_latest_first(store: Store) -> None:
    later = replace(RECORD, count=4, at_s=200.0)
    store.write([RECORD, replace(RECORD, priority=10, at_s=150.0)])
    store.write([later])
    assert stored_durations(store) == [later, replace(RECORD, priority=10, at_s=150.0)]
    store.engine.dispose()


def test_reading_without_tables_says_so(tmp_path: Any) -> None:
    (tmp_path / "p.db").touch()
    empty = Store(f"sqlite:///{tmp_path / 'p.db'}")
    with pytest.raises(StoreUnavailableError, match="no such table: durations"):
        stored_durations(empty)
    with pytest.raises(StoreUnavailableError, match="no such table"):
        History(empty).estimates(since_s=0, bucket_s=1)
    empty.close()


def expected(number: int, expected_s: float) -> Any:
    return replace(grant(number), expected_s=expected_s)


def test_errors_by_time(store: Store) -> None:
    """10 s were expected of all; the first three ran 10, 8 and 5 s, the last one 40 s a minute later."""
    store.write([APP, *(expected(n, 10.0) for n in range(1, 6))])
    ran = [(1, 10.0), (2, 8.0), (3, 5.0), (70, 40.0)]
    store.write([happened(seq, n, EventKind.ENDED, ran_s=s) for n, (seq, s) in enumerate(ran, 1)])
    store.write([happened(90, 5, EventKind.KILLED, ran_s=1.0), happened(91, 9, EventKind.ENDED, ran_s=1.0)])
    errors = History(store).estimates(since_s=2000.0, bucket_s=60.0)
    first, last = errors.buckets
    assert (first.from_s, first.count, first.median_error, first.p95_error) == (2000.0, 3, 0.25, 1.0)
    assert (first.mean_error, first.bias) == pytest.approx((1.25 / 3, 7 / 23))
    assert (last.from_s, last.count, last.median_error, last.bias) == (2060.0, 1, 0.75, -0.75)
    assert errors.all is not None and (errors.all.count, errors.all.mean_ran_s) == (4, 63 / 4)
    assert History(store).estimates(since_s=2010.0, bucket_s=60.0, app_id=APP.id).buckets[0].from_s == 2070.0
    assert History(store).estimates(since_s=0.0, bucket_s=60.0, app_id="application_9").all is None


def test_a_shrunk_container_ran_as_long_as_it_had_cpu(store: Store) -> None:
    store.write([expected(1, 10.0), expected(2, 10.0), expected(3, 1.0)])
    store.write(
        [
            happened(1, 1, EventKind.ENDED, ran_s=40.0, attained_s=20.0, times_shrunk=1),
            happened(2, 2, EventKind.ENDED, ran_s=40.0, attained_s=20.0),
            happened(3, 3, EventKind.ENDED, ran_s=0.0),
        ]
    )
    errors = History(store).estimates(since_s=2000.0, bucket_s=1.0).buckets
    assert [one.mean_error for one in errors] == pytest.approx([0.5, 0.75, 99.0])


def test_the_newest_spans_are_answered(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate_errors, "MAX_BUCKETS", 2)
    store.write([expected(n, 1.0) for n in range(1, 5)])
    store.write([happened(n, n, EventKind.ENDED, ran_s=1.0) for n in range(1, 5)])
    errors = History(store).estimates(since_s=2000.0, bucket_s=1.0)
    assert [one.from_s for one in errors.buckets] == [2003.0, 2004.0]
    assert errors.all is not None and errors.all.count == 4


@given(
    st.lists(st.tuples(st.sampled_from(["etl", "report", "load"]), st.floats(0.01, 1e4)), max_size=20),
    st.integers(0, 20),
)
def test_a_restart_in_between_changes_nothing(ran: list[tuple[str, float]], at: int) -> None:
    """What the second process has at the end is what one process would have kept."""
    whole, first = Kept(), Kept()
    for it, part in ((whole, ran), (first, ran[:at])):
        it.rounds(0, 1)
        for name, seconds in part:
            it.observe(name, seconds)
        it.part.close(2)
    second = Kept(*first.written)
    for name, seconds in ran[at:]:
        second.observe(name, seconds)
    second.rounds(3, 4)
    second.part.close(5)
    got = {row.app_name: row for row in [*first.written, *second.written]}
    want = {row.app_name: row for row in whole.written}
    assert got.keys() == want.keys()
    for name, row in want.items():
        assert got[name].count == row.count
        assert (got[name].mean_s, got[name].m2) == pytest.approx((row.mean_s, row.m2), rel=1e-6, abs=1e-6)
