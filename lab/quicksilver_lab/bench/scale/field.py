"""Nodes with sidecars and their masters in a process of their own, so that what they cost is told apart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from policies.config.policy_set import Policies
from policies.model import Resources
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.logs import configure_logs
from quicksilver_lab.bench.emulator.masters.masters import Masters, MastersSettings
from quicksilver_lab.bench.emulator.model import JobSpec, TaskSpec
from quicksilver_lab.bench.emulator.nodes.node import EmulatedNode
from quicksilver_lab.bench.emulator.nodes.nodes import Accept, EmulatedNodes, NodeSettings
from quicksilver_lab.bench.emulator.nodes.tracker import ReportRelay
from quicksilver_lab.bench.emulator.reports import Traffic
from quicksilver_lab.bench.emulator.site import EmulatedSite, Wiring
from quicksilver_lab.bench.load.child_process import LoadChild
from sidecar.config import SidecarSettings
from sidecar.metrics import SidecarMetrics

TASK_MB: Final = 1024
_FOREVER_S: Final = 36_000.0
_TASKS_PER_JOB: Final = 200
_SETTLE_S: Final = 120.0
_POLL_S: Final = 0.5
_DRAIN_S: Final = 30.0
_NM_QUEUE: Final = 1_000
"""The NodeManager's own queue is never the limit: the sidecar holds what waits."""

Address = tuple[str, int]


class FieldError(QuicksilverError):
    """The emulated part of the cluster could not do what it was to."""


@dataclass(frozen=True, slots=True)
class Plot:
    """Where things are, and what nodes are like. `policies` is that section of quicksilver.yaml."""

    client: Address
    scheduler: Address
    """The proxy's."""
    tracker: Address
    rest: Address
    """The proxy's."""
    policies: Mapping[str, Any]
    slots: int
    first_port: int


@dataclass(frozen=True, slots=True)
class Churned:
    """What a stream of short tasks came to."""

    seconds: float
    """Until the last one was over."""
    tasks: int
    reports: int
    announcements: int
    lost: int
    doubled: int
    errors: tuple[str, ...]


class _Field:
    """In the process itself: groups of nodes, one for each time that the cluster grew."""

    def __init__(self, plot: Plot) -> None:
        self._plot = plot
        self._groups: list[EmulatedNodes] = []
        self._sites: list[EmulatedSite] = []
        self._traffic = Traffic()
        self._wiring = Wiring(
            Policies.load(dict(plot.policies)), SidecarSettings(), plot.rest, SidecarMetrics(), self._traffic
        )
        self._filling: list[tuple[Masters, asyncio.Task[Any]]] = []
        self._filled = 0

    async def grow(self, nodes: int) -> None:
        """Add so many nodes, which report when this returns."""
        plot, sites = self._plot, []
        capacity = Resources(plot.slots * TASK_MB, plot.slots)

        def accept(node: EmulatedNode) -> Accept:
            site = EmulatedSite(node.id, capacity, float(plot.slots), node, self._wiring)
            node.observer = site
            sites.append(site)
            return site.client

        port = plot.first_port + len(self._groups)
        group = EmulatedNodes(
            NodeSettings(
                vcores=plot.slots,
                memory_mb=plot.slots * TASK_MB,
                relay=ReportRelay(mark_guaranteed=True),
                max_queue_length=_NM_QUEUE,
                port=port,
            )
        )
        group.umbilical = self._heard
        self._groups.append(group)
        await group.start(nodes, plot.tracker, accept)
        for number, site in enumerate(sites):
            await site.start(site.id.rpartition(":")[0])
            self._sites.append(site)
            if number % 16 == 15:
                await asyncio.sleep(0.02)  # so that they do not all report at one time

    def _heard(self, container_id: str, kind: Any, now_s: float) -> None:
        for masters, _ in self._filling:
            masters.umbilical(container_id, kind, now_s)

    async def fill(self, tasks: int) -> None:
        """Start so many tasks that do not end; those beyond the slots wait at their nodes. Raises FieldError."""
        masters = Masters(self._plot.client, self._plot.scheduler, MastersSettings())
        running = asyncio.create_task(masters.run(endless(tasks)))
        self._filling.append((masters, running))
        self._filled += tasks
        end_s = time.monotonic() + _SETTLE_S
        while (there := sum(len(site.node.state.containers) for site in self._sites)) < self._filled:
            if running.done() or time.monotonic() > end_s:
                raise FieldError(f"of {self._filled} containers {there} are at their nodes after {_SETTLE_S:g} s")
            await asyncio.sleep(_POLL_S)

    async def churn(self, rate: float, seconds: float) -> Churned:
        """Run 2-second tasks, so many begun a second; return when all are over."""
        masters = Masters(self._plot.client, self._plot.scheduler, MastersSettings())
        before = self._traffic.reports, self._traffic.grants
        began_s = time.monotonic()
        running = asyncio.create_task(masters.run(list(stream(rate, seconds)), stop_after_s=seconds + _DRAIN_S))
        self._filling.append((masters, running))
        records = await running
        self._filling.remove((masters, running))
        done = sum(task.ended_s is not None for record in records for task in record.tasks)
        return Churned(
            seconds=time.monotonic() - began_s,
            tasks=done,
            reports=self._traffic.reports - before[0],
            announcements=self._traffic.grants - before[1],
            lost=masters.counts["lost"],
            doubled=masters.counts["doubled"],
            errors=tuple(error for record in records for error in record.errors)[:5],
        )

    async def sent(self) -> tuple[int, int]:
        """Return how many reports were sent, and how many of them the proxy did not take."""
        return self._traffic.reports, self._traffic.refused

    async def close(self) -> None:
        """End everything."""
        for _, running in self._filling:
            running.cancel()
        await asyncio.gather(*(running for _, running in self._filling), return_exceptions=True)
        for site in self._sites:
            await site.close()
        for group in self._groups:
            await group.stop()


def endless(tasks: int) -> list[JobSpec]:
    """Return jobs with so many tasks together that do not end."""
    sizes = [min(_TASKS_PER_JOB, tasks - at) for at in range(0, tasks, _TASKS_PER_JOB)]
    return [
        JobSpec(n, 0.0, "endless", (TaskSpec(_FOREVER_S),) * size, told_s=_FOREVER_S, memory_mb=TASK_MB)
        for n, size in enumerate(sizes)
    ]


def stream(rate: float, seconds: float, tasks: int = 20, runs_s: float = 2.0) -> Iterator[JobSpec]:
    """Yield jobs of `tasks` short tasks that begin `rate` tasks a second for so long."""
    every_s = tasks / rate
    for number in range(max(1, round(seconds / every_s))):
        yield JobSpec(number, number * every_s, "short", (TaskSpec(runs_s),) * tasks, told_s=runs_s, memory_mb=TASK_MB)


class FieldProcess(LoadChild):
    """The field in its process; use it in a with block."""

    def __init__(self, plot: Plot) -> None:
        super().__init__("emulated nodes", partial(_new_field, plot))

    def grow(self, nodes: int) -> None:
        """Add so many nodes. Raises ChildError."""
        self.call("grow", nodes)

    def fill(self, tasks: int) -> None:
        """Start so many tasks that do not end. Raises ChildError."""
        self.call("fill", tasks)

    def churn(self, rate: float, seconds: float) -> Churned:
        """Run 2-second tasks. Raises ChildError."""
        churned = self.call("churn", rate, seconds)
        assert isinstance(churned, Churned)
        return churned

    def sent(self) -> tuple[int, int]:
        """Return how many reports were sent, and how many of them were refused. Raises ChildError."""
        reports, refused = self.call("sent")
        return reports, refused


def _new_field(plot: Plot) -> _Field:
    configure_logs(level="warning")
    return _Field(plot)
