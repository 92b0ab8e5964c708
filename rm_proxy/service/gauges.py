"""Gauges of what the coordinator knows, set when they are read: counting all nodes takes as long as a round."""

from __future__ import annotations

from collections import Counter

from policies.model import Kind
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.nodes.nodes import NodeReservation
from rm_proxy.metrics import ProxyMetrics


def set_gauges(metrics: ProxyMetrics, coordinator: Coordinator, now_s: float, report_fresh_s: float) -> None:
    """Set the gauges of nodes, attempts and containers; report_fresh_s: age of a report that makes a node unusable."""
    nodes = coordinator.nodes.values()
    uses = Counter(node.use(now_s, report_fresh_s) for node in nodes)
    for use in NodeReservation:
        metrics.nodes.labels(use.value).set(uses[use])
    metrics.own_grant_nodes.set(coordinator.minter.ring.usable(now_s))
    metrics.own_grants.labels("granted").inc(coordinator.minter.take_count())
    running = [now_s - n.reported_s for n in nodes if n.report is not None and n.yarn is not None and n.yarn.running]
    metrics.report_age_s.set(max(running, default=0.0))
    attempts = open_promotions = live = live_q = wanted_g = wanted_q = 0
    for attempt in coordinator.attempts.values():
        if attempt.finished:
            continue
        attempts += 1
        live += len(attempt.live)
        live_q += attempt.live.count_q
        if attempt.promotion.busy:
            open_promotions += sum(1 for _ in attempt.promotion.outstanding())
        for entry in attempt.entries:
            wanted_g += entry.g_share
            wanted_q += entry.q_wanted + len(entry.pending)
    served = sum(known.entered_s is not None for known in coordinator.admissions.apps.values())
    metrics.admitted.labels("in service").set(served)
    metrics.admitted.labels("waiting").set(len(coordinator.admissions.apps) - served)
    metrics.waiting.set(len(coordinator.central))
    metrics.claimed.set(coordinator.central.claimed_idle(now_s))
    metrics.attempts.set(attempts)
    metrics.promotions_open.set(open_promotions)
    metrics.live.labels(Kind.QUEUEABLE.value).set(live_q)
    metrics.live.labels(Kind.GUARANTEED.value).set(live - live_q)
    metrics.pending.labels(Kind.GUARANTEED.value).set(wanted_g)
    metrics.pending.labels(Kind.QUEUEABLE.value).set(wanted_q)
