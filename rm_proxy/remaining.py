"""How much work a job has left, in task-seconds: the size that shortest-remaining-time orders need (Eagle §3.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from policies.remaining import left_s
from rm_proxy.attempt import Attempt
from rm_proxy.estimator import Expectation


def job_remaining_s(attempts: Iterable[Attempt], expects: Callable[[int], Expectation], now_s: float) -> float:
    """Return the task-seconds that an application has left: what is wanted, what waits, and what is left of the rest.

    expects: what is expected of a task by its request priority; asked once for each.
    """
    by_priority: dict[int, Expectation] = {}

    def of(priority: int) -> Expectation:
        found = by_priority.get(priority)
        if found is None:
            found = by_priority[priority] = expects(priority)
        return found

    total_s = 0.0
    for attempt in attempts:
        for entry in attempt.table.entries.values():
            total_s += entry.demand * of(entry.key.priority).mean_s
        for live in attempt.live:
            known = of(live.priority)
            if live.started_s is None:
                total_s += known.mean_s
            else:
                total_s += left_s(known.mean_s, known.spread_s, now_s - live.started_s)
    return total_s
