"""Chooses candidates for a placement policy: all nodes of a small cluster, a sample of a large one.

A choice among a sample is nearly as good as one among all (Mitzenmacher, "The power of two choices", TPDS 2001), and
its time does not grow with the cluster: the Mercury paper draws from 50 nodes of 256 (ATC '15, §7.2.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from random import Random
from typing import Final

from policies.model import Ask, NodeView
from rm_proxy.coordinator.nodes.nodes import Node

MAX_SHOWN: Final = 256
"""Nodes of the sample; on clusters up to this size a policy sees every node."""
REUSED: Final = 16
"""Placements that see the same sample, which costs as much as looking at it."""
MAX_HINTED: Final = 64
"""Hosts that an ask names are shown beside the sample, if it names at most this number."""


class NodeSampling:
    """The candidates among the coordinator's `nodes`, which may change at any time."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._by_label: dict[str, list[str]] = {}
        self._by_place: dict[str, list[str]] = {}
        self._sample: tuple[str, dict[str, None]] = "", {}
        self._uses = 0

    def changed(self) -> None:
        """Index the nodes anew after some came or went."""
        self._by_label, self._by_place, self._uses = {}, {}, 0
        for node in self._nodes.values():
            if node.yarn is not None:
                self._by_label.setdefault(node.yarn.label, []).append(node.id)
                self._by_place.setdefault(node.yarn.host, []).append(node.id)
                self._by_place.setdefault(node.yarn.rack, []).append(node.id)

    @property
    def partial(self) -> bool:
        """Whether a policy sees some of the nodes only."""
        return len(self._nodes) > MAX_SHOWN

    def candidates(self, ask: Ask, avoid: Set[str], rng: Random) -> list[NodeView]:
        """Return usable nodes, none of `avoid`."""
        if len(self._nodes) <= MAX_SHOWN:
            return [view for node in self._nodes.values() if (view := node.view).usable and node.id not in avoid]
        if not ask.anywhere:
            ids = self.at(ask.hosts | ask.racks)
        else:
            ids = self._sampled(ask.label, rng)
            if len(ask.hosts) <= MAX_HINTED:
                ids = ids | self.at(ask.hosts)
        nodes = (self._nodes.get(node_id) for node_id in ids if node_id not in avoid)
        return [node.view for node in nodes if node is not None and node.view.usable]

    def _sampled(self, label: str, rng: Random) -> dict[str, None]:
        if self._uses == 0 or self._sample[0] != label:
            labelled = self._by_label.get(label, [])
            self._sample = label, dict.fromkeys(rng.sample(labelled, min(MAX_SHOWN, len(labelled))))
            self._uses = REUSED
        self._uses -= 1
        return self._sample[1]

    def at(self, places: Set[str]) -> dict[str, None]:
        """Return the ids of the nodes on hosts and racks."""
        return {node_id: None for place in sorted(places) for node_id in self._by_place.get(place, ())}
