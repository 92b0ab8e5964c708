"""The sidecar as a process: sockets, timers, REST, reports, and an orderly end."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import ValidationError

from policies.config.policy_set import Policies
from policies.errors import PolicyFaultError
from policies.model import ContainerView, Resources
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.access import Side, protect
from quicksilver.common.http.rest import RestClient, bound_socket, serve
from quicksilver.common.http.security import OPEN, Security
from quicksilver.common.http.tokens import Role
from quicksilver.common.messages import ContainerEvent, ReloadAnswer, ReloadRequest, Report
from quicksilver.common.process import fdstore
from quicksilver.common.process.limits import raise_open_files
from quicksilver.common.process.logs import get_logger
from quicksilver.common.process.version import version
from quicksilver.common.settings.reload import Audit, How, Reloader, on_hangup
from quicksilver.common.settings.reload_api import add_reload
from sidecar.config import Place, SidecarSettings
from sidecar.connections.acceptor import Entrance
from sidecar.connections.nftables import Redirect
from sidecar.connections.nm_liveness import Lookout
from sidecar.connections.tcp_relay import TcpRelay
from sidecar.memory.memory_guard import MemoryGuard
from sidecar.memory.pressure import Gauge
from sidecar.metrics import SidecarMetrics
from sidecar.node.events import Drain, Ended, NodeManagerState, Physical, Retuned
from sidecar.node.journal_records import all_lines
from sidecar.node.nm_reconcile import NmList, compare, read_list
from sidecar.node.node import Node
from sidecar.node.recovery import Restored
from sidecar.node.report_view import fill_report
from sidecar.node.sharing import Sharing
from sidecar.resizer.probe import Chosen
from sidecar.service.api import Health, make_api
from sidecar.service.dispatcher import Runtime
from sidecar.service.guardian_client import Guardian
from sidecar.service.journal_file import Journal, default_state_dir
from sidecar.service.monitor import Minder
from sidecar.service.process_watch import Watcher
from sidecar.service.reload import takeable
from sidecar.service.reporter import Reporter, RestLine
from sidecar.service.resize_executor import Resizing

log = get_logger(__name__)
NOT_SHARED: Final = Chosen(None)
"""Nothing is ever resized."""
_GUARDIAN_S: Final = 3.0
_STOP_S: Final = 1.5
_TICK_S: Final = 1.0
_SILENT: Final = 3
"""So many calls of the NodeManager's REST in a row that failed, after one that did not: it stands still."""
STOPPING: Final = "sidecar stopping"
SOCKETS: Final = ("sidecar-nodemanager", "sidecar-rest", "sidecar-web")
"""The names under which its sockets are kept while it restarts."""
_ENCRYPTED_S: Final = 600.0
"""For so long after an encrypted connection this is said."""
_ENCRYPTED: Final = (
    "signed or encrypted connections of application masters pass unread, so that none of their containers is queued: "
    "let this port speak hadoop.rpc.protection=authentication (docs/security.md)"
)
_STORIES_S: Final = 5


class Sidecar:
    """One sidecar. `run()` ends on SIGTERM or SIGINT, or when `stop()` is called."""

    def __init__(
        self,
        settings: SidecarSettings,
        place: Place,
        policies: Policies,
        nm_web_url: str,
        chosen: Chosen = NOT_SHARED,
        source: Path | None = None,
        security: Security = OPEN,
    ) -> None:
        """Prepare. `chosen` is what resizes containers, where the preempt policy is one that shrinks them.

        source: the file that the settings were read from.
        """
        self.settings, self.place, self.policies, self.security = settings, place, policies, security
        self.node_id = place.node_id
        self.boot = secrets.token_hex(8)
        self.metrics = SidecarMetrics()
        shrinking = policies.shrinking() if chosen.resizer is not None else None
        capacity = place.capacity if shrinking is None else settings.cores(place.capacity)
        rules = settings.rules(capacity, shrinking.extra if shrinking else None, place.nm_vcores or None)
        sharing = Sharing(shrinking, rules)
        self.node = Node(
            rules, self._order_key, self._victims, sharing, self._bypass_limit, self._order_steady, self._grace
        )
        self._chosen = chosen
        self._settings = Reloader(source, ("sidecar", settings), policies, self._use, self._audit, security)
        self._guardian = Guardian(place.group(settings.cgroup))
        self.runtime = Runtime(self.node, settings, self.metrics, place.upstream)
        self.nm_answers: bool | None = None
        self._lookout = Lookout(place.upstream, settings.connect_timeout_s, lambda _: self._nm_changed.set())
        self._nm_changed = asyncio.Event()
        self._silent = 0
        self._nm_began_s = 0.0
        self._report_seq = 0
        self._limit_nm = self._limit_journal = ""
        self._redirect = Redirect(place.known_as, place.listen.port) if settings.intercept == "nftables" else None
        self._handing_over = False
        """Whether another process takes over at once."""
        self._journal: Journal | None = None
        keytab = settings.keytab()
        self._nm_web = RestClient(
            nm_web_url,
            timeout_s=settings.rest_timeout_s,
            remedy="is the NodeManager up?",
            auth=keytab.auth(place.web_host) if keytab else None,
        )
        self._nm_thread = ThreadPoolExecutor(1, thread_name_prefix="nodemanager")
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """End `run()` in an orderly way."""
        self._stop.set()

    def hand_over(self) -> None:
        """End `run()` in an orderly way, for another process to take over at once: starts go on coming here."""
        self._handing_over = True
        self.stop()

    async def run(self) -> None:
        """Bind all addresses, then serve until stopped. Raises QuicksilverError when an address cannot be bound."""
        sockets = self._bind()
        runtime, settings, security = self.runtime, self.settings, self.security
        wanted = 2 * (settings.max_connections + settings.web_connections) + settings.rest_connections
        raise_open_files(wanted, "sidecar.max_connections, sidecar.web_connections, sidecar.rest_connections")
        runtime.watcher = Watcher(self.place.local_dirs, settings.watch_poll_s, runtime.ended, runtime.found)
        if self._chosen.resizer is not None and self.node.sharing.las is not None:
            self._guardian.start()
            runtime.resizing = Resizing(
                self._chosen.resizer, self._guardian, self.metrics, runtime.tell, self._oom_score
            )
            self.node.sharing.whole = self._chosen.resizer.pauses_only
        gauge = Gauge()
        guard = MemoryGuard(settings.guard_rules(gauge.read().total_mb))
        self.minder = Minder(runtime, runtime.resizing, guard, gauge, self._guardian)
        credentials = security.credentials(Role.NODE)
        lines = [RestLine(url, settings.report_timeout_s, credentials) for url in self.place.proxies]
        self.runtime.reporter = Reporter(lines, settings, self.metrics, self.report, runtime.told, runtime.acknowledged)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGUSR2, self.hand_over)
        on_hangup(loop, self.reload)
        self._settings.begin(time.time())
        self._recall()
        runtime.take_over_handshakes()
        entrance = Entrance(runtime)
        entrance.take_over()
        gate = asyncio.create_task(entrance.serve(sockets[0]), name="gate")
        api = make_api(self.runtime, self.metrics, self.report, self.health)
        add_reload(api, "/v1/policies/reload", self.reload)
        self.metrics.certificate_ends_s.set_function(lambda: security.certificate_ends_s)
        protect(api, security, self._side(), lambda reason: self.metrics.auth_failures.labels(reason).inc())
        tasks = [
            asyncio.create_task(job, name=name)
            for name, job in self._jobs(
                serve(api, sockets[1], max_connections=settings.rest_connections, tls=security.server), sockets[2:]
            )
        ]
        self._say_hello()
        try:
            if self._redirect is not None:
                await asyncio.to_thread(self._redirect.install)
            fdstore.ready()
            await self._until_stopped([gate, *tasks])
        finally:
            gate.cancel()
            await asyncio.wait([gate])
            await self._end(tasks)

    def _side(self) -> Side:
        own = self.security.settings
        named = own.proxy_names or [urlsplit(url).hostname or "" for url in self.place.proxies]
        return Side(False, own.tls, frozenset(name.lower() for name in named), own.metrics_open)

    def report(self, events: Sequence[ContainerEvent] = ()) -> Report:
        """Return the node's state for the proxy, with these events."""
        self._report_seq += 1
        report = Report(
            node_id=self.node_id,
            boot=self.boot,
            seq=self._report_seq,
            sidecar_url=self.place.rest_url,
            memory_mb=self.place.capacity.memory_mb,
            vcores=self.place.capacity.vcores,
            events=list(events),
            limits=self.limits(),
            settings_version=self._settings.version,
        )
        return fill_report(report, self.node, time.time())

    async def reload(self, who: str, how: How, request: ReloadRequest | None = None) -> ReloadAnswer:
        """Read the settings anew. Raises ReloadRefusedError."""
        return await self._settings.reload(who, how, request.file if request is not None else "")

    def _use(self, wanted: Policies, now_s: float) -> tuple[Policies, list[str]]:
        self.policies, kept = takeable(wanted, self.policies, self.node.sharing)
        shrinking = self.policies.shrinking()
        if shrinking is not None:
            self.runtime.tell(Retuned(shrinking, now_s))
        self.metrics.settings.info({"version": self.policies.version})
        return self.policies, kept

    def _audit(self, audit: Audit) -> None:
        self.metrics.reloads.labels(audit.how, "refused" if audit.error else "ok").inc()

    def limits(self) -> list[str]:
        """Return what this sidecar cannot do here, and why."""
        blind = self.runtime.watcher.blind
        limits = [f"ends are noticed each second only: {blind}"] if blind else []
        limits += self._chosen.limits
        if self.policies.shrinking() is not None and self._chosen.resizer is None:
            limits.append("nothing can be shrunk here: containers beyond the node's vcores wait")
        if time.time() - self.runtime.encrypted_s < _ENCRYPTED_S:
            limits.append(_ENCRYPTED)
        if self._journal is not None and self._journal.why:
            limits.append(f"a restart forgets what it held: {self._journal.why}")
        return limits + [
            limit for limit in dict.fromkeys((self.node.nm_down, self._limit_nm, self._limit_journal)) if limit
        ]

    def health(self) -> Health:
        """Return whether all is well."""
        proxy = self.runtime.reporter.reachable
        nodemanager = False if self.node.nm_down else self.nm_answers
        fine = nodemanager is not False and proxy is not False
        return Health(
            status="ok" if fine else "degraded",
            version=version(),
            node_id=self.node_id,
            nodemanager=nodemanager,
            proxy=proxy,
            settings_version=self._settings.version,
            limits=self.limits(),
        )

    # Parts of run()

    def _recall(self) -> None:
        """Take over what the life before left, and keep a journal for the next one."""
        folder = self.settings.state_dir or default_state_dir()
        if folder is None:
            self._limit_journal = "a restart forgets what it held: there is no place for a journal (sidecar.state_dir)"
            log.warning(self._limit_journal)
            return
        reporter, runtime = self.runtime.reporter, self.runtime
        runtime.journal = self._journal = Journal(
            self.place.journal(folder),
            lambda: all_lines(self.node, str(self.place.known_as), self.boot, reporter.waiting()),
        )
        memory = self._journal.recall(str(self.place.known_as))
        if memory is not None:
            self.boot = memory.boot
            for event in memory.events.values():
                reporter.add(event)
            log.info("taken over from before", containers=len(memory.entries), events=len(memory.events))
            self.metrics.taken_over.set(len(memory.entries))
            runtime.tell(Restored(memory, time.time()))
        self._journal.renew()

    def _bind(self) -> list[socket.socket]:
        self.security.allow(self.place.rest, "sidecar.rest_listen")
        bound: list[socket.socket] = []
        try:
            for name, address in zip(SOCKETS, (self.place.listen, self.place.rest, self.place.web_listen), strict=True):
                if address is not None:
                    bound.append(bound_socket(*address, name=name))
        except QuicksilverError:
            for sock in bound:
                sock.close()
            raise
        return bound

    def _jobs(
        self, rest: Coroutine[Any, Any, None], web: Sequence[socket.socket]
    ) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        """Return what runs all the time; web: where the NodeManager's web pages are relayed, if they are."""
        upstream, settings = self.place.web_upstream, self.settings
        relays = [TcpRelay(upstream, settings.web_connections, settings.connect_timeout_s).serve(sock) for sock in web]
        return [
            *(("web", relay) for relay in relays),
            *([("redirect", self._redirect.keep())] if self._redirect is not None else []),
            ("rest", rest),
            ("reports", self.runtime.reporter.run()),
            ("nodemanager", self._follow_nodemanager()),
            ("lookout", self._lookout.run()),
            ("clock", self._clock()),
            ("measure", self.minder.measure()),
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
        """Shed what is held, give all limits back, tell the proxy once, close everything; within seconds."""
        log.info(STOPPING, node=self.node_id, held=len(self.node.queue))
        self.runtime.stopping = True
        if self._redirect is not None and not self._handing_over:
            await asyncio.to_thread(self._redirect.remove)
        self.runtime.tell(Drain(True, STOPPING, time.time(), "stop"))
        for task in tasks:
            if task.get_name() != "rest":
                task.cancel()
        try:
            async with asyncio.timeout(_STOP_S):
                await self.runtime.reporter.send()
        except TimeoutError:
            log.warning("the proxy was not told of the end: it did not answer in time")
        self.minder.lift_fence()
        if self.runtime.resizing is not None:
            await self.runtime.resizing.close()
        await self.runtime.close()
        await self._guardian.close(_GUARDIAN_S)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=0.4)
        self.runtime.watcher.close()
        self.runtime.reporter.close()
        if self._journal is not None:
            self._journal.close()
        self._nm_thread.shutdown(wait=False, cancel_futures=True)

    def _say_hello(self) -> None:
        place = self.place
        log.info(
            "sidecar up",
            node=self.node_id,
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
            self._settings.tick(time.time())
            if second % _STORIES_S == 0:
                self.runtime.keep_stories()
            self.runtime.tell(Physical(self.minder.look(), time.time()))
            await asyncio.sleep(_TICK_S)

    async def _pings(self) -> None:
        while True:
            await asyncio.sleep(self.settings.ping_s)
            self.runtime.ping()

    async def _follow_nodemanager(self) -> None:
        """Compare the NodeManager's list: at the start, then regularly; each second while a process is not watched."""
        while True:
            self._nm_changed.clear()
            self._judge()
            listed = await self._ask_nodemanager()
            self._judge()
            if listed is not None:
                events = compare(listed, self.node.entries, self.runtime.gone, self.runtime.watcher.seen(), time.time())
                for event in events:
                    if isinstance(event, Ended):
                        self.metrics.ends.labels("nodemanager").inc()
                    self.runtime.tell(event)
            begun = time.monotonic()
            while time.monotonic() - begun < self.settings.reconcile_s and not self._nm_changed.is_set():
                await self._tick_or_change()
                if self.runtime.watcher.unseen() or listed is None:
                    break

    async def _tick_or_change(self) -> None:
        try:
            async with asyncio.timeout(_TICK_S):
                await self._nm_changed.wait()
        except TimeoutError:
            return  # a tick went by

    def _judge(self) -> None:
        """Tell the machine, and the proxy at once, whether the NodeManager takes starts."""
        why = self._lookout.why or (self._limit_nm if self._silent >= _SILENT else "")
        if why == self.node.nm_down:
            return
        changed = bool(why) != bool(self.node.nm_down)
        self.runtime.tell(NodeManagerState(why, time.time()))
        if changed:
            self.runtime.reporter.changed()

    async def _ask_nodemanager(self) -> NmList | None:
        loop = asyncio.get_running_loop()
        asked_s = time.time()
        try:
            if self.nm_answers is not True:
                info = await loop.run_in_executor(self._nm_thread, self._nm_web.get, "/ws/v1/node/info")
                self._learn(info)
            answer = await loop.run_in_executor(self._nm_thread, self._nm_web.get, "/ws/v1/node/containers")
            blind = bool(self.runtime.watcher.blind)  # what runs cannot be told from what does not
            listed = read_list(answer, asked_s, 0.0 if blind else self._nm_began_s)
        except (QuicksilverError, ValidationError, ValueError) as error:
            self.metrics.nm_errors.inc()
            if self.nm_answers is not False:
                log.warning("the NodeManager's list of containers cannot be read", why=str(error))
            if self.nm_answers or self._silent:
                self._silent += 1  # it answered once: this is no REST that lets nobody in
            self.nm_answers = False
            self._limit_nm = f"the NodeManager's REST does not answer: {error}"
            return None
        self.nm_answers, self._limit_nm, self._silent = True, "", 0
        return listed

    def _learn(self, info: Any) -> None:
        """Take in what the NodeManager says of itself: the node's name, and since when it is there."""
        inner = info.get("nodeInfo") if isinstance(info, dict) else None
        told = inner if isinstance(inner, dict) else {}
        node_id, began_ms = told.get("id"), told.get("nmStartupTime")
        self._nm_began_s = began_ms / 1000 if isinstance(began_ms, int) else 0.0
        if isinstance(node_id, str) and node_id and not self.settings.node_id and node_id != self.node_id:
            log.info("the NodeManager names this node", node=node_id, before=self.node_id)
            self.node_id = node_id

    # What the machine and the proxy ask

    def _oom_score(self, container_id: str) -> int:
        entry = self.node.entries.get(container_id)
        return self.settings.oom_score_queueable if entry is not None and entry.yields else 0

    def _order_key(self, waiting: ContainerView, now_s: float) -> tuple[float, ...]:
        try:
            return self.policies.order_key(waiting, now_s)
        except PolicyFaultError as error:
            self._fault("order", error)
            return ()

    def _order_steady(self) -> object:
        return self.policies.order_steady()

    def _bypass_limit(self, waiting: ContainerView) -> float | None:
        return self.policies.bypass_limit_s(waiting)

    def _victims(self, need: Resources, running: Sequence[ContainerView], now_s: float) -> list[str]:
        try:
            return self.policies.victims(need, running, now_s)
        except PolicyFaultError as error:
            self._fault("preempt", error)
            return []

    def _grace(self) -> float:
        return self.policies.grace_s

    def _fault(self, slot: str, error: PolicyFaultError) -> None:
        self.metrics.policy_faults.labels(slot).inc()
        log.error("a policy failed: arrival order, and nothing killed, until it works", slot=slot, why=str(error))
