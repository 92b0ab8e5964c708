"""Gauges of what the coordinator knows, set once a round."""

from __future__ import annotations

from policies.model import Kind
from rm_proxy.coordinator import Coordinator
from rm_proxy.metrics import ProxyMetrics


def set_gauges(metrics: ProxyMetrics, coordinator: Coordinator, now_s: float) -> None:
    """Set the gauges of nodes, attempts and containers."""
    nodes = coordinator.nodes.values()
    usable = sum(1 for node in nodes if node.view.usable)
    metrics.nodes.labels("usable").set(usable)
    metrics.nodes.labels("unusable").set(len(nodes) - usable)
    running = [now_s - n.reported_s for n in nodes if n.report is not None and n.yarn is not None and n.yarn.running]
    metrics.report_age_s.set(max(running, default=0.0))
    alive = [attempt for attempt in coordinator.attempts.values() if not attempt.finished]
    metrics.attempts.set(len(alive))
    metrics.promotions_open.set(sum(1 for attempt in alive for _ in attempt.promotion.outstanding()))
    queueable = sum(attempt.live.count_q for attempt in alive)
    metrics.live.labels(Kind.QUEUEABLE.value).set(queueable)
    metrics.live.labels(Kind.GUARANTEED.value).set(sum(len(attempt.live) for attempt in alive) - queueable)
    entries = [entry for attempt in alive for entry in attempt.entries]
    metrics.wanted.labels(Kind.GUARANTEED.value).set(sum(entry.g_share for entry in entries))
    metrics.wanted.labels(Kind.QUEUEABLE.value).set(sum(e.q_wanted + len(e.pending) for e in entries))
