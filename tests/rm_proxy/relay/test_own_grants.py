"""Containers that the proxy grants itself, through the relay as bytes: given once, or released."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hadoop_rpc.connection import AM_PROTOCOL, DISTRIBUTED_SCHEDULING_PROTOCOL
from hadoop_rpc.errors import RemoteProtocolError
from hadoop_rpc.events import Call, Failure, Response
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.yarn_server_pb2 import (
    DistributedSchedulingAllocateRequestProto,
    DistributedSchedulingAllocateResponseProto,
)
from policies.model import Resources
from quicksilver.common.messages import ContainerEvent, EventKind
from rm_proxy.attempt.effects import Announce, Granted
from rm_proxy.attempt.snapshot import Snapshot
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.minter import normalised
from rm_proxy.domain import ids
from rm_proxy.minting.tokens import MasterKey, NodeKeys
from rm_proxy.relay.commands import MintedRefused
from rm_proxy.relay.minted_frames import METHOD
from rm_proxy.relay.refusals import FORBIDDEN, NOT_REGISTERED, UNKNOWN_PROTOCOL, WRONG_ID
from tests.model.wire import Wire
from tests.rm_proxy.yarn_messages import ATTEMPT, container, coordinator, node_id, report, row, yarn_node

RM = 1_700_000_000_000
KEYS = NodeKeys(MasterKey(1, b"12345678"), MasterKey(2, b"abcdefgh"), RM)


def cluster(nodes_with_keys: int = 3, nodes: int = 3, app_type: str = "MAPREDUCE") -> Coordinator:
    world = coordinator(nodes=nodes, app_type=app_type)
    state = world._state
    state.limits = replace(state.limits, own_grants=True, minimum=Resources(512, 1), maximum=Resources(8192, 8))
    world.switch(world.policies)
    world.minter.ring.serves(RM)
    for number in range(1, nodes_with_keys + 1):
        world.minter.ring.report(node_id(number), KEYS, 0.0)
    return world


def ask(response_id: int, count: int = 0) -> y.AllocateRequestProto:
    return y.AllocateRequestProto(response_id=response_id, ask=[row("*", count)] if count else [])


class Master:
    """An application master, and the ResourceManager of its cluster."""

    def __init__(self, world: Coordinator) -> None:
        self.world, self.wire = world, Wire(world)
        registered = self.wire.call("registerApplicationMaster", y.RegisterApplicationMasterRequestProto())
        self.wire.answer(registered, y.RegisterApplicationMasterResponseProto(queue="default"))

    def calls(self, request: y.AllocateRequestProto) -> Call:
        return self.wire.call("allocate", request)

    def answered(self, call: Call, **fields: object) -> y.AllocateResponseProto:
        answer = y.AllocateResponseProto(**fields)
        body: y.AllocateResponseProto | DistributedSchedulingAllocateResponseProto = answer
        if call.method == METHOD:
            body = DistributedSchedulingAllocateResponseProto(allocate_response=answer.SerializeToString())
        return y.AllocateResponseProto.FromString(self.wire.answer(call, body).body)


def minted(call: Call) -> list[y.ContainerProto]:
    assert (call.protocol, call.method) == (DISTRIBUTED_SCHEDULING_PROTOCOL, METHOD)
    request = DistributedSchedulingAllocateRequestProto.FromString(call.body)
    return [y.ContainerProto.FromString(data) for data in request.allocated_containers]


def inner(call: Call) -> y.AllocateRequestProto:
    request = DistributedSchedulingAllocateRequestProto.FromString(call.body)
    return y.AllocateRequestProto.FromString(request.allocate_request)


def released(request: y.AllocateRequestProto) -> list[int]:
    return [proto.id for proto in request.release]


def test_containers_are_granted_on_their_nodes_and_the_resource_manager_is_informed() -> None:
    master = Master(cluster())
    call = master.calls(ask(0, 2))
    known = minted(call)
    assert len(known) == 2 and not inner(call).ask, "nothing is left to ask for"
    assert all(c.execution_type == y.OPPORTUNISTIC and not c.HasField("container_token") for c in known)
    answer = master.answered(call, response_id=1)
    got = answer.allocated_containers
    assert [c.id for c in got] == [c.id for c in known] and [c.nodeId for c in got] == [c.nodeId for c in known]
    assert all(c.id.id > 1 << 30 and c.container_token.password for c in got)
    assert {(c.execution_type, c.allocation_request_id) for c in got} == {(y.GUARANTEED, -1)}, "as it asked"
    assert {ids.node_id_text(token.nodeId) for token in answer.nm_tokens} == {ids.node_id_text(c.nodeId) for c in got}
    assert [type(effect) for effect in master.wire.effects] == [Granted, Announce] * 2
    assert not master.world.grants.seen, "the ResourceManager itself granted nothing yet"
    empty = master.calls(ask(1))
    assert empty.method == "allocate" and not inner_or_plain(empty).ask


def inner_or_plain(call: Call) -> y.AllocateRequestProto:
    return inner(call) if call.method == METHOD else y.AllocateRequestProto.FromString(call.body)


def test_ids_do_not_repeat_and_nm_tokens_come_once_for_each_key() -> None:
    master = Master(cluster(1, nodes=1))
    world, seen, tokens = master.world, set(), []
    for response_id in range(3):
        if response_id == 2:
            world.minter.ring.report(node_id(1), replace(KEYS, nm=MasterKey(3, b"ABCDEFGH")), 0.0)
        call = master.calls(ask(response_id, 1))
        answer = master.answered(call, response_id=response_id + 1)
        own = [c for c in answer.allocated_containers if c.id.id > 1 << 30]
        seen |= {c.id.id for c in own}
        tokens.append(len(answer.nm_tokens))
        assert len(own) == 1
    assert len(seen) == 3 and tokens == [1, 0, 1]


def test_nodes_without_keys_are_asked_for_as_before() -> None:
    master = Master(cluster(0))
    call = master.calls(ask(0, 1))
    assert call.method == "allocate"
    assert any(r.execution_type_request.execution_type == y.OPPORTUNISTIC for r in inner_or_plain(call).ask)


def test_a_resource_manager_without_the_protocol_gets_the_call_again_as_it_was() -> None:
    master = Master(cluster())
    call = master.calls(ask(0, 1))
    (grant,) = minted(call)
    (again,), seen = master.wire.pass_down(master.wire.server.error(call, UNKNOWN_PROTOCOL, "Unknown protocol"))
    assert not seen and (again.method, again.call_id) == ("allocate", call.call_id)
    assert not master.answered(again, response_id=1).allocated_containers
    following = master.calls(ask(1))
    request = y.AllocateRequestProto.FromString(following.body)
    assert following.method == "allocate" and released(request) == [grant.id.id]
    assert any(r.execution_type_request.execution_type == y.OPPORTUNISTIC and r.num_containers for r in request.ask)
    assert master.world.minter.ring.why_off == "Unknown protocol"
    (refused,) = [c for c in master.wire.commands if isinstance(c, MintedRefused)]
    assert refused.why == f"{UNKNOWN_PROTOCOL}: Unknown protocol"


def test_an_exception_is_the_application_masters_only_if_its_own_call_raises_it() -> None:
    master = Master(cluster())
    call = master.calls(ask(0, 1))
    (again,), _ = master.wire.pass_down(master.wire.server.error(call, "java.lang.NullPointerException", "null"))
    failure = master.wire.refuse(again, "java.lang.NullPointerException", "null")
    assert isinstance(failure, Failure) and failure.exception_class.endswith("NullPointerException")
    assert minted(master.calls(ask(0, 1))), "the ResourceManager knows the protocol: it goes on"


@pytest.mark.parametrize("exception", [NOT_REGISTERED, WRONG_ID, "org.apache.hadoop.ipc.StandbyException"])
def test_what_the_application_master_has_to_put_right_reaches_it(exception: str) -> None:
    master = Master(cluster())
    call = master.calls(ask(0, 1))
    (grant,) = minted(call)
    failure = master.wire.refuse(call, exception, "out of order")
    assert failure.exception_class == exception
    registered = master.wire.call("registerApplicationMaster", y.RegisterApplicationMasterRequestProto())
    master.wire.answer(registered, y.RegisterApplicationMasterResponseProto(queue="default"))
    second = master.calls(ask(0, 1))
    assert released(inner(second)) == [grant.id.id]
    assert minted(second)[0].id.id != grant.id.id


def test_a_repeated_request_has_the_same_containers() -> None:
    master = Master(cluster())
    request = ask(0, 2)
    first = minted(master.calls(request))
    master.wire = Wire(master.world)
    call = master.calls(request)
    assert minted(call) == first
    assert len(master.answered(call, response_id=1).allocated_containers) == 2


def test_a_repeated_request_that_asks_for_more_has_all_of_them() -> None:
    master = Master(cluster())
    first = minted(master.calls(ask(0, 1)))
    master.wire = Wire(master.world)
    call = master.calls(ask(0, 3))
    numbers = [c.id.id for c in minted(call)]
    assert first[0].id.id in numbers and len(set(numbers)) == len(numbers) == 3
    assert len(master.answered(call, response_id=1).allocated_containers) == 3


def test_after_a_crash_what_nobody_was_given_is_released() -> None:
    master, kept = Master(cluster()), Snapshot()
    call = master.calls(ask(0, 2))
    for note in master.wire.take_notes():
        kept.take(json.loads(json.dumps(note.note)))
    numbers = sorted(c.id.id for c in minted(call))
    assert sorted(ids.container_id_proto(text).id for text in kept.minted) == numbers
    world = cluster()
    world.takeover.restore(ATTEMPT, kept)
    wire = Wire(world)
    assert isinstance(wire.send("allocate", ask(0, 2)), Failure), "it is to register anew"
    assert isinstance(wire.send("registerApplicationMaster", y.RegisterApplicationMasterRequestProto()), Response)
    following = wire.call("allocate", ask(0, 2))
    assert sorted(released(inner_or_plain(following))) == numbers
    assert world.attempts[ATTEMPT].own_grants.number >= numbers[-1]


def test_a_whole_note_holds_what_is_on_its_way() -> None:
    master, kept = Master(cluster()), Snapshot()
    numbers = sorted(c.id.id for c in minted(master.calls(ask(0, 2))))
    kept.take(json.loads(json.dumps(dict(master.world.takeover.whole_notes())[ATTEMPT])))
    assert sorted(ids.container_id_proto(text).id for text in kept.minted) == numbers
    assert kept.number == numbers[-1]


def test_application_masters_may_not_speak_the_protocol_themselves() -> None:
    master = Master(cluster())
    raw = master.wire.client.call(METHOD, DISTRIBUTED_SCHEDULING_PROTOCOL, DistributedSchedulingAllocateRequestProto())
    commands = master.wire.relay.from_am(raw, 0.0)
    (event,) = master.wire.client.receive_data(b"".join(c.data for c in commands))  # type: ignore[union-attr]
    assert isinstance(event, Failure) and event.exception_class == FORBIDDEN
    wire = Wire(master.world)
    with pytest.raises(RemoteProtocolError, match="distributed schedulers"):
        wire.relay.from_am(wire.client.context(DISTRIBUTED_SCHEDULING_PROTOCOL), 0.0)


def test_where_it_is_off_other_distributed_schedulers_pass() -> None:
    wire = Wire(coordinator())
    (call,) = wire.up(
        wire.client.call(METHOD, DISTRIBUTED_SCHEDULING_PROTOCOL, DistributedSchedulingAllocateRequestProto())
    )
    assert isinstance(call, Call) and call.method == METHOD
    assert wire.client.call("allocate", AM_PROTOCOL, ask(0))


@pytest.mark.parametrize(
    ("size", "rounded"),
    [((100, 1), (512, 1)), ((513, 1), (1024, 1)), ((1024, 3), (1024, 3)), ((9000, 9), (8192, 8))],
)
def test_sizes_are_rounded_as_the_scheduler_rounds_them(size: tuple[int, int], rounded: tuple[int, int]) -> None:
    assert normalised(Resources(*size), Resources(512, 1), Resources(8192, 8)) == Resources(*rounded)


def on_a_lost_node(master: Master, **fields: object) -> tuple[y.ContainerProto, y.AllocateResponseProto]:
    """Grant one container, and report its node as LOST in the answer after that."""
    (got,) = master.answered(master.calls(ask(0, 1)), response_id=1).allocated_containers
    report = y.NodeReportProto(nodeId=got.nodeId, node_state=y.NS_LOST)
    return got, master.answered(master.calls(ask(1)), response_id=2, updated_nodes=[report], **fields)


def ends(answer: y.AllocateResponseProto, of: y.ContainerProto) -> list[tuple[int, str]]:
    return [(s.exit_status, s.diagnostics) for s in answer.completed_container_statuses if s.container_id == of.id]


@pytest.mark.parametrize(("app_type", "exit_status"), [("YARN", -100), ("SPARK", -102), ("MAPREDUCE", -102)])
def test_a_container_whose_node_is_lost_ends_once_as_yarn_ends_it(app_type: str, exit_status: int) -> None:
    master = Master(cluster(app_type=app_type))
    got, answer = on_a_lost_node(master)
    assert not ends(answer, got), "the ResourceManager's own completion comes first, if it has one"
    assert not ends(master.answered(master.calls(ask(2)), response_id=3), got)
    assert ends(master.answered(master.calls(ask(3)), response_id=4), got) == [
        (exit_status, "Container released on a *lost* node")
    ]
    call = master.calls(ask(4))
    assert released(inner_or_plain(call)) == [got.id.id], "its node may come back, and register with it"
    late = y.ContainerStatusProto(container_id=got.id, state=y.C_COMPLETE, exit_status=-100)
    assert not ends(master.answered(call, response_id=5, completed_container_statuses=[late]), got)
    assert not len(master.world.attempts[ATTEMPT].live)


def test_the_resource_managers_own_completion_goes_first() -> None:
    master = Master(cluster())
    got, _ = on_a_lost_node(master)
    own = y.ContainerStatusProto(container_id=got.id, state=y.C_COMPLETE, exit_status=0, diagnostics="done")
    master.answered(master.calls(ask(2)), response_id=3)
    answer = master.answered(master.calls(ask(3)), response_id=4, completed_container_statuses=[own])
    assert ends(answer, got) == [(0, "done")]
    for response_id in (4, 5, 6):
        assert not ends(master.answered(master.calls(ask(response_id)), response_id=response_id + 1), got)


def test_an_answer_with_such_an_end_that_got_lost_is_repeated() -> None:
    master = Master(cluster())
    got, _ = on_a_lost_node(master)
    for response_id in (2, 3):
        answer = master.answered(master.calls(ask(response_id)), response_id=response_id + 1)
    master.wire = Wire(master.world)
    again = master.answered(master.calls(ask(3)), response_id=4)
    assert again == answer and len(ends(again, got)) == 1


def listed(world: Coordinator, states: dict[int, str], now_s: float) -> None:
    world.yarn_nodes([yarn_node(number, state=state) for number, state in states.items()], now_s)
    world.rounds.all_parts(now_s)


def ends_within(master: Master, first: int, of: y.ContainerProto) -> list[tuple[int, str]]:
    """Return what three exchanges report of a container's end."""
    answers = [master.answered(master.calls(ask(n)), response_id=n + 1) for n in range(first, first + 3)]
    return [end for answer in answers for end in ends(answer, of)]


@pytest.mark.parametrize("state", ["LOST", "UNHEALTHY", "DECOMMISSIONED", "REBOOTED", "SHUTDOWN"])
def test_a_node_that_is_listed_as_lost_ends_its_containers(state: str) -> None:
    master = Master(cluster(1, nodes=1))
    (got,) = master.answered(master.calls(ask(0, 1)), response_id=1).allocated_containers
    listed(master.world, {1: "RUNNING"}, 1.0)
    assert not ends_within(master, 1, got)
    listed(master.world, {1: state}, 2.0)
    listed(master.world, {1: "RUNNING"}, 3.0)
    assert len(ends_within(master, 4, got)) == 1, "also where it registered again meanwhile"


def test_a_node_that_is_not_listed_is_waited_for_as_the_resource_manager_waits() -> None:
    master = Master(cluster(1, nodes=1))
    (got,) = master.answered(master.calls(ask(0, 1)), response_id=1).allocated_containers
    listed(master.world, {}, 1.0)
    listed(master.world, {}, 600.0)
    assert not ends_within(master, 1, got), "after its restart the nodes come one by one"
    listed(master.world, {1: "RUNNING"}, 601.0)
    listed(master.world, {}, 602.0)
    listed(master.world, {}, 1202.0)
    assert not ends_within(master, 4, got)
    listed(master.world, {}, 1203.0)
    assert len(ends_within(master, 7, got)) == 1


def test_an_end_that_a_sidecar_reported_and_the_resource_manager_does_not_know_is_made_up() -> None:
    master = Master(cluster(1, nodes=1))
    (got,) = master.answered(master.calls(ask(0, 1)), response_id=1).allocated_containers
    events = [
        ContainerEvent(seq=seq, container_id=ids.container_id_text(got.id), kind=kind, at_s=0.0)
        for seq, kind in enumerate((EventKind.HELD, EventKind.STARTED, EventKind.ENDED), 1)
    ]
    master.world.reports.report(node_id(1), report(1, events=events), 1.0)
    listed(master.world, {1: "RUNNING"}, 2.0)
    assert not ends_within(master, 1, got)
    listed(master.world, {1: "RUNNING"}, 603.0)
    assert len(ends_within(master, 4, got)) == 1


def test_what_the_resource_manager_granted_itself_is_its_own_to_end() -> None:
    master = Master(cluster(0, nodes=1))
    call = master.calls(ask(0, 1))
    (wanted,) = [r for r in inner_or_plain(call).ask if r.resource_name == "host1"]
    (got,) = master.answered(call, response_id=1, allocated_containers=[container(7, 1, wanted)]).allocated_containers
    listed(master.world, {1: "LOST"}, 1.0)
    assert not ends_within(master, 1, got)


def successor_of(master: Master) -> Master:
    """Return the same application with a proxy that has the journal alone."""
    kept, successor = Snapshot(), Master.__new__(Master)
    for note in master.wire.take_notes():
        kept.take(json.loads(json.dumps(note.note)))
    successor.world = cluster(1, nodes=1)
    successor.world.takeover.restore(ATTEMPT, kept)
    successor.wire = Wire(successor.world)
    return successor


def registers_anew(successor: Master, response_id: int) -> None:
    wire = successor.wire
    assert isinstance(wire.send("allocate", ask(response_id)), Failure), "it is to register anew"
    assert isinstance(wire.send("registerApplicationMaster", y.RegisterApplicationMasterRequestProto()), Response)


def test_the_wait_for_a_node_that_is_not_listed_goes_on_after_a_crash() -> None:
    master = Master(cluster(1, nodes=1))
    (got,) = master.answered(master.calls(ask(0, 1)), response_id=1).allocated_containers
    listed(master.world, {}, 1.0)
    master.answered(master.calls(ask(1)), response_id=2)
    successor = successor_of(master)
    listed(successor.world, {}, 605.0)
    registers_anew(successor, 2)
    seen = [successor.answered(successor.calls(ask(n)), response_id=n + 3) for n in range(3)]
    assert not any(ends(answer, got) for answer in seen), "it may not have read the list of nodes yet"
    listed(successor.world, {}, 620.0)
    seen = [successor.answered(successor.calls(ask(n)), response_id=n + 1) for n in range(5, 8)]
    assert [len(ends(answer, got)) for answer in seen] == [0, 1, 0]


def test_after_a_crash_lost_nodes_still_end_their_containers() -> None:
    master = Master(cluster(1, nodes=1))
    (got,) = master.answered(master.calls(ask(0, 1)), response_id=1).allocated_containers
    listed(master.world, {1: "LOST"}, 1.0)
    successor = successor_of(master)
    listed(successor.world, {1: "LOST"}, 1.0)
    registers_anew(successor, 1)
    seen = [successor.answered(successor.calls(ask(n)), response_id=n + 2) for n in range(3)]
    assert [len(ends(answer, got)) for answer in seen] == [0, 1, 0]


def test_what_was_asked_of_the_resource_manager_before_is_taken_back() -> None:
    master = Master(cluster(0))
    first = master.calls(ask(0, 1))
    host_row, _ = asked = inner_or_plain(first).ask
    (listed,) = {each.allocation_request_id for each in asked}
    master.answered(first, response_id=1)
    for number in (1, 2, 3):
        master.world.minter.ring.report(node_id(number), KEYS, 0.0)
    second = master.calls(ask(1))
    (own,) = minted(second)
    (zero,) = inner(second).ask
    assert own.allocation_request_id != listed, "the ResourceManager keeps an id that it did not grant"
    assert (zero.allocation_request_id, zero.resource_name, zero.num_containers) == (listed, host_row.resource_name, 0)
    table = master.world.attempts[ATTEMPT].table
    assert [(each.allocation_request_id, each.resource_name) for each in table.rows_at_rm()] == [(listed, "")]
    got = master.answered(second, response_id=2)
    assert [(each.id.id, each.allocation_request_id) for each in got.allocated_containers] == [(own.id.id, -1)]
    third = master.calls(ask(2, 1))
    (another,) = minted(third)
    assert another.allocation_request_id not in (listed, own.allocation_request_id) and not inner(third).ask
    master.answered(third, response_id=3)
    master.world.minter.refused("not now", 0.0)
    again = inner_or_plain(master.calls(ask(3, 1))).ask
    assert {each.allocation_request_id for each in again} == {listed}, "it is used where the proxy cannot grant"
