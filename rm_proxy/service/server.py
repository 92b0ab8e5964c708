"""The proxy: its parts, put together, started and closed."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.types import ASGIApp

from policies.config.guarded_call import measure_calls
from policies.config.policy_set import Policies
from policies.model import Resources
from quicksilver.common.hadoop.conf import HadoopConf
from quicksilver.common.http.acceptor import RestSource
from quicksilver.common.http.access import Side, protect
from quicksilver.common.http.async_client import AsyncRestClient
from quicksilver.common.http.rest_server import serve
from quicksilver.common.http.security import OPEN, Security
from quicksilver.common.http.servlets.conf import ShownProperty, policy_rows, section_rows
from quicksilver.common.http.servlets.routes import ServletParts, add_servlets
from quicksilver.common.http.tokens import Role
from quicksilver.common.messages import Grants
from quicksilver.common.process.logs import get_logger
from quicksilver.common.web.access import browsers
from rm_proxy.api.app import ApiParts, create_app
from rm_proxy.api.live_state import LiveState
from rm_proxy.api.report_connections import ReportConnections
from rm_proxy.attempt.effects import DropHeld
from rm_proxy.config import Endpoints, ProxySettings
from rm_proxy.coordinator.cluster_state import Limits
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.error_budget import FaultKind
from rm_proxy.coordinator.nodes.nodes import Node, NodeReservation
from rm_proxy.coordinator.promotion_choice import promotes
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.attempt_journal import AttemptJournal
from rm_proxy.service.bypass_control import BypassControl, stored_order
from rm_proxy.service.connections.am_connections import AmConnection, ConnectionParts, Connections
from rm_proxy.service.connections.upstream import Upstream
from rm_proxy.service.effect_handlers import EffectHandlers
from rm_proxy.service.gauges import set_gauges
from rm_proxy.service.grant_announcer import GrantAnnouncer
from rm_proxy.service.health import HealthFacts, health, not_ready
from rm_proxy.service.key_reports import KeyReports
from rm_proxy.service.node_drain import NodeDrain
from rm_proxy.service.recovery import Recovery
from rm_proxy.service.reload import ProxyReloader
from rm_proxy.service.report_handler import ReportHandler
from rm_proxy.service.sampling.cluster_sampler import ClusterSampler
from rm_proxy.service.sampling.decision_sampling import Decisions, Sampling
from rm_proxy.service.sampling.queue_sampler import QueueSampler
from rm_proxy.service.yarn_poller import YarnPoller
from rm_proxy.store.durations import stored_durations
from rm_proxy.store.learned_state import LearnedState, Learner
from rm_proxy.store.queries import History
from rm_proxy.store.store import Store
from rm_proxy.store.usage_rows import stored_usage
from rm_proxy.store.writer import Writer
from rm_proxy.ui.dashboard import UiSettings, add_dashboard
from rm_proxy.views.service_models import Health
from rm_proxy.yarn.client import AUTO_UPDATE, YarnRest

log = get_logger(__name__)
_ALLOCATION: Final = "yarn.scheduler.{}-allocation-{}"
_USE_IP: Final = "hadoop.security.token.service.use_ip"


def _as_it_is(app: ASGIApp) -> ASGIApp:
    return app


@dataclass(frozen=True, slots=True)
class Makers:
    """What makes the parts of a proxy that differ in a worker of several (workers/worker.py)."""

    coordinator: Callable[..., Coordinator] = Coordinator
    reports: Callable[..., ReportHandler] = ReportHandler
    report_connections: Callable[..., ReportConnections] = ReportConnections
    journal: Callable[[Path, ProxyMetrics], AttemptJournal] = AttemptJournal
    key_reports: Callable[..., KeyReports] = KeyReports
    yarn: Callable[..., YarnRest] = YarnRest
    """Reads the ResourceManager's REST."""
    rest: Callable[[ASGIApp], ASGIApp] = _as_it_is
    """Wraps the application that answers REST."""


class Proxy:
    """All parts of one running proxy; made inside a running event loop."""

    def __init__(
        self,
        settings: ProxySettings,
        policies: Policies,
        conf: HadoopConf,
        policies_source: str,
        security: Security = OPEN,
        sections: Mapping[str, BaseModel] | None = None,
        makers: Makers = Makers(),
    ) -> None:
        """Prepare. sections: further sections of the settings file that are in force, for /conf."""
        self.settings, self.security, self._wrapped = settings, security, makers.rest
        self._sections = {"proxy": settings, "security": security.settings, **(sections or {})}
        self.endpoints: Endpoints = settings.endpoints(conf)
        self.metrics = ProxyMetrics()
        self.metrics.queues.max_queues = settings.metrics_queues
        self.metrics.set_gauges = self._set_gauges
        self.coordinator = makers.coordinator(policies, Random(), limits_of(settings, conf), time.localtime)
        self.coordinator.serving = not conf.ha  # until it is known whether the ResourceManager is the active one
        self.store = Store(self.endpoints.store_url)
        self.writer = self._writer()
        self.bypass = BypassControl(self.coordinator, self.metrics, self.writer)
        self.journal = makers.journal(self.endpoints.journal, self.metrics)
        self.recovery = Recovery(self.journal, self.coordinator, self.metrics)
        self.learned = self._learned()
        self.announcer = self._announcer()
        self.poller = self._poller(makers.yarn)
        self.node_drain = NodeDrain(self.coordinator, security.credentials(Role.PROXY))
        self.reloader = ProxyReloader(self.coordinator, self.writer, self.metrics, settings, policies_source, security)
        self.order_bypass, self.reload = self.bypass.order, self.reloader.reload
        """What an admin's calls lead to."""
        self.problems: Callable[[], list[str]] = list
        """Returns what else is wrong, in one worker of several."""
        self.started_s = time.time()
        sampling = Sampling(settings.decisions_per_s, settings.decisions_one_of, settings.decisions_recent)
        self.decisions = Decisions(f"{self.endpoints.listen}-{self.started_s:.6f}", sampling, Random())
        self.sampler = ClusterSampler(self.coordinator)
        self.effects = EffectHandlers(
            self.metrics,
            self.writer,
            self.decisions,
            self.bypass,
            self.announcer,
            self.sampler.delays.delivered,
            self.coordinator.apps.app,
        )
        self.reports = makers.reports(self.coordinator, self.metrics, self.writer, self.recovery, self.effects)
        self.report_connections = self._report_connections(makers)
        self.key_reports = self._key_reports(makers.key_reports, conf.boolean(_USE_IP))
        self.connections = Connections(settings, self.metrics)
        self.upstream = self._upstream(conf.ha)
        self.queue_sampler = QueueSampler(self.coordinator)
        self._warned_of_promotion, self._warned_of_grants = False, ""
        self._rest: asyncio.Task[None] | None = None

    def _report_connections(self, makers: Makers) -> ReportConnections:
        reports = self.coordinator.reports
        return makers.report_connections(
            self.reports.handle,
            reports.takes_report,
            max_bytes=self.settings.max_body_bytes,
            count=self.metrics.report_connections.set,
            grants_s=self.settings.announce_timeout_s,
            cut=lambda node_id: reports.disconnected(node_id, time.time()),
        )

    def _key_reports(self, maker: Callable[..., KeyReports], use_ip: bool) -> KeyReports:
        coordinator = self.coordinator
        known = coordinator.nodes.__contains__
        return maker(coordinator.minter.ring, bool(self.settings.own_grants), use_ip, known, time.time)

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
            lambda node_id, message, answered: self.report_connections.grant(node_id, message, answered),
            self._undelivered,
            AsyncRestClient(
                timeout_s=settings.announce_timeout_s,
                credentials=self.security.credentials(Role.PROXY),
                threads=settings.announce_workers,
            ),
            parallel=settings.announce_workers,
            limit=settings.announce_queue,
        )

    def _poller(self, yarn: Callable[..., YarnRest]) -> YarnPoller:
        return YarnPoller(
            self.coordinator,
            self.writer,
            self.metrics,
            self.settings,
            self.endpoints.rm_web,
            self._on_round,
            partial(self.bypass.fault, FaultKind.INTERNAL, ""),
            yarn,
        )

    def _upstream(self, ha: bool) -> Upstream:
        return Upstream(
            self.endpoints.upstream,
            ha,
            self.settings,
            self.coordinator,
            self.metrics,
            self.recovery,
            on_open=self.poller.soon,
            close_undialed=self.connections.close_undialed,
        )

    def _learned(self) -> tuple[LearnedState[Any], ...]:
        """Return the links between the coordinator's knowledge and the store."""
        learners: tuple[tuple[str, Learner[Any], Callable[[Store], Any]], ...] = (
            ("durations of earlier jobs", self.coordinator.durations.estimator, stored_durations),
            ("the last order of bypass", self.bypass, stored_order),
            ("weeks of the nodes' use", self.coordinator.targets.history, stored_usage),
        )
        return tuple(
            LearnedState(
                name,
                learner,
                ThreadPoolExecutor(1, "learned-state"),
                ready=lambda: self.writer.opened,
                read=partial(read, self.store),
                keep=self.writer.keep,
            )
            for name, learner, read in learners
        )

    async def start(self, listen: socket.socket, rest: socket.socket) -> None:
        """Serve on two bound sockets; YARN's REST is read once before the first connection is accepted."""
        await self.begin(rest)
        await self.upstream.start(listen, partial(AmConnection, self.connection_parts()))
        log.info(
            "proxy started",
            listen=str(self.endpoints.listen),
            upstream=str(self.endpoints.upstream),
            rest=str(self.endpoints.rest_listen),
            store=self.store.name,
        )

    async def begin(self, rest: RestSource) -> None:
        """Start all but the connections of application masters."""
        measure_calls(time.monotonic)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self.bypass.loop_fault)
        self.recovery.recall(time.time())
        self.writer.start()
        self.reloader.begin(time.time())
        self._rest = loop.create_task(
            serve(
                self._wrapped(self._app()),
                rest,
                max_connections=self.settings.rest_connections,
                tls=self.security.server,
            )
        )
        await self.poller.first()
        self.poller.start()
        self.bypass.start()
        self.sampler.start()
        self.queue_sampler.start()

    def connection_parts(self) -> ConnectionParts:
        """Return what each connection of an application master uses."""
        return ConnectionParts(
            settings=self.settings,
            attempt=self.coordinator.attempt,
            metrics=self.metrics,
            connections=self.connections,
            upstream=self.upstream,
            handle_effects=self.effects.handle,
            identified=self._identified,
            write_note=self.journal.write,
            fault=self.bypass.fault,
            restore=self.recovery.restore,
            spent=self.bypass.costly.spent,
        )

    def _app(self) -> FastAPI:
        parts = ApiParts(
            live=LiveState(
                self.coordinator,
                self.settings.report_fresh_s,
                lambda: self.reloader.source,
                self.endpoints.rm_web,
            ),
            history=History(self.store),
            metrics=self.metrics,
            recent=self.decisions.recent,
            health=self.health,
            bypass=self.bypass.info,
            order_bypass=self.order_bypass,
            reload=self.reload,
            check=self.reloader.check,
            drain=self.node_drain.drain,
            report=self.reports.handle_posted,
            report_connections=self.report_connections,
            report_keys=self.key_reports.report,
            series=self.sampler.series,
            shrinks=self.sampler.shrinks,
            queue_history=self.queue_sampler.history,
        )
        app = create_app(parts, max_body_bytes=self.settings.max_body_bytes)
        add_servlets(app, self._servlets())
        security = self.security
        login = add_dashboard(
            app, parts, UiSettings(lambda: security.tokens if security.on else None, self.settings.ui_base_path)
        )
        side = Side(True, security.settings.tls, metrics_open=security.settings.metrics_open)
        self.metrics.certificate_ends_s.set_function(lambda: security.certificate_ends_s)
        ends = self.endpoints
        hosts = (ends.rest_listen.host, ends.listen.host, ends.upstream.host, urlsplit(ends.rm_web).hostname or "")
        count = self.metrics.auth_failures
        failures = protect(app, security, side, lambda reason: count.labels(reason).inc(), browsers(), hosts)
        login.refused = failures.refused
        return app

    def _servlets(self) -> ServletParts:
        return ServletParts(
            service="QuicksilverProxy",
            registry=self.metrics.registry,
            set_gauges=self.metrics.set_gauges,
            properties=self.properties,
            health=self.health,
            not_ready=self.not_ready,
        )

    def properties(self) -> list[ShownProperty]:
        """Return the settings in force, for /conf."""
        file, policies, ends = str(self.reloader.source or ""), self.coordinator.policies, self.endpoints
        derived = {
            "listen": ends.listen,
            "upstream": ends.upstream,
            "rm_web": ends.rm_web,
            "state_dir": ends.journal.parent,
        }
        rows = [row for name, section in self._sections.items() for row in section_rows(name, section, file, derived)]
        return rows + list(policy_rows(policies.describe(), policies.section.model_fields_set, file))

    def not_ready(self) -> list[str]:
        """Return why application masters cannot be served."""
        return not_ready(
            let_in=self.upstream.let_in,
            serving=self.coordinator.serving,
            down=self.upstream.down,
            nodes=len(self.coordinator.nodes),
            rest_failures=self.poller.failures,
        )

    def health(self) -> Health:
        """Return the answer of `/v1/health`."""
        coordinator, now_s = self.coordinator, time.time()
        nodes, fresh_s = coordinator.nodes.values(), self.settings.report_fresh_s
        by_use: dict[NodeReservation, list[Node]] = {use: [] for use in NodeReservation}
        for node in nodes:
            by_use[node.use(now_s, fresh_s)].append(node)
        return health(
            HealthFacts(
                now_s=now_s,
                started_s=self.started_s,
                endpoints=self.endpoints,
                settings_version=coordinator.policies.version,
                mode=coordinator.policies.section.mode,
                nodes=len(nodes),
                nodes_usable=len(by_use[NodeReservation.USABLE]),
                unusable=[(node.id, node.why_not(now_s, fresh_s) or "") for node in by_use[NodeReservation.UNUSABLE]],
                drained=[(node.id, node.why_not(now_s, fresh_s) or "") for node in by_use[NodeReservation.DRAINED]],
                no_sidecar=[node.id for node in by_use[NodeReservation.NO_SIDECAR]],
                connections=len(self.connections.open),
                attempts=sum(1 for attempt in coordinator.attempts.values() if not attempt.finished),
                restored=self.recovery.restored,
                store=self.store.name,
                store_backlog=self.writer.backlog,
                store_outage=self.writer.outage,
                rest_failures=self.poller.failures,
                upstream_down=self.upstream.down,
                encrypted_s=self.connections.encrypted_s,
                no_grants=coordinator.grants.why_none,
                bypass=self.bypass.problems() + self.problems(),
                bypass_ordered=self.bypass.ordered(),
            )
        )

    async def close(self) -> None:
        """Stop: no new connections or calls, then REST, clocks, announcements and store."""
        self.upstream.close()
        await self.connections.finish()
        await self.poller.close()
        self.bypass.close()
        await self.sampler.close()
        await self.queue_sampler.close()
        if self._rest is not None:
            self._rest.cancel()
            await asyncio.wait([self._rest])
        await self.announcer.close()
        self.recovery.close()
        for part in self.learned:
            part.close(time.time())
        await asyncio.get_running_loop().run_in_executor(None, self.writer.close)
        self.store.close()
        log.info("proxy stopped")

    def _identified(self, attempt_id: str) -> asyncio.Task[None] | None:
        """Look a new attempt's application up; returns that reading, None where it is known."""
        reading = self.poller.application(self.coordinator.attempt(attempt_id).app_id)
        self.effects.handle(self.coordinator.take_urgent())
        return reading

    def _on_round(self) -> None:
        now_s = time.time()
        self.reloader.tick(now_s)
        self._warn_of_promotion()
        self._warn_of_grants()
        self.recovery.round(now_s)
        self.effects.handle(self.coordinator.take_effects())
        self._notify_sidecars()
        for part in self.learned:
            part.round(now_s)
        self.bypass.round()

    def _set_gauges(self) -> None:
        """Count nodes, attempts and containers for those who read the metrics."""
        self.metrics.set_targets(self.coordinator.targets.summary())
        set_gauges(self.metrics, self.coordinator, time.time(), self.settings.report_fresh_s)

    def _notify_sidecars(self) -> None:
        """Send orders that came of the round; those for nodes without a connection go with their next reports."""
        self.report_connections.round()
        reports = self.coordinator.reports
        for node_id in reports.nodes_with_orders() if self.coordinator.serving else ():
            self.report_connections.notify(node_id, partial(reports.orders, node_id))

    def _warn_of_promotion(self) -> None:
        off = self.coordinator.features.promoter.why_off
        if off and not self._warned_of_promotion and promotes(self.coordinator.policies):
            self._warned_of_promotion = True
            remedy = (
                f"set {AUTO_UPDATE}=true in the ResourceManager's yarn-site.xml and in the one that the proxy reads"
            )
            log.error("nothing is promoted", why=off, remedy=remedy)

    def _warn_of_grants(self) -> None:
        why = self.coordinator.grants.why_none
        if why and why != self._warned_of_grants:
            log.error("no container is queueable: all go guaranteed at once", why=why)
        elif self._warned_of_grants and not why:
            log.info("containers are queueable again, or tried as such")
        self._warned_of_grants = why

    # Called by the announcer

    def _url_of(self, node_id: str) -> str | None:
        node = self.coordinator.nodes.get(node_id)
        return node.report.sidecar_url if node is not None and node.report is not None else None

    def _undelivered(self, node_id: str, message: Grants) -> None:
        for container_id in message.drop:
            self.coordinator.reports.undelivered(DropHeld(node_id, container_id, message.drop_reason))
        self.coordinator.reports.confirmed(node_id, message.known)


def limits_of(settings: ProxySettings, conf: HadoopConf) -> Limits:
    """Return the coordinator's limits from the proxy's settings and Hadoop's configuration."""
    timeout_s = conf.duration_s("mapreduce.task.timeout")
    off = "" if conf.boolean(AUTO_UPDATE) else f"{conf.place(AUTO_UPDATE)} is not true"
    return Limits(
        settings.report_fresh_s,
        timeout_s,
        dict(settings.max_hold_by_type_s),
        off,
        settings.budget(),
        bool(settings.own_grants),
        _allocation(conf, "minimum"),
        _allocation(conf, "maximum"),
        conf.duration_s("yarn.resourcemanager.rm.container-allocation.expiry-interval-ms"),
        conf.duration_s("yarn.nm.liveness-monitor.expiry-interval-ms"),
        settings.own_grants == "ahead",
    )


def _allocation(conf: HadoopConf, bound: str) -> Resources:
    return Resources(conf.integer(_ALLOCATION.format(bound, "mb")), conf.integer(_ALLOCATION.format(bound, "vcores")))
