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

    __slots__ = ("_id_at", "_size_offset", "_start", "_tail", "rest")

    def __init__(self, start: bytes, raw: bytes, header_end: int, head_end: int) -> None:
        self._start = start
        self._id_at = at = _HEADER + len(start)
        while at < header_end and raw[at] > 0x7F:
            at += 1
        self.rest: Final = raw[at + 1 : header_end]
        """The bytes after the call id in the first header."""
        self._size_offset = len(self.rest) - _HEADER
        self._tail = raw[at + 1 : head_end]

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
