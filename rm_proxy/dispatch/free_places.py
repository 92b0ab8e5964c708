"""Counts the free places of the cluster: how many containers of a size could start at once, without any wait.

The counts are kept for the sizes in use; a change of a node's view costs nothing until somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import Final, NamedTuple

from policies.model import NodeView, Resources

MAX_SIZES: Final = 16
"""Labels and sizes that are counted, or ranked; of more the one asked for least recently is forgotten."""
MAX_NODES: Final = 64
"""Nodes with free places that a placement is shown."""

LabelledSize = tuple[str, Resources]


class Stock(NamedTuple):
    """Places of one label and size."""

    free: int
    """How many are free now."""
    came: int
    """How many came free up to now; only differences mean something."""


def places(view: NodeView, size: Resources, ahead_s: float = 0.0) -> int:
    """Return how many containers of this size would start at once on a node, all at their full size.

    On a full node one may be bound ahead, if a container is expected to end within `ahead_s`.
    """
    return _at_once(view, size) or int(ahead_s > 0 and view.frees_within(size, ahead_s))


def _at_once(view: NodeView, size: Resources) -> int:
    if not view.usable or view.queue_length or not view.has_room(size):
        return 0
    used, capacity = view.used_g + view.used_q, view.capacity
    fit = min(
        (capacity.memory_mb - used.memory_mb) // size.memory_mb if size.memory_mb else inf,
        (capacity.vcores - used.vcores) // size.vcores if size.vcores else inf,
        view.slots - view.containers if view.slots else inf,
    )
    if view.limit_q is not None and size.memory_mb:
        fit = min(fit, (view.limit_q.memory_mb - view.used_q.memory_mb) // size.memory_mb)
    return max(0, int(fit)) if fit < inf else 1


@dataclass(slots=True)
class _Counted:
    """The places of one label and size."""

    came: int
    """How many came free up to now."""
    by_node: dict[str, int] = field(default_factory=dict)
    """Nodes with at least one."""
    total: int = 0

    def set(self, node_id: str, count: int) -> None:
        before = self.by_node.pop(node_id, 0)
        self.total += count - before
        self.came += max(0, count - before)
        if count:
            self.by_node[node_id] = count


class FreePlaces:
    """Free places by node label and size.

    view_of: returns a node's view, None when it is not known. `changed` has the ids of the nodes whose views changed.
    """

    def __init__(self, view_of: Callable[[str], NodeView | None]) -> None:
        self._view_of = view_of
        self._ahead_s = 0.0
        self.changed: dict[str, None] = {}
        self._known: dict[str, None] = {}
        self.counted: dict[LabelledSize, _Counted] = {}
        self._came = 0
        """At least as many as came free of each size that is not counted any more."""

    @property
    def node_count(self) -> int:
        """How many nodes are known."""
        self.follow()
        return len(self._known)

    def bind_ahead(self, ahead_s: float) -> None:
        """Count full nodes, too, on which a container is expected to end within this time; 0: none."""
        if ahead_s != self._ahead_s:
            self._ahead_s = ahead_s
            for key in list(self.counted):
                self._forget(key)

    def count(self, label: str, size: Resources) -> int:
        """Return how many containers of this size could start at once on the nodes of a label."""
        return self._of(label, size).total

    def stock(self, label: str, size: Resources) -> Stock:
        """Return the same, and how many came free up to now."""
        counted = self._of(label, size)
        return Stock(counted.total, counted.came)

    def by_node(self, label: str, size: Resources) -> Mapping[str, int]:
        """Return the nodes of a label with places of this size, and how many each has."""
        return self._of(label, size).by_node

    def nodes(self, label: str, size: Resources) -> list[str]:
        """Return up to MAX_NODES nodes of a label with a place of this size; those that got it last come last."""
        return list(islice(self._of(label, size).by_node, MAX_NODES))

    def _of(self, label: str, size: Resources) -> _Counted:
        self.follow()
        key = label, size
        counted = self.counted.pop(key, None)
        if counted is None:
            counted = _Counted(self._came)
            for node_id in self._known:
                self._count(counted, key, node_id)
            if len(self.counted) >= MAX_SIZES:
                self._forget(next(iter(self.counted)))
        self.counted[key] = counted
        return counted

    def _forget(self, key: LabelledSize) -> None:
        self._came = max(self._came, self.counted.pop(key).came)

    def follow(self) -> None:
        """Count the nodes anew that changed since the last call."""
        changed = self.changed
        if not changed:
            return
        for node_id in changed:
            if self._view_of(node_id) is None:
                self._known.pop(node_id, None)
            else:
                self._known[node_id] = None
            for key, counted in self.counted.items():
                self._count(counted, key, node_id)
        changed.clear()

    def _count(self, counted: _Counted, key: LabelledSize, node_id: str) -> None:
        view = self._view_of(node_id)
        fits = view is not None and view.label == key[0]
        counted.set(node_id, places(view, key[1], self._ahead_s) if view is not None and fits else 0)
