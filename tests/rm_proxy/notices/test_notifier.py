"""Application masters hear of kills and of nodes that are emptied with their next answers, and once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from policies.config.policy_set import Policies
from quicksilver.common.messages import EventKind
from rm_proxy.attempt.effects import Noticed
from rm_proxy.coordinator.coordinator import Coordinator
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    APP,
    ATTEMPT,
    Am,
    cid,
    container,
    container_report,
    coordinator,
    event,
    granted_rows,
    node_id,
    report,
    row,
    yarn_node,
)

NOTICE: Mapping[str, Any] = {**ALL_Q, "notice": {"wait_s": 15}}


class Stage:
    """One application with two queueable containers that run on host1."""

    def __init__(self, policies: Mapping[str, Any] = NOTICE, app_type: str = "MAPREDUCE") -> None:
        self.world: Coordinator = coordinator(policies, nodes=1, app_type=app_type)
        self.am = Am(self.world)
        rows = granted_rows(self.am.asks(row("*", 2))).values()
        self.am.gets(*(container(number, 1, asked) for number, asked in enumerate(rows, 1)))
        self.reports(1.0)
        self.beat()

    def reports(self, now_s: float, kill_in_s: Mapping[int, float] | None = None, **fields: Any) -> None:
        """Have the sidecar report both containers as running."""
        running = [container_report(number, kill_in_s=(kill_in_s or {}).get(number)) for number in (1, 2)]
        base: dict[str, Any] = {"containers": running, "seq": int(now_s) + 1}
        self.world.reports.report(node_id(1), report(1, **(base | fields)), now_s)
        self.am.now_s = now_s

    def beat(self, **answer: Any) -> y.AllocateResponseProto:
        """Exchange an empty heartbeat; returns the answer."""
        self.am.asks()
        return self.am.gets(**answer)


def strict(answer: y.AllocateResponseProto) -> list[int]:
    """Return the numbers of the containers in the strict contract."""
    return [each.id.id for each in answer.preempt.strictContract.container]


def test_a_container_that_will_be_killed_is_named_once() -> None:
    stage = Stage()
    stage.reports(2.0, {2: 14.0})
    answer = stage.beat()
    assert strict(answer) == [2] and not answer.preempt.HasField("contract")
    assert [e for e in stage.world.take_effects() if isinstance(e, Noticed)] == [Noticed(APP, cid(2), node_id(1))]
    stage.reports(3.0, {2: 13.0})
    assert not stage.beat().HasField("preempt")


def test_a_repeated_answer_names_it_again() -> None:
    stage = Stage()
    stage.reports(2.0, {2: 14.0})
    first = stage.beat()
    stage.am.response_id -= 1
    stage.am.asks()
    stage.am.response_id += 1
    assert stage.am.gets(repeated=True) == first


def test_a_container_that_was_spared_is_named_anew_later() -> None:
    stage = Stage()
    stage.reports(2.0, {2: 14.0})
    stage.beat()
    stage.reports(3.0)
    stage.reports(4.0, {2: 15.0})
    assert strict(stage.beat()) == [2]


def test_a_container_that_was_spared_in_time_is_not_named() -> None:
    stage = Stage()
    stage.reports(2.0, {2: 14.0})
    stage.reports(3.0)
    assert not stage.beat().HasField("preempt")


@pytest.mark.parametrize("end", ["released", "over", "completed"])
def test_a_container_that_the_application_lost_meanwhile_is_not_named(end: str) -> None:
    stage = Stage()
    stage.reports(2.0, {1: 14.0, 2: 14.0})
    if end == "released":
        stage.am.asks(release=[2])
        answer = stage.am.gets()
    elif end == "over":
        stage.reports(3.0, {1: 13.0, 2: 13.0}, events=[event(2, EventKind.ENDED, ran_s=5.0)])
        answer = stage.beat()
    else:
        status = y.ContainerStatusProto(state=y.C_COMPLETE)
        status.container_id.CopyFrom(stage.am.attempt.live.get(cid(2)).proto)  # type: ignore[union-attr]
        answer = stage.beat(completed=[status])
    assert strict(answer) == [1]


def test_nothing_is_named_without_the_setting() -> None:
    stage = Stage(ALL_Q)
    stage.reports(2.0, {2: 14.0})
    assert not stage.beat().HasField("preempt")


def test_the_setting_may_be_taken_back() -> None:
    stage = Stage()
    stage.reports(2.0, {2: 14.0})
    stage.beat()
    stage.world.use(Policies.load(ALL_Q), 3.0)
    stage.reports(3.0, {1: 14.0, 2: 13.0})
    assert not stage.beat().HasField("preempt")
    stage.world.use(Policies.load(NOTICE), 4.0)
    stage.reports(4.0, {2: 12.0})
    assert strict(stage.beat()) == [2]


def test_the_resource_managers_own_message_stays() -> None:
    stage = Stage()
    stage.reports(2.0, {2: 14.0})
    stage.am.asks()
    stage.am.response_id += 1
    answer = y.AllocateResponseProto(response_id=stage.am.response_id)
    answer.preempt.strictContract.container.add().id.id = 77
    rewritten = stage.am.attempt.exchange.on_answer(answer.SerializeToString(), 2.0)
    assert rewritten is not None and strict(y.AllocateResponseProto.FromString(rewritten)) == [77, 2]


# Nodes


def nodes(answer: y.AllocateResponseProto) -> list[tuple[str, int, int | None]]:
    """Return the reported nodes: host, state and time left."""
    return [
        (each.nodeId.host, each.node_state, each.decommissioning_timeout if each.decommissioning_timeout else None)
        for each in answer.updated_nodes
    ]


@pytest.mark.parametrize("app_type", ["SPARK", "MAPREDUCE"])
def test_a_node_that_is_emptied_is_reported_as_decommissioning_with_the_time_left(app_type: str) -> None:
    stage = Stage(ALL_Q, app_type)
    stage.reports(2.0, draining=True, drain_reason="new disk", empty_in_s=600.0)
    why = "its sidecar is draining: new disk; what still runs in 600 s is killed"
    assert stage.world.nodes[node_id(1)].why_not(2.0, 6.0) == why
    stage.am.now_s = 12.0
    answer = stage.beat()
    assert nodes(answer) == [("host1", y.NS_DECOMMISSIONING, 590)]
    (known,) = answer.updated_nodes
    assert (known.node_update_type, known.rackName, known.httpAddress) == (
        y.NODE_DECOMMISSIONING,
        "/r1",
        "host1:8042",
    )
    assert (known.capability.memory, known.capability.virtual_cores) == (8192, 8)
    stage.reports(14.0, draining=True, empty_in_s=588.0)
    assert nodes(stage.beat()) == []


def test_a_node_that_is_emptied_no_longer_is_reported_as_running() -> None:
    stage = Stage(ALL_Q)
    stage.reports(2.0, draining=True, empty_in_s=600.0)
    stage.beat()
    stage.reports(3.0)
    answer = stage.beat()
    assert nodes(answer) == [("host1", y.NS_RUNNING, None)]
    assert answer.updated_nodes[0].node_update_type == y.NODE_USABLE
    stage.reports(4.0)
    assert nodes(stage.beat()) == []


def test_a_drain_that_ends_before_the_next_answer_is_not_mentioned() -> None:
    stage = Stage(ALL_Q)
    stage.reports(2.0, draining=True, empty_in_s=600.0)
    stage.reports(3.0)
    assert nodes(stage.beat()) == []


def test_a_node_that_yarn_lost_meanwhile_is_not_reported_as_running() -> None:
    stage = Stage(ALL_Q)
    stage.reports(2.0, draining=True, empty_in_s=600.0)
    stage.beat()
    stage.world.yarn_nodes([yarn_node(1, state="LOST")], 3.0)
    stage.reports(3.0)
    assert nodes(stage.beat()) == []


def test_a_drain_without_a_time_limit_is_not_mentioned() -> None:
    stage = Stage(ALL_Q)
    stage.reports(2.0, draining=True, drain_reason="new disk")
    assert nodes(stage.beat()) == []


def test_applications_without_queueable_containers_there_hear_nothing() -> None:
    stage = Stage(ALL_Q)
    other = stage.world.attempt(ATTEMPT.replace("_0001_", "_0002_"))
    stage.reports(2.0, draining=True, empty_in_s=600.0)
    assert set(stage.world.hooks.news) == {ATTEMPT} and other.id not in stage.world.hooks.news


def test_news_of_attempts_that_are_over_are_forgotten() -> None:
    stage = Stage(ALL_Q)
    stage.reports(2.0, draining=True, empty_in_s=600.0)
    stage.am.attempt.on_finished()
    stage.world.rounds.all_parts(3.0)
    assert stage.world.hooks.news == {}


def test_an_empty_heartbeat_gets_its_news_too() -> None:
    """Its answer passes by its bytes only where there is nothing to say."""
    stage = Stage(ALL_Q)
    stage.reports(2.0, draining=True, empty_in_s=600.0)
    body = y.AllocateRequestProto(response_id=stage.am.response_id).SerializeToString()
    exchange = stage.am.attempt.exchange
    assert not exchange.at_rest
    if not exchange.passes_up(body):
        exchange.on_allocate(body, 2.0)
    answer = y.AllocateResponseProto(response_id=stage.am.response_id + 1).SerializeToString()
    assert not exchange.passes_down(answer)
    rewritten = exchange.on_answer(answer, 2.0)
    assert rewritten is not None
    assert nodes(y.AllocateResponseProto.FromString(rewritten)) == [("host1", y.NS_DECOMMISSIONING, 600)]
