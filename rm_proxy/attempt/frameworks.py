"""Differences between frameworks: which containers an application needs first, and how long a start may be held.

MapReduce's priorities: 5 failed maps, 10 reduces, 19 opportunistic maps, 20 maps (RMContainerAllocator); there YARN's
order is not the order in which a job needs its containers, since reduces wait for maps.
"""

from __future__ import annotations

from typing import Final

MAPREDUCE_FAILED_MAP: Final = 5
GUARDED: Final = frozenset(("MAPREDUCE",))
"""Types of applications that `must_be_guaranteed` is about."""
_MAPREDUCE: Final = {MAPREDUCE_FAILED_MAP: 0, 19: 1, 20: 1, 10: 2}

TEZ_HOLD_S: Final = 240.0
"""Below Tez' container time-out of 300 s, which runs from the answer to the start."""
DEFAULT_HOLD_S: Final = 120.0
TEZ_IDLE_S: Final = 10.0
"""How long a container of Tez waits for its next task (tez.am.container.idle.release-timeout-max.millis)."""


def precedence(app_type: str, priority: int) -> int:
    """Return the order in which an application needs its containers: the lower, the sooner.

    For MapReduce failed maps, maps, reduces; for others YARN's request priority.
    """
    if app_type == "MAPREDUCE":
        return _MAPREDUCE.get(priority, 1)
    return priority


def must_be_guaranteed(app_type: str, priority: int, live_precedences: frozenset[int]) -> bool:
    """Return whether a container would wait behind containers of its own application that wait for it.

    Only MapReduce frees nothing by itself then: it preempts reduces only while no map is assigned, and a held map
    counts as assigned (RMContainerAllocator.preemptReducesIfNeeded). Others ask in the order of their priorities.
    """
    if app_type != "MAPREDUCE":
        return False
    own = precedence(app_type, priority)
    return any(rank > own for rank in live_precedences)


def always_enforces(app_type: str) -> bool:
    """Return whether a framework sets `enforceExecutionType` in all its asks, so that the flag tells nothing.

    MapReduce does, in guaranteed asks too (RMContainerRequestor.addResourceRequest).
    """
    return app_type == "MAPREDUCE"


def all_wait_for(app_type: str, priority: int, live_precedences: frozenset[int]) -> bool:
    """Return whether all running containers of an application (at least one) wait for a container of this priority."""
    own = precedence(app_type, priority)
    return bool(live_precedences) and all(rank > own for rank in live_precedences)


def hold_limit_s(app_type: str, mapreduce_task_timeout_s: float) -> float:
    """Return how long a start may be held before the framework's own clock runs out, in seconds.

    MapReduce: half of mapreduce.task.timeout (0 there means no time-out: then the default of others is used).
    """
    if app_type == "TEZ":
        return TEZ_HOLD_S
    if app_type == "MAPREDUCE" and mapreduce_task_timeout_s > 0:
        return mapreduce_task_timeout_s / 2
    return DEFAULT_HOLD_S


def idle_s(app_type: str) -> float:
    """Return how long a container lives on after its task, in seconds: Tez gives it the next task of its application.

    So it is no place that comes free when the task ends, as long as its application has tasks; 0 where a container has
    one task.
    """
    return TEZ_IDLE_S if app_type == "TEZ" else 0.0
