"""Metrics of the proxy, in a registry of its own; every name begins with `quicksilver_proxy_`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, generate_latest

from quicksilver.common.process.version import version
from rm_proxy.coordinator.nodes.targets import TargetSummary
from rm_proxy.queue_metrics import QueueMetrics
from rm_proxy.relay_metrics import RelayCounts

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ALLOCATION_S: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)
_QUEUE_S: Final = (0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
_ERRORS: Final = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 2, 5, 10, 100)
_CONFIRMED: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5)
_RELAY_S: Final = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5)


class ProxyMetrics:
    """All metrics of one proxy; labels are few and bounded, never ids."""

    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()
        ProcessCollector(namespace="quicksilver_proxy", registry=self.registry)
        self._relay()
        self._containers()
        self._decisions()
        self._budget()
        self._settings()
        self._surroundings()
        self.queues: Final = QueueMetrics(self.registry)
        self.set_gauges: Callable[[], None] = lambda: None
        """Sets the metrics that are set only when they are read."""

    def exposition(self) -> bytes:
        """Return the text that `/metrics` answers, of type CONTENT_TYPE."""
        self.set_gauges()
        return generate_latest(self.registry)

    def set_targets(self, summary: TargetSummary) -> None:
        """Set the gauges of the nodes' targets."""
        self.shedding_nodes.set(summary.shedding)
        self.max_wait_s.set(math.nan if summary.min_wait_s is None else summary.min_wait_s)
        self.policed_nodes.set(summary.policed)
        self.policed_left_mb.set(summary.left_mb)

    def _relay(self) -> None:
        self.active = self._gauge("active", "1 while application masters are let in, 0 while the proxy is standby.")
        self.connections = self._gauge("connections", "Connections of application masters that are open now.")
        self.connections_opened = self._counter("connections_opened", "Connections of application masters accepted.")
        self.connections_refused = self._counter(
            "connections_refused",
            "Connections that were closed, by reason (limit, host, handshake, memory, upstream).",
            "reason",
        )
        self.encrypted_connections = self._counter(
            "encrypted_connections", "Connections relayed unread because their SASL session signs or encrypts."
        )
        self.protocol_errors = self._counter("protocol_errors", "Connections closed for bytes out of form.", "side")
        self.certificate_ends_s = self._gauge(
            "certificate_ends_seconds", "When the certificate of REST ends, Unix time; NaN without one."
        )
        self.auth_failures = self._counter(
            "auth_failures",
            "REST calls refused, by reason (none: no credentials, token: unknown, "
            "role, node: another's, host: not this server's name, tls).",
            "reason",
        )
        self.calls = self._counter("calls", "Calls of application masters, by method.", "method")
        self.relayed = RelayCounts(self.registry)

        self.resyncs = self._counter(
            "resyncs",
            "Steps of taking applications over from an earlier process,"
            " by step (refused, registered, astray, wrong-id, too-large).",
            "step",
        )
        self.taken_over = self._gauge("taken_over_attempts", "Application attempts known from an earlier process.")
        self.journal_up = self._gauge("journal_up", "1 while the state of living applications is written, else 0.")
        self.journal_bytes = self._counter("journal_bytes", "Bytes written of the state of living applications.")
        self.journal_dropped = self._counter("journal_dropped", "Notes of that state that could not be written.")

    def _containers(self) -> None:
        self.attempts = self._gauge("attempts", "Application attempts that live.")
        self.grants = self._counter("grants", "Containers allocated to application masters, by kind.", "kind")
        self.allocation_s = self._histogram(
            "allocation_delay_seconds", "Time from the ask to the delivery of a container.", _ALLOCATION_S, "kind"
        )
        self.queueing_s = self._histogram(
            "queueing_seconds", "Time that started queueable containers waited at their nodes.", _QUEUE_S
        )
        self.pending = self._gauge(
            "wanted_containers", "Pending containers: requested and not allocated yet, by kind.", "kind"
        )
        self.waiting = self._gauge("waiting_applications", "Applications with queueable containers without a node.")
        self.admitted = self._gauge(
            "admission_applications",
            "Applications that are admitted as a whole, by state (in service, waiting).",
            "state",
        )
        self.claimed = self._gauge(
            "claimed_places", "Free places that such applications will get at their next heartbeat, in containers."
        )
        self.live = self._gauge("live_containers", "Containers allocated and not completed, by kind.", "kind")
        self.shedding_nodes = self._gauge("shedding_nodes", "Nodes with a limit of what may wait.")
        self.max_wait_s = self._gauge("max_wait_seconds", "The lowest of their limits of waiting; NaN without any.")
        self.policed_nodes = self._gauge("policed_nodes", "Nodes that leave queueable containers only a part.")
        self.policed_left_mb = self._gauge("policed_left_mb", "Memory that they leave them, together.")
        self.fallbacks = self._counter("fallbacks", "Queueable asks that went guaranteed, by reason.", "reason")
        self.unexpected_grants = self._counter(
            "unexpected_grants", "Grants on another node than asked, by what was done (kept, released).", "action"
        )
        self.releases = self._counter("releases", "Containers released by the proxy, by reason.", "reason")
        self.moves = self._counter(
            "moves",
            "Waiting containers that were to move, by cause (steal, correct) and outcome (there, elsewhere, "
            "guaranteed, kept: not shed in time, lost: not asked for again in time).",
            "cause",
            "outcome",
        )
        self.notices = self._counter(
            "notices", "Notices to application masters, of a container to be killed or a node to be emptied.", "what"
        )
        self.completions = self._counter(
            "completions", "Completions delivered to application masters, by origin (rm, translated, own).", "origin"
        )
        self.container_events = self._counter("container_events", "Events that sidecars reported, by kind.", "kind")

    def _decisions(self) -> None:
        self.decisions = self._counter("decisions", "Decisions beside those of allocated containers, by slot.", "slot")
        self.decisions_left_out = self._counter(
            "decisions_left_out", "Decisions that were not kept by themselves because there were many, by slot.", "slot"
        )
        self.shadow_decisions = self._counter(
            "shadow_decisions",
            "Decisions that an alternative made beside the real one, by alternative, slot and whether both agree.",
            "alternative",
            "slot",
            "agrees",
        )
        self.shadow_faults = self._counter(
            "shadow_faults",
            "Policies of an alternative that failed beside the real ones, by alternative and slot.",
            "alternative",
            "slot",
        )
        self.promotions = self._counter(
            "promotions",
            "Promotions of running queueable containers, by result (asked, promoted, refused, "
            "ended before it was decided).",
            "result",
        )
        self.promotions_open = self._gauge(
            "promotions_open", "Promotions that the ResourceManager has not decided on yet."
        )
        self.estimate_error = self._histogram(
            "estimate_error_ratio",
            "Error of the expected duration of ended containers, as a part of how long they ran, by source "
            "(task, stage, name, tag, rule, default).",
            _ERRORS,
            "source",
        )
        self.bad_tags = self._counter(
            "bad_tags",
            "Tags of applications that look like durations (`expected_s:...`) but cannot be read; the log names them.",
        )

        self.own_grants = self._counter(
            "own_grants",
            "Containers that the proxy granted itself (granted), those that an application had before the "
            "ResourceManager knew them (ahead), and calls with some that it refused (refused), by result.",
            "result",
        )
        self.confirmed_s = self._histogram(
            "own_grant_confirmed_seconds",
            "Time from such an early grant until the ResourceManager knows the container, so that it may start.",
            _CONFIRMED,
        )
        self.own_grant_nodes = self._gauge(
            "own_grant_nodes", "Nodes whose master keys are known, so that the proxy may grant containers there itself."
        )

    def _budget(self) -> None:
        self.policy_faults = self._counter("policy_faults", "Policies that failed; their ask went guaranteed.")
        self.faults = self._counter(
            "faults", "What counts against the error budget, by kind (protocol, policy, internal, refused).", "kind"
        )
        self.bypass = self._gauge(
            "bypass", "1 while applications are in bypass, by reason (order, budget, trial: most of them).", "reason"
        )
        self.bypassed = self._gauge("bypassed_applications", "Applications in bypass by their own error budget.")
        self.late_s = self._histogram("late_seconds", "How much later than due the event loop did its work.", _RELAY_S)

    def _settings(self) -> None:
        self.reloads = self._counter(
            "reloads",
            "Settings read, by how (start, sighup, rest, command, window) and result (ok, refused).",
            "how",
            "result",
        )
        self.settings = Info(
            "quicksilver_proxy_settings",
            "The version of the settings in use: number, digest, open windows.",
            registry=self.registry,
        )

    def _surroundings(self) -> None:
        self.nodes = self._gauge("nodes", "Nodes by use (usable, drained, no_sidecar, not_running, unusable).", "use")
        self.report_age_s = self._gauge(
            "report_age_max_seconds", "Age of the oldest report of a running node's sidecar."
        )
        self.reports = self._counter("reports", "Reports of sidecars received.")
        self.report_connections = self._gauge("report_connections", "Open connections of sidecars for their reports.")
        self.announcements = self._counter(
            "announcements", "Announcements of grants to sidecars, by result (ok, failed, dropped).", "result"
        )
        self.rm_rest_errors = self._counter(
            "rm_rest_errors", "Failed calls of the ResourceManager's REST, by path.", "path"
        )
        self.round_s = self._histogram("round_seconds", "Time of one round of the coordinator.", _RELAY_S)
        self.store_rows = self._counter("store_rows", "Rows written to the store, by table.", "table")
        self.store_dropped = self._counter("store_dropped", "Rows that could not be kept, by reason.", "reason")
        self.store_backlog = self._gauge("store_backlog_rows", "Rows that wait for the store.")
        self.store_up = self._gauge("store_up", "1 while the store takes rows, 0 during an outage.")
        build = Info("quicksilver_proxy_build", "The version that runs.", registry=self.registry)
        build.info({"version": version()})

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"quicksilver_proxy_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"quicksilver_proxy_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"quicksilver_proxy_{name}", text, labels, buckets=buckets, registry=self.registry)
