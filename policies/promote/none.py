"""Leave queueable containers queueable."""

from __future__ import annotations

from policies.base import NoSettings, Policy
from policies.model import AppView, ContainerView, QueueView


def promote(running: ContainerView, app: AppView, queue: QueueView, cfg: NoSettings, now_s: float) -> str | None:
    """Return None: it stays queueable."""
    return None


POLICY = Policy("none", NoSettings, promote)
