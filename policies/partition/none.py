"""Keep no node for short jobs."""

from __future__ import annotations

from collections.abc import Sequence

from policies.base import NoSettings, Policy
from policies.model import NodeView, WorkShares


def partition(nodes: Sequence[NodeView], shares: WorkShares, cfg: NoSettings) -> list[str]:
    """Return no node."""
    return []


POLICY = Policy("none", NoSettings, partition)
