"""What nodes use by the time of the week: slots, weeks that follow each other, minutes, rows, bounds."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.model import Resources
from rm_proxy.coordinator.nodes import usage_history
from rm_proxy.coordinator.nodes.usage_history import MINUTES, SLOTS, UsageHistory, Week, utc, weeks_of
from rm_proxy.domain.records import UseRecord
from rm_proxy.store.store import Store
from rm_proxy.store.usage_rows import stored_usage
from rm_proxy.store.writer import StoreUnavailableError

MONDAY_S = datetime(2026, 1, 5, tzinfo=UTC).timestamp()
WEEK_S = 604_800.0
NODE = "n1:8041"


def used(memory_mb: int) -> Resources:
    return Resources(memory_mb, memory_mb / 1000)


def see(history: UsageHistory, begin_s: float, *by_slot: int, every_s: float = 30.0) -> None:
    """Report a use for each quarter of an hour from `begin_s` on, and once after them."""
    for number, memory_mb in enumerate(by_slot):
        for step in range(int(900 / every_s)):
            history.observe(NODE, used(memory_mb), begin_s + 900 * number + every_s * step)
    history.observe(NODE, used(0), begin_s + 900 * len(by_slot))


def test_a_slot_is_counted_when_it_is_over() -> None:
    history = UsageHistory()
    see(history, MONDAY_S, 1000)
    [row] = history.changed(1000, 0.0)
    assert row == UseRecord(NODE, 0, 1, 1000, 1000, 1.0, 1.0, 0.0)
    assert history.changed(1000, 0.0) == []


def test_the_mean_is_by_time_and_the_peak_by_moment() -> None:
    history = UsageHistory()
    history.observe(NODE, used(0), MONDAY_S)
    for second in range(0, 900, 45):
        history.observe(NODE, used(3000 if second < 450 else 1000), MONDAY_S + second)
    history.observe(NODE, used(9000), MONDAY_S + 899)
    history.observe(NODE, used(0), MONDAY_S + 900)
    [row] = history.changed(1000, 0.0)
    assert row.mean_mb == pytest.approx((450 * 3000 + 449 * 1000 + 9000) / 900, abs=1)
    assert row.peak_mb == 9000


def test_a_slot_that_was_hardly_seen_is_not_counted() -> None:
    history = UsageHistory()
    for second in (0, 100, 200, 400, 899, 900):
        history.observe(NODE, used(1000), MONDAY_S + second)  # a gap counts a minute at most
    assert history.changed(1000, 0.0) == []


@pytest.mark.parametrize(
    ("moment", "slot"),
    [((5, 0, 0), 0), ((5, 0, 15), 1), ((5, 23, 59), 95), ((6, 0, 0), 96), ((11, 23, 45), SLOTS - 1), ((12, 0, 0), 0)],
)
def test_slots_of_the_week(moment: tuple[int, int, int], slot: int) -> None:
    day, hour, minute = moment
    now_s = datetime(2026, 1, day, hour, minute, tzinfo=UTC).timestamp()
    history = UsageHistory()
    see(history, now_s - now_s % 900, 500)
    assert [row.slot for row in history.changed(1000, 0.0)] == [slot]


def test_days_are_those_of_the_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")  # 5:30 ahead
    time.tzset()
    try:
        history = UsageHistory(time.localtime)
        see(history, MONDAY_S, 500)
        assert [row.slot for row in history.changed(1000, 0.0)] == [22]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_weeks_follow_each_other_and_the_peak_comes_down_slowly() -> None:
    history = UsageHistory()
    values = []
    for week, memory_mb in enumerate((1000, 3000, 2000)):
        see(history, MONDAY_S + week * WEEK_S, memory_mb)
        row = history.changed(1000, 0.0)[-1]
        values.append((row.count, round(row.mean_mb), round(row.peak_mb)))
    assert values == [(1, 1000, 1000), (2, 2000, 3000), (3, 2000, 2667)]


def test_old_weeks_fade() -> None:
    week = Week()
    for _ in range(50):
        week.add(7, (1000, 1000), (1, 1))
    for _ in range(24):
        week.add(7, (2000, 2000), (2, 2))
    count, mean, _ = week.of(7)
    assert count == 74
    assert mean.memory_mb > 1900


def test_what_is_usual_ahead() -> None:
    history = UsageHistory()
    see(history, MONDAY_S, 1000, 2000, 3000)
    now_s = MONDAY_S + WEEK_S + 60
    history.observe(NODE, used(0), now_s)
    usual = history.usual(NODE)
    assert [(u.begins_s - MONDAY_S - WEEK_S, u.mean.memory_mb, u.weeks) for u in usual] == [
        (0, 1000, 1),
        (900, 2000, 1),
        (1800, 3000, 1),
    ]
    assert history.usual("other:1") == ()
    history.observe(NODE, used(0), now_s + 900)
    assert [u.mean.memory_mb for u in history.usual(NODE)] == [2000, 3000]


def test_the_week_goes_round() -> None:
    history = UsageHistory()
    see(history, MONDAY_S, 1000)
    history.observe(NODE, used(0), MONDAY_S + WEEK_S - 60)
    assert [u.begins_s for u in history.usual(NODE)] == [MONDAY_S + WEEK_S]


def test_the_last_minutes() -> None:
    history = UsageHistory()
    for second, memory_mb in ((0, 10), (30, 50), (59, 20), (60, 30), (200, 5)):
        history.observe(NODE, used(memory_mb), MONDAY_S + second)
    assert [use.memory_mb for use in history.recent(NODE)] == [5, 30, 50]
    for minute in range(4, 200):
        history.observe(NODE, used(minute), MONDAY_S + 60 * minute)
    assert len(history.recent(NODE)) == MINUTES
    assert history.recent("other:1") == ()


def test_the_clock_may_be_set_back() -> None:
    history = UsageHistory()
    see(history, MONDAY_S, 1000)
    history.observe(NODE, used(9000), MONDAY_S + 100)
    assert history.recent(NODE)[0].memory_mb == 0


def test_rows_come_back_from_the_store() -> None:
    history = UsageHistory()
    see(history, MONDAY_S, 1000, 2000)
    rows = history.changed(1000, 0.0)
    again = UsageHistory()
    again.restore(weeks_of(rows))
    again.observe(NODE, used(0), MONDAY_S + WEEK_S)
    assert [u.mean.memory_mb for u in again.usual(NODE)] == [1000, 2000]


def test_what_was_seen_since_the_start_counts_as_one_week_more() -> None:
    history = UsageHistory()
    see(history, MONDAY_S, 5000)
    stored = [UseRecord(NODE, slot, 4, 100, 200, 1, 2, 0.0) for slot in (0, 1, 5)]
    history.restore(weeks_of(stored))
    history.observe(NODE, used(0), MONDAY_S + WEEK_S)
    assert [(u.mean.memory_mb, u.weeks) for u in history.usual(NODE)] == [(1080, 5), (100, 4), (100, 4)]


def test_rows_are_given_once_and_no_more_than_wanted() -> None:
    history = UsageHistory()
    see(history, MONDAY_S, 1, 2, 3)
    assert [row.slot for row in history.changed(2, 7.0)] == [0, 1]
    assert [(row.slot, row.at_s) for row in history.changed(2, 8.0)] == [(2, 8.0)]
    assert history.changed(2, 9.0) == []


def test_rows_out_of_range_are_left_out() -> None:
    rows = [UseRecord(NODE, slot, count, 1, 1, 1, 1, 0.0) for slot, count in ((-1, 1), (SLOTS, 1), (3, 0))]
    assert weeks_of(rows) == {}


def test_nodes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_history, "MAX_NODES", 2)
    history = UsageHistory()
    see(history, MONDAY_S, 1)
    history.restore(weeks_of([UseRecord(f"n{n}:1", 0, 1, 1, 1, 1, 1, 0.0) for n in range(2, 5)]))
    assert list(history._weeks) == ["n3:1", "n4:1"]
    assert history.changed(10, 0.0) == []


def test_a_node_that_comes_back_has_its_weeks() -> None:
    history = UsageHistory()
    see(history, MONDAY_S, 1000)
    history.forget(NODE)
    assert history.recent(NODE) == ()
    assert history.usual(NODE) == ()
    history.observe(NODE, used(0), MONDAY_S + WEEK_S)
    assert [u.mean.memory_mb for u in history.usual(NODE)] == [1000]


def test_weeks_outlive_the_proxy(tmp_path: Path) -> None:
    (tmp_path / "p.db").touch()
    store = Store(f"sqlite:///{tmp_path / 'p.db'}")
    with pytest.raises(StoreUnavailableError, match="no such table: node_use"):
        stored_usage(store)
    store.close()
    store = Store(f"sqlite:///{tmp_path / 'q.db'}")
    store.open()
    history = UsageHistory()
    see(history, MONDAY_S, 1000, 2000)
    store.write(history.changed(1000, MONDAY_S))
    see(history, MONDAY_S + WEEK_S, 3000)
    store.write(history.changed(1000, MONDAY_S))
    again = UsageHistory()
    again.restore(stored_usage(store))
    store.close()
    again.observe(NODE, used(0), MONDAY_S + 2 * WEEK_S)
    assert [(u.weeks, u.mean.memory_mb) for u in again.usual(NODE)] == [(2, 2000), (1, 2000)]


@given(st.lists(st.tuples(st.integers(1, 2000), st.integers(0, 100_000)), min_size=1, max_size=60))
def test_means_lie_within_what_was_seen_and_peaks_are_no_lower(steps: list[tuple[int, int]]) -> None:
    history, now_s = UsageHistory(utc), MONDAY_S
    for after_s, memory_mb in steps:
        now_s += after_s
        history.observe(NODE, used(memory_mb), now_s)
    seen = [memory_mb for _, memory_mb in steps]
    for row in history.changed(1000, 0.0):
        assert 0 <= row.slot < SLOTS
        assert min(seen) - 1 <= row.mean_mb <= max(seen) + 1
        assert row.mean_mb - 1 <= row.peak_mb <= max(seen) + 1
