"""The relay machine on bytes: what passes, what is rewritten, what breaks one connection and nothing else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hadoop_rpc.connection import AM_PROTOCOL, ClientConnection
from hadoop_rpc.errors import RemoteProtocolError
from hadoop_rpc.protos import yarn_pb2 as y
from rm_proxy.attempt.effects import Announce, Granted
from rm_proxy.domain.message_checks import MAX_REQUEST_BYTES
from rm_proxy.relay.commands import Called, Identified, PassedThrough, ToAm, ToRm
from rm_proxy.relay.refusals import NOT_REGISTERED
from rm_proxy.relay.relay import MAX_OUTSTANDING, Relay
from tests.model.wire import Wire, identifier
from tests.rm_proxy.yarn_messages import ALL_Q, ATTEMPT, cid, container, coordinator, event, granted_rows, row, shown

ALL_G = {**ALL_Q, "routes": [{"policy": "only_g"}]}


def asking(response_id: int, *rows: y.ResourceRequestProto) -> y.AllocateRequestProto:
    return y.AllocateRequestProto(response_id=response_id, ask=rows)


def test_who_it_is_is_believed_after_success_only() -> None:
    world = coordinator()
    wire = Wire(world, log_in=False)
    wire.log_in(success=False)
    assert wire.relay.attempt is None and not world.attempts
    wire = Wire(world)
    assert wire.relay.attempt is world.attempts[ATTEMPT]
    assert [c.attempt_id for c in wire.commands if isinstance(c, Identified)] == [ATTEMPT]


def test_allocate_is_rewritten_and_its_answer_back() -> None:
    wire = Wire(coordinator())
    call = wire.call("allocate", asking(0, row("*")))
    (asked,) = granted_rows(y.AllocateRequestProto.FromString(call.body).ask).values()
    answer = y.AllocateResponseProto(response_id=1, allocated_containers=[container(1, 1, asked)])
    seen = y.AllocateResponseProto.FromString(wire.answer(call, answer).body)
    assert [(c.execution_type, c.allocation_request_id) for c in seen.allocated_containers] == [(1, -1)]
    assert [type(e) for e in wire.effects] == [Granted, Announce], "with the very bytes that tell the application"
    assert [c for c in wire.commands if isinstance(c, Called)] == [Called("allocate", True)]


def test_empty_heartbeats_pass_as_the_bytes_that_came() -> None:
    wire = Wire(coordinator(ALL_G))
    raw = wire.client.call("allocate", AM_PROTOCOL, asking(0))
    wire.commands.clear()
    (call,) = wire.up(raw)
    assert wire.commands == [ToRm(raw), Called("allocate", False)]
    back = wire.server.response(call, y.AllocateResponseProto(response_id=1, num_cluster_nodes=3))  # type: ignore[arg-type]
    assert wire.down(back) == back


def test_other_calls_pass_and_registration_is_remembered() -> None:
    wire = Wire(coordinator())
    call = wire.call("registerApplicationMaster", y.RegisterApplicationMasterRequestProto(host="h", rpc_port=1))
    body = y.RegisterApplicationMasterResponseProto(queue="default")
    body.maximumCapability.memory, body.maximumCapability.virtual_cores = 2048, 4
    assert wire.answer(call, body).body == body.SerializeToString()
    assert wire.relay.attempt is not None
    assert wire.relay.attempt.registration.answer == body.SerializeToString()
    too_large = row("*", 1)
    too_large.capability.memory = 4096
    call = wire.call("allocate", asking(0, too_large))
    assert shown(y.AllocateRequestProto.FromString(call.body).ask) == [("*", 1, "G", -1)], "more than the maximum"


@pytest.mark.parametrize(("unregistered", "finished"), [(False, False), (True, True)])
def test_finish_counts_when_the_resource_manager_says_so(unregistered: bool, finished: bool) -> None:
    wire = Wire(coordinator())
    call = wire.call("allocate", asking(0, row("*")))
    (asked,) = granted_rows(y.AllocateRequestProto.FromString(call.body).ask).values()
    wire.answer(call, y.AllocateResponseProto(response_id=1, allocated_containers=[container(1, 1, asked)]))
    call = wire.call("finishApplicationMaster", y.FinishApplicationMasterRequestProto())
    wire.answer(call, y.FinishApplicationMasterResponseProto(isUnregistered=unregistered))
    assert wire.relay.attempt is not None
    assert wire.relay.attempt.finished is finished
    dropped = [e.container_id for e in wire.effects if type(e).__name__ == "DropHeld"]
    assert dropped == ([cid(1)] if finished else [])


def test_not_registered_passes_and_tables_start_over() -> None:
    world = coordinator()
    wire = Wire(world)
    call = wire.call("allocate", asking(0, row("*", 4)))
    failure = wire.refuse(call, NOT_REGISTERED, "AM should re-register")
    assert (failure.exception_class, failure.text) == (NOT_REGISTERED, "AM should re-register")
    assert world.attempts[ATTEMPT].entries == []
    queue = world.inventory.queue("root.default")
    assert queue is not None and queue.used_q.memory_mb == 0


def test_a_call_id_in_flight_is_nobody_elses() -> None:
    wire = Wire(coordinator())
    wire.up(wire.client.call("allocate", AM_PROTOCOL, asking(0), call_id=7))
    with pytest.raises(RemoteProtocolError, match="call id 7 is that of a call without an answer"):
        wire.up(wire.client.call("finishApplicationMaster", AM_PROTOCOL, b"", call_id=7))
    wire = Wire(coordinator())
    (call,) = wire.up(wire.client.call("allocate", AM_PROTOCOL, asking(0), call_id=7))
    wire.answer(call, y.AllocateResponseProto(response_id=1))  # type: ignore[arg-type]
    assert wire.up(wire.client.call("allocate", AM_PROTOCOL, asking(1), call_id=7)), "it was answered"


def test_an_application_master_sends_no_frame_beyond_its_own_limit() -> None:
    wire = Wire(coordinator())
    with pytest.raises(RemoteProtocolError, match="refused"):
        wire.up((MAX_REQUEST_BYTES + 1).to_bytes(4, "big"))


def test_connection_lost_before_the_answer_the_next_one_sends_the_same() -> None:
    world = coordinator()
    first = Wire(world).call("allocate", asking(0, row("*", 2)))
    second = Wire(world)
    again = second.call("allocate", asking(0, row("*", 2)))
    assert again.body == first.body
    grants = [
        container(n + 1, 1, r)
        for n, r in enumerate(granted_rows(y.AllocateRequestProto.FromString(again.body).ask).values())
    ]
    seen = second.answer(again, y.AllocateResponseProto(response_id=1, allocated_containers=grants))
    assert len(y.AllocateResponseProto.FromString(seen.body).allocated_containers) == 2
    third = Wire(world)
    call = third.call("allocate", asking(0, row("*", 2)))
    replay = third.answer(call, y.AllocateResponseProto(response_id=1, allocated_containers=grants))
    assert replay.body == seen.body and third.effects == []


def test_another_protocol_passes_unread() -> None:
    wire = Wire(coordinator(), log_in=False)
    wire.up(wire.client.preamble(0) + wire.client.context("org.example.Other", "u"))
    assert [c.encrypted for c in wire.commands if isinstance(c, PassedThrough)] == [False]
    wire.commands.clear()
    wire.relay.from_am(b"\xff" * 100, 0.0)
    assert wire.relay.from_rm(b"\x00garbage", 0.0) == [ToAm(b"\x00garbage")]


def test_too_many_open_calls() -> None:
    wire = Wire(coordinator())
    with pytest.raises(RemoteProtocolError, match="64 calls are waiting"):
        for _ in range(MAX_OUTSTANDING + 1):
            wire.call("allocate", asking(0))


def test_login_with_another_token() -> None:
    world = coordinator()
    with pytest.raises(RemoteProtocolError, match="not an AMRMToken"):
        Wire(world, b"\xff\xff\xff")
    assert not world.attempts


def test_malformed_allocate_breaks_its_connection_and_nothing_else() -> None:
    world = coordinator()
    wire, other = Wire(world), Wire(world, identifier(app=2))
    kept = other.call("allocate", asking(0, row("*")))
    with pytest.raises(RemoteProtocolError, match="allocate request is no protobuf message of its kind"):
        wire.up(wire.client.call("allocate", AM_PROTOCOL, b"\x0a\xff\xff"))
    other.answer(kept, y.AllocateResponseProto(response_id=1))
    again = Wire(world)
    assert again.call("allocate", asking(0, row("*"))).method == "allocate"


def test_malformed_answer_breaks_its_connection() -> None:
    wire = Wire(coordinator())
    call = wire.call("allocate", asking(0))
    with pytest.raises(RemoteProtocolError, match="allocate answer is no protobuf"):
        wire.down(wire.server.response(call, b"\x1a\x7f\x00"))


ROWS = st.builds(
    lambda name, count, priority, rid, size, o, relax, label: _row(name, count, priority, rid, size, o, relax, label),
    st.sampled_from(["*", "host1", "host2", "host9", "/r1", "/r9", ""]),
    st.one_of(st.integers(-3, 9), st.integers(-(2**31), 2**31 - 1)),
    st.sampled_from([-5, 0, 5, 10, 19, 20, 2**31 - 1]),
    st.sampled_from([None, -1, 0, 7, 2**31 - 2, 2**31 - 1, 2**33 + 5, 2**40, -(2**63), 2**63 - 1]),
    st.sampled_from([0, 1, 1024, 4096, 2**40]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["", "gpu", " "]),
)


def _row(
    name: str, count: int, priority: int, rid: int | None, size: int, o: bool, relax: bool, label: str
) -> y.ResourceRequestProto:
    proto = row(name, count, priority, request_id=rid, opportunistic=o, relax=relax, label=label)
    proto.capability.memory = size
    return proto


@settings(deadline=None)
@given(st.lists(st.lists(ROWS, max_size=6), max_size=5), st.randoms(use_true_random=False))
def test_any_rows_in_any_numbers_do_no_harm(requests: list[list[y.ResourceRequestProto]], rng: object) -> None:
    world = coordinator()
    wire = Wire(world)
    number = 0
    for response_id, rows in enumerate(requests):
        call = wire.call("allocate", asking(response_id, *rows))
        sent = y.AllocateRequestProto.FromString(call.body)
        grants = []
        for asked in list(granted_rows(sent.ask).values())[:3]:
            number += 1
            grants.append(container(number, 1, asked))
        wire.answer(call, y.AllocateResponseProto(response_id=response_id + 1, allocated_containers=grants))
    attempt = world.attempts[ATTEMPT]
    for entry in attempt.entries:
        assert entry.g_share >= 0 and entry.q_wanted >= 0
        assert entry.undecided >= 0


@settings(deadline=None)
@given(st.binary(max_size=120), st.booleans())
def test_garbage_is_refused_or_passes(data: bytes, as_answer: bool) -> None:
    wire = Wire(coordinator())
    try:
        call = wire.call("allocate", asking(0) if as_answer else data)
        wire.answer(call, data if as_answer else b"")
    except RemoteProtocolError as error:
        assert str(error)


@settings(deadline=None)
@given(st.binary(max_size=120), st.booleans())
def test_garbage_instead_of_a_login(data: bytes, after_preamble: bool) -> None:
    relay = Relay(coordinator().attempt)
    try:
        relay.from_am((ClientConnection().preamble(0xDF) if after_preamble else b"") + data, 0.0)
    except RemoteProtocolError as error:
        assert str(error)


def test_events_of_a_sidecar_reach_the_attempt_through_the_next_answer() -> None:
    from quicksilver.common.messages import EventKind

    world = coordinator()
    wire = Wire(world)
    call = wire.call("allocate", asking(0, row("*")))
    (asked,) = granted_rows(y.AllocateRequestProto.FromString(call.body).ask).values()
    wire.answer(call, y.AllocateResponseProto(response_id=1, allocated_containers=[container(1, 1, asked)]))
    world.attempts[ATTEMPT].containers.on_event(event(1, EventKind.SHED, reason="hold limit"), 1.0)
    call = wire.call("allocate", asking(1))
    assert [c.id for c in y.AllocateRequestProto.FromString(call.body).release] == [1]
    seen = y.AllocateResponseProto.FromString(wire.answer(call, y.AllocateResponseProto(response_id=2)).body)
    assert [s.exit_status for s in seen.completed_container_statuses] == [-102]


def test_what_is_no_request_ends_the_connection_and_nothing_else() -> None:
    lacking = y.AllocateRequestProto(response_id=0, ask=[row("*")], update_requests=[y.UpdateContainerRequestProto()])
    unreadable = asking(0, row("node")).SerializeToString().replace(b"node", b"n\xff\xfee")
    for body in (lacking.SerializePartialToString(), unreadable):
        wire = Wire(coordinator())
        with pytest.raises(RemoteProtocolError, match="the allocate request is no protobuf message of its kind"):
            wire.call("allocate", body)


def registered(wire: Wire) -> None:
    call = wire.call("registerApplicationMaster", y.RegisterApplicationMasterRequestProto(host="h", rpc_port=1))
    wire.answer(call, y.RegisterApplicationMasterResponseProto(queue="default"))


def test_counts_in_the_millions_are_taken_back_at_once() -> None:
    wire = Wire(coordinator(ALL_G))
    registered(wire)
    for number, count in enumerate((2**31 - 1, 1, 2**31 - 1, 0)):
        call = wire.call("allocate", asking(number, row("*", count)))
        wire.answer(call, y.AllocateResponseProto(response_id=number + 1))
    assert wire.relay.attempt is not None
    assert sum(entry.g_share for entry in wire.relay.attempt.entries) == 0


def test_sizes_below_zero_and_beyond_all_bounds_break_nothing() -> None:
    odd = row("*")
    odd.capability.memory, odd.capability.virtual_cores = -5, -(2**31)
    odd.capability.resource_value_map.add(key="vcores", value=2**62)
    wire = Wire(coordinator())
    call = wire.call("allocate", asking(0, odd))
    rows = list(granted_rows(y.AllocateRequestProto.FromString(call.body).ask).values())
    containers = [container(n + 1, 1, one) for n, one in enumerate(rows)]
    answer = y.AllocateResponseProto(response_id=1, allocated_containers=containers)
    answer.limit.CopyFrom(odd.capability)
    wire.answer(call, answer)


def test_diagnostics_that_are_no_utf8_are_told_all_the_same() -> None:
    wire = Wire(coordinator())
    registered(wire)
    call = wire.call("allocate", asking(0, row("*")))
    (asked,) = granted_rows(y.AllocateRequestProto.FromString(call.body).ask).values()
    wire.answer(call, y.AllocateResponseProto(response_id=1, allocated_containers=[container(1, 1, asked)]))
    call = wire.call("allocate", asking(1))
    done = y.AllocateResponseProto(response_id=2)
    done.completed_container_statuses.add(
        state=y.C_COMPLETE, exit_status=-108, diagnostics="text"
    ).container_id.CopyFrom(container(1, 1, asked).id)
    seen = y.AllocateResponseProto.FromString(
        wire.answer(call, done.SerializeToString().replace(b"text", b"t\xff\xfet")).body
    )
    (status,) = seen.completed_container_statuses
    assert (status.exit_status, status.diagnostics) == (-102, "t\ufffd\ufffdt")
