"""Stages: the next one begins when the one before has ended, in every system; nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.tests.papers.checks import wrong
from quicksilver.simulator.model import ClusterModel, JobOutcome, SimResult, SimulatedJob
from quicksilver.simulator.systems import SYSTEMS, load

REAL = ("kairos", "mercury", "opportunistic", "quicksilver")
"""By the production machines, of which each virtual second costs."""
NAMES = tuple(sorted(SYSTEMS.keys() - {"recorded", "zoe", *REAL}))
MAPS_AND_REDUCES = SimulatedJob(1, 5.0, (10.0, 20.0, 3.0), 11.0, stages=(2, 1))


def run(name: str, jobs: list[SimulatedJob], cluster: ClusterModel, seed: int = 1, **chosen: object) -> SimResult:
    system = load(name)
    return system.run(iter(jobs), cluster, system.Settings(**chosen), seed)


def drawn(seed: int, jobs: int = 8, means_s: tuple[float, ...] = (2.0, 10.0, 50.0)) -> list[SimulatedJob]:
    """Return jobs of one to four stages, some of one alone; tasks of 0 s among them, and jobs at the same time."""
    rng, at_s, made = Random(seed), 0.0, list[SimulatedJob]()
    for number in range(1, jobs + 1):
        at_s += rng.choice((0.0, rng.expovariate(0.2)))
        stages = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 4)))
        mean_s = rng.choice(means_s)
        durations_s = tuple(rng.choice((0.0, mean_s, rng.expovariate(1 / mean_s))) for _ in range(sum(stages)))
        made.append(SimulatedJob(number, at_s, durations_s, mean_s, stages=stages if rng.random() < 0.8 else ()))
    return made


def test_stages_are_those_of_the_jobs_tasks() -> None:
    for bad in ((1, 1), (0, 3), (3, 1), (-1, 4)):
        with pytest.raises(ValueError, match="a job of 3 tasks has other ones"):
            replace(MAPS_AND_REDUCES, stages=bad)


def test_each_stages_estimate_is_as_wrong_as_the_jobs() -> None:
    twice = replace(MAPS_AND_REDUCES, estimate_s=22.0)
    assert list(twice.by_stage()) == [((10.0, 20.0), 30.0), ((3.0,), 6.0)]
    assert list(replace(twice, stages=()).by_stage()) == [((10.0, 20.0, 3.0), 22.0)]
    assert list(SimulatedJob(1, 0.0, (0.0, 0.0), 4.0, stages=(1, 1)).by_stage()) == [((0.0,), 4.0), ((0.0,), 4.0)]
    assert twice.first_stage() == SimulatedJob(1, 5.0, (10.0, 20.0), 30.0)


@pytest.mark.parametrize("name", (*NAMES, "quicksilver"))
def test_reduces_wait_for_the_last_map(name: str) -> None:
    """Without stages the reduce runs beside the maps."""
    cluster = ClusterModel(1, slots=3, delay_s=0.0)
    (staged,) = run(name, [MAPS_AND_REDUCES], cluster).jobs
    assert staged.stages[0][1] >= 25.0 and staged.stages[1][0] >= staged.stages[0][1]
    assert staged.ended_s >= 28.0
    (flat,) = run(name, [replace(MAPS_AND_REDUCES, stages=())], cluster).jobs
    assert flat.ended_s < staged.ended_s and flat.stages == ()


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), nodes=st.integers(1, 5), slots=st.integers(1, 3))
def test_no_task_is_lost_and_none_begins_before_its_stage(name: str, seed: int, nodes: int, slots: int) -> None:
    jobs, cluster = drawn(seed), ClusterModel(nodes, slots)
    result = run(name, jobs, cluster, seed)
    assert wrong(result, jobs, cluster) == []
    assert {one.number for one in result.jobs if one.stages} == {job.number for job in jobs if job.staged}
    assert run(name, jobs, cluster, seed) == result


@pytest.mark.parametrize("name", REAL)
@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), nodes=st.integers(1, 3))
def test_nor_by_the_production_machines(name: str, seed: int, nodes: int) -> None:
    jobs, cluster = drawn(seed, 2, (0.5, 2.0)), ClusterModel(nodes, 2)
    result = run(name, jobs, cluster, seed, sample_s=5.0)
    assert wrong(result, jobs, cluster) == []
    assert {one.number for one in result.jobs if one.stages} == {job.number for job in jobs if job.staged}
    assert result.counts["faults"] == 0 and result.extra["over_capacity"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_one_stage_is_no_stage(name: str) -> None:
    jobs, cluster = [replace(job, stages=()) for job in drawn(3)], ClusterModel(3, 2)
    said = [replace(job, stages=(len(job.durations_s),)) for job in jobs]
    assert run(name, jobs, cluster) == run(name, said, cluster)


def test_what_stages_must_not_be_is_told() -> None:
    outcome = JobOutcome(1, 5.0, 28.0, 3, 33.0, stages=((5.0, 25.0), (25.0, 28.0)))
    result = SimResult("one", 0, [outcome], [], {"tasks": 3, "started": 3, "ended": 3})

    def told(*stages: tuple[float, float]) -> list[str]:
        changed = replace(result, jobs=[replace(outcome, stages=stages)])
        return wrong(changed, [MAPS_AND_REDUCES], ClusterModel(1, 2))

    assert told((5.0, 25.0), (25.0, 28.0)) == []
    assert told((5.0, 25.0), (24.0, 28.0)) == ["job 1: stage 1 began at 24.0 s, the one before ended at 25.0 s"]
    assert [text.split(",")[0] for text in told((5.0, 20.0), (25.0, 28.0))] == ["job 1: stage 0 ended at 20.0 s"]
    assert told((5.0, 28.0)) == ["job 1: 1 stages came back of 2"]
    assert told((5.0, 25.0), (25.0, 29.0)) == ["job 1: ended at 28.0 s, its last stage at 29.0 s"]


@pytest.mark.parametrize(("ratio", "reduce_s", "other_s"), ((1.0, (23.0, 25.0), 8.02), (0.5, (21.0, 23.0), 23.02)))
def test_slow_start_has_reduces_hold_slots_until_the_last_map_has_ended(
    ratio: float, reduce_s: tuple[float, float], other_s: float
) -> None:
    """Two slots; maps of 20 and 4 s run from 1 s on. The reduce has the second slot from 6 s on, or a later one."""
    jobs = [SimulatedJob(1, 0.0, (20.0, 4.0, 2.0), 1.0, stages=(2, 1)), SimulatedJob(2, 6.02, (1.0,), 1.0)]
    exact = {"node_beat_s": 1.0, "master_beat_s": 1.0, "start_s": 0.0, "off_switch": 2, "end_beats": False}
    cluster = ClusterModel(1, slots=2, delay_s=0.0)
    result = run("yarn_fifo", jobs, cluster, slow_start_ratio=ratio, **exact)
    by_number = {one.number: one for one in result.jobs}
    assert by_number[1].stages == ((1.0, 21.0), reduce_s)
    assert by_number[2].ended_s == pytest.approx(other_s)
    assert wrong(result, jobs, cluster) == []


def production(jobs: list[SimulatedJob], nodes: int, slots: int, ratio: float, **chosen: object) -> SimResult:
    """Run jobs with everything guaranteed by the production machines, nearly without waits."""
    only_g = {"routes": [{"policy": "only_g"}]}
    world = {"node_beat_s": 0.1, "master_beat_s": 0.1, "start_s": 0.0, "policies": only_g, **chosen}
    return run("quicksilver", jobs, ClusterModel(nodes, slots, delay_s=0.0), slow_start_ratio=ratio, **world)


def test_the_production_machines_have_the_same_slow_start() -> None:
    """Maps of 20 and 4 s; the reduce of the second slot stands still from the end of the short map on."""
    jobs = [SimulatedJob(1, 0.0, (20.0, 4.0, 2.0), 1.0, stages=(2, 1)), SimulatedJob(2, 6.02, (1.0,), 1.0)]
    early, late = production(jobs, 1, 2, 0.5), production(jobs, 1, 2, 1.0)
    for result in (early, late):
        assert wrong(result, jobs, ClusterModel(1, 2)) == []
        (maps_s, reduces_s), first = result.jobs[0].stages, result.jobs[0]
        assert maps_s[1] == pytest.approx(20.0, abs=0.4) and reduces_s[0] >= maps_s[1]
        assert first.ended_s == pytest.approx(22.0, abs=0.7)
    assert late.jobs[1].ended_s == pytest.approx(7.02, abs=0.5)
    assert early.jobs[1].ended_s > 21.0, "the reduce has the only other slot"


@pytest.mark.long
def test_a_reduce_that_stands_still_gives_way_to_a_map_that_was_killed() -> None:
    """A guaranteed master kills a queueable map; the reduces of its job have all other places of the cluster."""
    only_q = {"queues": ["*"], "routes": [{"policy": "only_q"}], "preempt": {"policy": "kill_newest"}}
    jobs = [
        SimulatedJob(1, 0.0, (1.0, 60.0, 60.0, 1.0, 1.0), 1.0, stages=(3, 2)),
        *(SimulatedJob(number, 4.0 + number, (0.5,), 1.0) for number in range(2, 9)),
    ]
    cluster = ClusterModel(2, slots=3, delay_s=0.0)
    chosen = {"policies": only_q, "master_cores": 1, "slow_start_ratio": 0.05}
    result = run("quicksilver", jobs, cluster, **chosen)
    assert wrong(result, jobs, cluster) == [] and result.counts["kills"] > 0
    assert result.counts["started"] > result.counts["tasks"]


@pytest.mark.long
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), nodes=st.integers(2, 3), reuse_s=st.sampled_from((None, 0.5)))
def test_no_task_is_lost_where_reduces_stand_still_and_maps_are_killed(
    seed: int, nodes: int, reuse_s: float | None
) -> None:
    half = {"queues": ["*"], "routes": [{"policy": "hybrid_gq", "settings": {"td_s": 1e6, "pq": 60}}]}
    jobs, cluster = drawn(seed, 4, (0.5, 2.0)), ClusterModel(nodes, 3)
    chosen = {
        "policies": half,
        "reuse_s": reuse_s,
        "master_cores": 1,
        "launch_s": 0.3,
        "sample_s": 5.0,
        "slow_start_ratio": 0.05,
    }
    result = run("quicksilver", jobs, cluster, seed, **chosen)
    assert wrong(result, jobs, cluster) == []
    assert result.counts["faults"] == 0 and result.extra["over_capacity"] == 0


def test_a_map_that_is_shrunk_for_its_own_reduces_goes_on() -> None:
    """The reduces go guaranteed on the only node, and wait for the map that gave way to them."""
    (job,) = (one for one in drawn(0, 2, (0.5, 2.0)) if one.number == 2)
    cluster = ClusterModel(1, 2)
    result = run("quicksilver", [job], cluster, 0, slow_start_ratio=0.05)
    assert wrong(result, [job], cluster) == []
