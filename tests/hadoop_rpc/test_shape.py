"""Headers that are read by comparing them with the last ones: the same events as a fresh connection gives."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hadoop_rpc.connection import AM_PROTOCOL, AUTH_SASL, Call, ClientConnection, Response, ServerConnection
from hadoop_rpc.errors import RemoteProtocolError
from hadoop_rpc.events import ServerEvent
from hadoop_rpc.frames import frame
from hadoop_rpc.protos.rpc_pb2 import RpcResponseHeaderProto
from hadoop_rpc.shape import Shape
from tests.examples import of_share

CLIENT = ClientConnection(client_id=bytes(range(16)))
CALL_IDS = st.one_of(st.integers(0, 300), st.integers(8000, 17000), st.integers(0, 0x7FFFFFFF))
BODIES = st.sampled_from((0, 1, 7, 126, 127, 128, 200, 16382, 16383, 16384, 16390)).map(lambda size: b"\x20" * size)
METHODS = st.sampled_from(("allocate", "allocate", "registerApplicationMaster"))


def server() -> ServerConnection:
    fresh = ServerConnection()
    fresh.receive_data(CLIENT.preamble(AUTH_SASL))
    return fresh


@settings(deadline=None, max_examples=of_share(60))
@given(st.lists(st.tuples(CALL_IDS, METHODS, BODIES, st.integers(0, 3)), min_size=2, max_size=6))
def test_calls_are_read_as_on_a_fresh_connection(calls: list[tuple[int, str, bytes, int]]) -> None:
    one = server()
    for call_id, method, body, retry in calls:
        raw = CLIENT.call(method, AM_PROTOCOL, body, call_id=call_id, retry_count=retry)
        expected: list[ServerEvent] = server().receive_data(raw)
        assert one.receive_data(raw) == expected
        assert isinstance(expected[0], Call) and (expected[0].call_id, expected[0].body) == (call_id, body)


@settings(deadline=None, max_examples=of_share(60))
@given(st.lists(st.tuples(CALL_IDS, BODIES), min_size=2, max_size=6))
def test_answers_are_read_as_on_a_fresh_connection(answers: list[tuple[int, bytes]]) -> None:
    one, accepting = ClientConnection(), server()
    for call_id, body in answers:
        [call] = accepting.receive_data(CLIENT.call("allocate", AM_PROTOCOL, b"", call_id=call_id))
        assert isinstance(call, Call)
        raw = accepting.response(call, body)
        expected = ClientConnection().receive_data(raw)
        assert one.receive_data(raw) == expected
        assert isinstance(expected[0], Response) and (expected[0].call_id, expected[0].body) == (call_id, body)


@settings(deadline=None, max_examples=of_share(100))
@given(st.lists(st.tuples(CALL_IDS, BODIES, st.integers(0, 3), st.integers(0, 40), st.binary(max_size=2)), max_size=9))
def test_a_frame_like_the_last_one_is_read_as_by_itself(frames: list[tuple[int, bytes, int, int, bytes]]) -> None:
    """Whatever was compared before: spoiled frames, parts of frames, and frames of other lengths in between."""
    last = CLIENT.call("allocate", AM_PROTOCOL, b"\x20\x07", call_id=200)
    connection = server()
    connection.receive_data(last)
    for call_id, body, retry, place, spoiled in frames:
        raw = bytearray(CLIENT.call("allocate", AM_PROTOCOL, body, call_id=call_id, retry_count=retry))
        at = min(place, len(raw))
        raw[at : at + len(spoiled)] = spoiled
        fresh = server()
        fresh.receive_data(last)
        assert connection.like_last(bytes(raw)) == fresh.like_last(bytes(raw))
        whole = int.from_bytes(raw[:4], "big") == len(raw) - 4
        expected = fresh._shape.find(bytes(raw)) if fresh._shape is not None and whole else None
        assert connection.like_last(bytes(raw)) == expected


def read(connection: ServerConnection, raw: bytes) -> object:
    try:
        return connection.receive_data(raw)
    except RemoteProtocolError as error:
        return str(error)


@settings(deadline=None, max_examples=of_share(60))
@given(st.data())
def test_a_spoiled_frame_is_read_as_on_a_fresh_connection(data: st.DataObject) -> None:
    good = CLIENT.call("allocate", AM_PROTOCOL, b"\x20\x07", call_id=data.draw(CALL_IDS))
    spoiled = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        spoiled[data.draw(st.integers(4, len(good) - 1))] = data.draw(st.integers(0, 255))
    one = server()
    one.receive_data(good)
    assert read(one, bytes(spoiled)) == read(server(), bytes(spoiled))


def test_an_answer_that_fails_is_not_taken_for_one_like_the_last() -> None:
    accepting, one = server(), ClientConnection()
    [call] = accepting.receive_data(CLIENT.call("allocate", AM_PROTOCOL, b"", call_id=1))
    assert isinstance(call, Call)
    one.receive_data(accepting.response(call, b"\x10\x01"))
    [failure] = one.receive_data(accepting.error(call, "java.io.IOException", "no"))
    assert getattr(failure, "exception_class", "") == "java.io.IOException"


def test_a_call_id_that_comes_twice_in_a_header_counts_as_protobuf_says() -> None:
    twice = CLIENT.call("allocate", AM_PROTOCOL, b"", call_id=5)
    header_end = 5 + twice[4]
    header = twice[5:header_end] + b"\x18\x12"  # the call id once more: 9
    _, name, _ = _parts(twice)
    raw = frame(header, name, b"")
    one = server()
    for _ in range(2):
        [call] = one.receive_data(raw)
        assert isinstance(call, Call) and call.call_id == 9


def _parts(raw: bytes) -> tuple[bytes, bytes, bytes]:
    header_end = 5 + raw[4]
    name_end = header_end + 1 + raw[header_end]
    return raw[5:header_end], raw[header_end + 1 : name_end], raw[name_end + 1 :]


def test_a_varint_without_end_is_left_to_the_reader_of_all_frames() -> None:
    header = CLIENT.call("allocate", AM_PROTOCOL, b"", call_id=1)[5:31]
    raw = frame(header, b"name", b"body")
    shape = Shape(b"\x08\x02\x10\x00\x18", raw, 5 + len(header), 5 + len(header) + 5)
    assert shape.find(raw) == (2, 5 + len(header) + 5, b"body")
    assert shape.find(raw[:10] + b"\xff" * 1000) is None
    assert shape.find(raw[:12]) is None
    answer = RpcResponseHeaderProto(callId=3, status=RpcResponseHeaderProto.SUCCESS).SerializeToString()
    assert shape.find(frame(answer, b"")) is None


@pytest.mark.parametrize("first", [100, 8190, 16382, 2_097_150])
def test_ids_of_all_lengths_are_read_by_comparing(first: int) -> None:
    raw = [CLIENT.call("allocate", AM_PROTOCOL, b"\x20\x07", call_id=call_id) for call_id in range(first, first + 9)]
    connection = server()
    connection.receive_data(raw[0])
    for call_id, frame_bytes in enumerate(raw[1:], first + 1):
        parts = connection.like_last(frame_bytes)
        assert parts is not None and (parts[0], parts[2]) == (2 * call_id, b"\x20\x07")  # zigzag
