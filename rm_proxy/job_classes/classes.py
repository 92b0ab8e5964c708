"""The class of each job, what jobs that ended teach about classes, and who brought the work of the last hours."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from policies.model import AppView, JobClass, JobView, WorkShares

KEPT_S: Final = 2.0
"""How long a class is used before it is looked at again."""
CHANGED_RATIO: Final = 0.2
"""A job of a known duration is classed again only when that has changed by more than this part."""
MAX_JOBS: Final = 20_000
MAX_EARLIER: Final = 1_000
"""Ended jobs from which a cut-off is learnt."""
HALF_LIFE_S: Final = 3_600.0
"""Time after which work counts half in the shares."""
MIN_TASKS: Final = 20
"""Ended tasks of jobs with a class without which shares are not known."""


@dataclass(frozen=True, slots=True)
class TaskTime:
    """Mean expected duration of the tasks that a job wants or runs; known: whether any of them is learnt or given."""

    mean_s: float
    known: bool


@dataclass(slots=True)
class _Job:
    job_class: JobClass = JobClass.NONE
    at_s: float = 0.0
    """When it was classed last."""
    by: TaskTime | None = None
    """What it was classed by."""
    worked_s: float = 0.0
    tasks: int = 0
    """Containers that ended, and their run time."""


class JobClasses:
    """A machine: jobs and the run times of their containers in, classes and shares of work out.

    task_time: returns a job's mean by its application's id; None while it neither wants nor runs anything.
    """

    def __init__(self, task_time: Callable[[str], TaskTime | None]) -> None:
        self._task_time = task_time
        self._jobs: OrderedDict[str, _Job] = OrderedDict()
        self._earlier: deque[float] = deque()
        self._sorted: list[float] = []
        self._short_s = self._long_s = self._tasks = 0.0
        self._decayed_s: float | None = None

    def __len__(self) -> int:
        return len(self._jobs)

    def of(self, app: AppView, classify: Callable[[JobView], JobClass], now_s: float, again: bool = True) -> JobClass:
        """Return the class of a job; it is asked for again when the job's durations have become known, or changed.

        again: whether a job without a class is asked about every KEPT_S as well.
        """
        job = self._job(app.id)
        if job.by is not None and now_s - job.at_s < KEPT_S:
            return job.job_class
        time = self._task_time(app.id)
        settled = job.job_class is not JobClass.NONE or not again
        if time is None or (settled and not _changed(job.by, time)):
            job.at_s = now_s
            return job.job_class
        job.at_s, job.by = now_s, time
        job.job_class = classify(JobView(app, time.mean_s, time.known, self._sorted))
        return job.job_class

    def _job(self, app_id: str) -> _Job:
        job = self._jobs.get(app_id)
        if job is None:
            job = self._jobs[app_id] = _Job()
            if len(self._jobs) > MAX_JOBS:
                self._jobs.popitem(last=False)
        return job

    def worked(self, app_id: str, seconds: float, now_s: float) -> None:
        """Add the run time of a container that ended, in seconds, to the work of its job and of its class."""
        job = self._job(app_id)
        job.worked_s += seconds
        job.tasks += 1
        self._decay(now_s)
        if job.job_class is JobClass.SHORT:
            self._short_s += seconds
        elif job.job_class is JobClass.LONG:
            self._long_s += seconds
        self._tasks += job.job_class is not JobClass.NONE

    def _decay(self, now_s: float) -> None:
        if self._decayed_s is not None and now_s > self._decayed_s:
            rest = 0.5 ** ((now_s - self._decayed_s) / HALF_LIFE_S)
            self._short_s, self._long_s, self._tasks = self._short_s * rest, self._long_s * rest, self._tasks * rest
        self._decayed_s = now_s

    def forget_ended(self, living: Collection[str]) -> None:
        """Learn from the jobs that are over, and forget them."""
        for app_id in [app_id for app_id in self._jobs if app_id not in living]:
            self._learn(self._jobs.pop(app_id))

    def _learn(self, job: _Job) -> None:
        if not job.tasks:
            return
        mean_s = job.worked_s / job.tasks
        self._earlier.append(mean_s)
        self._sorted = list(self._sorted)  # views that were given out stay as they are
        insort(self._sorted, mean_s)
        if len(self._earlier) > MAX_EARLIER:
            del self._sorted[bisect_left(self._sorted, self._earlier.popleft())]

    @property
    def shares(self) -> WorkShares:
        """Who brought the work of the last hours."""
        total_s = self._short_s + self._long_s
        return WorkShares(self._short_s / total_s if self._tasks >= MIN_TASKS and total_s > 0 else None)


def _changed(before: TaskTime | None, now: TaskTime) -> bool:
    """Return whether a job is to be classed anew."""
    if before is None or before.known != now.known:
        return True
    return abs(now.mean_s - before.mean_s) > CHANGED_RATIO * before.mean_s
