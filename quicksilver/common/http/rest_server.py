"""REST servers of the daemons: error answers, limits, and serving inside the running event loop."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quicksilver.common.http.acceptor import AcceptedConnection, RestAcceptor, RestSource
from quicksilver.common.http.connection import BoundedConnection
from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.process.logs import get_logger
from quicksilver.common.process.masking import masked

DEFAULT_BODY_BYTES: Final = 8 * 2**20
log = get_logger(__name__)


def envelope(status: int, code: str, message: str) -> JSONResponse:
    """Return an error answer."""
    return JSONResponse({"error": {"code": code, "message": masked(message)}}, status_code=status)


def install_error_handlers(app: FastAPI) -> None:
    """Make every error of `app` an envelope: invalid bodies (422), unknown paths, ApiError, our own faults (500)."""
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(ApiError, _on_api)
    app.add_exception_handler(Exception, _on_fault)


async def _on_invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    faults = [f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in error.errors()[:5]]
    more = len(error.errors()) - len(faults)
    message = "; ".join(faults) + (f"; and {more} more" if more > 0 else "")
    return envelope(422, "invalid", message)


async def _on_http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 400 and isinstance(error.__cause__, ValueError | RecursionError):  # FastAPI's words for it
        return envelope(422, "invalid", f"body: cannot be read as JSON: {error.__cause__}; send UTF-8, less nested")
    codes = {404: "not-found", 405: "method-not-allowed", 413: "too-large"}
    response = envelope(error.status_code, codes.get(error.status_code, f"http-{error.status_code}"), str(error.detail))
    response.headers.update(error.headers or {})
    return response


async def _on_api(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiError)
    return envelope(error.status, error.code, str(error))


async def _on_fault(request: Request, error: Exception) -> JSONResponse:
    log.error("a REST call failed", path=request.url.path, method=request.method, exc_info=error)
    return envelope(500, "internal", f"{type(error).__name__}; the log of this process has the details")


class BodyLimit:
    """ASGI middleware: a body of more than `max_bytes` is answered with 413 and not read further."""

    def __init__(self, app: ASGIApp, max_bytes: int = DEFAULT_BODY_BYTES) -> None:
        self._app, self._max = app, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on, counting what the body has."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = next((v for k, v in scope["headers"] if k == b"content-length"), b"0")
        if not announced.isdigit() or int(announced) > self._max:
            await envelope(413, "too-large", self._message())(scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._max:
                raise HTTPException(413, self._message())
            return message

        await self._app(scope, counted, send)

    def _message(self) -> str:
        return f"the body has more than {self._max} bytes"


class _EmbeddedServer(uvicorn.Server):
    """A uvicorn server that leaves the process's signals alone, and whose connections are bounded."""

    def __init__(
        self, config: uvicorn.Config, source: RestSource, max_connections: int, tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(config)
        self._source, self._max, self._tls = source, max_connections, tls

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        self.servers = [RestAcceptor(self._source, self._connection, self._max, self._tls)]  # type: ignore[list-item]
        self.started = True

    def _connection(self, accepted: AcceptedConnection) -> BoundedConnection:
        return BoundedConnection(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state, watcher=accepted
        )


async def serve(
    app: ASGIApp, source: RestSource, *, max_connections: int = 10_000, tls: ssl.SSLContext | None = None
) -> None:
    """Serve `app` on a listening socket inside the running loop, until this coroutine is cancelled.

    source: the socket, or connections that were accepted already.

    Beyond `max_connections` a connection that waits for a request is closed for a new one; where none does, the new
    one is. On cancellation running calls get up to 2 s to end; the socket is closed in every case.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_keep_alive=60,
        timeout_graceful_shutdown=2,
        server_header=False,
        http=BoundedConnection,
        ws="none",
    )
    config.load()
    server = _EmbeddedServer(config, source, max_connections, tls)
    running = asyncio.create_task(server.serve(), name="rest")
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        server.should_exit = True
        await running
        raise
    finally:
        if isinstance(source, socket.socket):
            source.close()
