"""The gate as a machine: bytes of a whole conversation, in pieces of any size."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hadoop_rpc.connection import AM_PROTOCOL, NM_PROTOCOL, Call, ClientConnection, SaslFrame, ServerConnection
from hadoop_rpc.login import TokenLogin
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import RpcSaslProto
from policies.model import Resources
from quicksilver.common.messages import ContainerState
from sidecar.gate.container_calls import ServicesMeta
from sidecar.gate.events import (
    Again,
    ClientClosed,
    CloseClient,
    CloseUpstream,
    ForceWanted,
    FromClient,
    FromUpstream,
    Garbage,
    GateCommand,
    GateDecided,
    GateEvent,
    Going,
    LoggedIn,
    OwnAnswer,
    OwnCall,
    PassesThrough,
    PingDue,
    StartAnswered,
    StartEarly,
    StartWanted,
    StartWithdrawn,
    ToClient,
    ToUpstream,
    UpstreamClosed,
)
from sidecar.gate.gate import Gate
from sidecar.gate.start_messages import container_id, container_proto
from sidecar.node.events import Outcome
from tests.examples import of_share
from tests.sidecar.fakes import ATTEMPT, cid, nm_token, start_request, starts, verdict


class Holding:
    """The node machine's part: what is held."""

    def __init__(self) -> None:
        self.held: dict[str, ContainerState] = {}
        self.known: set[str] = set()

    def held_state(self, container: str) -> ContainerState | None:
        return self.held.get(container)

    def held_by(self, attempt: str) -> list[tuple[str, Resources]]:
        return [(one, Resources(1024, 1)) for one in self.held] if attempt == ATTEMPT else []

    def was_answered(self, container: str) -> bool:
        return container in self.known


class Talk:
    """A client and a NodeManager around one gate."""

    def __init__(self, piece: int = 1 << 20) -> None:
        self.holding, self.piece = Holding(), piece
        self.gate = Gate(self.holding, ServicesMeta())
        self.client, self.server = ClientConnection(), ServerConnection()
        self.up = self.down = b""

    def tell(self, event: GateEvent) -> list[GateCommand]:
        """Hand an event over; return the commands that are no bytes."""
        rest = []
        for command in self.gate.handle(event):
            match command:
                case ToUpstream(data):
                    self.up += data
                case ToClient(data):
                    self.down += data
                case _:
                    rest.append(command)
        return rest

    def say(self, data: bytes) -> list[GateCommand]:
        """Send the client's bytes in pieces."""
        pieces = [data[at : at + self.piece] for at in range(0, len(data), self.piece)]
        return [command for one in pieces for command in self.tell(FromClient(one))]

    def answer(self, data: bytes) -> list[GateCommand]:
        """Send the NodeManager's bytes in pieces."""
        pieces = [data[at : at + self.piece] for at in range(0, len(data), self.piece)]
        return [command for one in pieces for command in self.tell(FromUpstream(one))]

    def arrived(self) -> list[object]:
        """Return what came to the NodeManager."""
        data, self.up = self.up, b""
        return list(self.server.receive_data(data))

    def heard(self) -> list[object]:
        """Return what came to the client."""
        data, self.down = self.down, b""
        return list(self.client.receive_data(data))

    def login(self, protocol: str = NM_PROTOCOL) -> list[GateCommand]:
        """Log in by token."""
        login = TokenLogin(self.client, protocol, token=nm_token())
        commands = self.say(login.start())
        while not login.done:
            for step in [one for one in self.arrived() if isinstance(one, SaslFrame)]:
                commands += self.answer(self.server.sasl(verdict(step)))
            for event in self.heard():
                commands += self.say(login.handle(event))  # type: ignore[arg-type]
        self.arrived()
        return commands

    def call(self, method: str, body: object) -> list[GateCommand]:
        """Send a call of the client."""
        return self.say(self.client.call(method, NM_PROTOCOL, body))  # type: ignore[arg-type]


@given(piece=st.integers(1, 400))
@settings(max_examples=40, deadline=None)
def test_a_guaranteed_start_passes_byte_by_byte_in_pieces_of_any_size(piece: int) -> None:
    talk = Talk(piece)
    assert talk.login() == [LoggedIn(ATTEMPT)]
    sent = talk.client.call("startContainers", NM_PROTOCOL, starts(start_request(cid(2), opportunistic=False)))
    (wanted,) = talk.say(sent)
    assert isinstance(wanted, StartWanted)
    assert (wanted.start.container_id, wanted.start.attempt_id, wanted.start.opportunistic) == (cid(2), ATTEMPT, False)
    assert (wanted.start.resources, wanted.start.priority, wanted.start.user) == (Resources(1024, 1), 20, "u")
    assert talk.up == b""
    assert talk.tell(GateDecided(cid(2), hold=False)) == []
    assert talk.up == sent
    (call,) = talk.arrived()
    assert isinstance(call, Call)
    reply = talk.server.response(call, y.StartContainersResponseProto(succeeded_requests=[container_proto(cid(2))]))
    assert talk.answer(reply) == [StartAnswered(cid(2), Outcome.STARTED, "")]
    assert talk.down == reply


def test_master_that_closes_before_the_decision() -> None:
    talk = Talk()
    talk.login()
    talk.call("startContainers", starts(start_request(cid(2), opportunistic=False)))
    assert talk.tell(ClientClosed()) == [StartWithdrawn(cid(2))]
    late = talk.tell(GateDecided(cid(2), hold=False))
    assert late == [StartAnswered(cid(2), Outcome.REFUSED, "the client closed its connection before")]
    assert talk.up == b""


def test_own_calls_go_on_after_the_client_closed_and_are_lost_with_the_session() -> None:
    talk = Talk()
    talk.login()
    talk.tell(ClientClosed())
    talk.tell(PingDue())
    talk.tell(OwnCall(("start", cid(3)), "startContainers", b""))
    _ping, call = talk.arrived()
    assert isinstance(call, Call)
    assert call.call_id == 0x7FFFFFFF
    assert talk.gate.busy
    (answer,) = talk.answer(talk.server.response(call, b""))
    assert isinstance(answer, OwnAnswer)
    assert not talk.gate.busy
    talk.tell(OwnCall(("start", cid(4)), "startContainers", b""))
    assert talk.tell(UpstreamClosed()) == [OwnAnswer(("start", cid(4)), None)]
    assert talk.tell(OwnCall(("start", cid(5)), "startContainers", b"")) == [OwnAnswer(("start", cid(5)), None)]


def test_a_stop_of_a_container_on_its_way_waits_for_it() -> None:
    talk = Talk()
    talk.login()
    talk.holding.held[cid(3)] = ContainerState.STARTING
    assert talk.call("stopContainers", y.StopContainersRequestProto(container_id=[container_proto(cid(3))])) == []
    assert talk.up == b""
    del talk.holding.held[cid(3)]
    talk.tell(Going(cid(3)))
    (call,) = talk.arrived()
    assert isinstance(call, Call)
    assert call.method == "stopContainers"


@pytest.mark.parametrize("method", ["updateContainer", "signalToContainer", "reInitializeContainer", "localize"])
def test_any_other_call_about_a_held_container_forces_its_start(method: str) -> None:
    talk = Talk()
    talk.login()
    talk.holding.held = {cid(3): ContainerState.WAITING, cid(4): ContainerState.WAITING}
    inside = y.UpdateContainerRequestProto(
        container_version=0, container_id=container_proto(cid(3)), update_type=y.INCREASE_RESOURCE
    )
    assert talk.call(method, inside) == [ForceWanted(cid(3))]
    assert talk.up == b""
    talk.holding.held[cid(3)] = ContainerState.STARTING
    del talk.holding.held[cid(3)]
    talk.tell(Going(cid(3)))
    assert [call.method for call in talk.arrived() if isinstance(call, Call)] == [method]


def test_unreadable_starts_are_the_nodemanagers_business() -> None:
    talk = Talk()
    talk.login()
    broken = start_request(cid(2), opportunistic=True)
    broken.container_token.identifier = b"\xff\xff"
    for body in (b"\xff", b"", starts(broken).SerializeToString()):
        sent = talk.client.call("startContainers", NM_PROTOCOL, body)
        talk.up = b""
        assert talk.say(sent) == []
        assert talk.up == sent


def test_held_answers_carry_the_services_meta_data_asked_for_once() -> None:
    talk = Talk()
    talk.login()
    talk.call("startContainers", starts(start_request(cid(2), opportunistic=True)))
    talk.tell(GateDecided(cid(2), hold=True))
    (empty,) = talk.arrived()
    assert isinstance(empty, Call)
    assert (empty.method, empty.body) == ("startContainers", b"")
    meta = y.StartContainersResponseProto()
    meta.services_meta_data.add(key="mapreduce_shuffle", value=b"port")
    talk.answer(talk.server.response(empty, meta))
    (first,) = talk.heard()
    talk.call("startContainers", starts(start_request(cid(3), opportunistic=True)))
    talk.tell(GateDecided(cid(3), hold=True))
    assert talk.up == b""
    (second,) = talk.heard()
    for container, answer in ((cid(2), first), (cid(3), second)):
        response = y.StartContainersResponseProto.FromString(answer.body)  # type: ignore[attr-defined]
        assert [container_id(one) for one in response.succeeded_requests] == [container]
        assert response.services_meta_data[0].value == b"port"


@given(data=st.binary(max_size=200))
@settings(max_examples=of_share(200), deadline=None)
def test_garbage_closes_both_sides_once_and_nothing_is_raised(data: bytes) -> None:
    talk = Talk()
    commands = talk.say(data)
    if any(isinstance(command, Garbage) for command in commands):
        assert [type(c) for c in commands] == [Garbage, CloseClient, CloseUpstream]
        assert talk.say(b"more") == []
    assert talk.gate.attempt_id == ""


def test_another_protocol_and_encrypted_sessions_pass_unread() -> None:
    talk = Talk()
    assert PassesThrough(f"the protocol is {AM_PROTOCOL}", False) in talk.login(AM_PROTOCOL)
    talk.up = talk.down = b""
    talk.say(b"anything")
    talk.answer(b"at all")
    assert (talk.up, talk.down) == (b"anything", b"at all")

    talk = Talk()
    talk.say(talk.client.preamble(0xDF) + talk.client.sasl(RpcSaslProto(state=RpcSaslProto.NEGOTIATE)))
    offer = RpcSaslProto(state=RpcSaslProto.NEGOTIATE)
    offer.auths.add(method="TOKEN", mechanism="DIGEST-MD5", protocol="", serverId="default")
    talk.answer(talk.server.sasl(offer))
    choice = RpcSaslProto(state=RpcSaslProto.INITIATE, token=b'username="eHg=",qop=auth-conf')
    choice.auths.add(method="TOKEN", mechanism="DIGEST-MD5", protocol="", serverId="default")
    talk.say(talk.client.sasl(choice))
    commands = talk.answer(talk.server.sasl(RpcSaslProto(state=RpcSaslProto.SUCCESS)))
    assert commands == [PassesThrough("the connection's quality of protection is auth-conf", True)]
    assert talk.gate.attempt_id == ""


@pytest.mark.parametrize("known", [True, False])
def test_a_repeated_start_that_runs_already_is_a_success_only_if_an_answer_may_have_been_lost(known: bool) -> None:
    talk = Talk()
    talk.login()
    talk.holding.known = {cid(2)} if known else set()
    talk.call("startContainers", starts(start_request(cid(2), opportunistic=False)))
    talk.tell(GateDecided(cid(2), hold=False))
    (call,) = talk.arrived()
    assert isinstance(call, Call)
    there = y.StartContainersResponseProto()
    there.services_meta_data.add(key="mapreduce_shuffle", value=b"port")
    failed = there.failed_requests.add(container_id=container_proto(cid(2)))
    failed.exception.message = f"Container {cid(2)} already is running on this node!!"
    (answered,) = talk.answer(talk.server.response(call, there))
    assert isinstance(answered, StartAnswered)
    assert answered.outcome is Outcome.STARTED
    (heard,) = talk.heard()
    response = y.StartContainersResponseProto.FromString(heard.body)  # type: ignore[attr-defined]
    assert [container_id(one) for one in response.succeeded_requests] == ([cid(2)] if known else [])
    assert len(response.failed_requests) == (0 if known else 1)
    assert response.services_meta_data[0].value == b"port"


def refused_as_early(talk: Talk) -> list[GateCommand]:
    """Let the NodeManager refuse the start that came, as it does before it has registered."""
    (call,) = talk.arrived()
    assert isinstance(call, Call)
    answer = y.StartContainersResponseProto()
    failed = answer.failed_requests.add(container_id=container_proto(cid(2)))
    failed.exception.message = f"\nContainer {cid(2)} rejected as it is allocated by a previous RM"
    return talk.answer(talk.server.response(call, answer))


def early_start() -> Talk:
    talk = Talk()
    talk.login()
    talk.call("startContainers", starts(start_request(cid(2), opportunistic=False)))
    talk.tell(GateDecided(cid(2), hold=False))
    return talk


def test_a_start_before_the_nodemanager_has_registered_is_sent_again() -> None:
    talk = early_start()
    for _ in range(2):
        assert refused_as_early(talk) == [StartEarly(cid(2))]
        assert talk.up == talk.down == b""
        assert talk.tell(Again(cid(2))) == []
    (call,) = talk.arrived()
    assert isinstance(call, Call)
    ran = y.StartContainersResponseProto(succeeded_requests=[container_proto(cid(2))])
    assert talk.answer(talk.server.response(call, ran)) == [StartAnswered(cid(2), Outcome.STARTED, "")]
    assert len(talk.heard()) == 1


def test_one_of_a_resourcemanager_that_is_gone_is_refused_in_the_end() -> None:
    talk = early_start()
    while (commands := refused_as_early(talk)) == [StartEarly(cid(2))]:
        talk.tell(Again(cid(2)))
    (answered,) = commands
    assert isinstance(answered, StartAnswered)
    assert answered.outcome is Outcome.REFUSED
    (heard,) = talk.heard()
    response = y.StartContainersResponseProto.FromString(heard.body)  # type: ignore[attr-defined]
    assert "previous RM" in response.failed_requests[0].exception.message


@pytest.mark.parametrize("closed", [ClientClosed(), UpstreamClosed()])
def test_an_early_start_ends_with_its_connection(closed: GateEvent) -> None:
    talk = early_start()
    refused_as_early(talk)
    (answered, *_) = talk.tell(closed)
    assert isinstance(answered, StartAnswered)
    assert answered.outcome is Outcome.REFUSED
    assert talk.tell(Again(cid(2))) == []
    assert talk.up == b""


def test_an_answer_that_cannot_be_passed_on_ends_the_session_and_nothing_else() -> None:
    talk = Talk()
    talk.login()
    talk.holding.held[cid(1)] = ContainerState.WAITING
    both = y.GetContainerStatusesRequestProto(container_id=[container_proto(cid(1)), container_proto(cid(2))])
    talk.say(talk.client.call("getContainerStatuses", NM_PROTOCOL, both))
    (call,) = [event for event in talk.arrived() if isinstance(event, Call)]
    lacking = y.GetContainerStatusesResponseProto()
    lacking.status.add().capability.resource_value_map.add(value=1)
    commands = talk.answer(talk.server.response(call, lacking.SerializePartialToString()))
    assert [type(command) for command in commands] == [Garbage, CloseClient, CloseUpstream]


def test_words_of_the_nodemanager_that_are_no_utf8_are_told_all_the_same() -> None:
    talk = Talk()
    talk.login()
    talk.say(talk.client.call("startContainers", NM_PROTOCOL, starts(start_request(cid(1), opportunistic=True))))
    talk.tell(GateDecided(cid(1), hold=False))
    (call,) = [event for event in talk.arrived() if isinstance(event, Call)]
    answer = y.StartContainersResponseProto()
    answer.failed_requests.add(exception=y.SerializedExceptionProto(message="no")).container_id.CopyFrom(
        container_proto(cid(1))
    )
    commands = talk.answer(talk.server.response(call, answer.SerializeToString().replace(b"no", b"n\xff")))
    assert [one for one in commands if isinstance(one, StartAnswered)] == [
        StartAnswered(cid(1), Outcome.REFUSED, "n\ufffd")
    ]
