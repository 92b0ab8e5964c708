"""A YARN cluster without quicksilver: masters ask on their heartbeats, nodes are given containers on theirs.

A job's master is there at its arrival and heartbeats from then on. It asks for all tasks at once, is given what nodes
were handed out meanwhile, and starts it. Its own container is not modelled. A node tells of what ended there with its
next heartbeat, and only then is the place free for the ResourceManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from policies.model import Resources
from simulator.clock import Clock
from simulator.errors import SimulatorError
from simulator.model import ClusterModel, Job
from simulator.tally import Tally
from simulator.world.beats import Beats
from simulator.world.scheduler import ANY, Demand, Key, Scheduler, Share, YarnNode

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


@dataclass(slots=True)
class Master:
    """One job that runs. next: number of its next task that has no container yet."""

    job: Job
    demand: Demand
    next: int = 0
    granted: list[int] = field(default_factory=list)
    """Nodes of containers that its next heartbeat brings."""
    beating: bool = False


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
    ) -> None:
        """Begin with an empty cluster."""
        self.clock, self.tally, self.cluster, self.times = clock, tally, cluster, times
        size = Resources(cluster.memory_mb or _PLENTY_MB, cluster.slots)
        self.nodes = [YarnNode(str(n), str(n), "", size) for n in range(cluster.nodes)]
        self.scheduler = Scheduler(self.nodes, queues, off_switch)
        self.beats = Beats(cluster.nodes, times.node_beat_s, Random(f"beats {seed}"))
        self.masters: dict[int, Master] = {}
        self._ended: list[list[Demand]] = [[] for _ in self.nodes]
        self._sweeping = False
        self._beaten = [-1.0] * cluster.nodes
        self._arrived = 0

    def submit(self, job: Job) -> None:
        """Take in a job that arrives now. Raises SimulatorError when no node could run its tasks."""
        size = Resources(job.memory_mb, job.cores)
        if not size.fits(self.nodes[0].capacity):
            raise SimulatorError(
                f"job {job.number}: a task wants {job.cores:g} cores and {job.memory_mb} MB, more than a node has; "
                "give nodes more slots or memory"
            )
        self.tally.arrived(job)
        self._arrived += 1
        master = Master(job, Demand(self._arrived, job.queue))
        self.masters[self._arrived] = master
        self.scheduler.row(master.demand, _KEY, size, ANY, len(job.durations_s))
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
        if self._beaten[node] == self.clock.now_s:
            return
        self._beaten[node] = self.clock.now_s
        known = self.nodes[node]
        for demand in self._ended[node]:
            self.scheduler.charge(demand.queue, known, self._size(demand), -1)
        self._ended[node] = []
        for assigned in self.scheduler.assign(known):
            self._grant(self.masters[assigned.demand.number], node)
        self.beats.room(node, known.used.vcores < known.capacity.vcores)

    def _size(self, demand: Demand) -> Resources:
        job = self.masters[demand.number].job
        return Resources(job.memory_mb, job.cores)

    def _grant(self, master: Master, node: int) -> None:
        master.granted.append(node)
        if not master.beating:
            master.beating = True
            self.clock.at(self._next_beat_s(master), self._master_beat, master)

    def _next_beat_s(self, master: Master) -> float:
        period_s, arrives_s, now_s = self.times.master_beat_s, master.job.arrives_s, self.clock.now_s
        at_s = arrives_s + ((now_s - arrives_s) // period_s + 1) * period_s
        return at_s if at_s > now_s else at_s + period_s

    # Masters and tasks

    def _master_beat(self, master: Master) -> None:
        master.beating = False
        granted, master.granted = master.granted, []
        for node in granted:
            task, master.next = master.next, master.next + 1
            self.clock.later(self.cluster.delay_s + self.times.start_s, self._begin, master, task, node)

    def _begin(self, master: Master, task: int, node: int) -> None:
        self.tally.began()
        wait_s = self.clock.now_s - master.job.arrives_s
        self.clock.later(master.job.durations_s[task], self._over, master, wait_s, node)

    def _over(self, master: Master, wait_s: float, node: int) -> None:
        self.tally.ended(master.job.number, wait_s)
        if not self._ended[node]:
            self.clock.at(self.beats.next_s(node, self.clock.now_s), self._told, node)
        self._ended[node].append(master.demand)

    def _told(self, node: int) -> None:
        self._beat(node)
        self._sweep()
