"""Messages between the parts of the emulated cluster: jobs go in, records come out.

Times are seconds. Moments (`now_s`, `*_s` of records, `at_s`, `began_s`) are readings of time.monotonic(); `arrives_s`
alone counts from the begin of the run.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from quicksilver.simulator.traces.spec import MAP, REDUCE, JobSpec, TaskSpec

__all__ = [
    "MAP",
    "REDUCE",
    "EmulatedSample",
    "JobRecord",
    "JobSpec",
    "RunResult",
    "TaskRecord",
    "TaskSpec",
    "Umbilical",
]

Umbilical = Callable[[str, Literal["began", "done"], float], None]
"""What the process in a container tells its master, in the same process: container id, kind, when (time.monotonic()).

The id is the text that rm_proxy.domain.ids.container_id_text gives.

MapReduce's masters hear of a task's end over their umbilical, before the ResourceManager does."""


@dataclass(slots=True)
class TaskRecord:
    """What became of one task; `lost_s` is run time of its attempts that did not come to their end."""

    job: int
    index: int
    wanted_s: float
    granted_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    attempts: int = 0
    killed: int = 0
    lost_s: float = 0.0
    node: str = ""
    opportunistic: bool = False


@dataclass(slots=True)
class JobRecord:
    """What became of one job."""

    number: int
    klass: str
    submitted_s: float
    registered_s: float | None = None
    ended_s: float | None = None
    tasks: list[TaskRecord] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    work_s: float = 0.0
    """Slot seconds that its tasks were said to take."""
    queue: str = "default"
    user: str = "bench"


@dataclass(slots=True)
class EmulatedSample:
    """The cluster at one second: containers running and queued at nodes, and slots that a running one holds."""

    at_s: float
    running: int
    queued: int
    used_slots: int


@dataclass(slots=True)
class RunResult:
    """One run of one workload under one competitor."""

    competitor: str
    workload: str
    seed: int
    nodes: int
    slots: int
    began_s: float
    window_s: float
    jobs: list[JobRecord] = field(default_factory=list)
    samples: list[EmulatedSample] = field(default_factory=list)
    kills: int = 0
    work_lost_s: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)
    rss_mb: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
