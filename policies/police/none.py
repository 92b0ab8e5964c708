"""Leave to queueable containers all that guaranteed ones do not use."""

from __future__ import annotations

from policies.base import NoSettings, Policy
from policies.model import Limit, NodeUse


def police(use: NodeUse, cfg: NoSettings, now_s: float) -> Limit | None:
    """Return None: no limit."""
    return None


POLICY = Policy("none", NoSettings, police)
