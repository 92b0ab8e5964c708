"""Sparrow, Hawk, Eagle and the LWL systems: worked examples, and what holds on any trace."""

from random import Random
from statistics import median
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from lab.tests.papers.checks import wrong
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver.simulator.systems import load
from quicksilver.simulator.traces.generators import generate

NAMES = ("clwl", "dlwl", "dlwl_srpt", "eagle", "hawk", "sparrow")


def run(name: str, jobs: list[SimulatedJob], cluster: ClusterModel, seed: int = 1, **given: Any) -> SimResult:
    system = load(name)
    return system.run(iter(jobs), cluster, system.Settings(**given), seed)


def job(number: int, arrives_s: float, *durations_s: float) -> SimulatedJob:
    return SimulatedJob(number, arrives_s, durations_s, sum(durations_s) / max(1, len(durations_s)))


def ended_s(result: SimResult) -> dict[int, float]:
    return {one.number: one.ended_s for one in result.jobs}


@pytest.mark.parametrize(("sticky", "expected_s"), ((False, 110.0), (True, 30.0)))
@pytest.mark.parametrize("srpt", (False, True))
def test_queues_of_100_100_10_10_and_four_tasks_of_10(sticky: bool, srpt: bool, expected_s: float) -> None:
    """Eagle, thesis §3.4.1: one probe on each of four nodes."""
    jobs = [job(1, 0.0, 100.0, 100.0, 10.0, 10.0), job(2, 0.0, 10.0, 10.0, 10.0, 10.0)]
    one_each = {"probe_ratio": 1.0, "least_probes": 0, "distinct": True, "short_partition_ratio": 0.0}
    result = run("eagle", jobs, ClusterModel(4, delay_s=0.0), sticky=sticky, srpt=srpt, **one_each)
    assert ended_s(result) == {1: 100.0, 2: expected_s}


def test_every_message_takes_the_networks_delay() -> None:
    """A probe there, a question, its answer; after the task the job is done."""
    jobs = [job(1, 5.0, 10.0)]
    for name in NAMES:
        result = run(name, jobs, ClusterModel(1, delay_s=0.5))
        assert (result.jobs[0].ended_s, result.jobs[0].wait_s) == (16.5, 1.5), name


def test_an_idle_node_steals_what_waits_behind_a_long_task_and_a_long_one_waits_for_nothing() -> None:
    """Two nodes, the first kept for short tasks; the second has a long one, and a short one behind it."""
    jobs = [job(1, 0.0, 1000.0), job(2, 1.0, 10.0, 10.0)]
    cluster = ClusterModel(2, delay_s=0.0)
    both = {"short_partition_ratio": 0.5, "probe_ratio": 1.0, "distinct": True}
    assert ended_s(run("hawk", jobs, cluster, **both)) == {1: 1000.0, 2: 21.0}
    alone = run("hawk", jobs, cluster, contacts=0, **both)
    assert ended_s(alone) == {1: 1000.0, 2: 1010.0}
    assert (alone.counts["behind_long"], alone.counts["tasks_after_long"]) == (1, 1)


def test_a_split_cluster_runs_short_jobs_on_the_nodes_kept_for_them_alone() -> None:
    """Thesis §2.4.6."""
    jobs, cluster = [job(1, 0.0, 10.0, 10.0)], ClusterModel(4, delay_s=0.0)
    both = {"short_partition_ratio": 0.25, "contacts": 0, "distinct": True}
    assert ended_s(run("hawk", jobs, cluster, **both)) == {1: 10.0}
    assert ended_s(run("hawk", jobs, cluster, split=True, **both)) == {1: 20.0}
    with pytest.raises(ValidationError, match="keep nodes for short jobs"):
        run("hawk", jobs, cluster, split=True, short_partition_ratio=0.0)


def test_eagle_sends_no_short_task_behind_a_long_one() -> None:
    jobs = [job(1, 0.0, 1000.0), job(2, 1.0, 10.0, 10.0)]
    cluster = ClusterModel(2, delay_s=0.0)
    result = run("eagle", jobs, cluster, short_partition_ratio=0.5, distinct=True)
    assert ended_s(result) == {1: 1000.0, 2: 21.0}
    assert (result.counts["behind_long"], result.counts["rescheduled"]) == (0, 10)
    without = run("eagle", jobs, cluster, short_partition_ratio=0.5, distinct=True, sss=False)
    assert (without.counts["behind_long"], without.counts["rescheduled"]) == (10, 0)


def test_with_no_node_to_go_to_probes_wait_behind_the_long_tasks_after_all() -> None:
    jobs = [job(1, 0.0, 100.0, 100.0), job(2, 1.0, 10.0)]
    result = run("eagle", jobs, ClusterModel(2, delay_s=0.0), short_partition_ratio=0.0)
    assert ended_s(result) == {1: 100.0, 2: 110.0} and result.counts["behind_long"] > 0


def test_least_work_left_sees_what_runs_and_dlwl_only_what_was_reported() -> None:
    jobs = [job(1, 0.0, 30.0, 10.0), job(2, 1.0, 5.0), job(3, 2.0, 5.0), job(4, 6.5, 5.0)]
    jobs[0] = SimulatedJob(1, 0.0, (30.0, 10.0), 20.0)
    cluster = ClusterModel(2, delay_s=0.0)
    assert ended_s(run("clwl", jobs, cluster)) == {1: 30.0, 2: 35.0, 3: 15.0, 4: 40.0}  # 4: both wait equally long
    late = [ended_s(run("dlwl", jobs, cluster, seed=seed, heartbeat_s=100.0)) for seed in range(20)]
    assert {one[1] for one in late} > {30.0}  # both tasks went to one node in some


@pytest.mark.long
def test_hawks_example_of_a_loaded_cluster_under_sparrow() -> None:
    """Thesis §2.2.3: median utilisation 86 %, at most 97.8 %, many short jobs of 100 s take more than 15,000 s.

    The paper's jobs are drawn as these are, but not these: with seeds 1 to 5 the median is 85.4 to 87.4 %, the maximum
    96.8 to 97.9 %.
    """
    jobs = list(generate("hawk_example", seed=1))
    result = run("sparrow", jobs, ClusterModel(15_000), cutoff_s=1000.0, distinct=True)
    shares = [share for _, share in result.busy]
    assert median(shares) == pytest.approx(0.86, abs=0.015)
    assert max(shares) == pytest.approx(0.978, abs=0.01)
    assert median(one.completion_s for one in result.jobs if one.klass == "short") > 15_000
    assert wrong(result, jobs, ClusterModel(15_000)) == []


def trace(seed: int, jobs: int = 60) -> list[SimulatedJob]:
    """Return short and long jobs, some at the same time, some without tasks, tasks of 0 s among them."""
    rng, at_s, made = Random(seed), 0.0, list[SimulatedJob]()
    for number in range(jobs):
        at_s += rng.choice((0.0, 1.0, rng.expovariate(0.5)))
        mean_s = rng.choice((0.0, 5.0, 20.0, 300.0))
        durations_s = tuple(rng.choice((mean_s, rng.expovariate(1 / (mean_s or 1.0)))) for _ in range(rng.randrange(9)))
        made.append(SimulatedJob(number, at_s, durations_s, mean_s))
    return made


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), nodes=st.integers(1, 12), delay_s=st.sampled_from((0.0, 0.0005, 1.0)))
def test_no_task_is_lost_or_done_twice_and_a_seed_tells_all(name: str, seed: int, nodes: int, delay_s: float) -> None:
    jobs, cluster = trace(seed), ClusterModel(nodes, slots=2, delay_s=delay_s)
    given_ = {"misestimate_low_ratio": 0.3, "misestimate_high_ratio": 1.9, "misestimate_class": bool(seed % 2)}
    result = run(name, jobs, cluster, seed, **given_)
    assert wrong(result, jobs, cluster) == []
    assert run(name, jobs, cluster, seed, **given_) == result


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    parts=st.fixed_dictionaries({name: st.booleans() for name in ("sss", "sticky", "srpt", "distinct")}),
)
def test_eagle_without_any_of_its_parts_loses_nothing_either(seed: int, parts: dict[str, bool]) -> None:
    jobs, cluster = trace(seed), ClusterModel(5)
    assert wrong(run("eagle", jobs, cluster, seed, short_partition_ratio=0.3, **parts), jobs, cluster) == []
    if parts["sss"]:
        assert run("eagle", jobs, cluster, seed, short_partition_ratio=0.3, **parts).counts["behind_long"] == 0


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), central=st.booleans(), contacts=st.integers(0, 3), split=st.booleans())
def test_hawk_without_any_of_its_parts_loses_nothing_either(
    seed: int, central: bool, contacts: int, split: bool
) -> None:
    jobs, cluster = trace(seed), ClusterModel(5)
    given_ = {"central": central, "contacts": contacts, "short_partition_ratio": 0.3, "split": split}
    assert wrong(run("hawk", jobs, cluster, seed, **given_), jobs, cluster) == []
