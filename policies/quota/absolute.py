"""Limit the queueable containers of each application to a number (Mercury, ATC '15, §4.1, quota (1))."""

from __future__ import annotations

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.model import Ask, QueueView


class Absolute(PolicyConfig):
    """Settings of absolute."""

    max_q: int = Field(100, ge=0, json_schema_extra={"unit": "containers", "source": "Mercury §4.1: app1 at most 100"})
    """Outstanding queueable containers that one application may have: asked for, waiting or running."""


def quota(ask: Ask, queue: QueueView, cfg: Absolute) -> str | None:
    """Return None while the application has fewer than `cfg.max_q` queueable containers, else the reason."""
    if ask.app.live_q < cfg.max_q:
        return None
    return f"absolute: {ask.app.id} has {ask.app.live_q} queueable containers, its quota is {cfg.max_q}"


POLICY = Policy("absolute", Absolute, quota)
