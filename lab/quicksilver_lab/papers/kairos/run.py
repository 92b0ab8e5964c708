"""One run of Kairos: jobs, the central queue, nodes, and the network between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from math import inf

from quicksilver.simulator.errors import SimulatorError
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver_lab.papers.kairos.central import KairosCentral
from quicksilver_lab.papers.kairos.task import KairosNode, KairosProgress, KairosTask


class KairosRun:
    """Events by time; of one time first what ends or turns on a node, then its report, then what arrives.

    Tasks leave the central queue as soon as a node is known to have room for them, first come first served. Those of a
    later stage come when the end of the stage before is reported.
    """

    def __init__(
        self, nodes: Sequence[KairosNode], central: KairosCentral, cluster: ClusterModel, result: SimResult
    ) -> None:
        """Begin with empty nodes; `result` is filled."""
        self._nodes, self._central, self._result = nodes, central, result
        self._slots, self._delay_s = cluster.slots, cluster.delay_s
        self._queue: deque[KairosProgress] = deque()
        self._wakes: list[tuple[float, int, int]] = []
        """(when, node, the version of the node that asked for it)"""
        self._reports: deque[tuple[float, int, KairosProgress | None]] = deque()
        """(when, node, the job whose next stage can be sent then)"""
        self._coming: deque[tuple[float, int, KairosTask]] = deque()
        self._on = [0] * len(nodes)
        """Tasks on each node."""
        self._busy = 0
        self._tasks = self._started = self._ended = self._events = 0

    def until_all_is_over(self, jobs: Iterable[SimulatedJob], sample_s: float) -> None:
        """Do all jobs, and fill the result. Raises SimulatorError for jobs that are not by arrival."""
        coming: Iterator[SimulatedJob] = iter(jobs)
        job = next(coming, None)
        job_s = job.arrives_s if job else inf
        wakes, reports, arrivals = self._wakes, self._reports, self._coming
        sampled_s, step_s = job_s, sample_s
        while True:
            wake_s = wakes[0][0] if wakes else inf
            report_s = reports[0][0] if reports else inf
            arrival_s = arrivals[0][0] if arrivals else inf
            now_s = min(wake_s, report_s, arrival_s, job_s)
            if now_s == inf:
                break
            while sampled_s <= now_s:
                self._result.busy.append((sampled_s, self._busy / (len(self._nodes) * self._slots)))
                sampled_s += step_s
            self._events += 1
            if wake_s == now_s:
                self._wake(now_s)
            elif report_s == now_s:
                _, node, staged = reports.popleft()
                self._central.ended(node, now_s)
                if staged is not None:
                    staged.next_stage()
                    self._queue.append(staged)
                self._send(now_s)
            elif arrival_s == now_s:
                _, node, task = arrivals.popleft()
                self._arrive(node, task, now_s)
            else:
                assert job is not None
                self._submit(job)
                job, before_s = next(coming, None), job_s
                job_s = job.arrives_s if job else inf
                if job_s < before_s:
                    raise SimulatorError(
                        f"a job of {job_s} s comes after one of {before_s} s; sort the trace by arrival"
                    )
        self._close()

    def _submit(self, job: SimulatedJob) -> None:
        progress = KairosProgress(job)
        self._tasks += progress.open_tasks
        if progress.open_tasks:
            self._queue.append(progress)
            self._send(job.arrives_s)
        else:
            self._result.jobs.append(progress.outcome(job.arrives_s))

    def _send(self, now_s: float) -> None:
        """Give tasks of the central queue to nodes, as many as there is room for."""
        while self._queue:
            first = self._queue[0]
            durations_s, sent = first.job.durations_s, first.sent
            for node in self._central.choose(first.ready - sent, now_s):
                self._started += 1
                task = KairosTask(self._started, durations_s[sent], first, first.stage)
                self._coming.append((now_s + self._delay_s, node, task))
                sent += 1
            first.sent = sent
            if sent < first.ready:
                break
            self._queue.popleft()

    def _arrive(self, number: int, task: KairosTask, now_s: float) -> None:
        node = self._nodes[number]
        node.arrive(task, now_s)
        self._central.changed(number, now_s)
        self._busy += self._on[number] < self._slots
        self._on[number] += 1
        heappush(self._wakes, (node.next_s, number, node.version))

    def _wake(self, now_s: float) -> None:
        _, number, version = heappop(self._wakes)
        node = self._nodes[number]
        if node.version != version:
            return
        task = node.wake(now_s)
        if node.next_s < inf:
            heappush(self._wakes, (node.next_s, number, node.version))
        if task is None:
            return
        self._ended += 1
        self._on[number] -= 1
        self._busy -= self._on[number] < self._slots
        self._central.changed(number, now_s)
        owner = task.owner
        more = owner.ends(task, now_s)
        self._reports.append((now_s + self._delay_s, number, owner if more else None))
        if not owner.open_tasks:
            self._result.jobs.append(owner.outcome(now_s))

    def _close(self) -> None:
        self._result.counts = {
            "doubled": 0,
            "ended": self._ended,
            "events": self._events,
            "lost": self._tasks - self._ended,
            "preemptions": sum(node.preemptions for node in self._nodes),
            "started": self._started,
            "tasks": self._tasks,
        }
