"""Frames on a kept connection for reports: a length, a kind, and JSON.

A sidecar opens the connection with a request for an upgrade (`reports_path`), which the proxy checks like any other
call and answers with 101. Then the sidecar sends a report and waits for its answer; the proxy may send a notice at any
time, and grants, where the request has the header `TAKES`: each of those is acknowledged. Whichever side reads
something else closes the connection, and the sidecar opens one anew, with a whole report.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final
from urllib.parse import quote

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.rest_errors import ErrorEnvelope

UPGRADE: Final = "quicksilver-reports/1"
"""Name and version of the protocol, in the header Upgrade of the request and of its answer."""
TAKES: Final = "Quicksilver-Takes"
"""Header of the request: what the sidecar takes on the connection beside answers and notices."""
TAKES_GRANTS: Final = "grants"
"""Value of `TAKES` of a sidecar that takes grants; one of an earlier version has no such header, and gets a POST."""
IDLE_S: Final = 90.0
"""Time after which the proxy closes a connection without a report; `sidecar.report_s` is less."""
_LENGTH: Final = 4
_HEAD: Final = _LENGTH + 1


class FrameKind(IntEnum):
    """Kind of a frame."""

    REPORT = 1
    """A whole report (`messages.Report`)."""
    DELTA = 2
    """What changed since the last report on this connection (`deltas.Delta`)."""
    ACK = 3
    """The answer to a report (`messages.Ack`)."""
    ACK_SAME_TARGETS = 4
    """The answer to a report, with the targets of the answer before."""
    NOTICE = 5
    """An `Ack` that answers no report: orders that do not wait for the next one."""
    REFUSAL = 6
    """An error in place of an answer (`RefusalBody`); the proxy closes the connection after it."""

    GRANTS = 7
    """Grants of the proxy (`messages.Grants`)."""
    GRANTS_TAKEN = 8
    """The sidecar has the grants of the earliest frame that it has not acknowledged; no body."""


_KINDS: Final = {kind.value: kind for kind in FrameKind}


class RefusalBody(ErrorEnvelope):
    """An error as REST has it, with its status."""

    status: int


class FrameError(QuicksilverError):
    """The peer sent what is no frame, or one that may not come now."""


class FrameReader:
    """Splits what comes into frames; at most `max_bytes` of one that has not come whole are kept."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._begun = bytearray()
        self._whole = _HEAD
        """Bytes with which the frame that has begun is whole, as far as is known."""

    @property
    def pending(self) -> int:
        """Bytes of a frame that has not come whole."""
        return len(self._begun)

    def feed(self, data: bytes) -> list[tuple[FrameKind, bytes]]:
        """Take bytes; return the frames that are whole. Raises FrameError."""
        if self._begun:
            self._begun += data
            if len(self._begun) < self._whole:
                return []
            data = bytes(self._begun)
            self._begun.clear()
        if len(data) >= _HEAD and _LENGTH + int.from_bytes(data[:_LENGTH]) == len(data) <= self._max + _LENGTH:
            return [(_kind(data[_LENGTH]), data[_HEAD:])]  # as nearly always
        frames = []
        at, self._whole = 0, _HEAD
        while len(data) - at >= _HEAD:
            size = int.from_bytes(data[at : at + _LENGTH])
            if not 1 <= size <= self._max:
                raise FrameError(f"a frame of {size} bytes came; 1 to {self._max} are allowed")
            if len(data) - at < _LENGTH + size:
                self._whole = _LENGTH + size
                break
            frames.append((_kind(data[at + _LENGTH]), data[at + _HEAD : at + _LENGTH + size]))
            at += _LENGTH + size
        self._begun += data[at:]
        return frames


def frame(kind: FrameKind, body: bytes) -> bytes:
    """Return a frame."""
    return (len(body) + 1).to_bytes(_LENGTH) + bytes((kind,)) + body


def reports_path(node_id: str) -> str:
    """Return the path of a proxy where a node's connection for reports is opened."""
    return f"/v1/nodes/{quote(node_id, safe=':')}/reports"


def _kind(number: int) -> FrameKind:
    kind = _KINDS.get(number)
    if kind is None:
        raise FrameError(f"a frame of the unknown kind {number}")
    return kind
