"""Events and commands of the machine of a NodeManager. Times are seconds of one clock, memory is MB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SUCCESS: Final = 0
INVALID: Final = -1000
"""The exit status of a container that has not ended."""
KILLED_BY_APPMASTER: Final = -105
KILLED_BY_RESOURCEMANAGER: Final = -106
KILLED_AFTER_APP_COMPLETION: Final = -107
KILLED_BY_CONTAINER_SCHEDULER: Final = -108
QUEUE_FULL: Final = "Opportunistic container queue is full."
MAKING_ROOM: Final = "Container Killed to make room for Guaranteed Container."
SHED: Final = "Container De-queued to meet NM queuing limits."
BY_APPMASTER: Final = "Container killed by the ApplicationMaster."
BY_RESOURCEMANAGER: Final = "Container Killed by ResourceManager"
APP_OVER: Final = "Container killed on application-finish event: by the ResourceManager"


@dataclass(frozen=True, slots=True)
class NmSize:
    """Memory and vcores, of a node or a container."""

    memory_mb: int
    vcores: int


@dataclass(frozen=True, slots=True)
class NmAsked:
    """One container as its token describes it, and how long its process will run."""

    container_id: str
    app_id: str
    size: NmSize
    opportunistic: bool = False
    runs_s: float = 0.0
    exit_status: int = SUCCESS


# Events


@dataclass(frozen=True, slots=True)
class NmStart:
    """A start came in and was accepted."""

    spec: NmAsked
    now_s: float


@dataclass(frozen=True, slots=True)
class NmStop:
    """Somebody wants a container killed."""

    container_id: str
    exit_status: int
    why: str
    now_s: float


@dataclass(frozen=True, slots=True)
class Launched:
    """A container's process runs."""

    container_id: str
    now_s: float


@dataclass(frozen=True, slots=True)
class Exited:
    """A process has run to its end."""

    container_id: str
    now_s: float


@dataclass(frozen=True, slots=True)
class NmKillOver:
    """A process that was killed is gone."""

    container_id: str
    now_s: float


@dataclass(frozen=True, slots=True)
class Retyped:
    """A container's execution type changed."""

    container_id: str
    opportunistic: bool
    now_s: float


@dataclass(frozen=True, slots=True)
class Limited:
    """The ResourceManager limits the queue of opportunistic containers; -1 is no limit."""

    max_queue_length: int
    now_s: float


@dataclass(frozen=True, slots=True)
class AppOver:
    """An application is over."""

    app_id: str
    now_s: float


Event = NmStart | NmStop | Launched | Exited | NmKillOver | Retyped | Limited | AppOver


# Commands


@dataclass(frozen=True, slots=True)
class NmLaunch:
    """Begin a container's process; `Launched` is the answer."""

    container_id: str


@dataclass(frozen=True, slots=True)
class RunProcess:
    """Let the process run: `Exited` after so many seconds."""

    container_id: str
    seconds: float


@dataclass(frozen=True, slots=True)
class NmKill:
    """Kill a process; `NmKillOver` is the answer."""

    container_id: str


@dataclass(frozen=True, slots=True)
class Done:
    """A container is over, which NodeManagers report to the ResourceManager at once. `ran_s`: time of its process."""

    container_id: str
    exit_status: int
    ran_s: float


Command = NmLaunch | RunProcess | NmKill | Done
