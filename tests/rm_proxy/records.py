"""Rows of the store, for tests of what reads them."""

from __future__ import annotations

from typing import Any

from policies.model import Kind, Resources
from rm_proxy.domain.records import GrantRecord


def grant_record(container_id: str, **fields: Any) -> GrantRecord:
    """Return a queueable container of application_1_0001 that was allocated on n1:1."""
    base: dict[str, Any] = {
        "app_id": "application_1_0001",
        "attempt_id": "appattempt_1_0001_000001",
        "kind": Kind.QUEUEABLE,
        "route_reason": "rule 1",
        "node_id": "n1:1",
        "wanted_node": None,
        "place_reason": "least wait",
        "scores": (),
        "unit": "s",
        "priority": 20,
        "resources": Resources(512, 1),
        "expected_s": 10.0,
        "asked_s": 0.0,
        "granted_s": 0.0,
    }
    return GrantRecord(container_id=container_id, **(base | fields))
