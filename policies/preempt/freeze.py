"""Run the least attained service first as `las` does, and freeze the containers that give way.

For mechanisms and applications that cannot do with a sliver of CPU. Kairos suspends (thesis §4.3.2) and resizes (§4.4).
"""

from __future__ import annotations

from policies.base import Policy
from policies.common.shrinking import Shrinking, victims
from policies.model import Way


class Freeze(Shrinking):
    """Settings of freeze."""

    def own_way(self) -> Way:
        """Return how this policy preempts."""
        return Way.FREEZE


POLICY = Policy("freeze", Freeze, victims)
