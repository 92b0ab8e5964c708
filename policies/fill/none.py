"""Let nothing start before the first of the queue, though the room that is free is too small for it."""

from __future__ import annotations

from policies.base import NoSettings, Policy
from policies.model import ContainerView, Gap


def fill(waiting: ContainerView, gap: Gap, cfg: NoSettings) -> bool:
    """Return False."""
    return False


POLICY = Policy("none", NoSettings, fill)
