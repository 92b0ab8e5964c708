"""Classes of jobs: looked at again as estimates change, and what ended jobs teach."""

from __future__ import annotations

import pytest

from policies.model import AppView, JobClass, JobView
from rm_proxy.job_classes.classes import HALF_LIFE_S, MAX_EARLIER, MAX_JOBS, JobClasses, TaskTime


class World:
    """Jobs whose mean task times are set; long above 10 s."""

    def __init__(self) -> None:
        self.times: dict[str, TaskTime] = {}
        self.asked: list[JobView] = []
        self.classes = JobClasses(self.times.get)

    def decide(self, job: JobView) -> JobClass:
        self.asked.append(job)
        return JobClass.LONG if job.task_s > 10 else JobClass.SHORT

    def of(self, name: str, now_s: float) -> JobClass:
        return self.classes.of(AppView(name), self.decide, now_s)


def test_a_class_is_kept_until_the_durations_change() -> None:
    world = World()
    assert world.of("a", 0) is JobClass.NONE, "it wants nothing yet"
    world.times["a"] = TaskTime(9.5, known=True)
    assert world.of("a", 2.1) is JobClass.SHORT
    world.times["a"] = TaskTime(10.5, known=True)
    assert world.of("a", 10) is JobClass.SHORT, "no fifth more: it does not flip at the cut-off"
    world.times["a"] = TaskTime(12.0, known=True)
    assert world.of("a", 20) is JobClass.LONG
    assert len(world.asked) == 2


def test_a_class_is_looked_at_again_when_its_durations_become_known() -> None:
    world = World()
    world.times["a"] = TaskTime(10.0, known=False)
    assert world.of("a", 0) is JobClass.SHORT
    world.times["a"] = TaskTime(11.0, known=True)
    assert world.of("a", 1) is JobClass.SHORT, "no second has passed twice"
    assert world.of("a", 3) is JobClass.LONG


def test_a_job_that_wants_nothing_for_a_moment_stays_what_it_is() -> None:
    world = World()
    world.times["a"] = TaskTime(99.0, known=True)
    assert world.of("a", 0) is JobClass.LONG
    del world.times["a"]
    assert world.of("a", 60) is JobClass.LONG


def test_ended_jobs_teach_their_mean_durations() -> None:
    world = World()
    for name, durations in (("a", (4.0, 6.0)), ("b", (1.0,)), ("c", ())):
        world.times[name] = TaskTime(5.0, known=True)
        world.of(name, 0)
        for seconds in durations:
            world.classes.worked(name, seconds, 1)
    world.classes.forget_ended({"a"})
    world.classes.forget_ended(())
    world.times["d"] = TaskTime(5.0, known=True)
    world.of("d", 10)
    assert list(world.asked[-1].earlier_s) == [1.0, 5.0]
    assert len(world.classes) == 1


def test_what_is_learnt_is_bounded() -> None:
    world = World()
    for number in range(MAX_EARLIER + 50):
        world.classes.worked(str(number), float(number), 0)
        world.classes.forget_ended(())
    world.times["new"] = TaskTime(1.0, known=True)
    world.of("new", 0)
    assert (len(world.asked[-1].earlier_s), world.asked[-1].earlier_s[0]) == (MAX_EARLIER, 50.0)
    for number in range(MAX_JOBS + 10):
        world.of(str(number), 0)
    assert len(world.classes) == MAX_JOBS


def test_shares_of_work_count_jobs_with_a_class_and_fade() -> None:
    world = World()
    world.times |= {"short": TaskTime(1.0, known=True), "long": TaskTime(99.0, known=True)}
    assert (world.of("short", 0), world.of("long", 0)) == (JobClass.SHORT, JobClass.LONG)
    assert world.classes.shares.short_ratio is None
    for _ in range(19):
        world.classes.worked("short", 1.0, 0)
    assert world.classes.shares.short_ratio is None, "too few"
    world.classes.worked("long", 76.0, 0)
    world.classes.worked("none", 1000.0, 0)
    assert world.classes.shares.short_ratio == pytest.approx(0.2)
    for _ in range(40):
        world.classes.worked("short", 1.0, HALF_LIFE_S)
    assert world.classes.shares.short_ratio == pytest.approx((9.5 + 40) / (9.5 + 40 + 38))
