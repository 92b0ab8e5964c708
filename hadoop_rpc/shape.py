"""Fast reading of heartbeats: their headers equal those of the last frame except for the call id."""

from __future__ import annotations

from typing import Final

__all__ = ["Shape"]

_HEADER: Final = 5
"""Index of the first header in a frame: after the length of the frame and one byte with the length of the header."""


class Shape:
    """The headers of one frame without its call id.

    start: the bytes of its first header up to the call id. header_end, head_end: the indices in `raw` after the first
    header and after all headers. Frames of another shape are left to the general reader.
    """

    __slots__ = ("_after", "_before", "_behind", "_id_at", "_size", "_size_offset", "_start", "_tail", "rest")

    def __init__(self, start: bytes, raw: bytes, header_end: int, head_end: int) -> None:
        self._start = start
        self._id_at = at = _HEADER + len(start)
        while at < header_end and raw[at] > 0x7F:
            at += 1
        self.rest: Final = raw[at + 1 : header_end]
        """The bytes after the call id in the first header."""
        self._size_offset = len(self.rest) - _HEADER
        self._tail = raw[at + 1 : head_end]
        self._size = 0
        """Length of the last frame that `find_whole` read. One of the same length mostly has the same `_before` up to
        its call id and the same `_behind` from the index `_after` to its body."""
        self._after, self._before, self._behind = 0, b"", b""

    def find_whole(self, raw: bytes) -> tuple[int, int, bytes] | None:
        """Return what `find` returns, and None also where `raw` is no whole frame, but a part of one or more."""
        after, behind = self._after, self._behind
        if len(raw) == self._size and raw.startswith(self._before) and raw.startswith(behind, after):
            low, high, at = raw[after - 2], raw[after - 1], self._id_at
            if after - 2 == at and high < 0x80 <= low:  # a call id of two bytes
                return low & 0x7F | high << 7, after + len(self._tail), raw[after + len(behind) :]
            if after - 3 == at and high < 0x80 <= low and raw[at] > 0x7F:  # of three: after 8,191 calls
                call_id = raw[at] & 0x7F | (low & 0x7F) << 7 | high << 14
                return call_id, after + len(self._tail), raw[after + len(behind) :]
        if len(raw) < _HEADER or int.from_bytes(raw[:4], "big") != len(raw) - 4:
            return None
        parts = self.find(raw)
        if parts is not None:
            _, head_end, body = parts
            self._size, self._before = len(raw), raw[: self._id_at]
            self._after = head_end - len(self._tail)
            self._behind = raw[self._after : len(raw) - len(body)]
        return parts

    def find(self, raw: bytes) -> tuple[int, int, bytes] | None:
        """Return the call id's varint, the index after the headers, and the body; None when `raw` has another shape."""
        if not raw.startswith(self._start, _HEADER):
            return None
        at = self._id_at
        try:
            value = raw[at]
            if value > 0x7F:
                value &= 0x7F
                for shift in (7, 14, 21, 28):
                    at += 1
                    byte = raw[at]
                    value |= (byte & 0x7F) << shift
                    if byte < 0x80:
                        break
                else:
                    return None
            at += 1
            if raw[4] != at + self._size_offset or value > 0xFFFFFFFF or not raw.startswith(self._tail, at):
                return None
            head_end = at + len(self._tail)
            size, body = raw[head_end], head_end + 1
            if size > 0x7F:
                size = size & 0x7F | raw[body] << 7
                body += 1
                if size > 0x3FFF:
                    return None
        except IndexError:
            return None
        return (value, head_end, raw[body:]) if body + size == len(raw) else None
