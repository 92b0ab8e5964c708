"""Kill the running queueable containers of the lowest priority to make room for a guaranteed one (Mercury §3).

In order: YARN's priority of the queue, of the application, how late the application needs the container, the newest.
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
