"""Big-C: two classes with shares of the slots; short tasks suspend long ones, which go on where they were (§4.5.1).

As the Kairos thesis describes it; times are those of slots, without heartbeats.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Final

from pydantic import Field

from policies.common.short_long import is_long
from quicksilver.simulator.clock import Clock
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver.simulator.systems import SystemSettings
from quicksilver.simulator.tally import SAMPLE_S, Tally
from quicksilver_lab.papers.algorithms.class_shares import ClassShares, Klass, Use, free_slot_goes_to, may_suspend


class BigCSettings(SystemSettings):
    """Settings of Big-C."""

    cutoff_s: float = Field(90.5811, ge=0)
    """A job is long when its tasks are estimated to take longer, s. This is Yahoo's."""
    shares: ClassShares = ClassShares()
    """The shares of the classes."""
    sample_s: float = Field(SAMPLE_S, gt=0)
    """Between samples of how many slots are busy."""


@dataclass(slots=True, eq=False)
class _Task:
    number: int
    job: SimulatedJob
    klass: Klass
    left_s: float
    stage: int = 0
    began_s: float = -1.0
    """When it first ran; -1 before."""
    since_s: float = 0.0
    """When it began to run, while it does."""
    turn: int = 0
    """Rises when it begins to run and when it stops: what was said of an earlier turn is void."""
    node: int = -1


_Entry = tuple[float, int, int, _Task]
"""(minus when it began to run, number, turn, task)"""


@dataclass(slots=True)
class _Node:
    free: int
    suspended: deque[_Task] = field(default_factory=deque)
    """The longest first."""
    parked: list[_Entry] = field(default_factory=list)
    """Long tasks that run, and could be suspended if fewer were."""


class _Run:
    """One run. Nodes are numbers; of those with a free slot the lowest is taken."""

    def __init__(self, clock: Clock, tally: Tally, cluster: ClusterModel, cfg: BigCSettings) -> None:
        self._clock, self._tally, self._cfg = clock, tally, cfg
        self._delay_s, self._slots = cluster.delay_s, cluster.total_slots
        self._nodes = [_Node(cluster.slots) for _ in range(cluster.nodes)]
        self._free = list(range(cluster.nodes))
        """A heap of nodes with free slots, and of some that have none any more."""
        self._waiting: dict[Klass, deque[_Task]] = {Klass.SHORT: deque(), Klass.LONG: deque()}
        self._long = 0
        """Long tasks that run, or are on their way to a node."""
        self._victims: list[_Entry] = []
        """A heap of long tasks that run, the newest first, and of some that do not any more."""
        self._stages: dict[int, list[list[_Task]]] = {}
        """By job: tasks of the stages that are to come, the next stage last."""

    def arrive(self, job: SimulatedJob) -> None:
        """Queue a job's tasks, those of its first stage, and use the slots that are free."""
        klass = Klass.LONG if is_long(job.estimate_s, self._cfg.cutoff_s) else Klass.SHORT
        numbers = count(self._tally.counts["tasks"])
        self._tally.arrived(job, klass)
        stages = [
            [_Task(next(numbers), job, klass, seconds, stage) for seconds in durations_s]
            for stage, (durations_s, _) in enumerate(job.by_stage())
        ][::-1]
        first = stages.pop()
        if stages:
            self._stages[job.number] = stages
        self._queue(klass, first)

    def _next_stage(self, job: SimulatedJob, klass: Klass) -> None:
        stages = self._stages[job.number]
        tasks = stages.pop()
        if not stages:
            del self._stages[job.number]
        self._queue(klass, tasks)

    def _queue(self, klass: Klass, tasks: Iterable[_Task]) -> None:
        self._waiting[klass].extend(tasks)
        while self._free:
            number = self._free[0]
            if self._nodes[number].free:
                if not self._take(number):
                    break
            else:
                heappop(self._free)
        self._suspend_for_short()

    def _freed(self, number: int) -> None:
        """Use a slot again: nodes whose slots stay free have nothing suspended."""
        self._nodes[number].free += 1
        heappush(self._free, number)
        self._take(number)
        self._suspend_for_short()

    def _take(self, number: int) -> bool:
        """Give a free slot to the class whose turn it is; of long tasks one that stands still here goes first."""
        node = self._nodes[number]
        klass = free_slot_goes_to(self._use(bool(node.suspended)), self._cfg.shares)
        if klass is None:
            return False
        if klass is Klass.LONG and node.suspended:
            task = node.suspended.popleft()
            for entry in node.parked:
                heappush(self._victims, entry)
            node.parked.clear()
        else:
            task = self._waiting[klass].popleft()
        node.free -= 1
        self._send(task, number)
        return True

    def _use(self, suspended_here: bool = False) -> Use:
        short, long = self._waiting[Klass.SHORT], self._waiting[Klass.LONG]
        return Use(self._slots, self._long, bool(short), bool(long) or suspended_here)

    # Suspending

    def _suspend_for_short(self) -> None:
        while (victim := self._victim()) is not None:
            self._suspend(victim)
            self._send(self._waiting[Klass.SHORT].popleft(), victim.node)

    def _victim(self) -> _Task | None:
        """Return the long task that began last of those that may be suspended; None when none has to."""
        shares, use = self._cfg.shares, self._use()
        while use.short_waits and self._victims:
            _, _, turn, task = self._victims[0]
            node = self._nodes[task.node]
            if task.turn != turn:
                heappop(self._victims)
            elif may_suspend(use, len(node.suspended), shares):
                return task
            elif len(node.suspended) >= shares.suspended:
                node.parked.append(heappop(self._victims))
            else:
                return None
        return None

    def _suspend(self, task: _Task) -> None:
        task.left_s -= self._clock.now_s - task.since_s
        task.turn += 1
        self._nodes[task.node].suspended.append(task)
        self._long -= 1
        self._tally.busy -= 1
        self._tally.counts["preemptions"] += 1

    # Running

    def _send(self, task: _Task, number: int) -> None:
        task.node = number
        self._long += task.klass is Klass.LONG
        self._clock.later(self._delay_s, self._start, task)

    def _start(self, task: _Task) -> None:
        now_s = self._clock.now_s
        task.since_s = now_s
        task.turn += 1
        self._clock.later(task.left_s, self._end, task, task.turn)
        if task.began_s < 0:
            task.began_s = now_s
            self._tally.began()
        else:
            self._tally.busy += 1
        if task.klass is Klass.LONG:
            heappush(self._victims, (-now_s, task.number, task.turn, task))
            self._suspend_for_short()

    def _end(self, task: _Task, turn: int) -> None:
        if task.turn != turn:
            return
        task.turn += 1
        self._long -= task.klass is Klass.LONG
        job = task.job
        over = self._tally.ended(job.number, task.began_s - job.arrives_s, stage=task.stage)
        self._clock.later(self._delay_s, self._freed, task.node)
        if over and job.number in self._stages:
            self._clock.later(self._delay_s, self._next_stage, job, task.klass)


class _BigC:
    """A line for each class."""

    name: Final = "bigc"
    about: Final = "Big-C: two classes with shares of the slots; short tasks suspend long ones (thesis §4.5.1)."
    Settings: Final = BigCSettings

    def run(self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: BigCSettings, seed: int) -> SimResult:
        """Run all jobs; nothing is left to chance. Tasks take slots; their cores and memory are not counted."""
        clock = Clock()
        tally = Tally(self.name, seed, clock, cluster, settings.sample_s)
        tally.feed(jobs, _Run(clock, tally, cluster, settings).arrive)
        clock.run()
        return tally.result()


SYSTEM: Final = _BigC()
