"""The fast Kairos decides as the production machine and the production policy do, and keeps what every run keeps."""

from __future__ import annotations

from dataclasses import asdict, replace
from random import Random
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tests.papers.checks import wrong
from quicksilver.simulator.errors import SimulatorError
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver.simulator.systems import load
from quicksilver_lab.papers.systems.kairos_slots import SYSTEM, KairosSlots

TICK_S = 2.0**-6
"""Times are binary fractions, of which sums are exact: then equal decisions are equal figures."""


def jobs_of(rng: Random, jobs: int, span: int, longest: int) -> list[SimulatedJob]:
    """Return jobs of 1 to 6 tasks, short ones and long ones."""
    arrivals = sorted(rng.randrange(span * 64) for _ in range(jobs))
    return [
        SimulatedJob(
            number,
            at * TICK_S,
            tuple(rng.randrange(1, rng.choice((200, longest * 64))) * TICK_S for _ in range(rng.randrange(1, 7))),
            1.0,
        )
        for number, at in enumerate(arrivals)
    ]


def outcome(result: SimResult) -> list[object]:
    """Return what has to be equal: when all jobs ended and began, who was preempted how often, and the slots."""
    counts = {name: count for name, count in result.counts.items() if name != "events"}
    return [[asdict(job) for job in result.jobs], counts, result.busy]


def compare(jobs: list[SimulatedJob], cluster: ClusterModel, cfg: KairosSlots) -> SimResult:
    """Run both; return the fast one's result."""
    fast = SYSTEM.run(jobs, cluster, cfg, 0)
    slow = SYSTEM.run(jobs, cluster, replace_settings(cfg, machine=True, policy=True), 0)
    assert outcome(fast) == outcome(slow)
    assert wrong(fast, jobs, cluster) == []
    return fast


def replace_settings(cfg: KairosSlots, **more: bool) -> KairosSlots:
    return KairosSlots(**(cfg.model_dump() | more))


@given(
    st.integers(0, 2**32),
    st.integers(1, 20),
    st.integers(1, 4),
    st.sampled_from([(10.0, 2, 3, 1), (4.0, 3, 1, 2), (16.0, 1, 2, 1), (1.0, 4, 3, 3), (10.0, 0, 3, 1)]),
    st.sampled_from([0.0, TICK_S, 1.0]),
)
@settings(deadline=None, max_examples=30)
def test_decides_as_production_does(
    seed: int, jobs: int, nodes: int, rule: tuple[float, int, int, int], delay_s: float
) -> None:
    quantum_s, extra, starve, protect = rule
    cfg = KairosSlots(quantum_s=quantum_s, extra=extra, starve_quanta=starve, protect_quanta=protect, sample_s=64)
    compare(jobs_of(Random(seed), jobs, 100, 120), ClusterModel(nodes, delay_s=delay_s), cfg)


def test_decides_as_production_does_on_a_longer_run() -> None:
    """Enough of each: nodes that are full, starving tasks, and choices by spread."""
    cfg = KairosSlots(quantum_s=4.0, sample_s=64)
    fast = compare(jobs_of(Random(5), 120, 480, 60), ClusterModel(12, delay_s=TICK_S), cfg)
    assert fast.counts["preemptions"] > 500


@pytest.mark.parametrize(("machine", "slots"), [(False, 1), (True, 2)])
def test_what_always_holds(machine: bool, slots: int) -> None:
    jobs, cluster = jobs_of(Random(1), 150, 300, 40), ClusterModel(10, slots)
    cfg = KairosSlots(quantum_s=5.0, machine=machine)
    first = SYSTEM.run(iter(jobs), cluster, cfg, 0)
    assert wrong(first, jobs, cluster) == []
    assert outcome(first) == outcome(SYSTEM.run(iter(jobs), cluster, cfg, 0))


def test_what_it_cannot_do_is_said() -> None:
    job = SimulatedJob(1, 5.0, (1.0,), 1.0)
    with pytest.raises(SimulatorError, match="job 1: tasks of 2 cores"):
        SYSTEM.run([replace(job, cores=2)], ClusterModel(1), KairosSlots(), 0)
    with pytest.raises(SimulatorError, match="sort the trace"):
        SYSTEM.run([job, replace(job, number=2, arrives_s=4.0)], ClusterModel(1), KairosSlots(), 0)


def test_jobs_without_tasks_are_over_at_once() -> None:
    jobs = [SimulatedJob(1, 5.0, (), 1.0)]
    assert wrong(SYSTEM.run(jobs, ClusterModel(1), KairosSlots(), 0), jobs, ClusterModel(1)) == []


def test_it_is_found_by_name() -> None:
    assert load("kairos_slots").name == "kairos_slots"


def test_a_task_that_is_over_changes_its_nodes_spread_before_that_is_reported() -> None:
    """A second of delay: what is known of how many tasks a node has is older than their spread."""
    cfg = KairosSlots(quantum_s=10.0, sample_s=64)
    compare(jobs_of(Random(0), 8, 100, 120), ClusterModel(4, delay_s=1.0), cfg)


@pytest.mark.parametrize("slots", (1, 2))
@pytest.mark.parametrize("ties", ("sum", "random"))
def test_other_ties_lose_nothing_and_a_seed_tells_chance(ties: Literal["sum", "random"], slots: int) -> None:
    jobs, cluster, cfg = jobs_of(Random(1), 40, 60, 40), ClusterModel(4, slots), KairosSlots(quantum_s=5.0, ties=ties)
    first, again, other = (SYSTEM.run(jobs, cluster, cfg, seed) for seed in (1, 1, 2))
    assert wrong(first, jobs, cluster) == []
    assert outcome(first) == outcome(again)
    assert (outcome(first) == outcome(other)) is (ties == "sum")
