"""Shed nothing: a waiting container stays at its node until it starts or its hold limit is reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from policies.base import NoSettings, Policy
from policies.model import NodeView, ShedTarget


def shed(nodes: Sequence[NodeView], cfg: NoSettings, now_s: float) -> Mapping[str, ShedTarget]:
    """Return no limits."""
    return {}


POLICY = Policy("none", NoSettings, shed, steady=True)
