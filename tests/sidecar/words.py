"""A small vocabulary for tests of the node machine."""

from __future__ import annotations

from typing import Any

from policies.common.victims import Killing
from policies.model import ContainerView, Resources
from policies.preempt.kill_newest import victims
from quicksilver.common.messages import ContainerEvent, EventKind, Grant
from sidecar.node.container import Rules
from sidecar.node.events import Arrived, ReportEvent, Start
from sidecar.node.node import SidecarNode
from sidecar.node.node_policies import NodePolicies

APP = "application_1_0001"
ATTEMPT = "appattempt_1_0001_000001"


def grant(container_id: str, **fields: Any) -> Grant:
    """Return the announcement of a container of 1024 MB and 1 vcore."""
    base = {"app_id": APP, "attempt_id": ATTEMPT, "memory_mb": 1024, "vcores": 1, "max_hold_s": 100, "expected_s": 10}
    return Grant(container_id=container_id, **(base | fields))


def start(container_id: str, *, q: bool = True, **fields: Any) -> Start:
    """Return a start of 1024 MB and 1 vcore."""
    base: dict[str, Any] = {"resources": Resources(1024, 1), "expires_s": 600.0, "payload": b"launch"}
    return Start(container_id, APP, ATTEMPT, **({"opportunistic": q} | base | fields))


def arrived(container_id: str, now_s: float, *, q: bool = True, **fields: Any) -> Arrived:
    """Return the event of a start that came."""
    return Arrived(start(container_id, q=q, **fields), now_s)


def reports(seq: int, container_id: str, kind: EventKind, at_s: float, **fields: Any) -> ReportEvent:
    """Return the command that reports an event."""
    return ReportEvent(ContainerEvent(seq=seq, container_id=container_id, kind=kind, at_s=at_s, **fields))


def by_arrival(waiting: ContainerView, now_s: float) -> tuple[float, ...]:
    """Return the key of first come, first served."""
    return (waiting.arrived_s,)


def node(
    memory_mb: int = 2048, vcores: int = 2, grace_s: float = 0.0, notice_s: float = 0.0, **rules: Any
) -> SidecarNode:
    """Return a node with arrival order that kills the newest, after a time of grace; MapReduce's after a notice."""
    base: dict[str, Any] = {"reserve_mb": 0, "settle_s": 0.0}
    capacity = Resources(memory_mb, vcores)
    cfg = Killing(grace_s=grace_s)
    return SidecarNode(
        Rules(capacity, **(base | rules)),
        NodePolicies(
            by_arrival,
            lambda need, run, at: victims(need, run, cfg, at),
            grace_s=lambda: cfg.grace_s,
            notice_s=lambda app_type: notice_s if app_type == "MAPREDUCE" else 0.0,
        ),
    )
