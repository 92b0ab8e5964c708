"""How many short tasks waited at a node behind long ones (Eagle, thesis §3.3: none should)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quicksilver.bench.emulator.model import JobRecord, TaskRecord

SHORT: Final = "short"
LONG: Final = "long"
"""Classes of jobs."""
_START_S: Final = 0.5
"""A start takes up to so much."""


def behind_long(jobs: Sequence[JobRecord], cores: int) -> int:
    """Return how many short tasks, once bound to a node, waited there for a long one.

    Those whose start took longer than usual, while long tasks held all cores of the node or a long one that was bound
    there earlier waited as well.
    """
    longs: dict[str, list[TaskRecord]] = {}
    for job in jobs:
        for task in job.tasks if job.klass == LONG else ():
            longs.setdefault(task.node, []).append(task)
    short = (task for job in jobs if job.klass == SHORT for task in job.tasks)
    return sum(_waits(task, longs.get(task.node, ()), cores) for task in short)


def _waits(task: TaskRecord, longs: Sequence[TaskRecord], cores: int) -> bool:
    if task.granted_s is None or task.started_s is None or task.started_s - task.granted_s <= _START_S:
        return False
    at_s = task.granted_s + _START_S
    bound = [one for one in longs if one.granted_s is not None and one.granted_s < task.granted_s]
    waiting = any(one.started_s is None or one.started_s > at_s for one in bound)
    running = sum(one.started_s is not None and one.started_s <= at_s < (one.ended_s or at_s) for one in bound)
    return waiting or running >= cores
