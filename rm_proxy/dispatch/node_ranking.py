"""Nodes on which one more container of a size would start at once, the least loaded first: by node label and size.

For placement policies that take one of the first (`policies.base.Policy.by_load`): they need not look at all nodes for
each container. A change of a node's view costs next to nothing until somebody asks.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Protocol

from policies.model import Ask, NodeView, Resources, loads_where_it_starts
from rm_proxy.dispatch.free_places import MAX_SIZES, LabelledSize

Rank = tuple[float, int, bool, str]
"""Load and containers of a node, whether it reports to another worker of the proxy, and its id."""


class Viewed(Protocol):
    """A node."""

    view: NodeView


@dataclass(slots=True)
class _Ranked:
    """The nodes of one label and size."""

    changed: dict[str, None]
    """Nodes whose views changed since they were ranked."""
    by_node: dict[str, Rank] = field(default_factory=dict)
    in_order: list[Rank] = field(default_factory=list)

    def set(self, node_id: str, rank: Rank | None) -> None:
        before = self.by_node.get(node_id)
        if rank == before:
            return
        if before is not None:
            del self.in_order[bisect_left(self.in_order, before)]
        if rank is not None:
            self.by_node[node_id] = rank
            insort(self.in_order, rank)
        else:
            del self.by_node[node_id]


class NodeRanking:
    """Ranks the coordinator's `nodes`; `changed` has the ids of those that changed, came or left.

    Of more than MAX_SIZES labels and sizes the one asked for least recently is forgotten.
    """

    def __init__(self, nodes: Mapping[str, Viewed]) -> None:
        self._nodes = nodes
        self.is_own: Callable[[str], bool] | None = None
        """In a proxy of several workers: whether a node reports to this one. Of those alike such a one is the first."""
        self.changed: dict[str, None] = {}
        self._ranked: dict[LabelledSize, _Ranked] = {}
        self._last: tuple[str, Resources | None, _Ranked] = "", None, _Ranked({})
        """What was asked for last: one ask often follows the other."""

    def best(self, ask: Ask, limit: int, nodes_at: Callable[[Set[str]], Collection[str]]) -> list[NodeView]:
        """Return up to `limit` nodes of the nearest tier on which an ask starts at once, the least loaded first.

        The ask blacklists nothing. nodes_at: returns the ids of the nodes on hosts and racks.
        """
        ranked = self._of(ask.label, ask.resources)
        for places in (ask.hosts, ask.racks):
            by_node = ranked.by_node
            near = [by_node[node_id] for node_id in nodes_at(places) if node_id in by_node] if places else []
            if near:
                return self._views(nsmallest(limit, near))
        return self._views(ranked.in_order[:limit]) if ask.anywhere else []

    def _views(self, ranks: list[Rank]) -> list[NodeView]:
        """Return the views of ranked nodes; if the first one is the worker's own, without those of others like it."""
        if self.is_own is not None and ranks and not ranks[0][2]:
            alike = ranks[0][:2]
            ranks = [rank for rank in ranks if not rank[2] or rank[:2] != alike]
        return [self._nodes[node_id].view for *_, node_id in ranks]

    def follow(self) -> None:
        """Rank the nodes that changed for all sizes."""
        for label, size in list(self._ranked):
            self._of(label, size)
        self.changed.clear()

    def _of(self, label: str, size: Resources) -> _Ranked:
        nodes = self._nodes
        if self.changed:
            for each in self._ranked.values():
                each.changed.update(self.changed)
            self.changed.clear()
        last_label, last_size, ranked = self._last
        if size is not last_size or label != last_label:
            key = label, size
            ranked = self._ranked.pop(key) if key in self._ranked else _Ranked(dict.fromkeys(nodes))
            if len(self._ranked) >= MAX_SIZES:
                del self._ranked[next(iter(self._ranked))]
            self._ranked[key] = ranked
            self._last = label, size, ranked
        if ranked.changed:
            views = [node.view for node_id in ranked.changed if (node := nodes.get(node_id)) is not None]
            loads = loads_where_it_starts([view for view in views if view.usable and view.label == label], size)
            own = self.is_own or _always
            ranks = {view.id: (load, view.containers, not own(view.id), view.id) for view, load in loads}
            for node_id in ranked.changed:
                ranked.set(node_id, ranks.get(node_id))
            ranked.changed.clear()
        return ranked


def _always(_node_id: str) -> bool:
    return True
