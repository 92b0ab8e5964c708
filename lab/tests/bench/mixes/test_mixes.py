"""The mixes' jobs, and how they become runs."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from statistics import fmean

import pytest

from lab.tests.bench.experiment.steps import jobs_of, step_of
from policies.config.presets import PRESETS, laid_over
from quicksilver_lab.bench.emulator.jobs import WARM
from quicksilver_lab.bench.emulator.model import JobSpec, TaskSpec
from quicksilver_lab.bench.experiment.step import BOUNDS, bound, spec
from quicksilver_lab.bench.mixes.figures import figures
from quicksilver_lab.bench.mixes.mixes import (
    ALL,
    BY_NAME,
    MOST_S,
    MOST_TASKS,
    TOLD,
    loaded,
    shuffled,
)
from quicksilver_lab.papers.workloads.mercury import WORKLOADS

OPEN = [mix.name for mix in ALL if mix.open]


@pytest.mark.parametrize("name", OPEN)
def test_an_open_mix_keeps_its_share_of_the_slots_busy(name: str) -> None:
    mix = BY_NAME[name]
    jobs = list(mix.drawn(1))
    work_s = sum(task.runs_s for job in jobs for task in job.tasks)
    assert len(jobs) == mix.jobs and jobs == sorted(jobs, key=lambda job: job.arrives_s)
    assert work_s / mix.size.slots / jobs[-1].arrives_s == pytest.approx(mix.load, rel=0.01)
    assert max(len(job.tasks) for job in jobs) <= MOST_TASKS
    assert {job.told_s for job in jobs} == {None}
    if name.startswith("facebook"):
        assert max(task.runs_s for job in jobs for task in job.tasks) <= MOST_S


@pytest.mark.parametrize("name", OPEN)
def test_equal_seeds_give_equal_jobs(name: str) -> None:
    mix = BY_NAME[name]
    assert list(mix.drawn(2)) == list(mix.drawn(2)) != list(mix.drawn(1))


def test_a_trace_has_the_same_jobs_under_each_seed_in_another_order() -> None:
    jobs = [JobSpec(number, 5.0 * number, "k", (TaskSpec(1.0),)) for number in range(25)]
    assert shuffled(jobs, 1) == jobs
    other = shuffled(jobs, 2)
    assert sorted(job.number for job in other) == list(range(25)) and [job.number for job in other] != list(range(25))
    assert [job.arrives_s // 5 for job in other] == list(range(25))
    assert {job.number for job in other[:10]} == set(range(10))


def test_kairos_jobs_are_scaled_in_time_only() -> None:
    mix = BY_NAME["kairos"]
    assert (mix.size.nodes, mix.size.slots) == (30, 120)
    jobs = list(mix.drawn(1))
    assert len(jobs) == 100 and {job.klass for job in jobs} == {"1", "2", "3", "4", "5"}
    small = next(job for job in jobs if job.klass == "1")
    assert [task.stage for task in small.tasks] == [0] * 15 + [1] * 15
    assert small.tasks[0].runs_s == pytest.approx(85 / 2 / 20)
    assert (small.name, small.told_s) == ("", None)
    assert step_of("kairos", "only_g_tuned", 1).mix == mix
    assert step_of("kairos", "only_g_tuned", 1, nodes=15).mix.jobs == 50


@pytest.mark.parametrize(
    ("name", "shares", "gap_s"),
    (("kairos", (32, 31, 31, 4, 2), 60.0), ("kairos_uniform", (35, 35, 30), 30.0)),
)
def test_kairos_jobs_have_the_shares_and_the_load_of_the_table(
    name: str, shares: tuple[int, ...], gap_s: float
) -> None:
    mix = BY_NAME[name]
    first, other = list(mix.drawn(1)), list(mix.drawn(2))
    for jobs in (first, other):
        assert tuple(count for _, count in sorted(Counter(job.klass for job in jobs).items())) == shares
        assert jobs[-1].arrives_s == pytest.approx(100 * gap_s / 20)
    assert [job.klass for job in first] != [job.klass for job in other]


def test_kairos_quantum_is_scaled_as_its_tasks() -> None:
    step = step_of("kairos", "quicksilver_kairos", 1)
    policies = spec(step, jobs_of(step), 23000).policies
    assert policies is not None
    assert laid_over(policies)["preempt"] == {
        "policy": "las",
        "settings": {**PRESETS["kairos"].section["preempt"]["settings"], "quantum_s": 2.5},
    }
    other = step_of("yahoo", "quicksilver_kairos", 1)
    assert spec(other, jobs_of(other), 23000).policies == {"preset": "kairos"}


def test_arrivals_are_stretched_to_a_load() -> None:
    jobs = loaded([JobSpec(1, 7.0, "k", (TaskSpec(8.0),)), JobSpec(2, 9.0, "k", (TaskSpec(8.0),))], 4, 0.5)
    assert [job.arrives_s for job in jobs] == [0.0, 8.0]


def test_a_closed_mix_is_mercurys_workload() -> None:
    mix = BY_NAME["stragglers"]
    assert mix.concurrent == 27 and (mix.slots.count, mix.slots.slow, mix.slots.slow_times) == (256, 16, 3.0)
    assert len(list(islice(mix.drawn(1), 30))) == 30
    assert {mix.workload for mix in ALL} <= WORKLOADS.keys()


def test_a_step_names_cluster_mix_and_seed() -> None:
    step = step_of("facebook_77", "only_g_fair_fast", 2, nodes=8, cores=2)
    jobs = jobs_of(step)
    assert isinstance(jobs, list) and jobs[0].klass == WARM
    found = spec(step, jobs, 23000)
    assert (found.workload, found.seed, found.slots, found.concurrent) == ("facebook_77", 2, 16, None)
    assert found.masters.heartbeat_s == 0.2
    closed = step_of("fixed_2s", "only_g_tuned", 1)
    assert spec(closed, jobs_of(closed), 23000).concurrent == 27


def test_queues_and_guaranteed_applications_of_a_mix_reach_the_cluster() -> None:
    step = step_of("guarantees", "quicksilver_late", 1, nodes=8, cores=2)
    found = spec(step, jobs_of(step), 23000)
    assert found.rm.queues == {"default": 60, "prod": 40}
    assert found.rm.capacity_scheduler["yarn.scheduler.capacity.root.default.minimum-user-limit-percent"] == "50"
    assert found.policies is not None
    assert found.policies["routes"] == [{"policy": "only_g", "match": {"queue": ["prod"]}}, {"policy": "only_q"}]
    stock = step_of("guarantees", "only_g_tuned", 1, nodes=8, cores=2)
    assert spec(stock, jobs_of(stock), 23000).policies is None


def test_the_bound_runs_the_same_jobs() -> None:
    steps = [step_of("google", name, nodes=8, cores=2, halved=True) for name in BOUNDS]
    runs = [bound(step) for step in steps]
    jobs = jobs_of(steps[0])
    assert isinstance(jobs, list)
    assert [job.number for job in runs[0].jobs] == [job.number for job in jobs]
    first, preemptive, endless = (figures(run, is_open=True)["latency_mean_s"] for run in runs)
    assert endless < preemptive < first


def test_the_bound_of_a_closed_mix_ends() -> None:
    run = bound(step_of("fixed_2s", "bound", 1, nodes=8, cores=2, halved=True))
    assert run.jobs and all(job.ended_s is not None for job in run.jobs)
    assert max(job.submitted_s for job in run.jobs) <= run.began_s + run.window_s + 5.0


def test_jobs_that_tell_their_durations() -> None:
    for mix in (mix for mix in TOLD if mix.name.removesuffix("_told") in BY_NAME):
        other, told = BY_NAME[mix.name.removesuffix("_told")].drawn(1), list(mix.drawn(1))
        assert [job.tasks for job in told] == [job.tasks for job in other], "the same work"
        assert all(job.told_s == pytest.approx(fmean(task.runs_s for task in job.tasks)) for job in told)
        cutoff_s = mix.changed["quicksilver_hawk"]["classify"]["settings"]["cutoff_s"]
        assert {job.klass for job in told} == {"short", "long"}
        assert all((job.klass == "long") == (job.told_s > cutoff_s) for job in told if job.told_s is not None)


def test_a_saturated_cluster() -> None:
    mix = BY_NAME["saturated_told"]
    jobs = list(mix.drawn(1))
    long, short = ([job for job in jobs if job.klass == kind] for kind in ("long", "short"))
    assert (len(long), len(short)) == (40, 80)
    work_s = sum(task.runs_s for job in long for task in job.tasks)
    assert work_s / mix.size.slots / max(job.arrives_s for job in jobs) == pytest.approx(mix.load, rel=0.05)
    assert list(mix.drawn(1)) == jobs != list(mix.drawn(2))


def test_jobs_of_one_name_differ_thirty_times() -> None:
    step = step_of("same_name", "quicksilver", 1)
    jobs = list(step.mix.drawn(1))
    by_class = {klass: [job for job in jobs if job.klass == klass] for klass in {job.klass for job in jobs}}
    maps_s = {
        klass: fmean(task.runs_s for job in own for task in job.tasks if task.stage == 0)
        for klass, own in by_class.items()
    }
    assert {job.name for job in jobs if job.klass != "masters"} == {"pi"} and {job.told_s for job in jobs} == {None}
    assert 26 < maps_s["long"] / maps_s["short"] < 30 and maps_s["early"] == pytest.approx(2.5, abs=0.3)
    assert {klass: len(own) for klass, own in by_class.items()} == {
        "early": 2, "long": 1, "batch": 1, "short": 10, "masters": 2,
    }  # fmt: skip
    (long,) = by_class["long"]
    assert len(long.tasks) == 14 + 1 > step.mix.size.slots
    assert max(job.arrives_s for job in by_class["early"]) < long.arrives_s - 10.0
    assert [job.arrives_s for job in jobs] == sorted(job.arrives_s for job in jobs)
    assert jobs == list(step.mix.drawn(1)) != list(step.mix.drawn(2))


def test_masters_take_all_cores_of_one_node_while_the_long_job_runs() -> None:
    step = step_of("same_name", "quicksilver", 1)
    jobs = list(step.mix.drawn(1))
    masters = [job for job in jobs if job.klass == "masters"]
    (long,) = (job for job in jobs if job.klass == "long")
    tasks = [task for job in masters for task in job.tasks]
    assert len(tasks) == step.mix.size.cores and {task.hosts for task in tasks} == {("127.64.0.1",)}
    assert masters[0].arrives_s < long.arrives_s < masters[1].arrives_s
    policies = spec(step, jobs_of(step), 23000).policies
    assert policies is not None and policies["routes"][0] == {"policy": "only_g", "match": {"queue": ["masters"]}}
