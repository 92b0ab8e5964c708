"""Events that the node machine handles, and commands that it returns.

Times are Unix seconds, memory in MB. A *session* is an authenticated connection to the NodeManager that stays open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from policies.common.shrinking import Shrinking
from policies.model import Resources
from policies.value_types import value_type
from quicksilver.common.messages import ContainerEvent, Grant, Shed, Targets
from sidecar.cpu_sharing.events import LasCommand, ReadyContainer, Resized, Served, Squeezed


class Outcome(StrEnum):
    """Outcome of a start that was sent to the NodeManager."""

    STARTED = "started"
    REFUSED = "refused"
    LOST = "lost"


@value_type
@dataclass(frozen=True, slots=True)
class Start:
    """One start as it arrived at the gate: the fields of its container token, and the request itself."""

    container_id: str
    app_id: str
    """Of the token."""
    attempt_id: str
    """Of the session that brought it, believed by the NodeManager; "" when the session has none."""
    resources: Resources
    opportunistic: bool = False
    am: bool = False
    priority: int = 0
    user: str = ""
    expires_s: float = 0.0
    payload: bytes = b""
    """The serialized StartContainerRequestProto."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The proxy announced queueable containers of this node."""

    grants: tuple[Grant, ...]
    now_s: float


@dataclass(frozen=True, slots=True)
class NowKnown:
    """The ResourceManager knows these containers, which the proxy granted before it did."""

    container_ids: tuple[str, ...]
    now_s: float


@dataclass(frozen=True, slots=True)
class Dropped:
    """The proxy wants no start of these containers any more."""

    container_ids: tuple[str, ...]
    reason: str
    now_s: float


@value_type
@dataclass(frozen=True, slots=True)
class Arrived:
    """An application master (or the ResourceManager) asks for a start."""

    start: Start
    now_s: float


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The connection that brought a start closed before the start was decided."""

    container_id: str
    now_s: float


@value_type
@dataclass(frozen=True, slots=True)
class Answered:
    """The NodeManager answered a start, or never will."""

    container_id: str
    outcome: Outcome
    text: str
    now_s: float


@value_type
@dataclass(frozen=True, slots=True)
class Ended:
    """A container's process is gone."""

    container_id: str
    now_s: float


@dataclass(frozen=True, slots=True)
class KillOver:
    """A kill is done: the NodeManager says that the container is gone, or would not in time."""

    container_id: str
    gone: bool
    text: str
    now_s: float


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The application master stopped a waiting container."""

    container_id: str
    now_s: float


@dataclass(frozen=True, slots=True)
class Forced:
    """A call about a waiting container came that only the NodeManager can answer."""

    container_id: str
    now_s: float


@dataclass(frozen=True, slots=True)
class SessionUp:
    """The attempt has a session."""

    attempt_id: str
    now_s: float


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The attempt's last session is gone."""

    attempt_id: str
    now_s: float


@dataclass(frozen=True, slots=True)
class Adopted:
    """A container that ran before this sidecar started, as the NodeManager lists it."""

    container_id: str
    app_id: str
    resources: Resources
    opportunistic: bool
    now_s: float


@dataclass(frozen=True, slots=True)
class Doubtful:
    """What the NodeManager's list says of a start whose answer was lost: it is there, or it is not."""

    container_id: str
    there: bool
    now_s: float


@dataclass(frozen=True, slots=True)
class Unlaunched:
    """The NodeManager was restarted after it got a container's start, and lists it as one that it has not launched."""

    container_id: str
    now_s: float


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The NodeManager does not take note that these ended: it has not launched them, in its own view."""

    containers: tuple[Adopted, ...]
    now_s: float


@dataclass(frozen=True, slots=True)
class Localized:
    """The NodeManager lists a container that is being killed as localized: its stop interrupts no localizer."""

    container_id: str
    now_s: float


@dataclass(frozen=True, slots=True)
class NodeManagerQueues:
    """The NodeManager holds containers in its own queue instead of launching them."""

    container_ids: tuple[str, ...]
    now_s: float


@dataclass(frozen=True, slots=True)
class Physical:
    """Measured memory that is available without swapping."""

    free_mb: int
    now_s: float


@dataclass(frozen=True, slots=True)
class Targeted:
    """The proxy answered a report: its targets for this node, and waiting containers to shed."""

    targets: Targets | None
    shed: tuple[Shed, ...]
    promoted: tuple[str, ...]
    now_s: float


@dataclass(frozen=True, slots=True)
class Retuned:
    """Settings changed while containers share the CPU: these apply from now on."""

    shrinking: Shrinking
    now_s: float


@dataclass(frozen=True, slots=True)
class Drain:
    """Begin or end a drain: waiting containers are shed, and new queueable ones too.

    by: the party that wants it (admin, yarn, stop); the node holds again when no party wants it any more.
    timeout_s: time after which the queueable containers that still run are killed; None: they run to their ends.
    """

    on: bool
    reason: str
    now_s: float
    by: str = "admin"
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class NodeManagerState:
    """Whether the NodeManager answers: `why` it does not, "" when it does."""

    why: str
    now_s: float


@dataclass(frozen=True, slots=True)
class Dying:
    """The NodeManager is killing a container by itself; a frozen one could not end."""

    container_id: str
    now_s: float


@dataclass(frozen=True, slots=True)
class KillAsked:
    """Memory runs out: this container is to be killed."""

    container_id: str
    reason: str
    now_s: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Time went by."""

    now_s: float


Event = (
    Granted
    | NowKnown
    | Dropped
    | Arrived
    | Withdrawn
    | Answered
    | Ended
    | KillOver
    | StopAsked
    | Forced
    | SessionUp
    | SessionLost
    | Adopted
    | Doubtful
    | Unlaunched
    | Localized
    | NodeManagerQueues
    | Unfinished
    | Physical
    | Targeted
    | Retuned
    | Drain
    | NodeManagerState
    | Dying
    | KillAsked
    | ReadyContainer
    | Served
    | Resized
    | Squeezed
    | Tick
)


@dataclass(frozen=True, slots=True)
class Forward:
    """Forward the start to the NodeManager on the connection on which it arrived."""

    container_id: str


@value_type
@dataclass(frozen=True, slots=True)
class Hold:
    """Answer the start as started; it is held here."""

    container_id: str


@value_type
@dataclass(frozen=True, slots=True)
class Launch:
    """Send a held start on a session of the attempt; `Answered` follows."""

    container_id: str
    attempt_id: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Kill:
    """Stop a container on a session of the attempt and wait for its end; `KillOver` follows."""

    container_id: str
    attempt_id: str


@dataclass(frozen=True, slots=True)
class LetGo:
    """Give a container its full limits back until it ends; it no longer shares cores."""

    container_id: str


@value_type
@dataclass(frozen=True, slots=True)
class Settled:
    """The container waits no longer: calls about it may go on."""

    container_id: str


@value_type
@dataclass(frozen=True, slots=True)
class Watch:
    """Watch for the container's end; `Ended` follows."""

    container_id: str
    app_id: str
    sent_s: float = field(default=0.0, compare=False)
    """When its start was sent, Unix time: its process is not older. 0: not known."""


@value_type
@dataclass(frozen=True, slots=True)
class Unwatch:
    """The end is known."""

    container_id: str


@value_type
@dataclass(frozen=True, slots=True)
class Released:
    """The attempt needs no session any more."""

    attempt_id: str


@value_type
@dataclass(frozen=True, slots=True)
class ReportEvent:
    """Report an event of a container to the proxy until it is acknowledged."""

    event: ContainerEvent


@dataclass(frozen=True, slots=True)
class ReportSoon:
    """Report to the proxy soon, without an event."""


@dataclass(frozen=True, slots=True)
class Warn:
    """Log this."""

    container_id: str
    text: str


Command = (
    Forward
    | Hold
    | Launch
    | Kill
    | LetGo
    | Settled
    | Watch
    | Unwatch
    | Released
    | ReportEvent
    | ReportSoon
    | Warn
    | LasCommand
)
