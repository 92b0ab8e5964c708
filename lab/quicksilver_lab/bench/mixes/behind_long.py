"""How many short tasks waited at a node behind long ones (Eagle, thesis §3.3: none should)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from quicksilver_lab.bench.emulator.model import JobRecord, TaskRecord

SHORT: Final = "short"
LONG: Final = "long"
"""Classes of jobs."""
_START_S: Final = 0.5
"""A start takes up to so much."""


def behind_long(jobs: Sequence[JobRecord], cores: int) -> int:
    """Return how many short tasks, once bound to a node, waited there for a long one.

    Those whose start took longer than usual, while all cores of the node were taken, by long tasks alone or with a long
    one that was bound there earlier waiting as well. Where a core was free a task was only slow to start.
    """
    tasks: dict[str, list[tuple[TaskRecord, bool]]] = {}
    for job in jobs:
        for task in job.tasks:
            tasks.setdefault(task.node, []).append((task, job.klass == LONG))
    short = (task for job in jobs if job.klass == SHORT for task in job.tasks)
    return sum(_waits(task, tasks[task.node], cores) for task in short)


def _waits(task: TaskRecord, others: Sequence[tuple[TaskRecord, bool]], cores: int) -> bool:
    if task.granted_s is None or task.started_s is None or task.started_s - task.granted_s <= _START_S:
        return False
    at_s = task.granted_s + _START_S
    running = [is_long for neighbour, is_long in others if _runs(neighbour, at_s)]
    if len(running) < cores:
        return False
    longs = (neighbour for neighbour, is_long in others if is_long)
    bound = (
        neighbour for neighbour in longs if neighbour.granted_s is not None and neighbour.granted_s < task.granted_s
    )
    return sum(running) >= cores or any(
        neighbour.started_s is None or neighbour.started_s > at_s for neighbour in bound
    )


def _runs(task: TaskRecord, at_s: float) -> bool:
    return task.started_s is not None and task.started_s <= at_s < (task.ended_s or inf)
