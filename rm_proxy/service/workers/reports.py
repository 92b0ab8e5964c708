"""Reports of nodes in a proxy of several workers: handled by the node's worker, and by those of its containers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from starlette.types import Scope

from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.messages import Ack, ContainerEvent, EventKind, Grants, Report
from quicksilver.common.reports.deltas import DeltaReader
from quicksilver.common.reports.frames import FrameError, FrameKind
from rm_proxy.api.received_report import read_delta, read_report
from rm_proxy.api.report_connections import Answer, ReportConnections
from rm_proxy.coordinator.workers.news import ViewFields, view_fields, view_of
from rm_proxy.coordinator.workers.outbox import Outbox
from rm_proxy.coordinator.workers.spread import Spread
from rm_proxy.service.report_handler import ReportHandler
from rm_proxy.service.workers.node_acks import NodeAcks
from rm_proxy.service.workers.worker_links import Letter, Links

_NO_END: Final = (EventKind.HELD, EventKind.STARTED)


class WorkerReports(ReportHandler):
    """The reports of all nodes at one worker."""

    def __init__(self, spread: Spread, outbox: Outbox, acks: NodeAcks, links: Links, *parts: Any) -> None:
        """Prepare. parts: as of a `ReportHandler`."""
        super().__init__(*parts)
        self._spread, self._outbox, self._acks, self._links = spread, outbox, acks, links
        self._readers: dict[str, DeltaReader] = {}
        """Of nodes that report to other workers."""
        self._settled: dict[str, tuple[str, int]] = {}
        """By node: what its worker knows is settled here."""
        self._concerned: set[str] = set()
        """Nodes whose last reports mentioned containers of this worker's applications."""
        self._is_urgent = False
        """Whether a container ended by the last report, and others wait for such a place."""

    def handle(self, node_id: str, report: Report, scope: Scope) -> Ack:
        """Return the answer to a report. Raises ApiError as any proxy does, and where another worker has the node."""
        if self._spread.of_node(node_id) != self._spread.own:
            raise ApiError(503, "other-worker", f"{node_id} reports to another worker: open a connection for it alone")
        ack = super().handle(node_id, report, scope)
        self._outbox.report(node_id)
        ack.events_to = self._acks.up_to(node_id, report, ack.events_to)
        return ack

    def handle_posted(self, node_id: str, report: Report, scope: Scope) -> Ack:
        """Return the answer to a report that came by itself; the other workers get it, too."""
        ack = self.handle(node_id, report, scope)
        self.pass_on(node_id, FrameKind.REPORT, whole_frame(report))
        return ack

    def pass_on(self, node_id: str, kind: FrameKind, body: bytes) -> None:
        """Have the other workers handle a frame."""
        view = view_fields(self._coordinator.nodes[node_id].bare)
        self._links.broadcast(self._is_urgent).reports.append((node_id, int(kind), body, view))

    def handle_elsewhere(self, node_id: str, kind: int, body: bytes, view: ViewFields) -> None:
        """Handle a frame of a node that reports to another worker.

        One without a container of this worker's applications changes the node's view, and nothing else.
        """
        reader, worker = self._readers.get(node_id), self._spread.of_node(node_id)
        if reader is None:
            reader = self._readers[node_id] = DeltaReader(read_report, read_delta)
        try:
            report = reader.read(FrameKind(kind), body)
        except FrameError:  # of a delta whose whole report is that of another connection
            self._links.letter(worker).again.add(node_id)
            return
        coordinator, now_s = self._coordinator, time.time()
        if not coordinator.serving:
            coordinator.reports.observe(node_id, report, now_s)
            return
        if not self._concerns(node_id, report):
            coordinator.reports.report_of_others(node_id, report, now_s, view_of(view))
            self._outbox.report(node_id)
            return
        events = self._new_events(node_id, report)
        ack = coordinator.reports.report_elsewhere(node_id, report, now_s, events, view_of(view))
        self._recovery.write_due(now_s)
        self._effects.handle(coordinator.take_urgent())
        self._outbox.report(node_id)
        self._answer(worker, node_id, report, ack)

    def _concerns(self, node_id: str, report: Report) -> bool:
        """Return whether a report mentions containers of this worker's applications, or the one before it did."""
        own, of_app, of_container = self._spread.own, self._spread.of_app, self._spread.of_container
        if (
            any(of_app(container.app_id) == own for container in report.containers)
            or any(of_container(event.container_id) == own for event in report.events)
            or any(of_container(container_id) == own for container_id in report.release)
        ):
            self._concerned.add(node_id)
            return True
        if node_id in self._concerned:
            self._concerned.discard(node_id)
            return True
        known = self._coordinator.nodes.get(node_id)
        return known is None or known.report is None

    def _answer(self, worker: int, node_id: str, report: Report, ack: Ack) -> None:
        """Send the node's worker what is settled here, and what its sidecar has to do."""
        settled = report.boot, ack.events_to
        if report.events and self._settled.get(node_id) != settled:
            self._settled[node_id] = settled
            self._links.letter(worker, urgent=False).acks[node_id] = settled
        if ack.drop or ack.known or ack.shed or ack.promoted:
            add_orders(self._links.letter(worker), node_id, ack)

    def _new_events(self, node_id: str, report: Report) -> Sequence[ContainerEvent]:
        """Record the new events of this worker's containers, and return them."""
        self._is_urgent = False
        if not report.events:
            return ()
        of_container, own = self._spread.of_container, self._spread.own
        events = self._coordinator.reports.new_events(node_id, report)
        waits = len(self._coordinator.central) > 0
        self._is_urgent = waits and any(event.kind not in _NO_END for event in events)
        mine = [event for event in events if of_container(event.container_id) == own]
        for event in mine:
            self._record(node_id, report.boot, event)
        return mine

    def begin_anew(self, worker: int) -> None:
        """Forget what a worker knows, which was started anew."""
        of_node = self._spread.of_node
        for known in (self._settled, self._readers):
            for node_id in [node_id for node_id in known if of_node(node_id) == worker]:
                del known[node_id]

    def forget_other_nodes(self, node_ids: set[str]) -> None:
        """Forget all nodes but these."""
        for known in (self._settled, self._readers):
            for node_id in known.keys() - node_ids:
                del known[node_id]
        self._concerned &= node_ids


class WorkerReportConnections(ReportConnections):
    """The connections of the nodes that report to one worker; messages to other nodes go by their workers."""

    def __init__(self, spread: Spread, links: Links, *parts: Any, cut: Callable[[str], None], **settings: Any) -> None:
        """Prepare. cut: gets a node whose connection ended; the other workers get it, too."""
        super().__init__(*parts, cut=self._end, **settings)
        self._spread, self._links, self._cut_here = spread, links, cut

    def _end(self, node_id: str) -> None:
        self._cut_here(node_id)
        self._links.broadcast().cut.append(node_id)

    def grant(self, node_id: str, message: Grants, answered: Answer) -> bool:
        """Send grants by the node's worker; return False where no connection takes them. Raises UnreachableError.

        answered: called once; for another worker's node at once, as that worker tries again what fails.
        """
        worker, links = self._spread.of_node(node_id), self._links
        if worker == self._spread.own:
            return super().grant(node_id, message, answered)
        if worker not in links.open:
            return False
        links.letter(worker).grants.append((node_id, message.model_dump_json(exclude_defaults=True).encode()))
        answered(None)
        return True

    def notify(self, node_id: str, orders: Callable[[], Ack | None]) -> None:
        """Send a node's sidecar what it has to do."""
        worker, links = self._spread.of_node(node_id), self._links
        if worker == self._spread.own:
            super().notify(node_id, orders)
        elif worker in links.open:
            ack = orders()
            if ack is not None:
                add_orders(links.letter(worker), node_id, ack)


def add_orders(letter: Letter, node_id: str, ack: Ack) -> None:
    """Add orders for a sidecar to a letter."""
    orders = ack.model_dump_json(include={"events_to", "drop", "drop_reason", "known", "shed", "promoted"})
    letter.orders.append((node_id, orders.encode()))


def whole_frame(report: Report) -> bytes:
    """Return the body of a frame with a whole report."""
    return report.model_dump_json(exclude_defaults=True).encode()
