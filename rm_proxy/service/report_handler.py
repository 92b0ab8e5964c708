"""Reports of sidecars: checked, recorded, and handed to the coordinator."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache

from starlette.types import Scope

from quicksilver.common.http.access import check_url
from quicksilver.common.http.connection import NAMES
from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.messages import Ack, ContainerEvent, EventKind, Report
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.domain.ids import app_of_container
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.effect_handlers import EffectHandlers
from rm_proxy.service.recovery import Recovery
from rm_proxy.store.writer import Writer


class ReportHandler:
    """The one step between the REST route of reports and the coordinator; used in the event loop."""

    def __init__(
        self,
        coordinator: Coordinator,
        metrics: ProxyMetrics,
        writer: Writer,
        recovery: Recovery,
        effects: EffectHandlers,
    ) -> None:
        self._coordinator, self._metrics, self._writer = coordinator, metrics, writer
        self._recovery, self._effects = recovery, effects
        self._events = cache(metrics.container_events.labels)
        """Counters of events: to find one by its label takes as long as to count."""

    def handle(self, node_id: str, report: Report, scope: Scope) -> Ack:
        """Return the answer to a report. Raises ApiError when the node may not report, or not from this address."""
        names = scope.get(NAMES)
        if names is not None:
            check_url(report.sidecar_url, node_id, names)
        coordinator, now_s = self._coordinator, time.time()
        if not coordinator.reports.takes_report(node_id):
            raise ApiError(
                503, "too-many-nodes", f"too many nodes report that the ResourceManager does not list, {node_id} too"
            )
        self._metrics.reports.inc()
        if not coordinator.serving:
            return coordinator.reports.observe(node_id, report, now_s)
        events = self._new_events(node_id, report)
        ack = coordinator.reports.report(node_id, report, now_s, events)
        self._recovery.write_due(now_s)
        self._effects.handle(coordinator.take_urgent())
        return ack

    def handle_posted(self, node_id: str, report: Report, scope: Scope) -> Ack:
        """Return the answer to a report that came by itself, and not over a connection for reports."""
        return self.handle(node_id, report, scope)

    def _new_events(self, node_id: str, report: Report) -> Sequence[ContainerEvent]:
        """Record the events of a report that were not handled before, and return them."""
        events = self._coordinator.reports.new_events(node_id, report)
        for event in events:
            self._record(node_id, report.boot, event)
        return events

    def _record(self, node_id: str, boot: str, event: ContainerEvent) -> None:
        """Store and count an event that was not handled before."""
        self._writer.event(node_id, boot, event)
        kind = event.kind
        self._events(kind).inc()
        if kind is EventKind.HELD:
            return
        if kind is EventKind.STARTED:
            if event.waited_s <= 0:
                return
            self._metrics.queueing_s.observe(event.waited_s)
        self._metrics.queues.event(self._coordinator.apps.app(app_of_container(event.container_id)), event)
