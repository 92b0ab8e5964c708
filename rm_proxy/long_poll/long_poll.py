"""The waiting call of one application attempt, as a machine: when the ResourceManager is asked again, when it ends.

While a call waits, the ResourceManager is called as the application master itself would do it: each second, more often
while guaranteed containers are asked for, and at once when there is something to send.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from math import inf
from typing import Final

from rm_proxy.long_poll.signs import Sign, Signs

PACE_S: Final = 1.0
"""Time between two calls of a waiting attempt: that of MapReduce and AMRMClientAsync."""
FAST_PACE_S: Final = 0.25
"""The same while guaranteed containers are asked for, or one of its containers ended (own)."""
GATHER_S: Final = 0.2
"""Time after the first placement in which others are awaited, to be asked for together (own)."""
ENDED_S: Final = 1.0
"""Time after the first end of a container at its node after which the call is answered in any case (own): its
completion takes up to a second to the ResourceManager."""


class Why(StrEnum):
    """Why a wait ended."""

    NEWS = "news"
    BOUND = "bound"
    ENDED = "container ended"
    MODE = "mode"
    FINISH = "finish"
    REPEATED = "repeated"
    REFUSED = "refused"
    LOST = "connection lost"
    STOPPED = "stopped"


class Act(Enum):
    """What is due."""

    NOTHING = auto()
    POLL = auto()
    """Call the ResourceManager."""
    END = auto()
    """Answer the waiting call with the last absorbed answer."""


@dataclass(slots=True)
class _Wait:
    since_s: float
    bound_s: float
    polled_s: float
    fast: bool
    last: Why | None = None
    """Why the answer of the call that is under way, or due, ends the wait; None if only news do."""
    in_flight: bool = False
    due_s: float = inf
    """When something of ours has to be sent."""
    ended_s: float = inf
    """When it ends because a container of its own ended."""


class LongPoll:
    """All waits of one attempt, one at a time; times are Unix seconds. off: called with the sign that ends them."""

    def __init__(self, off: Callable[[Sign], None]) -> None:
        self.signs = Signs(off)
        self.finishing = False
        """Whether the application master asked to unregister."""
        self._wait: _Wait | None = None

    @property
    def waiting(self) -> bool:
        """Whether a call waits."""
        return self._wait is not None

    @property
    def since_s(self) -> float | None:
        """Since when a call waits; None if none does."""
        return self._wait.since_s if self._wait is not None else None

    def start_over(self) -> None:
        """Note that the attempt registers anew."""
        self.finishing = False

    # The wait

    def begin(self, now_s: float, limit_s: float, fast: bool) -> None:
        """Begin to wait; limit_s: how long at most. fast: whether guaranteed containers are asked for."""
        self._wait = _Wait(now_s, now_s + limit_s, now_s, fast)

    def due_s(self, pace_s: float) -> float:
        """Return when the next act is due; pace_s: the shortest time between two calls now."""
        wait = self._wait
        if wait is None or wait.in_flight:
            return inf
        pace_s = pace_s if wait.fast or wait.ended_s < inf else PACE_S
        return min(wait.bound_s, wait.ended_s, wait.due_s, wait.polled_s + pace_s)

    def act(self, now_s: float, pace_s: float) -> Act:
        """Return what is due now."""
        wait = self._wait
        if wait is None or wait.in_flight or now_s < self.due_s(pace_s):
            return Act.NOTHING
        if now_s >= wait.due_s:
            return Act.POLL
        if now_s >= wait.ended_s:
            wait.last = Why.ENDED
            return Act.POLL
        return Act.END if now_s >= wait.bound_s else Act.POLL

    def polled(self) -> None:
        """Note that the ResourceManager was called."""
        if self._wait is not None:
            self._wait.in_flight, self._wait.due_s = True, inf

    def answered(self, now_s: float, fast: bool) -> Why | None:
        """Note an answer without news; returns why it ends the wait all the same, None if the wait goes on."""
        wait = self._wait
        if wait is None:
            return Why.REPEATED
        wait.in_flight, wait.polled_s, wait.fast = False, now_s, fast
        return wait.last

    def end(self, why: Why, now_s: float) -> float:
        """Note that the call was answered, or is lost; returns how long it waited."""
        wait, self._wait = self._wait, None
        if wait is None:
            return 0.0
        self.signs.waited(why is Why.BOUND)
        return now_s - wait.since_s

    # Marks

    def to_send(self, now_s: float, gather: bool = False) -> bool:
        """Note that there is something to send; returns whether a call waits. gather: more may come in a moment."""
        wait = self._wait
        if wait is not None:
            wait.due_s = min(wait.due_s, now_s + GATHER_S if gather else now_s)
        return wait is not None

    def container_ended(self, now_s: float) -> bool:
        """Note that a node reported the end of a container; returns whether a call waits."""
        wait = self._wait
        if wait is not None:
            wait.ended_s = min(wait.ended_s, now_s + ENDED_S)
        return wait is not None

    def finish(self, why: Why, now_s: float) -> bool:
        """End the wait with what the call under way brings; returns whether there is none, so that it ends at once."""
        wait = self._wait
        if wait is None:
            return False
        wait.last = why
        return not wait.in_flight
