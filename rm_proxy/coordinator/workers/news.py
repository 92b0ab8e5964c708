"""What a worker passes on to the others: state, never steps, so that a later message makes good an earlier one.

As tuples of numbers and texts: to pickle objects of ours takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from operator import attrgetter
from typing import Any, Final, NamedTuple

from policies.model import AppView, NodeView, Resources
from policies.waiting import WaitingApp
from rm_proxy.coordinator.job_outlook import Outlook
from rm_proxy.coordinator.nodes.nodes import Own
from rm_proxy.dispatch.free_places import LabelledSize
from rm_proxy.dispatch.group_queue import Demand

Place = tuple[int, float, float, bool, str]
"""A container on its way to a node: memory (MB), vcores, expected seconds, bound ahead, application."""
Charge = tuple[str, str, int, float, int, float, int, float]
"""What an attempt uses: YARN queue, user; memory and vcores by queueable and by guaranteed containers, and by those
that ended."""
Sizes = tuple[tuple[str, int, float, int], ...]
"""Label, memory, vcores and count of containers."""
_NO_CHARGE: Final = (0, 0, 0, 0, 0, 0)


def place_of(own: Own) -> Place:
    """Return a container on its way as a tuple."""
    size = own.resources
    return size.memory_mb, size.vcores, own.expected_s, own.ahead, own.app_id


def own_of(place: Place) -> Own:
    """Return the container of a tuple, which only its worker takes away again."""
    memory_mb, vcores, expected_s, ahead, app_id = place
    return Own(Resources(memory_mb, vcores), expected_s, reserved=True, ahead=ahead, app_id=app_id)


def charge_of(queue: str, user: str, used_q: Resources, used_g: Resources, over_q: Resources) -> Charge:
    """Return what an attempt was charged with as a tuple."""
    guaranteed = used_g.memory_mb, used_g.vcores
    return queue, user, used_q.memory_mb, used_q.vcores, *guaranteed, over_q.memory_mb, over_q.vcores


def is_used(charge: Charge) -> bool:
    """Return whether an attempt uses anything."""
    return charge[2:] != _NO_CHARGE


class InLine(NamedTuple):
    """An attempt in the central queue since the last message."""

    now_s: float
    demand: tuple[Any, ...] | None = None
    """What it waits for (`demand_tuple`); None when it waits no more."""
    placed: int = 0
    """Containers that got a place."""
    full: Sizes = ()
    """Sizes for which it found no place."""


class PlacedApart(NamedTuple):
    """Containers of an application that got places and did not wait in the central queue."""

    queue: str
    user: str
    sizes: Sizes
    placed: int
    now_s: float


def sizes_tuple(sizes: Mapping[LabelledSize, int]) -> Sizes:
    """Return labels and sizes with counts as tuples."""
    return tuple((label, size.memory_mb, size.vcores, count) for (label, size), count in sizes.items())


def sizes_of(sizes: Sizes) -> dict[LabelledSize, int]:
    """Return them as the central queue has them."""
    return {(label, Resources(memory_mb, vcores)): count for label, memory_mb, vcores, count in sizes}


_app_fields: Final = attrgetter(*takewhile(lambda name: name != "asked_g_size", AppView.__dataclass_fields__))
"""The fields of an application before its sizes; no policy of the central queue looks at what follows."""


def demand_tuple(demand: Demand) -> tuple[Any, ...]:
    """Return what an application waits for as a tuple."""
    waiting, asked_g = demand.waiting, demand.asked_g
    times = waiting.attained_s, waiting.expected_s, waiting.waits_since_s, waiting.asked_s
    counts = waiting.ask_count, waiting.container_count
    sizes = sizes_tuple(demand.sizes)
    return _app_fields(waiting.app), counts, times, sizes, demand.queue_priority, asked_g.memory_mb, asked_g.vcores


def demand_of(fields: tuple[Any, ...]) -> Demand:
    """Return the demand of a tuple."""
    app, counts, times, sizes, queue_priority, memory_mb, vcores = fields
    waiting = WaitingApp(AppView(*app), *counts, *times)
    return Demand(waiting, sizes_of(sizes), queue_priority, Resources(memory_mb, vcores))


_fields_of: Final = attrgetter(*NodeView.__dataclass_fields__)
_SIZES: Final = [list(NodeView.__dataclass_fields__).index(name) for name in ("capacity", "used_g", "used_q")]
_LIMIT_Q: Final = list(NodeView.__dataclass_fields__).index("limit_q")
_WAITS: Final = list(NodeView.__dataclass_fields__).index("waits")
ViewFields = list[Any]


def view_fields(view: NodeView) -> ViewFields:
    """Return the fields of a node's view in their order, sizes as pairs."""
    fields = list(_fields_of(view))
    for at in _SIZES:
        size = fields[at]
        fields[at] = size.memory_mb, size.vcores
    if (limit_q := view.limit_q) is not None:
        fields[_LIMIT_Q] = limit_q.memory_mb, limit_q.vcores
    fields[_WAITS] = [(size.memory_mb, size.vcores, wait_s) for size, wait_s in view.waits]
    return fields


def view_of(fields: ViewFields) -> NodeView:
    """Return the view of these fields."""
    values = list(fields)
    for at in _SIZES:
        values[at] = Resources(*values[at])
    if values[_LIMIT_Q] is not None:
        values[_LIMIT_Q] = Resources(*values[_LIMIT_Q])
    values[_WAITS] = [(Resources(memory_mb, vcores), wait_s) for memory_mb, vcores, wait_s in values[_WAITS]]
    return NodeView(*values)


@dataclass(slots=True)
class News:
    """News of one worker; of what is named here all is said."""

    whole: bool = False
    """Whether this is all that the worker knows: what it said before is void."""
    places: dict[str, dict[str, Place]] = field(default_factory=dict)
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
