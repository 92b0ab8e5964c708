"""Zoe's own examples, to the second; then what always holds."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.tests.papers.checks import wrong
from quicksilver.simulator.errors import SimulatorError
from quicksilver.simulator.model import ApplicationJob, ClusterModel, SimResult, SimulatedJob
from quicksilver_lab.papers.systems.zoe import SYSTEM, ZoeSettings
from quicksilver_lab.papers.zoe.mix import ZoeMix, applications
from quicksilver_lab.papers.zoe.model import BATCH_ELASTIC, BATCH_RIGID, INTERACTIVE, of_job, room_of, workers

TEN = ClusterModel(nodes=10)


def app(
    number: int, core: int, elastic: int, runtime_s: float, arrives_s: float = 0.0, **more: object
) -> ApplicationJob:
    return ApplicationJob(
        number,
        arrives_s,
        (runtime_s,) * (core + elastic),
        runtime_s,
        core=core,
        **more,  # type: ignore[arg-type]
    )


def run(apps: Sequence[SimulatedJob], cluster: ClusterModel = TEN, **settings: object) -> SimResult:
    return SYSTEM.run(apps, cluster, ZoeSettings.model_validate(settings), seed=0)


def turnaround_s(result: SimResult) -> float:
    return sum(one.completion_s for one in result.jobs) / len(result.jobs)


def ends_s(result: SimResult) -> list[float]:
    return [one.ended_s for one in sorted(result.jobs, key=lambda one: one.number)]


FIGURE_1 = [app(number, 3, elastic, 10.0) for number, elastic in enumerate((4, 3, 5, 2))]


@pytest.mark.parametrize(
    ("discipline", "average_s", "all_s"),
    (
        ("rigid", 25.0, [10.0, 20.0, 30.0, 40.0]),
        ("malleable", 21.875, [10.0, 17.5, 25.0, 35.0]),
        ("flexible", 21.875, [10.0, 17.5, 26.5, 33.5]),
        ("preemptive", 21.875, [10.0, 17.5, 26.5, 33.5]),
    ),
)
def test_figure_1(discipline: str, average_s: float, all_s: list[float]) -> None:
    result = run(FIGURE_1, discipline=discipline)
    assert turnaround_s(result) == average_s
    assert ends_s(result) == all_s


@pytest.mark.parametrize("discipline", ("rigid", "malleable", "flexible"))
@pytest.mark.parametrize(("size", "average_s"), (("1d", 3.5), ("2d", 4.0)))
def test_the_example_of_sizes(discipline: str, size: str, average_s: float) -> None:
    """Section 4.4: by runtime A1 goes first, by runtime x components A2."""
    two = [app(1, 10, 0, 2.0), app(2, 6, 0, 3.0)]
    for order in ("sjf", "srpt"):
        assert turnaround_s(run(two, discipline=discipline, order=order, size=size)) == average_s


def test_all_components_may_work() -> None:
    """With 7 workers A takes 10 s as before; B has 3 of 6 for 10 s, and then all: 15 s."""
    result = run(FIGURE_1[:2], work="all_work")
    assert ends_s(result) == [10.0, 15.0]


@pytest.mark.parametrize(
    ("core", "elastic", "two_coordinate", "all_work"),
    ((1, 0, 1, 1), (2, 0, 1, 2), (3, 0, 1, 3), (3, 4, 5, 7), (1, 4, 5, 5)),
)
def test_who_works(core: int, elastic: int, two_coordinate: int, all_work: int) -> None:
    assert workers(core, elastic, "two_coordinate") == two_coordinate
    assert workers(core, elastic, "all_work") == all_work


def test_an_interactive_one_does_not_wait_when_elastic_components_can_go() -> None:
    batch, late = app(1, 3, 7, 10.0), app(2, 4, 0, 1.0, arrives_s=2.0, klass=INTERACTIVE)
    patient, urgent = (run([batch, late], discipline=d, interactive_priority=1) for d in ("flexible", "preemptive"))
    assert ends_s(patient) == [10.0, 11.0]
    assert ends_s(urgent) == [10.5, 3.0], "3 of 7 elastic ones for 1 s: half of its 8 workers"
    assert urgent.counts["preemptions"] == 4
    assert [one.klass for one in urgent.jobs] == [INTERACTIVE, ""]


def test_response_ratio_lets_a_long_one_pass_at_last() -> None:
    """Short ones come again and again: by SJF the long one is last, by HRRN it is not."""
    jobs = [app(0, 10, 0, 10.0), app(1, 10, 0, 30.0)] + [
        app(n, 10, 0, 10.0, arrives_s=8.0 * n - 8) for n in range(2, 12)
    ]
    jobs.sort(key=lambda one: one.arrives_s)
    sjf, hrrn = (ends_s(run(jobs, order=order))[1] for order in ("sjf", "hrrn"))
    assert sjf == 140.0
    assert hrrn < sjf


def test_what_was_in_use_and_who_waited() -> None:
    """One of 10 s with 5 of 10 cores, and from 4 s on a rigid one, which waits; the last arrival is at 8 s."""
    cluster = ClusterModel(nodes=10, memory_mb=2048)
    result = run([app(1, 5, 0, 10.0), app(2, 6, 0, 10.0, arrives_s=4.0), app(3, 5, 0, 1.0, arrives_s=8.0)], cluster)
    assert result.extra == {"cores_share": 0.5, "memory_share": 0.25, "waiting_mean": 0.5, "running_mean": 1.0}
    assert result.busy[0] == (0.0, 0.5)
    assert result.counts | {"events": 0} == {
        "tasks": 16,
        "started": 16,
        "ended": 16,
        "lost": 0,
        "doubled": 0,
        "grants": 0,
        "preemptions": 0,
        "events": 0,
    }


def test_jobs_are_applications_of_their_tasks() -> None:
    job = SimulatedJob(4, 1.0, (2.0, 8.0, 5.0), estimate_s=5.0, cores=2.0, memory_mb=512)
    found = of_job(job, 1, room_of(TEN))
    assert (found.core, found.durations_s, found.estimate_s, found.cores) == (1, (8.0, 8.0, 8.0), 5.0, 2.0)
    large = of_job(SimulatedJob(5, 1.0, (1.0,) * 30, estimate_s=1.0), 3, room_of(TEN))
    assert (large.core, large.durations_s, large.estimate_s) == (3, (3.0,) * 10, 3.0), "30 s of work on 10 slots"


@pytest.mark.parametrize(
    ("jobs", "said"),
    (
        ([SimulatedJob(1, 0.0, (), 1.0)], "job 1 has no tasks"),
        (
            [SimulatedJob(1, 0.0, (1.0,), 1.0, cores=11.0)],
            "job 1: a task of 11 cores and 1024 MB is larger than the cluster",
        ),
        ([app(1, 11, 0, 1.0)], "zoe, flexible: application 1 needs 11 cores"),
        ([app(1, 0, 3, 1.0)], "application 1: 0 of 3 components are core"),
        ([app(1, 1, 0, 1.0, 5.0), app(2, 1, 0, 1.0, 4.0)], "job 2 arrives before the one ahead of it"),
        ([app(1, 1, 0, 9.0), app(1, 1, 0, 9.0, 4.0)], "job 1 is twice in the trace"),
        ([SimulatedJob(1, 0.0, (1.0,), 0.0)], "application 1: 1 core components, 0.0 s"),
    ),
)
def test_what_can_never_run_is_said(jobs: list[SimulatedJob], said: str) -> None:
    with pytest.raises(SimulatorError, match=said):
        run(jobs)


def jobs() -> st.SearchStrategy[list[SimulatedJob]]:
    one = st.tuples(st.floats(0, 20), st.lists(st.floats(0.1, 30), min_size=1, max_size=14), st.floats(0.1, 2))
    return st.lists(one, max_size=25).map(
        lambda drawn: [
            SimulatedJob(number, at_s, tuple(durations_s), sum(durations_s) / len(durations_s) * wrong_by)
            for number, (at_s, durations_s, wrong_by) in enumerate(sorted(drawn))
        ]
    )


@given(
    jobs(),
    st.sampled_from(("rigid", "malleable", "flexible", "preemptive")),
    st.sampled_from(("fifo", "sjf", "srpt", "hrrn")),
    st.sampled_from(("two_coordinate", "all_work")),
    st.integers(1, 3),
)
def test_no_task_is_lost_and_work_is_conserved(
    given_jobs: list[SimulatedJob], discipline: str, order: str, work: str, core: int
) -> None:
    settings = {"discipline": discipline, "order": order, "work": work, "job_core": core}
    result = run(given_jobs, **settings)
    assert wrong(result, given_jobs, TEN) == []
    assert result == run(given_jobs, **settings)


def test_the_mix_is_as_the_paper_has_it() -> None:
    mix = ZoeMix(applications=5000)
    drawn = list(applications(mix, seed=3))
    assert drawn == list(applications(mix, seed=3)) != list(applications(mix, seed=4))
    share = {klass: sum(a.klass == klass for a in drawn) / 5000 for klass in (INTERACTIVE, BATCH_RIGID, BATCH_ELASTIC)}
    assert share == {
        INTERACTIVE: pytest.approx(0.2, abs=0.02),
        BATCH_RIGID: pytest.approx(0.16, abs=0.02),
        BATCH_ELASTIC: pytest.approx(0.64, abs=0.02),
    }
    assert all(later.arrives_s >= earlier.arrives_s for earlier, later in pairwise(drawn))
    assert all(a.core == len(a.durations_s) for a in drawn if a.klass == BATCH_RIGID)
    assert {a.core for a in drawn if a.klass == BATCH_ELASTIC} == {3}, "client, master and one worker"
    assert max(len(a.durations_s) * a.cores for a in drawn) <= 1600
    cores_s = sum(a.work_s * a.cores for a in drawn) / 3200
    mb_s = sum(a.work_s * a.memory_mb for a in drawn) / (100 * 128 * 1024)
    assert max(cores_s, mb_s) == pytest.approx(drawn[-1].arrives_s, abs=0.001)


def test_a_property_of_the_mix_changes_alone() -> None:
    plain, drawn_cores, together = (
        list(applications(ZoeMix(applications=600, **changed), seed=3))
        for changed in ({}, {"elastic_core": 0}, {"together": 20})
    )
    assert len({a.core for a in drawn_cores if a.klass == BATCH_ELASTIC}) > 20
    for one, other in zip(plain, drawn_cores, strict=True):
        assert one.runtime_s == other.runtime_s and len(one.durations_s) - one.core <= len(other.durations_s)
    assert len({a.arrives_s for a in together}) == 600 / 20
    assert [a.durations_s for a in together] == [a.durations_s for a in plain]


@pytest.mark.long
def test_the_mix_under_every_discipline() -> None:
    """The paper's order: flexible before malleable before rigid by turnaround, and interactive ones do not wait."""
    machines = ClusterModel(100, 32, 128 * 1024)
    batch = list(applications(ZoeMix(applications=3000, interactive_ratio=0, load=1.2), seed=1))
    flexible, malleable, rigid = (
        turnaround_s(run(batch, machines, discipline=name)) for name in ("flexible", "malleable", "rigid")
    )
    assert flexible < malleable < rigid
    mixed = list(applications(ZoeMix(applications=3000, load=1.2), seed=1))
    waits_s: dict[str, list[float]] = {}
    for name in ("flexible", "preemptive"):
        result = run(mixed, machines, discipline=name, order="srpt", interactive_priority=1)
        waits_s[name] = sorted(one.wait_s for one in result.jobs if one.klass == INTERACTIVE)
    three_quarters = int(0.75 * len(waits_s["flexible"]))
    assert waits_s["preemptive"][three_quarters] == 0 < waits_s["flexible"][three_quarters // 3]
    assert sum(waits_s["preemptive"]) * 20 < sum(waits_s["flexible"])
