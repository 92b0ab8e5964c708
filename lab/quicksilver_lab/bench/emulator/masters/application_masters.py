"""Whole applications in one process, each with an unmanaged master, over real RPC to the ResourceManager and the nodes.

The components' processes run until they are stopped: at the end of the application its master has the nodes stop them,
and unregisters.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver_lab.bench.emulator.masters.application import (
    ApplicationAm,
    ApplicationSpec,
    Component,
    MasterRecord,
    Served,
)
from quicksilver_lab.bench.emulator.masters.links import BROKEN, Address, NodeLinks, Outcome
from quicksilver_lab.bench.emulator.masters.session import MasterLife, MasterSession
from quicksilver_lab.bench.emulator.masters.submit import MasterSubmitter, NotAdmittedError

_COMMAND: Final = "emulated 1000000"
_LINKS: Final = 4000
_STOP_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class ApplicationMastersSettings:
    """How masters live; times in seconds."""

    heartbeat_s: float = 1.0
    """From an answer to the next heartbeat; the first one follows registration."""
    tick_s: float = 0.05
    """Interval at which work that was done is counted."""
    app_type: str = "QUICKSILVER"


@dataclass(slots=True, eq=False)
class _AppLife(MasterLife):
    """A master that lives."""

    spec: ApplicationSpec
    am: ApplicationAm


class ApplicationMasters:
    """Runs applications. `umbilical` is what containers' processes call."""

    def __init__(
        self,
        rm: Address,
        scheduler: Address,
        served: Served,
        settings: ApplicationMastersSettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare. rm: the client service. scheduler: that of the ResourceManager, or a proxy."""
        self.settings = settings or ApplicationMastersSettings()
        self.counts: Counter[str] = Counter()
        """heartbeats, starts, stops, refused, surplus, resyncs, reconnects, failed_applications, doubled (processes of
        one container beyond the first), strays (processes of containers that nobody was given), exit_* by status."""
        self._scheduler, self._served, self._clock = scheduler, served, clock
        self._submitter = MasterSubmitter(rm, self.settings.app_type)
        self._links = NodeLinks(_LINKS)
        self._of: dict[str, _AppLife] = {}
        """Whose a container is, of masters that live."""
        self._lives: set[_AppLife] = set()
        self._began: Counter[str] = Counter()

    def umbilical(self, container_id: str, kind: Literal["began", "done"], _now_s: float) -> None:
        """Handle a report of the process in a container."""
        if kind != "began":
            return
        self._began[container_id] += 1
        self.counts["doubled"] += self._began[container_id] > 1
        life = self._of.get(container_id)
        if life is None:
            self.counts["strays"] += 1
        else:
            life.am.began(container_id, self._clock())

    async def run(
        self, applications: Iterable[ApplicationSpec], *, stop_after_s: float | None = None
    ) -> list[MasterRecord]:
        """Submit applications as they arrive, and return their records in that order.

        stop_after_s: what is not over then, from this call on, is killed, and its record says so.
        """
        records: list[MasterRecord] = []
        origin_s = self._clock()
        ticking = asyncio.create_task(self._tick(), name="work of the emulated applications")
        try:
            async with asyncio.timeout(stop_after_s) as limit, asyncio.TaskGroup() as group:
                for spec in applications:
                    await asyncio.sleep(max(0.0, origin_s + spec.arrives_s - self._clock()))
                    group.create_task(self._live(spec, records))
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            ticking.cancel()
            await asyncio.gather(ticking, return_exceptions=True)
            await self._links.close()
            await self._submitter.close()
        return records

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self.settings.tick_s)
            now_s = self._clock()
            for life in self._lives:
                life.am.advance(now_s, self._served)
                if life.am.over:
                    life.rouse()

    # One master

    async def _live(self, spec: ApplicationSpec, records: list[MasterRecord]) -> None:
        record = MasterRecord(spec.number, spec.klass, spec.runtime_s, self._clock())
        records.append(record)
        try:
            async with self._submitter.admitted(spec.job, record.note, spec.tags) as token:
                await self._work(spec, record, MasterSession(self._scheduler, token))
        except (*BROKEN, NotAdmittedError, TimeoutError) as error:
            record.note(f"{type(error).__name__}: {error}")
        except asyncio.CancelledError:
            record.note("cut off before its end")
            raise
        finally:
            self.counts["failed_applications"] += record.ended_s is None

    async def _work(self, spec: ApplicationSpec, record: MasterRecord, session: MasterSession) -> None:
        life = _AppLife(spec, ApplicationAm(spec, record))
        try:
            await session.register()
            record.registered_s = self._clock()
            self._lives.add(life)
            await self._beat_until_over(life, session)
            await self._stop_all(life)
            if life.am.broken:
                record.note(life.am.broken)
            await session.unregister(life.am.broken, self.settings.heartbeat_s)
        finally:
            session.close()
            self.counts["resyncs"] += session.resyncs
            self.counts["reconnects"] += session.reconnects
            self._forget(life)

    async def _beat_until_over(self, life: _AppLife, session: MasterSession) -> None:
        while not life.am.over:
            await self._beat(life, session)
            if not life.am.over:
                await life.wait(self.settings.heartbeat_s)

    def _forget(self, life: _AppLife) -> None:
        self._lives.discard(life)
        life.am.close(self._clock())
        self.counts["surplus"] += life.am.surplus
        self.counts.update({f"exit_{status}": count for status, count in life.am.exits.items()})
        self._links.drop(life.spec.number, life.nodes)
        for container_id in life.containers:
            del self._of[container_id]

    async def _beat(self, life: _AppLife, session: MasterSession) -> None:
        self.counts["heartbeats"] += 1
        answer = await session.allocate(life.am.request())
        if answer is None:
            life.am.resync()
            return
        for token in answer.nm_tokens:
            life.tokens[token.nodeId.host, token.nodeId.port] = token.token
        for component in life.am.answered(answer, self._clock()):
            self._of[component.container_id] = life
            life.containers.append(component.container_id)
            self._start(life, component)

    # Containers

    def _start(self, life: _AppLife, component: Component) -> None:
        node = component.container.nodeId
        token = life.tokens.get((node.host, node.port))
        if token is None:
            self._refused(life, component, f"no NMToken for {node.host}:{node.port}")
            return
        life.nodes.add((node.host, node.port))
        self.counts["starts"] += 1

        def answered(outcome: Outcome) -> None:
            if isinstance(outcome, Exception):
                self._refused(life, component, f"{type(outcome).__name__}: {outcome}")
                return
            for failed in y.StartContainersResponseProto.FromString(outcome).failed_requests:
                why = failed.exception.message or failed.exception.class_name
                self._refused(life, component, why.partition("\n")[0])

        self._links.start(life.spec.number, token, component.container, _COMMAND, answered)

    def _refused(self, life: _AppLife, component: Component, why: str) -> None:
        if life in self._lives and life.am.holds(component.container_id):
            self.counts["refused"] += 1
            life.am.refused(component.container_id, why, self._clock())

    async def _stop_all(self, life: _AppLife) -> None:
        """Have the nodes stop all containers; return when all have answered, or after _STOP_S."""
        loop = asyncio.get_running_loop()
        waiting = [self._stop(life, component, loop.create_future()) for component in life.am.stops()]
        if waiting:
            await asyncio.wait(waiting, timeout=_STOP_S)

    def _stop(self, life: _AppLife, component: Component, stopped: asyncio.Future[None]) -> asyncio.Future[None]:
        node = component.container.nodeId
        token = life.tokens.get((node.host, node.port))

        def answered(outcome: Outcome) -> None:
            if isinstance(outcome, Exception):
                life.am.record.note(f"{component.container_id} was not stopped: {outcome}")
            if not stopped.done():
                stopped.set_result(None)

        self.counts["stops"] += 1
        if token is None:
            stopped.set_result(None)
        else:
            self._links.stop(life.spec.number, token, component.container, answered)
        return stopped
