"""Limit the queueable containers of each application by its guaranteed ones (Mercury, ATC '15, §4.1, quota (2))."""

from __future__ import annotations

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.model import Ask, QueueView


class Relative(PolicyConfig):
    """Settings of relative."""

    per_g: float = Field(
        2.0, ge=0, json_schema_extra={"unit": "containers", "source": "Mercury §4.1: up to 2 times the guaranteed ones"}
    )
    """Queueable containers that an application may have for each guaranteed one that it holds."""
    min_q: int = Field(10, ge=0, json_schema_extra={"unit": "containers", "source": "own"})
    """Queueable containers that it may have in any case; 0: none before its first guaranteed one."""


def quota(ask: Ask, queue: QueueView, cfg: Relative) -> str | None:
    """Return None while the application has fewer queueable containers than its guaranteed ones allow, else the reason.

    Its own application master is no guaranteed one here: the ResourceManager grants that by itself.
    """
    app = ask.app
    allowed = max(cfg.min_q, cfg.per_g * app.live_g)
    if app.live_q + 1 <= allowed:
        return None
    return (
        f"relative: {app.id} has {app.live_q} queueable containers, its quota is {allowed:g} "
        f"({cfg.per_g:g} for each of {app.live_g} guaranteed ones, at least {cfg.min_q})"
    )


POLICY = Policy("relative", Relative, quota)
