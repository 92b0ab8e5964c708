"""Kairos' Algorithms 2 and 3 (thesis §4.3.2, §4.3.3) on sequences worked out by hand, with no delay in the network."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from quicksilver.simulator.model import ClusterModel, SimulatedJob
from quicksilver_lab.papers.systems.kairos_slots import SYSTEM, KairosSlots

pytestmark = pytest.mark.parametrize("production", [True, False], ids=["production", "fast"])
"""`sidecar.cpu_sharing.las` with `policies.place.variance`, and what the simulation has in their place."""


def ends(
    production: bool, nodes: int, jobs: Sequence[tuple[float, Sequence[float]]], **settings: float | str
) -> list[float]:
    """Return when each job ends; jobs: (arrival, durations)."""
    cfg = KairosSlots.model_validate({**settings, "machine": production, "policy": production})
    given = [SimulatedJob(number, at_s, tuple(durations), 1.0) for number, (at_s, durations) in enumerate(jobs)]
    result = SYSTEM.run(given, ClusterModel(nodes, delay_s=0.0), cfg, 0)
    return [job.ended_s for job in sorted(result.jobs, key=lambda job: job.number)]


def test_a_newcomer_runs_at_once_and_the_youngest_goes_on(production: bool) -> None:
    """One core, W = 10 s.

    0 t1; 4 t2 (t1: 4 s); 6 t3 (t2: 2 s); 16 the timer: t3 10 s, t2 runs; 19 t2 ends, t1 is youngest; 29 the timer: t1
    14 s, t3 runs its last 2 s; 31 t1 runs its last 16 s.
    """
    assert ends(production, 1, [(0, [30]), (4, [5]), (6, [12])], quantum_s=10) == [47, 19, 31]


def test_who_stands_still_for_three_quanta_runs_for_one(production: bool) -> None:
    """One core, W = 10 s, k = 3, m = 1.

    t1 gives way at 50 s, and runs again, by itself, from 80 to 90, 120 to 130 and 160 to 170. In between t2 and t3 take
    turns; t2 has 51 s of its 60 at 180, t3 59 s at 190, so t2 ends at 199, t3 at 200, and t1 does its last 20 s.
    """
    jobs = [(0.0, [100.0]), (50.0, [60.0]), (51.0, [60.0])]
    assert ends(production, 1, jobs, quantum_s=10, starve_quanta=3, protect_quanta=1) == [220, 199, 200]


def test_of_nodes_with_as_many_tasks_that_of_the_least_varied_service_is_chosen(production: bool) -> None:
    """Two nodes. At 31 s the first has tasks of 30 and 1 s, the second of 10 and 1 s: a task of 3 s goes there.

    It delays those of the second node: 83 and 173 s instead of 80 and 170.
    """
    jobs = [(0.0, [100.0]), (20.0, [100.0]), (30.0, [50.0, 50.0]), (31.0, [3.0])]
    assert ends(production, 2, jobs) == [150, 173, 83, 34]


def test_fewer_tasks_come_before_less_varied_service(production: bool) -> None:
    """At 31 s both have two, and each is given one more; that of 3 s is over at 34, so at 40 s the second has room.

    First node: 60 s from 31 to 91, then the youngest, of which 49 s are left, then 70 s. Second: 50 s but for 1 s from
    34 on, with 1 s in between for the newcomer, to 84, then 90 s.
    """
    jobs = [(0.0, [100.0]), (20.0, [100.0]), (30.0, [50.0, 50.0]), (31.0, [3.0, 60.0]), (40.0, [1.0])]
    assert ends(production, 2, jobs) == [210, 174, 140, 91, 41]


def test_a_node_is_given_n_and_q_tasks_and_the_rest_waits(production: bool) -> None:
    """N = 1, Q = 1, three of 10 s: the third comes when the second is over, and displaces the first again."""
    assert ends(production, 1, [(0, [10, 10, 10])], extra=1) == [30]
    assert ends(production, 1, [(0, [10, 10, 4])], extra=1) == [24]


def test_of_nodes_with_as_many_tasks_the_least_served_is_chosen_by_sum(production: bool) -> None:
    """At 40 s the first node has tasks of 20 and 20 s, the second of 8 and 20 s; a task of 3 s goes to the first by
    spread, to the second by sum (§4.5.3). There who attained less, or came first, goes on at 43 s.
    """
    jobs = [(0.0, [100.0]), (12.0, [100.0]), (20.0, [50.0, 50.0]), (40.0, [3.0])]
    assert ends(production, 2, jobs) == [123, 162, 153, 43]
    assert ends(production, 2, jobs, ties="sum") == [150, 135, 165, 43]
