"""Which probe of a node's queue runs next: Sticky Batch Probing, and SRPT within limits (Eagle; thesis §3.4, Alg. 1).

A probe stands for its job: it stays in the queue, and is served, until all tasks of the job were given out.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

NONE = -1
"""No probe has work left."""


def first(jobs: Sequence[int], left_s: Sequence[float]) -> int:
    """Return the place of the first probe whose job has tasks left, or NONE. Arguments as in `shortest`."""
    for at, job in enumerate(jobs):
        if left_s[job]:
            return at
    return NONE


def shortest(
    jobs: Sequence[int],
    slack_s: Sequence[float],
    left_s: Sequence[float],
    task_s: Sequence[float],
    least_s: float = 0.0,
) -> int:
    """Return the place of the probe with the least work left of those that may overtake all before them, or NONE.

    jobs: of the probes by arrival, shape (probes,). slack_s: work that may still overtake each, same shape.
    left_s: by job, estimated work that was not given out yet; 0 when all was, below 0 for a long job, which nothing
    overtakes. task_s: by job, the estimated duration of a task. least_s: no task is estimated to be shorter.
    """
    place, least_left_s, may_s = NONE, inf, inf
    for at, job in enumerate(jobs):
        job_left_s = left_s[job]
        if job_left_s > 0.0:
            if job_left_s < least_left_s and task_s[job] <= may_s:
                place, least_left_s = at, job_left_s
            if slack_s[at] < may_s:
                may_s = slack_s[at]
                if may_s < least_s:
                    break
        elif job_left_s < 0.0:
            return at if place == NONE else place
    return place


def overtake(slack_s: list[float], at: int, task_s: float) -> None:
    """Lower the work that may still overtake those before `at`, since a task of `task_s` seconds did (§3.4.3)."""
    slack_s[:at] = [slack - task_s for slack in slack_s[:at]]
