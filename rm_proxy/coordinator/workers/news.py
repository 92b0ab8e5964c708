"""What a worker passes on to the others: state, never steps, so that a later message makes good an earlier one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from policies.model import AppView, Resources
from rm_proxy.coordinator.job_outlook import Outlook
from rm_proxy.coordinator.nodes.nodes import Own
from rm_proxy.dispatch.free_places import LabelledSize
from rm_proxy.dispatch.group_queue import Demand

Charge = tuple[str, str, Resources, Resources, Resources]
"""What an attempt uses: YARN queue, user, by queueable and by guaranteed containers, by those that ended."""


def is_used(charge: Charge) -> bool:
    """Return whether an attempt uses anything."""
    return any(amount.memory_mb or amount.vcores for amount in charge[2:])


@dataclass(slots=True)
class InLine:
    """An attempt in the central queue since the last message."""

    now_s: float
    demand: Demand | None = None
    """What it waits for; None when it waits no more."""
    placed: int = 0
    """Containers that got a place."""
    full: tuple[LabelledSize, ...] = ()
    """Sizes for which it found no place."""


@dataclass(frozen=True, slots=True)
class PlacedApart:
    """Containers of an application that got places and did not wait in the central queue."""

    app: AppView
    sizes: Mapping[LabelledSize, int]
    count: int
    now_s: float


@dataclass(slots=True)
class News:
    """News of one worker; of what is named here all is said."""

    whole: bool = False
    """Whether this is all that the worker knows: what it said before is void."""
    places: dict[str, dict[str, Own]] = field(default_factory=dict)
    """By node: its containers that are on their way there, as the node has not reported them."""
    charges: dict[str, Charge] = field(default_factory=dict)
    """By attempt."""
    line: dict[str, InLine] = field(default_factory=dict)
    """By attempt."""
    apart: list[PlacedApart] = field(default_factory=list)
    outlooks: dict[str, Outlook | None] = field(default_factory=dict)
    """By application; None once it has no attempt."""

    def __bool__(self) -> bool:
        return self.whole or bool(self.places or self.charges or self.line or self.apart or self.outlooks)
