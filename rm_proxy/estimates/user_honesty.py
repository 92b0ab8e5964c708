"""How far the durations that users name in tags are from what their tasks take: of those that lie, tags weigh less.

Mercury (ATC '15, §4.1) leaves it open what happens to applications that name wrong durations. Here a user's tags are
compared with the tasks that ended, once for each stage. Who is off by more than a factor is corrected by what was
learnt, as far as it is learnt: the estimates of one odd job change little.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

LEARN_TASKS: Final = 3
"""Ended tasks of a stage after which it is compared with its tag."""
MIN_STAGES: Final = 3
"""Stages of a user before anything is doubted."""
HONEST_RATIO: Final = 1.5
"""A factor that is no lie."""
NEW_RATIO: Final = 0.2
"""Weight of the newest stage, at least."""
MAX_USERS: Final = 10_000
_MOST: Final = math.log(1000.0)


@dataclass(frozen=True, slots=True)
class Doubt:
    """What is known of one user's tags."""

    times: float = 1.0
    """Factor by which a duration that is named has to be multiplied."""
    trust_ratio: float = 1.0
    """Weight of what is named, as a part of that of an honest user."""


_NONE: Final = Doubt()


@dataclass(slots=True)
class _User:
    stages: int = 0
    off: float = 0.0
    """Mean logarithm of (duration / duration named)."""


class UserHonesty:
    """A machine: named and measured durations in, doubts out."""

    def __init__(self) -> None:
        self._users: OrderedDict[str, _User] = OrderedDict()

    def observe(self, user: str, named_s: float, took_s: float) -> None:
        """Handle a stage: what was named for its tasks, and what the first of them took on average, in seconds."""
        known = self._users.pop(user, None) or _User()
        known.stages += 1
        off = max(-_MOST, min(_MOST, math.log(took_s / named_s)))
        known.off += max(1 / known.stages, NEW_RATIO) * (off - known.off)
        self._users[user] = known
        if len(self._users) > MAX_USERS:
            self._users.popitem(last=False)

    def of(self, user: str) -> Doubt:
        """Return how far a user's tags are to be doubted."""
        known = self._users.get(user)
        if known is None or known.stages < MIN_STAGES:
            return _NONE
        beyond = abs(known.off) - math.log(HONEST_RATIO)
        if beyond <= 0:
            return _NONE
        trust_ratio = math.exp(-beyond)
        return Doubt(math.exp(known.off * (1 - trust_ratio)), trust_ratio)
