"""Containers that an application has before the ResourceManager knows them, through the relay as bytes.

Each row of the failure table has a test: none of them starts before it is confirmed, each is confirmed or ends once,
and the response ids are those of the ResourceManager.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest

from hadoop_rpc.connection import AM_PROTOCOL
from hadoop_rpc.events import Call, Failure, Response
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.yarn_server_pb2 import (
    DistributedSchedulingAllocateRequestProto,
    DistributedSchedulingAllocateResponseProto,
)
from policies.model import Resources
from quicksilver.common.messages import ContainerEvent, EventKind
from quicksilver.common.own_numbers import LAST_NUMBER, may_be_ahead
from rm_proxy.attempt.effects import Announce, Completed, Confirmed, DropHeld, Effect, Granted
from rm_proxy.attempt.snapshot import Snapshot
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.domain import ids
from rm_proxy.minting.tokens import MasterKey, NodeKeys
from rm_proxy.relay.commands import MintedRefused, Noted, Replaced, ToAm, ToRm
from rm_proxy.relay.minted_frames import METHOD
from rm_proxy.relay.refusals import NOT_REGISTERED, UNKNOWN_PROTOCOL, WRONG_ID
from rm_proxy.relay.relay import LAST_CALL_ID
from tests.model.wire import Wire
from tests.rm_proxy.yarn_messages import ALL_Q, ATTEMPT, container, coordinator, node_id, report, row

RM = 1_700_000_000_000
KEYS = NodeKeys(MasterKey(1, b"12345678"), MasterKey(2, b"abcdefgh"), RM)
LIMIT = y.ResourceProto(memory=4096, virtual_cores=4)
MAXIMUM = y.ResourceProto(memory=8192, virtual_cores=8)
E = TypeVar("E")
MIXED = {**ALL_Q, "routes": [{"match": {"priority": 5}, "policy": "only_g"}, {"policy": "only_q"}]}
INVALID = "org.apache.hadoop.yarn.exceptions.InvalidResourceRequestException"
STANDBY = "org.apache.hadoop.ipc.StandbyException"


def cluster(fences: bool = True, nodes: int = 3, policies: Mapping[str, Any] = ALL_Q) -> Coordinator:
    world = coordinator(policies, nodes)
    state = world._state
    sizes: dict[str, Any] = {"minimum": Resources(512, 1), "maximum": Resources(8192, 8)}
    state.limits = replace(state.limits, own_grants=True, early_answers=True, **sizes)
    world.switch(world.policies)
    world.minter.ring.serves(RM)
    for number in range(1, nodes + 1):
        world.minter.ring.report(node_id(number), KEYS, 0.0)
        world.reports.report(node_id(number), report(number, fences=fences), 0.0)
    return world


def ask(response_id: int, count: int = 0, **fields: Any) -> y.AllocateRequestProto:
    return y.AllocateRequestProto(response_id=response_id, ask=[row("*", count)] if count else [], **fields)


@dataclass
class Step:
    """What one message of either side led to."""

    calls: list[Call] = field(default_factory=list)
    answers: list[Response | Failure] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    """Note, am, rm: in the order in which they left."""

    @property
    def answer(self) -> y.AllocateResponseProto:
        (response,) = self.answers
        assert isinstance(response, Response)
        return y.AllocateResponseProto.FromString(response.body)

    @property
    def failure(self) -> Failure:
        (failure,) = self.answers
        assert isinstance(failure, Failure)
        return failure

    @property
    def call(self) -> Call:
        (call,) = self.calls
        return call

    def of(self, kind: type[E]) -> list[E]:
        return [effect for effect in self.effects if isinstance(effect, kind)]


class Pair:
    """An application master and its ResourceManager; it has registered, and its first request was answered."""

    def __init__(self, world: Coordinator) -> None:
        self.world, self.wire, self.notes = world, Wire(world), Snapshot()
        self.registers()
        self.step(self.request(ask(0)))
        self.rm_answers(self.last.call, response_id=1, limit=LIMIT, num_cluster_nodes=3)

    def registers(self) -> None:
        step = self.step(self.wire.client.call("registerApplicationMaster", AM_PROTOCOL, _REGISTER))
        if step.calls:
            self.step(
                rm=self.wire.server.response(
                    step.call, y.RegisterApplicationMasterResponseProto(queue="default", maximumCapability=MAXIMUM)
                )
            )

    def request(self, request: y.AllocateRequestProto) -> bytes:
        return self.wire.client.call("allocate", AM_PROTOCOL, request)

    def asks(self, response_id: int, count: int = 0, **fields: Any) -> Step:
        return self.step(self.request(ask(response_id, count, **fields)))

    def step(self, am: bytes = b"", rm: bytes = b"") -> Step:
        commands = self.wire._from_am(am) if am else self.wire._from_rm(rm)
        step = self.last = Step()
        for command in commands:
            if isinstance(command, Noted):
                self.notes.take(json.loads(json.dumps(command.note)))
                step.order.append("note")
            elif isinstance(command, ToAm):
                step.answers += self.wire.client.receive_data(command.data) if command.data else []  # type: ignore[arg-type]
                step.effects += command.effects
                step.order.append("am")
            elif isinstance(command, ToRm):
                step.calls += self.wire.server.receive_data(command.data)  # type: ignore[arg-type]
                step.order.append("rm")
        self.wire.commands += commands
        return step

    def rm_answers(self, call: Call, **fields: Any) -> Step:
        answer = y.AllocateResponseProto(**fields)
        body: y.AllocateResponseProto | DistributedSchedulingAllocateResponseProto = answer
        if call.method == METHOD:
            body = DistributedSchedulingAllocateResponseProto(allocate_response=answer.SerializeToString())
        return self.step(rm=self.wire.server.response(call, body))

    def rm_refuses(self, call: Call, exception: str, text: str = "") -> Step:
        return self.step(rm=self.wire.server.error(call, exception, text))

    def reconnects(self) -> None:
        self.wire = Wire(self.world)

    def successor(self, policies: Mapping[str, Any] = ALL_Q) -> Pair:
        """Return the same application with a proxy that has the journal alone."""
        after = Pair.__new__(Pair)
        after.world = cluster(policies=policies)
        after.world.takeover.restore(ATTEMPT, self.notes)
        after.wire, after.notes = Wire(after.world), Snapshot()
        return after

    @property
    def early(self) -> dict[str, bool]:
        return {live.id: live.early for live in self.world.attempts[ATTEMPT].live}


_REGISTER = y.RegisterApplicationMasterRequestProto()


def minted(call: Call) -> list[int]:
    request = DistributedSchedulingAllocateRequestProto.FromString(call.body)
    return [y.ContainerProto.FromString(data).id.id for data in request.allocated_containers]


def sent(call: Call) -> y.AllocateRequestProto:
    if call.method != METHOD:
        return y.AllocateRequestProto.FromString(call.body)
    request = DistributedSchedulingAllocateRequestProto.FromString(call.body)
    return y.AllocateRequestProto.FromString(request.allocate_request)


def numbers(answer: y.AllocateResponseProto) -> list[int]:
    return [got.id.id for got in answer.allocated_containers]


def ends(answer: y.AllocateResponseProto) -> list[int]:
    return [status.container_id.id for status in answer.completed_container_statuses]


def test_the_answer_comes_first_and_the_start_waits_for_the_resource_managers() -> None:
    pair = Pair(cluster())
    step = pair.asks(1, 2)
    got = step.answer
    assert step.order == ["note", "am", "rm"], "journaled before anybody hears of them"
    assert got.response_id == 2 and got.num_cluster_nodes == 3 and got.HasField("limit")
    assert all(may_be_ahead(n) for n in numbers(got)) and len(got.nm_tokens) >= 1
    assert {(c.execution_type, c.allocation_request_id) for c in got.allocated_containers} == {(y.GUARANTEED, -1)}
    assert minted(step.call) == numbers(got) and sent(step.call).response_id == 1
    assert step.call.call_id == LAST_CALL_ID, "an id that no application master uses"
    assert [effect.grant.known for effect in step.of(Announce)] == [False, False]
    assert len(step.of(Granted)) == 2 and set(pair.early.values()) == {True}
    after = pair.rm_answers(step.call, response_id=2, limit=LIMIT, num_cluster_nodes=3)
    assert not after.answers and not after.calls and after.order == ["note", "am"]
    assert {effect.container_id for effect in after.of(Confirmed)} == set(pair.early)
    assert set(pair.early.values()) == {False} and pair.notes.undelivered is None
    following = pair.asks(2)
    assert following.call.method == "allocate" and sent(following.call).response_id == 2
    assert pair.rm_answers(following.call, response_id=3).answer.response_id == 3


def test_a_request_waits_for_that_answer_and_what_it_says_goes_with_the_next() -> None:
    pair = Pair(cluster())
    step = pair.asks(1, 1)
    (own,) = step.answer.allocated_containers
    waiting = pair.asks(2)
    assert not waiting.calls and not waiting.answers and pair.wire.relay.outstanding
    status = y.ContainerStatusProto(container_id=own.id, state=y.C_COMPLETE, exit_status=7)
    stray = container(9, 1, row("*", 1))
    token = y.NMTokenProto(nodeId=stray.nodeId)
    news = {"allocated_containers": [stray], "completed_container_statuses": [status], "nm_tokens": [token]}
    going = pair.rm_answers(step.call, response_id=2, **news)
    assert not going.answers and sent(going.call).response_id == 2
    assert pair.notes.undelivered is not None
    got = pair.rm_answers(going.call, response_id=3, num_cluster_nodes=5).answer
    assert (got.response_id, got.num_cluster_nodes, numbers(got), ends(got)) == (3, 5, [9], [own.id.id])
    assert len(got.nm_tokens) == 1 and pair.notes.undelivered is None
    pair.reconnects()
    again = pair.rm_answers(pair.asks(2).call, response_id=3).answer
    assert again == got, "the last answer is repeated whole"


def test_news_of_the_resource_manager_go_with_the_next_early_answer_too() -> None:
    pair = Pair(cluster())
    step = pair.asks(1, 1)
    pair.rm_answers(step.call, response_id=2, allocated_containers=[container(9, 1, row("*", 1, 3))])
    second = pair.asks(2, 1)
    own, stray = sorted(numbers(second.answer), reverse=True)
    assert minted(second.call) == [own] and stray == 9 and second.answer.response_id == 3
    pair.rm_answers(second.call, response_id=3)
    third = pair.asks(3)
    assert numbers(pair.rm_answers(third.call, response_id=4).answer) == []


def test_rows_are_lowered_by_what_the_application_does_not_know_of() -> None:
    pair = Pair(cluster(policies=MIXED))
    guaranteed = row("*", 3, 5)
    first = pair.step(pair.request(y.AllocateRequestProto(response_id=1, ask=[guaranteed])))
    (asked,) = sent(first.call).ask
    pair.rm_answers(first.call, response_id=2, limit=LIMIT)
    early = pair.asks(2, 1)
    assert early.answer.response_id == 3
    pair.rm_answers(early.call, response_id=3, allocated_containers=[container(8, 1, asked), container(9, 1, asked)])
    more = row("*", 4, 5)
    following = pair.step(pair.request(y.AllocateRequestProto(response_id=3, ask=[more])))
    assert [r.num_containers for r in sent(following.call).ask] == [2], "four, less two that it has not got yet"
    got = pair.rm_answers(following.call, response_id=4, allocated_containers=[container(10, 1, asked)]).answer
    assert numbers(got) == [8, 9, 10]
    pair.reconnects()
    repeated = y.AllocateRequestProto(response_id=3, ask=[row("*", 5, 5)])
    assert pair.rm_answers(pair.step(pair.request(repeated)).call, response_id=4).answer == got
    last = pair.asks(4)
    assert [r.num_containers for r in sent(last.call).ask] == [2], "five, less three"


def test_without_a_fence_the_resource_manager_answers_first() -> None:
    pair = Pair(cluster(fences=False))
    step = pair.asks(1, 1)
    assert not step.answers and not any(may_be_ahead(n) for n in minted(step.call))
    got = pair.rm_answers(step.call, response_id=2)
    assert numbers(got.answer) == minted(step.call)
    assert [effect.grant.known for effect in got.of(Announce)] == [True]


@pytest.mark.parametrize(
    "more",
    [
        {"blacklist_request": y.ResourceBlacklistRequestProto(blacklist_additions=["host9"])},
        {"release": [y.ContainerIdProto(id=5)]},
        {"ask": [row("*", 1, 5, size=y.ResourceProto(memory=8193, virtual_cores=1))]},
        {"ask": [row("*", 1, 5, label="gpu")]},
    ],
)
def test_what_the_resource_manager_may_refuse_it_answers_first(more: dict[str, Any]) -> None:
    pair = Pair(cluster(policies=MIXED))
    asks = [row("*", 1), *more.pop("ask", ())]
    step = pair.step(pair.request(y.AllocateRequestProto(response_id=1, ask=asks, **more)))
    assert not step.answers and minted(step.call)
    assert len(pair.rm_answers(step.call, response_id=2).answer.allocated_containers) == 1


def both(response_id: int, queueable: int, guaranteed: int) -> y.AllocateRequestProto:
    return y.AllocateRequestProto(response_id=response_id, ask=[row("*", queueable), row("*", guaranteed, 5)])


def counts(call: Call) -> list[tuple[int, int]]:
    return [(each.priority.priority, each.num_containers) for each in sent(call).ask]


def test_a_request_for_both_kinds_is_answered_early_with_what_is_queueable() -> None:
    pair = Pair(cluster(policies=MIXED))
    step = pair.step(pair.request(both(1, 2, 3)))
    assert sorted(numbers(step.answer)) == minted(step.call) and step.order == ["note", "am", "rm"]
    assert (len(minted(step.call)), counts(step.call)) == (2, [(5, 3)]), "the ResourceManager has to grant the others"
    (asked,) = sent(step.call).ask
    pair.rm_answers(step.call, response_id=2, allocated_containers=[container(9, 1, asked)])
    following = pair.step(pair.request(both(2, 0, 3)))
    assert counts(following.call) == [(5, 2)], "three, less the one that it has not got yet"
    got = pair.rm_answers(following.call, response_id=3, allocated_containers=[container(10, 1, asked)]).answer
    assert numbers(got) == [9, 10]
    assert (5, 2) in counts(pair.step(pair.request(both(3, 0, 2))).call)


def test_what_is_wanted_as_queueable_instead_waits_for_what_is_on_its_way() -> None:
    """The ResourceManager may have granted what is taken back: then the container of ours is one too many."""
    pair = Pair(cluster(policies={**ALL_Q, "routes": [{"policy": "only_g"}]}))
    first = pair.asks(1, 1)
    (asked,) = sent(first.call).ask
    pair.rm_answers(first.call, response_id=2, limit=LIMIT)
    pair.world.switch(cluster().policies)
    for attempt in pair.world.attempts.values():
        attempt.reconsider(routes=True)
    step = pair.asks(2)
    assert not step.answers and len(minted(step.call)) == 1 and counts(step.call) == [(20, 0)]
    got = pair.rm_answers(step.call, response_id=3, allocated_containers=[container(9, 1, asked)])
    assert numbers(got.answer) == [9], "and no other one"


def test_a_refused_request_for_guaranteed_containers_is_that_of_the_next_call() -> None:
    """As on stock YARN, but for one call: each is refused until the application asks otherwise, and nothing is lost."""
    pair = Pair(cluster(policies=MIXED))
    step = pair.step(pair.request(both(1, 1, 3)))
    plain = pair.rm_refuses(step.call, INVALID, "Invalid resource request")
    assert (plain.call.method, counts(plain.call), sent(plain.call).response_id) == ("allocate", [], 1)
    assert not pair.rm_answers(plain.call, response_id=2).answers
    for _ in range(2):
        following = pair.asks(2)
        assert counts(following.call) == [(5, 3)] and sent(following.call).response_id == 2
        assert pair.rm_refuses(following.call, INVALID, "Invalid").failure.exception_class == INVALID
    fewer = pair.step(pair.request(y.AllocateRequestProto(response_id=2, ask=[row("*", 0, 5)])))
    assert counts(fewer.call) == [(5, 0)], "what the application asks now counts"
    got = pair.rm_answers(fewer.call, response_id=3).answer
    assert got.response_id == 3 and ends(got) == numbers(step.answer)


def test_what_the_resource_manager_repeats_after_a_take_over_is_delivered_once() -> None:
    """It never had the request that the dead proxy answered early: its last answer is the one before."""
    pair = Pair(cluster(policies=MIXED))
    first = pair.step(pair.request(y.AllocateRequestProto(response_id=1, ask=[row("*", 2, 5)])))
    (asked,) = sent(first.call).ask
    granted = [container(9, 1, asked)]
    assert numbers(pair.rm_answers(first.call, response_id=2, limit=LIMIT, allocated_containers=granted).answer) == [9]
    early = pair.asks(2, 1)
    assert early.answer.response_id == 3
    after = pair.successor(MIXED)
    after.asks(3)
    after.registers()
    first = after.step(after.request(y.AllocateRequestProto(response_id=0, ask=[row("*", 1, 5)])))
    wrong = after.rm_refuses(first.call, WRONG_ID, "expect responseId to be 2, but get 3")
    assert sent(wrong.call).response_id == 1
    got = after.rm_answers(wrong.call, response_id=2, limit=LIMIT, allocated_containers=granted).answer
    assert numbers(got) == [] and got.response_id == 2, "the application has it"
    following = after.asks(2)
    assert (5, 1) in counts(following.call), "and wants another one"


def test_the_first_request_and_one_of_a_new_registration_are_answered_by_the_resource_manager() -> None:
    pair = Pair(cluster())
    pair.registers()
    step = pair.asks(0, 1)
    assert not step.answers and len(minted(step.call)) == 1


def test_after_a_broken_connection_the_call_goes_again_before_any_other() -> None:
    pair = Pair(cluster())
    step = pair.asks(1, 2)
    pair.reconnects()
    again = pair.asks(2)
    assert not again.answers and again.call.method == METHOD
    assert (minted(again.call), sent(again.call)) == (minted(step.call), sent(step.call))
    going = pair.rm_answers(again.call, response_id=2)
    assert len(going.of(Confirmed)) == 2 and sent(going.call).response_id == 2
    assert pair.rm_answers(going.call, response_id=3).answer.response_id == 3


def test_an_early_answer_that_got_lost_is_repeated() -> None:
    pair = Pair(cluster())
    step = pair.asks(1, 2)
    pair.reconnects()
    again = pair.asks(1, 2)
    assert minted(again.call) == numbers(step.answer)
    going = pair.rm_answers(again.call, response_id=2)
    assert sent(going.call).response_id == 1, "the ResourceManager repeats itself"
    assert pair.rm_answers(going.call, response_id=2).answer == step.answer


def test_the_answer_of_a_connection_that_another_one_replaced_changes_nothing() -> None:
    """The other one's call may still be on its way: no container may start before the ResourceManager had that, too."""
    pair = Pair(cluster())
    step = pair.asks(1, 1)
    old = pair.wire
    pair.reconnects()
    again = pair.asks(2)
    new, pair.wire = pair.wire, old
    assert not pair.rm_answers(step.call, response_id=2).effects
    assert isinstance(old.commands[-1], Replaced)
    assert set(pair.early.values()) == {True}
    pair.wire = new
    going = pair.rm_answers(again.call, response_id=2)
    assert len(going.of(Confirmed)) == 1 and sent(going.call).response_id == 2


def test_the_refusal_on_such_a_connection_changes_nothing() -> None:
    pair = Pair(cluster())
    step = pair.asks(1, 1)
    old = pair.wire
    pair.reconnects()
    again = pair.asks(2)
    new, pair.wire = pair.wire, old
    assert not pair.rm_refuses(step.call, UNKNOWN_PROTOCOL, "Unknown protocol").calls
    assert isinstance(old.commands[-1], Replaced)
    pair.wire = new
    assert len(pair.rm_answers(again.call, response_id=2).of(Confirmed)) == 1


def test_no_call_is_answered_early_while_another_one_has_no_answer() -> None:
    pair = Pair(cluster())
    beat = pair.asks(1)
    step = pair.asks(1, 1)
    assert not step.answers and minted(step.call)
    assert pair.rm_answers(beat.call, response_id=2).answer.response_id == 2


def test_a_resource_manager_without_the_protocol_gets_the_request_and_the_containers_end() -> None:
    pair = Pair(cluster())
    step = pair.asks(1, 1)
    (own,) = numbers(step.answer)
    plain = pair.rm_refuses(step.call, UNKNOWN_PROTOCOL, "Unknown protocol")
    assert (plain.call.method, sent(plain.call).response_id) == ("allocate", 1) and len(plain.of(DropHeld)) == 1
    assert any(isinstance(c, MintedRefused) for c in pair.wire.commands)
    assert pair.world.minter.ring.why_off == "Unknown protocol"
    assert not pair.rm_answers(plain.call, response_id=2).answers
    following = pair.asks(2)
    assert [proto.id for proto in sent(following.call).release] == [own]
    got = pair.rm_answers(following.call, response_id=3).answer
    assert ends(got) == [own] and got.completed_container_statuses[0].exit_status == -102
    late = y.ContainerStatusProto(container_id=own_id(own), state=y.C_COMPLETE, exit_status=-100)
    seen = pair.rm_answers(pair.asks(3).call, response_id=4, completed_container_statuses=[late])
    assert ends(seen.answer) == [], "it ends once"


def own_id(number: int) -> y.ContainerIdProto:
    proto = y.ContainerIdProto(id=number)
    proto.app_attempt_id.CopyFrom(ids.attempt_id_proto(ATTEMPT))
    return proto


def test_an_exception_may_have_taken_effect() -> None:
    pair = Pair(cluster())
    step = pair.asks(1, 1)
    waiting = pair.asks(2, 0)
    plain = pair.rm_refuses(step.call, "java.lang.NullPointerException", "null")
    assert not waiting.calls and plain.call.method == "allocate" and not plain.answers
    going = pair.rm_answers(plain.call, response_id=2)
    assert [proto.id for proto in sent(going.call).release] == numbers(step.answer)
    assert ends(pair.rm_answers(going.call, response_id=3).answer) == numbers(step.answer)


def test_a_refusal_that_stays_is_that_of_the_waiting_call() -> None:
    pair = Pair(cluster())
    step = pair.asks(1, 1)
    plain = pair.rm_refuses(step.call, STANDBY, "standby")
    assert plain.call.method == "allocate"
    assert not pair.rm_refuses(plain.call, STANDBY, "standby").answers, "nobody waits"
    again = pair.asks(2)
    assert (again.call.method, sent(again.call).response_id) == ("allocate", 1)
    assert pair.rm_refuses(again.call, STANDBY, "standby").failure.exception_class == STANDBY
    third = pair.asks(2)
    going = pair.rm_answers(third.call, response_id=2)
    assert sent(going.call).response_id == 2
    assert ends(pair.rm_answers(going.call, response_id=3).answer) == numbers(step.answer)


def test_another_id_than_expected_shows_with_the_next_request() -> None:
    pair = Pair(cluster())
    step = pair.asks(1, 1)
    plain = pair.rm_refuses(step.call, WRONG_ID, "expect responseId to be 5, but get 1")
    assert not pair.rm_refuses(plain.call, WRONG_ID, "expect responseId to be 5, but get 1").calls
    following = pair.asks(2)
    assert sent(following.call).response_id == 2
    asked = pair.rm_refuses(following.call, WRONG_ID, "expect responseId to be 5, but get 2")
    assert sent(asked.call).response_id == 4
    got = pair.rm_answers(asked.call, response_id=5).answer
    assert got.response_id == 5 and ends(got) == numbers(step.answer)


def test_a_restarted_resource_manager_voids_them_and_has_the_application_register() -> None:
    pair = Pair(cluster())
    step = pair.asks(1, 2)
    waiting = pair.asks(2)
    gone = pair.rm_refuses(step.call, NOT_REGISTERED, "register")
    assert not waiting.calls and len(gone.of(DropHeld)) == 2
    assert pair.rm_refuses(gone.call, NOT_REGISTERED, "register").failure.exception_class == NOT_REGISTERED
    pair.registers()
    first = pair.asks(0)
    assert sorted(proto.id for proto in sent(first.call).release) == sorted(numbers(step.answer))
    got = pair.rm_answers(first.call, response_id=1).answer
    assert sorted(ends(got)) == sorted(numbers(step.answer))
    assert not pair.early


def test_what_was_not_delivered_when_the_resource_manager_restarted_is_not_lost() -> None:
    pair = Pair(cluster())
    step = pair.asks(1, 1)
    (own,) = numbers(step.answer)
    status = y.ContainerStatusProto(container_id=own_id(own), state=y.C_COMPLETE, exit_status=3)
    pair.rm_answers(step.call, response_id=2, completed_container_statuses=[status])
    pair.rm_refuses(pair.asks(2).call, NOT_REGISTERED, "register")
    pair.registers()
    got = pair.rm_answers(pair.asks(0).call, response_id=1).answer
    assert [(s.container_id.id, s.exit_status) for s in got.completed_container_statuses] == [(own, 3)]


def test_a_proxy_that_died_before_the_resource_managers_answer_ends_them() -> None:
    pair = Pair(cluster())
    step = pair.asks(1, 2)
    after = pair.successor()
    assert set(after.early.values()) == {True}
    after.world.rounds.all_parts(1.0)
    dropped = [effect for effect in after.world.take_effects() if isinstance(effect, DropHeld)]
    assert len(dropped) == 2 and not after.early
    assert after.asks(2).failure.exception_class == NOT_REGISTERED
    after.registers()
    first = after.asks(0)
    assert sent(first.call).response_id == 2, "it goes on where the application was"
    assert sorted(proto.id for proto in sent(first.call).release) == sorted(numbers(step.answer))
    wrong = after.rm_refuses(first.call, WRONG_ID, "expect responseId to be 1, but get 2")
    assert sent(wrong.call).response_id == 0, "the ResourceManager never had the request"
    got = after.rm_answers(wrong.call, response_id=1).answer
    following = after.asks(got.response_id)
    more = after.rm_answers(following.call, response_id=got.response_id + 1).answer
    assert sorted(ends(got) + ends(more)) == sorted(numbers(step.answer))
    assert sorted(proto.id for proto in sent(following.call).release) == sorted(numbers(step.answer))


def test_a_proxy_that_died_after_it_goes_on_with_them_and_delivers_the_rest() -> None:
    pair = Pair(cluster())
    step = pair.asks(1, 1)
    pair.rm_answers(step.call, response_id=2, allocated_containers=[container(9, 1, row("*", 1))])
    after = pair.successor()
    after.world.rounds.all_parts(1.0)
    assert sorted(after.early.values()) == [False, False]
    assert not [effect for effect in after.world.take_effects() if isinstance(effect, DropHeld)]
    assert isinstance(after.asks(2).failure, Failure)
    after.registers()
    got = after.rm_answers(after.asks(0).call, response_id=3).answer
    assert numbers(got) == [9] and not ends(got) and minted(step.call)


def test_a_sidecar_that_missed_a_report_or_was_cut_off_fences_nothing() -> None:
    pair = Pair(cluster(nodes=1))
    minter, reports = pair.world.minter, pair.world.reports
    assert minter.fences(node_id(1), 3.0) and not minter.fences(node_id(1), 3.1), "it reports each 2 s"
    reports.disconnected(node_id(1), 0.0)
    step = pair.asks(1, 1)
    assert not step.answers and not any(may_be_ahead(number) for number in minted(step.call))
    pair.rm_answers(step.call, response_id=2)
    reports.report(node_id(1), report(1, seq=2, fences=True), 0.5)
    pair.wire.now_s = 0.5
    assert pair.asks(2, 1).answer.response_id == 3


def test_one_whose_sidecar_was_cut_off_before_its_confirmation_ends() -> None:
    """Its start may have passed unfenced, and have been stopped, without any news of that."""
    pair = Pair(cluster(nodes=1))
    step = pair.asks(1, 1)
    pair.world.reports.disconnected(node_id(1), 0.2)
    after = pair.rm_answers(step.call, response_id=2)
    assert not after.of(Confirmed) and len(after.of(DropHeld)) == 1 and not pair.early
    following = pair.asks(2)
    assert [proto.id for proto in sent(following.call).release] == numbers(step.answer)
    got = pair.rm_answers(following.call, response_id=3).answer
    assert ends(got) == numbers(step.answer) and got.completed_container_statuses[0].exit_status == -102


def test_one_that_its_sidecar_gave_up_first_is_not_confirmed() -> None:
    pair = Pair(cluster())
    step = pair.asks(1, 1)
    (name,) = pair.early
    event = ContainerEvent(seq=1, container_id=name, kind=EventKind.SHED, at_s=0.0, reason="hold limit", cause="hold")
    where = next(iter(pair.world.attempts[ATTEMPT].live)).node_id
    number = int(where.removeprefix("host").partition(":")[0])
    pair.world.reports.report(where, report(number, fences=True, events=[event]), 1.0)
    pair.world.take_effects()
    assert not pair.rm_answers(step.call, response_id=2).of(Confirmed)
    following = pair.asks(2)
    assert [proto.id for proto in sent(following.call).release] == numbers(step.answer)
    got = pair.rm_answers(following.call, response_id=3)
    assert ends(got.answer) == numbers(step.answer) and not got.of(Completed)


def test_a_lost_node_ends_it_once_as_without_early_answers() -> None:
    pair = Pair(cluster(nodes=1))
    step = pair.asks(1, 1)
    (own,) = step.answer.allocated_containers
    lost = y.NodeReportProto(nodeId=own.nodeId, node_state=y.NS_LOST)
    pair.rm_answers(step.call, response_id=2, updated_nodes=[lost])
    seen = [pair.rm_answers(pair.asks(n).call, response_id=n + 1).answer for n in (2, 3, 4, 5)]
    assert sum(ends(answer) == [own.id.id] for answer in seen) == 1
    assert [len(answer.updated_nodes) for answer in seen] == [1, 0, 0, 0]


def test_an_announcement_after_a_restart_says_whether_it_may_start() -> None:
    pair = Pair(cluster())
    pair.asks(1, 1)
    after = pair.successor()
    news = [effect for n in (1, 2, 3) for effect in after.world.takeover.announce_again(report(n), 0.0)]
    assert [effect.grant.known for effect in news if isinstance(effect, Announce)] == [False]
    assert pair.notes.live and all(note["early"] for note in pair.notes.live.values())


def test_what_is_remembered_of_the_last_answer_is_small() -> None:
    pair = Pair(cluster(policies=MIXED))
    first = pair.step(pair.request(y.AllocateRequestProto(response_id=1, ask=[row("*", 500, 5)])))
    (asked,) = sent(first.call).ask
    granted = [container(number, 1, asked) for number in range(500)]
    pair.rm_answers(first.call, response_id=2, limit=LIMIT, num_cluster_nodes=3, allocated_containers=granted)
    attempt = pair.world.attempts[ATTEMPT]
    assert len(attempt.early.standing or b"") < 50
    step = pair.asks(2, 1)
    assert step.answer.num_cluster_nodes == 3 and step.answer.HasField("limit")
    pair.rm_answers(step.call, response_id=3, limit=LIMIT, allocated_containers=granted)
    assert len(attempt.early.standing or b"") < 50


def test_no_number_goes_beyond_the_last_one() -> None:
    pair = Pair(cluster())
    own_grants = pair.world.attempts[ATTEMPT].own_grants
    own_grants.number = LAST_NUMBER - 2
    assert numbers(pair.asks(1, 1).answer) == [LAST_NUMBER]
    pair.rm_answers(pair.last.call, response_id=2)
    step = pair.asks(2, 1)
    assert not step.answers and [each.num_containers for each in sent(step.call).ask] == [1, 1], "it is asked for"
    assert own_grants.number == LAST_NUMBER


def test_the_end_of_the_application_waits_for_the_answer() -> None:
    pair = Pair(cluster())
    step = pair.asks(1, 1)
    finish = y.FinishApplicationMasterRequestProto(final_application_status=y.APP_SUCCEEDED)
    done = pair.step(pair.wire.client.call("finishApplicationMaster", AM_PROTOCOL, finish))
    assert not done.calls
    assert pair.rm_answers(step.call, response_id=2).call.method == "finishApplicationMaster"
