"""Mercury's workloads: shares are exact, equal seeds give equal jobs, sizes keep the paper's tasks per slot."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver_lab.bench.emulator import workloads
from quicksilver_lab.bench.emulator.jobs import Scaling, scaled, shape
from quicksilver_lab.bench.emulator.model import MAP, REDUCE, JobSpec, TaskSpec
from quicksilver_lab.bench.emulator.workloads import draw
from quicksilver_lab.papers.workloads import draws
from quicksilver_lab.papers.workloads.mercury import BLOCK, WORKLOADS, JobKind, Workload


@pytest.mark.parametrize("name", WORKLOADS)
def test_equal_seeds_give_equal_jobs_and_shares_are_exact(name: str) -> None:
    workload = WORKLOADS[name]
    found = list(islice(draw(workload, 256, 1), 5 * BLOCK))
    assert found == list(islice(draw(workload, 256, 1), 5 * BLOCK)) != list(islice(draw(workload, 256, 2), 5 * BLOCK))
    counts = Counter(job.klass for job in found)
    assert counts == {kind.name: round(5 * BLOCK * kind.share) for kind in workload.kinds}
    assert [job.number for job in found] == list(range(1, 5 * BLOCK + 1))
    assert [job.arrives_s for job in found] == sorted(job.arrives_s for job in found)
    assert fmean(task.runs_s for job in found for task in job.tasks) == pytest.approx(workload.mean_s, rel=0.1)
    means = {kind.name: kind.mean_s for kind in workload.kinds}
    for job in found:
        assert job.told_s is not None and abs(job.told_s / means[job.klass] - 1) <= workload.error + 1e-9


def test_the_microsoft_mix_is_as_the_text_says() -> None:
    found = islice(draw(WORKLOADS["microsoft"], 8192, 1), 10 * BLOCK)
    durations = [task.runs_s for job in found for task in job.tasks]
    assert 0.55 < sum(seconds < 10 for seconds in durations) / len(durations) < 0.65


def test_stragglers_take_longer_than_they_are_said_to() -> None:
    found = list(islice(draw(WORKLOADS["straggler_tasks"], 8192, 1), 2 * BLOCK))
    tasks = [task for job in found for task in job.tasks]
    slow = [task for task in tasks if task.slow_times > 1]
    assert 0.03 < len(slow) / len(tasks) < 0.07
    assert all(task.runs_s == 20.0 and task.duration_s == 2.0 for task in slow)


def test_what_is_told_errs_as_much_as_it_may() -> None:
    wrong = Workload("wrong", (JobKind("2s", 1.0, 2.0),), error=0.9)
    told = [job.told_s or 0.0 for job in islice(draw(wrong, 256, 1), 200)]
    assert 0.2 <= min(told) < 0.5 and 3.5 < max(told) <= 3.8
    silent = Workload("silent", (JobKind("2s", 1.0, 2.0),), hints=False)
    assert next(draw(silent, 256, 1)).told_s is None


def test_local_jobs_name_three_hosts_per_task() -> None:
    local = Workload("local", (JobKind("2s", 1.0, 2.0),), local_share=1.0)
    hosts = [f"127.1.0.{n}" for n in range(9)]
    tasks = next(draw(local, 256, 1, hosts=hosts)).tasks
    assert all(len(set(task.hosts)) == 3 and set(task.hosts) <= set(hosts) for task in tasks)
    with pytest.raises(ValueError, match="hosts"):
        next(draw(local, 256, 1))


@pytest.mark.parametrize(("slots", "expected"), ((8192, (150, 200)), (256, (27, 35)), (4000, (105, 140)), (1, (2, 2))))
def test_the_shape_keeps_the_papers_tasks_per_slot(slots: int, expected: tuple[int, int]) -> None:
    assert shape(slots) == expected
    if slots > 1:
        assert expected[0] * expected[1] / slots == pytest.approx(150 * 200 / 8192, rel=0.02)


def test_distributions_have_their_means() -> None:
    rng = Random(1)
    for drawn in (draws.fixed(3.0), draws.lognormal(3.0, 0.5), draws.empirical([2.0, 4.0])):
        assert fmean(drawn(rng) for _ in range(5000)) == pytest.approx(3.0, rel=0.05)
    for make in (lambda: draws.fixed(-1), lambda: draws.lognormal(0, 1), lambda: draws.empirical([])):
        with pytest.raises(ValueError, match=r"task|mean|durations"):
            make()
    with pytest.raises(ValueError, match="shares"):
        Workload("odd", (JobKind("a", 0.33, 1.0), JobKind("b", 0.67, 1.0)))


TASK = st.builds(
    TaskSpec, st.floats(0.1, 100.0), st.sampled_from((MAP, REDUCE)), slow_times=st.sampled_from((1.0, 4.0))
)


@given(st.lists(TASK, min_size=1, max_size=50), st.integers(2, 20), st.floats(0.5, 4.0), st.floats(1.0, 50.0))
def test_scaling_keeps_what_a_job_is(tasks: list[TaskSpec], most: int, times: float, most_s: float) -> None:
    job = JobSpec(1, 60.0, "k", tuple(tasks), told_s=2.0)
    (found,) = scaled([job, job], Scaling(first=1, speed=10.0, times=times, most_tasks=most, most_s=most_s))
    assert found.arrives_s == 6.0 and found.told_s == 2.0 * times
    assert len(found.tasks) <= max(most, 1) or len(tasks) <= most
    assert {task.stage for task in found.tasks} == {task.stage for task in tasks}
    assert all(task.runs_s <= most_s * 1.0001 for task in found.tasks)
    (same,) = scaled([job], Scaling())
    assert same == job


@pytest.mark.parametrize("wrong", ({"speed": 0.0}, {"times": -1.0}, {"first": 0}, {"most_tasks": 0}, {"most_s": 0.0}))
def test_scaling_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Scaling(**wrong)  # type: ignore[arg-type]


def test_a_list_of_durations_is_a_workload() -> None:
    found = list(islice(draw(workloads.listed("mine", [1.0, 3.0]), 256, 1), 40))
    assert {task.runs_s for job in found for task in job.tasks} == {1.0, 3.0}
    assert {job.told_s for job in found} == {2.0}


def test_hosts_of_a_trace_are_laid_on_those_of_the_cluster() -> None:
    tasks = tuple(TaskSpec(1.0, hosts=hosts) for hosts in (("a", "b"), ("c", "a"), ()))
    job = JobSpec(1, 0.0, "k", tasks, "theirs", memory_mb=9999)
    (laid,) = scaled([job], Scaling(hosts=("x", "y"), memory_mb=1024, queue="ours"))
    assert [task.hosts for task in laid.tasks] == [("x", "y"), ("x",), ()]
    assert (laid.queue, laid.memory_mb) == ("ours", 1024)
    (anywhere,) = scaled([job], Scaling())
    assert not any(task.hosts for task in anywhere.tasks) and anywhere.queue == "theirs"
