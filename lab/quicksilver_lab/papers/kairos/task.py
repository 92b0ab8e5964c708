"""A task, and what a node that shares its cores among tasks offers to the simulation."""

from __future__ import annotations

from math import inf
from typing import Protocol

from quicksilver.simulator.model import JobOutcome, SimulatedJob


class KairosTask:
    """One task on its way: what it needs, and what the node that has it knows of it. Times in seconds."""

    __slots__ = (
        "attained_s",
        "began_s",
        "idle_since_s",
        "length_s",
        "number",
        "owner",
        "protected_until_s",
        "stage",
        "started_s",
    )

    def __init__(self, number: int, length_s: float, owner: KairosProgress, stage: int = 0) -> None:
        """Be task `number` of the run, in the order of the central queue."""
        self.stage = stage
        self.number = number
        self.length_s = length_s
        self.owner = owner
        self.attained_s = 0.0
        self.began_s = 0.0
        """When its quantum began."""
        self.idle_since_s = 0.0
        self.protected_until_s = 0.0
        self.started_s = -1.0
        """When it first ran; -1 before."""


class KairosProgress:
    """A job on its way."""

    __slots__ = ("job", "left_of", "open_tasks", "ready", "sent", "spans_s", "stage", "waited_s")

    def __init__(self, job: SimulatedJob) -> None:
        """Begin with nothing done."""
        self.job = job
        self.left_of = list(job.stages) if job.staged else [len(job.durations_s)]
        """Tasks of each stage that are not over yet."""
        self.ready = self.left_of[0]
        """How many may be sent, of this stage and those before."""
        self.stage = 0
        self.spans_s: list[tuple[float, float]] = [(inf, 0.0)] * len(self.left_of) if job.staged else []
        """Of each stage: the first begin, the last end."""
        self.open_tasks = len(job.durations_s)
        """Tasks that are not over yet."""
        self.sent = 0
        """Tasks that have a node."""
        self.waited_s = 0.0

    def ends(self, task: KairosTask, now_s: float) -> bool:
        """Take note that a task is over; returns whether the next stage can be sent now."""
        self.open_tasks -= 1
        self.waited_s += task.started_s - self.job.arrives_s
        if not self.spans_s:
            return False
        stage = task.stage
        self.spans_s[stage] = min(self.spans_s[stage][0], task.started_s), now_s
        self.left_of[stage] -= 1
        return not self.left_of[stage] and stage + 1 < len(self.left_of)

    def next_stage(self) -> None:
        """Let the next stage be sent."""
        self.stage += 1
        self.ready += self.left_of[self.stage]

    def outcome(self, ended_s: float) -> JobOutcome:
        """Return what became of the job, whose last task ended at `ended_s`."""
        job, tasks = self.job, len(self.job.durations_s)
        wait_s = self.waited_s / tasks if tasks else 0.0
        return JobOutcome(job.number, job.arrives_s, ended_s, tasks, job.work_s, "", wait_s, tuple(self.spans_s))


class KairosNode(Protocol):
    """A node. Times that it is told never decrease."""

    next_s: float
    """Its next task is over no sooner; infinity when it has none."""
    version: int
    """Rises whenever its tasks are others, or `next_s` is."""
    preemptions: int

    def arrive(self, task: KairosTask, now_s: float) -> None:
        """Take a task."""

    def wake(self, now_s: float) -> KairosTask | None:
        """Come to `next_s`; return the task that is over then, if one is."""

    def spread_s(self, now_s: float) -> float:
        """Return the standard deviation of what its tasks have attained."""

    def attained_s(self, now_s: float) -> list[float]:
        """Return what each of its tasks has attained, in any order."""
