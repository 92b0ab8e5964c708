"""Attempts whose messages keep the others waiting: how much of the event loop's time each one takes.

All application masters share one process. An allocate request within the bounds of `rm_proxy.domain.message_checks`
still costs up to half a second, and a few masters that send one after the other would have all others wait, and in the
end the whole cluster in bypass. The one that costs most passes unread instead.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Final, NamedTuple

COSTLY_S: Final = 0.001
"""Messages that take less are not counted: a heartbeat takes a hundredth of it."""
SLICE_S, SLICES = 1.0, 10
"""The last ten seconds count, in parts of one."""
LATE_S: Final = 0.1
"""While the loop is not later than this nobody is harmed."""
BUSY_RATIO: Final = 0.5
"""While the process has less of a core than this it is its host that is busy."""
ATTEMPT_RATIO: Final = 0.25
"""Part of the time that one attempt may take while others wait."""
USER_RATIO: Final = 0.5
"""Part of the time that all attempts of one user may take while answers are later than `budget_added_s`."""


class CostlyAttempt(NamedTuple):
    """An attempt that is to pass unread, and why."""

    attempt_id: str
    why: str


class CostlyAttempts:
    """A machine: the time of each costly message in, attempts to pass unread out.

    user: returns the user of an attempt; added_s: lateness that counts in the error budget.
    """

    def __init__(
        self, user: Callable[[str], str], added_s: float, cpu_s: Callable[[], float] = time.thread_time
    ) -> None:
        self._user, self._added_s, self._cpu_s = user, added_s, cpu_s
        self._slices: deque[tuple[float, float, defaultdict[str, float]]] = deque(maxlen=SLICES)
        """Begin of each part, the process's CPU time then, and the seconds by attempt; the newest last."""

    def spent(self, attempt_id: str, took_s: float) -> None:
        """Note a message that took more than COSTLY_S."""
        if self._slices:
            self._slices[-1][2][attempt_id] += took_s

    def measure(self, late_s: float, now_s: float) -> CostlyAttempt | None:
        """Return the attempt that costs most, if others wait for it; its time is forgotten.

        late_s: how late the loop is now; now_s: monotonic.
        """
        busy = bool(self._slices) and self._is_busy(now_s)
        costly = self._costliest(late_s) if busy and late_s >= LATE_S else None
        if not self._slices or now_s - self._slices[-1][0] >= SLICE_S:
            self._slices.append((now_s, self._cpu_s(), defaultdict(float)))
        if costly is not None:
            for _, _, seconds in self._slices:
                seconds.pop(costly.attempt_id, None)
        return costly

    def _is_busy(self, now_s: float) -> bool:
        began_s, cpu_s, _ = self._slices[0]
        return self._cpu_s() - cpu_s >= BUSY_RATIO * (now_s - began_s)

    def _costliest(self, late_s: float) -> CostlyAttempt | None:
        window_s = SLICE_S * SLICES
        by_attempt, by_user = defaultdict[str, float](float), defaultdict[str, float](float)
        for _, _, seconds in self._slices:
            for attempt_id, took_s in seconds.items():
                by_attempt[attempt_id] += took_s
        if not by_attempt:
            return None
        costliest = max(by_attempt, key=by_attempt.__getitem__)
        if by_attempt[costliest] > ATTEMPT_RATIO * window_s:
            return CostlyAttempt(costliest, _why("its messages", by_attempt[costliest] / window_s))
        if late_s <= self._added_s:
            return None
        for attempt_id, took_s in by_attempt.items():
            by_user[self._user(attempt_id)] += took_s
        user = max(by_user, key=by_user.__getitem__)
        if by_user[user] <= USER_RATIO * window_s:
            return None
        costliest = max((a for a in by_attempt if self._user(a) == user), key=by_attempt.__getitem__)
        return CostlyAttempt(costliest, _why("messages of its user's applications", by_user[user] / window_s))


def _why(messages: str, ratio: float) -> str:
    return f"{messages} took {ratio:.0%} of the proxy's last {SLICE_S * SLICES:.0f} s, and others waited"
