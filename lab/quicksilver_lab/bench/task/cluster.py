"""Nodes that report as sidecars do, and masters that ask for short tasks: over the product's own connections."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.messages import (
    Ack,
    ContainerEvent,
    ContainerReport,
    ContainerState,
    EventKind,
    Grant,
    Grants,
    Report,
)
from quicksilver_apps.yarn.yarn_client import AmClient
from quicksilver_lab.bench.task.yarn import TASK_MB, ClusterLog, TaskCluster, am_token, app_id, node_id
from rm_proxy.domain.ids import app_of_container, container_id_text
from sidecar.config import SidecarSettings
from sidecar.service.report_line import KeptLine, RestLine
from sidecar.service.reporter import STARTED_S

_PATIENCE_S: Final = 60.0
_AGAIN_S: Final = 1.0
TASK_PRIORITY: Final = 20
ASKS_RATIO: Final = 0.25
"""Heartbeats with new asks, as a part of all, at most."""


@dataclass(frozen=True, slots=True)
class Load:
    """Tasks a second of all masters together, how long each runs, and the time between two heartbeats of a master."""

    rate: float
    task_s: float
    beat_s: float


class SidecarStandIn:
    """One node: what is granted to it runs at once. fences: whether it says that it would hold what is not known."""

    def __init__(self, number: int, slots: int, rest_url: str, log: ClusterLog, fences: bool = False) -> None:
        self._fences = fences
        self._id, self._slots, self._log, self._settings = node_id(number), slots, log, SidecarSettings()
        self._line = KeptLine(RestLine(rest_url, _PATIENCE_S), _PATIENCE_S)
        self._line.on_grants = self._granted
        self._running: dict[str, float] = {}
        self._grants: dict[str, Grant] = {}
        """What the proxy announced of containers that have not ended."""
        self._events: list[ContainerEvent] = []
        self._report_seq = self._event_seq = self._reported_seq = 0

    def _granted(self, message: Grants) -> None:
        self._log.counts["announced"] += len(message.grants)
        self._log.counts["known"] += len(message.known)
        self._grants |= {grant.container_id: grant for grant in message.grants}

    def run(self, container: y.ContainerProto, task_s: float) -> None:
        """Run a container for `task_s` seconds."""
        name = container_id_text(container.id)
        self._running[name] = time.time()
        self._event(name, EventKind.STARTED)
        asyncio.get_running_loop().call_later(task_s, self._end, name, container.id)

    def _end(self, name: str, container_id: y.ContainerIdProto) -> None:
        ran_s = time.time() - self._running.pop(name)
        self._grants.pop(name, None)
        self._event(name, EventKind.ENDED, ran_s)
        self._log.ended[container_id.app_attempt_id.application_id.id].append(container_id)

    def _event(self, name: str, kind: EventKind, ran_s: float | None = None) -> None:
        self._event_seq += 1
        self._events.append(
            ContainerEvent(
                seq=self._event_seq, container_id=name, kind=kind, at_s=time.time(), ran_s=ran_s, attained_s=ran_s
            )
        )
        if kind is not EventKind.STARTED:
            self._line.changed.set()
        else:
            asyncio.get_running_loop().call_later(STARTED_S, self._started, self._event_seq)

    def _started(self, seq: int) -> None:
        """Report a start, as a sidecar does, unless that was done with another event."""
        if self._events and self._events[-1].seq >= seq > self._reported_seq:
            self._line.changed.set()

    async def report_on(self) -> None:
        """Report until cancelled, as often as a sidecar does."""
        await asyncio.sleep(random.uniform(0, self._settings.coalesce_s))
        while True:
            self._reported_seq = self._event_seq
            try:
                ack = await self._line.post(self._report())
            except QuicksilverError as error:
                self._log.faults.append(f"{self._id}: {error}")
                await asyncio.sleep(_AGAIN_S)
                continue
            self._log.counts["reports"] += 1
            self._events = [event for event in self._events if event.seq > ack.events_to]
            self._expect(ack)
            try:
                async with asyncio.timeout(self._settings.report_s):
                    await self._line.changed.wait()
                await asyncio.sleep(self._settings.coalesce_s)
            except TimeoutError:
                pass  # nothing changed: the regular report
            self._line.changed.clear()

    def _expect(self, ack: Ack) -> None:
        """Take over how long tasks are expected to run: a sidecar reports what it knows, and gets what differs."""
        expected_s = (
            {(news.app_id, news.priority): news.expected_s for news in ack.targets.expected} if ack.targets else {}
        )
        for grant in self._grants.values() if expected_s else ():
            grant.expected_s = expected_s.get((grant.app_id, grant.priority), grant.expected_s)

    def _report(self) -> Report:
        self._report_seq += 1
        now_s, used = time.time(), len(self._running)
        return Report(
            node_id=self._id,
            boot="boot",
            seq=self._report_seq,
            sidecar_url="http://127.0.0.1:1",
            memory_mb=self._slots * TASK_MB,
            vcores=self._slots,
            slots=self._slots,
            fences=self._fences,
            used_q_mb=used * TASK_MB,
            used_q_vcores=used,
            free_physical_mb=max(0, self._slots - used) * TASK_MB,
            containers=[self._container(name, now_s - began_s) for name, began_s in self._running.items()],
            events=list(self._events),
        )

    def _container(self, name: str, ran_s: float) -> ContainerReport:
        grant = self._grants.get(name)
        return ContainerReport(
            container_id=name,
            app_id=app_of_container(name),
            kind="Q",
            state=ContainerState.RUNNING,
            memory_mb=TASK_MB,
            vcores=1,
            priority=grant.priority if grant is not None else TASK_PRIORITY,
            since_s=round(ran_s, 1),
            expected_s=grant.expected_s if grant is not None else 0.0,
        )

    async def close(self) -> None:
        """Close its connections."""
        await self._line.close()


class AskingMaster:
    """One master: it asks for tasks at its share of the rate, and heartbeats on a clock."""

    def __init__(self, app: int, size: TaskCluster, load: Load, log: ClusterLog) -> None:
        self._app, self._load, self._log = app, load, log
        self._per_beat = load.rate * load.beat_s / size.masters
        self._rng = random.Random(app)
        self._owed, self._open = 0.0, 0

    async def live(self, port: int, nodes: dict[str, SidecarStandIn]) -> None:
        """Register and heartbeat until cancelled."""
        async with AmClient("127.0.0.1", port, am_token(self._app)) as am:
            await am.register()
            due_s = time.monotonic() + self._rng.uniform(0, self._load.beat_s)
            while True:
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                due_s += self._load.beat_s
                answer = await am.allocate(self._request())
                self._log.counts["heartbeats"] += 1
                self._log.counts["completed"] += len(answer.completed_container_statuses)
                for container in answer.allocated_containers:
                    self._open -= 1
                    nodes[f"{container.nodeId.host}:{container.nodeId.port}"].run(container, self._load.task_s)

    def _request(self) -> y.AllocateRequestProto:
        request = y.AllocateRequestProto(progress=0.5)
        self._owed += self._per_beat
        more = int(self._owed) if self._rng.random() < ASKS_RATIO else 0
        if more:
            self._owed -= more
            self._open += more
            row = request.ask.add(resource_name="*", num_containers=self._open, relax_locality=True)
            row.priority.priority = TASK_PRIORITY
            row.capability.memory, row.capability.virtual_cores = TASK_MB, 1
            row.execution_type_request.execution_type = y.GUARANTEED
        return request

    @property
    def name(self) -> str:
        """The id of its application."""
        return app_id(self._app)
