"""What the master's machine is told (events), and what it wants done (commands). Times are Unix seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ContainerGrant:
    """A container that the ResourceManager granted; `id` as YARN writes it."""

    id: str
    priority: int
    host: str
    port: int = 0
    """Of the NodeManager."""
    web: str = ""
    """Address of the NodeManager's web server, `host:port`."""


@dataclass(frozen=True, slots=True)
class MasterRegistered:
    """The ResourceManager knows this attempt; `grants`: containers of the attempt before that still run."""

    now_s: float
    grants: tuple[ContainerGrant, ...] = ()


@dataclass(frozen=True, slots=True)
class Resynced:
    """The ResourceManager, or the proxy, forgot the attempt, and it registered again."""

    now_s: float


@dataclass(frozen=True, slots=True)
class Allocated:
    """Containers were granted."""

    grants: tuple[ContainerGrant, ...]
    now_s: float


@dataclass(frozen=True, slots=True)
class ContainerCompleted:
    """A container ended."""

    id: str
    exit_status: int
    diagnostics: str
    now_s: float


@dataclass(frozen=True, slots=True)
class StartFailed:
    """A NodeManager did not start a container."""

    id: str
    text: str
    now_s: float


@dataclass(frozen=True, slots=True)
class LauncherUp:
    """The launcher in a container chose the ports; `listens_on` is its own."""

    id: str
    ports: Mapping[str, int]
    listens_on: int
    now_s: float


@dataclass(frozen=True, slots=True)
class CommandRuns:
    """The launcher started the command."""

    id: str
    now_s: float


@dataclass(frozen=True, slots=True)
class CheckPassed:
    """The readiness check of an instance succeeded."""

    id: str
    now_s: float


@dataclass(frozen=True, slots=True)
class LastLines:
    """The launcher reports how the command ended, shortly before its container ends."""

    id: str
    text: str
    now_s: float


@dataclass(frozen=True, slots=True)
class LauncherFound:
    """A launcher of the attempt before answered. `notes`: the newest that it has of the master before, or {}."""

    id: str
    service: str
    index: int
    ports: Mapping[str, int]
    listens_on: int
    phase: str
    notes: Mapping[str, Any]
    now_s: float


@dataclass(frozen=True, slots=True)
class LauncherMissing:
    """No launcher of a kept container answered."""

    id: str
    now_s: float


@dataclass(frozen=True, slots=True)
class ScaleTo:
    """Somebody wants `count` elastic instances of a service; it is within what is described."""

    service: str
    count: int
    now_s: float


@dataclass(frozen=True, slots=True)
class StopAll:
    """Somebody ends the application. status: killed or succeeded or failed."""

    status: str
    reason: str
    now_s: float


@dataclass(frozen=True, slots=True)
class MasterTick:
    """Time went by."""

    now_s: float


Event = (
    MasterRegistered
    | Resynced
    | Allocated
    | ContainerCompleted
    | StartFailed
    | LauncherUp
    | CommandRuns
    | CheckPassed
    | LastLines
    | LauncherFound
    | LauncherMissing
    | ScaleTo
    | StopAll
    | MasterTick
)


@dataclass(frozen=True, slots=True)
class AskContainers:
    """Say that `count` containers are wanted for a service in place of what was said before."""

    service: str
    count: int


@dataclass(frozen=True, slots=True)
class Release:
    """Give a container that was not started back to the ResourceManager."""

    id: str


@dataclass(frozen=True, slots=True)
class StartInstance:
    """Start an instance in a container; a failure comes back as StartFailed."""

    id: str
    service: str
    index: int
    kind: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Have a NodeManager end a container, and release it."""

    id: str


@dataclass(frozen=True, slots=True)
class ProbeInstance:
    """Connect to a port of an instance again and again, until CheckPassed; stop when its container ends."""

    id: str
    host: str
    port: int
    every_s: float


@dataclass(frozen=True, slots=True)
class FindLauncher:
    """Look for the launcher of a kept container; the answer is LauncherFound or LauncherMissing."""

    id: str
    host: str


@dataclass(frozen=True, slots=True)
class Unregister:
    """Unregister with a final status, then end this process. status: succeeded, failed or killed."""

    status: str
    diagnostics: str


Command = AskContainers | Release | StartInstance | Stop | ProbeInstance | FindLauncher | Unregister
