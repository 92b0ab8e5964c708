"""Which nodes a placement policy is shown: all of a small cluster, a sample of a large one.

A choice among a sample is nearly as good as one among all (Mitzenmacher, "The power of two choices", TPDS 2001), and
its time does not grow with the cluster: the Mercury paper draws from 50 nodes of 256 (ATC '15, §7.2.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from random import Random
from typing import Final

from policies.model import Ask, NodeView
from rm_proxy.nodes import Node

MAX_SHOWN: Final = 256
"""Nodes of the sample; on clusters up to this size a policy sees every node."""
MAX_HINTED: Final = 64
"""Hosts that an ask names are shown beside the sample, when it names at most so many."""


class Shortlist:
    """The candidates among the coordinator's `nodes`, which may change at any time."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._by_label: dict[str, list[str]] = {}
        self._by_place: dict[str, list[str]] = {}

    def changed(self) -> None:
        """Take in that nodes came or went."""
        self._by_label, self._by_place = {}, {}
        for node in self._nodes.values():
            self._by_label.setdefault(node.view.label, []).append(node.id)
            self._by_place.setdefault(node.view.host, []).append(node.id)
            self._by_place.setdefault(node.view.rack, []).append(node.id)

    def candidates(self, ask: Ask, avoid: Set[str], rng: Random) -> list[NodeView]:
        """Return usable nodes, none of `avoid`."""
        if len(self._nodes) <= MAX_SHOWN:
            return [node.view for node in self._nodes.values() if node.view.usable and node.id not in avoid]
        if not ask.anywhere:
            chosen = self._at(ask.hosts | ask.racks)
        else:
            labelled = self._by_label.get(ask.label, [])
            chosen = dict.fromkeys(rng.sample(labelled, min(MAX_SHOWN, len(labelled))))
            if len(ask.hosts) <= MAX_HINTED:
                chosen.update(self._at(ask.hosts))
        nodes = (self._nodes.get(node_id) for node_id in chosen if node_id not in avoid)
        return [node.view for node in nodes if node is not None and node.view.usable]

    def _at(self, places: Set[str]) -> dict[str, None]:
        return {node_id: None for place in sorted(places) for node_id in self._by_place.get(place, ())}
