"""Chooses a node for each queueable container, and counts those on their way to a node.

The choice is the `place` policy's (policies/place), among all usable nodes, or a sample of them in a large cluster
(node_sampling). A container that was shed to move goes to the target of its move instead.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from policies.errors import PolicyFaultError
from policies.model import Ask, NodeView, Placement, QueueView, Resources, Route
from rm_proxy.attempt.ask_entry import QPlacement
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.coordinator.cluster_state import ClusterState
from rm_proxy.coordinator.moves import Mover
from rm_proxy.coordinator.node_sampling import NodeSampling
from rm_proxy.coordinator.shadow import Shadow
from rm_proxy.dispatch.giving_way import NOTHING_YIELDS


class Placer:
    """Asks the `place` policy, after the moves that are under way; compares its choice with the alternatives'."""

    def __init__(self, state: ClusterState, mover: Mover, shadow: Shadow) -> None:
        self.state, self._mover, self._shadow = state, mover, shadow
        self.sampling = NodeSampling(state.nodes)

    def has_room(self, resources: Resources) -> bool:
        """Return whether a queueable container of this size could start on some node now."""
        views = (node.view for node in self.state.nodes.values())
        return any(v.usable and v.has_room(resources) for v in views)

    def compare_route(self, ask: Ask, queue: QueueView, chosen: Route, now_s: float) -> None:
        """Compare a decision on one wanted container with what alternatives would have decided."""
        self.state.effects += self._shadow.routed(self.state.policies, ask, queue, chosen, now_s)

    def place(self, ask: Ask, avoid: Set[str], follows: str = "") -> Placement:
        """Choose a node for a queueable container, none of `avoid`.

        follows: the container in whose place it is asked for; where that one was shed for a node, it is tried first.
        """
        state, policies = self.state, self.state.policies
        moved = self._mover.arrive(ask, follows) if ask.steer and ask.steer not in avoid else None
        if moved is not None:
            return replace(moved, version=policies.version)
        views = self.sampling.candidates(ask, avoid, state.rng)
        try:
            placement = policies.place(ask, views, state.rng)
            roomy = self._with_room(ask, avoid) if placement.wait and ask.anywhere and self.sampling.partial else []
            if roomy:
                views, placement = roomy, policies.place(ask, roomy, state.rng)
        except PolicyFaultError as error:
            return Placement(None, reason=f"a policy failed: {error}")
        state.effects += self._shadow.placed(policies, ask, views, placement, state.round_s)
        if placement.node is None:
            return placement
        self._mover.placed_elsewhere(follows)
        return replace(placement, wait_s=state.nodes[placement.node].view.wait_s, version=policies.version)

    def _with_room(self, ask: Ask, avoid: Set[str]) -> list[NodeView]:
        """Return nodes where the ask would start at once; in a large cluster a sample may have none of them."""
        nodes, free = self.state.nodes, self.state.free.nodes(ask.label, ask.resources)
        return [nodes[node_id].view for node_id in free if node_id not in avoid]

    def count_asked(self, q: QPlacement) -> None:
        """Count a queueable container at the node where it is asked for, until it comes or is asked for no longer."""
        nodes = self.state.nodes
        node = nodes[q.node_id]
        node.count_asked(q)
        if node.yields_level >= 0 and node.beyond > 0:
            for node_id in self.state.giving_way.taken(node.id):
                nodes[node_id].yields(NOTHING_YIELDS)

    def count_granted(self, live: HeldContainer, q: QPlacement | None) -> None:
        """Count a queueable container at its node until the sidecar mentions it; `q` is what it was asked for as."""
        node = self.state.nodes.get(live.node_id)
        if node is not None:
            node.count_granted(live, q)
