"""How long the containers that wait now have waited so far."""

from __future__ import annotations

from quicksilver.common.messages import ContainerState
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.views.delays import OpenWaits


def open_waits(coordinator: Coordinator, now_s: float, app_id: str | None = None) -> OpenWaits:
    """Return the waits of an application's containers, or of all."""
    g: list[tuple[float, int]] = []
    q: list[tuple[float, int]] = []
    for attempt in coordinator.attempts.living() if app_id is None else coordinator.attempts.living_of(app_id):
        for entry in attempt.entries:
            g += [(now_s - reason.asked_s, reason.count) for reason in entry.g_reasons]
            q += [(now_s - reason.asked_s, reason.count) for reason in entry.q_reasons]
            q += [(now_s - placement.reason.asked_s, 1) for placement in entry.pending.values()]
    at_nodes = [
        (c.since_s + max(0.0, now_s - node.reported_s), 1)
        for node in coordinator.nodes.values()
        for c in (node.report.containers if node.report is not None else ())
        if c.state is ContainerState.WAITING and app_id in (None, c.app_id)
    ]
    return OpenWaits(tuple(g), tuple(q), tuple(at_nodes))
