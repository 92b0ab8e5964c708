"""Tasks of applications that wait without probes: alternatives in shadow may be asked which nodes they would probe."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from rm_proxy.dispatch.group_queue import Demand
from rm_proxy.domain.comparison import PerSecond

MAX_ASKED: Final = 3
"""Applications of which alternatives are asked within a second: each time they look at all nodes."""
MAX_ATTEMPTS: Final = 10_000
"""Attempts whose tasks are remembered; of more the oldest are forgotten."""


class Unprobed:
    """How many tasks of each attempt waited when alternatives were asked last."""

    def __init__(self) -> None:
        self._tasks: OrderedDict[str, int] = OrderedDict()
        self._rate = PerSecond(MAX_ASKED)

    def more(self, attempt_id: str, demand: Demand, now_s: float) -> int:
        """Return of how many further tasks to ask now; 0 where none came, or many were asked of in this second."""
        tasks = sum(demand.sizes.values())
        more = tasks - self._tasks.get(attempt_id, 0)
        if more > 0 and not self._rate.take(now_s):
            return 0
        self._tasks[attempt_id] = tasks
        if len(self._tasks) > MAX_ATTEMPTS:
            self._tasks.popitem(last=False)
        return max(0, more)

    def forget(self, attempt_id: str) -> None:
        """Forget an attempt that waits for nothing, or is over."""
        self._tasks.pop(attempt_id, None)
