"""Run the least attained service first as `las` does, and let stand still whom it displaces.

For mechanisms and applications that cannot do with a sliver of CPU. Kairos suspends (thesis §4.3.2) and resizes (§4.4).
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.base import Policy
from policies.model import ContainerView, Resources, Way
from policies.shrinking import Shrinking, least_work_lost


class Freeze(Shrinking):
    """Settings of freeze."""

    def own_way(self) -> Way:
        """Return how this policy preempts."""
        return Way.FREEZE


def victims(need: Resources, running: Sequence[ContainerView], cfg: Freeze, now_s: float) -> list[str]:
    """Return who is killed for `need`, see `least_work_lost`."""
    return least_work_lost(need, running, cfg, now_s)


POLICY = Policy("freeze", Freeze, victims)
