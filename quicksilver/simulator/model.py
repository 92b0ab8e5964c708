"""The shared words: jobs and the cluster they are offered to, and what a run showed. All times in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """One job of a trace: tasks that may all run at once, or stages of such tasks, one after the other.

    Raises ValueError for stages that are not those of its tasks.
    """

    number: int
    """Of its own in a trace."""
    arrives_s: float
    durations_s: tuple[float, ...]
    """How long each task runs, shape (tasks,)."""
    estimate_s: float
    """Mean duration of a task as a scheduler is told it; may be wrong."""
    name: str = ""
    user: str = ""
    queue: str = "default"
    cores: float = 1.0
    """Of each task."""
    memory_mb: int = 1024
    """Of each task."""
    stages: tuple[int, ...] = ()
    """How many of `durations_s` each stage has, in their order; empty: one stage. Tasks of a stage can run once all
    those of the stage before have ended."""

    def __post_init__(self) -> None:
        """Check."""
        if self.stages and (min(self.stages) < 1 or sum(self.stages) != len(self.durations_s)):
            raise ValueError(f"stages of {self.stages} tasks: a job of {len(self.durations_s)} tasks has other ones")

    @property
    def work_s(self) -> float:
        """Seconds of all tasks together."""
        return sum(self.durations_s)

    @property
    def staged(self) -> bool:
        """Whether it has more than one stage."""
        return len(self.stages) > 1

    def by_stage(self) -> Iterator[tuple[tuple[float, ...], float]]:
        """Yield of each stage its tasks' durations and its estimate: their mean, as wrong as the job's own is."""
        if not self.staged:
            yield self.durations_s, self.estimate_s
            return
        mean_s, begin = self.work_s / len(self.durations_s), 0
        for tasks in self.stages:
            durations_s = self.durations_s[begin : begin + tasks]
            begin += tasks
            own_s = sum(durations_s) / tasks
            yield durations_s, own_s * (self.estimate_s / mean_s) if mean_s > 0 else self.estimate_s

    def first_stage(self) -> SimulatedJob:
        """Return the job with the tasks of its first stage alone."""
        if not self.staged:
            return self
        durations_s, estimate_s = next(self.by_stage())
        return replace(self, durations_s=durations_s, estimate_s=estimate_s, stages=())


@dataclass(frozen=True, slots=True)
class ApplicationJob(SimulatedJob):
    """A job whose components are its tasks: each of them runs as long as the application does in isolation.

    Some of them must run for any work to be done (Zoe, §2). To systems that do not know this it is a job like others.
    """

    core: int = 1
    """So many components must run, from its begin to its end; the others are elastic."""
    klass: str = ""
    """B-E, B-R or Int of the paper (§4.1)."""
    priority: int = 0
    """Set by hand; the higher goes first."""

    @property
    def runtime_s(self) -> float:
        """In isolation: with all components granted."""
        return max(self.durations_s)


@dataclass(frozen=True, slots=True)
class ClusterModel:
    """Equal nodes in a network. Raises ValueError for what no cluster has."""

    nodes: int
    slots: int = 1
    """Tasks that a node runs at once."""
    memory_mb: int = 0
    """Of each node; 0: not counted."""
    delay_s: float = 0.0005
    """Of the network, one way (0.5 ms in Sparrow, Hawk, Eagle, Kairos)."""

    def __post_init__(self) -> None:
        """Check."""
        if self.nodes < 1 or self.slots < 1:
            raise ValueError(f"nodes={self.nodes}, slots={self.slots}: a cluster has at least one of each")
        if self.memory_mb < 0 or not self.delay_s >= 0:
            raise ValueError(f"memory_mb={self.memory_mb}, delay_s={self.delay_s}: neither can be below 0")

    @property
    def total_slots(self) -> int:
        """Slots of all nodes."""
        return self.nodes * self.slots


@dataclass(slots=True)
class JobOutcome:
    """What became of a job."""

    number: int
    arrives_s: float
    ended_s: float
    """When its last task ended."""
    tasks: int
    work_s: float
    klass: str = ""
    """"short" or "long", where the system tells them apart."""
    wait_s: float = 0.0
    """Mean over its tasks of the time from the job's arrival to the begin of the try that did the task."""
    stages: tuple[tuple[float, float], ...] = ()
    """Of a job with several stages, by stage: when its tasks began (the first one; where a system keeps no more, their
    mean), and when the last one ended. Empty where a system does not know stages."""

    @property
    def completion_s(self) -> float:
        """From arrival to the end of the last task."""
        return self.ended_s - self.arrives_s


@dataclass(slots=True)
class SimResult:
    """What a run showed."""

    system: str
    seed: int
    jobs: list[JobOutcome] = field(default_factory=list)
    """In any order."""
    busy: list[tuple[float, float]] = field(default_factory=list)
    """Samples (at_s, share of the slots that are busy, 0..1), by time."""
    counts: dict[str, int] = field(default_factory=dict)
    """tasks (of all jobs), started (tries), ended (tasks that were done), lost, doubled, events (of the clock), and
    what the system adds: probes, steals, preemptions, kills, sheds, behind_long, ..."""
    extra: dict[str, float] = field(default_factory=dict)
    """Figures of the system's own."""
