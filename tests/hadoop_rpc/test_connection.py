"""Both ends of a connection: exact bytes, relaying unchanged and changed frames, and what is refused."""

from itertools import pairwise

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.connection import (
    AM_PROTOCOL,
    AUTH_NONE,
    AUTH_SASL,
    Call,
    ClientConnection,
    ConnectionContext,
    Failure,
    Opaque,
    Ping,
    Preamble,
    Response,
    SaslFrame,
    ServerConnection,
    renumber,
    replace_body,
)
from hadoop_rpc.errors import LocalProtocolError, RemoteProtocolError
from hadoop_rpc.frames import frame
from hadoop_rpc.protos.rpc_pb2 import (
    RPC_PROTOCOL_BUFFER,
    RPC_WRITABLE,
    RequestHeaderProto,
    RpcKindProto,
    RpcRequestHeaderProto,
    RpcResponseHeaderProto,
    RpcSaslProto,
)
from hadoop_rpc.protos.yarn_pb2 import AllocateRequestProto, AllocateResponseProto, UpdatedContainerProto

CLIENT_ID = bytes(range(16))
HEADER_9 = bytes.fromhex("08021000180e2210") + CLIENT_ID + bytes.fromhex("2800")  # call id 7, zigzag
METHOD = b"\x0a\x08allocate\x126" + AM_PROTOCOL.encode() + b"\x18\x01"
CALL_7 = b"\x00\x00\x00\x66" + b"\x1a" + HEADER_9 + b"\x44" + METHOD + b"\x05" + b" \x03*\x01x"


def opened() -> ServerConnection:
    server = ServerConnection()
    assert server.receive_data(b"hrpc\x09\x00\x00") == [Preamble(0, AUTH_NONE, b"hrpc\x09\x00\x00")]
    return server


def one_call(server: ServerConnection, raw: bytes) -> Call:
    [call] = server.receive_data(raw)
    assert isinstance(call, Call)
    return call


def test_a_call_byte_by_byte() -> None:
    call = one_call(opened(), CALL_7)
    assert call == Call(7, CLIENT_ID, 0, AM_PROTOCOL, "allocate", b" \x03*\x01x", CALL_7, 4 + 27 + 69)
    client = ClientConnection(client_id=CLIENT_ID)
    assert client.call("allocate", AM_PROTOCOL, b" \x03*\x01x", call_id=7) == CALL_7


def test_preamble_context_and_ping_bytes() -> None:
    client = ClientConnection(client_id=CLIENT_ID)
    assert client.preamble() == b"hrpc\x09\x00\x00"
    assert client.preamble(AUTH_SASL, 3) == b"hrpc\x09\x03\xdf"
    header = bytes.fromhex("08021000180722 10") + CLIENT_ID + b"\x28\x01"  # call id -4, retry -1
    assert client.ping() == b"\x00\x00\x00\x1b\x1a" + header
    server = ServerConnection()
    context = client.context("proto", "alice")
    assert server.receive_data(client.preamble(AUTH_SASL) + context + client.ping()) == [
        Preamble(0, AUTH_SASL, client.preamble(AUTH_SASL)),
        ConnectionContext("proto", "alice", context),
        Ping(client.ping()),
    ]
    [anonymous] = server.receive_data(client.context("proto"))
    assert isinstance(anonymous, ConnectionContext) and anonymous.user == ""


def test_response_bytes_as_hadoop_sends_them() -> None:
    server, client = opened(), ClientConnection(client_id=CLIENT_ID)
    call = one_call(server, client.call("allocate", AM_PROTOCOL, b"", call_id=7))
    raw = server.response(call, AllocateResponseProto(response_id=1))
    assert raw == b"\x00\x00\x00\x1e\x1a\x08\x07\x10\x00\x18\x09\x3a\x10" + CLIENT_ID + b"\x40\x00\x02\x10\x01"
    [response] = client.receive_data(raw)
    assert response == Response(7, b"\x10\x01", raw, 31)


def test_failures_keep_class_text_and_code() -> None:
    server, client = opened(), ClientConnection()
    call = one_call(server, client.call("allocate", AM_PROTOCOL, b""))
    raw = server.error(call, "java.io.IOException", "disk\nfull")
    assert client.receive_data(raw) == [Failure(0, "java.io.IOException", "disk\nfull", False, 1, raw)]
    step = SaslFrame(-33, RpcSaslProto.INITIATE, RpcSaslProto(state=RpcSaslProto.INITIATE), b"")
    raw = server.error(step, "InvalidToken", "gone", fatal=True, code=15)
    assert raw.startswith(len(raw[4:]).to_bytes(4, "big") + bytes([raw[4]]) + b"\x08\xdf\xff\xff\xff\x0f\x10\x02")
    assert client.receive_data(raw) == [Failure(-33, "InvalidToken", "gone", True, 15, raw)]
    with pytest.raises(LocalProtocolError, match="99 is not an error code"):
        server.error(call, "x", "y", code=99)


def test_call_ids_grow_and_may_be_chosen() -> None:
    server, client = opened(), ClientConnection()
    frames = b"".join(client.call("m", "p", b"", call_id=chosen) for chosen in (None, None, 40, None))
    assert [event.call_id for event in server.receive_data(frames) if isinstance(event, Call)] == [0, 1, 40, 2]
    for bad in (-1, 2**31):
        with pytest.raises(LocalProtocolError, match=f"call id {bad}"):
            client.call("m", "p", b"", call_id=bad)


def test_replaced_body_keeps_the_headers() -> None:
    server, client = opened(), ClientConnection()
    header = RpcRequestHeaderProto(rpcKind=RPC_PROTOCOL_BUFFER, callId=5, clientId=CLIENT_ID, retryCount=2, stateId=9)
    unknown = header.SerializeToString() + b"\xfa\x07\x03new"  # field 127, which nobody knows
    raw = frame(unknown, METHOD, b"old")
    call = one_call(server, raw)
    assert replace_body(call, call.body) == raw
    assert replace_body(call, AllocateRequestProto(response_id=300)) == frame(unknown, METHOD, b"\x20\xac\x02")
    assert one_call(server, replace_body(call, b"n" * 1000)).body == b"n" * 1000
    answer = frame(
        RpcResponseHeaderProto(callId=5, status=RpcResponseHeaderProto.SUCCESS).SerializeToString()
        + b"\xfa\x07\x03new",
        b"old",
    )
    [response] = client.receive_data(answer)
    assert isinstance(response, Response)
    assert (
        replace_body(response, b"other") == answer[:-4].replace(b"\x00\x00\x00\x0f", b"\x00\x00\x00\x11") + b"\x05other"
    )


def test_renumbered_frames_keep_all_else() -> None:
    server, client = opened(), ClientConnection(client_id=CLIENT_ID)
    header = RpcRequestHeaderProto(
        rpcKind=RPC_PROTOCOL_BUFFER, callId=5, clientId=b"a" * 16, retryCount=2
    ).SerializeToString()
    call = one_call(server, frame(header + b"\xfa\x07\x03new", METHOD, b"body"))
    moved = one_call(server, renumber(call, 900, CLIENT_ID, 0))
    assert (moved.call_id, moved.client_id, moved.retry_count, moved.body) == (900, CLIENT_ID, 0, b"body")
    assert b"\xfa\x07\x03new" in moved.raw
    [back] = client.receive_data(renumber(client.receive_data(server.error(moved, "E", "t"))[0], 5, call.client_id, 2))  # type: ignore[arg-type]
    assert isinstance(back, Failure) and (back.call_id, back.text) == (5, "t")
    [done] = client.receive_data(server.response(moved, b"result"))
    assert isinstance(done, Response)
    assert renumber(done, 5, call.client_id, 2) == server.response(call, b"result")


def test_an_answer_without_body_and_one_of_many_bytes() -> None:
    client = ClientConnection()
    header = RpcResponseHeaderProto(callId=1, status=RpcResponseHeaderProto.SUCCESS).SerializeToString()
    raw = frame(header)
    assert client.receive_data(raw) == [Response(1, b"", raw, len(raw))]
    [big] = client.receive_data(frame(header, b"z" * 70_000))
    assert isinstance(big, Response) and big.body == b"z" * 70_000


def test_pass_through_loses_no_byte() -> None:
    for cut in range(12):
        server = ServerConnection()
        stream = b"hrpc\x09\x00\xdf" + ClientConnection().ping() + b"secret"
        seen = b"".join(e.raw for e in server.receive_data(stream[:cut]) if isinstance(e, Preamble))
        server.pass_through()
        assert server.receive_data(b"") == ([] if cut in (0, 7) else [Opaque(stream[len(seen) : cut])])
        assert server.receive_data(stream[cut:]) == [Opaque(stream[cut:])]
    client = ClientConnection()
    assert client.receive_data(b"\x00\x00") == []
    client.pass_through()
    assert client.receive_data(b"\xff\xff") == [Opaque(b"\x00\x00\xff\xff")]


def request(call_id: int = 1, kind: RpcKindProto.ValueType = RPC_PROTOCOL_BUFFER) -> bytes:
    return RpcRequestHeaderProto(rpcKind=kind, callId=call_id, clientId=CLIENT_ID).SerializeToString()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"G", r"wrong magic b'G', a Hadoop IPC connection starts with b'hrpc'"),
        (b"GET / HTTP/1.1\r\n", r"wrong magic b'GET '.*looks like HTTP"),
        (b"\x16\x03\x01\x02\x00", r"wrong magic b'\\x16"),
        (b"hrpc\x08", "wrong version 8 of Hadoop IPC, only version 9"),
        (b"hrpc\x09\x00\x01", "bad authentication byte 1, it must be 0 or 223"),
    ],
)
def test_bad_opening_is_named(data: bytes, text: str) -> None:
    server = ServerConnection()
    for _ in range(2):  # it stays broken
        with pytest.raises(RemoteProtocolError, match=text):
            server.receive_data(data)
    with pytest.raises(RemoteProtocolError, match=text):
        server.receive_data(b"hrpc\x09\x00\x00")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ((2**26 + 1).to_bytes(4, "big"), "frame of 67108865 bytes refused.*limit of 67108864"),
        (b"\xff\xff\xff\xff", "frame of -1 bytes refused"),
        (b"\x00\x00\x00\x00", "truncated varint"),
        (b"\x00\x00\x00\x02\xff\xff", "truncated varint"),
        (frame(b"\x08\x02"), "bad request header: call id or client id is missing"),
        (frame(b"\xff\xff"), "bad request header of 2 bytes"),
        (frame(request(-7)), "bad request header: call id -7"),
        (frame(request(kind=RPC_WRITABLE), METHOD, b""), "call 1 has serialization 1, only 2"),
        (frame(request()), "truncated varint"),
        (frame(request(), b"\x0a\x01m"), "bad method header: a required field is missing"),
        (frame(request(), METHOD), "truncated varint"),
        (frame(request(), METHOD, b"", b""), "1 bytes too many after the parameter"),
        (frame(request(-4), b"x"), "2 bytes too many after the ping"),
        (frame(request(-33), b""), "bad SASL message: a required field is missing"),
        (frame(request(-33), b"\x10\x63"), "bad SASL message: a required field is missing"),
        (frame(request(-3), b"\x12\x05"), "bad connection context"),
    ],
)
def test_bad_request_is_named(data: bytes, text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        opened().receive_data(data)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x48\x54\x54\x50", "frame of 1213486160 bytes refused"),
        (frame(b"\x08\x01"), "bad response header: call id or status is missing"),
        (frame(b"\x10\x00"), "bad response header: call id or status is missing"),
        (frame(b"\x08\x01\x10\x09"), "bad response header: call id or status is missing or unknown"),
        (frame(b"\x08"), "bad response header of 1 bytes"),
        (b"\x00\x00\x00\x06\x04\x08\x01\x10\x00\x05", "truncated result: 5 bytes announced, 0 left"),
        (frame(b"\x08\x01\x10\x00", b"", b"more"), "5 bytes too many after the result"),
    ],
)
def test_bad_response_is_named(data: bytes, text: str) -> None:
    client = ClientConnection()
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match=text):
            client.receive_data(data)


def test_what_we_may_not_send() -> None:
    client = ClientConnection()
    incomplete: Message = UpdatedContainerProto()
    with pytest.raises(LocalProtocolError, match="incomplete message"):
        client.call("m", "p", incomplete)
    with pytest.raises(LocalProtocolError, match="authentication protocol 4"):
        client.preamble(4)
    with pytest.raises(LocalProtocolError, match="16 bytes, not 2"):
        ClientConnection(client_id=b"ab")


def test_a_frame_that_is_no_call_is_named_by_whoever_asks_for_its_call() -> None:
    server = opened()
    assert server.call_of(CALL_7).call_id == 7
    with pytest.raises(LocalProtocolError, match="the frame holds a Ping, not a call"):
        server.call_of(ClientConnection().ping())


def test_method_names_are_remembered_within_bounds() -> None:
    server = opened()
    for number in range(1000):
        name = RequestHeaderProto(methodName=f"m{number}", declaringClassProtocolName="p", clientProtocolVersion=1)
        call = one_call(server, frame(request(), name.SerializeToString(), b""))
        assert (call.protocol, call.method) == ("p", f"m{number}")
    assert len(server._names) <= 256


def test_text_that_is_no_utf8_does_no_harm() -> None:
    call = one_call(opened(), frame(request(), b"\x0a\x02\xff\xfe\x12\x01p\x18\x01", b""))
    assert (call.protocol, call.method) == ("p", "\ufffd\ufffd")
    [failure] = ClientConnection().receive_data(frame(b"\x08\x01\x10\x01\x22\x01\xff\x2a\x01\xfe"))
    assert isinstance(failure, Failure) and (failure.exception_class, failure.text) == ("\ufffd", "\ufffd")


def conversation() -> tuple[bytes, bytes]:
    """Return what a client and what a server may say, each as one stream."""
    client, server = ClientConnection(client_id=CLIENT_ID), opened()
    negotiate, success = (RpcSaslProto(state=state) for state in (RpcSaslProto.NEGOTIATE, RpcSaslProto.SUCCESS))
    said = [client.call("allocate", AM_PROTOCOL, b"x" * size) for size in (0, 3, 130, 20_000)]
    calls = [one_call(server, raw) for raw in said]
    heard = [
        server.sasl(success),
        *(server.response(call, call.body) for call in calls),
        server.error(calls[0], "E", "t"),
    ]
    asked = [client.preamble(AUTH_SASL), client.sasl(negotiate), client.context(AM_PROTOCOL), *said, client.ping()]
    return b"".join(asked), b"".join(heard)


ASKED, HEARD = conversation()


@given(st.lists(st.integers(0, max(len(ASKED), len(HEARD))), max_size=30))
def test_any_split_gives_the_same_events(cuts: list[int]) -> None:
    for stream, make in ((ASKED, ServerConnection), (HEARD, ClientConnection)):
        whole = list(make().receive_data(stream))
        edges = [0, *sorted(cuts), len(stream)]
        end: ServerConnection | ClientConnection = make()
        got = [event for a, b in pairwise(edges) for event in end.receive_data(stream[a:b])]
        assert got == whole
        assert b"".join(e.data if isinstance(e, Opaque) else e.raw for e in got) == stream


@given(st.binary(max_size=200), st.booleans())
def test_garbage_is_refused_or_awaited(data: bytes, after_preamble: bool) -> None:
    for end in (opened() if after_preamble else ServerConnection(), ClientConnection()):
        try:
            end.receive_data(data)
        except RemoteProtocolError as error:
            assert str(error)


@given(st.integers(0, len(ASKED) - 1), st.integers(0, len(HEARD) - 1), st.integers(0, 255))
def test_one_wrong_byte_raises_nothing_else(asked_at: int, heard_at: int, value: int) -> None:
    for end, stream, at in ((ServerConnection(), ASKED, asked_at), (ClientConnection(), HEARD, heard_at)):
        try:
            end.receive_data(stream[:at] + bytes([value]) + stream[at + 1 :])
        except RemoteProtocolError as error:
            assert str(error)


@given(st.binary(min_size=1, max_size=40), st.integers(0, 2**31 - 1))
def test_unknown_fields_survive_a_change(value: bytes, response_id: int) -> None:
    unknown = b"\xc2\x3e" + bytes([len(value)]) + value  # field 1000, length-delimited
    request_in = AllocateRequestProto(progress=0.5, response_id=1).SerializeToString() + unknown
    call = one_call(opened(), ClientConnection().call("allocate", AM_PROTOCOL, request_in))
    changed = AllocateRequestProto.FromString(call.body)
    changed.response_id = response_id
    sent = one_call(opened(), replace_body(call, changed))
    assert unknown in sent.body
    again = AllocateRequestProto.FromString(sent.body)
    assert (again.response_id, again.progress) == (response_id, 0.5)
