"""The rows that go to the store, and the table of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from policies.model import Resources
from policies.value_types import value_type
from quicksilver.common.messages import ContainerEvent
from rm_proxy.domain.records import (
    AppRecord,
    ChangeRecord,
    CompletionRecord,
    DecisionRecord,
    DurationRecord,
    GrantRecord,
    UseRecord,
)


@value_type
@dataclass(frozen=True, slots=True)
class NodeEvent:
    """A container event as the sidecar of `node_id` reported it; (node_id, boot, event.seq) names it."""

    node_id: str
    boot: str
    event: ContainerEvent


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node that was there at `at_s` (Unix seconds)."""

    id: str
    host: str
    rack: str
    label: str
    capacity: Resources
    at_s: float


Row = (
    GrantRecord
    | CompletionRecord
    | AppRecord
    | NodeEvent
    | NodeSeen
    | DecisionRecord
    | ChangeRecord
    | UseRecord
    | DurationRecord
)
TABLE_NAMES: Final[dict[type, str]] = {
    GrantRecord: "grants",
    CompletionRecord: "completions",
    AppRecord: "applications",
    NodeEvent: "container_events",
    NodeSeen: "nodes",
    DecisionRecord: "decisions",
    ChangeRecord: "changes",
    UseRecord: "node_use",
    DurationRecord: "durations",
}


def table_of(row: Row) -> str:
    """Return the name of the table that keeps `row`."""
    return TABLE_NAMES[type(row)]
