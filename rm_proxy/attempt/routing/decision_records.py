"""Records of an attempt's decisions beside its grants: refusals, steers, falls to guaranteed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from policies.model import AppView, Placement, Route
from rm_proxy.attempt.asks.ask_entry import QPlacement
from rm_proxy.attempt.cluster_view import ClusterView
from rm_proxy.attempt.effects import Decided, Effect, FellBack
from rm_proxy.domain.records import DecisionRecord


class DecisionRecorder:
    """Makes the records of one application attempt."""

    def __init__(self, app_id: str, world: ClusterView, emit: Callable[[Effect], None]) -> None:
        self._app_id, self._world, self._emit = app_id, world, emit

    def refused(self, app: AppView, refusals: Mapping[Route, int], now_s: float) -> None:
        """Record containers that a route made queueable and a token, quota or window guaranteed; counts by refusal."""
        policies = self._world.policies.for_app(app)
        for route, count in refusals.items():
            policy = policies.policy_name(route.slot) if route.slot in ("quota", "admit") else ""
            self._decided(now_s, route.slot, policy, "", "G", route.reason, weight=count)

    def steered(self, app: AppView, q: QPlacement, placement: Placement, now_s: float) -> None:
        """Record that a container is steered away from the node in `q`; call it before `q` is changed."""
        policy = self._world.policies.for_app(app).policy_name("place")
        why = f"{q.node_id} did not grant it"
        reason = f"{why}; {placement.reason}" if placement.reason else why
        node = placement.node or ""
        self._decided(now_s, "place", policy, node, node, reason, placement)

    def fell_back(self, app: AppView | None, why: str, now_s: float, count: int = 1) -> None:
        """Record that this number of queueable containers goes guaranteed after all."""
        policy = self._world.policies.for_app(app).policy_name("place") if app is not None else ""
        self._emit(FellBack(self._app_id, why, count))
        self._decided(now_s, "place", policy, "", "G", f"fell back to guaranteed: {why}", weight=count)

    def _decided(
        self,
        now_s: float,
        slot: str,
        policy: str,
        node_id: str,
        decision: str,
        reason: str,
        placement: Placement | None = None,
        weight: int = 1,
    ) -> None:
        record = DecisionRecord(
            at_s=now_s,
            slot=slot,
            policy=policy,
            app_id=self._app_id,
            node_id=node_id,
            chosen=decision,
            reason=reason,
            scores=placement.scores if placement else (),
            unit=placement.unit if placement else "",
            weight=weight,
        )
        self._emit(Decided(record))
