"""Choose no victims: the NodeManager itself kills its newest opportunistic containers for a guaranteed one."""

from __future__ import annotations

from collections.abc import Sequence

from policies.base import NoSettings, Policy
from policies.model import ContainerView, Resources


def victims(need: Resources, running: Sequence[ContainerView], cfg: NoSettings, now_s: float) -> list[str]:
    """Return no victims."""
    return []


POLICY = Policy("none", NoSettings, victims)
