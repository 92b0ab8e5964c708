"""The sidecar as a process: its parts, sockets, timers, REST, reports, and an orderly end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import BaseModel

from policies.config.guarded_call import measure_calls
from policies.config.policy_set import Policies
from quicksilver.common.http.access import Side, protect
from quicksilver.common.http.async_client import AsyncRestClient
from quicksilver.common.http.rest_server import serve
from quicksilver.common.http.security import OPEN, Security
from quicksilver.common.http.servlets.conf import ShownProperty, policy_rows, section_rows
from quicksilver.common.http.servlets.routes import ServletParts, add_servlets
from quicksilver.common.http.tokens import Role
from quicksilver.common.kerberos.login import Negotiate
from quicksilver.common.messages import ContainerEvent, ReloadAnswer, ReloadRequest
from quicksilver.common.process import fdstore, watchdog
from quicksilver.common.process.limits import raise_open_files
from quicksilver.common.process.logs import get_logger
from quicksilver.common.settings.reload import Audit, How, Reloader, on_hangup
from quicksilver.common.settings.reload_api import add_reload
from sidecar.config import Place, SidecarSettings
from sidecar.connections.acceptor import Acceptor
from sidecar.connections.connection import connector
from sidecar.connections.event_queue import EventQueue
from sidecar.connections.gate_runner import GateRunner
from sidecar.connections.nftables import Redirect
from sidecar.connections.tcp_relay import TcpRelay
from sidecar.memory.memory_guard import MemoryGuard
from sidecar.memory.pressure import Gauge
from sidecar.metrics import SidecarMetrics
from sidecar.node.events import Drain, Physical, Retuned
from sidecar.node.node import SidecarNode
from sidecar.node.node_policies import NodePolicies
from sidecar.node.node_room import overcommits
from sidecar.node.recovery import Restored
from sidecar.node.sharing import Sharing
from sidecar.resizer.base import Leader
from sidecar.resizer.probe import Chosen
from sidecar.resizer.processes import cpu_s
from sidecar.service.api import SidecarHealth, make_api
from sidecar.service.dispatcher import Dispatcher
from sidecar.service.guarded_policies import GuardedPolicies
from sidecar.service.guardian_client import Guardian
from sidecar.service.journal_file import default_state_dir
from sidecar.service.monitor import Monitor
from sidecar.service.nm.nm_poller import NodeManagerPoller
from sidecar.service.nm.nm_rest import NodeManagerRest
from sidecar.service.node_journal import Identity, NodeJournal
from sidecar.service.processes.process_watch import ProcessWatcher
from sidecar.service.proxy_answers import handle_ack, handle_grants
from sidecar.service.reload import takeable
from sidecar.service.report_line import report_line
from sidecar.service.reporter import Reporter
from sidecar.service.resizing.resize_executor import ResizeExecutor
from sidecar.service.sockets import bind_sockets
from sidecar.service.status import NO_JOURNAL, Limitations, Status

log = get_logger(__name__)
NOT_SHARED: Final = Chosen(None)
"""Stands in where nothing is ever resized."""
MAX_ANSWER: Final = 64 << 20
"""Maximum bytes of an answer of the NodeManager."""
_GUARDIAN_S: Final = 3.0
_STOP_S: Final = 1.5
_TICK_S: Final = 1.0
STOPPING: Final = "sidecar stopping"
_ATTAINED_S: Final = 5
"""Seconds between two records of the CPU time that containers have attained."""


class Sidecar:
    """One sidecar. `run()` ends on SIGTERM or SIGINT, or when `stop()` is called."""

    def __init__(
        self,
        settings: SidecarSettings,
        place: Place,
        policies: Policies,
        nm_web_url: str,
        choice: Chosen = NOT_SHARED,
        source: Path | None = None,
        security: Security = OPEN,
        sections: Mapping[str, BaseModel] | None = None,
    ) -> None:
        """Prepare. `choice` holds the resizer, where the preempt policy is one that shrinks containers.

        source: the file that the settings were read from; sections: further sections of it, for /conf.
        """
        self._sections = {"sidecar": settings, "security": security.settings, **(sections or {})}
        self.settings, self.place, self.security = settings, place, security
        self.metrics = SidecarMetrics()
        self.policies = GuardedPolicies(policies, self.metrics)
        self.identity = Identity(place.node_id)
        self.queue = EventQueue()
        self.node = self._make_node(choice)
        self._reloader = Reloader(source, ("sidecar", settings), policies, self._use, self._audit, security)
        self._guardian = Guardian(place.group(settings.cgroup))
        self._redirect = _redirect(settings, place)
        self._handing_over = False
        """Whether another process takes over at once."""
        self._stop = asyncio.Event()
        self.nm_rest = NodeManagerRest(nm_web_url, self._nm_client(), self.metrics, self._rename_node)
        self.dispatcher, self.status = self._assemble(choice)
        self.nm_poller = NodeManagerPoller(self.dispatcher, self.nm_rest, place.upstream)
        gauge = Gauge()
        guard = MemoryGuard(settings.guard_rules(gauge.read().total_mb))
        self.monitor = Monitor(self.dispatcher, guard, gauge, self._guardian, self.policies.protects)

    def _make_node(self, choice: Chosen) -> SidecarNode:
        settings, policies, capacity = self.settings, self.policies, self.place.capacity
        shrinking = policies.current.node.shrinking() if choice.resizer is not None else None
        if shrinking is not None:
            capacity = settings.cores(capacity)
        extra = shrinking.extra if shrinking else None
        nm_vcores, nm_memory_mb = self.place.nm_vcores or None, self.place.nm_memory_mb or None
        rules = settings.rules(capacity, extra, nm_vcores, nm_memory_mb, overcommits(shrinking))
        sharing = Sharing(shrinking, rules)
        if choice.resizer is not None and sharing.las is not None:
            sharing.whole = choice.resizer.pauses_only
        return SidecarNode(
            rules,
            NodePolicies(
                policies.order_key,
                policies.victims,
                policies.bypass_limit_s,
                policies.order_steady,
                policies.grace_s,
                policies.notice_s,
                policies.waits_by_size,
                policies.fills,
                policies.fill,
            ),
            sharing,
        )

    def _nm_client(self) -> AsyncRestClient:
        keytab = self.settings.keytab()
        return AsyncRestClient(
            timeout_s=self.settings.rest_timeout_s,
            remedy="is the NodeManager up?",
            login=Negotiate(keytab, self.place.web_host) if keytab else None,
            max_answer=MAX_ANSWER,
        )

    def _assemble(self, choice: Chosen) -> tuple[Dispatcher, Status]:
        settings, place, metrics, queue = self.settings, self.place, self.metrics, self.queue
        resizing = None
        if choice.resizer is not None and self.node.state.sharing.las is not None:
            resizing = ResizeExecutor(choice.resizer, self._guardian, metrics, queue.put, self._oom_score)

        def process_found(container_id: str, pid: int, began_s: float) -> None:
            if resizing is not None:
                resizing.attach(container_id, Leader(pid, began_s))

        watcher = ProcessWatcher(place.local_dirs, settings.watch_poll_s, self._process_ended, process_found)
        self.policies.cpu_times = lambda container_ids: cpu_s(watcher.leaders(container_ids))
        gates = GateRunner(self.node, settings, metrics, queue, connector(place.upstream))
        unacknowledged: deque[ContainerEvent] = deque()
        folder = settings.state_dir or default_state_dir()
        journal = None
        if folder is not None:
            name = str(place.known_as)
            journal = NodeJournal(place.journal(folder), name, self.node, self.identity, unacknowledged)
        self.limitations = Limitations(gates, self.policies, choice, watcher, journal, self.nm_rest)
        shadow = self.policies.shadow
        status = Status(gates, place, self.identity, self.limitations, lambda: self._reloader.version, shadow)
        credentials = self.security.credentials(Role.NODE)
        lines = [report_line(url, settings.report_timeout_s, credentials) for url in place.proxies]
        for line in lines:
            line.on_grants = partial(handle_grants, queue=queue)
        reporter = Reporter(
            lines,
            settings,
            metrics,
            status.report,
            lambda ack: handle_ack(ack, self.node, queue),
            journal.write_acknowledged if journal is not None else lambda seq: None,
            unacknowledged,
        )
        return Dispatcher(gates, watcher, reporter, resizing, journal, lambda: self.identity.node_id), status

    def stop(self) -> None:
        """End `run()` in an orderly way."""
        self._stop.set()

    def hand_over(self) -> None:
        """End `run()` in an orderly way, for another process to take over at once: starts still arrive here."""
        self._handing_over = True
        self.stop()

    async def run(self) -> None:
        """Bind all addresses, then serve until stopped. Raises QuicksilverError when an address cannot be bound."""
        self.security.allow(self.place.rest, "sidecar.rest_listen")
        sockets = bind_sockets(self.place)
        settings, gates = self.settings, self.dispatcher.gates
        descriptors = 2 * (settings.max_connections + settings.web_connections) + settings.rest_connections
        raise_open_files(descriptors, "sidecar.max_connections, sidecar.web_connections, sidecar.rest_connections")
        if self.dispatcher.resizing is not None:
            self._guardian.start()
        self._handle_signals()
        measure_calls(time.monotonic)
        self._reloader.begin(time.time())
        self._recover()
        gates.take_over_handshakes()
        acceptor = Acceptor(gates, self.place.upstream)
        acceptor.take_over()
        accepting = asyncio.create_task(acceptor.serve(sockets[0]), name="gate")
        tasks = [asyncio.create_task(job, name=name) for name, job in self._jobs(sockets[1], sockets[2:])]
        self._log_start()
        try:
            if self._redirect is not None:
                await asyncio.to_thread(self._redirect.install)
            fdstore.ready()
            await self._until_stopped([accepting, *tasks])
        finally:
            accepting.cancel()
            await asyncio.wait([accepting])
            await self._end(tasks)

    async def reload(self, author: str, how: How, request: ReloadRequest | None = None) -> ReloadAnswer:
        """Read the settings again. Raises ReloadRefusedError."""
        return await self._reloader.reload(author, how, request.file if request is not None else "")

    def health(self) -> SidecarHealth:
        """Return the health of the sidecar."""
        return self.status.health(self.nm_rest.answers, self.dispatcher.reporter.reachable)

    # Settings

    def properties(self) -> list[ShownProperty]:
        """Return the settings in force, for /conf."""
        file, place, policies = str(self._reloader.source or ""), self.place, self.policies.current
        derived = {
            "listen": place.listen,
            "upstream": place.upstream,
            "web_listen": place.web_listen,
            "web_upstream": place.web_upstream,
            "node_id": self.identity.node_id,
            "rest_listen": place.rest,
            "rest_url": place.rest_url,
            "proxy_url": place.proxy_url,
            "memory_mb": place.capacity.memory_mb,
            "vcores": place.capacity.vcores,
        }
        rows = [row for name, section in self._sections.items() for row in section_rows(name, section, file, derived)]
        return rows + list(policy_rows(policies.describe(), policies.section.model_fields_set, file))

    def _use(self, policies: Policies, now_s: float) -> tuple[Policies, list[str]]:
        self.policies.current, refusals = takeable(policies, self.policies.current, self.node.state.sharing)
        shrinking = self.policies.current.node.shrinking()
        if shrinking is not None:
            self.queue.put(Retuned(shrinking, now_s))
        self.metrics.settings.info({"version": self.policies.current.version})
        return self.policies.current, refusals

    def _audit(self, audit: Audit) -> None:
        self.metrics.reloads.labels(audit.how, "refused" if audit.error else "ok").inc()

    def _rename_node(self, node_id: str) -> None:
        if not self.settings.node_id and node_id != self.identity.node_id:
            log.info("the NodeManager names this node", node=node_id, before=self.identity.node_id)
            self.identity.node_id = node_id

    # Processes of containers

    def _process_ended(self, container_id: str) -> None:
        self.metrics.ends.labels("process").inc()
        self.dispatcher.commands.process_ended(container_id)

    def _oom_score(self, container_id: str) -> int:
        entry = self.node.state.containers.get(container_id)
        return self.settings.oom_score_queueable if entry is not None and entry.yields else 0

    # Parts of run()

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGUSR2, self.hand_over)
        on_hangup(loop, self.reload)

    def _recover(self) -> None:
        """Recover from the journal of the previous process, and begin one for the next."""
        journal = self.dispatcher.journal
        if journal is None:
            log.warning(NO_JOURNAL)
            return
        memory = journal.recall()
        if memory is not None:
            for event in memory.events.values():
                self.dispatcher.reporter.add(event)
            log.info("state recovered from the journal", containers=len(memory.entries), events=len(memory.events))
            self.metrics.taken_over.set(len(memory.entries))
            self.queue.put(Restored(memory, time.time()))
        journal.renew()

    def _serve_rest(self, sock: socket.socket) -> Coroutine[Any, Any, None]:
        security, settings = self.security, self.settings
        api = make_api(self.dispatcher, self.status.report)
        add_servlets(api, self._servlets())
        add_reload(api, "/v1/policies/reload", self.reload)
        self.metrics.certificate_ends_s.set_function(lambda: security.certificate_ends_s)
        own = security.settings
        named = own.proxy_names or [urlsplit(url).hostname or "" for url in self.place.proxies]
        side = Side(False, own.tls, frozenset(name.lower() for name in named), own.metrics_open)
        place, count = self.place, self.metrics.auth_failures
        hosts = (place.rest.host, place.known_as.host, urlsplit(place.rest_url).hostname or "")
        protect(api, security, side, lambda reason: count.labels(reason).inc(), hosts=hosts)
        return serve(api, sock, max_connections=settings.rest_connections, tls=security.server)

    def _servlets(self) -> ServletParts:
        return ServletParts(
            service="QuicksilverSidecar",
            registry=self.metrics.registry,
            set_gauges=self.dispatcher.set_gauges,
            properties=self.properties,
            health=self.health,
            not_ready=lambda: self.status.not_ready(self.nm_rest.answers, self.dispatcher.reporter.reachable),
        )

    def _jobs(self, rest: socket.socket, web: Sequence[socket.socket]) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        """Return the permanent tasks; web: the socket at which the NodeManager's web pages are relayed, if they are."""
        upstream, settings = self.place.web_upstream, self.settings
        relays = [TcpRelay(upstream, settings.web_connections, settings.connect_timeout_s).serve(sock) for sock in web]
        return [
            *(("web", relay) for relay in relays),
            *([("redirect", self._redirect.keep())] if self._redirect is not None else []),
            ("rest", self._serve_rest(rest)),
            ("reports", self.dispatcher.reporter.run()),
            ("nodemanager", self.nm_poller.run()),
            ("liveness", self.nm_poller.watch_liveness()),
            ("clock", self._clock()),
            ("measure", self.monitor.measure()),
            ("pings", self._pings()),
        ]

    async def _until_stopped(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        stopped = asyncio.create_task(self._stop.wait())
        done, _ = await asyncio.wait((*tasks, stopped), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        for task in done:
            if task is not stopped:
                await task  # raises what ended it; none of them ends by itself

    async def _end(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Shed held starts, give all limits back, send a last report, close everything; within seconds."""
        dispatcher = self.dispatcher
        log.info(STOPPING, node=self.identity.node_id, held=len(self.node.state.queue))
        dispatcher.gates.stopping = True
        if self._redirect is not None and not self._handing_over:
            await asyncio.to_thread(self._redirect.remove)
        self.queue.put(Drain(True, STOPPING, time.time(), "stop"))
        for task in tasks:
            if task.get_name() != "rest":
                task.cancel()
        try:
            async with asyncio.timeout(_STOP_S):
                await dispatcher.reporter.send()
        except TimeoutError:
            log.warning("the last report was not sent: the proxy did not answer in time")
        self.monitor.lift_fence()
        if dispatcher.resizing is not None:
            await dispatcher.resizing.close()
        await dispatcher.close()
        await self._guardian.close(_GUARDIAN_S)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=0.4)
        dispatcher.watcher.close()
        await dispatcher.reporter.close()
        if dispatcher.journal is not None:
            dispatcher.journal.close()
        await self.nm_rest.close()

    def _log_start(self) -> None:
        place = self.place
        log.info(
            "sidecar up",
            node=self.identity.node_id,
            listen=str(place.listen),
            nodemanager=str(place.upstream),
            rest=place.rest_url,
            proxy=", ".join(place.proxies),
            memory_mb=place.capacity.memory_mb,
            vcores=place.capacity.vcores,
        )
        if os.geteuid() != 0:
            log.info("not root: pid files can be read only as the NodeManager's own user")

    # Timers

    async def _clock(self) -> None:
        for second in count():
            watchdog.alive()
            self._reloader.tick(time.time())
            if second % _ATTAINED_S == 0 and self.dispatcher.journal is not None:
                self.dispatcher.journal.write_attained()
            self.queue.put(Physical(self.monitor.check_memory(), time.time()))
            await asyncio.sleep(_TICK_S)

    async def _pings(self) -> None:
        while True:
            await asyncio.sleep(self.settings.ping_s)
            self.dispatcher.gates.ping()


def _redirect(settings: SidecarSettings, place: Place) -> Redirect | None:
    """Return the rule by which starts come here, None without one.

    Without `upstream` the NodeManager listens on all interfaces (SidecarSettings.place).
    """
    if settings.intercept != "nftables":
        return None
    return Redirect(place.known_as, place.listen.port, place.upstream.host, everywhere=settings.upstream is None)
