"""Checks containers against settings that come soon: before a window begins or ends, no Q starts that it forbids."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from policies.config.quota_check import exceeded_quota
from policies.model import Ask, Kind, QueueView

if TYPE_CHECKING:
    from policies.config.policy_set import Policies


def forbidden(own: Policies, later: Policies, ask: Ask, queue: QueueView, rng: Random) -> str | None:
    """Return why `later` policies keep a container from being queueable, where they differ from `own`."""
    if own.mode(ask.app) == "active" and later.mode(ask.app) != "active":
        return f"{later.mode(ask.app)} mode"
    if own.differs(later, "route"):
        route = later.route(ask, rng)
        if route.kind is Kind.GUARANTEED:
            return route.reason
    return exceeded_quota(later, ask, queue) if own.differs(later, "quota") else None
