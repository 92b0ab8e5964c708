"""Carries the machine's commands out: heartbeats, NodeManagers, probes, launchers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver_apps.master.launchers import Launchers
from quicksilver_apps.master.machine import adoption
from quicksilver_apps.master.machine.events import (
    Allocated,
    AskContainers,
    CheckPassed,
    Command,
    ContainerCompleted,
    Event,
    FindLauncher,
    LauncherFound,
    LauncherMissing,
    MasterRegistered,
    MasterTick,
    ProbeInstance,
    Release,
    Resynced,
    StartFailed,
    StartInstance,
    Stop,
    StopAll,
    Unregister,
)
from quicksilver_apps.master.machine.instances import InstancePhase
from quicksilver_apps.master.machine.machine import Machine
from quicksilver_apps.master.yarn import asks
from quicksilver_apps.master.yarn.container_ids import container_id_text, grant_of
from quicksilver_apps.master.yarn.launch_context import Contexts, LaunchResources
from quicksilver_apps.master.yarn.nodes import Nodes
from quicksilver_apps.master.yarn.session import RmSession
from quicksilver_apps.yarn.yarn_client import RemoteCallError

LOG: Final = logging.getLogger("quicksilver.master")
BUSY_S: Final = 0.25
"""Seconds between heartbeats while something is wanted or ends."""
LEAST_S: Final = 0.05
PROBE_S: Final = 3.0
FIRST_PROBE_S: Final = 0.1
NOTES_S: Final = 1.0
REPLICAS: Final = 3
"""So many launchers have the notes for the next attempt."""
STATUS: Final = {"succeeded": y.APP_SUCCEEDED, "failed": y.APP_FAILED, "killed": y.APP_KILLED}


class Shell:
    """One attempt; `run` returns when the application has ended."""

    def __init__(
        self, machine: Machine, session: RmSession, contexts: Contexts, launchers: Launchers, beat_s: float
    ) -> None:
        """Prepare. beat_s: seconds between heartbeats while nothing changes."""
        self.machine = machine
        self.changed: Callable[[], None] = lambda: None
        self._session, self._contexts, self._launchers, self._beat_s = session, contexts, launchers, beat_s
        self._resources: LaunchResources = contexts.resources
        self._nodes = Nodes()
        self._containers: dict[str, y.ContainerProto] = {}
        self._asks: dict[str, int] = {}
        self._releases: dict[str, y.ContainerIdProto] = {}
        self._wake = asyncio.Event()
        self._end: Unregister | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def tell(self, event: Event) -> None:
        """Have the machine handle an event, and carry out what follows."""
        for command in self.machine.handle(event):
            self._carry_out(command)
        self.changed()

    async def run(self, host: str, url: str) -> Unregister:
        """Register, serve until the end, unregister. Raises what RmSession raises."""
        answer = await self._session.register(host, url)
        for token in answer.nm_tokens_from_previous_attempts:
            self._nodes.learn(token)
        grants = [grant_of(each) for each in answer.containers_from_previous_attempts]
        self._containers |= {container_id_text(each.id): each for each in answer.containers_from_previous_attempts}
        self.tell(MasterRegistered(time.time(), tuple(grants)))
        self._check_sizes(answer.maximumCapability)
        notes = asyncio.create_task(self._leave_notes())
        try:
            while self._end is None:
                await self._beat()
        finally:
            for task in (notes, *self._tasks):
                task.cancel()
            await asyncio.gather(notes, *self._tasks, return_exceptions=True)
        await self._session.unregister(STATUS[self._end.status], self._end.diagnostics)
        await self._session.close()
        return self._end

    def _check_sizes(self, largest: y.ResourceProto) -> None:
        """End the application when an instance needs more than any container has."""
        for service in self.machine.app.services.values():
            for name, demand, limit in (
                ("memory_mb", service.spec.memory_mb, largest.memory),
                ("vcores", service.spec.vcores, largest.virtual_cores),
            ):
                if 0 < limit < demand:
                    text = f"service {service.spec.name}: {name} {demand} is more than {limit}, the most of a container"
                    self.tell(StopAll("failed", f"{text} in this queue; ask for less.", time.time()))
                    self._asks.clear()
                    return

    # -- heartbeats

    async def _beat(self) -> None:
        """Send a heartbeat and handle its answer; then wait for the next one."""
        self._wake.clear()
        request = y.AllocateRequestProto(progress=self._progress(), release=list(self._releases.values()))
        for name, count in self._asks.items():
            service = self.machine.app.services[name].spec
            request.ask.extend(asks.rows(service, count, self._resources.racks))
        sent, released = dict(self._asks), set(self._releases)
        self._asks, self._releases = {}, {}
        try:
            answer = await self._session.allocate(request)
        except RemoteCallError as error:
            if self.machine.app.over:
                raise
            self.tell(StopAll("failed", f"the ResourceManager refuses what is asked for: {error}", time.time()))
            self._asks.clear()  # it would refuse them again
            return
        now_s = time.time()
        if answer is None:
            LOG.warning("registered again; %d asks and %d releases are sent again", len(sent), len(released))
            self._releases |= {container_id_text(each): each for each in request.release}
            self.tell(Resynced(now_s))
            return
        self._handle(answer, now_s)
        self.tell(MasterTick(now_s))
        busy = self._busy()
        try:
            await asyncio.wait_for(self._wake.wait(), BUSY_S if busy else self._beat_s)
        except TimeoutError:
            return
        await asyncio.sleep(LEAST_S)

    def _handle(self, answer: y.AllocateResponseProto, now_s: float) -> None:
        for token in answer.nm_tokens:
            self._nodes.learn(token)
        for container in answer.allocated_containers:
            self._containers[container_id_text(container.id)] = container
        if answer.containers_from_previous_attempts:
            late = [each for each in answer.containers_from_previous_attempts if not self._known(each)]
            self._containers |= {container_id_text(each.id): each for each in late}
            self.tell(MasterRegistered(now_s, tuple(grant_of(each) for each in late)))
        if answer.allocated_containers:
            self.tell(Allocated(tuple(grant_of(each) for each in answer.allocated_containers), now_s))
        for status in answer.completed_container_statuses:
            name = container_id_text(status.container_id)
            LOG.info("%s completed with %d: %s", name, status.exit_status, status.diagnostics.strip()[:300])
            self._containers.pop(name, None)
            self.tell(ContainerCompleted(name, status.exit_status, status.diagnostics, now_s))

    def _known(self, container: y.ContainerProto) -> bool:
        return container_id_text(container.id) in self._containers

    def _busy(self) -> bool:
        if not self.machine.app.running or self._asks or self._releases:
            return True
        return any(each.pending for each in self.machine.app.services.values())

    def _progress(self) -> float:
        instances = [each for service in self.machine.app.services.values() for each in service.instances.values()]
        ended = sum(1 for each in instances if each.phase is InstancePhase.ENDED)
        return ended / len(instances) if instances else 0.0

    # -- commands

    def _carry_out(self, command: Command) -> None:
        match command:
            case AskContainers():
                self._asks[command.service] = command.count
                self._wake.set()
            case Release():
                self._release(command.id)
            case StartInstance():
                self._spawn(self._start(command))
            case Stop():
                self._spawn(self._stop(command.id))
            case ProbeInstance():
                self._spawn(self._probe(command))
            case FindLauncher():
                self._spawn(self._find(command))
            case Unregister():
                self._end = command
                self._wake.set()

    def _release(self, container_id: str) -> None:
        container = self._containers.get(container_id)
        if container is not None:
            self._releases[container_id] = container.id
            self._wake.set()

    async def _start(self, command: StartInstance) -> None:
        container = self._containers[command.id]
        spec = self.machine.app.services[command.service].spec
        context = self._contexts.make(command.id, container.nodeId.host, spec, command.index, command.kind)
        trouble = await self._nodes.start(container, context)
        if trouble:
            LOG.warning("%s was not started: %s", command.id, trouble)
            self.tell(StartFailed(command.id, trouble, time.time()))

    async def _stop(self, container_id: str) -> None:
        container = self._containers.get(container_id)
        if container is None:
            return
        trouble = await self._nodes.stop(container)
        if trouble:
            LOG.warning("%s was not stopped, it is released: %s", container_id, trouble)
        self._release(container_id)

    async def _probe(self, command: ProbeInstance) -> None:
        """Connect again and again: often at first, because most commands listen soon."""
        pause_s = FIRST_PROBE_S
        while True:
            pair = self.machine.app.instance(command.id)
            if pair is None or pair[1].phase is not InstancePhase.RUNNING:
                return
            try:
                async with asyncio.timeout(PROBE_S):
                    _, writer = await asyncio.open_connection(command.host, command.port)
                writer.close()
            except (OSError, TimeoutError):
                await asyncio.sleep(min(pause_s, command.every_s))
                pause_s *= 2
                continue
            self.tell(CheckPassed(command.id, time.time()))
            return

    async def _find(self, command: FindLauncher) -> None:
        state = await self._launchers.find(command.id, command.host)
        if state is None:
            LOG.warning("the launcher of %s on %s does not answer", command.id, command.host)
            self.tell(LauncherMissing(command.id, time.time()))
            return
        event = LauncherFound(
            command.id,
            state["service"],
            state["index"],
            state["ports"],
            state["listens_on"],
            state["phase"],
            state["notes"],
            time.time(),
        )
        self.tell(event)

    async def _leave_notes(self) -> None:
        """Give the newest notes to a few launchers whenever something happened."""
        seqs: dict[str, int] = {}
        first = int(time.time() * 1000)  # higher than all numbers of the attempt before
        while True:
            await asyncio.sleep(NOTES_S)
            app = self.machine.app
            if not app.running or self.machine.adoption.pending:
                continue
            last = app.log.last
            behind = [each for each in self._replicas() if seqs.get(each[0]) != last]
            if behind:
                notes = adoption.notes(app.services, first + last)
                for container_id, host, port in behind:
                    if await self._launchers.leave(container_id, host, port, notes):
                        seqs[container_id] = last
            for gone in seqs.keys() - app.containers.keys():
                del seqs[gone]

    def _replicas(self) -> list[tuple[str, str, int]]:
        """Return the launchers that have the notes: those of a few instances, core ones first."""
        able = [
            (each.kind != "core", each.index, name, each.grant, each.listens_on)
            for name, service in self.machine.app.services.items()
            for each in service.instances.values()
            if each.grant is not None
            and each.listens_on
            and not each.leaving
            and each.phase is not InstancePhase.WAITING
        ]
        able.sort(key=lambda candidate: candidate[:3])
        return [(grant.id, grant.host, port) for _, _, _, grant, port in able[:REPLICAS]]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            LOG.error("a command failed", exc_info=task.exception())
