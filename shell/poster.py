"""POSTs of JSON from the event loop itself, over one kept connection: a tenth of what a call of RestClient costs."""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import Final, cast
from urllib.parse import SplitResult, urlsplit

import httptools
from pydantic import BaseModel

from shell.rest import ErrorEnvelope, RefusedError, UnreachableError
from shell.security import Credentials

MAX_ANSWER: Final = 64 * 1024
"""Bytes of an answer's body that are read; a longer one is none of ours."""
_AUTHORITY: Final = re.compile(r"[A-Za-z0-9._:\[\]-]+")
_PORTS: Final = {"http": 80, "https": 443}


class Poster:
    """Calls of one server, one at a time; made and used inside a running event loop."""

    def __init__(self, base_url: str, *, timeout_s: float = 5.0, credentials: Credentials | None = None) -> None:
        """`timeout_s` is for a whole call, dialing included. Redirects are refused."""
        self.base_url = base_url.rstrip("/")
        self._timeout_s, self._credentials = timeout_s, credentials
        self._line: _Line | None = None

    async def post(self, path: str, body: BaseModel) -> None:
        """POST `body` as JSON. Raises UnreachableError, RefusedError, or SettingsError for what may not be sent."""
        url = f"{self.base_url}{path}"
        try:
            async with asyncio.timeout(self._timeout_s):
                status, answer = await self._call(url, body.model_dump_json().encode())
        except TimeoutError as error:
            self.close()
            raise UnreachableError(f"no answer within {self._timeout_s:g} s", place=url) from error
        except ConnectionRefusedError as error:
            raise UnreachableError("connection refused", place=url) from error
        except ssl.SSLError as error:
            why = getattr(error, "verify_message", "").rstrip(".") or (error.reason or "TLS").lower()
            raise UnreachableError(f"TLS failed: {why}", place=url) from error
        except (OSError, httptools.HttpParserError) as error:
            self.close()
            raise UnreachableError(f"cannot connect: {error}", place=url) from error
        except asyncio.CancelledError:
            self.close()  # an answer on its way would be taken for the next call's
            raise
        if status >= 300:
            raise _refused(status, answer, url)

    def close(self) -> None:
        """Close the kept connection."""
        line, self._line = self._line, None
        if line is not None:
            line.close()

    async def _call(self, url: str, body: bytes) -> tuple[int, bytes]:
        parts = _parts(url)
        if self._line is None or self._line.over:
            self._line = await self._dial(parts, url)
        headers = self._credentials.headers(url) if self._credentials else {}
        shown = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = (
            f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: application/json\r\n"
            f"Content-Type: application/json\r\n{shown}Content-Length: {len(body)}\r\n\r\n"
        )
        return await self._line.ask(head.encode("latin-1") + body)

    async def _dial(self, parts: SplitResult, url: str) -> _Line:
        loop, context = asyncio.get_running_loop(), None
        if self._credentials is not None:
            # looks the host up in a thread, so that it is known when a call asks for it
            await loop.run_in_executor(None, self._credentials.headers, url)
        if parts.scheme == "https":
            known = self._credentials.context if self._credentials else None
            context = known or ssl.create_default_context()
        port = parts.port or _PORTS[parts.scheme]
        _, line = await loop.create_connection(_Line, parts.hostname or "", port, ssl=context)
        return line


class _Line(asyncio.Protocol):
    """One connection; `over` when it carries no more calls."""

    def __init__(self) -> None:
        self.over = False
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()

    async def ask(self, data: bytes) -> tuple[int, bytes]:
        """Send a request; return status and body of its answer. Raises ConnectionError, HttpParserError."""
        assert self._transport is not None, "connected"
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return await self._answer

    def close(self) -> None:
        """Hang up at once."""
        self.over = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Take a part of an answer."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(error)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the call that waits."""
        self.over = True
        self._fail(exc if isinstance(exc, OSError) else ConnectionResetError("the connection was closed"))

    def _fail(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)

    # What the parser tells

    def on_message_begin(self) -> None:
        """Begin an answer; one that nobody asked for ends the connection."""
        if self._answer is None:
            self.close()
        self._body.clear()

    def on_body(self, data: bytes) -> None:
        """Take a part of its body."""
        if len(self._body) + len(data) > MAX_ANSWER:
            self._fail(ConnectionError(f"the answer has more than {MAX_ANSWER} bytes"))
            self.close()
        else:
            self._body += data

    def on_message_complete(self) -> None:
        """Hand the answer over."""
        if not self._parser.should_keep_alive():
            self.over = True
            if self._transport is not None:
                self._transport.close()
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result((self._parser.get_status_code(), bytes(self._body)))


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        whole = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole or not _AUTHORITY.fullmatch(parts.netloc):
        raise UnreachableError("is no http:// or https:// address", place=url)
    return parts


def _refused(status: int, answer: bytes, url: str) -> RefusedError:
    try:
        told = ErrorEnvelope.model_validate_json(answer).error
    except ValueError:
        return RefusedError(f"answered {status}", place=url, status=status, code=f"http-{status}")
    return RefusedError(told.message, place=url, status=status, code=told.code)
