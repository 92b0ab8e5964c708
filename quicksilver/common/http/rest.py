"""REST on both sides: a client that raises clear errors, and what the servers of proxy and sidecar share.

Every error answer is `{"error": {"code": ..., "message": ...}}`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import requests
import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from requests.auth import AuthBase
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.security import Credentials, certificate_names
from quicksilver.common.http.timeouts import PatientProtocol
from quicksilver.common.process import fdstore
from quicksilver.common.process.logs import get_logger
from quicksilver.common.process.masking import masked

DEFAULT_BODY_BYTES: Final = 8 * 2**20
_BACKLOG: Final = 4096
"""Connections that wait to be taken; the kernel's own limit is net.core.somaxconn."""
NAMES: Final = "quicksilver.names"
"""Key of an ASGI scope: the names of the caller's certificate, as `certificate_names` returns them."""
log = get_logger(__name__)


class UnreachableError(QuicksilverError):
    """Nobody answers at a REST address; trying again later may help."""


class RefusedError(QuicksilverError):
    """A server answered a call with an error; `status` is HTTP's, `code` the envelope's (or `http-STATUS`)."""

    def __init__(self, what: str, *, place: str, status: int, code: str) -> None:
        super().__init__(what, place=place)
        self.status, self.code = status, code


class ApiError(QuicksilverError):
    """Raise it in a route: the caller gets `status` with the envelope of `code` and the message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class ErrorBody(BaseModel):
    """What went wrong."""

    code: str
    message: str


class ErrorEnvelope(BaseModel):
    """The body of every error answer."""

    error: ErrorBody


class RestClient:
    """Calls of one server over kept connections; not to be shared between threads that call at the same time."""

    def __init__(
        self,
        base_url: str,
        *,
        timeout_s: float = 5.0,
        remedy: str = "",
        pool: int = 4,
        credentials: Credentials | None = None,
        auth: AuthBase | None = None,
    ) -> None:
        """`remedy` is told when nobody answers at `base_url`; `pool` bounds the kept connections; `auth` logs in.

        With credentials, redirects are refused: they would carry them elsewhere.
        """
        self.base_url, self.timeout_s, self.remedy = base_url.rstrip("/"), timeout_s, remedy
        self._credentials = credentials
        self._session = rest_session(pool, credentials)
        if auth is not None:
            self._session.auth = auth

    def get(self, path: str, params: dict[str, Any] | None = None) -> Any:
        """GET `path`, return the JSON body. Raises UnreachableError or RefusedError."""
        return self._call("GET", path, params=params)

    def post(self, path: str, body: BaseModel) -> Any:
        """POST `body` as JSON, return the JSON body (None when empty). Raises UnreachableError or RefusedError."""
        headers = {"Content-Type": "application/json"}
        return self._call("POST", path, data=body.model_dump_json().encode(), headers=headers)

    def chunks(self, path: str, params: dict[str, Any] | None = None) -> Iterator[bytes]:
        """GET `path`, yield the body as it comes, whatever it is. Raises UnreachableError or RefusedError."""
        url = f"{self.base_url}{path}"
        try:
            with self._send("GET", url, params=params, stream=True) as response:
                if response.status_code >= 300:
                    raise _refused(response, url)
                yield from response.iter_content(2**16)
        except requests.RequestException as error:
            raise UnreachableError(_why(error, self.timeout_s), place=url, remedy=self.remedy) from error

    def close(self) -> None:
        """Close the kept connections."""
        self._session.close()

    def _call(self, method: str, path: str, **arguments: Any) -> Any:
        url = f"{self.base_url}{path}"
        try:
            response = self._send(method, url, **arguments)
        except requests.RequestException as error:
            raise UnreachableError(_why(error, self.timeout_s), place=url, remedy=self.remedy) from error
        if response.status_code >= 300:
            raise _refused(response, url)
        if not response.content:
            return None
        try:
            return response.json()
        except requests.JSONDecodeError:
            what = f"answered {response.headers.get('Content-Type', 'something')} instead of JSON"
            raise RefusedError(what, place=url, status=response.status_code, code="not-json") from None

    def _send(
        self, method: str, url: str, headers: dict[str, str] | None = None, **arguments: Any
    ) -> requests.Response:
        shown = self._credentials
        headers = (headers or {}) | (shown.headers(url) if shown else {})
        return self._session.request(
            method, url, timeout=self.timeout_s, headers=headers, allow_redirects=shown is None, **arguments
        )


class _Adapter(requests.adapters.HTTPAdapter):
    """An adapter whose TLS is what the credentials say."""

    def __init__(self, pool: int, context: ssl.SSLContext | None) -> None:
        self._context = context
        super().__init__(pool_connections=pool, pool_maxsize=pool)

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        """Make the pools, with the context where there is one."""
        if self._context is not None:
            options["ssl_context"] = self._context
        super().init_poolmanager(*arguments, **options)


def rest_session(pool: int = 4, credentials: Credentials | None = None) -> requests.Session:
    """Return a session with kept connections, bounded by `pool`, that ignores proxies of the environment."""
    session = requests.Session()
    session.trust_env = False
    session.headers["Accept"] = "application/json"
    adapter = _Adapter(pool, credentials.context if credentials else None)
    if credentials is not None and credentials.ca is not None:
        session.verify = str(credentials.ca)
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    return session


def _why(error: requests.RequestException, timeout_s: float) -> str:
    if isinstance(error, requests.Timeout):
        return f"no answer within {timeout_s:g} s"
    if isinstance(error, requests.exceptions.SSLError):
        return f"TLS failed: {tls_reason(error)}"
    if isinstance(error, requests.ConnectionError):
        return "connection refused" if "Connection refused" in str(error) else "cannot connect"
    return f"{type(error).__name__}: {error}"


def tls_reason(error: BaseException) -> str:
    """Return what OpenSSL says, out of what a library of HTTP wraps around it."""
    inner: BaseException | None = error
    for _ in range(6):
        if isinstance(inner, ssl.SSLCertVerificationError):
            return f"the server's certificate: {inner.verify_message.rstrip('.')}"
        if isinstance(inner, ssl.SSLError) and inner.reason:
            return inner.reason.lower().replace("_", " ")
        if inner is None:
            break
        causes = [part for part in inner.args if isinstance(part, BaseException)]
        inner = getattr(inner, "reason", None) or next(iter(causes), None) or inner.__cause__ or inner.__context__
    return type(error).__name__


def _refused(response: requests.Response, url: str) -> RefusedError:
    what = f"answered {response.status_code} {response.reason}{_wanted(response)}"
    return refused(response.status_code, response.content, url, what)


def refused(status: int, answer: bytes, url: str, what: str = "") -> RefusedError:
    """Return the error that an answer's body tells of; `what` happened where it is no envelope."""
    try:
        told = ErrorEnvelope.model_validate_json(answer).error
    except ValueError:
        return RefusedError(what or f"answered {status}", place=url, status=status, code=f"http-{status}")
    return RefusedError(told.message, place=url, status=status, code=told.code)


def _wanted(response: requests.Response) -> str:
    """Return which settings a server's wish for a login is answered by, "" when it has none or was answered."""
    wants = response.headers.get("WWW-Authenticate", "").lower().startswith("negotiate")
    if response.status_code != 401 or not wants or response.request.headers.get("Authorization"):
        return ""
    return ": it wants a Kerberos login; set kerberos_principal and kerberos_keytab (docs/security.md)"


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
    """A uvicorn server that leaves the process's signals alone."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _NamedProtocol(PatientProtocol):
    """HTTP whose calls carry the names of the caller's certificate."""

    def on_message_begin(self) -> None:
        """Begin a call."""
        super().on_message_begin()
        if self.scheme == "https":
            self.scope[NAMES] = certificate_names(self.transport.get_extra_info("peercert"))  # type: ignore[typeddict-unknown-key]


async def serve(
    app: ASGIApp, sock: socket.socket, *, max_connections: int = 10_000, tls: ssl.SSLContext | None = None
) -> None:
    """Serve `app` on a bound socket inside the running loop, until this coroutine is cancelled.

    On cancellation running calls get up to 2 s to end; the socket is closed in every case.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        limit_concurrency=max_connections,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=2,
        server_header=False,
        http=_NamedProtocol,
        ws="none",
    )
    config.load()
    config.ssl = tls
    server = _EmbeddedServer(config)
    running = asyncio.create_task(server.serve(sockets=[sock]), name="rest")
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        server.should_exit = True
        await running
        raise
    finally:
        sock.close()


def bound_socket(host: str, port: int, name: str = "") -> socket.socket:
    """Return a listening socket at `host:port` (port 0: any free one).

    With a name: the one that was kept under it by the process before, if it is at this address; else a new one, which
    is kept from now on (quicksilver/common/process/fdstore.py). Raises QuicksilverError naming the address when it is
    occupied or not of this machine.
    """
    place = f"{host}:{port}"
    try:
        info = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise QuicksilverError(f"cannot be resolved: {error}", place=place, remedy="correct the address") from error
    kept = _kept(name, info[4]) if name else None
    if kept is not None:
        return kept
    sock = socket.socket(info[0], socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _keep_alive(sock)
        sock.bind(info[4])
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        what = f"cannot listen: {error.strerror or error}"
        remedy = "stop what holds the port (`ss -ltnp` shows it), or choose another address"
        raise QuicksilverError(what, place=place, remedy=remedy) from error
    if name:
        fdstore.store(name, sock)
    return sock


def _keep_alive(sock: socket.socket) -> None:
    """Have the connections that are accepted here miss a peer that is gone without a word, after two minutes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4)):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _kept(name: str, address: tuple[Any, ...]) -> socket.socket | None:
    """Return the socket that was kept under a name where its address is still the one wanted; others are closed."""
    found = None
    taken = fdstore.take(name)
    for sock in taken:
        here = sock.getsockname()
        if found is None and (here == address or (address[1] == 0 and here[0] == address[0])):
            found = sock
        else:
            sock.close()
    if taken and found is None:
        fdstore.forget(name)
    return found
