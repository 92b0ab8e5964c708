"""Records and announcements of delivered containers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from policies.model import AppView, Placement
from policies.value_types import value_type
from quicksilver.common.messages import Grant
from rm_proxy.attempt import frameworks
from rm_proxy.attempt.asks.ask_entry import QPlacement, Reason
from rm_proxy.attempt.cluster_view import ClusterView
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.domain.records import GrantRecord

_NOT_PLACED: Final = Placement(None, unit="")
CORE_WAIT_S: Final = 3.0
"""How long a container that was bound ahead waits for a core: after that the estimate was wrong, and its node gives it
back (own)."""


def granted(live: HeldContainer, app_id: str, attempt_id: str, reason: Reason, q: QPlacement | None) -> GrantRecord:
    """Return the record of a delivery; `q` is the placement of a queueable container that came where it was asked."""
    placement = q.placement if q is not None else _NOT_PLACED
    return GrantRecord(
        container_id=live.id,
        app_id=app_id,
        attempt_id=attempt_id,
        kind=live.kind,
        route_reason=reason.text,
        node_id=live.node_id,
        wanted_node=q.node_id if q is not None else None,
        place_reason=placement.reason if q is None or len(q.tried) == 1 else _why_there(q),
        scores=placement.scores,
        unit=placement.unit,
        priority=live.priority,
        resources=live.resources,
        expected_s=live.expected_s,
        asked_s=reason.asked_s,
        granted_s=live.granted_s,
        shadow=reason.shadow,
        spread_s=live.spread_s,
        expected_by=str(live.source),
        retries=reason.retries,
        follows=reason.follows,
        version=reason.version,
        place_version=placement.version,
    )


def _why_there(q: QPlacement) -> str:
    """Return why a container was steered to its node, with the nodes that did not grant it before."""
    others = sorted(q.tried - {q.node_id})
    before = f"{', '.join(others)} did not grant it" if others else ""
    return "; ".join(text for text in (before, q.placement.reason) if text)


@value_type
@dataclass(frozen=True, slots=True)
class GrantTerms:
    """Terms shared by all grants of an application at one time."""

    app: AppView
    queue_priority: int
    max_hold_s: float
    """How long a start may be held."""
    job_remaining_s: float
    """Estimated task-seconds that the application has left."""


def grant_terms(cluster: ClusterView, app_id: str, now_s: float) -> GrantTerms | None:
    """Return the terms of an application's grants, None while it is not known."""
    app = cluster.apps.app(app_id)
    if app is None:
        return None
    inventory = cluster.inventory
    remaining_s = cluster.durations.job_remaining_s(app_id, now_s)
    return GrantTerms(app, inventory.queue_priority(app.queue), inventory.hold_limit_s(app), remaining_s)


def announcement(live: HeldContainer, attempt_id: str, terms: GrantTerms) -> Grant:
    """Return the announcement of a queueable container for its node's sidecar."""
    app = terms.app
    return Grant(
        container_id=live.id,
        app_id=app.id,
        attempt_id=attempt_id,
        app_type=app.type,
        queue=app.queue,
        user=app.user,
        priority=live.priority,
        precedence=frameworks.precedence(app.type, live.priority),
        app_priority=app.priority,
        queue_priority=terms.queue_priority,
        job_submitted_s=app.submitted_s,
        expected_s=live.expected_s,
        spread_s=live.spread_s,
        job_remaining_s=terms.job_remaining_s,
        sheds=live.retries,
        memory_mb=live.resources.memory_mb,
        vcores=live.resources.vcores,
        max_hold_s=terms.max_hold_s,
        core_wait_s=CORE_WAIT_S if live.ahead else 0.0,
        known=not live.early,
    )
