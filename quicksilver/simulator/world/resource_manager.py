"""A YARN cluster without quicksilver: masters ask on their heartbeats, nodes are given containers on theirs.

A job's master is there at its arrival, or `master_start_s` later, and heartbeats from then on. It asks for all tasks at
once, is given what nodes were handed out meanwhile, and starts it. Its own container is not modelled. A node tells of
what ended there with its next heartbeat, and only then is the place free for the ResourceManager.

The tasks of a later stage are asked for with the heartbeat after enough of the stage before have ended and none of it
waits for a container (MapReduce's slow start); their containers stand still until all of it has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from policies.model import Resources
from quicksilver.simulator.clock import Clock
from quicksilver.simulator.errors import SimulatorError
from quicksilver.simulator.model import ClusterModel, SimulatedJob
from quicksilver.simulator.tally import Tally
from quicksilver.simulator.world.beats import Beats
from quicksilver.simulator.world.scheduler import ANY, Key, Scheduler, SchedulerDemand, SchedulerNode, Share

_KEY: Final[Key] = (0, -1)
_PLENTY_MB: Final = 1 << 50
"""Of memory, where it is not counted."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds that things take."""

    node_beat_s: float
    master_beat_s: float
    start_s: float
    """From a start to the task's begin."""
    slow_start_ratio: float = 1.0
    """Share of a stage that has to end before the next one is asked for."""
    end_beats: bool = False
    """Whether a node heartbeats as well when a container has ended."""
    master_start_s: float = 0.0
    """From a job's arrival to its master's first heartbeat."""


@dataclass(slots=True)
class SlotMaster:
    """One job that runs. next: number of its next task that has no container yet."""

    job: SimulatedJob
    demand: SchedulerDemand
    next: int = 0
    granted: list[int] = field(default_factory=list)
    """Nodes of containers that its next heartbeat brings."""
    beating: bool = False
    stages: Stages | None = None
    """Of a job that has several."""


class Stages:
    """How far the stages of a job are: those before `at` have ended, those before `asks` were asked for."""

    __slots__ = ("asks", "at", "began", "ended", "sizes", "standby")

    def __init__(self, sizes: tuple[int, ...]) -> None:
        """Begin with the first stage asked for."""
        self.sizes, self.asks, self.at = sizes, 1, 0
        self.began = 0
        """Containers that run, or ran, of all stages."""
        self.ended = 0
        """Tasks of the stage that is on."""
        self.standby: list[tuple[int, int]] = []
        """(task, node) of containers of the next stage that stand still."""

    def of(self, task: int) -> int:
        """Return the stage of a task."""
        stage = 0
        while task >= self.sizes[stage]:
            task -= self.sizes[stage]
            stage += 1
        return stage

    def next_wanted(self, slow_start_ratio: float) -> bool:
        """Return whether it is time to ask for the next stage."""
        if self.asks != self.at + 1 or self.asks == len(self.sizes) or self.began < sum(self.sizes[: self.asks]):
            return False
        return self.ended >= slow_start_ratio * self.sizes[self.at]


class ResourceManager:
    """The cluster; `submit` takes jobs."""

    def __init__(
        self,
        clock: Clock,
        tally: Tally,
        cluster: ClusterModel,
        times: Times,
        seed: int,
        queues: Mapping[str, Share] | None = None,
        off_switch: int = 1,
        fair: bool = False,
    ) -> None:
        """Begin with an empty cluster; off_switch, fair: as the scheduler has them."""
        self.clock, self.tally, self.cluster, self.times = clock, tally, cluster, times
        size = Resources(cluster.memory_mb or _PLENTY_MB, cluster.slots)
        self.nodes = [SchedulerNode(str(n), str(n), "", size) for n in range(cluster.nodes)]
        self.scheduler = Scheduler(self.nodes, queues, off_switch, fair)
        self.beats = Beats(cluster.nodes, times.node_beat_s, Random(f"beats {seed}"))
        self.masters: dict[int, SlotMaster] = {}
        self._ended: list[list[SchedulerDemand]] = [[] for _ in self.nodes]
        self._sweeping = False
        self._beaten = [-1.0] * cluster.nodes
        self._arrived = 0

    def submit(self, job: SimulatedJob) -> None:
        """Handle a job that arrives now. Raises SimulatorError when no node could run its tasks."""
        size = Resources(job.memory_mb, job.cores)
        if not size.fits(self.nodes[0].capacity):
            raise SimulatorError(
                f"job {job.number}: a task wants {job.cores:g} cores and {job.memory_mb} MB, more than a node has; "
                "give nodes more slots or memory"
            )
        self.tally.arrived(job)
        self._arrived += 1
        master = SlotMaster(
            job, SchedulerDemand(self._arrived, job.queue), stages=Stages(job.stages) if job.staged else None
        )
        self.masters[self._arrived] = master
        tasks = job.stages[0] if job.staged else len(job.durations_s)
        if self.times.master_start_s:
            self.clock.later(self.times.master_start_s, self._ask, master, tasks)
        else:
            self._ask(master, tasks)

    def _ask(self, master: SlotMaster, tasks: int) -> None:
        self.scheduler.row(master.demand, _KEY, self._size(master.demand), ANY, tasks)
        self.scheduler.want(master.demand)
        self._sweep()

    # Nodes

    def _sweep(self) -> None:
        """Have the next node with room heartbeat, while there is demand."""
        if self._sweeping or not self.scheduler.wanting:
            return
        node = self.beats.first(self.clock.now_s)
        if node is not None:
            self._sweeping = True
            self.clock.at(self.beats.next_s(node, self.clock.now_s), self._swept, node)

    def _swept(self, node: int) -> None:
        self._sweeping = False
        self._beat(node)
        self._sweep()

    def _beat(self, node: int) -> None:
        if self._beaten[node] == self.clock.now_s and not self._ended[node]:
            return
        self._beaten[node] = self.clock.now_s
        known = self.nodes[node]
        for demand in self._ended[node]:
            self.scheduler.charge(demand.queue, known, self._size(demand), -1)
            demand.containers -= 1
        self._ended[node] = []
        for assigned in self.scheduler.assign(known):
            self._grant(self.masters[assigned.demand.number], node)
        self.beats.room(node, known.used.vcores < known.capacity.vcores)

    def _size(self, demand: SchedulerDemand) -> Resources:
        job = self.masters[demand.number].job
        return Resources(job.memory_mb, job.cores)

    def _grant(self, master: SlotMaster, node: int) -> None:
        master.granted.append(node)
        if not master.beating:
            master.beating = True
            self.clock.at(self._next_beat_s(master), self._master_beat, master)

    def _next_beat_s(self, master: SlotMaster) -> float:
        period_s, now_s = self.times.master_beat_s, self.clock.now_s
        first_s = master.job.arrives_s + self.times.master_start_s
        at_s = first_s + ((now_s - first_s) // period_s + 1) * period_s
        return at_s if at_s > now_s else at_s + period_s

    # Masters and tasks

    def _master_beat(self, master: SlotMaster) -> None:
        master.beating = False
        granted, master.granted = master.granted, []
        for node in granted:
            task, master.next = master.next, master.next + 1
            self.clock.later(self.cluster.delay_s + self.times.start_s, self._begin, master, task, node)

    def _begin(self, master: SlotMaster, task: int, node: int) -> None:
        self.tally.began()
        stages, stage = master.stages, 0
        if stages is not None:
            stage = stages.of(task)
            stages.began += 1
            self._look_ahead(master, stages)
            if stage > stages.at:
                stages.standby.append((task, node))
                return
        self._work(master, task, node, stage)

    def _work(self, master: SlotMaster, task: int, node: int, stage: int) -> None:
        wait_s = self.clock.now_s - master.job.arrives_s
        self.clock.later(master.job.durations_s[task], self._over, master, wait_s, node, stage)

    def _look_ahead(self, master: SlotMaster, stages: Stages) -> None:
        """Ask for the next stage with the next heartbeat, when it is time."""
        if stages.next_wanted(self.times.slow_start_ratio):
            tasks = stages.sizes[stages.asks]
            stages.asks += 1
            self.clock.at(self._next_beat_s(master), self._ask, master, tasks)

    def _stage_task_over(self, master: SlotMaster, stages: Stages) -> None:
        stages.ended += 1
        self._look_ahead(master, stages)
        if stages.ended == stages.sizes[stages.at]:
            stages.at, stages.ended = stages.at + 1, 0
            standby, stages.standby = stages.standby, []
            for task, node in standby:
                self._work(master, task, node, stages.at)
            self._look_ahead(master, stages)

    def _over(self, master: SlotMaster, wait_s: float, node: int, stage: int) -> None:
        self.tally.ended(master.job.number, wait_s, stage=stage)
        if master.stages is not None:
            self._stage_task_over(master, master.stages)
        if not self._ended[node]:
            now_s = self.clock.now_s
            self.clock.at(now_s if self.times.end_beats else self.beats.next_s(node, now_s), self._on_report, node)
        self._ended[node].append(master.demand)

    def _on_report(self, node: int) -> None:
        self._beat(node)
        self._sweep()
