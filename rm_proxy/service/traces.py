"""Spans of the proxy: from a container's ask to its delivery, and the announcement at its sidecar."""

from __future__ import annotations

from collections.abc import Iterable

from quicksilver.common.messages import Grant
from quicksilver.common.process.tracing import ROOT, Span, tracer
from rm_proxy.domain.records import GrantRecord


def trace_grant(record: GrantRecord) -> None:
    """Trace a container that was delivered: from its ask on, above all other spans of it."""
    traces = tracer()
    if not traces.sampled(record.container_id):
        return
    attributes = {
        "yarn.application.id": record.app_id,
        "yarn.node.id": record.node_id,
        "quicksilver.kind": record.kind.value,
        "quicksilver.why": record.route_reason,
        "quicksilver.why_node": record.place_reason,
        "quicksilver.expected_s": record.expected_s,
        "quicksilver.retries": record.retries,
        "quicksilver.settings": record.version,
    }
    traces.add(Span(record.container_id, ROOT, record.asked_s, record.granted_s, attributes))


def trace_announcement(node_id: str, grants: Iterable[Grant], start_s: float, end_s: float, error: str = "") -> None:
    """Trace the message that announced containers at a node."""
    traces = tracer()
    for grant in grants:
        if traces.sampled(grant.container_id):
            traces.add(Span(grant.container_id, "announce", start_s, end_s, {"yarn.node.id": node_id}, error))
