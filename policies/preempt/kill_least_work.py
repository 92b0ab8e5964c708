"""Kill the running queueable containers that lose the least work to make room for a guaranteed one (Mercury §3).

Work is the CPU time of the processes of a container where the sidecar can see them, else the time since its start.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.base import Policy
from policies.common.victims import Killing, Victims, fewest
from policies.model import ContainerView, Resources


def victims(need: Resources, running: Sequence[ContainerView], cfg: Killing, now_s: float) -> list[str]:
    """Return ids of queueable containers, least work first, whose resources together cover `need`; see `fewest`."""
    return fewest(need, running, Victims.LEAST_WORK, now_s)


POLICY = Policy("kill_least_work", Killing, victims, by_work=True)
