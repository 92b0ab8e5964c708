"""Eagle: short jobs keep away from long tasks, probes stick, the least work left goes first (thesis ch. 3).

Long jobs are placed centrally, off the nodes kept for short ones. Each of the parts can be switched off (§3.6.3). Nodes
hear at once how much work a job has left; that message is not delayed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappush
from math import inf

from pydantic import Field

from policies.common.least_wait import spread
from policies.common.probing import draw, probes
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver_lab.papers.algorithms.sticky import NONE, first, overtake, shortest
from quicksilver_lab.papers.algorithms.succinct_state_sharing import Marks, again, freshest
from quicksilver_lab.papers.systems.central import Central
from quicksilver_lab.papers.systems.single import PartitionSettings, Single

_ATTEMPTS = 2
"""Times that a probe can be refused; then it goes to the nodes kept for short jobs, without long tasks (§3.3.3)."""


class EagleSettings(PartitionSettings):
    """Settings of eagle."""

    probe_ratio: float = Field(2.0, ge=1)
    """Probes per task of a short job (thesis §3.3.3)."""
    least_probes: int = Field(20, ge=0)
    """Probes of a job at least (§3.5)."""
    distinct: bool = False
    """Whether a job's probes go to different nodes, as far as there are; the public simulator draws each by itself."""
    sss: bool = True
    """Nodes with a long task refuse probes (Succinct State Sharing, §3.3)."""
    sticky: bool = True
    """A probe stays until its job has no task left (Sticky Batch Probing, §3.4)."""
    srpt: bool = True
    """The probe of the job with the least work left is next (§3.4.3); off: first come, first served."""
    bypass_ratio: float = Field(5.0, ge=0)
    """Work that may overtake a probe, in estimated durations of a task of its job (§3.5); `.inf` for no limit."""


class _Probed(Single):
    """A run. A node's queue has the jobs of its probes by arrival, and of its long tasks."""

    def __init__(self, name: str, cluster: ClusterModel, settings: EagleSettings, seed: int) -> None:
        """Begin with every node idle."""
        super().__init__(name, cluster, settings, seed)
        self.cfg = settings
        self.central = Central(self.nodes)
        self.queues: list[list[int]] = [[] for _ in range(self.nodes)]
        self.slacks_s: list[list[float]] = [[] for _ in range(self.nodes)]
        """What may still overtake each probe of `queues`."""
        self.clear_at = [16] * self.nodes
        """Length of each queue at which probes of jobs without tasks are taken out."""
        self.least_s = inf
        self.longs = bytearray(self.nodes)
        """1 where long tasks wait or run, by node."""
        self.long_count = [0] * self.nodes
        self.runs_long = bytearray(self.nodes)
        self.marks: list[Marks | None] = [None] * self.nodes
        """What came with the last long task, by node."""
        self._sent = self._probes = self._behind = self._again = self._to_short = 0

    def counts(self) -> dict[str, int]:
        """Return probes of short jobs, those queued behind long tasks, and those drawn again (Table 3.2)."""
        return {
            "probes": self._probes,
            "behind_long": self._behind,
            "rescheduled": self._again,
            "to_short_partition": self._to_short,
        }

    def arrive(self, job: int, tasks: int, now_s: float) -> None:
        """Send probes, or place the tasks of a long job; they are there after the network's delay."""
        task_s, at_s = self.task_s[job], now_s + self.delay_s
        if self.is_long[job]:
            self.left_s[job] = -1.0
            waits, idle = self.central.by_wait(now_s, self.short_nodes), self.central.idle_from(self.short_nodes)
            nodes = spread(tasks, task_s, waits, idle)
            self.central.placed(nodes, task_s)
            self._sent += 1
            bits = bytes(map(bool, self.central.count))
            self.later(at_s, self._land_long, job, nodes, Marks(self._sent, bits))
            return
        self.left_s[job] = tasks * task_s
        self.least_s = min(self.least_s, task_s)
        cfg = self.cfg
        count = probes(tasks, cfg.probe_ratio, cfg.least_probes)
        self._probes += count
        self.later(at_s, self._land, job, draw(count, self.everywhere, self.rng, cfg.distinct), 1)

    def _land_long(self, now_s: float, job: int, nodes: Sequence[int], marks: Marks) -> None:
        for node in nodes:
            self.queues[node].append(job)
            self.slacks_s[node].append(inf)
            self.longs[node] = 1
            self.long_count[node] += 1
            self.marks[node] = marks
            if not self.busy[node]:
                self._next(node, now_s)

    def _land(self, now_s: float, job: int, nodes: Iterable[int], attempt: int) -> None:
        """Queue probes where no long task is; the rest is drawn again, and is there after a round trip."""
        longs, queues, busy, task_s = self.longs, self.queues, self.busy, self.task_s[job]
        left_s = self.left_s
        refused, marks, slack_s = 0, None, self.cfg.bypass_ratio * task_s
        refuses = self.cfg.sss and attempt <= _ATTEMPTS
        for node in nodes:
            if longs[node]:
                if refuses:
                    refused += 1
                    marks = freshest(marks, self.marks[node])
                    continue
                self._behind += 1
            if busy[node]:
                queues[node].append(job)
                self.slacks_s[node].append(slack_s)
            elif left_s[job]:
                queues[node].append(job)
                self.slacks_s[node].append(slack_s)
                self._next(node, now_s)
        if refused:
            self._again += refused
            targets = again(refused, attempt, marks, range(self.short_nodes) or self.everywhere, self.rng)
            self._to_short += refused if attempt > 1 else 0
            self.later(now_s + self.rtt_s, self._land, job, targets, attempt + 1)

    def freed(self, node: int, now_s: float) -> None:
        """Go on with the queue."""
        if self.runs_long[node]:
            self.runs_long[node] = 0
            remaining = self.long_count[node] = self.long_count[node] - 1
            if not remaining:
                self.longs[node] = 0
            self.central.ended(node)
        self._next(node, now_s)

    def _next(self, node: int, now_s: float) -> None:
        queue, slack_s, left_s, task_s = self.queues[node], self.slacks_s[node], self.left_s, self.task_s
        if len(queue) >= self.clear_at[node]:
            self._clear(node)
        at = shortest(queue, slack_s, left_s, task_s, self.least_s) if self.cfg.srpt else first(queue, left_s)
        if at == NONE:
            queue.clear()
            slack_s.clear()
            self.busy[node] = 0
            return
        self.busy[node] = 1
        job = queue[at]
        tasks = self.waiting[job]
        begins_s = now_s + self.rtt_s
        ends_s = begins_s + tasks.pop()
        self.begun_s[job] += begins_s
        if ends_s > self.ended_s[job]:
            self.ended_s[job] = ends_s
        heappush(self.events, (ends_s, node))
        if at:
            overtake(slack_s, at, task_s[job])
        if self.is_long[job]:
            self.runs_long[node] = 1
            self.central.began(node, task_s[job], begins_s)
        else:
            left_s[job] = len(tasks) * task_s[job]
        if not self.cfg.sticky or self.is_long[job]:
            del queue[at], slack_s[at]
        if not tasks:
            self.given_out(job)

    def _clear(self, node: int) -> None:
        """Take out probes of jobs that have no task left, as their scheduler has told the node."""
        left_s, queue, slack_s = self.left_s, self.queues[node], self.slacks_s[node]
        slack_s[:] = [slack for slack, job in zip(slack_s, queue, strict=True) if left_s[job]]
        queue[:] = [job for job in queue if left_s[job]]
        self.clear_at[node] = max(16, 2 * len(queue))


class Eagle:
    """The system `eagle`."""

    name = "eagle"
    about = "Eagle: short jobs keep away from long tasks, probes stick, least work left first (thesis ch. 3)."
    Settings = EagleSettings

    def run(self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: EagleSettings, seed: int) -> SimResult:
        """Run all jobs to their end."""
        return _Probed(self.name, cluster, settings, seed).run(jobs)


SYSTEM = Eagle()
