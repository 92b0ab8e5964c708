"""Chooses a node for each queueable container, and counts those on their way to a node.

The choice is the `place` policy's (policies/place), among all usable nodes, or a sample of them in a large cluster
(node_sampling). A container that was shed to move goes to the target of its move instead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from random import Random
from typing import Final

from policies.common.node_candidates import SHOWN
from policies.errors import PolicyFaultError
from policies.model import Ask, NodeView, Placement, Resources
from policies.value_types import changer, replace
from rm_proxy.attempt.asks.ask_entry import QPlacement
from rm_proxy.attempt.effects import Faulted
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.coordinator.cluster_state import ClusterState
from rm_proxy.coordinator.moves import Mover
from rm_proxy.coordinator.nodes.node_sampling import NodeSampling
from rm_proxy.dispatch.giving_way import NOTHING_YIELDS
from rm_proxy.domain.comparison import Compare, PerSecond, Question, not_compared
from rm_proxy.probes.prober import Prober, off_long

MAX_COMPARED: Final = 10
"""Requests within a second whose containers alternatives alone would match."""
COMPARED_NODES: Final = 100
"""Nodes, drawn at random, that are candidates for these."""
_SHOWN: Final = 5
"""Nodes of a decision that are named."""
_with_wait: Final = changer(Placement, "wait_s", "version")


class Placer:
    """Asks the `place` policy, after the moves that are under way; compares its choice with the alternatives'."""

    def __init__(self, state: ClusterState, mover: Mover) -> None:
        self.state, self._mover = state, mover
        self.sampling = NodeSampling(state.nodes)
        self.prober: Prober | None = None
        self.compare: Compare = not_compared
        self._compared, self._shadow_rng = PerSecond(MAX_COMPARED), Random(0)
        """Of matches that only alternatives make: nothing else is to depend on them."""

    def has_room(self, resources: Resources) -> bool:
        """Return whether a queueable container of this size could start on some node now."""
        views = (node.view for node in self.state.nodes.values())
        return any(v.usable and v.has_room(resources) for v in views)

    def place(self, ask: Ask, avoid: Set[str], follows: str = "") -> Placement:
        """Choose a node for a queueable container, none of `avoid`.

        follows: the container in whose place it is asked for; where that one was shed for a node, it is tried first.
        """
        state, policies = self.state, self.state.policies
        moved = self._mover.arrive(ask, follows) if ask.steer and ask.steer not in avoid else None
        if moved is not None:
            return replace(moved, version=policies.version)
        turns = self.prober.turns(ask) if self.prober is not None else None
        views = self._least_loaded(ask) if turns is None and not avoid else []
        if not views:
            views = (
                self.sampling.candidates(ask, avoid, state.rng)
                if turns is None and not ask.matched
                else self._views(ask, avoid, turns)
            )
        if turns is not None and not any(ask.tier(view) is not None for view in views):
            return Placement(None, reason="in no queue it is the turn of a place of its application", wait=True)
        try:
            placement = self._choose(ask, views) if ask.shunned else policies.place(ask, views, state.rng)
            sampled = placement.wait and turns is None and not ask.matched and self.sampling.partial
            roomy = self._with_room(ask, avoid) if sampled and ask.anywhere else []
            if roomy:
                views, placement = roomy, policies.place(ask, roomy, state.rng)
        except PolicyFaultError as error:
            return Placement(None, reason=f"a policy failed: {error}")
        if placement.ahead and self._behind_long(ask, placement.node):
            return Placement(None, reason=f"long tasks hold all cores of {placement.node}", wait=True)
        for step in state.hooks.placed:
            step(ask, views, placement)
        if placement.node is None:
            return placement
        if follows:
            self._mover.placed_elsewhere(follows)
        return _with_wait(placement, state.nodes[placement.node].view.wait_s, policies.version)

    def _least_loaded(self, ask: Ask) -> list[NodeView]:
        """Return the nodes of which the policy is known to take one; none where it has to see all."""
        state = self.state
        if ask.matched or ask.shunned or ask.blacklist or state.hooks.placed or not state.policies.by_load:
            return []
        return state.ranking.best(ask, SHOWN, self.sampling.at)

    def _behind_long(self, ask: Ask, node_id: str | None) -> bool:
        """Return whether long tasks hold all cores of a node where the application is not to wait for them."""
        if self.prober is None or node_id is None or not off_long(ask.app, self.state.policies.for_app(ask.app)):
            return False
        return self.prober.cluster.all_long(node_id)

    def _choose(self, ask: Ask, views: list[NodeView]) -> Placement:
        """Have a node chosen; those that the ask shuns are tried last."""
        policies, rng = self.state.policies, self.state.rng
        others = [view for view in views if view.id not in ask.shunned]
        if others and len(others) < len(views):
            placement = policies.place(ask, others, rng)
            if placement.node is not None:
                return placement
        return policies.place(ask, views, rng)

    def _views(self, ask: Ask, avoid: Set[str], turns: Collection[str] | None) -> list[NodeView]:
        """Return the nodes to choose from; turns: where it is the turn of its application, None if it has no probes."""
        nodes = self.state.nodes
        if ask.matched and ask.matched in nodes and ask.matched not in avoid:
            return [nodes[ask.matched].view]
        if turns is None:
            return self.sampling.candidates(ask, avoid, self.state.rng)
        return [nodes[node_id].view for node_id in turns if node_id not in avoid]

    def match(self, asks: Sequence[Ask]) -> Sequence[str | None]:
        """Choose nodes for the containers of a request together; None for those that choose one after the other.

        Containers that are alike may be the same ask, again and again.
        """
        state, policies, known = self.state, self.state.policies, {}
        try:
            for ask in asks:
                if id(ask) not in known:
                    turns = self.prober.turns(ask) if self.prober is not None else None
                    known[id(ask)] = policies.place(ask, self._views(ask, frozenset(), turns), state.rng).scores
            tasks, app = [known[id(ask)] for ask in asks], asks[0].app
            node_ids = policies.for_app(app).cluster.match(tasks)
        except PolicyFaultError as error:
            state.effects.append(Faulted(asks[0].app.id, str(error)))
            return [None] * len(asks)
        self.compare(Question("match", app, node_ids, lambda rival: rival.cluster.match(tasks), _named))
        return node_ids

    def compare_match(self, asks: Sequence[Ask]) -> None:
        """Compare choosing nodes for containers of a request one after the other with choosing them together."""
        nodes, rng = self.state.nodes, self._shadow_rng
        if not self._compared.take(self.state.round_s):
            return
        drawn = rng.sample(list(nodes), min(COMPARED_NODES, len(nodes)))
        views = [nodes[node_id].view for node_id in drawn if nodes[node_id].view.usable]
        try:
            tasks = [self.state.policies.place(ask, views, rng).scores for ask in asks]
        except PolicyFaultError:
            return  # reported where the containers are placed
        none: Sequence[str | None] = [None] * len(asks)
        self.compare(Question("match", asks[0].app, none, lambda rival: rival.cluster.match(tasks), _named))

    def _with_room(self, ask: Ask, avoid: Set[str]) -> list[NodeView]:
        """Return nodes where the ask would start at once; in a large cluster a sample may have none of them."""
        nodes, free = self.state.nodes, self.state.free.nodes(ask.label, ask.resources)
        return [nodes[node_id].view for node_id in free if node_id not in avoid]

    def count_asked(self, q: QPlacement) -> None:
        """Count a queueable container at the node where it is asked for, until it comes or is asked for no longer."""
        nodes = self.state.nodes
        node = nodes[q.node_id]
        node.count_asked(q)
        if self.prober is not None:
            self.prober.taken(q.ask, q.node_id)
        if not q.placement.ahead and node.yields_level >= 0 and node.beyond > 0:
            for node_id in self.state.giving_way.taken(node.id):
                nodes[node_id].yields(NOTHING_YIELDS)

    def count_granted(self, live: HeldContainer, q: QPlacement | None) -> None:
        """Count a queueable container at its node until the sidecar mentions it; `q` is what it was asked for as."""
        if not self.state.grants.seen and (q is None or not q.minted):
            self.state.grants.granted()
        node = self.state.nodes.get(live.node_id)
        if node is not None:
            node.count_granted(live, q)


def _named(nodes: Sequence[str | None]) -> str:
    return ", ".join(node or "none" for node in nodes[:_SHOWN])
