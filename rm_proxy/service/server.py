"""The proxy as a process: sockets, clocks, REST and store around the machines."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Any

from fastapi import FastAPI

from policies.config.policy_set import Policies
from quicksilver.common.hadoop.conf import HadoopConf
from quicksilver.common.http.access import Side, protect
from quicksilver.common.http.async_client import Poster
from quicksilver.common.http.rest import serve
from quicksilver.common.http.security import OPEN, Security
from quicksilver.common.http.tokens import Role
from quicksilver.common.messages import Ack, EventKind, Grants, Report
from quicksilver.common.process.logs import get_logger
from rm_proxy.api.app import create_app
from rm_proxy.attempt.effects import (
    Announce,
    BadTags,
    BudgetTurned,
    Completed,
    Decided,
    DropHeld,
    Effect,
    Estimated,
    Faulted,
    FellBack,
    Granted,
    Moved,
    Refused,
    Returned,
    ShadowFaulted,
)
from rm_proxy.attempt.snapshot import Note
from rm_proxy.config import Endpoints, ProxySettings
from rm_proxy.coordinator.cluster_state import Limits
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.error_budget import FaultKind
from rm_proxy.coordinator.promotion_choice import wanted
from rm_proxy.domain.records import DecisionRecord
from rm_proxy.estimates.estimator import MIN_S
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.am_connections import AmConnection, connection_limit, finish_all
from rm_proxy.service.bypass_control import BypassControl, stored_order
from rm_proxy.service.connection_limits import ConnectionLimits
from rm_proxy.service.decision_sampling import Decisions, Sampling
from rm_proxy.service.gauges import set_gauges
from rm_proxy.service.grant_announcer import GrantAnnouncer
from rm_proxy.service.listener import Listener
from rm_proxy.service.live_state import LiveState
from rm_proxy.service.node_drain import NodeDrain
from rm_proxy.service.reload import ProxyReloader
from rm_proxy.service.state_journal import StateJournal
from rm_proxy.service.yarn_poller import YarnPoller
from rm_proxy.store.durations import stored_durations
from rm_proxy.store.learned_state import LearnedState, Learner
from rm_proxy.store.store import Store
from rm_proxy.store.usage_rows import stored_usage
from rm_proxy.store.writer import Writer
from rm_proxy.yarn.client import AUTO_UPDATE

log = get_logger(__name__)


class Proxy:
    """All parts of one running proxy; made inside a running event loop."""

    def __init__(
        self,
        settings: ProxySettings,
        policies: Policies,
        conf: HadoopConf,
        policies_source: str,
        security: Security = OPEN,
    ) -> None:
        self.settings, self.security = settings, security
        self.endpoints: Endpoints = settings.endpoints(conf)
        self.metrics = ProxyMetrics()
        self.coordinator = Coordinator(policies, Random(), limits_of(settings, conf), time.localtime)
        self.store = Store(self.endpoints.store_url)
        self.writer = self._writer()
        self.bypass = BypassControl(self.coordinator, self.metrics, self.writer)
        self.journal = StateJournal(self.endpoints.journal, self.coordinator, self.metrics)
        self.learned = self._learned()
        self.announcer = self._announcer()
        self.poller = self._poller()
        self.node_drain = NodeDrain(self.coordinator, security.credentials(Role.PROXY))
        self.reloader = ProxyReloader(self.coordinator, self.writer, self.metrics, settings, policies_source, security)
        self.open_connections: set[AmConnection] = set()
        self.limits = ConnectionLimits(
            connection_limit(settings), settings.max_logins_per_host, settings.max_unfinished_mb << 20
        )
        self._warned_of_promotion = False
        self.started_s = time.time()
        sampling = Sampling(settings.decisions_per_s, settings.decisions_one_of, settings.decisions_recent)
        self.decisions = Decisions(f"{self.endpoints.listen}-{self.started_s:.6f}", sampling, Random())
        self.upstream_down: str | None = None
        self.encrypted_s = 0.0
        """When an encrypted connection last passed unread; 0 never."""
        self._loop = asyncio.get_running_loop()
        self.ha = conf.ha
        self.coordinator.serving = not self.ha  # until it is known whether the ResourceManager is the active one
        self.listener: Listener | None = None
        self._rest: asyncio.Task[None] | None = None

    def _writer(self) -> Writer:
        settings = self.settings
        return Writer(
            self.store,
            self.metrics,
            queue_rows=settings.store_queue,
            batch_rows=settings.store_batch,
            keep_s=settings.keep_days * 86400,
        )

    def _announcer(self) -> GrantAnnouncer:
        settings = self.settings
        return GrantAnnouncer(
            self.metrics,
            self._url_of,
            self._undelivered,
            Poster(timeout_s=settings.announce_timeout_s, credentials=self.security.credentials(Role.PROXY)),
            most=settings.announce_workers,
            limit=settings.announce_queue,
        )

    def _poller(self) -> YarnPoller:
        return YarnPoller(
            self.coordinator,
            self.writer,
            self.metrics,
            self.settings,
            self.endpoints.rm_web,
            self._on_round,
            partial(self.faulted, FaultKind.INTERNAL, ""),
        )

    def _learned(self) -> tuple[LearnedState[Any], ...]:
        """Return what holds the coordinator's knowledge and the store together."""
        learners: tuple[tuple[str, Learner[Any], Callable[[Store], Any]], ...] = (
            ("durations of earlier jobs", self.coordinator.estimator, stored_durations),
            ("the last order of bypass", self.bypass, stored_order),
            ("weeks of the nodes' use", self.coordinator.targets.history, stored_usage),
        )
        return tuple(
            LearnedState(
                what,
                learner,
                ThreadPoolExecutor(1, "learned-state"),
                ready=lambda: self.writer.opened,
                read=partial(read, self.store),
                keep=self.writer.keep,
            )
            for what, learner, read in learners
        )

    async def start(self, listen: socket.socket, rest: socket.socket) -> None:
        """Serve on two bound sockets; what YARN says is read once before the first connection is taken."""
        self._loop.set_exception_handler(self.bypass.loop_fault)
        self.journal.recall(time.time())
        self.writer.start()
        self.reloader.begin(time.time())
        self._rest = self._loop.create_task(
            serve(self._app(), rest, max_connections=self.settings.rest_connections, tls=self.security.server)
        )
        await self.poller.first()
        self.poller.start()
        self.bypass.start()
        self.listener = Listener(
            listen,
            self.endpoints.upstream,
            lambda: AmConnection(self),
            self._turned,
            every_s=self.settings.rm_probe_s,
            timeout_s=self.settings.connect_timeout_s,
        )
        await self.listener.start()
        log.info(
            "proxy started",
            listen=str(self.endpoints.listen),
            upstream=str(self.endpoints.upstream),
            rest=str(self.endpoints.rest_listen),
            store=self.store.name,
        )

    def _app(self) -> FastAPI:
        app = create_app(LiveState(self), max_body_bytes=int(self.settings.max_body_mb * 2**20))
        side = Side(True, self.security.settings.tls, metrics_open=self.security.settings.metrics_open)
        self.metrics.certificate_ends_s.set_function(lambda: self.security.certificate_ends_s)
        protect(app, self.security, side, lambda reason: self.metrics.auth_failures.labels(reason).inc())
        return app

    def _warn_of_promotion(self) -> None:
        off = self.coordinator.promoter.why_off
        if off and not self._warned_of_promotion and wanted(self.coordinator.policies):
            self._warned_of_promotion = True
            remedy = (
                f"set {AUTO_UPDATE}=true in the ResourceManager's yarn-site.xml and in the one that the proxy reads"
            )
            log.error("nothing is promoted", why=off, remedy=remedy)

    async def close(self) -> None:
        """Stop: no new connections or calls, then REST, clocks, announcements and store."""
        if self.listener is not None:
            self.listener.close()
        await finish_all(self.open_connections)
        self.poller.close()
        self.bypass.close()
        self.node_drain.close()
        if self._rest is not None:
            self._rest.cancel()
            await asyncio.wait([self._rest])
        await self.announcer.close()
        self.journal.close()
        for part in self.learned:
            part.close(time.time())
        await self._loop.run_in_executor(None, self.writer.close)
        self.store.close()
        log.info("proxy stopped")

    # What connections and attempts want

    def identified(self, attempt_id: str) -> None:
        """Look a new attempt's application up."""
        self.poller.application(self.coordinator.attempt(attempt_id).app_id)
        self.carry_out(self.coordinator.take_urgent())

    def keep(self, attempt_id: str, note: Note) -> None:
        """Write down what changed of an attempt, before the bytes that it is about leave."""
        self.journal.keep(attempt_id, note)

    def faulted(self, kind: FaultKind, app_id: str) -> None:
        """Count a fault; app_id "" when it belongs to no application."""
        self.bypass.fault(kind, app_id)

    def _turned(self, is_open: bool) -> None:
        """Follow the ResourceManager: application masters are let in while it is there, and active."""
        self.metrics.active.set(is_open)
        if is_open:
            self.upstream_reached()
            self.coordinator.serve()
            self.poller.soon()
            log.info("application masters are let in", upstream=str(self.endpoints.upstream))
        elif self.ha:
            self.coordinator.stand_by()
            self.journal.keep_touched()
            self.upstream_failed(ConnectionRefusedError("it is not active"))
            log.info("standby: the ResourceManager behind is not active", upstream=str(self.endpoints.upstream))
        else:
            self.upstream_failed(ConnectionRefusedError("it refuses connections"))

    def upstream_lost(self) -> None:
        """Look whether the ResourceManager is still there: it closed a connection."""
        if self.listener is not None:
            self.listener.look_soon()

    def broken(self, attempt_id: str) -> None:
        """Have an attempt over which our own code failed taken over as after a restart."""
        try:
            self.journal.keep_all()
            renewed = self.coordinator.broken(attempt_id, time.time())
        except Exception:
            log.exception("an application master cannot be told to register anew", attempt=attempt_id)
            return
        if renewed:
            log.warning(
                "an application master is told to register anew, after a fault of the proxy", attempt=attempt_id
            )

    def upstream_failed(self, error: OSError) -> None:
        """Log an unreachable ResourceManager once, and refuse application masters if it refuses them."""
        if isinstance(error, ConnectionRefusedError) and self.listener is not None:
            self.listener.refused()
        if self.ha:
            for connection in list(self.open_connections):
                connection.close_unless_dialed()  # the other ResourceManager may be active: no waiting for this one
            return
        if self.upstream_down is None:
            log.error(
                "the ResourceManager's scheduler cannot be reached",
                upstream=str(self.endpoints.upstream),
                why=str(error),
                remedy="start it, or correct proxy.upstream",
            )
        self.upstream_down = str(error)

    def passed_encrypted(self) -> None:
        """Remember when an encrypted connection last passed unread."""
        self.encrypted_s = time.time()

    def upstream_reached(self) -> None:
        """Log that the ResourceManager is back."""
        if self.upstream_down is not None:
            log.info("the ResourceManager's scheduler is reachable again", upstream=str(self.endpoints.upstream))
            self.upstream_down = None

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Do what attempts want done: tell sidecars, keep records, count."""
        messages: dict[str, Grants] = {}
        for effect in effects:
            if isinstance(effect, Granted):
                self._granted(effect)
            elif isinstance(effect, Completed):
                self.writer.completion(effect.record)
                origin = "own" if effect.record.own else "translated" if effect.record.translated else "rm"
                self.metrics.completions.labels(origin).inc()
            elif isinstance(effect, Decided):
                self._decided(effect.record)
            elif isinstance(effect, ShadowFaulted):
                self.metrics.shadow_faults.labels(effect.alternative, effect.slot).inc()
                log.warning("an alternative failed", alternative=effect.alternative, why=effect.fault)
            elif isinstance(effect, Announce):
                messages.setdefault(effect.node_id, Grants()).grants.append(effect.grant)
            elif isinstance(effect, DropHeld):
                message = messages.setdefault(effect.node_id, Grants())
                message.drop.append(effect.container_id)
                message.drop_reason = effect.reason
            elif isinstance(effect, Estimated):
                error_s = abs(effect.expected_s - effect.ran_s)
                self.metrics.estimate_error.labels(effect.source.value).observe(error_s / max(MIN_S, effect.ran_s))
            elif isinstance(effect, BadTags):
                self._count_bad_tags(effect)
            elif isinstance(effect, BudgetTurned):
                self.bypass.turned(effect.turned)
            elif isinstance(effect, Refused):
                self.bypass.fault(FaultKind.REFUSED, effect.app_id)
                log.warning(
                    "an allocate call that was rewritten was refused", application=effect.app_id, why=effect.why
                )
            else:
                self._count(effect)
        for node_id, message in messages.items():
            self.announcer.send(node_id, message)

    def _decided(self, record: DecisionRecord) -> None:
        kept = self.decisions.take(record, time.time())
        if record.alternative:
            agrees = "yes" if record.chosen == record.other else "no"
            self.metrics.shadow_decisions.labels(record.alternative, record.slot, agrees).inc(record.weight)
            if kept is not None:
                self.writer.decision(kept)
            return
        self.metrics.decisions.labels(record.slot).inc(record.weight)
        if kept is None:
            self.metrics.decisions_left_out.labels(record.slot).inc(record.weight)
        else:
            self.writer.decision(kept)
        if record.slot == "promote":
            self.metrics.promotions.labels(record.chosen).inc()
            log.info(f"promotion {record.chosen}", container=record.container_id, why=record.reason)

    def _granted(self, effect: Granted) -> None:
        record = effect.record
        self.writer.grant(record)
        self.metrics.grants.labels(record.kind.value).inc()
        self.metrics.allocation_s.labels(record.kind.value).observe(max(0.0, record.granted_s - record.asked_s))
        if record.wanted_node not in (None, record.node_id):
            self.metrics.unexpected_grants.labels("kept").inc()
        log.info(
            "granted",
            container=record.container_id,
            application=record.app_id,
            kind=record.kind.value,
            node=record.node_id,
            why=record.route_reason,
        )

    def _count(self, effect: FellBack | Returned | Faulted | Moved) -> None:
        if isinstance(effect, FellBack):
            self.metrics.fallbacks.labels("ungranted" if "did not grant" in effect.reason else "no_node").inc(
                effect.count
            )
            log.info("fell back to guaranteed", application=effect.app_id, why=effect.reason, containers=effect.count)
        elif isinstance(effect, Returned):
            self.metrics.releases.labels("unwanted").inc()
            log.info("given back", container=effect.container_id, why=effect.reason)
        elif isinstance(effect, Moved):
            self.metrics.moves.labels(effect.cause, effect.outcome).inc()
        else:
            self.metrics.policy_faults.inc()
            self.bypass.fault(FaultKind.POLICY, effect.app_id)
            log.error("a policy failed", application=effect.app_id, why=effect.fault)

    def _count_bad_tags(self, effect: BadTags) -> None:
        self.metrics.bad_tags.inc(len(effect.tags))
        log.warning(
            "tags of an application are no durations",
            application=effect.app_id,
            tags=list(effect.tags[:5]),
            remedy="write expected_s:SECONDS or expected_s:PRIORITY:SECONDS",
        )

    def _on_round(self) -> None:
        self.reloader.tick(time.time())
        self._warn_of_promotion()
        self.journal.round(time.time())
        self.carry_out(self.coordinator.take_effects())
        metrics, coordinator, now_s = self.metrics, self.coordinator, time.time()
        for part in self.learned:
            part.round(now_s)
        self.bypass.round()
        metrics.set_targets(coordinator.targets.summary())
        set_gauges(metrics, coordinator, now_s)

    def report(self, node_id: str, report: Report) -> Ack:
        """Take in a sidecar's report."""
        self.metrics.reports.inc()
        if not self.coordinator.serving:
            return self.coordinator.observe(node_id, report, time.time())
        for event in self.coordinator.new_events(node_id, report):
            self.writer.event(node_id, report.boot, event)
            self.metrics.container_events.labels(event.kind.value).inc()
            if event.kind is EventKind.STARTED and event.waited_s > 0:
                self.metrics.queueing_s.observe(event.waited_s)
        ack = self.coordinator.report(node_id, report, time.time())
        self.journal.keep_touched()  # what is acknowledged is not told again
        self.carry_out(self.coordinator.take_urgent())
        return ack

    # What the announcer asks

    def _url_of(self, node_id: str) -> str | None:
        node = self.coordinator.nodes.get(node_id)
        return node.report.sidecar_url if node is not None and node.report is not None else None

    def _undelivered(self, node_id: str, message: Grants) -> None:
        for container_id in message.drop:
            self.coordinator.undelivered(DropHeld(node_id, container_id, message.drop_reason))


def limits_of(settings: ProxySettings, conf: HadoopConf) -> Limits:
    """Return the coordinator's limits from the proxy's settings and Hadoop's configuration."""
    timeout_s = conf.duration_s("mapreduce.task.timeout")
    off = "" if conf.boolean(AUTO_UPDATE) else f"{conf.place(AUTO_UPDATE)} is not true"
    return Limits(settings.report_fresh_s, timeout_s, dict(settings.max_hold_by_type_s), off, settings.budget())
