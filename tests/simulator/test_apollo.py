"""Apollo's parts together: what always holds, and what each part is for."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.tokens import Tokens
from simulator.checks import wrong
from simulator.model import ClusterModel, Job, SimResult
from simulator.systems.apollo import SYSTEM, ApolloSettings


def jobs_of(seed: int, jobs: int, gap_s: float, most_tasks: int = 12, mean_s: float = 20.0) -> list[Job]:
    rng, at_s, made = Random(seed), 0.0, []
    for number in range(jobs):
        at_s += rng.expovariate(1 / gap_s)
        length_s = rng.expovariate(1 / mean_s)
        tasks = tuple(rng.uniform(0.5, 1.5) * length_s for _ in range(rng.randint(1, most_tasks)))
        made.append(Job(number, at_s, tasks, length_s))
    return made


def run(jobs: list[Job], cluster: ClusterModel, seed: int = 0, **more: object) -> SimResult:
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
)
@settings(deadline=None, max_examples=25)
def test_what_always_holds(
    seed: int, jobs: int, nodes: int, slots: int, tokens: int, extra: float, corrected: bool
) -> None:
    more = {"tokens": tokens, "opportunistic": Tokens(allowance_ratio=extra), "corrected": corrected}
    cluster = ClusterModel(nodes, slots)
    given_jobs = jobs_of(seed, jobs, 5.0)
    first = run(given_jobs, cluster, seed, rack_nodes=2, **more)
    assert first == run(given_jobs, cluster, seed, rack_nodes=2, **more)
    assert first.counts["started"] == first.counts["tasks"] + first.counts.get("kills", 0)
    assert extra or "opportunistic" not in first.counts


def test_a_job_alone_is_as_wide_as_its_tokens_and_its_allowance() -> None:
    """8 tasks of 10 s on 8 idle servers: 2 tokens alone take 4 rounds, with 1 opportunistic for each 2 rounds."""
    job = Job(0, 0.0, (10.0,) * 8, 10.0)
    cluster = ClusterModel(8, delay_s=0.0)
    for allowance, rounds in ((0.0, 4), (1.0, 2), (3.0, 1)):
        result = run(
            [job], cluster, tokens=2, opportunistic={"allowance_ratio": allowance}, light_ratio=1, light_servers=8
        )
        assert result.jobs[0].ended_s == pytest.approx(10.0 * rounds, abs=0.2)


def test_opportunistic_tasks_give_way_to_regular_ones() -> None:
    """One server with two slots: the first job's opportunistic task is killed by the second job's regular one."""
    jobs = [Job(0, 0.0, (100.0, 100.0), 100.0), Job(1, 10.0, (5.0,), 5.0)]
    result = run(jobs, ClusterModel(1, 2, delay_s=0.0), tokens=1, corrected=False)
    by_number = {job.number: job for job in result.jobs}
    assert result.counts["kills"] == 1
    assert by_number[1].ended_s == pytest.approx(15.0, abs=0.1)
    assert by_number[0].ended_s == pytest.approx(115.0, abs=0.2), "it begins anew when the other one is over"


def test_waiting_opportunistic_tasks_are_upgraded_when_a_token_is_free() -> None:
    jobs = [Job(0, 0.0, (10.0,) * 4, 10.0), Job(1, 1.0, (30.0,) * 3, 30.0)]
    result = run(jobs, ClusterModel(2, delay_s=0.0), tokens=1, light_ratio=1)
    assert result.counts["upgrades"] > 0


def test_corrections_help_where_estimates_are_wrong() -> None:
    """Half of the jobs are told to be ten times as short as they are; duplicates are few, and most of them run."""
    rng = Random(4)
    jobs = [
        Job(job.number, job.arrives_s, job.durations_s, job.estimate_s * rng.choice((0.1, 1.0)))
        for job in jobs_of(2, 120, 2.0, mean_s=30)
    ]
    cluster = ClusterModel(80)
    left, corrected = (run(jobs, cluster, corrected=on) for on in (False, True))
    assert mean_s(corrected) < mean_s(left)
    assert 0 < corrected.counts["duplicates_won"] <= corrected.counts["duplicates"]


def test_tasks_go_where_their_input_is_unless_it_takes_too_long() -> None:
    """A fifth as much again where half the time is spent reading at 80 instead of 160 MB/s; few have to."""
    jobs = jobs_of(1, 60, 3.0)
    result = run(jobs, ClusterModel(80), reading_ratio=0.5, replicas=3)
    blind = sum(job.work_s for job in jobs) * (1 - 0.5 + 0.5 * 160 / 80)
    busy_s = sum(share for _, share in result.busy) * 80 * 100
    assert busy_s < blind
