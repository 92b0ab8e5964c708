"""CLWL and DLWL: every task is placed where the least work waits (Eagle; thesis §3.6.2, §3.6.4).

CLWL knows all nodes as they are: an omniscient scheduler. DLWL knows what they reported with the last heartbeat, and
adds a random number to each wait. With SRPT at the nodes, DLWL is Yaq's design without late binding (DLWL+SRPT).
Jobs are short or long only as to where they may go, and in the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappush
from math import inf

from pydantic import Field

from policies.common.least_wait import spread
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver_lab.papers.algorithms.least_work import jittered
from quicksilver_lab.papers.algorithms.sticky import overtake, shortest
from quicksilver_lab.papers.systems.central import Central, Reported
from quicksilver_lab.papers.systems.single import PartitionSettings, Single


class ClwlSettings(PartitionSettings):
    """Settings of clwl."""

    srpt: bool = False
    """The task of the job with the least work left is next at a node; off: first come, first served."""
    bypass_ratio: float = Field(5.0, ge=0)
    """Work that may overtake a task, in its own estimated duration (§3.5, §3.6.2); `.inf` for no limit."""


class DlwlSettings(ClwlSettings):
    """Settings of dlwl."""

    heartbeat_s: float = Field(7.0, ge=0)
    """Interval of the nodes' reports, s: 3 for Google, 7 for Yahoo, 12 for Cloudera (§3.6.2). 0: known at once."""


class DlwlSrptSettings(DlwlSettings):
    """Settings of dlwl_srpt."""

    srpt: bool = True
    """The task of the job with the least work left is next at a node (§3.6.2)."""


class _Placed(Single):
    """A run. A node's queue has the jobs of the tasks placed there, by arrival."""

    def __init__(self, name: str, cluster: ClusterModel, settings: ClwlSettings, heartbeat_s: float, seed: int) -> None:
        """heartbeat_s: 0 when waits are known as they are."""
        super().__init__(name, cluster, settings, seed)
        self.cfg, self.srpt, self.heartbeat_s = settings, settings.srpt, heartbeat_s
        self.central = Central(self.nodes)
        self.queues: list[list[int]] = [[] for _ in self.everywhere]
        self.slacks_s: list[list[float]] = [[] for _ in self.everywhere]
        self.least_s = inf
        self._reported_s, self._reports = 0.0, Reported(self.nodes)
        """When the nodes reported last, and what."""

    def begin(self, now_s: float) -> None:
        """Begin with the reports as well."""
        super().begin(now_s)
        if self.heartbeat_s:
            self.every(now_s, self.heartbeat_s, self._report)

    def _report(self, now_s: float) -> None:
        self._reported_s = now_s
        self._reports.hear(self.central)

    def arrive(self, job: int, tasks: int, now_s: float) -> None:
        """Place all tasks; they are there after the network's delay."""
        task_s = self.task_s[job]
        self.left_s[job] = tasks * task_s
        self.least_s = min(self.least_s, task_s)
        nodes = self._least(tasks, task_s, now_s, self.short_nodes if self.is_long[job] else 0)
        self.central.placed(nodes, task_s)
        self.later(now_s + self.delay_s, self._land, job, nodes)

    def _least(self, tasks: int, task_s: float, now_s: float, first: int) -> list[int]:
        """Return nodes for a job's tasks, as far as schedulers know, of those from `first` on."""
        if not self.heartbeat_s:
            return spread(tasks, task_s, self.central.by_wait(now_s, first), self.central.idle_from(first))
        known = self._reports
        waits, idle = known.by_wait(self._reported_s, first), known.idle_from(first) if first else known.idle
        return spread(tasks, task_s, jittered(waits, self.heartbeat_s, self.rng, idle))

    def _land(self, now_s: float, job: int, nodes: Sequence[int]) -> None:
        queues, busy = self.queues, self.busy
        if self.srpt:
            slack_s = self.cfg.bypass_ratio * self.task_s[job]
            for node in nodes:
                self.slacks_s[node].append(slack_s)
        for node in nodes:
            queues[node].append(job)
            if not busy[node]:
                busy[node] = 1
                self._next(node, now_s)

    def freed(self, node: int, now_s: float) -> None:
        """Go on with the queue."""
        self.central.ended(node)
        if self.queues[node]:
            self._next(node, now_s)
        else:
            self.busy[node] = 0

    def _next(self, node: int, now_s: float) -> None:
        queue, task_s = self.queues[node], self.task_s
        at = 0
        if self.srpt:
            slack_s = self.slacks_s[node]
            if len(queue) > 1:
                at = shortest(queue, slack_s, self.left_s, task_s, self.least_s)
                overtake(slack_s, at, task_s[queue[at]])
            del slack_s[at]
        job = queue.pop(at)
        tasks = self.waiting[job]
        begins_s = now_s + self.rtt_s
        ends_s = begins_s + tasks.pop()
        self.begun_s[job] += begins_s
        if ends_s > self.ended_s[job]:
            self.ended_s[job] = ends_s
        heappush(self.events, (ends_s, node))
        self.central.began(node, task_s[job], begins_s)
        self.left_s[job] = len(tasks) * task_s[job]
        if not tasks:
            self.given_out(job)


class Clwl:
    """The system `clwl`."""

    name = "clwl"
    about = "Least work left, known at once (thesis §3.6.4)."
    Settings = ClwlSettings

    def run(self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: ClwlSettings, seed: int) -> SimResult:
        """Run all jobs to their end."""
        return _Placed(self.name, cluster, settings, 0.0, seed).run(jobs)


class Dlwl:
    """The system `dlwl`."""

    name = "dlwl"
    about = "Least work left by heartbeats, as a central scheduler knows it (thesis §3.6.2)."
    Settings: type[DlwlSettings] = DlwlSettings

    def run(self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: DlwlSettings, seed: int) -> SimResult:
        """Run all jobs to their end."""
        return _Placed(self.name, cluster, settings, settings.heartbeat_s, seed).run(jobs)


class DlwlSrpt(Dlwl):
    """The system `dlwl_srpt`."""

    name = "dlwl_srpt"
    about = "The same, and at each node the shortest remaining processing time first (thesis §3.6.2)."
    Settings = DlwlSrptSettings


CLWL = Clwl()
DLWL = Dlwl()
DLWL_SRPT = DlwlSrpt()
