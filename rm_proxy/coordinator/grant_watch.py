"""Whether the ResourceManager grants queueable containers at all, as it is asked."""

from __future__ import annotations

from math import inf
from typing import Final

REFUSED: Final = 3
"""Containers that no node granted before the ResourceManager counts as one that grants none."""
TRIAL_S: Final = 60.0
"""Seconds after which it is asked again."""
LEARNT: Final = (
    f"the ResourceManager granted none of the first {REFUSED} queueable containers on any node: see its log, and "
    "`quicksilver doctor`"
)


class GrantWatch:
    """A machine: grants and refusals in; while `why_none` is set, containers go guaranteed without a try.

    Where version and configuration of the ResourceManager say that it grants none, none is tried. Otherwise the first
    containers tell, as long as it has granted nothing; from time to time some are tried again.
    """

    def __init__(self) -> None:
        self._by_configuration = ""
        self._refused = 0
        self.seen = False
        """Whether it granted any."""
        self._trial_s = inf
        """When containers are tried again; inf while they are."""
        self._shown = ""
        self.why_none = ""
        """Why the ResourceManager grants no queueable containers; "" while it may. Each request reads it."""

    def configured(self, why_none: str) -> None:
        """Note what version and configuration say: why there are no grants; "" where nothing speaks against them."""
        if self._by_configuration and not why_none:
            self._refused, self._trial_s = 0, inf
        self._by_configuration = why_none
        self._conclude()

    def granted(self) -> None:
        """Note the first grant."""
        self.seen, self._trial_s = True, inf
        self._conclude()

    def refused(self, now_s: float) -> None:
        """Note that no node granted a container."""
        if not self.seen:
            self._refused += 1
            if self._refused >= REFUSED and self._trial_s == inf:
                self._trial_s = now_s + TRIAL_S
                self._conclude()

    def round(self, now_s: float) -> bool:
        """Do the work of each second; returns whether containers have to be decided on anew."""
        if now_s >= self._trial_s:
            self._trial_s, self._refused = inf, 0
            self._conclude()
        turned = self.why_none != self._shown
        self._shown = self.why_none
        return turned

    def _conclude(self) -> None:
        self.why_none = self._by_configuration or (LEARNT if self._trial_s < inf else "")
