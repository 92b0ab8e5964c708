"""Signs that an application is harmed by waiting: each makes its waits shorter, or ends them for good."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from rm_proxy.long_poll.bounds import LEAST_S

REGROW_S: Final = 0.5
"""How much longer an application may wait again after QUIET answers without a sign (own)."""
QUIET: Final = 8
LATE_PART: Final = 0.5
"""The part of the empty answers at the bound that content may follow at once (own)."""
STALE_WITHIN_S: Final = 3.0
STALE_OF: Final = 20
STALE_COUNT: Final = 3
"""Containers of STALE_OF that are released unstarted within STALE_WITHIN_S (own)."""


class Sign(StrEnum):
    """What was seen."""

    BROKEN = "broken"
    """Its connection broke while a call waited, or the call came again."""
    BEHIND = "behind"
    """It had new asks or releases as soon as its call was answered: they waited behind it."""
    STALE = "stale"
    """It released containers at once that came out of a wait: it no longer wanted them."""
    REFUSED = "refused"
    """The ResourceManager refused a call of ours."""


class Signs:
    """The signs of one attempt; times are Unix seconds. ended: called with the sign that ends its waits for good."""

    def __init__(self, ended: Callable[[Sign], None]) -> None:
        self._ended = ended
        self.off: Sign | None = None
        """The sign that ended its waits for good."""
        self.limit_s: float | None = None
        """How long it may wait by its signs; None without any."""
        self._seen: dict[Sign, int] = {}
        self._allowed_s = 0.0
        self.empty = False
        """Whether the last answer came empty at its bound."""
        self._behind: deque[bool] = deque(maxlen=QUIET)
        self._quiet = 0
        self._fresh: deque[tuple[str, float]] = deque(maxlen=STALE_OF)
        """Containers delivered out of a wait, each with the time."""
        self._released = 0

    def allowed_s(self, limit_s: float) -> float:
        """Return how long it may wait, of a bound by its settings; 0 for not at all."""
        self._allowed_s = limit_s
        return self.within(limit_s)

    def within(self, limit_s: float) -> float:
        """Return the same, to be shown."""
        if self.off is not None:
            return 0.0
        return limit_s if self.limit_s is None else min(limit_s, self.limit_s)

    def waited(self, at_bound: bool) -> None:
        """Note the end of a wait; at_bound: with an empty answer, since it had lasted long enough."""
        self.empty = at_bound

    @property
    def watches(self) -> bool:
        """Whether the next request of the application master may be a sign."""
        return self.empty or len(self._fresh) > 0

    def next_request(self, content: bool) -> None:
        """Note the request that follows an empty answer at the bound, and whether it has any content."""
        self.empty = False
        self._behind.append(content)
        if len(self._behind) == QUIET and sum(self._behind) > QUIET * LATE_PART:
            self._behind.clear()
            self.note(Sign.BEHIND)
            return
        self._quiet += 1
        if self._quiet >= QUIET and self.limit_s is not None:
            self._quiet = 0
            longer_s = self.limit_s + REGROW_S
            self.limit_s = longer_s if longer_s < self._allowed_s else None

    def delivered(self, container_ids: list[str], now_s: float) -> None:
        """Note containers that ended a wait."""
        if len(self._fresh) + len(container_ids) > STALE_OF:
            self._released = 0
        self._fresh.extend((container_id, now_s) for container_id in container_ids)

    def released(self, container_id: str, now_s: float) -> None:
        """Note a container that the application gave back unstarted."""
        for fresh_id, at_s in self._fresh:
            if fresh_id == container_id and now_s - at_s <= STALE_WITHIN_S:
                self._released += 1
                if self._released >= STALE_COUNT:
                    self._released = 0
                    self._fresh.clear()
                    self.note(Sign.STALE)
                return

    def note(self, sign: Sign) -> None:
        """Shorten the waits after a sign: to a half, and to nothing after the second one or a refusal."""
        count = self._seen[sign] = self._seen.get(sign, 0) + 1
        self._quiet = 0
        limit_s = (self._allowed_s if self.limit_s is None else self.limit_s) / 2
        fatal = sign is Sign.REFUSED or (count > 1 and sign in (Sign.BROKEN, Sign.STALE))
        if self.off is None and (fatal or limit_s < LEAST_S):
            self.off = sign
            self._ended(sign)
        self.limit_s = limit_s
