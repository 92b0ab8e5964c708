"""Keep a part of the nodes for short jobs, as large as their part of all work (Hawk, thesis §2.3.4).

The nodes are taken in an order that never changes, so that a part that grows keeps those that it had. All nodes of one
host go together, since the ResourceManager is asked to keep long jobs off by the names of hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.common.short_long import kept_for_short
from policies.model import NodeView, WorkShares


class ShortOnly(PolicyConfig):
    """Settings of short_only."""

    ratio: float = Field(0.0, ge=0, lt=1, json_schema_extra={"source": "Hawk §2.3.4: their part of the work"})
    """Part of the nodes; 0 to follow the part that short jobs had of the work of the last hours (half-life one hour;
    none before 20 tasks of classed jobs ended)."""
    min_ratio: float = Field(0.02, ge=0, lt=1, json_schema_extra={"source": "Hawk, table 2.1: Facebook, Yahoo"})
    """The least part, where it follows the work."""
    max_ratio: float = Field(0.2, ge=0, lt=1, json_schema_extra={"source": "Hawk, table 2.1: Google has 0.17"})
    """The greatest part, where it follows the work."""


def partition(nodes: Sequence[NodeView], shares: WorkShares, cfg: ShortOnly) -> list[str]:
    """Return the ids of the nodes that long jobs are kept off; at least one host is for all."""
    ratio = cfg.ratio
    if not ratio:
        if shares.short_ratio is None:
            return []
        ratio = min(max(shares.short_ratio, cfg.min_ratio), max(cfg.min_ratio, cfg.max_ratio))
    by_host: dict[str, list[str]] = {}
    for node in nodes:
        by_host.setdefault(node.host, []).append(node.id)
    hosts = sorted(by_host, key=_rank)[: max(0, kept_for_short(len(by_host), ratio))]
    return [node_id for host in hosts for node_id in by_host[host]]


def _rank(host: str) -> tuple[bytes, str]:
    """Return the place of a host in the order in which they are taken: over all racks."""
    return blake2b(host.encode(), digest_size=8).digest(), host


POLICY = Policy("short_only", ShortOnly, partition)
