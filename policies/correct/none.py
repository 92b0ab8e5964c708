"""Leave each waiting container where it was placed."""

from __future__ import annotations

from policies.base import NoSettings, Policy
from policies.model import ContainerView, NodeQueue, NodeView


def correct(waiting: ContainerView, here: NodeQueue, best: NodeView, cfg: NoSettings, now_s: float) -> str | None:
    """Return None: it stays."""
    return None


POLICY = Policy("none", NoSettings, correct)
