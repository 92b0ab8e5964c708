"""What every system notes of a run: jobs as they arrive and end, tasks, and how many slots are busy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from math import inf

from quicksilver.simulator.clock import Clock
from quicksilver.simulator.errors import SimulatorError
from quicksilver.simulator.model import ClusterModel, JobOutcome, SimResult, SimulatedJob

SAMPLE_S = 100.0
"""Between samples of how many slots are busy, as in Sparrow's and Eagle's simulations."""


class _Entry:
    """A job that has not ended: its stages, and what is noted of them."""

    __slots__ = ("job", "klass", "open_tasks", "spans_s", "wait_s")

    def __init__(self, job: SimulatedJob, klass: str) -> None:
        """Begin with nothing done."""
        self.job, self.klass, self.wait_s = job, klass, 0.0
        self.open_tasks = list(job.stages) if job.staged else [len(job.durations_s)]
        """Tasks of each stage that have not ended."""
        self.spans_s: list[tuple[float, float]] = [(inf, 0.0)] * len(self.open_tasks) if job.staged else []
        """Of each stage: the first begin, the last end."""


class Tally:
    """The books of one run; `result` is what they come to."""

    def __init__(self, system: str, seed: int, clock: Clock, cluster: ClusterModel, sample_s: float = SAMPLE_S) -> None:
        """Begin. sample_s: seconds between samples."""
        self.open = 0
        """Jobs that have arrived and not ended."""
        self.busy = 0
        """Slots, now."""
        self.counts: Counter[str] = Counter({"tasks": 0, "started": 0, "ended": 0, "lost": 0, "doubled": 0})
        self._result = SimResult(system, seed)
        self._clock, self._slots, self._sample_s = clock, cluster.total_slots, sample_s
        self._entries: dict[int, _Entry] = {}
        self._more = True

    def feed(self, jobs: Iterable[SimulatedJob], arrive: Callable[[SimulatedJob], object]) -> None:
        """Have each job arrive in its time; the next one is taken from `jobs` when the one before has arrived.

        Raises SimulatorError, from the clock's `run`, for jobs that are not by arrival.
        """
        self._clock.at(self._clock.now_s, self._next, iter(jobs), arrive)
        self._clock.at(self._clock.now_s, self._sample)

    def _next(self, jobs: Iterator[SimulatedJob], arrive: Callable[[SimulatedJob], object]) -> None:
        job = next(jobs, None)
        if job is None:
            self._more = False
            return
        if job.arrives_s < self._clock.now_s:
            raise SimulatorError(
                f"job {job.number} arrives at {job.arrives_s} s, but the one before it at {self._clock.now_s} s; "
                "sort the trace by arrival"
            )
        self._clock.at(job.arrives_s, self._arrive, job, jobs, arrive)

    def _arrive(
        self, job: SimulatedJob, jobs: Iterator[SimulatedJob], arrive: Callable[[SimulatedJob], object]
    ) -> None:
        arrive(job)
        self._next(jobs, arrive)

    def _sample(self) -> None:
        self._result.busy.append((self._clock.now_s, self.busy / self._slots))
        if not self.going:
            return
        if not len(self._clock):
            raise SimulatorError(
                f"at {self._clock.now_s} s nothing is left to be done, but {self.open} jobs have not ended; report it"
            )
        self._clock.later(self._sample_s, self._sample)

    @property
    def going(self) -> bool:
        """Whether jobs are still to arrive or to end."""
        return self._more or self.open > 0

    def arrived(self, job: SimulatedJob, klass: str = "") -> None:
        """Note a job."""
        if job.number in self._entries:
            raise SimulatorError(f"job {job.number} is in the trace twice; number each job once")
        self.open += 1
        self.counts["tasks"] += len(job.durations_s)
        entry = self._entries[job.number] = _Entry(job, klass)
        if not job.durations_s:
            self._done(entry)

    def began(self) -> None:
        """Note that a task begins on a slot."""
        self.busy += 1
        self.counts["started"] += 1

    def killed(self) -> None:
        """Note that a task is killed on its slot; it will begin anew."""
        self.busy -= 1
        self.counts["kills"] += 1

    def stopped(self) -> None:
        """Note that a second copy of a task leaves its slot."""
        self.busy -= 1
        self.counts["stopped"] += 1

    def failed(self) -> None:
        """Note that a try failed; its slot is free."""
        self.busy -= 1
        self.counts["failed"] += 1

    def ended(self, number: int, wait_s: float, slot: bool = True, stage: int = 0) -> bool:
        """Note that a task of a job has ended; returns whether it was the last one of its stage.

        wait_s: from the job's arrival to the begin of the try that did it; slot: whether it held one of those counted.
        """
        entry = self._entries[number]
        if slot:
            self.busy -= 1
        self.counts["ended"] += 1
        entry.wait_s += wait_s
        remaining = entry.open_tasks[stage] = entry.open_tasks[stage] - 1
        if entry.spans_s:
            began_s = min(entry.spans_s[stage][0], entry.job.arrives_s + wait_s)
            entry.spans_s[stage] = began_s, self._clock.now_s
        if remaining == 0 and not any(entry.open_tasks):
            self._done(entry)
        return remaining == 0

    def _done(self, entry: _Entry) -> None:
        job, now_s = entry.job, self._clock.now_s
        tasks = len(job.durations_s)
        wait_s = entry.wait_s / tasks if tasks else 0.0
        del self._entries[job.number]
        self.open -= 1
        self._result.jobs.append(
            JobOutcome(job.number, job.arrives_s, now_s, tasks, job.work_s, entry.klass, wait_s, tuple(entry.spans_s))
        )

    def result(self) -> SimResult:
        """Return what was noted. What did not end is counted as lost."""
        self.counts["lost"] = self.counts["tasks"] - self.counts["ended"]
        self.counts["events"] = self._clock.events
        self._result.counts = dict(sorted(self.counts.items()))
        return self._result
