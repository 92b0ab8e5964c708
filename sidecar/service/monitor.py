"""Monitors the containers of a node: measures those that share its cores, guards its memory."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from quicksilver.common.process.logs import get_logger
from sidecar.cpu_sharing.events import Squeezed
from sidecar.memory.cgroup_fence import Fence, FenceLimits, default_daemon_cores, fence_mb
from sidecar.memory.memory_guard import Alarm, GuardCommand, HeldMemory, Kill, Memory, MemoryGuard, Squeeze
from sidecar.memory.pressure import Gauge, group_memory
from sidecar.node.events import KillAsked
from sidecar.node.phases import USING
from sidecar.resizer.base import ResizeRefusedError
from sidecar.service.dispatcher import Dispatcher
from sidecar.service.resizing.resize_executor import ResizeExecutor, Undoes

log = get_logger(__name__)
_MOMENTS: Final = 5
"""Minimum number of measurements in one quantum."""


class Monitor:
    """Watches the containers of one dispatcher; memory is also guarded where nothing is resized."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        guard: MemoryGuard,
        gauge: Gauge,
        guardian: Undoes,
        protects: Callable[[str, float | None, float], bool] = lambda queue, started_s, now_s: False,
    ) -> None:
        """Prepare; protects: returns whether a container of a YARN queue is protected, by its start and the time."""
        self.dispatcher, self.resizing, self.guard = dispatcher, dispatcher.resizing, guard
        self._gauge, self._guardian, self._metrics = gauge, guardian, dispatcher.metrics
        self._protects = protects
        settings, cpus = dispatcher.settings, os.cpu_count() or 1
        daemon_cores = settings.fence_daemon_cores or default_daemon_cores(cpus)
        self._fence = Fence(FenceLimits(daemon_cores=daemon_cores, cpus=cpus, cores=settings.fence_cores))
        self._refused: set[str] = set()

    async def measure(self) -> None:
        """Measure the use of containers regularly, until cancelled."""
        while True:
            if self.resizing is not None:
                self._measure(self.resizing)
            shrinking = self.dispatcher.node.state.sharing.shrinking
            every_s = self.dispatcher.settings.measure_s
            await asyncio.sleep(every_s if shrinking is None else min(every_s, shrinking.quantum_s / _MOMENTS))

    def _measure(self, resizing: ResizeExecutor) -> None:
        resizing.measure()
        sharing = self.dispatcher.node.state.sharing
        for container_id, usage in resizing.usages.items():
            if usage.memory_mb is not None and sharing.share(container_id) is not None:
                sharing.memory_used_mb[container_id] = usage.memory_mb

    def check_memory(self) -> int:
        """Check the machine's memory and execute the guard's commands; return the free memory in MB."""
        now = self._gauge.read()
        self._metrics.set_stalls(now.memory_stall_ratio, now.cpu_stall_ratio)
        free_mb = min([now.free_mb, *self._room_mb()])
        for command in self.guard.handle(Memory(time.time(), free_mb, now.memory_stall_ratio, self._containers())):
            self._execute(command)
        if self.resizing is not None:
            self._keep_fence(self.resizing, now.free_mb)
        return free_mb

    def _room_mb(self) -> list[int]:
        """Return the memory left within the bounds around the containers."""
        parents = self.resizing.resizer.parents() if self.resizing is not None else []
        memories = map(group_memory, map(Path, parents))
        return [memory.room_mb for memory in memories if memory is not None and memory.room_mb is not None]

    def lift_fence(self) -> None:
        """Remove the fence."""
        try:
            self._fence.lift()
        except ResizeRefusedError as error:
            log.warning("the fence around the containers could not be taken away", why=str(error))

    def _keep_fence(self, resizing: ResizeExecutor, free_mb: int) -> None:
        groups = [Path(name) for name in resizing.resizer.parents()]
        settings, limits = self.dispatcher.settings, self._fence.limits
        if settings.fence_memory and limits.memory_mb is None:
            inside = [memory.used_mb for memory in map(group_memory, groups) if memory is not None]
            if inside:
                bound_mb = fence_mb(free_mb, max(inside), settings.fence_keep_mb)
                self._fence.limits = replace(limits, memory_mb=bound_mb)
        result = self._fence.keep(groups)
        if result.changed:
            self._guardian.put("fence", self._fence.undo())
        for why in result.refused:
            if why not in self._refused:
                self._refused.add(why)
                log.warning("the fence around the containers is not complete", why=why)

    def _containers(self) -> tuple[HeldMemory, ...]:
        node, now_s = self.dispatcher.node, time.time()
        small = frozenset(self.resizing.small()) if self.resizing is not None else frozenset()
        return tuple(
            HeldMemory(
                container_id=entry.id,
                kind=entry.kind,
                allocated_mb=entry.start.resources.memory_mb,
                used_mb=node.state.sharing.memory_used_mb.get(entry.id),
                attained_s=node.state.sharing.view(entry).attained_s or 0.0,
                shrunk=entry.id in small,
                killable=node.endings.killable(entry),
                am=entry.start.am,
                protected=self._protects(entry.grant.queue if entry.grant else "", entry.started_s, now_s),
                started_s=entry.started_s or entry.arrived_s,
            )
            for entry in node.state.containers.values()
            if entry.phase in USING
        )

    def _execute(self, command: GuardCommand) -> None:
        match command:
            case Squeeze():
                log.warning("memory is short" if command.on else "memory is sufficient again", why=command.why)
                self._metrics.squeezed.set(command.on)
                self.dispatcher.put(Squeezed(command.on, command.why, time.time()))
            case Kill():
                self._metrics.memory_kills.inc()
                log.warning(
                    "container killed: the last resort when memory is short",
                    container=command.container_id,
                    why=command.why,
                )
                self.dispatcher.put(KillAsked(command.container_id, command.why, time.time()))
            case Alarm():
                log.error("memory runs out, and nothing here may be killed", why=command.why)
