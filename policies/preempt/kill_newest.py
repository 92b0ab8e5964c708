"""Kill the newest running queueable containers to make room for a guaranteed one.

Source: the container scheduler of the Hadoop 3 NodeManager; the newest has lost the least work. Mercury §3 settles G-Q
conflicts for G.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.base import Policy
from policies.common.victims import Killing, Victims, fewest
from policies.model import ContainerView, Resources


def victims(need: Resources, running: Sequence[ContainerView], cfg: Killing, now_s: float) -> list[str]:
    """Return ids of queueable containers, newest first, whose resources together cover `need`; see `fewest`."""
    return fewest(need, running, Victims.NEWEST, now_s)


POLICY = Policy("kill_newest", Killing, victims)
