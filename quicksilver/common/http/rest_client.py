"""REST from a command: calls of one server over kept connections, with clear errors."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import requests
from pydantic import BaseModel
from requests.auth import AuthBase
from urllib3 import HTTPConnectionPool
from urllib3.exceptions import HTTPError, ProtocolError, ReadTimeoutError

from quicksilver.common.http.rest_errors import KERBEROS_HINT, RefusedError, UnreachableError, refused, tls_reason
from quicksilver.common.http.security import Credentials

SESSION_ANSWER_BYTES: Final = 96 << 20
"""Bytes of an answer's body that a session reads; the end of a log has 64 MiB at most."""
SESSION_READ_S: Final = 300.0
"""How long a session reads one body, however often bytes of it come."""
_PART: Final = 1 << 16


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
        """`remedy` is part of the error when `base_url` does not answer; `pool` bounds the connections; `auth` logs in.

        Redirects are refused: they would lead elsewhere.
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
                    raise refusal(response, url)
                yield from response.iter_content(2**16)
        except requests.RequestException as error:
            raise UnreachableError(why_unreachable(error, self.timeout_s), place=url, remedy=self.remedy) from error

    def close(self) -> None:
        """Close the kept connections."""
        self._session.close()

    def _call(self, method: str, path: str, **arguments: Any) -> Any:
        url = f"{self.base_url}{path}"
        try:
            response = self._send(method, url, **arguments)
        except requests.RequestException as error:
            raise UnreachableError(why_unreachable(error, self.timeout_s), place=url, remedy=self.remedy) from error
        if response.status_code >= 300:
            raise refusal(response, url)
        if not response.content:
            return None
        try:
            return response.json()
        except (requests.JSONDecodeError, RecursionError):
            message = f"answered {response.headers.get('Content-Type', 'something')} instead of JSON"
            raise RefusedError(message, place=url, status=response.status_code, code="not-json") from None

    def _send(
        self, method: str, url: str, headers: dict[str, str] | None = None, **arguments: Any
    ) -> requests.Response:
        shown = self._credentials
        headers = (headers or {}) | (shown.headers(url) if shown else {})
        return self._session.request(method, url, timeout=self.timeout_s, headers=headers, **arguments)


class LongAnswerError(requests.ConnectionError):
    """The body of an answer is longer than what is read of it."""


class _Adapter(requests.adapters.HTTPAdapter):
    """An adapter whose TLS is a context's alone, where there is one."""

    def __init__(
        self,
        pool: int,
        context: Callable[[], ssl.SSLContext] | None,
        pool_classes: Mapping[str, type[HTTPConnectionPool]] | None,
    ) -> None:
        self._context, self._pool_classes = context, pool_classes
        super().__init__(pool_connections=pool, pool_maxsize=pool)

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        """Make the pools."""
        super().init_poolmanager(*arguments, **options)
        if self._pool_classes is not None:
            self.poolmanager.pool_classes_by_scheme = dict(self._pool_classes)

    def build_connection_pool_key_attributes(
        self, request: requests.PreparedRequest, verify: Any, cert: Any = None
    ) -> Any:
        """Return what decides which pool serves a request."""
        server, tls = super().build_connection_pool_key_attributes(request, verify, cert)
        if self._context is None:
            return server, tls
        return server, {"ssl_context": self._context()} if server["scheme"] == "https" else {}

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """Have a pool trust what `requests` names, unless there is a context: that would trust more by it."""
        if self._context is None:
            super().cert_verify(conn, url, verify, cert)  # type: ignore[no-untyped-call]


class _Session(requests.Session):
    """A session that believes its servers little: no redirects, unless it may; bounds on bodies."""

    def __init__(self, redirects: bool, answer_bytes: int, read_s: float) -> None:
        super().__init__()
        self._redirects, self._answer_bytes, self._read_s = redirects, answer_bytes, read_s

    def send(self, request: requests.PreparedRequest, **arguments: Any) -> requests.Response:
        """Send a request; read the body unless the caller streams it. Raises requests.RequestException."""
        streams = bool(arguments.get("stream"))
        response = super().send(request, **{**arguments, "stream": True})
        if not streams:
            self._read(response)
        return response

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Return where an answer leads, None where it is not followed; the answer itself is read within bounds."""
        target = super().get_redirect_target(resp) if self._redirects else None
        if target is not None:
            self._read(resp)
        return target

    def _read(self, response: requests.Response) -> None:
        if response._content is False:  # type: ignore[comparison-overlap]
            try:
                response._content = self._body(response)
            except BaseException:
                response.close()
                raise

    def _body(self, response: requests.Response) -> bytes:
        """Return a whole body, within bounds. Raises requests.RequestException."""
        deadline_s, body = time.monotonic() + self._read_s, bytearray()
        try:
            while part := response.raw.read1(_PART, decode_content=True):
                body += part
                if len(body) > self._answer_bytes:
                    raise LongAnswerError(f"the answer has more than {self._answer_bytes} bytes")
                if time.monotonic() > deadline_s:
                    raise requests.ReadTimeout(f"the answer is not there after {self._read_s:g} s")
        except ReadTimeoutError as error:
            raise requests.ReadTimeout(error) from error
        except HTTPError as error:
            raise requests.ConnectionError(error) from error
        return bytes(body)


def rest_session(
    pool: int = 4,
    credentials: Credentials | None = None,
    *,
    redirects: bool = False,
    answer_bytes: int = SESSION_ANSWER_BYTES,
    read_s: float = SESSION_READ_S,
    context: Callable[[], ssl.SSLContext] | None = None,
    pool_classes: Mapping[str, type[HTTPConnectionPool]] | None = None,
) -> requests.Session:
    """Return a session with kept connections, bounded by `pool`, that ignores proxies of the environment.

    redirects: whether it follows them, for servers of the cluster itself and without credentials. context: TLS where
    the credentials have none. pool_classes: of connections, by scheme.
    """
    session = _Session(redirects and credentials is None, answer_bytes, read_s)
    session.trust_env = False
    session.headers["Accept"] = "application/json"
    shown = credentials.context if credentials else None
    adapter = _Adapter(pool, context if shown is None else lambda: shown, pool_classes)
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    return session


def why_unreachable(error: requests.RequestException, timeout_s: float) -> str:
    """Return in a few words why there is no answer."""
    if isinstance(error, requests.Timeout):
        return f"no answer within {timeout_s:g} s"
    if isinstance(error, requests.exceptions.SSLError):
        return f"TLS failed: {tls_reason(error)}"
    if is_lost(error):
        return "cannot connect: the connection was closed"
    if isinstance(error, LongAnswerError):
        return str(error)
    if isinstance(error, requests.ConnectionError):
        return "connection refused" if "Connection refused" in str(error) else "cannot connect"
    return f"{type(error).__name__}: {error}"


def is_lost(error: requests.RequestException) -> bool:
    """Return whether a connection ended that was there."""
    return isinstance(error, requests.ConnectionError) and any(isinstance(part, ProtocolError) for part in error.args)


def refusal(response: requests.Response, url: str) -> RefusedError:
    """Return the error of an answer that is none of success."""
    message = f"answered {response.status_code} {response.reason}{_login_hint(response)}"
    return refused(response.status_code, response.content, url, message)


def _login_hint(response: requests.Response) -> str:
    """Return which settings a server's wish for a login is answered by, "" when it has none or was answered."""
    wants = response.headers.get("WWW-Authenticate", "").lower().startswith("negotiate")
    if response.status_code != 401 or not wants or response.request.headers.get("Authorization"):
        return ""
    return KERBEROS_HINT
