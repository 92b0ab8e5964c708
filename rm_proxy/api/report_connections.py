"""Connections of sidecars for their reports: each carries frames (`quicksilver.common.reports`) once it is opened.

`GET /v1/nodes/ID/reports` with an upgrade passes all that guards a call, once. What is malformed, or out of order, ends
the connection; its sidecar opens it anew, or posts its reports.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from starlette.types import ASGIApp, Receive, Scope, Send

from quicksilver.common.http.access import ALLOWED
from quicksilver.common.http.connection import UPGRADE as HAND_OVER
from quicksilver.common.http.connection import Upgrade
from quicksilver.common.http.rest_errors import ApiError, ErrorBody, UnreachableError
from quicksilver.common.http.rest_server import DEFAULT_BODY_BYTES, envelope
from quicksilver.common.messages import Ack, Grants, Report, Targets
from quicksilver.common.process.limits import SeldomByPeer
from quicksilver.common.process.logs import get_logger
from quicksilver.common.process.masking import masked
from quicksilver.common.reports.deltas import DeltaReader
from quicksilver.common.reports.frames import (
    IDLE_S,
    TAKES,
    TAKES_GRANTS,
    UPGRADE,
    FrameError,
    FrameKind,
    FrameReader,
    RefusalBody,
    frame,
)
from rm_proxy.api.received_report import read_delta, read_report
from rm_proxy.api.report_route import MAX_NODE_ID, HandleReport

log = get_logger(__name__)
FRAME_S: Final = 30.0
"""Time for a whole frame to arrive, from its first byte on."""
NEW_S: Final = 10.0
"""A connection that is replaced before this age is none that its sidecar has left behind."""
UNREAD_BYTES: Final = 1 << 20
"""Bytes that wait for a sidecar to read them; more end the connection."""
GRANTS_S: Final = 1.0
"""Time for a sidecar to acknowledge grants."""
MAX_RECEIPTS: Final = 16
"""Frames with grants that a sidecar has not acknowledged; with more of them no further ones are sent."""
_TAKES_GRANTS: Final = (TAKES.lower().encode(), TAKES_GRANTS.encode())
Answer = Callable[[UnreachableError | None], None]
_PATH: Final = re.compile(r"/v1/nodes/([^/]+)/reports")
PassOn = Callable[[str, FrameKind, bytes], None]
"""Gets a node's id, the kind and the body of a frame with a report of it."""


class ReportConnections:
    """The open connections, one for a node; used in the event loop.

    may_report: returns whether a node's reports are handled at all; count: gets the number of connections; grants_s:
    time for a sidecar to acknowledge grants; cut: gets a node whose connection ended.
    """

    def __init__(
        self,
        handle: HandleReport,
        may_report: Callable[[str], bool],
        *,
        max_bytes: int = DEFAULT_BODY_BYTES,
        count: Callable[[float], None] = lambda connections: None,
        grants_s: float = GRANTS_S,
        cut: Callable[[str], None] = lambda node_id: None,
    ) -> None:
        self.pass_on: PassOn | None = None
        """Gets each frame that was handled, in a proxy of several workers."""
        self._grants_s, self._cut = grants_s, cut
        self._handle, self._may_report, self._max_bytes, self._count = handle, may_report, max_bytes, count
        self._open: dict[str, ReportConnection] = {}
        self._seldom = SeldomByPeer()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, node_id: str, scope: Scope, hand_over: Upgrade) -> None:
        """Take a connection over for a node's reports, in place of the one that it had. Raises ApiError."""
        if not self._may_report(node_id):
            raise ApiError(503, "too-many-nodes", f"too many nodes report that YARN does not list, {node_id} too")
        connection = ReportConnection(node_id, scope, self._handle, self._max_bytes, self._closed, self.pass_on)
        hand_over(UPGRADE, connection)
        if not connection.is_open:
            return  # the caller hung up
        before = self._open.get(node_id)
        self._open[node_id] = connection
        if before is not None:  # of a sidecar that died, or hands over to the next one
            before.end("another one was opened: do two sidecars have this name?" if before.is_new else "")
            self._cut(node_id)
        self._count(len(self._open))

    def notify(self, node_id: str, orders: Callable[[], Ack | None]) -> None:
        """Send a node's sidecar what it has to do, if it has a connection."""
        connection = self._open.get(node_id)
        if connection is not None and connection.allowed():
            ack = orders()
            if ack is not None:
                connection.notify(ack)

    def grant(self, node_id: str, message: Grants, answered: Answer) -> bool:
        """Send grants over a node's connection; return False where it takes none. Raises UnreachableError.

        answered: called once, when they are acknowledged (None), or with the reason why they are not.
        """
        connection = self._open.get(node_id)
        if connection is None or not connection.takes_grants or not connection.allowed():
            return False
        connection.grant(message, answered, self._grants_s)
        return True

    def round(self) -> None:
        """End the connections whose callers may not report any more, or are silent."""
        for connection in list(self._open.values()):
            connection.check()

    def _closed(self, connection: ReportConnection, why: str) -> None:
        if self._open.get(connection.node_id) is connection:
            del self._open[connection.node_id]
            self._count(len(self._open))
            self._cut(connection.node_id)
        more = self._seldom.left_out(connection.node_id) if why else None
        if more is not None:
            log.warning(
                "connection for reports closed",
                node=connection.node_id,
                peer=connection.peer,
                why=why,
                others_since=more,
                remedy="none is needed if it stays at one: the sidecar opens another; else compare the versions",
            )


class _Receipt:
    """Grants that were sent and not acknowledged."""

    __slots__ = ("_answered", "timer")

    def __init__(self, answered: Answer) -> None:
        self._answered: Answer | None = answered
        """None where nobody waits any more."""
        self.timer: asyncio.TimerHandle | None = None

    def settle(self, error: UnreachableError | None) -> None:
        """Report the outcome, the first one alone."""
        answered, self._answered = self._answered, None
        if self.timer is not None:
            self.timer.cancel()
        if answered is not None:
            answered(error)


class ReportConnection:
    """One connection; `closed` is called once, with the reason where it was the proxy that ended it."""

    def __init__(
        self,
        node_id: str,
        scope: Scope,
        handle: HandleReport,
        max_bytes: int,
        closed: Callable[[ReportConnection, str], None],
        pass_on: PassOn | None = None,
    ) -> None:
        self._pass_on = pass_on
        self.node_id, self.peer = node_id, str((scope.get("client") or ("unknown",))[0])
        self.allowed: Callable[[], bool] = scope.get(ALLOWED, lambda: True)
        """Returns whether its caller may still report."""
        self._scope, self._handle, self._closed = scope, handle, closed
        self._frames = FrameReader(max_bytes)
        self._deltas = DeltaReader(read_report, read_delta)
        self._targets: Targets | None = None
        """The last ones that were sent."""
        self.takes_grants = _TAKES_GRANTS in scope.get("headers", ())
        self._receipts: deque[_Receipt] = deque()
        """In the order of the frames."""
        self._transport: asyncio.Transport | None = None
        self._heard_s = self._begun_s = self._opened_s = time.monotonic()
        """When the last report came, and the first byte of the frame that has not come whole."""
        self._partial = False
        """Whether there is such a frame."""

    @property
    def is_open(self) -> bool:
        """Whether frames can be sent."""
        return self._transport is not None

    @property
    def is_new(self) -> bool:
        """Whether it was opened a moment ago."""
        return time.monotonic() - self._opened_s < NEW_S

    @property
    def pending(self) -> int:
        """Bytes of a frame that has not come whole."""
        return self._frames.pending

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer a report."""
        now_s = time.monotonic()
        if not self._partial:
            self._begun_s = now_s
        try:
            frames = self._frames.feed(data)
            self._partial = self._frames.pending > 0
            if self._receipts:
                frames = [each for each in frames if not self._taken(each[0])]
            if not frames:
                return
            if len(frames) > 1 or (self._partial and not self._receipts):
                raise FrameError("a report came before the answer to the last one was sent")
            self._heard_s = now_s
            report = self._deltas.read(*frames[0])
            if report.node_id != self.node_id:
                raise FrameError(f"a report of {report.node_id} came")
        except FrameError as error:
            self._refuse(ApiError(422, "invalid", str(error)))
        else:
            self._answer(report, *frames[0])

    def _answer(self, report: Report, kind: FrameKind, body: bytes) -> None:
        try:
            if not self.allowed():
                raise ApiError(401, "unauthenticated", "what proved this caller is not valid any more")
            ack = self._handle(self.node_id, report, self._scope)
            if self._pass_on is not None:
                self._pass_on(self.node_id, kind, body)
        except ApiError as error:
            self._refuse(error)
        except Exception as error:
            log.exception("a report failed", node=self.node_id)
            self._refuse(ApiError(500, "internal", f"{type(error).__name__}; the log of this process has the details"))
        else:
            self._write(*self._ack_frame(ack))

    def _ack_frame(self, ack: Ack) -> tuple[FrameKind, bytes]:
        before, self._targets = self._targets, ack.targets
        if ack.targets is None or _differ(ack.targets, before):
            return FrameKind.ACK, ack.model_dump_json(exclude_defaults=True).encode()
        if ack.drain == "" and ack.active and not (ack.drop or ack.shed or ack.promoted):  # as nearly always
            return FrameKind.ACK_SAME_TARGETS, b'{"events_to":%d,"drain":""}' % ack.events_to
        return FrameKind.ACK_SAME_TARGETS, ack.model_dump_json(exclude_defaults=True, exclude={"targets"}).encode()

    def notify(self, ack: Ack) -> None:
        """Send orders that do not wait for the next report."""
        self._write(FrameKind.NOTICE, ack.model_dump_json(exclude_defaults=True).encode())

    def grant(self, message: Grants, answered: Answer, grants_s: float) -> None:
        """Send grants; grants_s: time to acknowledge them. Raises UnreachableError."""
        if len(self._receipts) >= MAX_RECEIPTS:
            raise UnreachableError("the sidecar acknowledges no grants", place=self.node_id)
        receipt = _Receipt(answered)
        receipt.timer = asyncio.get_running_loop().call_later(grants_s, self._too_late, receipt, grants_s)
        self._receipts.append(receipt)
        self._write(FrameKind.GRANTS, message.model_dump_json(exclude_defaults=True).encode())
        if not self.is_open:
            self._lose_grants()

    def _too_late(self, receipt: _Receipt, grants_s: float) -> None:
        receipt.settle(UnreachableError(f"no answer within {grants_s:g} s", place=self.node_id))

    def _taken(self, kind: FrameKind) -> bool:
        """Return whether a frame acknowledges grants."""
        if kind is not FrameKind.GRANTS_TAKEN or not self._receipts:
            return False
        self._receipts.popleft().settle(None)
        return True

    def _lose_grants(self) -> None:
        receipts, self._receipts = self._receipts, deque()
        for receipt in receipts:
            receipt.settle(UnreachableError("the connection for reports was closed", place=self.node_id))

    def check(self) -> None:
        """End the connection if its caller may not report any more, is silent, or does not finish a frame."""
        now_s = time.monotonic()
        if not self.allowed():
            self.end("what proved its caller is not valid any more")
        elif now_s - self._heard_s > IDLE_S:
            self.end(f"no report within {IDLE_S:g} s")
        elif self._frames.pending and now_s - self._begun_s > FRAME_S:
            self.end(f"a frame that does not end within {FRAME_S:g} s")

    def end(self, why: str) -> None:
        """Close at once. why: "" where nobody needs to know."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
            self._lose_grants()
            self._closed(self, why)

    def connection_lost(self, error: Exception | None) -> None:
        """Note that the connection is closed."""
        self._lose_grants()
        if self._transport is not None:
            self._transport = None
            self._closed(self, "")

    def _refuse(self, error: ApiError) -> None:
        """Send an error, and close."""
        transport, self._transport = self._transport, None
        if transport is not None:
            refusal = RefusalBody(status=error.status, error=ErrorBody(code=error.code, message=masked(str(error))))
            transport.write(frame(FrameKind.REFUSAL, refusal.model_dump_json().encode()))
            transport.close()
            self._lose_grants()
            self._closed(self, str(error))

    def _write(self, kind: FrameKind, body: bytes) -> None:
        transport = self._transport
        if transport is None:
            return
        if transport.get_write_buffer_size() > UNREAD_BYTES:
            self.end("the sidecar does not read")
            return
        transport.write(frame(kind, body))


def _differ(targets: Targets, before: Targets | None) -> bool:
    return before is None or (targets is not before and targets.__dict__ != before.__dict__)


class ReportUpgrade:
    """ASGI middleware that opens connections for reports."""

    def __init__(self, app: ASGIApp, *, connections: ReportConnections) -> None:
        self._app, self._connections = app, connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the connection of a call over, or pass the call on."""
        path = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if path is None or len(path[1]) > MAX_NODE_ID:
            await self._app(scope, receive, send)
            return
        hand_over = scope.get(HAND_OVER)
        protocols = [value for name, value in scope["headers"] if name == b"upgrade"]
        if hand_over is None or protocols != [UPGRADE.encode()]:
            answer = envelope(426, "upgrade-required", f"send `Connection: Upgrade` and `Upgrade: {UPGRADE}`")
            answer.headers["Upgrade"] = UPGRADE
            await answer(scope, receive, send)
            return
        try:
            self._connections.open(path[1], scope, cast(Upgrade, hand_over))
        except ApiError as error:
            await envelope(error.status, error.code, str(error))(scope, receive, send)
