"""The steps of the feature `shadow`: what alternatives would have decided, request by request and once a round."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from policies.config.policy_set import Policies
from policies.errors import PolicyFaultError
from policies.model import Ask, NodeView, Placement, QueueView, Route
from policies.waiting import WaitingApp
from quicksilver.common.messages import Report
from rm_proxy.attempt.effects import Faulted
from rm_proxy.coordinator.cluster_state import ClusterState
from rm_proxy.coordinator.shadow import Shadow
from rm_proxy.dispatch.central_queue import CentralQueue
from rm_proxy.domain.comparison import Compare, Question
from rm_proxy.probes.order_shadow import OrderShadow

MAX_COMPARED: Final = 500
"""Waiting applications of which alternatives choose the first one."""


class ShadowRounds:
    """Hooks of the comparison with alternatives; its effects go to the state of the coordinator."""

    def __init__(
        self, state: ClusterState, shadow: Shadow, central: CentralQueue, probe_order: OrderShadow, compare: Compare
    ) -> None:
        self._state, self._shadow, self._central = state, shadow, central
        self._probe_order, self._compare = probe_order, compare

    def routed(self, ask: Ask, queue: QueueView, route: Route, now_s: float) -> None:
        """Compare whether a container is guaranteed or queueable."""
        self._state.effects += self._shadow.routed(self._state.policies, ask, queue, route, now_s)

    def placed(self, ask: Ask, nodes: Sequence[NodeView], placement: Placement) -> None:
        """Compare where a queueable container waits."""
        state = self._state
        state.effects += self._shadow.placed(state.policies, ask, nodes, placement, state.round_s)

    def reported(self, node_id: str, report: Report, now_s: float) -> None:
        """Handle what a sidecar counted of the slots that decide at nodes."""
        self._shadow.nodes.report(node_id, report.compared)

    def forget_node(self, node_id: str) -> None:
        """Forget a node that left the cluster."""
        self._shadow.nodes.forget_node(node_id)

    def clear(self) -> None:
        """Forget what sidecars counted."""
        self._shadow.nodes.clear()

    def round(self, now_s: float) -> None:
        """Compare the decisions of a round: targets of nodes, the order of applications and of probes."""
        state = self._state
        usable = [node.view for node in state.nodes.values() if node.view.usable]
        state.effects += self._shadow.shed(state.policies, usable, now_s)
        self._compare_order(now_s)
        self._probe_order.round(now_s)
        state.effects += self._shadow.at_nodes(state.policies, now_s)

    def _compare_order(self, now_s: float) -> None:
        """Compare which application would get the next place."""
        waiting = self._central.applicants(MAX_COMPARED)
        first = partial(_first, waiting, now_s)
        try:
            app_id = first(self._state.policies.for_nodes)
        except PolicyFaultError as error:
            self._state.effects.append(Faulted("", str(error)))
            return
        if waiting:
            self._compare(Question("dispatch", None, app_id, first, _named))


def _named(app_id: str) -> str:
    return app_id or "the first that asks"


def _first(waiting: Sequence[WaitingApp], now_s: float, policies: Policies) -> str:
    """Return the application that would get the next place; "" where the first heartbeat decides."""
    keys = ((policies.cluster.dispatch_key(applicant, now_s), applicant.app) for applicant in waiting)
    ranked = [((-app.priority, *key), app.id) for key, app in keys if key]
    return min(ranked)[1] if ranked else ""
