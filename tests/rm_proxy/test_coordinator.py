"""The coordinator by example: nodes, reports, events once, applications' ends, the shortlist of a large cluster."""

from random import Random

import pytest

from policies.model import AppView, Ask, Resources
from rm_proxy import shortlist
from rm_proxy.coordinator import Coordinator
from rm_proxy.estimator import Estimator
from rm_proxy.records import AppRecord
from rm_proxy.usage import QueueUse
from rm_proxy.world import DropHeld
from shell.messages import ContainerReport, ContainerState, EventKind
from tests.rm_proxy.yarn import (
    APP,
    ATTEMPT,
    Am,
    cid,
    container,
    coordinator,
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
    ack = world.report(node_id(1), report(1, events=[event(1, EventKind.SHED, seq=1)]), 1.0)
    assert ack.events_to == 1
    assert len(am.attempt.live) == 1
    again = [event(1, EventKind.SHED, seq=1), event(2, EventKind.STARTED, seq=2)]
    assert world.report(node_id(1), report(1, events=again), 2.0).events_to == 2
    am.asks()
    assert len(am.gets().completed_container_statuses) == 1
    assert world.report(node_id(1), report(1, boot="c", events=[event(2, EventKind.KILLED, seq=1)]), 3.0).events_to == 1
    live = am.attempt.live.get(cid(2))
    assert live is not None and live.killed == "room was needed"


def test_durations_are_learnt_from_the_sidecars() -> None:
    am = holding()
    app = am.world.app(APP)
    assert app is not None and am.world.expected_s(app, 20) == 10.0
    am.world.report(node_id(1), report(1, events=[event(1, EventKind.ENDED, ran_s=42.0)]), 1.0)
    assert am.world.expected_s(app, 20) == 42.0


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
        app = am.world.app(APP)
        assert app is not None
        ended = event(1, EventKind.ENDED).model_copy(update=fields)
        am.world.report(node_id(1), report(1, events=[ended]), 1.0)
        assert am.world.expected_s(app, 20) == expected_s, fields


def test_undelivered_drops_go_with_the_next_ack() -> None:
    world = coordinator()
    world.undelivered(DropHeld(node_id(1), cid(1), "released"))
    ack = world.report(node_id(1), report(1), 1.0)
    assert (ack.drop, ack.drop_reason) == ([cid(1)], "released")
    assert world.report(node_id(1), report(1), 1.0).drop == []


@pytest.mark.parametrize("end", ["finished", "newer attempt"])
def test_the_end_of_an_attempt_drops_what_is_held_and_charges_nothing(end: str) -> None:
    am = holding(3)
    am.asks(row("*", 2))
    am.attempt.on_event(event(1, EventKind.STARTED), 1.0)
    am.attempt.take_effects()
    if end == "finished":
        am.world.yarn_app(AppRecord(APP, "default", "u", "MAPREDUCE", "job", (), 0, 0.0, finished_s=9.0))
    else:
        am.world.attempt(ATTEMPT[:-1] + "2")
    dropped = [e.container_id for e in am.world.take_effects() if isinstance(e, DropHeld)]
    assert dropped == [cid(2), cid(3)], "what runs is YARN's to stop"
    assert am.attempt.finished and not len(am.attempt.live) and not am.attempt.entries
    queue = am.world.queue("root.default")
    assert queue is not None and queue.used_q == Resources()


def test_nodes_that_take_nothing() -> None:
    world = coordinator(nodes=5)
    world.yarn_nodes([yarn_node(1, state="DECOMMISSIONING"), *(yarn_node(n) for n in range(2, 6))], 1.0)
    world.report(node_id(2), report(2, draining=True), 1.0)
    world.node_changed(node_id(3), False)
    world.report(node_id(4), report(4), 8.0)
    world.round(8.0)
    assert [n.id for n in world.nodes.values() if n.view.usable] == [node_id(4)]
    reasons = [world.nodes[node_id(n)].why_not(8.0, world.limits.report_fresh_s) for n in (1, 2, 3, 5)]
    assert reasons[0] == "its state is DECOMMISSIONING"
    assert reasons[2] == "the ResourceManager said that it became unusable"
    assert reasons[3] == "its sidecar's last report is 8 s old"


def test_placements_count_until_the_sidecar_tells_of_them() -> None:
    am = holding(3)
    node = am.world.nodes[node_id(1)]
    assert node.view.used_q == Resources(3072, 3)
    for number in (1, 2, 3):
        am.world.announced(node_id(1), APP, cid(number))
    known = ContainerReport(
        container_id=cid(1), app_id=APP, kind="Q", state=ContainerState.RUNNING, memory_mb=1024, vcores=1
    )
    am.world.report(node_id(1), report(1, used_q_mb=1024, used_q_vcores=1, containers=[known]), 1.0)
    assert node.view.used_q == Resources(3072, 3), "one by the report, two on top"
    am.world.report(node_id(1), report(1, used_q_mb=1024, used_q_vcores=1, containers=[known]), 7.0)
    assert node.view.used_q == Resources(1024, 1), "after 5 s they have gone elsewhere"


def test_forgets_the_oldest_ended_applications(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rm_proxy.coordinator.MAX_APPS", 3)
    world = coordinator()
    world.attempt(ATTEMPT)
    for number in range(2, 7):
        world.yarn_app(AppRecord(f"application_1_{number:04d}", "default", "u", "SPARK", "n", (), 0, 0.0, 1.0))
    assert APP in world.records, "it lives"
    assert len(world.records) <= 4
    world.attempts[ATTEMPT].on_finished()
    world.yarn_app(AppRecord("application_1_0009", "default", "u", "SPARK", "n", (), 0, 0.0, 1.0))
    assert APP not in world.records and ATTEMPT not in world.attempts


def test_a_nodes_leaving_forgets_what_was_kept_for_it() -> None:
    world = coordinator(nodes=2)
    world.undelivered(DropHeld(node_id(2), cid(1), "x"))
    world.yarn_nodes([yarn_node(1)], 100.0)
    assert list(world.nodes) == [node_id(1)]
    assert not world._drops and node_id(2) not in world._acked


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
    assert len(world._shortlist.candidates(ask, {node_id(3)}, Random(1))) == 19


def test_large_clusters_are_sampled_with_the_asks_hosts_and_label() -> None:
    world = large()
    ask = Ask(AppView(APP), 20, Resources(1024, 1), hosts=frozenset({"host7", "host599"}))
    for seed in range(40):
        shown = world._shortlist.candidates(ask, frozenset(), Random(seed))
        assert {"host7", "host599"} <= {n.host for n in shown}
        assert shortlist.MAX_SHOWN <= len(shown) <= shortlist.MAX_SHOWN + 2
        assert len({n.id for n in shown}) == len(shown)
    labelled = Ask(AppView(APP), 20, Resources(1024, 1), label="gpu")
    assert {n.label for n in world._shortlist.candidates(labelled, frozenset(), Random(1))} == {"gpu"}
    assert len(world._shortlist.candidates(labelled, frozenset(), Random(1))) == 6


def test_strict_asks_see_all_their_hosts_and_racks() -> None:
    world = large()
    ask = Ask(AppView(APP), 20, Resources(1024, 1), racks=frozenset({"/r3"}), anywhere=False)
    assert {n.rack for n in world._shortlist.candidates(ask, frozenset(), Random(1))} == {"/r3"}
    assert len(world._shortlist.candidates(ask, frozenset(), Random(1))) == 30


def test_the_sample_changes() -> None:
    world = large()
    ask = Ask(AppView(APP), 20, Resources(1024, 1))
    rng = Random(1)
    samples = [{n.id for n in world._shortlist.candidates(ask, frozenset(), rng)} for _ in range(64)]
    assert len({frozenset(s) for s in samples}) == 64 // shortlist.REUSED


# Sums and estimates


def test_charges_replace_each_other_and_fall_to_nothing() -> None:
    use = QueueUse()
    use.charge("a1", "root.q", "u", Resources(1024, 1))
    use.charge("a2", "root.q", "v", Resources(2048, 2))
    use.charge("a1", "root.q", "u", Resources(512, 1))
    assert use.of("root.q") == (Resources(2560, 3), {"u": Resources(512, 1), "v": Resources(2048, 2)})
    use.charge("a1", "root.p", "u", Resources(512, 1))
    assert use.of("root.q") == (Resources(2048, 2), {"v": Resources(2048, 2)})
    use.charge("a2", "root.q", "v", Resources())
    use.charge("a1", "root.p", "u", Resources())
    use.charge("a3", "root.p", "u", Resources())
    assert use.of("root.q") == (Resources(), {}) and not use._sums and not use._charged


def test_estimates_by_stage_then_by_name() -> None:
    estimator = Estimator()
    first, again = AppView("a1", type="SPARK", name="etl"), AppView("a2", type="SPARK", name="etl")
    for seconds in (10.0, 20.0, 30.0):
        estimator.observe(first, 0, seconds)
    known = estimator.expected(again, 0)
    assert known is not None and (known.count, known.mean_s, known.spread_s) == (3, 20.0, 10.0)
    estimator.observe(again, 0, 50.0)
    known = estimator.expected(again, 0)
    assert known is not None and known.mean_s == 50.0
    assert estimator.expected(again, 1) is None
    with pytest.raises(ValueError, match=r"-1\.0 s"):
        estimator.observe(again, 0, -1.0)


def test_unknown_containers_and_nodes_are_ignored() -> None:
    world = coordinator()
    world.report(
        "elsewhere:1", report(9, events=[event(99, EventKind.SHED)]).model_copy(update={"node_id": "elsewhere:1"}), 1.0
    )
    assert world.node("elsewhere:1") is not None
    assert not world.nodes["elsewhere:1"].view.usable
    world.node_changed("nowhere:1", True)
    assert world.queue("root.nope") is None
    assert Coordinator(world.policies, Random(1)).place(Ask(AppView(APP), 1, Resources(1, 1)), set(), 0.0).node is None
