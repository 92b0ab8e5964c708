"""Report the ResourceManager's own headroom to the application."""

from __future__ import annotations

from policies.base import NoSettings, Policy
from policies.model import AppView, Resources


def headroom(limit: Resources, app: AppView, cfg: NoSettings) -> Resources:
    """Return `limit`, with negative amounts as 0."""
    return Resources(max(0, limit.memory_mb), max(0, limit.vcores))


POLICY = Policy("as_is", NoSettings, headroom)
