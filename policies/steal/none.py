"""Let no node take over waiting containers of another."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from policies.base import NoSettings, Policy
from policies.model import NodeQueue, NodeView


def steal(thief: NodeView, others: Sequence[NodeQueue], cfg: NoSettings, rng: Random, now_s: float) -> list[str]:
    """Return nothing to take over."""
    return []


POLICY = Policy("none", NoSettings, steal)
