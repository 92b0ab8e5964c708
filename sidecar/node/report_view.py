"""Builds the node's part of the report: its sums, estimates and containers."""

from __future__ import annotations

from typing import Any, Final

from policies.model import Resources
from quicksilver.common.messages import ContainerReport, ContainerState, Report, WaitBySize
from sidecar.cpu_sharing.share import CoreShare
from sidecar.node.container import FOREIGN, GUARANTEED, QUEUEABLE, Container
from sidecar.node.forecast import DEFAULT_S, Forecast
from sidecar.node.node import SidecarNode
from sidecar.node.node_state import NodeState
from sidecar.node.wait_reason import WaitReasons

WAIT_SIZES: Final = 6
"""Sizes in each dimension for which waits are reported; each of all is a forecast of the queue."""


def fill_report(report: Report, node: SidecarNode, now_s: float, default_expected_s: float = DEFAULT_S) -> Report:
    """Return `report` with sums, estimates and containers; default_expected_s: for tasks without an estimate."""
    return report.model_copy(update=picture(node, now_s, default_expected_s))


def picture(node: SidecarNode, now_s: float, default_expected_s: float = DEFAULT_S) -> dict[str, Any]:
    """Return the report fields that describe the node's state."""
    state = node.state
    g, q = state.used(GUARANTEED), state.used(QUEUEABLE, FOREIGN)
    ahead = Forecast(node.room, now_s, default_expected_s)
    return {
        "memory_mb": state.rules.capacity.memory_mb,
        "vcores": state.rules.capacity.vcores,
        "used_g_mb": g.memory_mb,
        "used_g_vcores": g.vcores,
        "used_q_mb": q.memory_mb,
        "used_q_vcores": q.vcores,
        "free_physical_mb": state.free_physical_mb or 0,
        "queue_length": len(ahead.waiting),
        "ahead": node.held_starts.ahead,
        "slots": slots(node),
        "fences": True,
        "attained_sd_s": round(state.sharing.spread_s(), 3),
        "waits": waits_by_size(node, ahead) if node.state.waits_by_size() else [],
        "attained_sum_s": round(state.sharing.attained_s(), 3),
        "queued_s": round(ahead.queued_s, 3),
        "remaining_s": round(ahead.remaining_s, 3),
        "since_queueable_s": round(since_queueable_s(node, now_s), 3),
        "draining": bool(state.draining),
        "drain_reason": state.draining,
        "empty_in_s": _left_s(state.drain_until_s, now_s),
        "nm_down": state.nm_down,
        "containers": containers(node, now_s, ahead),
        "release": state.to_release(),
    }


def waits_by_size(node: SidecarNode, ahead: Forecast) -> list[WaitBySize]:
    """Return the waits for sizes of 1, 2, 4, .. GB and vcores up to the node's own: up to WAIT_SIZES each."""
    capacity = node.state.rules.capacity
    memories = sizes_up_to(capacity.memory_mb, 1024)
    sizes = [Resources(int(mb), vcores) for mb in memories for vcores in sizes_up_to(capacity.vcores, 1)]
    counted = ahead.waits_s([node.room.counted(size) for size in sizes])
    return [
        WaitBySize(memory_mb=size.memory_mb, vcores=size.vcores, wait_s=round(wait_s, 3))
        for size, wait_s in zip(sizes, counted, strict=True)
    ]


def sizes_up_to(most: float, least: float) -> list[float]:
    """Return `least` and its doubles below `most`, and that: WAIT_SIZES of them, the largest."""
    sizes, size = [most], least
    below = []
    while size < most:
        below.append(size)
        size *= 2
    return [*below[-(WAIT_SIZES - 1) :], *sizes]


def slots(node: SidecarNode) -> int:
    """Return how many containers of one vcore start at once: N + Q (Kairos §4.3.3); 0 where none is ever shrunk."""
    if not node.state.rules.shares_cpu:
        return 0
    return int((node.room.free_for_queueable() + node.state.used()).vcores)


def since_queueable_s(node: SidecarNode, now_s: float) -> float:
    """Return Tl in seconds."""
    last_s = node.state.last_queueable_s
    if last_s is None or any(c.kind == QUEUEABLE for c in node.state.using()):
        return 0.0
    return max(0.0, now_s - last_s)


def containers(node: SidecarNode, now_s: float, ahead: Forecast | None = None) -> list[ContainerReport]:
    """Return all containers, the waiting ones in the order in which they will start behind the others."""
    ahead = ahead or Forecast(node.room, now_s)
    order = {w.view.id: place for place, w in enumerate(ahead.waiting)}
    in_order = sorted(node.state.containers.values(), key=lambda c: (order.get(c.id, -1), c.arrived_s, c.id))
    reasons = WaitReasons(node.room, now_s)
    return [_report(node.state, c, order.get(c.id), now_s, ahead, reasons) for c in in_order]


def container(node: SidecarNode, container_id: str, now_s: float) -> ContainerReport | None:
    """Return one container, or None when it is not here."""
    return next((c for c in containers(node, now_s) if c.container_id == container_id), None)


def _report(
    state: NodeState, container: Container, place: int | None, now_s: float, ahead: Forecast, reasons: WaitReasons
) -> ContainerReport:
    grant, resources, share = container.grant, container.start.resources, state.sharing.share(container.id)
    small = share is not None and share.cores is not None
    shown = container.state
    if share is not None and small and not share.running and shown is ContainerState.RUNNING:
        shown = ContainerState.SHRUNK
    return ContainerReport(
        container_id=container.id,
        app_id=container.start.app_id,
        kind=container.kind,
        am=container.start.am,
        state=shown,
        memory_mb=resources.memory_mb,
        vcores=resources.vcores,
        priority=grant.priority if grant else container.start.priority,
        since_s=round(max(0.0, now_s - container.since_s), 3),
        expected_s=container.expected_s,
        starts_in_s=round(ahead.starts_s[place], 3) if place is not None else None,
        bypassed_s=round(_bypassed_s(state, container), 3),
        why=reasons.of(container, place),
        attained_s=share.measured_s if share is not None else None,
        cores=share.cores if share is not None else None,
        times_shrunk=share.times_shrunk if share is not None else 0,
        shrunk_by=share.last_by if share is not None else "",
        shrunk_ago_s=_ago_s(share, now_s),
        kill_in_s=_left_s(container.kill_s, now_s),
    )


def _left_s(at_s: float | None, now_s: float) -> float | None:
    """Return the whole seconds until a time; None for no time."""
    return None if at_s is None else float(max(0, round(at_s - now_s)))


def _bypassed_s(state: NodeState, container: Container) -> float:
    waiting = state.queue.get(container.id)
    return waiting.view.bypassed_s if waiting is not None else 0.0


def _ago_s(share: CoreShare | None, now_s: float) -> float | None:
    return None if share is None or share.shrunk_s is None else round(max(0.0, now_s - share.shrunk_s), 3)
