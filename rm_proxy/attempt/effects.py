"""Effects: orders of an attempt or of the coordinator to other parts, and their reports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from policies.value_types import value_type
from quicksilver.common.messages import Grant
from rm_proxy.domain.records import CompletionRecord, DecisionRecord, GrantRecord
from rm_proxy.estimates.estimator import EstimateSource


class BypassPhase(StrEnum):
    """State of a breaker."""

    ACTIVE = "active"
    BYPASS = "bypass"
    TRIAL = "trial"


@dataclass(frozen=True, slots=True)
class Turned:
    """A breaker moved: `app_id` is "" for the whole cluster."""

    app_id: str
    phase: BypassPhase
    why: str


@value_type
@dataclass(frozen=True, slots=True)
class Announce:
    """Announce to a node's sidecar a queueable container that is being granted."""

    node_id: str
    grant: Grant


@dataclass(frozen=True, slots=True)
class DropHeld:
    """Have a node's sidecar forget a start that it may hold."""

    node_id: str
    container_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The ResourceManager knows a container that its application got before: its start may go."""

    node_id: str
    container_id: str
    waited_s: float
    """How long after its grant."""


@value_type
@dataclass(frozen=True, slots=True)
class Granted:
    """A container was delivered to the application master."""

    record: GrantRecord


@value_type
@dataclass(frozen=True, slots=True)
class Completed:
    """The end of a container was delivered to the application master."""

    record: CompletionRecord


@dataclass(frozen=True, slots=True)
class FellBack:
    """Wanted queueable containers went guaranteed after all."""

    app_id: str
    reason: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Returned:
    """An unwanted container is given back to the ResourceManager."""

    container_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Faulted:
    """A policy raised or returned an invalid answer; its container went guaranteed."""

    app_id: str
    fault: str


@dataclass(frozen=True, slots=True)
class Moved:
    """The move of a waiting container ended, in success or failure."""

    cause: str
    """steal or correct."""
    outcome: str
    """there, elsewhere, guaranteed, kept (it was not shed in time), lost (it was not asked for again in time)."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision that is kept for `quicksilver explain`."""

    record: DecisionRecord


@value_type
@dataclass(frozen=True, slots=True)
class Estimated:
    """A container ended: its estimate when it was granted, and how long it ran; seconds."""

    source: EstimateSource
    expected_s: float
    ran_s: float


@dataclass(frozen=True, slots=True)
class Noticed:
    """An application master will hear with its next answer that a container will be killed, or a node emptied."""

    app_id: str
    container_id: str
    """"" for a node."""
    node_id: str


@dataclass(frozen=True, slots=True)
class BadTags:
    """Tags of an application that look like duration hints but cannot be read."""

    app_id: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TooLarge:
    """An application asks for so much that its asks pass unread from now on."""

    app_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The ResourceManager refused an allocate call that the proxy had rewritten."""

    app_id: str
    why: str


@dataclass(frozen=True, slots=True)
class BudgetTurned:
    """An application, or all of them, went to bypass by the error budget or an order, or came back."""

    turned: Turned


@dataclass(frozen=True, slots=True)
class ShadowFaulted:
    """A policy of an alternative failed beside the real ones; nothing came of it."""

    alternative: str
    slot: str
    fault: str
    count: int = 1
    """How often."""


Effect = (
    Announce
    | Confirmed
    | DropHeld
    | Granted
    | Completed
    | FellBack
    | Returned
    | Faulted
    | Moved
    | Decided
    | Estimated
    | Noticed
    | BadTags
    | BudgetTurned
    | Refused
    | ShadowFaulted
    | TooLarge
)
