"""Two workers by example: what one does is part of the other's picture, and goes with the worker that did it."""

from __future__ import annotations

import pickle
from collections import Counter
from random import Random
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.config.policy_set import Policies
from policies.model import NodeView, Resources
from quicksilver.common.messages import ContainerEvent, EventKind
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.workers.news import News, view_fields, view_of
from rm_proxy.coordinator.workers.outbox import Outbox, SharedLine, shared_parts
from rm_proxy.coordinator.workers.peers import Peers
from rm_proxy.coordinator.workers.spread import Spread
from rm_proxy.domain.records import AppRecord
from rm_proxy.yarn.models import YarnQueue
from tests.examples import of_share
from tests.rm_proxy.yarn_messages import (
    APP,
    TIMESTAMP,
    Am,
    cid,
    container_report,
    granted_rows,
    node_id,
    report,
    row,
    yarn_node,
)

LATE: Final[dict[str, Any]] = {"queues": "*", "routes": [{"policy": "only_q"}], "place": {"policy": "late"}}
NODES: Final = 2
SIZE: Final = Resources(1024, 1)


class Process:
    """One of two workers, without sockets."""

    def __init__(self, number: int) -> None:
        self.outbox = Outbox(Spread(number, 2))
        usage, line, placer = shared_parts(self.outbox)
        policies = Policies.load({**LATE, "dispatch": {"policy": "levels"}})
        self.world = Coordinator(policies, Random(7), placer=placer, usage=usage, central=line)
        assert isinstance(self.world.central, SharedLine)
        self.peers = Peers(self.world, usage, self.world.central)
        self.world.yarn_nodes([yarn_node(n) for n in range(1, NODES + 1)], 0.0)
        for number in range(1, NODES + 1):
            self.world.reports.report(node_id(number), report(number), 0.0)
        size = Resources(8192 * NODES, 8 * NODES)
        self.world.inventory.update_queues(
            [YarnQueue("root.default", True, "RUNNING", size, Resources(), frozenset(), "")]
        )
        record = AppRecord(APP, "default", "u", "MAPREDUCE", "job", (), 0, 0.0)
        self.world.inventory.update_app(record)

    def hears(self, other: Process, whole: bool = False) -> News:
        """Take the other one's news as they would come over a socket."""
        latest = other.outbox.take(other.world.nodes)
        news: News = pickle.loads(pickle.dumps(other.outbox.whole() if whole else latest))
        self.peers.take(other.outbox._spread.own, news)
        return news

    def bare(self, number: int) -> NodeView:
        return view_of(pickle.loads(pickle.dumps(view_fields(self.world.nodes[node_id(number)].bare))))

    def free(self) -> int:
        return self.world.central.free.count("", SIZE)

    def used_q(self) -> Resources:
        queue = self.world.inventory.queue("root.default")
        assert queue is not None
        return queue.used_q


def pair() -> tuple[Process, Process, Am]:
    """Two workers, the first with an application of which three containers were asked for at nodes."""
    first, second = Process(0), Process(1)
    am = Am(first.world)
    am.asks(row("*", 3))
    assert len(granted_rows(am.sent.ask)) == 3
    return first, second, am


def test_a_place_that_one_worker_took_is_none_for_the_other() -> None:
    first, second, am = pair()
    assert (first.free(), second.free()) == (13, 16)
    second.hears(first)
    assert second.free() == 13
    am.gets(*am.granted())
    second.hears(first)
    assert second.free() == 13, "granted, it is the same place"


def test_a_container_that_its_node_reports_takes_no_second_place() -> None:
    first, second, am = pair()
    rows = list(granted_rows(am.sent.ask).values())
    am.gets(*am.granted())
    second.hears(first)
    for number in range(1, NODES + 1):
        there = [n + 1 for n, r in enumerate(rows) if r.resource_name == f"host{number}"]
        reported = report(
            number,
            seq=2,
            used_q_mb=1024 * len(there),
            used_q_vcores=len(there),
            containers=[container_report(n) for n in there],
        )
        second.world.reports.report(node_id(number), reported, 1.0)
        assert second.free() == 13
        first.world.reports.report_elsewhere(node_id(number), reported, 1.0, (), second.bare(number))
        first.outbox.report(node_id(number))
    assert second.hears(first).places == {node_id(n): {} for n in {1, 2} & {int(r.resource_name[4:]) for r in rows}}
    assert (first.free(), second.free()) == (13, 13)


def test_what_the_node_has_reported_changes_nothing_again() -> None:
    first, second, am = pair()
    am.gets(*am.granted())
    second.hears(first)
    node = second.world.nodes[node_id(1)]
    there = {key: own for key, own in node.own.items() if isinstance(key, str)}
    assert there
    view = node.view
    node.replace_reserved(there, there)
    assert node.view == view and node.own == there
    node.confirm(report(1, seq=2, containers=[container_report(int(key.rpartition("_")[2])) for key in there]), 1.0)
    second.world.central.free.changed.clear()
    node.replace_reserved(there, {})
    assert not second.world.central.free.changed and not node.own


def test_two_workers_prefer_different_nodes_of_those_that_are_alike() -> None:
    processes = Process(0), Process(1)
    for process, app in zip(processes, (2, 3), strict=True):
        process.world.yarn_nodes([yarn_node(n) for n in range(1, 5)], 0.0)
        for number in range(1, 5):
            process.world.reports.report(node_id(number), report(number), 0.0)
        am = am_of(process, app)
        am.asks(row("*", 2))
        there = {int(r.resource_name[4:]) for r in granted_rows(am.sent.ask).values()}
        own = process.outbox.is_own
        assert len(there) == 2 and all(own(node_id(number)) for number in there)
        am.asks(row("*", 4))
        assert len({int(r.resource_name[4:]) for r in granted_rows(am.sent.ask).values()} - there) == 2


def test_quotas_count_what_all_workers_have() -> None:
    first, second, _ = pair()
    assert second.used_q() == Resources()
    second.hears(first)
    assert second.used_q() == first.used_q() == Resources(3 * 1024, 3)
    assert not second.hears(first), "there is no more news"


def test_an_application_that_waits_claims_places_at_the_other_worker() -> None:
    first, second = Process(0), Process(1)
    am = Am(first.world)
    am.asks(row("*", 20))
    second.hears(first)
    assert len(second.world.central) == len(first.world.central) == 1
    am.asks(row("*", 0))
    second.hears(first)
    assert len(second.world.central) == len(first.world.central) == 0


def test_a_new_link_gets_all_that_holds() -> None:
    first, second, _ = pair()
    first.outbox.take(first.world.nodes)  # nobody got it
    third = Process(1)
    third.hears(first, whole=True)
    second.hears(first, whole=True)
    assert third.free() == second.free() == 13
    assert third.used_q() == second.used_q() == Resources(3 * 1024, 3)


def test_what_a_worker_did_goes_with_it() -> None:
    first, second, am = pair()
    am.asks(row("*", 30))
    am.gets(*am.granted())
    first.outbox.round(list(first.world.attempts.living()), lambda app: first.world.durations.outlook.of_app(app, 1.0))
    second.hears(first)
    assert second.free() == 0 and len(second.world.central) == 1
    assert second.world.durations.outlook.job_remaining_s(APP, 1.0) > 0
    second.peers.forget(0)
    second.world.durations.outlook.round()
    assert second.free() == 16 and len(second.world.central) == 0
    assert second.used_q() == Resources()
    assert second.world.durations.outlook.job_remaining_s(APP, 1.0) == 0


def test_an_outlook_is_sent_when_it_changed_by_a_tenth() -> None:
    first, second, am = pair()
    am.gets(*am.granted())

    def round_at(now_s: float) -> None:
        first.world.durations.outlook.round()
        living = list(first.world.attempts.living())
        first.outbox.round(living, lambda app: first.world.durations.outlook.of_app(app, now_s))

    round_at(1.0)
    sent = second.hears(first).outlooks
    assert sent[APP] == first.world.durations.outlook.of_app(APP, 1.0)
    assert second.world.durations.outlook.job_remaining_s(APP, 1.0) == first.world.durations.outlook.job_remaining_s(
        APP, 1.0
    )
    round_at(1.01)
    assert not second.hears(first).outlooks
    am.attempt.end("over")
    round_at(2.0)
    assert second.hears(first).outlooks == {APP: None}
    assert APP not in second.world.durations.outlook.elsewhere


def test_the_worker_of_an_application_handles_events_of_nodes_that_report_elsewhere() -> None:
    first, second, am = pair()
    am.gets(*am.granted())
    shed = ContainerEvent(seq=4, container_id=cid(1), kind=EventKind.SHED, at_s=1.0, cause="hold")
    reported = report(1, seq=2, events=[shed])
    assert second.world.reports.report(node_id(1), reported, 1.0, ()).events_to == 4, "it is none of its own"
    ack = first.world.reports.report_elsewhere(node_id(1), reported, 1.0, [shed], second.bare(1))
    assert ack.events_to == 3, "its application master does not know the end yet"
    assert len(am.attempt.live) == 2


def test_what_a_sidecar_has_to_do_goes_by_the_worker_of_its_node() -> None:
    first, second, am = pair()
    am.gets(*am.granted())
    am.attempt.end("the application ended")
    waiting = container_report(1, state="waiting")
    there = report(1, seq=2, containers=[waiting])
    ack = first.world.reports.report_elsewhere(node_id(1), there, 1.0, (), second.bare(1))
    assert ack.drop == [cid(1)]
    second.world.reports.order_elsewhere(node_id(1), ack)
    orders = second.world.reports.orders(node_id(1))
    assert orders is not None and orders.drop == [cid(1)] and orders.drop_reason == ack.drop_reason
    first.world.reports.confirmed(node_id(1), [cid(2)])
    ack = first.world.reports.report_elsewhere(node_id(1), there, 1.0, (), second.bare(1))
    second.world.reports.order_elsewhere(node_id(1), ack)
    orders = second.world.reports.orders(node_id(1))
    assert orders is not None and orders.known == [cid(2)], "a container that the ResourceManager knows by now"


def test_applications_and_nodes_are_spread_by_their_ids() -> None:
    spread = Spread(1, 4)
    assert [spread.of_app(f"application_17_{n:04d}") for n in range(6)] == [0, 1, 2, 3, 0, 1]
    assert spread.of_attempt("appattempt_17_0006_000001") == spread.of_container("container_e03_17_0006_01_000009") == 2
    assert spread.of_container("nothing") == spread.of_app("") == 0
    assert {spread.of_node(f"host{n}:8041") for n in range(40)} == {0, 1, 2, 3}


def am_of(process: Process, app: int) -> Am:
    """A master of one more application of a worker, which may wait in the central queue."""
    record = AppRecord(f"application_{TIMESTAMP}_{app:04d}", "default", "u", "MAPREDUCE", "job", (), 0, 0.0)
    process.world.inventory.update_app(record)
    am = Am(process.world)
    am.attempt = process.world.attempt(f"appattempt_{TIMESTAMP}_{app:04d}_000001")
    return am


@given(st.lists(st.tuples(st.sampled_from([0, 1]), st.integers(1, 6), st.booleans()), max_size=12))
@settings(max_examples=of_share(30), deadline=None)
def test_nodes_get_no_more_than_was_placed_within_one_exchange(steps: list[tuple[int, int, bool]]) -> None:
    processes = [Process(0), Process(1)]
    masters = [am_of(process, number + 2) for number, process in enumerate(processes)]
    asked, since, bound = [0, 0], [0, 0], 0
    for worker, count, exchanges in steps:
        asked[worker] += count
        before = len(masters[worker].attempt.table.by_private)
        masters[worker].asks(row("*", asked[worker]))
        since[worker] += len(masters[worker].attempt.table.by_private) - before
        if exchanges:
            processes[0].hears(processes[1])
            processes[1].hears(processes[0])
            bound, since = bound + min(since), [0, 0]
    bound += min(since)
    nodes = Counter(q.node_id for master in masters for q in master.attempt.table.by_private.values())
    assert nodes.total() <= NODES * 8 + bound
    assert all(count <= 8 + bound for count in nodes.values())
    if all(exchanges for *_, exchanges in steps) and sum(asked) >= NODES * 8:
        assert nodes.total() == NODES * 8, "no place is lost between them"


def test_a_node_that_reports_to_another_worker_has_the_limit_and_the_speed_that_this_one_found() -> None:
    first, second = Process(0), Process(1)
    node = second.world.nodes[node_id(1)]
    node.limit_to(Resources(2048, 2))
    node.slow_by(1.5)
    reported = report(1, seq=2, used_g_mb=1024, used_g_vcores=1)
    second.world.reports.report(node_id(1), reported, 1.0)
    first.world.reports.report_of_others(node_id(1), reported, 1.0, second.bare(1))
    shown = first.world.nodes[node_id(1)]
    shown.limit_to(None)
    shown.slow_by(1.0)
    assert shown.view == node.view and shown.slow_ratio == 1.5
    assert shown.view.limit_q == Resources(2048, 2) and shown.view.slow_ratio == 1.5
    first.world.rounds.all_parts(1000.0)
    assert not shown.view.usable, "it is silent"
