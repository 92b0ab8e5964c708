"""Kill the running queueable containers of the lowest priority to make room for a guaranteed one (Mercury §3).

YARN's priority of the queue, then of the application; then what the application needs last; then the newest.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.base import Policy
from policies.common.victims import Killing, Victims, fewest
from policies.model import ContainerView, Resources


def victims(need: Resources, running: Sequence[ContainerView], cfg: Killing, now_s: float) -> list[str]:
    """Return ids of queueable containers, lowest priority first, that together cover `need`; see `fewest`."""
    return fewest(need, running, Victims.LOWEST_PRIORITY, now_s)


POLICY = Policy("kill_lowest_priority", Killing, victims)
