"""Allocates that the ResourceManager refuses for their response id: its last answer comes again to the same call."""

import json

import pytest

from hadoop_rpc.connection import AM_PROTOCOL
from hadoop_rpc.events import Call, Failure, Response
from hadoop_rpc.protos import yarn_pb2 as y
from rm_proxy.attempt.registration.registration import AttemptState
from rm_proxy.attempt.repeated_requests import LastAnswer
from rm_proxy.attempt.snapshot import packed_answer, unpacked_answer
from rm_proxy.domain.response_ids import expected_id, id_before
from rm_proxy.relay.commands import TookOver
from rm_proxy.relay.refusals import WRONG_ID
from rm_proxy.relay.relay import LAST_CALL_ID
from tests.model.wire import Wire
from tests.rm_proxy.yarn_messages import ALL_Q, ATTEMPT, container, container_proto, coordinator, row, shown

ALL_G = {**ALL_Q, "routes": [{"policy": "only_g"}]}
TEXT = f"Application Attempt: {ATTEMPT} expect responseId to be {{}} but get {{}}"


def asking(response_id: int, *rows: y.ResourceRequestProto, release: tuple[int, ...] = ()) -> y.AllocateRequestProto:
    request = y.AllocateRequestProto(response_id=response_id, ask=rows)
    request.release.extend(container_proto(n) for n in release)
    return request


def answer(response_id: int, *allocated: y.ContainerProto) -> y.AllocateResponseProto:
    return y.AllocateResponseProto(response_id=response_id, allocated_containers=allocated)


def read(call: Call) -> y.AllocateRequestProto:
    return y.AllocateRequestProto.FromString(call.body)


def registered(wire: Wire) -> None:
    call = wire.call("registerApplicationMaster", y.RegisterApplicationMasterRequestProto(host="h", rpc_port=1))
    wire.answer(call, y.RegisterApplicationMasterResponseProto(queue="default"))


def refused(wire: Wire, call: Call, expected: int) -> Call:
    """Refuse a call for its id; returns the proxy's own call that follows. Nothing reaches the application master."""
    wire.commands.clear()
    text = TEXT.format(expected, read(call).response_id)
    commands = wire.relay.from_rm(wire.server.error(call, WRONG_ID, text), wire.now_s)
    wire.commands += commands
    data = [c.data for c in commands if type(c).__name__ in ("ToRm", "ToAm")]
    (own,) = wire.server.receive_data(b"".join(data))
    assert isinstance(own, Call) and own.method == "allocate" and own.protocol == AM_PROTOCOL
    assert TookOver(ATTEMPT, "wrong-id") in wire.commands
    return own


def test_ids_count_modulo_two_to_the_31() -> None:
    assert [id_before(n) for n in (1, 7, 0)] == [0, 6, 2**31 - 1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TEXT.format(7, 3), 7),
        (
            "Invalid responseId in AllocateRequest from application attempt: a, expect responseId to be 12, but get 3",
            12,
        ),
        (TEXT.format(0, 3), None),
        ("Invalid progress", None),
        ("expect responseId to be ", None),
    ],
)
def test_the_id_that_a_refusal_expects(text: str, expected: int | None) -> None:
    assert expected_id(text) == expected


def test_an_answer_that_nobody_passed_on_comes_again_and_the_request_goes_with_the_next() -> None:
    """Such as after kill -9: the ResourceManager answered calls that an earlier process never passed on."""
    wire = Wire(coordinator(ALL_G))
    registered(wire)
    call = wire.call("allocate", asking(3, row("*", 2), release=(5,)))
    own = refused(wire, call, 7)
    assert (own.call_id, own.client_id, own.retry_count) == (LAST_CALL_ID, call.client_id, call.retry_count)
    assert read(own).response_id == 6 and not read(own).ask
    got = wire.answer(own, answer(7, container(1, 1, row())))
    assert got.call_id == call.call_id
    seen = y.AllocateResponseProto.FromString(got.body)
    assert (seen.response_id, len(seen.allocated_containers)) == (7, 1)
    assert not wire.relay.outstanding
    following = read(wire.call("allocate", asking(7)))
    assert shown(following.ask) == [("*", 1, "G", -1)], "one of the two has come"
    assert [c.id for c in following.release] == [5]


def test_the_last_answer_that_was_passed_on_goes_out_as_it_did() -> None:
    wire = Wire(coordinator())
    registered(wire)
    call = wire.call("allocate", asking(0, row("*")))
    (asked,) = [r for r in read(call).ask if r.resource_name != "*"]
    raw = answer(1, container(1, 1, asked))
    first = wire.answer(call, raw)
    call = wire.call("allocate", asking(9, row("*", 2, 10)))
    assert wire.answer(refused(wire, call, 1), raw).body == first.body
    assert wire.effects == [], "it is delivered once"
    again = wire.call("allocate", asking(9, row("*", 2, 10)))
    assert read(again).response_id == 0, "the answer to this call was lost: the ResourceManager repeats it"
    assert wire.answer(again, raw).body == first.body
    sent = read(wire.call("allocate", asking(1)))
    assert {r.priority.priority for r in sent.ask if r.num_containers} == {10}, "its rows are placed once more"


def test_a_registration_that_is_not_known_here_heals_too() -> None:
    wire = Wire(coordinator(ALL_G))
    call = wire.call("allocate", asking(3, row("*", 2), row("*", 1, 5), release=(5,)))
    assert wire.relay.attempt is not None and wire.relay.attempt.registration.state is AttemptState.UNTRACKED
    got = wire.answer(refused(wire, call, 7), answer(7))
    assert (got.call_id, y.AllocateResponseProto.FromString(got.body).response_id) == (call.call_id, 7)
    following = read(wire.call("allocate", asking(7, row("*", 4))))
    assert sorted((r.priority.priority, r.num_containers) for r in following.ask) == [(5, 1), (20, 4)]
    assert [c.id for c in following.release] == [5]


@pytest.mark.parametrize("text", [TEXT.format(0, 3), "progress is not a number"])
def test_a_refusal_that_names_no_answer_passes(text: str) -> None:
    wire = Wire(coordinator())
    registered(wire)
    failure = wire.refuse(wire.call("allocate", asking(3)), WRONG_ID, text)
    assert failure.text == text and not wire.relay.outstanding


@pytest.mark.parametrize("exception", [WRONG_ID, "org.apache.hadoop.ipc.StandbyException"])
def test_a_refusal_of_our_own_call_reaches_the_application_under_its_call(exception: str) -> None:
    wire = Wire(coordinator(ALL_G))
    registered(wire)
    call = wire.call("allocate", asking(3, row("*", 2)))
    own = refused(wire, call, 7)
    failure = wire.refuse(own, exception, TEXT.format(8, 6))
    assert (failure.call_id, failure.exception_class, failure.text) == (call.call_id, exception, TEXT.format(8, 6))
    assert not wire.relay.outstanding


def test_other_calls_pass_while_our_own_is_on_its_way() -> None:
    wire = Wire(coordinator())
    registered(wire)
    call = wire.call("allocate", asking(3))
    own = refused(wire, call, 7)
    finish = wire.call("finishApplicationMaster", y.FinishApplicationMasterRequestProto())
    got = wire.answer(finish, y.FinishApplicationMasterResponseProto(isUnregistered=False))
    assert got.call_id == finish.call_id
    assert wire.answer(own, answer(7)).call_id == call.call_id


def test_an_application_master_s_call_of_such_a_number_keeps_it() -> None:
    wire = Wire(coordinator())
    registered(wire)
    raw = wire.client.call("getOther", AM_PROTOCOL, b"", call_id=LAST_CALL_ID)
    (other,) = wire.up(raw)
    own = refused(wire, wire.call("allocate", asking(3)), 7)
    assert own.call_id == LAST_CALL_ID - 1
    assert isinstance(other, Call)
    assert isinstance(wire.answer(other, b""), Response)
    assert not isinstance(wire.answer(own, answer(7)), Failure)


def test_the_id_that_was_asked_with_is_journaled() -> None:
    last = LastAnswer(9, 4)
    kept = unpacked_answer(json.loads(json.dumps(packed_answer(last))))
    assert (kept.response_id, kept.request_id, kept.id_before) == (9, 4, 8)
    assert [n for n in range(12) if kept.repeats(n)] == [4, 8]
