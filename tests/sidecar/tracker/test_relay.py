"""The relay to the resource tracker as a machine: sizes are translated both ways, all else is the bytes that came."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.connection import Call, ClientConnection, Response, ServerConnection
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos import yarn_server_pb2 as s
from sidecar.gate.events import Garbage, PassesThrough
from sidecar.tracker.relay import (
    TRACKER_PROTOCOL,
    TRANSITIONS,
    ContainerSize,
    FromNode,
    FromRm,
    NodeResized,
    Registered,
    RelayState,
    ToNode,
    ToResourceTracker,
    TrackerRelay,
)
from tests.paths import DATA
from tests.playbook import play

RECORDED = DATA / "hadoop_rpc"
UNKNOWN = b"\xaa\x06\x03new"  # field 101, which no version has


def resource(memory_mb: int, vcores: int, gpus: int | None = None) -> y.ResourceProto:
    """As Hadoop 3 writes it: the two of old as fields, and all of them in the list."""
    entries = {"memory-mb": (memory_mb, "Mi"), "vcores": (vcores, "")}
    if gpus is not None:
        entries["yarn.io/gpu"] = (gpus, "")
    proto = y.ResourceProto(memory=memory_mb, virtual_cores=vcores)
    for key, (value, units) in entries.items():
        proto.resource_value_map.add(key=key, value=value, units=units)
    return proto


def status(
    number: int, kind: Any, state: Any = y.C_RUNNING, sub: Any = y.CSS_RUNNING, vcores: int = 1
) -> y.ContainerStatusProto:
    proto = y.ContainerStatusProto(state=state, executionType=kind, capability=resource(512, vcores))
    proto.container_id.id = number
    proto.container_sub_state = sub
    return proto


def register(size: y.ResourceProto, *statuses: y.ContainerStatusProto) -> s.RegisterNodeManagerRequestProto:
    request = s.RegisterNodeManagerRequestProto(resource=size, physicalResource=resource(16384, 16))
    request.node_id.host, request.node_id.port = "node1", 8041
    request.nodeStatus.containersStatuses.extend(statuses)
    request.MergeFromString(UNKNOWN)
    return request


def heartbeat(*statuses: y.ContainerStatusProto) -> s.NodeHeartbeatRequestProto:
    request = s.NodeHeartbeatRequestProto(node_status=s.NodeStatusProto(containersStatuses=statuses))
    request.MergeFromString(UNKNOWN)
    return request


class Talk:
    """Both peers of one relay, as they would frame their messages."""

    def __init__(self, relay: TrackerRelay, protocol: str = TRACKER_PROTOCOL) -> None:
        self.relay = relay
        self.node, self.rm = ClientConnection(), ServerConnection()
        opening = self.node.preamble() + self.node.context(protocol, "yarn")
        self.opened = relay.handle(FromNode(opening))
        self.rm.receive_data(opening)
        self.notes: list[Any] = []

    def ask(self, method: str, message: Any) -> Call:
        """Send a call; return what arrived at the ResourceManager."""
        [up] = self._only(
            ToResourceTracker, self.relay.handle(FromNode(self.node.call(method, TRACKER_PROTOCOL, message)))
        )
        [call] = self.rm.receive_data(up)
        assert isinstance(call, Call)
        return call

    def answer(self, call: Call, message: Any) -> Response:
        """Answer; return what arrived at the NodeManager."""
        [down] = self._only(ToNode, self.relay.handle(FromRm(self.rm.response(call, message))))
        [response] = self.node.receive_data(down)
        assert isinstance(response, Response)
        return response

    def _only(self, kind: Any, commands: list[Any]) -> list[bytes]:
        self.notes = [command for command in commands if not isinstance(command, ToResourceTracker | ToNode)]
        return [command.data for command in commands if isinstance(command, kind)]


def test_registration_is_made_smaller_and_all_else_of_it_stays() -> None:
    talk = Talk(TrackerRelay(ContainerSize(1024, 4)))
    sent = register(resource(8192, 8, gpus=2), status(1, y.OPPORTUNISTIC))
    call = talk.ask("registerNodeManager", sent)
    seen = s.RegisterNodeManagerRequestProto.FromString(call.body)
    assert seen.resource == resource(7168, 4, gpus=2)
    assert talk.notes == [Registered("node1:8041", ContainerSize(8192, 8), ContainerSize(7168, 4), clamped=False)]
    seen.resource.CopyFrom(sent.resource)
    assert seen == sent  # unknown fields, physical size and container statuses as they came
    assert call.body.endswith(UNKNOWN)


def test_a_registration_answer_with_a_size_is_made_larger() -> None:
    talk = Talk(TrackerRelay(ContainerSize(0, 4)))
    call = talk.ask("registerNodeManager", register(resource(8192, 8)))
    answer = s.RegisterNodeManagerResponseProto(resource=resource(8192, 6))
    got = s.RegisterNodeManagerResponseProto.FromString(talk.answer(call, answer).body)
    assert got.resource == resource(8192, 10)
    assert talk.notes == [NodeResized(ContainerSize(8192, 10), ContainerSize(8192, 6), holds_more=False)]


def test_an_update_of_the_node_acts_shifted_and_never_takes_what_runs() -> None:
    talk = Talk(TrackerRelay(ContainerSize(0, 4)))
    running = [status(n, y.GUARANTEED) for n in range(7)]
    waiting = status(8, y.OPPORTUNISTIC, sub=y.CSS_SCHEDULED, vcores=50)
    ended = status(9, y.GUARANTEED, state=y.C_COMPLETE, vcores=50)
    call = talk.ask("nodeHeartbeat", heartbeat(*running, waiting, ended))
    answer = s.NodeHeartbeatResponseProto(response_id=3, resource=resource(4096, 2))
    got = s.NodeHeartbeatResponseProto.FromString(talk.answer(call, answer).body)
    assert got.resource == resource(4096, 7)  # 2 + 4, but 7 run
    assert talk.notes == [NodeResized(ContainerSize(4096, 7), ContainerSize(4096, 2), holds_more=True)]
    got = s.NodeHeartbeatResponseProto.FromString(talk.answer(talk.ask("nodeHeartbeat", heartbeat()), answer).body)
    assert got.resource == resource(4096, 6)
    assert talk.notes == [NodeResized(ContainerSize(4096, 6), ContainerSize(4096, 2), holds_more=False)]
    talk.answer(talk.ask("nodeHeartbeat", heartbeat()), answer)
    assert talk.notes == []  # dynamic-resources.xml says it with each heartbeat: said once


def test_a_size_stays_within_what_can_be_written() -> None:
    talk = Talk(TrackerRelay(ContainerSize(2**62, 2**30)))
    answer = s.NodeHeartbeatResponseProto(resource=resource(2**62, 2**31 - 1))
    got = s.NodeHeartbeatResponseProto.FromString(talk.answer(talk.ask("nodeHeartbeat", heartbeat()), answer).body)
    assert got.resource == resource(2**63 - 1, 2**31 - 1)


def test_what_runs_at_a_registration_is_kept_too() -> None:
    talk = Talk(TrackerRelay(ContainerSize(0, 1)))
    call = talk.ask("registerNodeManager", register(resource(4096, 8), *(status(n, y.GUARANTEED) for n in range(5))))
    answer = s.RegisterNodeManagerResponseProto(resource=resource(1024, 2))
    got = s.RegisterNodeManagerResponseProto.FromString(talk.answer(call, answer).body)
    assert got.resource == resource(2560, 5)


def test_running_opportunistic_containers_are_marked_and_nothing_else() -> None:
    statuses = [
        status(1, y.OPPORTUNISTIC),
        status(2, y.GUARANTEED),
        status(3, y.OPPORTUNISTIC, state=y.C_COMPLETE, sub=y.CSS_DONE),
        status(4, y.OPPORTUNISTIC, sub=y.CSS_SCHEDULED),
    ]
    talk = Talk(TrackerRelay(ContainerSize()))
    seen = s.NodeHeartbeatRequestProto.FromString(talk.ask("nodeHeartbeat", heartbeat(*statuses)).body)
    kinds = [one.executionType for one in seen.node_status.containersStatuses]
    assert kinds == [y.GUARANTEED, y.GUARANTEED, y.OPPORTUNISTIC, y.GUARANTEED]
    for one in seen.node_status.containersStatuses:
        one.executionType = statuses[one.container_id.id - 1].executionType
    assert seen == heartbeat(*statuses)
    asked = register(resource(4096, 4), *statuses)
    assert talk.ask("registerNodeManager", asked).body == asked.SerializeToString()  # as it came, marked or not


@pytest.mark.parametrize("mark", [True, False])
def test_what_needs_no_change_leaves_as_the_bytes_that_came(mark: bool) -> None:
    unusual = b"\x12\x00" + heartbeat(status(1, y.GUARANTEED)).SerializeToString()  # field 2 first: no canonical order
    relay = TrackerRelay(ContainerSize(0, 4), mark)
    talk = Talk(relay)
    for method, body in (
        ("nodeHeartbeat", unusual),
        ("unRegisterNodeManager", UNKNOWN),
        ("someday", b"\xff\xff"),
    ):
        frame = talk.node.call(method, TRACKER_PROTOCOL, body)
        assert relay.handle(FromNode(frame)) == [ToResourceTracker(frame)]
        [call] = talk.rm.receive_data(frame)
        assert isinstance(call, Call)
        back = talk.rm.response(call, UNKNOWN)
        assert relay.handle(FromRm(back)) == [ToNode(back)]
        error = talk.rm.error(call, "org.apache.hadoop.yarn.exceptions.YarnException", "no")
        assert relay.handle(FromRm(error)) == [ToNode(error)]
    if not mark:
        frame = talk.node.call("nodeHeartbeat", TRACKER_PROTOCOL, heartbeat(status(1, y.OPPORTUNISTIC)))
        assert relay.handle(FromNode(frame)) == [ToResourceTracker(frame)]


def test_another_relay_takes_over_between_two_messages() -> None:
    """No answer depends on a registration that the relay has seen."""
    talk = Talk(TrackerRelay(ContainerSize(0, 4)))
    answer = s.NodeHeartbeatResponseProto(resource=resource(4096, 4))
    got = s.NodeHeartbeatResponseProto.FromString(talk.answer(talk.ask("nodeHeartbeat", heartbeat()), answer).body)
    assert got.resource == resource(4096, 8)
    again = talk.ask("registerNodeManager", register(got.resource))  # a resync registers what the relay told
    assert s.RegisterNodeManagerRequestProto.FromString(again.body).resource == resource(4096, 4)


@given(
    memory=st.integers(1, 2**40), vcores=st.integers(1, 2**30), extra_mb=st.integers(0, 2**40), q=st.integers(0, 2**30)
)
def test_the_resourcemanager_always_sees_something_and_the_way_back_is_exact(
    memory: int, vcores: int, extra_mb: int, q: int
) -> None:
    talk = Talk(TrackerRelay(ContainerSize(extra_mb, q)))
    call = talk.ask("registerNodeManager", register(resource(memory, vcores)))
    seen = s.RegisterNodeManagerRequestProto.FromString(call.body).resource
    assert 1 <= seen.memory <= memory and 1 <= seen.virtual_cores <= vcores
    [note] = talk.notes
    assert note.clamped == (extra_mb >= memory or q >= vcores)
    if not note.clamped:
        answer = s.RegisterNodeManagerResponseProto(resource=seen)
        got = s.RegisterNodeManagerResponseProto.FromString(talk.answer(call, answer).body).resource
        assert got == resource(memory, vcores)


@pytest.mark.parametrize("name", ["am_integrity", "am_privacy"])
def test_signed_and_encrypted_connections_pass_untouched_and_loudly(name: str) -> None:
    relay = TrackerRelay(ContainerSize(0, 4))
    noted: list[object] = []
    for who, data in recording(name):
        event, same = (FromNode(data), ToResourceTracker) if who == "client" else (FromRm(data), ToNode)
        commands = relay.handle(event)
        assert b"".join(c.data for c in commands if isinstance(c, same)) == data
        noted += [c for c in commands if not isinstance(c, same)]
    assert noted == [PassesThrough("the connection is signed or encrypted", encrypted=True)]


def test_a_login_without_protection_is_read_on() -> None:
    relay = TrackerRelay(ContainerSize(0, 4))
    noted: list[object] = []
    for who, data in recording("am_auth"):
        event, same = (FromNode(data), ToResourceTracker) if who == "client" else (FromRm(data), ToNode)
        commands = relay.handle(event)
        assert b"".join(c.data for c in commands if isinstance(c, same)) == data
        noted += [c for c in commands if not isinstance(c, same)]
    [note] = noted  # it is read: the protocol is named in its connection context
    assert isinstance(note, PassesThrough) and not note.encrypted and "ApplicationMasterProtocolPB" in note.reason


def recording(name: str) -> list[tuple[str, bytes]]:
    rows = [line.split(" ") for line in (RECORDED / f"{name}.txt").read_text().splitlines()]
    return [(who, bytes.fromhex(data)) for who, data in rows if who != "password"]


def test_another_protocol_passes() -> None:
    talk = Talk(TrackerRelay(ContainerSize(0, 4)), "org.apache.hadoop.ha.HAServiceProtocol")
    reason = "the protocol is org.apache.hadoop.ha.HAServiceProtocol"
    assert [c for c in talk.opened if not isinstance(c, ToResourceTracker)] == [PassesThrough(reason, encrypted=False)]
    frame = talk.node.call("registerNodeManager", TRACKER_PROTOCOL, register(resource(8192, 8)))
    play(talk.relay, (FromNode(frame), [ToResourceTracker(frame)]), (FromRm(b"what"), [ToNode(b"what")]))


def test_garbage_is_said_once_and_nothing_follows() -> None:
    relay = TrackerRelay(ContainerSize(0, 4))
    [garbage] = relay.handle(FromNode(b"GET / HTTP/1.1\r\n\r\n"))
    assert isinstance(garbage, Garbage) and garbage.side == "NodeManager" and "looks like HTTP" in garbage.text
    assert relay.handle(FromNode(b"hrpc")) == [] == relay.handle(FromRm(b"x"))


@pytest.mark.parametrize("method", ["registerNodeManager", "nodeHeartbeat"])
def test_a_call_that_is_none_is_garbage(method: str) -> None:
    talk = Talk(TrackerRelay(ContainerSize(0, 4)))
    [garbage] = talk.relay.handle(FromNode(talk.node.call(method, TRACKER_PROTOCOL, b"\xff\xff\xff")))
    assert isinstance(garbage, Garbage) and method in garbage.text


def test_an_answer_that_is_none_is_garbage_of_the_resourcemanager() -> None:
    talk = Talk(TrackerRelay(ContainerSize(0, 4)))
    call = talk.ask("nodeHeartbeat", heartbeat())
    [garbage] = talk.relay.handle(FromRm(talk.rm.response(call, b"\xff\xff\xff")))
    assert isinstance(garbage, Garbage) and garbage.side == "ResourceManager"


def test_frames_and_open_calls_have_bounds() -> None:
    relay = TrackerRelay(ContainerSize(0, 4), max_frame_bytes=1000)
    talk = Talk(relay)
    [garbage] = relay.handle(FromNode((1001).to_bytes(4, "big")))
    assert isinstance(garbage, Garbage) and "limit of 1000" in garbage.text
    talk = Talk(TrackerRelay(ContainerSize(0, 4)))
    for _ in range(1000):
        talk.ask("nodeHeartbeat", heartbeat())
    last = talk.relay.handle(FromNode(talk.node.call("nodeHeartbeat", TRACKER_PROTOCOL, heartbeat())))
    assert last == [Garbage("NodeManager", "more than 1000 calls without an answer")]


@pytest.mark.parametrize("method", ["registerNodeManager", "nodeHeartbeat"])
def test_a_second_call_under_an_id_in_flight_is_garbage(method: str) -> None:
    """The answer to the first one would be read as that to the second, and the other's passed on as it came."""
    talk = Talk(TrackerRelay(ContainerSize(0, 4)))
    first = talk.ask("registerNodeManager", register(resource(8192, 8)))
    body = register(resource(8192, 8)) if method == "registerNodeManager" else heartbeat()
    again = talk.node.call(method, TRACKER_PROTOCOL, body, call_id=first.call_id)
    said = f"call id {first.call_id} comes again before its call is answered"
    assert talk.relay.handle(FromNode(again)) == [Garbage("NodeManager", said)]


def test_an_id_is_free_again_with_its_answer() -> None:
    talk = Talk(TrackerRelay(ContainerSize(0, 4)))
    call = talk.ask("nodeHeartbeat", heartbeat())
    talk.answer(call, s.NodeHeartbeatResponseProto())
    commands = talk.relay.handle(
        FromNode(talk.node.call("nodeHeartbeat", TRACKER_PROTOCOL, heartbeat(), call_id=call.call_id))
    )
    assert not [one for one in commands if isinstance(one, Garbage)]


@given(data=st.data())
def test_how_the_bytes_are_cut_does_not_matter(data: st.DataObject) -> None:
    node = ClientConnection(client_id=bytes(16))
    whole = node.preamble() + node.context(TRACKER_PROTOCOL, "yarn")
    whole += node.call("registerNodeManager", TRACKER_PROTOCOL, register(resource(8192, 8)))
    whole += node.call("nodeHeartbeat", TRACKER_PROTOCOL, heartbeat(status(1, y.OPPORTUNISTIC)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    relay = TrackerRelay(ContainerSize(0, 4))
    sent = b""
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        sent += b"".join(c.data for c in relay.handle(FromNode(whole[start:end])) if isinstance(c, ToResourceTracker))
    once = b"".join(
        c.data for c in TrackerRelay(ContainerSize(0, 4)).handle(FromNode(whole)) if isinstance(c, ToResourceTracker)
    )
    assert sent == once != whole


def test_states_of_a_connection() -> None:
    relay = TrackerRelay(ContainerSize(0, 4))
    assert (relay.state, relay.opened) == (RelayState.LOGIN, False)
    assert (Talk(relay).relay.state, relay.opened) == (RelayState.REWRITING, True)
    relay.handle(FromRm(b"\xff" * 8))
    assert relay.state is RelayState.BROKEN
    other = Talk(TrackerRelay(ContainerSize(0, 4)), "org.apache.hadoop.ha.HAServiceProtocol").relay
    assert other.state is RelayState.PASSING
    assert set(TRANSITIONS) == set(RelayState)
