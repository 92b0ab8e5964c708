"""Who goes to which node: the part of the attempts' ClusterView that knows the nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set
from dataclasses import replace
from random import Random

from policies.config.policy_set import Policies
from policies.config.schema import Mode
from policies.errors import PolicyFaultError
from policies.model import AppView, Ask, NodeView, Placement, QueueView, Resources, Route
from rm_proxy.attempt.ask_entry import QPlacement
from rm_proxy.attempt.effects import Effect
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.coordinator.moves import Mover
from rm_proxy.coordinator.node_sampling import NodeSampling
from rm_proxy.coordinator.nodes import Node
from rm_proxy.coordinator.shadow import Shadow


class Places(ABC):
    """Nodes, placements among them, and moves from one to another."""

    def __init__(self, policies: Policies, rng: Random) -> None:
        self.policies = policies
        self.rng = rng
        self.nodes: dict[str, Node] = {}
        self.mover = Mover(self)
        self.shadow = Shadow()
        self._shortlist = NodeSampling(self.nodes)
        self._now_s = 0.0
        """When the last round was; Unix seconds."""
        self._effects: list[Effect] = []

    @abstractmethod
    def app(self, app_id: str) -> AppView | None:
        """Return the application's record, None while it is not known."""

    @abstractmethod
    def mode(self, app: AppView) -> Mode:
        """Return how an application is treated now."""

    @abstractmethod
    def live(self, container_id: str) -> HeldContainer | None:
        """Return a container that an application holds, None when none does."""

    def node(self, node_id: str) -> NodeView | None:
        """Return a node, None when it is not known."""
        node = self.nodes.get(node_id)
        return node.view if node is not None else None

    def has_room(self, resources: Resources) -> bool:
        """Tell whether a queueable container of this size could start on some node now."""
        views = (node.view for node in self.nodes.values())
        return any(v.usable and v.has_room(resources) for v in views)

    def node_changed(self, node_id: str, usable: bool) -> None:
        """Take in a node's state as an answer of the ResourceManager told it."""
        node = self.nodes.get(node_id)
        if node is not None:
            node.unusable = not usable
            node.view = replace(node.view, usable=node.view.usable and usable)
            node.bare = replace(node.bare, usable=node.view.usable)

    def beside(self, ask: Ask, queue: QueueView, chosen: Route, now_s: float) -> None:
        """Compare a decision on one wanted container with what alternatives would have decided."""
        self._effects += self.shadow.routed(self.policies, ask, queue, chosen, now_s)

    def steered_to(self, follows: str) -> str:
        """Return the node for which a container was shed; "" for none."""
        return self.mover.steered_to(follows)

    def goes_guaranteed(self, follows: str) -> None:
        """Take in that what was asked for in place of a container that was shed goes guaranteed."""
        self.mover.goes_guaranteed(follows)

    def place(self, ask: Ask, avoid: Set[str], follows: str = "") -> Placement:
        """Choose a node for a queueable container, none of `avoid`.

        follows: the container in whose place it is asked for; where that one was shed for a node, it is tried first.
        """
        moved = self.mover.arrive(ask, follows) if ask.steer and ask.steer not in avoid else None
        if moved is not None:
            return replace(moved, version=self.policies.version)
        policies, views = self.policies, self._shortlist.candidates(ask, avoid, self.rng)
        try:
            placement = policies.place(ask, views, self.rng)
        except PolicyFaultError as error:
            return Placement(None, reason=f"a policy failed: {error}")
        self._effects += self.shadow.placed(policies, ask, views, placement, self._now_s)
        if placement.node is None:
            return placement
        self.mover.goes_elsewhere(follows)
        return replace(placement, wait_s=self.nodes[placement.node].view.wait_s, version=policies.version)

    def asked(self, q: QPlacement) -> None:
        """Count a queueable container at the node where it is asked for, until it comes or is asked for no longer."""
        self.nodes[q.node_id].asked(q)

    def given(self, live: HeldContainer, q: QPlacement | None) -> None:
        """Count a queueable container at its node until the sidecar mentions it; `q` is what it was asked for as."""
        node = self.nodes.get(live.node_id)
        if node is not None:
            node.given(live, q)
