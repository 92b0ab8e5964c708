"""The coordinator by example: nodes, reports, events once, applications' ends, the shortlist of a large cluster."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.config.policy_set import Policies
from policies.model import AppView, Ask, Resources
from quicksilver.common.messages import EventKind, WaitBySize
from rm_proxy.api.queue_views import all_queues, one_queue
from rm_proxy.api.yarn_pages import YarnPages
from rm_proxy.attempt.effects import DropHeld
from rm_proxy.coordinator import rounds
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.nodes import node_sampling
from rm_proxy.coordinator.nodes.nodes import NodeReservation
from rm_proxy.coordinator.queue_usage import QueueUsage
from rm_proxy.coordinator.reports import sidecar_reports
from rm_proxy.domain.records import AppRecord
from rm_proxy.yarn.models import YarnQueue
from tests.examples import of_share
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    APP,
    ATTEMPT,
    TIMESTAMP,
    Am,
    cid,
    container,
    container_report,
    coordinator,
    ended,
    event,
    granted_rows,
    node_id,
    report,
    row,
    yarn_node,
)


def holding(count: int = 1) -> Am:
    """An application that was given `count` queueable containers on node 1."""
    am = Am(coordinator(nodes=1))
    am.asks(row("*", count))
    am.gets(*(container(n + 1, 1, r) for n, r in enumerate(granted_rows(am.sent.ask).values())))
    return am


def test_events_count_once_by_boot_and_number() -> None:
    am = holding(2)
    world = am.world
    world.reports.report(node_id(1), report(1, events=[event(1, EventKind.SHED, seq=1)]), 1.0)
    assert len(am.attempt.live) == 1
    again = [event(1, EventKind.SHED, seq=1), event(2, EventKind.STARTED, seq=2)]
    world.reports.report(node_id(1), report(1, events=again), 2.0)
    am.asks()
    assert len(am.gets().completed_container_statuses) == 1
    world.reports.report(node_id(1), report(1, boot="c", events=[event(2, EventKind.KILLED, seq=1)]), 3.0)
    live = am.attempt.live.get(cid(2))
    assert live is not None and live.killed == "room was needed"


def test_an_end_is_acknowledged_once_the_application_has_confirmed_it_or_for_too_long_has_not() -> None:
    am = holding(3)
    world = am.world
    events = [event(1, EventKind.SHED, seq=1), event(2, EventKind.STARTED, seq=2)]

    def acked(at_s: float, boot: str = "b") -> int:
        return world.reports.report(node_id(1), report(1, boot=boot, events=events), at_s).events_to

    assert acked(1.0) == 0
    am.asks()
    assert acked(2.0) == 0
    assert len(am.gets().completed_container_statuses) == 1
    assert acked(3.0) == 0  # the answer may be lost
    am.asks()
    assert acked(4.0) == 2
    events = [event(3, EventKind.KILLED, seq=3), event(2, EventKind.KILLED, seq=4)]
    assert acked(5.0) == 2  # the ResourceManager has not told the ends yet, which the kills explain
    assert acked(70.0) == 4


def test_durations_are_learnt_from_the_sidecars() -> None:
    am = holding()
    app = am.world.apps.app(APP)
    assert app is not None and am.world.durations.expected(app, 20).mean_s == 10.0
    am.world.reports.report(node_id(1), report(1, events=[event(1, EventKind.ENDED, ran_s=42.0)]), 1.0)
    assert am.world.durations.expected(app, 20).mean_s == 42.0


def test_durations_of_shrunk_containers_are_the_cpu_that_they_were_given() -> None:
    """Wall time counts standing still; of one that was never shrunk it counts what it waited for itself."""
    cases = [
        ({"ran_s": 42.0, "attained_s": 12.0, "times_shrunk": 2}, 12.0),
        ({"ran_s": 42.0, "attained_s": 12.0}, 42.0),
        ({"ran_s": 42.0, "times_shrunk": 1}, 42.0),
        ({"ran_s": 42.0, "attained_s": 80.0, "times_shrunk": 1}, 42.0),
        ({"attained_s": 80.0, "times_shrunk": 1}, 10.0),
    ]
    for fields, expected_s in cases:
        am = holding()
        app = am.world.apps.app(APP)
        assert app is not None
        ended = event(1, EventKind.ENDED).model_copy(update=fields)
        am.world.reports.report(node_id(1), report(1, events=[ended]), 1.0)
        assert am.world.durations.expected(app, 20).mean_s == expected_s, fields


def test_undelivered_drops_go_with_the_next_ack() -> None:
    world = coordinator()
    world.reports.undelivered(DropHeld(node_id(1), cid(1), "released"))
    ack = world.reports.report(node_id(1), report(1), 1.0)
    assert (ack.drop, ack.drop_reason) == ([cid(1)], "released")
    assert world.reports.report(node_id(1), report(1), 1.0).drop == []


def test_undelivered_confirmations_go_with_the_next_ack_or_order() -> None:
    world = coordinator()
    world.reports.confirmed(node_id(1), [cid(1), cid(2)])
    world.reports.confirmed(node_id(1), [])
    assert node_id(1) in world.reports.nodes_with_orders()
    assert world.reports.report(node_id(1), report(1), 1.0).known == [cid(1), cid(2)]
    assert world.reports.report(node_id(1), report(1), 1.0).known == []
    world.reports.confirmed(node_id(1), [cid(3)])
    order = world.reports.orders(node_id(1))
    assert order is not None and order.known == [cid(3)] and world.reports.orders(node_id(1)) is None
    world.reports.confirmed("gone:1", [cid(1)])
    assert "gone:1" not in world.reports.nodes_with_orders()


@pytest.mark.parametrize("end", ["finished", "newer attempt"])
def test_the_end_of_an_attempt_drops_what_is_held_and_charges_nothing(end: str) -> None:
    am = holding(3)
    am.asks(row("*", 2))
    am.attempt.containers.on_event(event(1, EventKind.STARTED), 1.0)
    am.attempt.take_effects()
    if end == "finished":
        am.world.inventory.update_app(AppRecord(APP, "default", "u", "MAPREDUCE", "job", (), 0, 0.0, finished_s=9.0))
    else:
        am.world.attempt(ATTEMPT[:-1] + "2")
    dropped = [e.container_id for e in am.world.take_effects() if isinstance(e, DropHeld)]
    assert dropped == [cid(2), cid(3)], "what runs is YARN's to stop"
    assert am.attempt.finished and not len(am.attempt.live) and not am.attempt.entries
    queue = am.world.inventory.queue("root.default")
    assert queue is not None and queue.used_q == Resources()


def test_nodes_that_take_nothing() -> None:
    world = coordinator(nodes=5)
    world.yarn_nodes([yarn_node(1, state="DECOMMISSIONING"), *(yarn_node(n) for n in range(2, 6))], 1.0)
    world.reports.report(node_id(2), report(2, draining=True), 1.0)
    world.inventory.node_changed(node_id(3), False)
    world.reports.report(node_id(4), report(4), 8.0)
    world.rounds.all_parts(8.0)
    assert [n.id for n in world.nodes.values() if n.view.usable] == [node_id(4)]
    reasons = [world.nodes[node_id(n)].why_not(8.0, world.limits.report_fresh_s) for n in (1, 2, 3, 5)]
    assert reasons[0] == "its state is DECOMMISSIONING"
    assert reasons[2] == "the ResourceManager reported it as unusable"
    assert reasons[3] == "its sidecar's last report is 8 s old"


def test_what_an_admin_ordered_is_told_from_what_broke() -> None:
    world = coordinator(nodes=3)
    states = {1: "RUNNING", 2: "RUNNING", 3: "DECOMMISSIONING", 4: "RUNNING", 5: "LOST"}
    world.yarn_nodes([yarn_node(n, state=state) for n, state in states.items()], 1.0)
    world.reports.report(node_id(2), report(2, draining=True, drain_reason="new disk"), 1.0)
    uses = [world.nodes[node_id(n)].use(1.0, 5.0) for n in states]
    meant = [
        NodeReservation.USABLE,
        NodeReservation.DRAINED,
        NodeReservation.DRAINED,
        NodeReservation.NO_SIDECAR,
        NodeReservation.NOT_RUNNING,
    ]
    assert uses == meant
    later = [world.nodes[node_id(n)].use(9.0, 5.0) for n in (1, 2)]
    assert later == [NodeReservation.UNUSABLE, NodeReservation.UNUSABLE], (
        "whose sidecar is silent is not drained, but broken"
    )


def test_placements_count_until_the_sidecar_tells_of_them() -> None:
    am = holding(3)
    node = am.world.nodes[node_id(1)]
    assert node.view.used_q == Resources(3072, 3)
    reported = {"used_q_mb": 1024, "used_q_vcores": 1, "containers": [container_report(1)]}
    am.world.reports.report(node_id(1), report(1, **reported), 1.0)
    assert node.view.used_q == Resources(3072, 3), "one by the report, two on top"
    am.world.reports.report(node_id(1), report(1, **reported), 60.0)
    assert node.view.used_q == Resources(3072, 3), "however long the application master takes to start them"
    am.world.reports.report(node_id(1), report(1, **reported, events=[event(2, EventKind.ENDED, ran_s=1.0)]), 61.0)
    assert node.view.used_q == Resources(2048, 2), "it came and went between two reports"
    am.asks()
    am.gets(completed=[ended(3, -100)])
    am.world.rounds.all_parts(61.0)
    assert node.view.used_q == Resources(1024, 1), "one was never started"
    assert not node.own


def test_what_is_asked_for_counts_until_it_is_asked_for_no_longer() -> None:
    world = coordinator(nodes=2)
    am = Am(world)
    am.asks(row("*", 4))
    first, second = world.nodes[node_id(1)], world.nodes[node_id(2)]
    assert [len(n.own) for n in (first, second)] == [2, 2]
    on_first = [r for r in granted_rows(am.sent.ask).values() if r.resource_name == "host1"]
    on_second = [r for r in granted_rows(am.sent.ask).values() if r.resource_name == "host2"]
    am.gets(container(1, 1, on_first[0]), container(2, 1, on_second[0]))
    world.rounds.all_parts(3.0)
    assert [len(n.own) for n in (first, second)] == [3, 1], "one came to another node than it was asked for"
    am.asks()
    world.rounds.all_parts(4.0)
    assert [len(n.own) for n in (first, second)] == [3, 1], "what was not granted was asked of the other node"
    am.asks(row("*", 0))
    world.rounds.all_parts(5.0)
    assert [len(n.own) for n in (first, second)] == [2, 0], "the application takes its ask back"
    am.attempt.on_finished()
    world.rounds.all_parts(6.0)
    assert not first.own and not second.own


def test_own_containers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rm_proxy.coordinator.nodes.nodes.MAX_OWN", 3)
    am = holding(5)
    assert list(am.world.nodes[node_id(1)].own) == [cid(3), cid(4), cid(5)]


@pytest.mark.parametrize("taken", [0, 6])
@given(nodes=st.integers(2, 12), count=st.integers(1, 60), seed=st.integers(0, 9))
@settings(max_examples=30, deadline=None)
def test_a_batch_spreads_over_equal_nodes(taken: int, nodes: int, count: int, seed: int) -> None:
    """Of a batch no node gets two more than another when each goes to the best node; few more when k are drawn from."""
    spread = {}
    for k in (1, 50):
        world = coordinator({**ALL_Q, "place": {"policy": "topk_wait", "settings": {"k": k}}}, nodes=nodes)
        world.rng.seed(seed)
        for number in range(1, nodes + 1):
            world.reports.report(node_id(number), report(number, used_g_mb=1024 * taken, used_g_vcores=taken), 0.0)
        am = Am(world)
        am.asks(row("*", count))
        got = [len(node.own) for node in world.nodes.values()]
        assert sum(got) == count
        spread[k] = max(got) - min(got)
    assert spread[1] <= 1
    pool = -(-nodes // 5)
    assert spread[50] <= 1 if pool == 1 else spread[50] <= 6


@pytest.mark.parametrize("count", [6, 12])
def test_a_batch_fills_the_cores_of_all_nodes_before_it_waits(count: int) -> None:
    """By completion time (Apollo): on its way to a node with a free core, a container takes that core."""
    place = {"policy": "completion_time", "settings": {"noise_s": 0.0}}
    world = coordinator({**ALL_Q, "place": place}, nodes=3)
    waits = [WaitBySize(memory_mb=8192, vcores=8, wait_s=0.0)]
    for number in range(1, 4):
        world.reports.report(node_id(number), report(number, used_g_mb=6144, used_g_vcores=6, waits=waits), 0.0)
    Am(world).asks(row("*", count))
    assert [len(node.own) for node in world.nodes.values()] == [count // 3] * 3


def test_forgets_the_oldest_ended_applications(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rm_proxy.coordinator.yarn_inventory.MAX_APPS", 3)
    world = coordinator()
    world.attempt(ATTEMPT)
    for number in range(2, 7):
        world.inventory.update_app(
            AppRecord(f"application_1_{number:04d}", "default", "u", "SPARK", "n", (), 0, 0.0, 1.0)
        )
    assert APP in world.inventory.records, "it lives"
    assert len(world.inventory.records) <= 4
    world.attempts[ATTEMPT].on_finished()
    world.inventory.update_app(AppRecord("application_1_0009", "default", "u", "SPARK", "n", (), 0, 0.0, 1.0))
    assert APP not in world.inventory.records and ATTEMPT not in world.attempts


def test_a_nodes_leaving_forgets_what_was_kept_for_it() -> None:
    world = coordinator(nodes=2)
    reported = report(2, events=[event(1, EventKind.ENDED)])
    world.reports.report(node_id(2), reported, 1.0)
    assert world.reports.new_events(node_id(2), reported) == []
    world.reports.undelivered(DropHeld(node_id(2), cid(1), "x"))
    world.yarn_nodes([yarn_node(1)], 100.0)
    assert list(world.nodes) == [node_id(1)]
    assert world.reports.new_events(node_id(2), reported) == reported.events
    assert world.reports.report(node_id(2), report(2), 101.0).drop == []


# The shortlist


def large(nodes: int = 600) -> Coordinator:
    world = coordinator(nodes=nodes)
    world.yarn_nodes(
        [yarn_node(n, rack=f"/r{n % 20}", label="gpu" if n % 100 == 0 else "") for n in range(1, nodes + 1)], 0.0
    )
    return world


def test_small_clusters_are_shown_whole() -> None:
    world = coordinator(nodes=20)
    ask = Ask(AppView(APP), 20, Resources(1024, 1))
    assert len(world.placer.sampling.candidates(ask, {node_id(3)}, Random(1))) == 19


def test_large_clusters_are_sampled_with_the_asks_hosts_and_label() -> None:
    world = large()
    ask = Ask(AppView(APP), 20, Resources(1024, 1), hosts=frozenset({"host7", "host599"}))
    for seed in range(40):
        shown = world.placer.sampling.candidates(ask, frozenset(), Random(seed))
        assert {"host7", "host599"} <= {n.host for n in shown}
        assert node_sampling.MAX_SHOWN <= len(shown) <= node_sampling.MAX_SHOWN + 2
        assert len({n.id for n in shown}) == len(shown)
    labelled = Ask(AppView(APP), 20, Resources(1024, 1), label="gpu")
    assert {n.label for n in world.placer.sampling.candidates(labelled, frozenset(), Random(1))} == {"gpu"}
    assert len(world.placer.sampling.candidates(labelled, frozenset(), Random(1))) == 6


def test_strict_asks_see_all_their_hosts_and_racks() -> None:
    world = large()
    ask = Ask(AppView(APP), 20, Resources(1024, 1), racks=frozenset({"/r3"}), anywhere=False)
    assert {n.rack for n in world.placer.sampling.candidates(ask, frozenset(), Random(1))} == {"/r3"}
    assert len(world.placer.sampling.candidates(ask, frozenset(), Random(1))) == 30


def test_the_sample_changes() -> None:
    world = large()
    ask = Ask(AppView(APP), 20, Resources(1024, 1))
    rng = Random(1)
    samples = [{n.id for n in world.placer.sampling.candidates(ask, frozenset(), rng)} for _ in range(64)]
    assert len({frozenset(s) for s in samples}) == 64 // node_sampling.REUSED


# Sums and estimates


def test_charges_replace_each_other_and_fall_to_nothing() -> None:
    use = QueueUsage()
    use.charge("a1", "root.q", "u", Resources(1024, 1))
    use.charge("a2", "root.q", "v", Resources(2048, 2))
    use.charge("a1", "root.q", "u", Resources(512, 1))
    assert use.of("root.q") == (Resources(2560, 3), {"u": Resources(512, 1), "v": Resources(2048, 2)})
    use.charge("a1", "root.p", "u", Resources(512, 1))
    assert use.of("root.q") == (Resources(2048, 2), {"v": Resources(2048, 2)})
    assert (use.of("root")[0], use.all) == (Resources(2560, 3), Resources(2560, 3))
    use.charge("a2", "root.q", "v", Resources())
    use.charge("a1", "root.p", "u", Resources())
    use.charge("a3", "root.p", "u", Resources())
    assert use.of("root.q") == (Resources(), {}) and not use._sums and not use._charged


def test_unknown_containers_and_nodes_are_ignored() -> None:
    world = coordinator()
    world.reports.report(
        "elsewhere:1", report(9, events=[event(99, EventKind.SHED)]).model_copy(update={"node_id": "elsewhere:1"}), 1.0
    )
    assert world.inventory.node("elsewhere:1") is not None
    assert not world.nodes["elsewhere:1"].view.usable
    world.inventory.node_changed("nowhere:1", True)
    assert world.inventory.queue("root.nope") is None
    assert (
        Coordinator(world.policies, Random(1)).placer.place(Ask(AppView(APP), 1, Resources(1, 1)), set()).node is None
    )


def test_a_queue_with_those_above_it_and_the_whole_cluster() -> None:
    world = coordinator(nodes=3)

    def queue(path: str, memory_mb: int, **more: Any) -> YarnQueue:
        return YarnQueue(path, True, "RUNNING", Resources(memory_mb, 8), Resources(512, 1), frozenset(), "", **more)

    limit = Resources(1024, 1)
    world.inventory.update_queues(
        [queue("root", 9000), queue("root.p", 8000), queue("root.p.a", 7000, user_limit=limit), queue("root.b", 6000)]
    )
    for number, name in enumerate(("root.p.a", "root.b"), 1):
        record = AppRecord(f"application_{TIMESTAMP}_{number:04d}", name, "ann", "SPARK", "job", (), 0, 0.0)
        world.inventory.update_app(record)
        world.inventory.charge(f"appattempt_{TIMESTAMP}_{number:04d}_000001", Resources(1024 * number, number))
    view = world.inventory.queue("root.p.a")
    assert view is not None
    assert view.used_q == Resources(1024, 1) and view.user_limit == limit
    assert [(p.name, p.max_capacity.memory_mb, p.used_q) for p in view.parents] == [
        ("root.p", 8000, Resources(1024, 1)),
        ("root", 9000, Resources(3072, 3)),
    ]
    assert view.cluster == Resources(3 * 8192, 24) and view.cluster_used_q == Resources(3072, 3)
    more = view.plus("ann", Resources(100, 0))
    assert [more.used_q.memory_mb, more.user_used_q["ann"].memory_mb, more.cluster_used_q.memory_mb] == [
        1124,
        1124,
        3172,
    ]
    assert [p.used_q.memory_mb for p in more.parents] == [1124, 3172]


def test_queues_with_what_the_quota_leaves() -> None:
    """4096 MB less 1024 MB of guaranteed ones less 1024 MB of queueable ones; ann has 512 MB of her limit left."""
    share = {"policy": "queue_share", "settings": {"user_ratio": 1.0}}
    world = coordinator({**ALL_Q, "quota": [share, {"policy": "absolute"}]}, nodes=1)
    size, used = Resources(4096, 8), Resources(1024, 1)
    leaf = YarnQueue("root.a", True, "RUNNING", size, used, frozenset(), "", {"ann": used}, Resources(2560, 8), 3)
    world.inventory.update_queues([YarnQueue("root", False, "RUNNING", Resources(), used, frozenset(), ""), leaf])
    world.inventory.update_app(AppRecord(APP, "root.a", "ann", "SPARK", "job", (), 0, 0.0))
    world.inventory.charge(ATTEMPT, Resources(1024, 1))
    (listed,) = all_queues(world, YarnPages(""))
    assert (listed.left_q, listed.priority) == (Resources(2048, 6), 3)
    queue = one_queue(world, "a", YarnPages(""))
    assert queue is not None and queue.user_limit == Resources(2560, 8)
    (ann,) = queue.users
    assert (ann.user, ann.used_g, ann.used_q, ann.left_q) == ("ann", used, Resources(1024, 1), Resources(512, 6))
    assert [a.name for a in queue.above] == ["root"] and queue.cluster_used_q == Resources(1024, 1)
    assert one_queue(world, "root.b", YarnPages("")) is None
    world.use(Policies.load({**ALL_Q}), 1.0)
    assert all_queues(world, YarnPages(""))[0].left_q is None


def test_nodes_that_nobody_lists_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar_reports, "MAX_UNLISTED", 2)
    world = coordinator(nodes=1)
    for number in (7, 8):
        assert world.reports.takes_report(node_id(number))
        world.reports.report(node_id(number), report(number), 1.0)
    assert not world.reports.takes_report(node_id(9)), "forged, or many"
    assert world.reports.takes_report(node_id(1)) and world.reports.takes_report(node_id(7))
    world.yarn_nodes([yarn_node(n) for n in (1, 7)], 2.0)
    assert world.reports.takes_report(node_id(9)), "one of them is listed now"


def test_nodes_and_attempts_may_come_and_go_in_the_breaks_of_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "BREAK_EVERY", 1)
    am = holding(2)
    world, breaks = am.world, 0
    for _ in world.rounds.in_parts(100.0):  # all reports are stale
        breaks += 1
        world.reports.report(node_id(50 + breaks), report(50 + breaks), 100.0)
        world.attempt(f"appattempt_{TIMESTAMP}_0001_{breaks + 1:06d}")
        world.yarn_nodes([yarn_node(1)], 100.0)
    assert breaks >= 3 and not world.nodes[node_id(1)].view.usable
    assert am.attempt.finished, "a newer attempt came meanwhile"


reported = st.fixed_dictionaries({"queue_length": st.integers(0, 3), "draining": st.booleans()})


@given(st.lists(st.one_of(reported, st.sampled_from(["/r1", "/r2", "unusable", "limit"]), st.floats(0, 4)), max_size=8))
@settings(max_examples=of_share(100))
def test_what_a_round_leaves_out_would_not_have_changed(story: list[dict[str, Any] | str | float]) -> None:
    world, now_s = coordinator(nodes=1), 0.0
    node = world.nodes[node_id(1)]
    world.reports.report(node.id, report(1), now_s)
    for step in story:
        match step:
            case dict():
                world.reports.report(node.id, report(1, **step), now_s)
            case float():
                now_s += step
            case "unusable":
                world.inventory.node_changed(node.id, False)
            case "limit":
                node.limit_to(Resources(1024, 1))
            case str():
                world.yarn_nodes([replace(yarn_node(1), rack=step)], now_s)
        world.rounds.all_parts(now_s)
        seen = node.view, node.bare
        world.inventory.refresh(node, now_s)
        assert (node.view, node.bare) == seen


def test_capacities_hold_on_until_the_nodes_of_a_new_resourcemanager_have_registered() -> None:
    world = coordinator(nodes=1)
    size, limit, used = Resources(8192, 8), Resources(4096, 4), Resources(512, 1)
    before = YarnQueue("root.a", True, "RUNNING", size, used, frozenset(), "", user_limit=limit, capacity=size)
    world.inventory.update_queues([before])
    none = replace(before, max_capacity=Resources(), capacity=Resources(), user_limit=None, used=Resources())
    world.inventory.update_queues([none, replace(none, path="root.new")])
    assert world.inventory.queues["root.a"] == replace(before, used=Resources())
    assert world.inventory.queues["root.new"].max_capacity == Resources()
    assert world.inventory.lacks_capacity and world.inventory.shares.known
    world.inventory.update_queues([replace(before, max_capacity=limit)])
    assert world.inventory.queues["root.a"].max_capacity == limit and not world.inventory.lacks_capacity
