"""Answers of the REST API on the tree of YARN's queues, and on a queue over time."""

from __future__ import annotations

from pydantic import BaseModel

from policies.model import Resources


class QueueNode(BaseModel):
    """A YARN queue in the tree; figures are those of all below it."""

    name: str
    """Full path."""
    leaf: bool
    state: str
    priority: int
    capacity: Resources
    """Guaranteed to it by the Capacity Scheduler; its steady fair share under the Fair Scheduler."""
    max_capacity: Resources
    used_g: Resources
    used_q: Resources
    """By queueable containers that have a node."""
    left_q: Resources | None = None
    """Resources that the quota leaves to further queueable containers; null where no quota counts by queue."""
    queueable: bool
    """Whether `policies.queues` lets queueable containers into this queue."""
    quotas: list[str] = []
    """Quota policies that decide on it."""
    wanted_g: int
    """Guaranteed pending containers: requested and not allocated yet."""
    wanted_q: int
    held: int
    """Allocated containers that are queued at their nodes."""
    apps: int
    users: int
    """Users with containers."""


class QueueTree(BaseModel):
    """All YARN queues."""

    items: list[QueueNode]
    """By name, so that a queue comes before those below it."""
    cluster: Resources
    """Sum of the usable nodes' resources."""


class QueueOverTime(BaseModel):
    """A YARN queue over time, from memory."""

    name: str
    step_s: float
    t: list[float]
    """Beginnings of the steps, Unix seconds; steps in which nothing changed from idle are left out."""
    values: dict[str, list[float | None]]
    """A list for each figure, as long as `t`."""
