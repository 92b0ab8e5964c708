"""Call ids that come twice: an id belongs to one call until that is answered."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.connection import NM_PROTOCOL, Call
from hadoop_rpc.protos import yarn_pb2 as y
from sidecar.gate import gate
from sidecar.gate.events import (
    Again,
    CloseClient,
    CloseUpstream,
    Garbage,
    GateDecided,
    OwnAnswer,
    OwnCall,
    StartAnswered,
    StartEarly,
    StartWanted,
    StartWithdrawn,
    UpstreamClosed,
)
from sidecar.gate.start_messages import container_proto
from sidecar.node.events import Outcome
from tests.sidecar.fakes import cid, start_request, starts
from tests.sidecar.gate.test_gate import Talk

TOP = 0x7FFFFFFF


def start_under(talk: Talk, call_id: int, container: str, *, opportunistic: bool = False) -> bytes:
    """Return the bytes of a start with this call id."""
    body = starts(start_request(container, opportunistic=opportunistic))
    return talk.client.call("startContainers", NM_PROTOCOL, body, call_id=call_id)


def forwarded(talk: Talk) -> None:
    talk.say(start_under(talk, 7, cid(2)))
    talk.tell(GateDecided(cid(2), hold=False))


def undecided(talk: Talk) -> None:
    talk.say(start_under(talk, 7, cid(2)))


def passed_on(talk: Talk) -> None:
    body = y.GetContainerStatusesRequestProto(container_id=[container_proto(cid(2))])
    talk.say(talk.client.call("getContainerStatuses", NM_PROTOCOL, body, call_id=7))


@pytest.mark.parametrize("first", [forwarded, undecided, passed_on])
def test_a_second_call_under_an_id_in_flight_closes_the_connection(first: Callable[[Talk], None]) -> None:
    talk = Talk()
    talk.login()
    first(talk)
    garbage, *rest = talk.say(start_under(talk, 7, cid(3)))
    assert garbage == Garbage("client", "call id 7 comes again before its call is answered")
    assert CloseClient() in rest
    assert not [command for command in rest if isinstance(command, StartWanted)]


def test_what_was_forwarded_before_is_still_answered_to_the_node() -> None:
    talk = Talk()
    talk.login()
    forwarded(talk)
    assert CloseUpstream() not in talk.say(start_under(talk, 7, cid(3)))
    assert talk.tell(UpstreamClosed()) == [
        StartAnswered(cid(2), Outcome.LOST, "the connection to the NodeManager was lost")
    ]


def test_what_was_not_decided_before_is_withdrawn() -> None:
    talk = Talk()
    talk.login()
    undecided(talk)
    assert StartWithdrawn(cid(2)) in talk.say(start_under(talk, 7, cid(3)))


def test_an_id_of_the_gate_itself_is_as_good_as_any() -> None:
    talk = Talk()
    talk.login()
    talk.tell(OwnCall(("start", "1"), "startContainers", b""))
    garbage, *_ = talk.say(start_under(talk, TOP, cid(3)))
    assert garbage == Garbage("client", f"call id {TOP} comes again before its call is answered")
    assert talk.tell(UpstreamClosed()) == [OwnAnswer(("start", "1"), None)]


@pytest.mark.parametrize("first", [undecided, passed_on])
def test_the_gate_takes_no_id_that_the_client_uses(first: Callable[[Talk], None]) -> None:
    talk = Talk()
    talk.login()
    body = y.GetContainerStatusesRequestProto(container_id=[container_proto(cid(2))])
    talk.say(talk.client.call("getContainerStatuses", NM_PROTOCOL, body, call_id=TOP))
    first(talk)
    talk.arrived()
    talk.tell(OwnCall(("start", "1"), "startContainers", b""))
    (own,) = talk.arrived()
    assert isinstance(own, Call)
    assert own.call_id == TOP - 1


@given(holds=st.lists(st.booleans(), max_size=6))
def test_an_id_is_free_again_with_its_answer(holds: list[bool]) -> None:
    talk = Talk()
    talk.login()
    for number, hold in enumerate(holds):
        container = cid(number + 2)
        (wanted,) = talk.say(start_under(talk, 7, container, opportunistic=hold))
        assert isinstance(wanted, StartWanted)
        talk.tell(GateDecided(container, hold=hold))
        for call in talk.arrived():
            assert isinstance(call, Call)
            talk.answer(talk.server.response(call, b""))
        (answer,) = talk.heard()
        assert answer.call_id == 7  # type: ignore[attr-defined]


def test_calls_without_an_answer_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs memory here, and a NodeManager that does not answer is no reason to take more of them."""
    monkeypatch.setattr(gate, "MAX_IN_FLIGHT", 5)
    talk = Talk()
    talk.login()
    body = y.GetContainerStatusesRequestProto(container_id=[container_proto(cid(2))])
    for call_id in range(5):
        assert not talk.say(talk.client.call("getContainerStatuses", NM_PROTOCOL, body, call_id=call_id))
    calls = talk.arrived()
    assert len(calls) == 5 and isinstance(calls[0], Call)
    talk.answer(talk.server.response(calls[0], y.GetContainerStatusesResponseProto()))
    talk.say(talk.client.call("getContainerStatuses", NM_PROTOCOL, body, call_id=5))
    garbage, *rest = talk.say(talk.client.call("getContainerStatuses", NM_PROTOCOL, body, call_id=6))
    assert garbage == Garbage("client", "more than 5 calls are waiting for their answers")
    assert CloseClient() in rest


def test_two_early_starts_of_one_container_are_both_sent_again() -> None:
    talk = Talk()
    talk.login()
    for call_id in (7, 8):
        talk.say(start_under(talk, call_id, cid(2)))
        talk.tell(GateDecided(cid(2), hold=False))
    refused = y.StartContainersResponseProto()
    failed = refused.failed_requests.add(container_id=container_proto(cid(2)))
    failed.exception.message = f"Container {cid(2)} rejected as it is allocated by a previous RM"
    for call in talk.arrived():
        assert isinstance(call, Call)
        assert talk.answer(talk.server.response(call, refused)) == [StartEarly(cid(2))]
    talk.tell(Again(cid(2)))
    talk.tell(Again(cid(2)))
    assert [call.call_id for call in talk.arrived() if isinstance(call, Call)] == [7, 8]
