"""A small HTTP/1.1 server on asyncio: one request for each connection, with bounds on everything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

HEAD_BYTES: Final = 16 * 1024
BODY_BYTES: Final = 64 * 1024
READ_S: Final = 20.0
CONNECTIONS: Final = 512
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class Request:
    """A request; names of headers are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer."""

    status: int
    body: bytes
    content_type: str = "application/json"

    @classmethod
    def of(cls, data: Any, status: int = 200) -> Answer:
        """Return an answer with JSON data."""
        return cls(status, json.dumps(data).encode())


class HttpError(Exception):
    """A request that is refused, with its status, code and text."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message

    def answer(self) -> Answer:
        """Return it as quicksilver's APIs have errors."""
        return Answer.of({"error": {"code": self.code, "message": self.message}}, self.status)


Handler = Callable[[Request], Awaitable[Answer]]


class HttpServer:
    """Listens on a free port of all interfaces, unless `port` is given."""

    def __init__(self, handler: Handler, failed: Callable[[Exception], None]) -> None:
        """Prepare. failed: called with an error of the handler's own, which is answered with 500."""
        self._handler, self._failed = handler, failed
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self, host: str = "0.0.0.0", port: int = 0) -> int:
        """Listen; return the port. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=HEAD_BYTES)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Listen no more; requests that are being answered are cut off when the program ends."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            answer = await self._answer(reader)
            writer.write(_encode(answer))
            await asyncio.wait_for(writer.drain(), READ_S)
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError):
            return  # the peer is gone or does not read, and nobody else cares
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> Answer:
        try:
            if self._open > CONNECTIONS:
                raise HttpError(503, "busy", f"{CONNECTIONS} requests are being answered; try again later.")
            async with asyncio.timeout(READ_S):
                request = await _read(reader)
            return await self._handler(request)
        except HttpError as error:
            return error.answer()
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError):
            raise
        except Exception as error:  # noqa: BLE001  # one bad request must not end the application
            self._failed(error)
            return HttpError(500, "internal", f"{type(error).__name__}: {error}").answer()


async def _read(reader: asyncio.StreamReader) -> Request:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise HttpError(413, "too_large", f"The head of a request has {HEAD_BYTES} bytes at most.") from error
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise HttpError(400, "bad_request", "The first line of a request is METHOD PATH HTTP/1.1.")
    headers: dict[str, str] = {}
    for line in lines[1:-2]:
        name, colon, value = line.partition(":")
        if not colon:
            raise HttpError(400, "bad_request", "A header is NAME: VALUE.")
        headers[name.strip().lower()] = value.strip()
    length = headers.get("content-length", "0")
    if not length.isdecimal() or "transfer-encoding" in headers:
        raise HttpError(400, "bad_request", "The length of a body is a number in Content-Length.")
    if int(length) > BODY_BYTES:
        raise HttpError(413, "too_large", f"A request has {BODY_BYTES} bytes at most, this one has {length}.")
    try:
        url = urlsplit(words[1])
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
    except ValueError as error:
        raise HttpError(400, "bad_request", f"The path of the request is no URL: {error}") from error
    return Request(words[0], url.path, query, headers, await reader.readexactly(int(length)))


def _encode(answer: Answer) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + answer.body
