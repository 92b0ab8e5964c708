"""What an omniscient scheduler makes of jobs: shortest remaining work first, with the protocol's own delays.

It knows all durations, keeps no slot idle while a task waits, and hears of a free slot at once; but a master asks when
its heartbeat allows, and a container needs its time to start. It answers each master at the best moment, so that
nothing waits for the heartbeat after next. It is no proven optimum (on many slots that is NP-hard), only far beyond
what a scheduler without knowledge of the future can do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Final

from quicksilver_lab.bench.emulator.model import MAP, JobRecord, JobSpec, TaskRecord

_ENDLESS: Final = 10**9


@dataclass(frozen=True, slots=True)
class Delays:
    """The delays that no scheduler can avoid, in seconds."""

    admit_s: float = 0.25
    """From the submission of a job to the registration of its master, as on the emulated cluster."""
    heartbeat_s: float = 1.0
    """From registration to the first ask, and from the end of the last map to the ask for reduces."""
    start_s: float = 0.1
    """From the grant of a slot to the begin of its task."""
    report_s: float = 0.03
    """From the end of a task to the next grant of its slot."""


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of the cluster. A task takes `slow_times` as long in a slow one."""

    count: int | None
    """None: endless."""
    slow: int = 0
    """So many of them."""
    slow_times: float = 1.0


@dataclass(slots=True, eq=False)
class _Task:
    record: TaskRecord
    job: _BoundJob
    rest_s: float
    """What it still has to run in a slot of full speed, when it last stopped or began."""
    times: float = 1.0
    """Of the slot that it holds."""
    since_s: float | None = None
    """When it last began, None while it does not run."""
    turn: int = 0
    """Counts pauses, so that an event that was planned before is known to be void."""


@dataclass(slots=True, eq=False)
class _BoundJob:
    spec: JobSpec
    record: JobRecord
    left_s: float
    """Work left at `at_s`."""
    at_s: float = 0.0
    speed: float = 0.0
    """Work that its running tasks do in a second."""
    waiting: list[_Task] = field(default_factory=list)
    """In the order of their start, the last one first."""
    running: set[_Task] = field(default_factory=set)
    """Tasks that hold a slot."""
    maps: int = 0
    """That have not ended."""
    open: int = 0
    """Tasks that have not ended."""

    def remaining_s(self, now_s: float) -> float:
        """Return the work that is left."""
        return self.left_s - self.speed * (now_s - self.at_s)

    def change(self, now_s: float, speed: float) -> None:
        """Change the speed from now on."""
        self.left_s, self.at_s = self.remaining_s(now_s), now_s
        self.speed += speed


class Omniscient:
    """Runs jobs on a clock of its own; `run` returns what became of them."""

    def __init__(self, slots: Slots, delays: Delays | None = None, preemptive: bool = False) -> None:
        """Prepare. preemptive: a running task is paused, and loses nothing, for one of a job with less work left."""
        self._delays, self._preemptive = delays or Delays(), preemptive
        total = _ENDLESS if slots.count is None else slots.count
        self._free = {1.0: total - slots.slow}
        if slots.slow:
            self._free[slots.slow_times] = self._free.get(slots.slow_times, 0) + slots.slow
        self._now_s = 0.0
        self._numbers = count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._active: dict[int, _BoundJob] = {}
        self._records: list[JobRecord] = []
        self._ended: Callable[[], None] = lambda: None

    def run(
        self, jobs: Iterable[JobSpec], concurrent: int | None = None, submit_for_s: float | None = None
    ) -> list[JobRecord]:
        """Return the records of jobs, which come in the order of their arrival, in the order of their submission.

        concurrent: so many at a time, of jobs that may be endless; None: each when it arrives. submit_for_s: nothing
        is submitted later.
        """
        due = _due(jobs, submit_for_s)
        if concurrent is None:
            for job in due:
                self._at(job.arrives_s, self._submission(job))
        else:
            self._ended = lambda: self._next(due, submit_for_s)
            for _ in range(concurrent):
                self._next(due, submit_for_s)
        while self._events:
            self._now_s, _, event = heappop(self._events)
            event()
            self._grant()
        return self._records

    def _at(self, at_s: float, event: Callable[[], None]) -> None:
        heappush(self._events, (at_s, next(self._numbers), event))

    def _next(self, due: Iterator[JobSpec], submit_for_s: float | None) -> None:
        job = next(due, None) if submit_for_s is None or self._now_s <= submit_for_s else None
        if job is not None:
            self._at(max(job.arrives_s, self._now_s), self._submission(job))

    def _submission(self, job: JobSpec) -> Callable[[], None]:
        return lambda: self._submit(job)

    def _submit(self, spec: JobSpec) -> None:
        work_s = sum(task.runs_s for task in spec.tasks)
        record = JobRecord(spec.number, spec.klass, self._now_s, work_s=work_s, queue=spec.queue, user=spec.user)
        record.registered_s = self._now_s + self._delays.admit_s
        record.tasks = [TaskRecord(spec.number, index, record.registered_s) for index in range(len(spec.tasks))]
        self._records.append(record)
        job = _BoundJob(spec, record, work_s, self._now_s)
        job.open, job.maps = len(spec.tasks), sum(task.stage == MAP for task in spec.tasks)
        self._active[len(self._records)] = job
        first_s = record.registered_s + self._delays.heartbeat_s
        self._at(first_s, lambda: self._ask(job, maps=job.maps > 0))

    def _ask(self, job: _BoundJob, maps: bool) -> None:
        """Have all maps, or all later tasks, wait for slots; the longest start first."""
        tasks = [
            _Task(record, job, task.runs_s)
            for record, task in zip(job.record.tasks, job.spec.tasks, strict=True)
            if (task.stage == MAP) == maps
        ]
        for task in tasks:
            if not maps and job.spec.tasks[0].stage == MAP:
                task.record.wanted_s = self._now_s - self._delays.heartbeat_s
        job.waiting = sorted(tasks, key=lambda task: task.rest_s)

    # Slots

    def _grant(self) -> None:
        """Give free slots, fast ones first, to tasks of the jobs with the least work left; then pause others."""
        waiting = [job for job in self._active.values() if job.waiting]
        waiting.sort(key=lambda job: job.remaining_s(self._now_s))
        for job in waiting:
            while job.waiting and (times := self._free_slot()) is not None:
                self._start(job.waiting.pop(), times)
            if self._preemptive:
                while job.waiting and (victim := self._behind(job)) is not None:
                    self._start(job.waiting.pop(), self._pause(victim))
            if job.waiting and not self._preemptive:
                return

    def _free_slot(self) -> float | None:
        """Return the factor by which the best free slot lengthens tasks, None if no slot is free."""
        return min((times for times, free in self._free.items() if free), default=None)

    def _behind(self, job: _BoundJob) -> _Task | None:
        """Return the task that gives way to a job: of the job with the most work left, if that is more than its own."""
        now_s = self._now_s
        holders = [holder for holder in self._active.values() if holder.running]
        worst = max(holders, key=lambda holder: holder.remaining_s(now_s), default=job)
        if worst is job or worst.remaining_s(now_s) <= job.remaining_s(now_s):
            return None
        return max(worst.running, key=lambda task: (task.rest_s, -task.record.index))

    def _start(self, task: _Task, times: float) -> None:
        self._free[times] -= 1
        task.times = times
        task.job.running.add(task)
        if task.record.granted_s is None:
            task.record.granted_s = self._now_s
        turn, begun = task.turn, task.record.started_s is not None
        self._at(self._now_s + (0.0 if begun else self._delays.start_s), lambda: self._begin(task, turn))

    def _begin(self, task: _Task, turn: int) -> None:
        if task.turn != turn:
            return
        task.since_s = self._now_s
        if task.record.started_s is None:
            task.record.started_s = self._now_s
        task.job.change(self._now_s, 1 / task.times)
        self._at(self._now_s + task.rest_s * task.times, lambda: self._end(task, turn))

    def _pause(self, task: _Task) -> float:
        """Take its slot from a task; return the slot."""
        job = task.job
        if task.since_s is not None:
            job.change(self._now_s, -1 / task.times)
            task.rest_s -= (self._now_s - task.since_s) / task.times
        task.since_s, task.turn = None, task.turn + 1
        job.running.remove(task)
        job.waiting.append(task)
        self._free[task.times] += 1
        return task.times

    def _end(self, task: _Task, turn: int) -> None:
        if task.turn != turn:
            return
        job, now_s = task.job, self._now_s
        job.change(now_s, -1 / task.times)
        job.running.remove(task)
        task.record.ended_s = now_s
        self._at(now_s + self._delays.report_s, lambda: self._release(task.times))
        job.open -= 1
        if job.spec.tasks[task.record.index].stage == MAP:
            job.maps -= 1
            if not job.maps and job.open:
                self._at(now_s + self._delays.heartbeat_s, lambda: self._ask(job, maps=False))
        if not job.open:
            job.record.ended_s = now_s
            self._active = {number: active for number, active in self._active.items() if active is not job}
            self._ended()

    def _release(self, times: float) -> None:
        self._free[times] += 1


def _due(jobs: Iterable[JobSpec], submit_for_s: float | None) -> Iterator[JobSpec]:
    for job in jobs:
        if submit_for_s is not None and job.arrives_s > submit_for_s:
            return
        yield job
