"""Frames of nodes that report to another worker: those with containers of this one's applications are handled whole."""

from __future__ import annotations

from random import Random
from typing import Any, Final
from unittest.mock import Mock

from policies.config.policy_set import Policies
from policies.model import AppView, Resources
from policies.waiting import WaitingApp
from quicksilver.common.messages import ContainerEvent, ContainerReport, EventKind, Report
from quicksilver.common.reports.frames import FrameKind
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.workers.news import view_fields
from rm_proxy.coordinator.workers.outbox import Outbox, shared_parts
from rm_proxy.coordinator.workers.spread import Spread
from rm_proxy.dispatch.group_queue import Demand
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.workers.node_acks import NodeAcks
from rm_proxy.service.workers.reports import WorkerReportConnections, WorkerReports, whole_frame
from rm_proxy.service.workers.worker_links import Broadcast, Letter
from tests.rm_proxy.yarn_messages import TIMESTAMP, container_report, node_id, report, yarn_node

WORKERS: Final = 2
ELSEWHERE: Final = next(n for n in range(1, 20) if Spread(0, WORKERS).of_node(node_id(n)) == 1)
"""A node that reports to the second worker."""
NODE: Final = node_id(ELSEWHERE)


def container_of(worker: int, number: int = 1) -> str:
    return f"container_{TIMESTAMP}_{WORKERS + worker:04d}_01_{number:06d}"


class Process:
    """One of two workers, whose links keep what they would send."""

    def __init__(self, number: int) -> None:
        spread = Spread(number, WORKERS)
        outbox = Outbox(spread)
        usage, line, placer = shared_parts(outbox)
        self.world = Coordinator(Policies.load({}), Random(7), placer=placer, usage=usage, central=line)
        self.world.yarn_nodes([yarn_node(ELSEWHERE)], 0.0)
        self.sent, self.letter, self.writer = Broadcast(), Letter(), Mock()
        links = Mock()
        self.urgent: list[bool] = []
        links.broadcast.side_effect = lambda urgent: self.urgent.append(urgent) or self.sent  # type: ignore[func-returns-value]
        links.letter.side_effect = lambda worker, urgent=True: self.letter
        parts = self.world, ProxyMetrics(), self.writer, Mock(), Mock()
        self.reports = WorkerReports(spread, outbox, NodeAcks(spread), links, *parts)


class Pair:
    """Both, and the node of the second one."""

    def __init__(self) -> None:
        self.other, self.own = Process(0), Process(1)
        self._seq = 0

    def reports(self, **fields: Any) -> Report:
        """Have the node report, and the other worker get the frame."""
        self._seq += 1
        there = report(ELSEWHERE, seq=self._seq, **fields)
        self.own.reports.handle_posted(NODE, there, {})
        frames, self.own.sent.reports = self.own.sent.reports, []
        for frame in frames:
            self.other.reports.handle_elsewhere(*frame)
        return there


def there_of(worker: int) -> ContainerReport:
    app_id = f"application_{TIMESTAMP}_{WORKERS + worker:04d}"
    return container_report(1).model_copy(update={"container_id": container_of(worker), "app_id": app_id})


def used(count: int) -> dict[str, Any]:
    return {"used_q_mb": 1024 * count, "used_q_vcores": count}


def test_a_frame_without_own_containers_changes_the_view_of_its_node_alone() -> None:
    pair = Pair()
    pair.reports()
    ended = ContainerEvent(seq=1, container_id=container_of(1, 2), kind=EventKind.ENDED, at_s=1.0, ran_s=1.0)
    there = container_report(1).model_copy(
        update={"container_id": container_of(1), "app_id": f"application_{TIMESTAMP}_0003"}
    )
    pair.reports(containers=[there], events=[ended], **used(1))
    node = pair.other.world.nodes[NODE]
    assert node.view == pair.own.world.nodes[NODE].view
    assert node.view.used_q == Resources(1024, 1) and node.view.containers == 1
    assert node.report is not None
    assert [each.container_id for each in node.report.containers] == [there.container_id], "pages show them"
    assert not pair.other.letter and not pair.other.writer.event.called
    pair.reports(draining=True, drain_reason="repair")
    assert not node.view.usable and "repair" in (node.why_not(node.reported_s, 10.0) or "")


def test_a_frame_with_events_of_own_containers_is_handled_and_acknowledged() -> None:
    pair = Pair()
    pair.reports()
    ended = ContainerEvent(seq=4, container_id=container_of(0), kind=EventKind.ENDED, at_s=1.0, ran_s=1.0)
    there = pair.reports(events=[ended])
    assert pair.other.letter.acks == {NODE: (there.boot, 4)}
    assert [call.args[2].seq for call in pair.other.writer.event.call_args_list] == [4]
    assert not pair.own.writer.event.called


def test_an_end_is_urgent_while_somebody_waits_for_a_place() -> None:
    pair = Pair()
    pair.reports()
    ended = [ContainerEvent(seq=n, container_id=container_of(1, n), kind=EventKind.ENDED, at_s=1.0) for n in (1, 2)]
    pair.reports(events=ended[:1])
    central = pair.own.world.central
    demand = Demand(WaitingApp(AppView(f"application_{TIMESTAMP}_0002"), 1, 1, 0.0, 1.0, 0.0, 0.0), {}, 0, Resources())
    central.waits(f"appattempt_{TIMESTAMP}_0002_000001", demand, 1.0)
    pair.reports(events=ended)
    assert pair.own.urgent == [False, False, True]


def test_the_frame_after_the_last_own_container_is_handled_too() -> None:
    pair = Pair()
    pair.reports()
    whole = Mock(side_effect=pair.other.world.reports.report_elsewhere)
    pair.other.world.reports.report_elsewhere = whole  # type: ignore[method-assign]
    own = container_report(1).model_copy(
        update={"container_id": container_of(0), "app_id": f"application_{TIMESTAMP}_0002"}
    )
    handled = []
    for containers in ([], [own], [], []):
        pair.reports(containers=containers, **used(len(containers)))
        handled.append(whole.call_count)
    assert handled == [0, 1, 2, 2]


def test_a_frame_that_does_not_follow_has_the_whole_report_asked_for() -> None:
    pair = Pair()
    pair.reports()
    view = view_fields(pair.own.world.nodes[NODE].bare)
    pair.other.reports.begin_anew(1)
    pair.other.reports.handle_elsewhere(NODE, int(FrameKind.DELTA), b'{"base": 1, "seq": 2, "passed_s": 1.0}', view)
    assert pair.other.letter.again == {NODE}
    pair.other.reports.handle_elsewhere(NODE, int(FrameKind.REPORT), whole_frame(report(ELSEWHERE, seq=7)), view)
    seen = pair.other.world.nodes[NODE].report
    assert seen is not None and seen.seq == 7


async def test_a_cut_connection_is_passed_on() -> None:
    cut, links, batch = Mock(), Mock(), Broadcast()
    links.broadcast.side_effect = lambda: batch
    connections = WorkerReportConnections(Spread(1, WORKERS), links, Mock(), lambda node: True, cut=cut)
    for _ in range(2):  # the second one takes the place of the first
        connections.open(NODE, {}, lambda name, connection: connection.connection_made(Mock()))
    assert batch.cut == [NODE] and batch
    cut.assert_called_once_with(NODE)
