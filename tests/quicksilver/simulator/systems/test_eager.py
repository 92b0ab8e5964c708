"""What the world leaves out changes nothing: with `eager` it does all of it, and comes to the same."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from quicksilver.simulator.clock import Clock
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver.simulator.systems import load
from quicksilver.simulator.systems.mercury import MERCURY
from tests.examples import others_long

SETTINGS: dict[str, dict[str, Any]] = {
    "mercury": {},
    "mercury with slow nodes": {"slow_nodes": 0.3, "slow_times": 3.0, "corrected": False},
    "mercury, reports each 20 s": {"report_s": 20.0, "max_jobs": 2},
    "mercury, guaranteed alone": {"policies": {"queues": ["*"], "routes": [{"policy": "only_g"}]}},
    "mercury, half guaranteed": {
        "policies": {**MERCURY, "routes": [{"policy": "hybrid_gq", "settings": {"pq": 0.5}}], "retries_to_g": 1}
    },
    "mercury, reused containers": {"reuse_s": 0.5, "master_start_s": 1.0},
    "mercury, masters in the cluster": {"master_cores": 1, "master_start_s": 1.0},
    "opportunistic": {},
    "quicksilver": {"slow_nodes": 0.3, "slow_times": 3.0},
    "quicksilver, guaranteed alone": {"policies": {"queues": ["*"], "routes": [{"policy": "only_g"}]}},
    "quicksilver with slow start": {"slow_start_ratio": 0.05},
    "kairos": {"policies": {**MERCURY, "preempt": {"policy": "las", "settings": {"quantum_s": 3, "extra": 2}}}},
}


def workload(rng: Random) -> tuple[list[SimulatedJob], ClusterModel]:
    """Return jobs with pauses between them, some of which leave the cluster empty."""
    cluster = ClusterModel(rng.randint(1, 8), rng.randint(1, 3), rng.choice([0, 4096]))
    jobs, at_s = [], 0.0
    for number in range(1, rng.randint(2, 6)):
        durations_s = tuple(rng.choice([1.0, 2.5, 7.0, rng.expovariate(0.2)]) for _ in range(rng.randint(1, 12)))
        estimate_s = rng.choice([0.5, 1.0, 3.0]) * sum(durations_s) / len(durations_s)
        first = rng.randint(0, len(durations_s) - 1)
        stages = (first, len(durations_s) - first) if first else ()
        jobs.append(SimulatedJob(number, at_s, durations_s, estimate_s=estimate_s, stages=stages))
        at_s += rng.choice([0.0, 1.0, rng.uniform(0, 10), 40.0])
    return jobs, cluster


def run(name: str, jobs: list[SimulatedJob], cluster: ClusterModel, seed: int, eager: bool) -> tuple[SimResult, int]:
    system = load(name.partition(",")[0].partition(" ")[0])
    chosen = system.Settings(**SETTINGS[name], eager=eager, sample_s=5.0)
    result = system.run(iter(jobs), cluster, chosen, seed)
    counts = dict(result.counts)
    events = counts.pop("events")
    return replace(result, counts=counts), events


@pytest.mark.parametrize("name", others_long(list(SETTINGS)))
@given(st.integers(0, 10_000))
@settings(max_examples=2, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow])
def test_what_is_left_out_changes_nothing(name: str, seed: int) -> None:
    jobs, cluster = workload(Random(seed))
    cluster = replace(cluster, slots=cluster.slots + SETTINGS[name].get("master_cores", 0))
    lazy, few = run(name, jobs, cluster, seed, eager=False)
    eager, all_of_them = run(name, jobs, cluster, seed, eager=True)
    assert lazy == eager
    assert few < all_of_them


def test_regular_events_come_last_of_their_time_whenever_they_were_asked_for() -> None:
    clock, done = Clock(10.0), list[tuple[str, float]]()

    def do(name: str) -> None:
        done.append((name, clock.now_s))
        if name == "a":
            clock.regularly(11.0, 2.0, 1, do, "behind")  # 13 s, as a is at 13 s and comes before it
            clock.regularly(11.0, 2.0, 0, do, "before")  # its place at 13 s is over: 15 s

    clock.regularly(11.0, 2.0, 5, do, "last")
    clock.later(1.0, do, "first")
    clock.regularly(3.0, 10.0, 0, do, "a")
    clock.run()
    assert done == [("first", 11.0), ("last", 11.0), ("a", 13.0), ("behind", 13.0), ("before", 15.0)]
