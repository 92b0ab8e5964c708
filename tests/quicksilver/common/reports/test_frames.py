"""Frames: whole however the bytes come, and within their bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.common.reports.frames import FrameError, FrameKind, FrameReader, frame, reports_path

FRAMES = st.lists(st.tuples(st.sampled_from(FrameKind), st.binary(max_size=50)), max_size=8)


@given(FRAMES, st.lists(st.integers(1, 40), min_size=1))
def test_frames_are_whole_however_the_bytes_come(frames: list[tuple[FrameKind, bytes]], sizes: list[int]) -> None:
    data = b"".join(frame(kind, body) for kind, body in frames)
    reader, read, turn = FrameReader(51), [], 0
    while data:
        piece, data = data[: sizes[turn % len(sizes)]], data[sizes[turn % len(sizes)] :]
        read += reader.feed(piece)
        turn += 1
        assert reader.pending < 4 + 51
    assert (read, reader.pending) == (frames, 0)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\0\0\0\0\x01", "a frame of 0 bytes"),
        (b"\0\0\0\x34\x01", "a frame of 52 bytes came; 1 to 51"),
        (b"\xff\xff\xff\xff\x01", "a frame of 4294967295 bytes"),
        (b"\0\0\0\x01\x09", "unknown kind 9"),
        (b"GET / HTTP/1.1\r\n\r\n", "a frame of 1195725856 bytes"),
    ],
)
def test_what_is_no_frame_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(FrameError, match=why):
        FrameReader(51).feed(data)


def test_a_node_with_odd_characters_has_a_path() -> None:
    assert reports_path("[::1]:8041") == "/v1/nodes/%5B::1%5D:8041/reports"
