"""Why the containers of an application wait now, each reason brought about in a coordinator."""

from typing import Any

import pytest

from policies.config.policy_set import Policies
from quicksilver.common.messages import ContainerReport, ContainerState
from rm_proxy.api.waiting_reasons import waits_now
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.domain.records import AppRecord
from rm_proxy.views.waiting_models import WaitsNow
from tests.rm_proxy.yarn_messages import ALL_Q, APP, Am, capability, cid, coordinator, node_id, report, row, yarn_node

LATE = {**ALL_Q, "place": {"policy": "late"}, "dispatch": {"policy": "fifo"}}


def now(am: Am) -> WaitsNow:
    before = am.attempt.table.sums.open_q, am.attempt.router.view() is None
    known = waits_now(am.world, am.attempt, am.now_s)
    assert (am.attempt.table.sums.open_q, am.attempt.router.view() is None) == before, "looking changes nothing"
    return known


def filled(world: Coordinator, *numbers: int) -> None:
    """Have nodes report that guaranteed containers use all of them."""
    for number in numbers:
        world.reports.report(node_id(number), report(number, used_g_mb=8192, used_g_vcores=8), 0.0)


def test_nothing_is_wanted() -> None:
    am = Am(coordinator())
    assert now(am) == WaitsNow(app_id=APP, at_s=0.0, wanted=0, held=0, story=[], asks=[])


def test_full_nodes_and_the_nodes_that_may_not() -> None:
    world = coordinator(LATE, nodes=5)
    am = Am(world)
    filled(world, 1, 2)
    world.yarn_nodes([*(yarn_node(n) for n in (1, 2, 3)), yarn_node(4, label="gpu"), yarn_node(5, state="LOST")], 0.0)
    am.asks(row(count=3), blacklist=["host3"])
    am.now_s = 4.0
    known = now(am)
    (ask,) = known.asks
    assert {one.what: one.count for one in ask.nodes} == {"full": 2, "blacklisted": 1, "other label": 1, "unusable": 1}
    assert (ask.without_node, ask.oldest_s, [one.code for one in ask.reasons]) == (3, 4.0, ["full"])
    assert known.story == ["3 containers: all 2 nodes that may take them are full."]


def test_no_node_may_take_them() -> None:
    world = coordinator(LATE, nodes=2)
    filled(world, 1, 2)
    am = Am(world)
    am.asks(row(count=2), blacklist=["host1"])
    world.yarn_nodes([yarn_node(1), yarn_node(2, state="DECOMMISSIONED")], 1.0)
    (reason,) = now(am).asks[0].reasons
    text = "no node may take them (1 on the application's blacklist, 1 not usable)"
    assert (reason.code, reason.text) == ("nowhere", text)


def test_those_that_no_node_will_ever_take_are_guaranteed() -> None:
    am = Am(coordinator(LATE))
    am.asks(row(count=2, size=capability(9000)))
    (reason,) = now(am).asks[0].reasons
    assert reason.code == "scheduler"
    assert reason.text.startswith(
        "they are requested as guaranteed: fell back to guaranteed: none of 3 usable nodes may take it"
    )


def test_free_places_come_with_the_next_call() -> None:
    world = coordinator(LATE, nodes=2)
    filled(world, 1, 2)
    am = Am(world)
    am.asks(row(count=2))
    world.reports.report(node_id(2), report(2), 1.0)
    (reason,) = now(am).asks[0].reasons
    text = "1 node has a free place; they get it with the application master's next call"
    assert (reason.code, reason.text) == ("next-call", text)
    am.now_s = 30.0
    assert "has not called for 30 s" in now(am).asks[0].reasons[0].text


def test_those_asked_for_at_a_node() -> None:
    am = Am(coordinator())
    am.asks(row(count=2))
    (ask,) = now(am).asks
    assert (ask.at_node, ask.without_node, ask.nodes) == (2, 0, [])
    assert ask.reasons[0].code == "granting" and "the ResourceManager is asked for them on host" in ask.reasons[0].text


def test_a_quota() -> None:
    quota = {"policy": "queue_share", "settings": {"cluster_ratio": 0.1}}
    world = coordinator({**LATE, "quota": quota}, nodes=2)
    am = Am(world)
    am.asks(row(count=6))
    reasons = {one.code: one.text for ask in now(am).asks for one in ask.reasons}
    assert reasons["quota"].startswith("queue_share: queueable containers of all queues use 1024 MB")


def test_other_applications_go_before() -> None:
    world = coordinator(LATE, nodes=1)
    filled(world, 1)
    other = APP.replace("_0001", "_0002")
    record: dict[str, Any] = {"queue": "default", "user": "u", "name": "x", "tags": (), "priority": 0}
    world.inventory.update_app(AppRecord(id=other, type="MAPREDUCE", submitted_s=-5.0, **record))
    first = Am(world)
    first.attempt = world.attempt(other.replace("application", "appattempt") + "_000001")
    first.asks(row(count=4))
    am = Am(world)
    am.now_s = 1.0
    am.asks(row(count=2))
    text = now(am).asks[0].reasons[0].text
    assert text == "the node that may take them is full; another application goes before, wanting 4"
    world.reports.report(node_id(1), report(1, used_g_mb=7168, used_g_vcores=7), 1.0)
    reason = now(am).asks[0].reasons[0]
    assert (reason.code, reason.text.partition(";")[0]) == (
        "order",
        "the free places are kept for applications that go before it",
    )


def test_guaranteed_ones_wait_for_the_scheduler() -> None:
    world = coordinator({**ALL_Q, "routes": [{"policy": "only_g"}]}, nodes=1)
    am = Am(world)
    am.asks(row(count=3))
    (reason,) = now(am).asks[0].reasons
    assert reason.code == "scheduler" and "rule 1" in reason.text and "has not allocated them yet" in reason.text
    am.asks(row(count=3, size=capability(9000)))
    texts = [reason.text for ask in now(am).asks for reason in ask.reasons]
    assert any("queue root.default is at its maximum (0 of 8192 MB, 0 of 8 vcores)" in text for text in texts)


@pytest.mark.parametrize("mode", ["shadow", "bypass"])
def test_modes_that_come_after_the_ask(mode: str) -> None:
    world = coordinator(LATE, nodes=1)
    filled(world, 1)
    am = Am(world)
    am.asks(row(count=2))
    world.use(Policies.load({**LATE, "mode": mode}), 0.0)
    (reason,) = now(am).asks[0].reasons
    assert reason.code == "mode" and reason.text.startswith(f"{mode} mode")


def test_delivered_ones_wait_at_their_nodes() -> None:
    world = coordinator(nodes=2)
    am = Am(world)
    am.asks()
    base = {"app_id": APP, "kind": "Q", "state": ContainerState.WAITING, "memory_mb": 1024, "vcores": 1}
    waiting = [
        ContainerReport(container_id=cid(3), since_s=2.0, why="cores: 8 of 8 are used", starts_in_s=9.0, **base),
        ContainerReport(container_id=cid(4), since_s=5.0, why="cores: 8 of 8 are used", starts_in_s=4.0, **base),
        ContainerReport(container_id=cid(5), since_s=1.0, **{**base, "state": ContainerState.RUNNING}),
    ]
    world.reports.report(node_id(2), report(2, containers=waiting, queue_length=2), 0.0)
    known = now(am)
    (held,) = known.at_nodes
    assert (known.held, held.node_id, held.count, held.longest_s, held.starts_in_s) == (2, node_id(2), 2, 5.0, 4.0)
    assert known.story == ["2 containers: queued at a node: cores: 8 of 8 are used."]
