"""Sparrow and Hawk: probes in queues that run first come, first served (Hawk; thesis §2.2.3, §2.3).

Sparrow probes for every job on every node. Hawk places long jobs centrally, off the nodes kept for short ones, and a
node that has nothing to do steals short probes from behind a long task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappush
from typing import Self

from pydantic import Field, model_validator

from policies.common.least_wait import spread
from policies.common.probing import draw, probes
from policies.steal.hawk import short_runs
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver_lab.papers.systems.central import Central
from quicksilver_lab.papers.systems.single import PartitionSettings, Single, SingleSettings


class SparrowSettings(SingleSettings):
    """Settings of sparrow."""

    probe_ratio: float = Field(2.0, ge=1)
    """Probes per task (Sparrow's best ratio, thesis §2.4.1)."""
    least_probes: int = Field(0, ge=0)
    """Probes of a job at least."""
    distinct: bool = False
    """Whether a job's probes go to different nodes, as far as there are; the public simulator draws each by itself."""


class HawkSettings(SparrowSettings, PartitionSettings):
    """Settings of hawk."""

    central: bool = True
    """Place long jobs centrally by waiting time (§2.3.7); off: by probes to the same nodes."""
    contacts: int = Field(10, ge=0)
    """Nodes that an idle node asks for probes to steal, at random (§2.4.1); 0: nobody steals."""
    split: bool = False
    """Short jobs run on the nodes kept for them alone (§2.4.6, which steals nothing)."""

    @model_validator(mode="after")
    def _check_split(self) -> Self:
        if self.split and not self.short_partition_ratio:
            raise ValueError("split: keep nodes for short jobs, short_partition_ratio above 0")
        return self


class Fifo(Single):
    """A run of either. An item of a queue is 2 * job + 1 when it came behind a long task, else 2 * job."""

    def __init__(
        self, name: str, cluster: ClusterModel, settings: SparrowSettings, contacts: int, central: bool, seed: int
    ) -> None:
        """contacts: see `HawkSettings`; central: whether long jobs are placed centrally."""
        super().__init__(name, cluster, settings, seed)
        self.probing, self.contacts = settings, contacts
        self.central = Central(self.nodes) if central else None
        self.shorts: Sequence[int] = self.everywhere
        """Where probes of short jobs go."""
        self.queues: list[deque[int]] = [deque() for _ in range(self.nodes)]
        self.longs = [0] * self.nodes
        """Long tasks, or probes of long jobs, that wait or run at each node."""
        self.runs: list[int] = [-1] * self.nodes
        """The long job of the task that runs at each node; -1 for none."""
        self._probes = self._behind = self._held_up = self._stolen = self._steals = self._contacted = 0

    def counts(self) -> dict[str, int]:
        """Return probes of short jobs, those behind long tasks, tasks held up so, what was stolen (Table 3.2)."""
        return {
            "probes": self._probes,
            "behind_long": self._behind,
            "tasks_after_long": self._held_up,
            "rescheduled": self._stolen,
            "steals": self._steals,
            "contacts": self._contacted,
        }

    def arrive(self, job: int, tasks: int, now_s: float) -> None:
        """Send probes, or place the tasks of a long job; they are there after the network's delay."""
        long, central = self.is_long[job], self.central
        if long and central is not None:
            task_s = self.task_s[job]
            nodes = spread(tasks, task_s, central.by_wait(now_s, self.short_nodes), central.idle_from(self.short_nodes))
            central.placed(nodes, task_s)
        else:
            cfg = self.probing
            count = probes(tasks, cfg.probe_ratio, cfg.least_probes)
            nodes = draw(count, self.general if long else self.shorts, self.rng, cfg.distinct)
            self._probes += 0 if long else count
        self.later(now_s + self.delay_s, self._land, job, nodes)

    def _land(self, now_s: float, job: int, nodes: Iterable[int]) -> None:
        longs, queues, busy = self.longs, self.queues, self.busy
        long, item = self.is_long[job], 2 * job
        for node in nodes:
            behind = 0
            if long:
                longs[node] += 1
            elif longs[node]:
                behind = 1
                self._behind += 1
            queue = queues[node]
            queue.append(item + behind)
            if not busy[node]:
                busy[node] = 1
                self._next(node, queue, now_s)

    def freed(self, node: int, now_s: float) -> None:
        """Go on with the queue, or steal."""
        job = self.runs[node]
        if job >= 0:
            self.runs[node] = -1
            self.longs[node] -= 1
            if self.central is not None:
                self.central.ended(node)
        queue = self.queues[node]
        if queue or (self.contacts and self._steal(queue)):
            self._next(node, queue, now_s)
        else:
            self.busy[node] = 0

    def _next(self, node: int, queue: deque[int], now_s: float) -> None:
        """Ask for a task for the first in the queue; for those whose job has none left, until one may have one.

        Asking in vain takes a round trip; nothing needs to be done until the first that has a task now is asked for.
        """
        waiting, rtt_s = self.waiting, self.rtt_s
        at_s, in_vain = now_s, False
        while queue:
            item = queue[0]
            job = item >> 1
            tasks = waiting[job]
            if tasks:
                break
            del queue[0]
            at_s, in_vain = at_s + rtt_s, True
            if self.is_long[job]:
                self.longs[node] -= 1
        if in_vain:
            heappush(self.events, (at_s, node))
            return
        del queue[0]
        self._held_up += item & 1
        begins_s = now_s + rtt_s
        ends_s = begins_s + tasks.pop()
        self.begun_s[job] += begins_s
        if ends_s > self.ended_s[job]:
            self.ended_s[job] = ends_s
        heappush(self.events, (ends_s, node))
        if self.is_long[job]:
            self.runs[node] = job
            if self.central is not None:
                self.central.began(node, self.task_s[job], begins_s)
        if not tasks:
            self.given_out(job)

    def _steal(self, mine: deque[int]) -> bool:
        """Move the first short probes behind a long task from a node chosen at random; False when there are none.

        What a thief has is not behind a long task any more.
        """
        random, longs, queues = self.rng.random, self.longs, self.queues
        first, count = self.short_nodes, self.nodes - self.short_nodes
        for contacted in range(1, self.contacts + 1):
            victim = first + int(random() * count)
            if longs[victim] and queues[victim]:
                queue, runs_long = queues[victim], self.runs[victim] >= 0
                some_wait = longs[victim] > runs_long
                long = bytes([self.is_long[item >> 1] for item in queue]) if some_wait else bytes(len(queue))
                span = next(short_runs(long, runs_long), None)
                if span is not None:
                    self._take(queue, span, mine)
                    self._contacted += contacted
                    return True
        self._contacted += self.contacts
        return False

    def _take(self, queue: deque[int], span: tuple[int, int], mine: deque[int]) -> None:
        begin, end = span
        items = list(queue)
        mine.extend(item & ~1 for item in items[begin:end])
        queue.clear()
        queue.extend(items[:begin] + items[end:])
        self._steals += 1
        self._stolen += end - begin


class Sparrow:
    """The system `sparrow`."""

    name = "sparrow"
    about = "Sparrow: every job by probes, two per task, first come first served (batch sampling, late binding)."
    Settings = SparrowSettings

    def run(
        self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: SparrowSettings, seed: int
    ) -> SimResult:
        """Run all jobs to their end."""
        return Fifo(self.name, cluster, settings, 0, False, seed).run(jobs)


class Hawk:
    """The system `hawk`."""

    name = "hawk"
    about = "Hawk: long jobs placed centrally, short ones by probes, idle nodes steal (thesis ch. 2)."
    Settings = HawkSettings

    def run(self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: HawkSettings, seed: int) -> SimResult:
        """Run all jobs to their end."""
        run = Fifo(self.name, cluster, settings, settings.contacts, settings.central, seed)
        if settings.split:
            run.shorts = range(run.short_nodes) or run.everywhere
        return run.run(jobs)


SPARROW = Sparrow()
HAWK = Hawk()
