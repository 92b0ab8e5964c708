"""Short tasks behind long ones are counted, and no others."""

from quicksilver_lab.bench.emulator.model import JobRecord, TaskRecord
from quicksilver_lab.bench.mixes.behind_long import behind_long


def task(granted_s: float, started_s: float, ended_s: float, node: str = "n") -> TaskRecord:
    return TaskRecord(1, 1, 0.0, granted_s, started_s, ended_s, node=node)


def jobs(long: list[TaskRecord], short: list[TaskRecord]) -> list[JobRecord]:
    return [JobRecord(1, "long", 0.0, tasks=long), JobRecord(2, "short", 0.0, tasks=short)]


def test_a_short_task_that_waits_while_long_ones_hold_all_cores() -> None:
    long = [task(0.0, 0.1, 50.0), task(0.0, 0.1, 9.0)]
    waiting = task(5.0, 9.0, 10.0)
    assert behind_long(jobs(long, [waiting]), cores=2) == 1
    assert behind_long(jobs(long, [waiting]), cores=3) == 0, "a core is free of them: it waits for something else"
    assert behind_long(jobs(long, [task(5.0, 9.0, 10.0, "other")]), cores=2) == 0
    assert behind_long(jobs(long, [task(5.0, 5.4, 10.0)]), cores=2) == 0, "it started as soon as it came"
    assert behind_long(jobs([waiting], long), cores=1) == 0, "long tasks may wait for short ones"


def test_a_short_task_that_came_after_a_long_one_that_waits() -> None:
    """All four cores are taken by short tasks until the long one starts."""
    busy = [task(0.0, 0.1, 7.0) for _ in range(4)]
    assert behind_long(jobs([task(1.0, 7.0, 50.0)], [*busy, task(2.0, 8.0, 9.0)]), cores=4) == 1
    assert behind_long(jobs([task(3.0, 7.0, 50.0)], [*busy, task(2.0, 8.0, 9.0)]), cores=4) == 0, "it came before"


def test_slow_starts_on_free_cores_do_not_count() -> None:
    busy = [task(0.0, 0.1, 7.0) for _ in range(2)]
    assert behind_long(jobs([task(1.0, 2.1, 50.0)], [*busy, task(1.1, 2.1, 9.0)]), cores=4) == 0
