"""No limit on queueable containers."""

from __future__ import annotations

from policies.base import NoSettings, Policy
from policies.model import Ask, QueueView


def quota(ask: Ask, queue: QueueView, cfg: NoSettings) -> str | None:
    """Return None: every queueable container may be asked for."""
    return None


POLICY = Policy("none", NoSettings, quota, alike=True)
