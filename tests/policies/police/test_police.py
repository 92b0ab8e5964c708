"""Policing: what is left beside the use now, the recent peak, and what was usual at the time that comes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.model import NodeUse, NodeView, Resources, Usual
from policies.police.history import HistoricalUse
from policies.police.history import police as history
from policies.police.memory_limit import MemoryLimit
from policies.police.memory_limit import police as memory_limit

NODE = Resources(10_000, 10)
NOW_S = 1_000_000.0


def quarter(number: int, mean_mb: int, peak_mb: int, weeks: int = 3) -> Usual:
    """Return what is usual in the quarter of an hour of this number from now; a vcore for each 1000 MB."""
    begins_s = NOW_S - 60 + 900 * number
    mean, peak = Resources(mean_mb, mean_mb / 1000), Resources(peak_mb, peak_mb / 1000)
    return Usual(begins_s, begins_s + 900, weeks, mean, peak)


def left_mb(used_mb: int = 0, *recent_mb: int, usual: tuple[Usual, ...] = (), **settings: Any) -> int:
    recent = tuple(Resources(mb, mb / 1000) for mb in recent_mb)
    use = NodeUse("n:1", NODE, Resources(used_mb, used_mb / 1000), recent, usual)
    found = history(use, HistoricalUse(**({"margin_ratio": 0.0} | settings)), NOW_S)
    assert found is not None
    assert found.resources.vcores == pytest.approx(found.resources.memory_mb / 1000, abs=0.002)
    return found.resources.memory_mb


def test_without_history_the_present_and_the_recent_peak_count() -> None:
    assert left_mb(2000) == 8000
    assert left_mb(2000, 2000, 6000, 1000) == 4000
    assert left_mb(2000, *[2000] * 5, 6000, recent_s=300) == 8000
    assert left_mb(2000, *[2000] * 5, 6000, recent_s=301) == 4000


def test_the_usual_peak_is_kept_free_before_it_comes() -> None:
    ahead = (quarter(0, 1000, 1000), quarter(1, 7000, 7000), quarter(2, 9000, 9000))
    assert left_mb(1000, usual=ahead, horizon_s=800) == 9000
    assert left_mb(1000, usual=ahead, horizon_s=900) == 3000
    assert left_mb(1000, usual=ahead, horizon_s=3600) == 1000


def test_mean_and_peak_mix() -> None:
    usual = (quarter(0, 4000, 8000),)
    assert [left_mb(usual=usual, peak_ratio=part) for part in (0, 0.5, 1)] == [6000, 4000, 2000]


def test_too_few_weeks_tell_nothing() -> None:
    usual = (quarter(0, 8000, 8000, weeks=2),)
    assert left_mb(usual=usual, min_weeks=2) == 2000
    assert left_mb(usual=usual, min_weeks=3) == 10_000


def test_what_is_over_does_not_count() -> None:
    assert left_mb(usual=(quarter(-1, 9000, 9000),)) == 10_000


def test_a_margin_stays_free_and_nothing_goes_below_zero() -> None:
    assert left_mb(2000, margin_ratio=0.05) == 7500
    assert left_mb(9900, margin_ratio=0.05) == 0


def test_reason_has_the_figures() -> None:
    found = history(NodeUse("n:1", NODE, Resources(2000, 2), (), (quarter(0, 4000, 4000),)), HistoricalUse(), NOW_S)
    assert found is not None
    assert found.reason == "history: guaranteed ones used up to 2000 MB lately, usual 4000 MB until 900 s from now"


@given(
    st.integers(0, 12_000),
    st.lists(st.integers(0, 12_000), max_size=60),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)), max_size=17),
)
def test_what_is_left_and_what_is_used_fit_the_node(used: int, recent: list[int], usual: list[tuple[int, int]]) -> None:
    slots = tuple(quarter(number, min(pair), max(pair)) for number, pair in enumerate(usual))
    left = left_mb(used, *recent, usual=slots)
    assert left >= 0
    assert left == 0 or used + left <= NODE.memory_mb


@pytest.mark.parametrize(("max_ratio", "mb"), [(0.2, 2000), (0.3, 3000), (0.4, 4000), (1.0, 10_000)])
def test_memory_limit_of_table_1(max_ratio: float, mb: int) -> None:
    found = memory_limit(NodeUse("n:1", NODE, Resources(7000, 7)), MemoryLimit(max_ratio=max_ratio), NOW_S)
    assert found is not None
    assert found.resources == Resources(mb, 10)


def test_a_limited_node_has_no_room_beyond_it() -> None:
    view = NodeView("n:1", capacity=NODE, used_q=Resources(2000, 2), limit_q=Resources(3000, 10))
    assert view.has_room(Resources(1000, 1))
    assert not view.has_room(Resources(1001, 1))
    few = NodeView("n:1", capacity=NODE, used_q=Resources(2000, 2), limit_q=Resources(9000, 2.5))
    assert not few.has_room(Resources(1000, 1))
    shared = NodeView("n:1", capacity=NODE, used_q=Resources(2000, 2), limit_q=Resources(9000, 2.5), slots=4)
    assert shared.has_room(Resources(1000, 1))
