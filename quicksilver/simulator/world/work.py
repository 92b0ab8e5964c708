"""Jobs as the production machines run them: tasks that may have a host with their data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from policies.model import Resources

ONE_TASK: Final = Resources(1024, 1)


@dataclass(frozen=True, slots=True)
class Task:
    """One task. true_s: on a usual node, beside its data; host: number of the node with its data, None for anywhere."""

    true_s: float
    host: int | None = None


@dataclass(frozen=True, slots=True)
class WorldJob:
    """One application. told_s: what its master tells of its tasks; size: of each of them."""

    number: int
    kind: str
    queue: str
    user: str
    arrives_s: float
    told_s: float
    tasks: tuple[Task, ...]
    size: Resources = ONE_TASK
    stages: tuple[tuple[int, float], ...] = ()
    """Of each stage, in the order of `tasks`: how many, and what is told of them; empty: one stage."""

    @property
    def work_s(self) -> float:
        """Core seconds."""
        return sum(task.true_s for task in self.tasks)
