"""Leave a fixed part of each node's memory to queueable containers (Mercury, ATC '15, §7.2.3, Table 1)."""

from __future__ import annotations

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.model import Limit, NodeUse, Resources


class MemoryLimit(PolicyConfig):
    """Settings of memory_limit."""

    max_ratio: float = Field(
        0.3, ge=0, le=1, json_schema_extra={"source": "Mercury §7.2.3, Table 1: what 70 % of guaranteed load leave"}
    )
    """Part of a node's memory that queueable containers may use; 0.2, 0.3, 0.4 and 1 in the paper."""


def police(use: NodeUse, cfg: MemoryLimit, now_s: float) -> Limit | None:
    """Return the part of the node's memory; vcores have no limit."""
    limit = Resources(int(use.capacity.memory_mb * cfg.max_ratio), use.capacity.vcores)
    return Limit(limit, f"memory_limit: {cfg.max_ratio:.0%} of {use.capacity.memory_mb} MB")


POLICY = Policy("memory_limit", MemoryLimit, police)
