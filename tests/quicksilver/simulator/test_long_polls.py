"""Calls that wait for news in the simulated production world."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quicksilver.simulator.checks import wrong
from quicksilver.simulator.model import ClusterModel, Job, SimResult
from quicksilver.simulator.systems import load
from tests.quicksilver.simulator.systems.test_stages import drawn

ONE = ClusterModel(nodes=1, slots=1, delay_s=0.0)
LATE = {"queues": ["*"], "routes": [{"policy": "only_q"}], "place": {"policy": "late"}, "quota": {"policy": "none"}}


def run(jobs: list[Job], long_poll: str, cluster: ClusterModel = ONE, seed: int = 1, **chosen: Any) -> SimResult:
    system = load("quicksilver")
    policies = chosen.pop("policies", LATE) | {"long_poll": long_poll}
    settings = system.Settings(policies=policies, start_s=0.0, sample_s=5.0, **chosen)
    return system.run(iter(jobs), cluster, settings, seed)


def test_a_master_whose_call_waits_gets_a_free_place_at_once() -> None:
    """The slot is taken until 3.4 s; the second job's master heartbeats at 0.5, 1.5, 2.5, 3.5 s, or waits."""
    jobs = [Job(1, 0.0, (3.4,), 1.0), Job(2, 0.5, (1.0,), 1.0)]
    off, short = run(jobs, "off"), run(jobs, "short")
    assert [one.jobs[1].wait_s for one in (off, short)] == [pytest.approx(3.0), pytest.approx(2.92, abs=0.03)]
    assert short.counts["waits"] == short.counts["waits ended: news"] + short.counts.get("waits ended: bound", 0)
    assert "waits" not in off.counts


def test_a_wait_ends_at_the_bound_of_its_framework() -> None:
    """MapReduce's answers wait 5 s or 8 s; its master asks again a second after each."""
    jobs = [Job(1, 0.0, (40.0,), 1.0), Job(2, 0.5, (1.0,), 1.0)]
    ends = {setting: run(jobs, setting).counts["waits ended: bound"] for setting in ("short", "long")}
    assert 5 <= ends["short"] <= 7 and 3 <= ends["long"] <= 5
    assert run(jobs, "short", app_type="SPARK").counts["waits ended: bound"] > 2 * ends["short"]


def test_guaranteed_containers_are_fetched_by_calls_of_the_proxy() -> None:
    only_g = {"queues": ["*"], "routes": [{"policy": "only_g"}]}
    jobs = [Job(1, 0.0, (3.05,), 1.0), Job(2, 0.5, (1.0,), 1.0)]
    off, short = (run(jobs, setting, policies=only_g, node_beat_s=0.1) for setting in ("off", "short"))
    assert short.counts["polls"] > 5
    assert short.jobs[1].wait_s < off.jobs[1].wait_s - 0.1


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), nodes=st.integers(1, 3), preset=st.sampled_from(("default", "mercury", "kairos")))
def test_nothing_is_lost_while_calls_wait(seed: int, nodes: int, preset: str) -> None:
    jobs, cluster = drawn(seed, 3, (0.5, 2.0)), ClusterModel(nodes, 2)
    result = run(jobs, "long", cluster, seed, policies={"preset": preset})
    assert wrong(result, jobs, cluster) == []
    assert result.counts["faults"] == 0 and result.extra["over_capacity"] == 0
    ended = sum(count for name, count in result.counts.items() if name.startswith("waits ended"))
    assert ended == result.counts.get("waits", 0)
