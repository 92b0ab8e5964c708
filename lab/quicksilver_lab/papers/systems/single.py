"""What Sparrow, Hawk, Eagle and the LWL systems have in common: nodes of one slot each, and a queue at each.

A cluster with several slots per node is simulated as that many nodes (thesis §2.4.1: each slot has a queue of its own).
Jobs are numbered 0, 1, ... as they come; nodes too. A stage of a job is scheduled as a job that arrives when its
scheduler hears that the stage before has ended, under a number of its own. A node asks the job's scheduler for a task
when its turn comes, and has the answer a round trip later (0.5 ms one way); decisions and stealing cost nothing
(§2.4.1).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from random import Random

from pydantic import Field

from policies.common.short_long import is_long, kept_for_short
from quicksilver.simulator.errors import SimulatorError
from quicksilver.simulator.model import ClusterModel, JobOutcome, SimResult, SimulatedJob
from quicksilver.simulator.systems import SystemSettings

_ARRIVAL = -1
_LEAST_TASK_S = 1e-6
"""What a task is estimated to take at least, so that work left is never 0 while tasks are."""


class SingleSettings(SystemSettings):
    """Settings of all systems of one slot per node."""

    cutoff_s: float = Field(90.5811, ge=0)
    """A job is long when its tasks are estimated to take longer, s. This is Yahoo's; 1129.532 for Google, 272.783 for
    Cloudera, 76.5951 for Facebook (public simulator of Eagle)."""
    misestimate_low_ratio: float = Field(1.0, gt=0)
    """Each job's estimate is multiplied by a random number between this and `misestimate_high_ratio` (§2.4.8, §3.6.5).
    Results tell short from long by the estimate before that, and schedulers too without `misestimate_class`."""
    misestimate_high_ratio: float = Field(1.0, gt=0)
    """See `misestimate_low_ratio`."""
    misestimate_class: bool = False
    """Whether a wrong estimate also makes a short job long, and a long one short, as Hawk has it (§2.4.8); in Eagle's
    experiments (§3.6.5, public simulator) it does not."""
    sample_s: float = Field(100.0, gt=0)
    """Interval at which the share of busy slots is noted, s (§2.2.3, §2.4.2)."""


class PartitionSettings(SingleSettings):
    """Settings of those that keep nodes for short tasks."""

    short_partition_ratio: float = Field(0.02, ge=0, lt=1)
    """Share of the nodes that run short tasks alone: 0.17, 0.09, 0.02, 0.02 for Google, Cloudera, Facebook, Yahoo
    (thesis §2.4.1, §3.5)."""


class _Staged:
    """A job of several stages on its way."""

    __slots__ = ("begun_s", "error_ratio", "job", "spans_s", "stages")

    def __init__(self, job: SimulatedJob, error_ratio: float) -> None:
        """error_ratio: its estimates are multiplied by it."""
        self.job, self.error_ratio = job, error_ratio
        self.stages = deque(job.by_stage())
        """Durations and estimate of the stages that are still to come."""
        self.begun_s = 0.0
        """Sum of the times at which its tasks began."""
        self.spans_s: list[tuple[float, float]] = []
        """Of each stage: when its tasks began on average, and when the last one ended."""


class Single:
    """One run: the jobs' tables, the events, and what a system fills in: `arrive`, `freed`, `counts`."""

    def __init__(self, name: str, cluster: ClusterModel, settings: SingleSettings, seed: int) -> None:
        """Begin with every node idle."""
        self.nodes = cluster.total_slots
        self.delay_s = cluster.delay_s
        self.rtt_s = 2 * cluster.delay_s
        self.common = settings
        self.rng = Random(seed)
        ratio = settings.short_partition_ratio if isinstance(settings, PartitionSettings) else 0.0
        self.short_nodes = kept_for_short(self.nodes, ratio)
        """Nodes 0.. that run short tasks alone."""
        self.everywhere, self.general = range(self.nodes), range(self.short_nodes, self.nodes)
        self.result = SimResult(name, seed)
        self.busy = bytearray(self.nodes)
        self.events: list[tuple[float, int]] = []
        """(when, node that is done with what it did; below 0: see `_do`)."""
        self._calls: dict[int, tuple[Callable[..., None], tuple[object, ...]]] = {}
        self._last_call = _ARRIVAL
        self._ticking = 0
        self._coming: SimulatedJob | None = None
        """The job that arrives next."""
        self._jobs: list[SimulatedJob | None] = []
        self._staged: dict[int, _Staged] = {}
        """Jobs of several stages, by the number of the stage that they are at."""
        self.waiting: list[list[float]] = []
        """By job: durations of the tasks that no node was given yet, the next one last."""
        self.ended_s: list[float] = []
        self.begun_s: list[float] = []
        """By job: the sum of the times at which its tasks began."""
        self.task_s: list[float] = []
        self.left_s: list[float] = []
        """By job: estimated work that was not given out yet, where the system keeps it (see
        `quicksilver_lab.papers.algorithms.sticky`).
        """
        self.is_long = bytearray()
        self.started = 0
        self.done_events = 0

    def arrive(self, job: int, tasks: int, now_s: float) -> None:
        """Schedule a job that just came; it has at least one task."""
        raise NotImplementedError

    def freed(self, node: int, now_s: float) -> None:
        """Go on at a node whose task, or question for one, ended."""
        raise NotImplementedError

    def counts(self) -> dict[str, int]:
        """Return what the system counted."""
        return {}

    def run(self, jobs: Iterable[SimulatedJob]) -> SimResult:
        """Do everything until nothing is left."""
        feed = iter(jobs)
        events, freed, done = self.events, self.freed, 0
        self._next_job(feed, 0.0)
        while events:
            now_s, code = heappop(events)
            done += 1
            if code >= 0:
                freed(code, now_s)
            else:
                self._do(code, now_s, feed)
        self.done_events = done
        return self._finish()

    def later(self, at_s: float, do: Callable[..., None], *args: object) -> None:
        """Call `do(at_s, *args)` then."""
        self._last_call -= 1
        self._calls[self._last_call] = (do, args)
        heappush(self.events, (at_s, self._last_call))

    def _do(self, code: int, now_s: float, feed: Iterator[SimulatedJob]) -> None:
        if code == _ARRIVAL:
            self._arrived(now_s)
            self._next_job(feed, now_s)
        else:
            do, args = self._calls.pop(code)
            do(now_s, *args)

    def every(self, at_s: float, seconds: float, do: Callable[[float], None]) -> None:
        """Call `do(time)` at `at_s` and then after so many seconds each, until nothing else is to be done."""
        self._ticking += 1
        self.later(at_s, self._tick, seconds, do)

    def _tick(self, now_s: float, seconds: float, do: Callable[[float], None]) -> None:
        do(now_s)
        if len(self.events) >= self._ticking:
            self.later(now_s + seconds, self._tick, seconds, do)
        else:
            self._ticking -= 1

    def begin(self, now_s: float) -> None:
        """Do what comes before the first job."""
        self.every(now_s, self.common.sample_s, self._sample)

    def _sample(self, now_s: float) -> None:
        self.result.busy.append((now_s, self.busy.count(1) / self.nodes))

    def _next_job(self, feed: Iterator[SimulatedJob], now_s: float) -> None:
        job = next(feed, None)
        if job is None:
            return
        if job.arrives_s < now_s:
            raise SimulatorError(
                f"job {job.number} arrives at {job.arrives_s} s, but the one before it at {now_s} s; "
                "sort the trace by arrival"
            )
        if not self._jobs:
            self.begin(job.arrives_s)
        self._coming = job
        heappush(self.events, (job.arrives_s, _ARRIVAL))

    def _arrived(self, now_s: float) -> None:
        job = self._coming
        assert job is not None
        error_ratio = 1.0
        low, high = self.common.misestimate_low_ratio, self.common.misestimate_high_ratio
        if (low, high) != (1.0, 1.0):
            error_ratio = self.rng.uniform(low, high)
        if job.staged:
            self._next_stage(now_s, _Staged(job, error_ratio))
        else:
            self._enter(job, job.durations_s, job.estimate_s * error_ratio, error_ratio, now_s)

    def _enter(
        self, job: SimulatedJob, durations_s: tuple[float, ...], estimate_s: float, error_ratio: float, now_s: float
    ) -> None:
        """Schedule the tasks of a job, or of one of its stages, under a new number."""
        number = len(self._jobs)
        self._jobs.append(job)
        self.waiting.append(list(reversed(durations_s)))
        self.task_s.append(max(estimate_s, _LEAST_TASK_S))
        by_s = job.estimate_s * error_ratio if self.common.misestimate_class else job.estimate_s
        self.is_long.append(is_long(by_s, self.common.cutoff_s))
        self.ended_s.append(now_s)
        self.begun_s.append(0.0)
        self.left_s.append(0.0)
        if durations_s:
            self.arrive(number, len(durations_s), now_s)
        else:
            self.given_out(number)

    def _next_stage(self, now_s: float, staged: _Staged) -> None:
        durations_s, estimate_s = staged.stages.popleft()
        self._staged[len(self._jobs)] = staged
        self._enter(staged.job, durations_s, estimate_s * staged.error_ratio, staged.error_ratio, now_s)

    def given_out(self, number: int) -> None:
        """Note that a job's last task was given out, or that of a stage: when all of them end is known then."""
        job = self._jobs[number]
        assert job is not None
        self._jobs[number] = None
        if number in self._staged:
            self._stage_given_out(number)
        else:
            self._over(job, number, self.begun_s[number])

    def _stage_given_out(self, number: int) -> None:
        staged, ended_s = self._staged.pop(number), self.ended_s[number]
        tasks = staged.job.stages[len(staged.spans_s)]
        staged.begun_s += self.begun_s[number]
        staged.spans_s.append((self.begun_s[number] / tasks, ended_s))
        if staged.stages:
            self.later(ended_s + self.delay_s, self._next_stage, staged)
        else:
            self._over(staged.job, number, staged.begun_s, tuple(staged.spans_s))

    def _over(
        self, job: SimulatedJob, number: int, begun_s: float, spans_s: tuple[tuple[float, float], ...] = ()
    ) -> None:
        """Note what became of a job. begun_s: sum over its tasks; number: of its last stage."""
        tasks = len(job.durations_s)
        self.started += tasks
        wait_s = begun_s / tasks - job.arrives_s if tasks else 0.0
        klass = "long" if is_long(job.estimate_s, self.common.cutoff_s) else "short"
        ended_s = self.ended_s[number]
        self.result.jobs.append(
            JobOutcome(job.number, job.arrives_s, ended_s, tasks, job.work_s, klass, max(wait_s, 0.0), spans_s)
        )

    def _finish(self) -> SimResult:
        tasks = sum(outcome.tasks for outcome in self.result.jobs)
        rest = sum(map(len, self.waiting)) + sum(len(tasks) for job in self._staged.values() for tasks, _ in job.stages)
        counts = {"tasks": tasks + rest, "started": self.started, "ended": self.started, "lost": rest, "doubled": 0}
        self.result.counts = {**counts, "events": self.done_events, **self.counts()}
        return self.result
