"""The containers of one stock NodeManager, as a machine: ContainerScheduler and ContainerImpl of Hadoop 3.4.2.

What is as in Hadoop: guaranteed containers first, both queues in order of arrival; room is counted by allocation, in
memory and vcores (virtual memory, 2.1 times the physical on both sides, never decides); with a queue length of 0 a
guaranteed container starts whatever room there is and an opportunistic one dies on arrival; a guaranteed one that has
to wait kills running opportunistic ones, newest first, as many as it needs beside those that are dying already; the
ResourceManager's limit sheds from the end of the queue; what is killed holds its room until its process is gone.
Left out: localisation, pausing (no executor of Hadoop's does it), relaunches, resource updates of containers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from quicksilver_lab.bench.emulator.nodes.nm_events import (
    APP_OVER,
    INVALID,
    KILLED_AFTER_APP_COMPLETION,
    KILLED_BY_CONTAINER_SCHEDULER,
    MAKING_ROOM,
    QUEUE_FULL,
    SHED,
    SUCCESS,
    AppOver,
    Command,
    Done,
    Event,
    Exited,
    Launched,
    Limited,
    NmAsked,
    NmKill,
    NmKillOver,
    NmLaunch,
    NmSize,
    NmStart,
    NmStop,
    Retyped,
    RunProcess,
)

_NOT_LAUNCHED: Final = "Container terminated before launch."


class NmPhase(Enum):
    """Where a container is. Queued and launching ones are CSS_SCHEDULED to the ResourceManager."""

    QUEUED = "queued"
    LAUNCHING = "launching"
    RUNNING = "running"
    KILLING = "killing"
    DONE = "done"


@dataclass(slots=True)
class NmContainer:
    """One container that this NodeManager knows."""

    spec: NmAsked
    arrived_s: float
    phase: NmPhase = NmPhase.QUEUED
    began_s: float | None = None
    """When its process began."""
    ended_s: float | None = None
    exit_status: int = INVALID
    diagnostics: str = ""
    opportunistic: bool = False
    """Its execution type now; a promotion changes it."""


@dataclass(slots=True)
class NmCounts:
    """What happened so far."""

    started: int = 0
    """Processes that began."""
    succeeded: int = 0
    killed_for_room: int = 0
    """Opportunistic containers that made room for a guaranteed one."""
    queue_full: int = 0
    shed: int = 0
    killed_otherwise: int = 0
    work_lost_s: float = 0.0
    """Run time of processes that were killed, whoever wanted it."""


@dataclass(slots=True)
class NodeManager:
    """One NodeManager; `handle(event)` is the only way to change it.

    max_queue_length: yarn.nodemanager.opportunistic-containers-max-queue-length, 0 as Hadoop ships it.
    """

    capacity: NmSize
    max_queue_length: int = 0
    containers: dict[str, NmContainer] = field(default_factory=dict)
    """All that the NodeManager knows, ended ones until the ResourceManager has acknowledged them."""
    running: dict[str, NmContainer] = field(default_factory=dict)
    """Those that hold room, in the order in which they took it."""
    guaranteed: dict[str, NmContainer] = field(default_factory=dict)
    """Queue."""
    opportunistic: dict[str, NmContainer] = field(default_factory=dict)
    """Queue."""
    used_mb: int = 0
    used_vcores: int = 0
    counts: NmCounts = field(default_factory=NmCounts)
    apps: set[str] = field(default_factory=set)
    """Applications that the NodeManager knows."""
    _to_kill: dict[str, NmContainer] = field(default_factory=dict)
    """Opportunistic ones that are dying for a guaranteed one."""
    _out: list[Command] = field(default_factory=list)

    def handle(self, event: Event) -> list[Command]:
        """Handle an event; return the commands, in order."""
        self._out = []
        match event:
            case NmStart(spec, now_s):
                self._start(spec, now_s)
            case Launched(container_id, now_s):
                self._launched(container_id, now_s)
            case Exited(container_id, now_s):
                self._exited(container_id, now_s)
            case NmKillOver(container_id, now_s):
                self._kill_over(container_id, now_s)
            case NmStop(container_id, exit_status, why, now_s):
                if (container := self.containers.get(container_id)) is not None:
                    self._kill(container, exit_status, why, now_s)
            case Retyped(container_id, opportunistic, now_s):
                self._retype(container_id, opportunistic, now_s)
            case Limited(length, now_s):
                self._shed(length, now_s)
            case AppOver(app_id, now_s):
                self._app_over(app_id, now_s)
        return self._out

    def forget(self, container_ids: Iterable[str]) -> list[str]:
        """Drop ended containers that the ResourceManager has acknowledged; return those that have not ended yet."""
        remaining = []
        for container_id in container_ids:
            container = self.containers.get(container_id)
            if container is not None and container.phase is not NmPhase.DONE:
                remaining.append(container_id)
            elif container is not None:
                del self.containers[container_id]
        return remaining

    def has_room(self, size: NmSize) -> bool:
        """Return whether a container of this size could run beside those that do."""
        capacity = self.capacity
        return self.used_mb + size.memory_mb <= capacity.memory_mb and self.used_vcores + size.vcores <= capacity.vcores

    # Starts

    def _start(self, spec: NmAsked, now_s: float) -> None:
        container = NmContainer(spec, now_s, opportunistic=spec.opportunistic)
        self.containers[spec.container_id] = container
        self.apps.add(spec.app_id)
        if not spec.opportunistic:
            self.guaranteed[spec.container_id] = container
            self._start_pending(self.max_queue_length <= 0)
            self._reclaim(container, now_s)
            return
        self._start_pending(False)
        if len(self.opportunistic) < self.max_queue_length:
            self.opportunistic[spec.container_id] = container
            self._start_pending(False)
        else:
            self.counts.queue_full += 1
            self._kill(container, KILLED_BY_CONTAINER_SCHEDULER, QUEUE_FULL, now_s)

    def _start_pending(self, force: bool) -> None:
        if self._start_from(self.guaranteed, force):
            self._start_from(self.opportunistic, False)

    def _start_from(self, queue: dict[str, NmContainer], force: bool) -> bool:
        """Start from the head of a queue; return whether nothing is left in it."""
        while queue:
            container_id, container = next(iter(queue.items()))
            if not force and not self.has_room(container.spec.size):
                return False
            del queue[container_id]
            self.running[container_id] = container
            self.used_mb += container.spec.size.memory_mb
            self.used_vcores += container.spec.size.vcores
            container.phase = NmPhase.LAUNCHING
            self._out.append(NmLaunch(container_id))
        return True

    def _launched(self, container_id: str, now_s: float) -> None:
        container = self.containers.get(container_id)
        if container is None or container.phase is not NmPhase.LAUNCHING:
            return  # killed before its process was there
        container.phase, container.began_s = NmPhase.RUNNING, now_s
        self.counts.started += 1
        self._out.append(RunProcess(container_id, container.spec.runs_s))

    # Making room

    def _reclaim(self, container: NmContainer, now_s: float) -> None:
        """Kill running opportunistic containers, newest first, when a guaranteed one has to wait."""
        container_id = container.spec.container_id
        if container_id not in self.guaranteed:
            return
        need_mb, need_vcores = self._missing(container_id)
        for candidate_id, candidate in reversed(list(self.running.items())):
            if need_mb <= 0 and need_vcores <= 0:
                break
            if not candidate.opportunistic or candidate_id in self._to_kill:
                continue
            self._to_kill[candidate_id] = candidate
            need_mb -= candidate.spec.size.memory_mb
            need_vcores -= candidate.spec.size.vcores
            self.counts.killed_for_room += 1
            self._kill(candidate, KILLED_BY_CONTAINER_SCHEDULER, MAKING_ROOM, now_s)

    def _missing(self, container_id: str) -> tuple[int, int]:
        """Return the MB and vcores to free for a queued guaranteed container and those before it."""
        mb, vcores = self.used_mb - self.capacity.memory_mb, self.used_vcores - self.capacity.vcores
        for queued_id, queued in self.guaranteed.items():
            mb += queued.spec.size.memory_mb
            vcores += queued.spec.size.vcores
            if queued_id == container_id:
                break
        for dying in self._to_kill.values():
            mb -= dying.spec.size.memory_mb
            vcores -= dying.spec.size.vcores
        return mb, vcores

    def _retype(self, container_id: str, opportunistic: bool, now_s: float) -> None:
        container = self.containers.get(container_id)
        if container is None or container.opportunistic == opportunistic:
            return
        container.opportunistic = opportunistic
        if not opportunistic and self.opportunistic.pop(container_id, None) is not None:
            self.guaranteed[container_id] = container
            self._reclaim(container, now_s)
        elif opportunistic and self.guaranteed.pop(container_id, None) is not None:
            self.opportunistic[container_id] = container
        self._start_pending(self.max_queue_length <= 0)

    def _shed(self, length: int, now_s: float) -> None:
        if length < 0:
            return
        for container in list(self.opportunistic.values())[length:]:
            self.counts.shed += 1
            self._kill(container, KILLED_BY_CONTAINER_SCHEDULER, SHED, now_s)

    # Ends

    def _kill(self, container: NmContainer, exit_status: int, why: str, now_s: float) -> None:
        container_id = container.spec.container_id
        if container.phase in (NmPhase.KILLING, NmPhase.DONE):
            return
        waited = container.phase is NmPhase.QUEUED
        container.exit_status = exit_status
        container.diagnostics = f"{why}\n{_NOT_LAUNCHED}\n" if waited else f"{why}\n"
        if exit_status != KILLED_BY_CONTAINER_SCHEDULER:
            self.counts.killed_otherwise += 1
        if waited:
            self._done(container, now_s)
            return
        container.phase = NmPhase.KILLING
        self._out.append(NmKill(container_id))

    def _exited(self, container_id: str, now_s: float) -> None:
        container = self.containers.get(container_id)
        if container is None or container.phase is not NmPhase.RUNNING:
            return  # killed before
        container.exit_status = container.spec.exit_status
        self.counts.succeeded += container.exit_status == SUCCESS
        self._done(container, now_s)

    def _kill_over(self, container_id: str, now_s: float) -> None:
        container = self.containers.get(container_id)
        if container is None or container.phase is not NmPhase.KILLING:
            return
        if container.began_s is not None:
            self.counts.work_lost_s += now_s - container.began_s
        self._done(container, now_s)

    def _done(self, container: NmContainer, now_s: float) -> None:
        container_id = container.spec.container_id
        container.phase, container.ended_s = NmPhase.DONE, now_s
        ran_s = 0.0 if container.began_s is None else now_s - container.began_s
        self._out.append(Done(container_id, container.exit_status, ran_s))
        self._to_kill.pop(container_id, None)
        self.opportunistic.pop(container_id, None)
        self.guaranteed.pop(container_id, None)
        if self.running.pop(container_id, None) is not None:
            self.used_mb -= container.spec.size.memory_mb
            self.used_vcores -= container.spec.size.vcores
            self._start_pending(self.max_queue_length <= 0)

    def _app_over(self, app_id: str, now_s: float) -> None:
        self.apps.discard(app_id)
        for container in [c for c in self.containers.values() if c.spec.app_id == app_id]:
            self._kill(container, KILLED_AFTER_APP_COMPLETION, APP_OVER, now_s)
