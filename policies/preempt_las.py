"""Run the least attained service first, and shrink whom it displaces (Kairos, thesis §4.3.2 and §4.4).

CPU never needs a kill then. Memory does when nothing else frees it: shrunk containers keep theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.base import Policy
from policies.model import ContainerView, Resources
from policies.shrinking import Shrinking, least_work_lost


class Las(Shrinking):
    """Settings of las."""


def victims(need: Resources, running: Sequence[ContainerView], cfg: Las, now_s: float) -> list[str]:
    """Return who is killed for `need`, see `least_work_lost`."""
    return least_work_lost(need, running, cfg, now_s)


POLICY = Policy("las", Las, victims)
