"""Frames and varints: exact bytes, limits, and any split of the stream."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.errors import LocalProtocolError, RemoteProtocolError
from hadoop_rpc.frames import FrameBuffer, frame, join_delimited, read_varint, split_delimited, varint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 33, "dfffffff0f")],
)
def test_varint_bytes(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert varint(value) == data
    assert read_varint(b"x" + data + b"y", 1) == (value, 1 + len(data))


@given(st.integers(0, 2**32 - 1))
def test_varint_round_trip(value: int) -> None:
    assert read_varint(varint(value), 0) == (value, len(varint(value)))


@pytest.mark.parametrize("value", [-1, 2**32])
def test_varint_out_of_range_is_ours(value: int) -> None:
    with pytest.raises(LocalProtocolError, match=f"{value} does not fit"):
        varint(value)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "truncated varint: the frame ends at byte 0, 0 bytes into it"),
        (b"\xff\x80", "truncated varint: the frame ends at byte 2, 2 bytes into it"),
        (b"\xff\xff\xff\xff\x7f", "is 34359738367, more than the limit of 4294967295"),
        (b"\x80\x80\x80\x80\x80\x00", "longer than the limit of 5 bytes"),
    ],
)
def test_bad_varint_is_named(data: bytes, text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        read_varint(data, 0)


def test_delimited_and_frame_bytes() -> None:
    assert join_delimited(b"ab", b"") == b"\x02ab\x00"
    assert frame(b"ab", b"c") == b"\x00\x00\x00\x05\x02ab\x01c"
    assert split_delimited(b"\x00\x02abc", 1, "x") == (b"ab", 4)


def test_truncated_message_is_named() -> None:
    with pytest.raises(RemoteProtocolError, match="truncated result: 200 bytes announced, 1 left in the frame"):
        split_delimited(b"\xc8\x01a", 0, "result")


@pytest.mark.parametrize("length", [-1, -(2**31), 101, 2**31 - 1])
@pytest.mark.parametrize("cut", [0, 1, 3])
def test_bad_length_is_refused_at_once(length: int, cut: int) -> None:
    buffer = FrameBuffer(100)
    data = length.to_bytes(4, "big", signed=True)
    assert buffer.receive_data(data[:cut]) == []
    with pytest.raises(RemoteProtocolError, match=f"frame of {length} bytes refused.* limit of 100"):
        buffer.receive_data(data[cut:])
    assert len(buffer.unfinished) <= 4


@pytest.mark.parametrize("limit", [0, -1, 2**31])
def test_senseless_limit_is_ours(limit: int) -> None:
    with pytest.raises(LocalProtocolError, match=str(limit)):
        FrameBuffer(limit)


def test_a_frame_of_exactly_the_limit_is_taken() -> None:
    buffer = FrameBuffer(3)
    assert buffer.receive_data(b"\x00\x00\x00\x03abc") == [b"\x00\x00\x00\x03abc"]


def test_never_keeps_more_than_one_frame() -> None:
    buffer = FrameBuffer(1000)
    one = (1000).to_bytes(4, "big") + b"x" * 1000
    for _ in range(50):
        assert buffer.receive_data(one[:999]) == []
        assert len(buffer.unfinished) == 999
        assert buffer.receive_data(one[999:] + one) == [one, one]
        assert len(buffer.unfinished) == 0


@given(st.lists(st.binary(max_size=300), max_size=8), st.lists(st.integers(1, 40), min_size=1), st.binary(max_size=3))
def test_any_split_gives_the_same_frames(payloads: list[bytes], steps: list[int], tail: bytes) -> None:
    frames = [len(payload).to_bytes(4, "big") + payload for payload in payloads]
    stream = b"".join(frames) + b"\x00" * len(tail)
    buffer, got, at, turn = FrameBuffer(300), [], 0, 0
    while at < len(stream):
        step = steps[turn % len(steps)]
        got += buffer.receive_data(stream[at : at + step])
        at, turn = at + step, turn + 1
    assert got == frames
    assert buffer.pop_unfinished() == b"\x00" * len(tail)
    assert len(buffer.unfinished) == 0
