"""Answers of the REST API on what an application waits for now. Durations are seconds."""

from __future__ import annotations

from pydantic import BaseModel

from policies.model import Resources


class WaitReason(BaseModel):
    """Why some containers wait."""

    code: str
    """scheduler, quota, tokens, admission, order, share, full, nowhere, next-call, granting, mode, policy-fault,
    node."""
    count: int
    """Containers."""
    text: str
    """In a sentence."""


class NodeCount(BaseModel):
    """Nodes that are alike for an ask."""

    what: str
    """free, full, unusable, too small, other label, blacklisted, kept for short jobs, policed, elsewhere."""
    count: int


class OutstandingAsk(BaseModel):
    """Pending containers of one kind."""

    priority: int
    request_id: int
    opportunistic: bool
    """Whether the application asked for OPPORTUNISTIC itself."""
    resources: Resources
    label: str
    hosts: list[str]
    """Named ones; 20 at most."""
    anywhere: bool
    """Whether other hosts will do."""
    guaranteed: int
    """The ResourceManager is asked for these."""
    without_node: int
    """Queueable ones that wait for a place."""
    at_node: int
    """Queueable ones that the ResourceManager is asked for at a node that was chosen."""
    oldest_s: float
    """How long the one waits that was asked for first."""
    reasons: list[WaitReason]
    nodes: list[NodeCount]
    """All nodes, as this ask sees them; empty where no container of it waits for a place."""


class HeldStartCounts(BaseModel):
    """Allocated containers that are queued at one node."""

    node_id: str
    count: int
    why: str
    """Of the one that waits longest."""
    longest_s: float
    starts_in_s: float | None
    """When the first of them is expected to start."""


class WaitsNow(BaseModel):
    """What an application waits for now."""

    app_id: str
    at_s: float
    wanted: int
    """Pending containers: requested and not allocated."""
    held: int
    """Allocated ones that are queued at their nodes."""
    story: list[str]
    """The same in sentences, the most containers first."""
    asks: list[OutstandingAsk]
    """100 at most, those with the most containers first."""
    asks_left_out: int = 0
    at_nodes: list[HeldStartCounts] = []
    """100 at most, the longest waits first."""
