"""Big-C: shares of two classes, and long tasks that are suspended for short ones and go on where they were."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tests.papers.checks import wrong
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver_lab.papers.algorithms.class_shares import (
    ClassShares,
    Klass,
    Use,
    free_slot_goes_to,
    long_slots,
    may_suspend,
)
from quicksilver_lab.papers.systems.bigc import SYSTEM, BigCSettings


def run(jobs: list[SimulatedJob], cluster: ClusterModel, **shares: float) -> SimResult:
    cfg = BigCSettings(cutoff_s=50, shares=ClassShares.model_validate(shares))
    result = SYSTEM.run(iter(jobs), cluster, cfg, 0)
    assert wrong(result, jobs, cluster) == []
    return result


def ends(jobs: list[SimulatedJob], cluster: ClusterModel, **shares: float) -> list[float]:
    result = run(jobs, cluster, **shares)
    return [job.ended_s for job in sorted(result.jobs, key=lambda job: job.number)]


@pytest.mark.parametrize(
    ("long", "short_waits", "long_waits", "klass"),
    [
        (0, True, True, Klass.LONG),
        (6, True, True, Klass.SHORT),
        (6, False, True, Klass.LONG),
        (0, True, False, Klass.SHORT),
        (6, False, False, None),
    ],
)
def test_a_free_slot_goes_to_the_class_below_its_share(
    long: int, short_waits: bool, long_waits: bool, klass: Klass | None
) -> None:
    assert long_slots(120, ClassShares()) == 6
    assert free_slot_goes_to(Use(120, long, short_waits, long_waits), ClassShares()) is klass


def test_only_long_tasks_beyond_their_share_are_suspended_and_not_too_many_of_a_node() -> None:
    cfg = ClassShares(suspended=2)
    assert may_suspend(Use(120, 7, True, True), 1, cfg)
    assert not may_suspend(Use(120, 6, True, True), 1, cfg)
    assert not may_suspend(Use(120, 7, True, True), 2, cfg)
    assert not may_suspend(Use(120, 7, False, True), 1, cfg)


LONG = SimulatedJob(0, 0.0, (100.0, 100.0), 100.0)
ALONE = ClusterModel(1, 2, delay_s=0.0)


def test_a_short_task_takes_the_slot_of_a_long_one_which_loses_nothing() -> None:
    """Two slots, both for short jobs; two long tasks. From 10 to 15 s both stand still, then one until 17 s."""
    short = SimulatedJob(1, 10.0, (5.0, 7.0), 6.0)
    assert ends([LONG, short], ALONE, short_ratio=1.0) == [107, 17]
    assert run([LONG, short], ALONE, short_ratio=1.0).counts["preemptions"] == 2


def test_the_share_of_the_long_class_is_left_alone() -> None:
    """One slot of the two is theirs: the short tasks take turns on the other."""
    short = SimulatedJob(1, 10.0, (5.0, 7.0), 6.0)
    assert ends([LONG, short], ALONE, short_ratio=0.5) == [112, 22]


def test_a_short_task_does_not_displace_a_short_one() -> None:
    jobs = [SimulatedJob(0, 0.0, (40.0,), 40.0), SimulatedJob(1, 1.0, (1.0,), 1.0)]
    assert ends(jobs, ClusterModel(1, delay_s=0.0)) == [40, 41]


def test_what_memory_does_not_hold_is_not_suspended() -> None:
    jobs = [LONG, SimulatedJob(1, 10.0, (5.0, 7.0), 6.0)]
    assert ends(jobs, ALONE, short_ratio=1.0, suspended=1) == [112, 22]
    assert ends(jobs, ALONE, short_ratio=1.0, suspended=0) == [100, 107]


jobs_drawn = st.lists(
    st.tuples(st.integers(0, 200), st.sampled_from([5, 20, 60, 150]), st.integers(0, 8)), min_size=1, max_size=20
)


@given(jobs_drawn, st.integers(1, 4), st.integers(1, 3), st.sampled_from([0.0, 0.5, 0.95, 1.0]), st.integers(0, 3))
@settings(deadline=None, max_examples=80)
def test_what_always_holds(
    drawn: list[tuple[int, int, int]], nodes: int, slots: int, ratio: float, suspended: int
) -> None:
    rng = Random(len(drawn))
    jobs = [
        SimulatedJob(number, float(at_s), tuple(mean_s * rng.uniform(0.2, 2.0) for _ in range(tasks)), float(mean_s))
        for number, (at_s, mean_s, tasks) in enumerate(sorted(drawn))
    ]
    for delay_s in (0.0, 0.5):
        cluster = ClusterModel(nodes, slots, delay_s=delay_s)
        first = run(jobs, cluster, short_ratio=ratio, suspended=suspended)
        assert first == run(jobs, cluster, short_ratio=ratio, suspended=suspended)
