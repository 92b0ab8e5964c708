"""One worker of a proxy: a whole proxy for its applications and nodes, with the picture of all others."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from policies.config.policy_set import Policies
from quicksilver.common.hadoop.conf import HadoopConf
from quicksilver.common.http.security import Security
from quicksilver.common.messages import Ack, Grants, ReloadAnswer, ReloadRequest
from quicksilver.common.process.limits import Seldom
from quicksilver.common.process.logs import get_logger
from quicksilver.common.reports.frames import FrameKind
from quicksilver.common.settings.reload import How, ReloadRefusedError, on_hangup, process_user
from rm_proxy.config import ProxySettings
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.error_budget import FaultKind, Order
from rm_proxy.coordinator.workers.news import view_fields
from rm_proxy.coordinator.workers.outbox import Outbox, SharedLine, shared_parts
from rm_proxy.coordinator.workers.peers import Peers
from rm_proxy.coordinator.workers.spread import Spread
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.minting.key_ring import KeyReport
from rm_proxy.service.attempt_journal import AttemptJournal
from rm_proxy.service.key_reports import KeyReports
from rm_proxy.service.server import Makers, Proxy
from rm_proxy.service.workers import sockets
from rm_proxy.service.workers.closing_calls import ClosingCalls
from rm_proxy.service.workers.continued_connection import ContinuedConnection, adopt
from rm_proxy.service.workers.journals import journal_of
from rm_proxy.service.workers.limits import unfit_policies
from rm_proxy.service.workers.node_acks import NodeAcks
from rm_proxy.service.workers.reports import WorkerReportConnections, WorkerReports, whole_frame
from rm_proxy.service.workers.worker_links import Batch, Broadcast, Letter, Links
from rm_proxy.service.workers.yarn_readings import (
    APPS,
    INFO,
    NODES,
    QUEUES,
    READER,
    Reading,
    WorkerYarnRest,
    YarnReadings,
)
from rm_proxy.views.service_models import BypassInfo

TICK_S: Final = 1.0
LOST_S: Final = 20.0
"""Time without the link to a worker that lives, after which this one ends, to be started anew with all links."""
STARTS: Final = b"starts"
"""Signs of life."""
SERVES: Final = b"serves"
log = get_logger(__name__)
_seldom = Seldom()


@dataclass(frozen=True, slots=True)
class StartParts:
    """With what the proxy was started."""

    settings: ProxySettings
    policies: Policies
    conf: HadoopConf
    policies_source: str
    security: Security
    sections: Mapping[str, BaseModel] | None = None


class Worker:
    """The process of one number; made inside its event loop."""

    def __init__(self, spread: Spread, start: StartParts) -> None:
        self._spread, self._stop = spread, asyncio.Event()
        self._outbox = Outbox(spread)
        self._acks = NodeAcks(spread)
        self.links = Links(self._received, self._begin_link, self._fill, self._lose_link)
        self._readings = YarnReadings(spread.own, self._pass_reading_on)
        usage, line, placer = shared_parts(self._outbox)
        makers = Makers(
            coordinator=partial(Coordinator, placer=placer, usage=usage, central=line),
            reports=partial(WorkerReports, spread, self._outbox, self._acks, self.links),
            report_connections=partial(WorkerReportConnections, spread, self.links),
            journal=self._journal,
            key_reports=partial(KeyReports, pass_on=self._pass_keys_on),
            yarn=partial(WorkerYarnRest, self._readings),
            rest=ClosingCalls,
        )
        self.proxy = Proxy(
            start.settings, start.policies, start.conf, start.policies_source, start.security, start.sections, makers
        )
        self._outbox.changed = self.links.soon
        self._reports, self._connections = _own(self.proxy)
        central = self.proxy.coordinator.central
        assert isinstance(central, SharedLine)
        self._peers = Peers(self.proxy.coordinator, usage, central)
        self.proxy.reloader.unfit = unfit_policies
        self.proxy.order_bypass, self.proxy.reload = self._order_bypass, self._reload
        self.proxy.problems = lambda: [f"worker {number} is down, and is started anew" for number in self._lost_s]
        poller = self.proxy.poller
        self._read_jobs = {NODES: poller.nodes, APPS: poller.apps, QUEUES: poller.queues, INFO: poller.identity}
        self._parts = self.proxy.connection_parts()
        self._rest = asyncio.Queue[socket.socket]()
        self._tasks: set[asyncio.Task[None]] = set()
        self._serves = False
        self._lost_s: dict[int, float] = {}
        """Workers to which there is no link, and since when."""

    def _journal(self, path: Path, metrics: ProxyMetrics) -> AttemptJournal:
        return AttemptJournal(journal_of(path, self._spread), metrics)

    async def serve(self, supervisor: socket.socket, front: socket.socket, *, anew: bool) -> None:
        """Serve until SIGTERM, or until the supervisor is gone; anew: whether it replaces a worker that ended."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        on_hangup(loop, self.proxy.reloader.reload)
        self._spawn(self._tick(supervisor, front))
        await self.proxy.begin(self._rest_connections())
        if anew and self.proxy.reloader.source:
            with suppress(ReloadRefusedError):  # it is logged: those of the first start are in force
                await self.proxy.reloader.reload(process_user(), "start")
        loop.add_reader(supervisor, self._from_supervisor, supervisor)
        loop.add_reader(front, self._from_front, front)
        self._serves = True
        supervisor.send(SERVES)
        log.info("worker serves", worker=self._spread.own, attempts=self.proxy.recovery.restored)
        await self._stop.wait()
        for end in (supervisor, front):
            loop.remove_reader(end)
        self.links.close()
        for task in list(self._tasks):
            task.cancel()
        await self.proxy.close()

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tick(self, supervisor: socket.socket, front: socket.socket) -> None:
        """Give a sign of life each second, and look for what changed without a message."""
        while True:
            with suppress(BlockingIOError, ConnectionError):
                supervisor.send(SERVES if self._serves else STARTS)
            if self._serves:
                with suppress(BlockingIOError):
                    sockets.send(front, sockets.StateWanted())
                self._guard(self._look)
            await asyncio.sleep(TICK_S)

    def _look(self) -> None:
        coordinator, now_s = self.proxy.coordinator, time.time()
        outlook_of = partial(coordinator.durations.outlook.of_app, now_s=now_s)
        self._outbox.round(list(coordinator.attempts.living()), outlook_of)
        known = set(coordinator.nodes)
        self._reports.forget_other_nodes(known)
        self._acks.forget_other_nodes(known)
        if any(time.monotonic() - since_s > LOST_S for since_s in self._lost_s.values()):
            log.error("a worker has no link to another one: it ends, to begin anew", lost=sorted(self._lost_s))
            self._stop.set()

    def _guard(self, work: Callable[..., object], *arguments: Any) -> None:
        """Do a piece of work; a failure is logged, counts as a fault, and hinders nothing else."""
        try:
            work(*arguments)
        except Exception:
            log.exception("a fault of a worker", work=work.__name__)
            self.proxy.bypass.fault(FaultKind.INTERNAL, "")

    # The supervisor and the front

    def _from_supervisor(self, supervisor: socket.socket) -> None:
        try:
            for message, ends in sockets.receive(supervisor):
                if isinstance(message, sockets.PeerSocket):
                    self._lost_s.pop(message.worker, None)
                    self._spawn(self.links.attach(message.worker, ends[0]))
        except EOFError:
            asyncio.get_running_loop().remove_reader(supervisor)
            log.error("the supervisor is gone: this worker ends", worker=self._spread.own)
            self._stop.set()

    def _from_front(self, front: socket.socket) -> None:
        for message, ends in sockets.receive(front):
            if isinstance(message, sockets.RestSocket) and len(ends) == 1:
                self._rest.put_nowait(ends[0])
            elif isinstance(message, sockets.MasterLogin) and len(ends) == 2:
                self._spawn(adopt(ContinuedConnection(self._parts, message), *ends))
            elif isinstance(message, sockets.RmState) and message.is_open != self.proxy.upstream.let_in:
                self.proxy.upstream.changed(message.is_open)
            elif isinstance(message, sockets.RestSocket | sockets.MasterLogin):  # no descriptors are left
                _seldom.warning("a connection did not come whole from the front", sockets=len(ends))
                for end in ends:
                    end.close()

    async def _rest_connections(self) -> AsyncIterator[socket.socket]:
        while True:
            yield await self._rest.get()

    # Other workers

    def _begin_link(self, worker: int) -> Broadcast:
        """Return all that a worker has to know that was started, or is new to this one."""
        self._lost_s.pop(worker, None)
        own, of_node = self._spread.own, self._spread.of_node
        reports = [
            (node.id, int(FrameKind.REPORT), whole_frame(node.report), view_fields(node.bare))
            for node in self.proxy.coordinator.nodes.values()
            if node.report is not None and of_node(node.id) == own
        ]
        keys = self.proxy.coordinator.minter.ring.reports(time.time())
        keys = [each for each in keys if of_node(each[0]) in (own, worker)]
        return Broadcast(self._outbox.whole(), reports, readings=self._readings.whole(), keys=keys)

    def _lose_link(self, worker: int) -> None:
        log.warning("another worker is gone", worker=worker)
        if worker == READER:
            self._readings.forget()
        self._lost_s.setdefault(worker, time.monotonic())

    def _pass_reading_on(self, reading: Reading) -> None:
        self.links.broadcast(urgent=False).readings.append(reading)

    def _pass_keys_on(self, report: KeyReport) -> None:
        self.links.broadcast(urgent=False).keys.append(report)

    def _fill(self, broadcast: Broadcast) -> None:
        broadcast.news = self._outbox.take(self.proxy.coordinator.nodes)

    def _received(self, worker: int, batch: Batch) -> None:
        if isinstance(batch, Letter):
            self._guard(self._letter, worker, batch)
            return
        if batch.news.whole:
            self._acks.forget(worker)
            self._reports.begin_anew(worker)
        for frame in batch.reports:
            self._guard(self._reports.handle_elsewhere, *frame)
        for node_id in batch.cut:  # after a report of the same batch, which may be older
            self.proxy.coordinator.reports.disconnected(node_id, time.time())
        self._guard(self._peers.take, worker, batch.news)
        for keys in batch.keys:
            self.proxy.coordinator.minter.ring.report(*keys)
        for reading in batch.readings:
            if self._readings.received(reading):
                self._spawn(self._read_jobs[reading.name]())
        for order in batch.orders:
            self._guard(self._obey, *order)

    def _letter(self, worker: int, letter: Letter) -> None:
        """Handle what another worker wants of nodes that report here."""
        proxy = self.proxy
        reports, nodes = proxy.coordinator.reports, proxy.coordinator.nodes
        for node_id, (boot, events_to) in letter.acks.items():
            self._acks.settled(worker, node_id, boot, events_to)
        for node_id, grants in letter.grants:
            proxy.announcer.send(node_id, Grants.model_validate_json(grants))
        for node_id, orders in letter.orders:
            reports.order_elsewhere(node_id, Ack.model_validate_json(orders))
            self._connections.notify(node_id, partial(reports.orders, node_id))
        for node_id in letter.again:
            node = nodes.get(node_id)
            if node is not None and node.report is not None:
                self._reports.pass_on(node_id, FrameKind.REPORT, whole_frame(node.report))

    # An admin's orders, for all workers

    def _order_bypass(self, order: Order, author: str) -> BypassInfo:
        self.links.broadcast().orders.append(("bypass", order))
        return self.proxy.bypass.order(order, author)

    async def _reload(self, author: str, how: How, request: ReloadRequest | None = None) -> ReloadAnswer:
        answer = await self.proxy.reloader.reload(author, how, request)
        self.links.broadcast().orders.append(("reload", author, how, request.file if request is not None else ""))
        return answer

    def _obey(self, name: str, *arguments: Any) -> None:
        if name == "bypass":
            self.proxy.coordinator.modes.bypass(arguments[0], time.time())
            self.proxy.bypass.round()
        else:
            self._spawn(self._reload_as_ordered(*arguments))

    async def _reload_as_ordered(self, author: str, how: How, file: str) -> None:
        with suppress(ReloadRefusedError):  # it is logged and recorded
            await self.proxy.reloader.reload(author, how, ReloadRequest(file=file))


def _own(proxy: Proxy) -> tuple[WorkerReports, WorkerReportConnections]:
    """Return the parts of a proxy that are a worker's."""
    reports, connections = proxy.reports, proxy.report_connections
    assert isinstance(reports, WorkerReports) and isinstance(connections, WorkerReportConnections)
    connections.pass_on = reports.pass_on
    return reports, connections
