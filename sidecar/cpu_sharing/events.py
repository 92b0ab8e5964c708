"""Events of the machine of least attained service, and commands that it returns. Times are Unix seconds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from policies.model import Way


class Story(NamedTuple):
    """History of a container, as far as the next sidecar process needs it; times in seconds."""

    attained_s: float = 0.0
    times_shrunk: int = 0
    saved_s: float = 0.0


NEW: Final = Story()
"""Return the history of a container that starts now."""


@dataclass(frozen=True, slots=True)
class LasRules:
    """Settings of the machine (Kairos thesis §4.3.2); defaults as in `policies.common.shrinking.Shrinking`."""

    cores: float
    """N: vcores that the running containers may use together."""
    quantum_s: float = 50.0
    """W."""
    starve_quanta: int = 3
    """k: quanta without running after which a container starves."""
    protect_quanta: int = 1
    """m: quanta that a container which starved then runs unpreempted."""
    min_cores: float = 0.05
    """Cores that a shrunk container keeps."""
    ready_wait_s: float = 30.0
    """A container that is not attached by then counts as running at its full size."""
    retry_s: float = 1.0
    """Delay before the retry of a refused resize; it doubles up to a minute."""
    by_job: bool = False
    """Whether the level of the job's service comes before the container's own."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A start went to the NodeManager. `way` NONE: never touched, it counts from now on (guaranteed ones are such)."""

    container_id: str
    vcores: float
    way: Way
    now_s: float
    whole: bool = False
    """It cannot run with a part of its cores: its resizer knows only all or nothing."""
    story: Story = NEW
    """Its history in an earlier sidecar process."""
    app_id: str = ""


@dataclass(frozen=True, slots=True)
class ReadyContainer:
    """The resizer has attached the container: it runs, and can be resized from now on."""

    container_id: str
    now_s: float


@dataclass(frozen=True, slots=True)
class Pinned:
    """The container is guaranteed from now on: full limits at once, and it never gives way again."""

    container_id: str
    now_s: float


@dataclass(frozen=True, slots=True)
class Left:
    """The container is over, or is being killed."""

    container_id: str
    now_s: float


@dataclass(frozen=True, slots=True)
class Served:
    """Accounted CPU seconds of containers since they were attached; they only grow."""

    cpu_s: Mapping[str, float]
    now_s: float


@dataclass(frozen=True, slots=True)
class Resized:
    """A command was carried out; `refused` says why not, "" when it was."""

    container_id: str
    refused: str
    now_s: float


@dataclass(frozen=True, slots=True)
class Squeezed:
    """Memory is short (or no longer): while it is, no more containers run side by side than do now, at least one."""

    on: bool
    why: str
    now_s: float


@dataclass(frozen=True, slots=True)
class Ruled:
    """The rules changed."""

    rules: LasRules
    now_s: float


@dataclass(frozen=True, slots=True)
class Jobs:
    """The service that jobs attained over all nodes, by application; those that are not named are of level 0."""

    attained_s: Mapping[str, float]
    spared: Collection[str]
    """Of these as many containers gave way as may: others give way first."""
    now_s: float


@dataclass(frozen=True, slots=True)
class SharingTurn:
    """Time went by."""

    now_s: float


LasEvent = Joined | ReadyContainer | Pinned | Left | Served | Resized | Squeezed | Ruled | Jobs | SharingTurn


@dataclass(frozen=True, slots=True)
class Shrink:
    """Bound a container to `cores`; `Resized` follows."""

    container_id: str
    cores: float
    by: str
    """The container that takes its place, "" when there is none."""
    why: str


@dataclass(frozen=True, slots=True)
class Freeze:
    """Freeze a container; `Resized` follows."""

    container_id: str
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class Restore:
    """Give a container its full limits back; `Resized` follows."""

    container_id: str
    why: str


LasCommand = Shrink | Freeze | Restore
