"""Shedding policies: the limits by mean and deviation, of waits and of lengths."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.model import NodeView
from policies.shed.mean_sigma import MeanSigma
from policies.shed.mean_sigma import shed as mean_sigma
from policies.shed.queue_length import QueueLength, threshold
from policies.shed.queue_length import shed as queue_length


def nodes(*waits_s: float) -> list[NodeView]:
    return [NodeView(f"n{number}:1", queued_s=wait) for number, wait in enumerate(waits_s)]


def limit_s(*waits_s: float, c: float = 2.0, min_wait_s: float = 0.0) -> float | None:
    found = mean_sigma(nodes(*waits_s), MeanSigma(c=c, min_wait_s=min_wait_s), 0.0)
    assert len({target.max_wait_s for target in found.values()}) == 1
    assert set(found) == {f"n{number}:1" for number in range(len(waits_s))}
    return found["n0:1"].max_wait_s


def test_limit_is_the_mean_and_c_deviations() -> None:
    waits = [0.0] * 9 + [100.0]  # mean 10, deviation 30
    assert limit_s(*waits) == pytest.approx(70)
    assert limit_s(*waits, c=1) == pytest.approx(40)
    assert limit_s(*waits, c=0) == pytest.approx(10)


def test_short_waits_are_left_alone() -> None:
    assert limit_s(0, 0, 0, 0, 0, 0, 0, 4, min_wait_s=5) == 5
    found = mean_sigma(nodes(0, 1), MeanSigma(), 0.0)["n0:1"]
    assert found.reason == "mean_sigma: mean 0.5 s + 2 sigma of 0.5 s over 2 nodes, at least 5 s"


def test_no_nodes_no_limits() -> None:
    assert mean_sigma([], MeanSigma(), 0.0) == {}
    assert queue_length([], QueueLength(), 0.0) == {}


def test_bounds_of_shedding_go_with_the_limit() -> None:
    found = mean_sigma(nodes(1, 2), MeanSigma(max_sheds=1, max_share_ratio=0.5, settle_s=7), 0.0)["n0:1"]
    assert (found.max_sheds, found.max_share_ratio, found.settle_s) == (1, 0.5, 7)


@given(st.floats(0, 1e6), st.integers(1, 300), st.floats(0, 5))
def test_nothing_exceeds_the_limit_where_all_nodes_are_alike(wait_s: float, count: int, c: float) -> None:
    found = limit_s(*[wait_s] * count, c=c)
    assert found is not None
    assert found >= wait_s * (1 - 1e-12)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.floats(0, 5))
def test_the_shortest_queue_is_never_over_the_limit(waits_s: list[float], c: float) -> None:
    found = limit_s(*waits_s, c=c)
    assert found is not None
    assert found >= min(waits_s) * (1 - 1e-12)


@pytest.mark.parametrize(("count", "sheds"), [(5, False), (6, True)])
def test_two_deviations_need_six_nodes(count: int, sheds: bool) -> None:
    """Of n nodes none lies more than (n - 1) / sqrt(n) deviations above the mean."""
    found = limit_s(*[0.0] * (count - 1), 1000.0)
    assert found is not None
    assert (found < 1000.0) is sheds


def test_lengths_as_the_resourcemanager_counts_them() -> None:
    """QueueLimitCalculator: mean 15 / 4 in whole numbers is 3, deviation sqrt((9 + 4 + 1 + 36) / 4) rounds to 4."""
    assert threshold([0, 1, 4, 9], QueueLength(min_length=0, sigma=1)) == 7
    assert threshold([0, 1, 4, 9], QueueLength(min_length=0, sigma=2)) == 11
    assert threshold([0, 1, 4, 9], QueueLength(min_length=0, sigma=0.5)) == 5
    assert threshold([0, 0], QueueLength()) == 5
    assert threshold([100, 100], QueueLength()) == 15
    assert threshold([7], QueueLength(min_length=9, max_length=3)) == 3


@given(st.lists(st.integers(0, 500), min_size=1, max_size=50))
def test_length_limit_is_near_mean_and_deviation_and_within_its_bounds(lengths: list[int]) -> None:
    cfg = QueueLength(min_length=3, max_length=400)
    found = threshold(lengths, cfg)
    assert 3 <= found <= 400
    exact = statistics.fmean(lengths) + statistics.pstdev(lengths)
    if 5 < exact < 397:
        assert abs(found - exact) < 3


def test_queue_length_target() -> None:
    views = [NodeView(f"n{number}:1", queue_length=length) for number, length in enumerate((0, 1, 4, 9))]
    found = queue_length(views, QueueLength(), 0.0)
    assert {target.max_queue for target in found.values()} == {7}
    assert found["n3:1"].max_wait_s is None
    assert found["n3:1"].max_share_ratio == 1
