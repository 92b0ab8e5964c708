"""Events that a gate handles, and commands that it returns."""

from __future__ import annotations

from dataclasses import dataclass, field

from hadoop_rpc.connection import Failure, Response
from policies.value_types import value_type
from sidecar.node.events import Outcome, Start


@value_type
@dataclass(frozen=True, slots=True)
class FromClient:
    """Bytes arrived from the application master."""

    data: bytes = field(repr=False)


@value_type
@dataclass(frozen=True, slots=True)
class FromUpstream:
    """Bytes arrived from the NodeManager."""

    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClientClosed:
    """The application master is gone."""


@dataclass(frozen=True, slots=True)
class UpstreamClosed:
    """The NodeManager is gone, or its connection could not be made."""


@value_type
@dataclass(frozen=True, slots=True)
class GateDecided:
    """The node machine decided on a start of this connection: hold it, or forward it."""

    container_id: str
    hold: bool


@value_type
@dataclass(frozen=True, slots=True)
class Going:
    """A held start waits no longer."""

    container_id: str


@value_type
@dataclass(frozen=True, slots=True)
class OwnCall:
    """Send a call of our own on the session; it is answered by `OwnAnswer` with the tag."""

    tag: tuple[str, str]
    method: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class PingDue:
    """Show the NodeManager that the session is alive."""


@dataclass(frozen=True, slots=True)
class Again:
    """A second has passed since `StartEarly`."""

    container_id: str


GateEvent = FromClient | FromUpstream | ClientClosed | UpstreamClosed | GateDecided | Going | OwnCall | PingDue | Again


@value_type
@dataclass(frozen=True, slots=True)
class ToClient:
    """Send bytes to the application master."""

    data: bytes = field(repr=False)


@value_type
@dataclass(frozen=True, slots=True)
class ToUpstream:
    """Send bytes to the NodeManager."""

    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CloseClient:
    """Close the application master's connection once everything was sent."""


@dataclass(frozen=True, slots=True)
class CloseUpstream:
    """Close the NodeManager's connection once everything was sent."""


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """The NodeManager accepted the client's login as this attempt."""

    attempt_id: str


@dataclass(frozen=True, slots=True)
class PassesThrough:
    """From now on bytes pass unread. `encrypted`: because of the qop; else because of another protocol."""

    reason: str
    encrypted: bool


@dataclass(frozen=True, slots=True)
class Garbage:
    """A peer broke the protocol; both connections are closed. `side`: client or NodeManager."""

    side: str
    text: str


@value_type
@dataclass(frozen=True, slots=True)
class StartWanted:
    """A start arrived; `GateDecided` follows."""

    start: Start


@dataclass(frozen=True, slots=True)
class StartWithdrawn:
    """The client closed before the start was decided."""

    container_id: str


@dataclass(frozen=True, slots=True)
class StartEarly:
    """The NodeManager has not registered with the ResourceManager yet; `Again` follows in a second."""

    container_id: str


@dataclass(frozen=True, slots=True)
class StartAnswered:
    """The NodeManager answered a start that was forwarded here (LOST when it never will)."""

    container_id: str
    outcome: Outcome
    text: str


@dataclass(frozen=True, slots=True)
class StopWanted:
    """The application master stops a held start."""

    container_id: str


@dataclass(frozen=True, slots=True)
class ForceWanted:
    """A held start must be sent to the NodeManager before a call about it; `Going` follows."""

    container_id: str


@dataclass(frozen=True, slots=True)
class HoldFailed:
    """A held start could not be answered, and the application master noticed: it must not start."""

    container_id: str
    text: str


@value_type
@dataclass(frozen=True, slots=True)
class OwnAnswer:
    """The answer to a call of our own; None when the session was lost before."""

    tag: tuple[str, str]
    answer: Response | Failure | None = field(repr=False)


GateCommand = (
    ToClient
    | ToUpstream
    | CloseClient
    | CloseUpstream
    | LoggedIn
    | PassesThrough
    | Garbage
    | StartWanted
    | StartWithdrawn
    | StartEarly
    | StartAnswered
    | StopWanted
    | ForceWanted
    | HoldFailed
    | OwnAnswer
)
