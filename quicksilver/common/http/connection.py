"""HTTP connections with bounds: on the head of a request, on requests in advance, and on the time of both directions.

uvicorn's own protocol and its parser bound none of them, and all of it is read before anybody knows who sends it.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, Protocol

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from quicksilver.common.http.security import certificate_names
from quicksilver.common.process.limits import Seldom

HEAD_BYTES: Final = 64 * 1024
"""Bytes of a request's first line and headers; also of its trailers, and of what stands between two pieces of body."""
HEADERS: Final = 200
"""Headers and trailers of one request."""
PIPELINED: Final = 16
"""Requests of one connection that wait behind the one that is answered."""
REQUEST_S: Final = 30.0
"""Time for a whole request to arrive, from its first byte or the connection's begin on; then it is given up."""
ANSWER_S: Final = 30.0
"""Time after which an answer is given up if the client reads nothing of it."""
LINGER_S: Final = 1.0
"""Time for a refused peer to read why; with TLS what it still sends is read and dropped meanwhile."""
NAMES: Final = "quicksilver.names"
"""Key of an ASGI scope: the names of the caller's certificate, as `certificate_names` returns them."""
CERTIFICATE_ENDS: Final = "quicksilver.certificate_ends_s"
"""Key of an ASGI scope: when the caller's certificate ends (Unix time); missing without one."""
UPGRADE: Final = "quicksilver.upgrade"
"""Key of an ASGI scope: the function that hands the connection over (`Upgrade`), where the caller asks for that."""
_seldom = Seldom()


class _BoundReached(Exception):
    """Ends parsing; the connection is closed already, or about to be."""


class Watcher(Protocol):
    """What a connection reports to."""

    def busy(self) -> None:
        """Note that the connection has a whole request to answer."""

    def wait(self) -> None:
        """Note that it waits for the next one."""

    def leave(self) -> None:
        """Note that it is closed."""


class Successor(Protocol):
    """What a connection is handed over to; slow readers are the connection's affair still."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin."""

    def data_received(self, data: bytes) -> None:
        """Take bytes."""

    def connection_lost(self, error: Exception | None) -> None:
        """End."""


Upgrade = Callable[[str, Successor], None]
"""Gets the name of a protocol and who speaks it: answers the request with 101, and hands the connection over.

The application that calls it sends no answer of its own.
"""


class _AnswerWriter:
    """A transport for one answer, which writes the head with what follows in the same turn of the loop.

    It has one call to the kernel, and one packet, in place of two.
    """

    __slots__ = ("_began", "_flushing", "_head", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._head, self._began = b"", False
        self._flushing: asyncio.Handle | None = None

    def write(self, data: bytes) -> None:
        """Write, the first piece a turn later at most."""
        if not self._began:
            self._head, self._began = data, True
            self._flushing = self._loop.call_soon(self._flush)
            return
        if self._flushing is not None:
            self._flushing.cancel()
            data, self._head, self._flushing = self._head + data, b"", None
        self._transport.write(data)

    def _flush(self) -> None:
        head, self._head, self._flushing = self._head, b"", None
        if not self._transport.is_closing():  # given up meanwhile
            self._transport.write(head)

    def is_closing(self) -> bool:
        """Return whether it is closed, or about to be."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Write what waits, and close."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flush()
        self._transport.close()


class BoundedConnection(HttpToolsProtocol):
    """One connection, whose calls carry the names of the caller's certificate.

    Between two requests uvicorn's own `timeout_keep_alive` counts.
    """

    request_s = REQUEST_S
    answer_s = ANSWER_S

    def __init__(self, *arguments: Any, watcher: Watcher | None = None, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._watcher = watcher
        self._unanswered = 0
        """Whole requests without a whole answer; less than 0 where the answer came first."""
        self._coming: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._pending_bytes = 0
        """Bytes since the last piece of a request that was complete in itself: a head, a piece of body, a message."""
        self._successor: Successor | None = None
        """Who has the connection, where it speaks another protocol by now."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Take bytes; the first of a request begin its time.

        No more than a head may have is parsed at once, so that none is longer, whatever arrives with it.
        """
        if self._successor is not None:
            self._successor.data_received(data)
            return
        self._unset_keepalive_if_required()
        if self._coming is None:
            self._expect()
        rest = memoryview(data)
        while rest and not self.transport.is_closing():
            room = HEAD_BYTES - self._pending_bytes
            if room <= 0:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the head has more than {HEAD_BYTES} bytes")
                return
            piece, rest = rest[:room], rest[room:]
            self._pending_bytes += len(piece)
            self._parse(piece)

    def _parse(self, piece: memoryview) -> None:
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            self._pending_bytes = 0  # the application hands the connection over, or answers as it is
        except httptools.HttpParserError as error:
            if not isinstance(error.__context__, _BoundReached):
                self._refuse(HTTPStatus.BAD_REQUEST, "this is no HTTP request")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer."""
        if len(self.headers) >= HEADERS:
            why = f"the request has more than {HEADERS} headers"
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, why)
            raise _BoundReached
        super().on_header(name, value)

    def on_message_begin(self) -> None:
        """Begin a call."""
        super().on_message_begin()
        if self.scheme == "https":
            certificate = self.transport.get_extra_info("peercert")
            self.scope[NAMES] = certificate_names(certificate)  # type: ignore[typeddict-unknown-key]
            if certificate:
                self.scope[CERTIFICATE_ENDS] = ssl.cert_time_to_seconds(certificate["notAfter"])  # type: ignore[typeddict-unknown-key]

    def on_headers_complete(self) -> None:
        """Begin to answer, or to wait for the answers before it."""
        self._pending_bytes = 0
        if self.parser.should_upgrade():
            self.scope[UPGRADE] = self._hand_over  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()
        self.cycle.transport = _AnswerWriter(self.transport, self.loop)  # type: ignore[assignment]
        if len(self.pipeline) > PIPELINED:
            self._give_up(f"more than {PIPELINED} requests in advance")
            raise _BoundReached

    def on_chunk_header(self) -> None:
        """Note that a chunk begins."""
        self._pending_bytes = 0

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._pending_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the whole request has arrived."""
        self._pending_bytes = 0
        super().on_message_complete()
        self._arrived()
        self._unanswered += 1
        if self._unanswered == 1 and self._watcher is not None:
            self._watcher.busy()

    def on_response_complete(self) -> None:
        """Note that a request is answered; begin to answer the next one that waits."""
        super().on_response_complete()
        self._unanswered -= 1
        if self._unanswered == 0 and self._watcher is not None:
            self._watcher.wait()

    def pause_writing(self) -> None:
        """Wait for the reader of an answer."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.answer_s, self._give_up, "an answer that nobody reads")

    def resume_writing(self) -> None:
        """Note that it reads."""
        self._read()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeouts."""
        self._arrived()
        self._read()
        super().connection_lost(exc)
        if self._successor is not None:
            self._successor.connection_lost(exc)
        if self._watcher is not None:
            self._watcher.leave()

    def shutdown(self) -> None:
        """Close when the running answer is complete."""
        if self._successor is not None:
            self.transport.close()
        else:
            super().shutdown()

    def _hand_over(self, protocol: str, successor: Successor) -> None:
        """Answer the request, which is complete, with 101; from then on the connection is its successor's.

        Towards the watcher it waits, like each connection that answers nothing at the time.
        """
        if self.transport.is_closing():
            return
        self._arrived()
        self._unset_keepalive_if_required()
        self.cycle.disconnected = True  # so uvicorn writes no answer when the application returns
        head = f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
        self.transport.write(head.encode())
        self._successor = successor
        successor.connection_made(self.transport)
        if self._watcher is not None:
            self._watcher.wait()

    def _expect(self) -> None:
        self._coming = self.loop.call_later(self.request_s, self._give_up, "a request that does not come")

    def _arrived(self) -> None:
        if self._coming is not None:
            self._coming.cancel()
            self._coming = None

    def _read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        """Answer what cannot be read, and close; where another answer is on its way, only close."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._give_up(why)
            return
        _seldom.warning("REST request refused", why=why, peer=self._peer())
        body = json.dumps({"error": {"code": f"http-{status.value}", "message": why}}).encode()
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        self.transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.transport.close()
        self.loop.call_later(LINGER_S, self.transport.abort)

    def _give_up(self, why: str) -> None:
        _seldom.warning("REST connection closed", why=why, peer=self._peer())
        self.transport.abort()

    def _peer(self) -> str:
        return self.client[0] if self.client else "?"
