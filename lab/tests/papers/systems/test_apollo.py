"""Apollo's parts together: what always holds, and what each part is for."""

from __future__ import annotations

from math import inf
from random import Random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tests.papers.checks import wrong
from policies.common.tokens import Tokens
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver_lab.papers.apollo.process_node import ProcessNode
from quicksilver_lab.papers.systems.apollo import SYSTEM, ApolloSettings


def jobs_of(seed: int, jobs: int, gap_s: float, most_tasks: int = 12, mean_s: float = 20.0) -> list[SimulatedJob]:
    rng, at_s, made = Random(seed), 0.0, []
    for number in range(jobs):
        at_s += rng.expovariate(1 / gap_s)
        length_s = rng.expovariate(1 / mean_s)
        tasks = tuple(rng.uniform(0.5, 1.5) * length_s for _ in range(rng.randint(1, most_tasks)))
        made.append(SimulatedJob(number, at_s, tasks, length_s))
    return made


def run(jobs: list[SimulatedJob], cluster: ClusterModel, seed: int = 0, **more: object) -> SimResult:
    result = SYSTEM.run(iter(jobs), cluster, ApolloSettings.model_validate(more), seed)
    assert wrong(result, jobs, cluster) == []
    return result


def mean_s(result: SimResult) -> float:
    return fmean(job.completion_s for job in result.jobs)


@given(
    st.integers(0, 2**32),
    st.integers(1, 15),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(1, 6),
    st.sampled_from([0.0, 1.0, 2.5]),
    st.booleans(),
    st.sampled_from([0, 1, 7]),
)
@settings(deadline=None, max_examples=25)
def test_what_always_holds(
    seed: int, jobs: int, nodes: int, slots: int, tokens: int, extra: float, corrected: bool, in_all: int
) -> None:
    more = {
        "cluster_tokens": in_all,
        "tokens": tokens,
        "opportunistic": Tokens(allowance_ratio=extra),
        "corrected": corrected,
    }
    cluster = ClusterModel(nodes, slots)
    given_jobs = jobs_of(seed, jobs, 5.0)
    first = run(given_jobs, cluster, seed, rack_nodes=2, **more)
    assert first == run(given_jobs, cluster, seed, rack_nodes=2, **more)
    assert first.counts["started"] == first.counts["tasks"] + first.counts.get("kills", 0)
    assert extra or "opportunistic" not in first.counts


def test_a_job_alone_is_as_wide_as_its_tokens_and_its_allowance() -> None:
    """8 tasks of 10 s on 8 idle servers: 2 tokens alone take 4 rounds, with 1 opportunistic for each 2 rounds."""
    job = SimulatedJob(0, 0.0, (10.0,) * 8, 10.0)
    cluster = ClusterModel(8, delay_s=0.0)
    for allowance, rounds in ((0.0, 4), (1.0, 2), (3.0, 1)):
        result = run(
            [job], cluster, tokens=2, opportunistic={"allowance_ratio": allowance}, light_ratio=1, light_servers=8
        )
        assert result.jobs[0].ended_s == pytest.approx(10.0 * rounds, abs=0.2)


def test_a_job_begins_when_it_can_have_its_tokens() -> None:
    """Of 4 tokens the first two jobs take 3 and 1, so the third waits for 2, and the fourth behind it."""
    jobs = [SimulatedJob(n, n * 1.0, (10.0,) * tasks, 10.0) for n, tasks in enumerate((3, 1, 2, 1))]
    wide = {"light_ratio": 1, "light_servers": 8, "report_s": 0.25, "opportunistic": {"allowance_ratio": 0}}
    result = run(jobs, ClusterModel(8, delay_s=0.0), tokens=4, cluster_tokens=4, **wide)
    by_number = {job.number: job for job in result.jobs}
    assert [round(by_number[n].ended_s) for n in range(4)] == [10, 11, 20, 20]
    assert [round(by_number[n].wait_s) for n in range(4)] == [0, 0, 8, 7]


def test_opportunistic_tasks_give_way_to_regular_ones() -> None:
    """One server with two slots: the first job's opportunistic task is killed by the second job's regular one."""
    jobs = [SimulatedJob(0, 0.0, (100.0, 100.0), 100.0), SimulatedJob(1, 10.0, (5.0,), 5.0)]
    result = run(jobs, ClusterModel(1, 2, delay_s=0.0), tokens=1, corrected=False)
    by_number = {job.number: job for job in result.jobs}
    assert result.counts["kills"] == 1
    assert by_number[1].ended_s == pytest.approx(15.0, abs=0.1)
    assert by_number[0].ended_s == pytest.approx(115.0, abs=0.2), "it begins anew when the other one is over"


def test_waiting_opportunistic_tasks_are_upgraded_when_a_token_is_free() -> None:
    jobs = [SimulatedJob(0, 0.0, (10.0,) * 4, 10.0), SimulatedJob(1, 1.0, (30.0,) * 3, 30.0)]
    result = run(jobs, ClusterModel(2, delay_s=0.0), tokens=1, light_ratio=1)
    assert result.counts["upgrades"] > 0


def test_corrections_help_where_estimates_are_wrong() -> None:
    """Half of the jobs are told to be ten times as short as they are; duplicates are few, and most of them run."""
    rng = Random(4)
    jobs = [
        SimulatedJob(job.number, job.arrives_s, job.durations_s, job.estimate_s * rng.choice((0.1, 1.0)))
        for job in jobs_of(2, 120, 2.0, mean_s=30)
    ]
    cluster = ClusterModel(80)
    left, corrected = (run(jobs, cluster, corrected=on) for on in (False, True))
    assert mean_s(corrected) < mean_s(left)
    assert 0 < corrected.counts["duplicates_won"] <= corrected.counts["duplicates"]


@pytest.mark.parametrize("seed", range(3))
def test_the_quick_look_leaves_nothing_out(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [
        SimulatedJob(j.number, j.arrives_s, j.durations_s, j.estimate_s * (1 + j.number % 5))
        for j in jobs_of(seed, 60, 2.0)
    ]
    quick = run(jobs, ClusterModel(20, 2), seed)
    monkeypatch.setattr(ProcessNode, "at_most_s", lambda node, cfg: inf)
    assert quick.counts["duplicates"] > 0 and quick == run(jobs, ClusterModel(20, 2), seed)


SLOW = {"slow_tries": 0.2, "slow_times": 8.0, "report_s": 1.0}


@pytest.mark.long
@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 5), st.integers(1, 3), st.sampled_from([0.0, 0.5]))
@settings(deadline=None, max_examples=15)
def test_stragglers_copies_and_failures_lose_nothing(seed: int, jobs: int, nodes: int, slots: int, bad: float) -> None:
    more = SLOW | {"tokens": 3, "bad_nodes": bad, "straggling": {"least_ran_s": 1.0}}
    given_jobs, cluster = jobs_of(seed, jobs, 5.0), ClusterModel(nodes, slots)
    found = run(given_jobs, cluster, seed, **more)
    assert found == run(given_jobs, cluster, seed, **more)
    counts = found.counts
    assert counts.get("reruns_won", 0) <= counts.get("reruns", 0) <= counts.get("stragglers", 0)
    extra_tries = sum(counts.get(name, 0) for name in ("kills", "stopped", "failed"))
    assert counts["started"] == counts["tasks"] + extra_tries


def test_bad_servers_are_known_and_avoided() -> None:
    """A tenth of the servers fails each second try: knowing it, fewer tries fail than by penalising nothing."""
    jobs = [SimulatedJob(number, number * 10.0, (20.0,) * 10, 20.0) for number in range(80)]
    bad = {"bad_nodes": 0.1, "light_servers": 4}
    blind, known = (
        run(jobs, ClusterModel(60), completion={"fail_ratio": ratio}, **bad).counts["failed"] for ratio in (1.0, 4.0)
    )
    assert known < 0.7 * blind


def test_copies_beat_stragglers() -> None:
    jobs = [SimulatedJob(number, number * 40.0, (20.0,) * 12, 20.0) for number in range(40)]
    alone, watched = (run(jobs, ClusterModel(60), reruns=on, **SLOW) for on in (False, True))
    assert "reruns" not in alone.counts
    assert mean_s(watched) < 0.7 * mean_s(alone)
    assert watched.counts["reruns"] > 0.7 * watched.counts["stragglers"]
    assert watched.counts["reruns_won"] > 0.7 * watched.counts["reruns"]


def test_a_copy_that_caught_up_frees_the_slot_of_the_first() -> None:
    """Of 4 tasks of 10 s one takes 80 s; its copy begins after 11 s, is as far 1.6 s later, and is over after 21 s."""
    job, found = SimulatedJob(1, 0.0, (10.0,) * 4, 10.0), []
    for seed in range(40):
        result = run([job], ClusterModel(8), seed, **SLOW)
        if result.counts.get("stragglers") == 1 and result.jobs[0].ended_s < 80:
            assert result.counts["reruns"] == result.counts["reruns_won"] == result.counts["stopped"] == 1
            found.append(result.jobs[0].ended_s)
    assert found and all(ended_s == pytest.approx(21, abs=1.1) for ended_s in found)


def test_tasks_go_where_their_input_is_unless_it_takes_too_long() -> None:
    """A fifth as much again where half the time is spent reading at 80 instead of 160 MB/s; few have to."""
    jobs = jobs_of(1, 60, 3.0)
    result = run(jobs, ClusterModel(80), reading_ratio=0.5, replicas=3)
    blind = sum(job.work_s for job in jobs) * (1 - 0.5 + 0.5 * 160 / 80)
    busy_s = sum(share for _, share in result.busy) * 80 * 100
    assert busy_s < blind
