"""REST from a daemon: calls in the event loop itself, without threads, over kept connections.

Two things run in threads: looking up the host of a new server, and the Kerberos handshake (GSSAPI blocks).
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from pydantic import BaseModel
from yarl import URL

from quicksilver.common.http.rest_errors import (
    KERBEROS_HINT,
    RefusedError,
    UnreachableError,
    refused,
    tls_reason,
)
from quicksilver.common.http.security import Credentials
from quicksilver.common.kerberos.async_login import AsyncLogin
from quicksilver.common.kerberos.gssapi import KerberosError

MAX_ANSWER: Final = 64 * 1024
"""Bytes of an answer's body that are read where the caller sets no other limit; no daemon of ours sends more."""
GET_TOTAL_S: Final = 120.0
"""How long a whole GET may take where the caller sets no other limit: a server may send a byte every few seconds."""
_KEEP_S: Final = 50.0
"""An idle connection is closed before its server does it (`rest_server.serve`: 60 s): no call meets a closed one."""
MAX_KNOWN: Final = 10_000
_LABEL: Final = "[A-Za-z0-9_-]{1,63}"
_ADDRESS: Final = re.compile(rf"https?://({_LABEL}(\.{_LABEL})*\.?|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?(/.*)?")
_JSON: Final = {"Content-Type": "application/json"}
_Answer = tuple[aiohttp.ClientResponse, bytes]


class AsyncRestClient:
    """Calls of servers, to each one at a time; used inside one running event loop."""

    def __init__(
        self,
        *,
        timeout_s: float = 5.0,
        remedy: str = "",
        credentials: Credentials | None = None,
        login: AsyncLogin | None = None,
        max_answer: int = MAX_ANSWER,
        get_total_s: float = GET_TOTAL_S,
        redirects: bool = False,
    ) -> None:
        """`remedy` is part of the error when a server cannot be reached; `login` answers servers that want SPNEGO.

        `timeout_s` bounds a whole POST with waiting and dialing, and of a GET each wait for its next bytes. A redirect
        is refused: a server could send its caller to any other. redirects: whether a GET without credentials follows
        one, for servers of the cluster itself.
        """
        self.timeout_s, self._get_total_s = timeout_s, get_total_s
        self._redirects = redirects and credentials is None
        self._remedy, self._credentials, self._login, self._max_answer = remedy, credentials, login, max_answer
        self._session: aiohttp.ClientSession | None = None
        self._looked_up: set[str] = set()

    async def get(self, url: str, params: Mapping[str, str] | None = None) -> Any:
        """GET, return the JSON body. Raises UnreachableError or RefusedError."""
        return json_of(*await self.get_bytes(url, params), url)

    async def get_bytes(self, url: str, params: Mapping[str, str] | None = None) -> tuple[bytes, str]:
        """GET, return the body and its type. Raises UnreachableError or RefusedError."""
        target = _target(url).update_query(params or {})
        waits = aiohttp.ClientTimeout(total=None, sock_connect=self.timeout_s, sock_read=self.timeout_s)
        try:
            async with asyncio.timeout(self._get_total_s):
                headers = await self._headers(url)
                response, body = await self._send("GET", target, headers, timeout=waits)
                if self._login is not None and response.status == 401:
                    response, body = await self._logged_in(self._login, response, body, headers, waits)
        except (TimeoutError, OSError, aiohttp.ClientError, KerberosError) as error:
            raise self._unreachable(error, url) from error
        return self._checked(response, body, url)

    async def post(self, url: str, body: BaseModel) -> Any:
        """POST `body` as JSON, return the JSON body, None when it is empty.

        Raises UnreachableError, RefusedError, or SettingsError for what may not be sent.
        """
        return json_of(*await self.send_bytes("POST", url, body), url)

    async def send_bytes(
        self, method: str, url: str, body: BaseModel, more: Mapping[str, str] | None = None
    ) -> tuple[bytes, str]:
        """Send `body` as JSON, with `more` headers; return the answer's body and type. Raises as `post`."""
        target = _target(url)
        try:
            async with asyncio.timeout(self.timeout_s):
                headers = await self._headers(url) | _JSON | dict(more or {})
                response, answer = await self._send(method, target, headers, data=body.model_dump_json().encode())
        except (TimeoutError, OSError, aiohttp.ClientError) as error:
            raise self._unreachable(error, url) from error
        return self._checked(response, answer, url)

    async def close(self) -> None:
        """Close the kept connections; without a login, a call after it dials anew."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        if self._login is not None:
            self._login.close()

    async def _send(self, method: str, url: URL, headers: Mapping[str, str], **arguments: Any) -> _Answer:
        if self._session is None:
            self._session = self._open()
        follow = method == "GET" and self._redirects
        async with self._session.request(method, url, headers=headers, allow_redirects=follow, **arguments) as answer:
            body = bytearray()
            async for part in answer.content.iter_any():
                body += part
                if len(body) > self._max_answer:
                    raise aiohttp.ClientPayloadError(f"the answer has more than {self._max_answer} bytes")
            return answer, bytes(body)

    async def _logged_in(
        self,
        login: AsyncLogin,
        response: aiohttp.ClientResponse,
        body: bytes,
        headers: Mapping[str, str],
        waits: aiohttp.ClientTimeout,
    ) -> _Answer:
        """Repeat a refused GET with a Kerberos login, where the server wants one; the server has to prove itself."""
        handshake = await login.begin(response.headers.get("WWW-Authenticate", ""), response.url.host or "")
        if handshake is None:
            return response, body
        try:
            again = await self._send("GET", response.url, {**headers, **handshake.headers}, timeout=waits)
            if again[0].status != 401:
                await handshake.finish(again[0].headers.get("WWW-Authenticate", ""))
            return again
        finally:
            handshake.close()

    def _open(self) -> aiohttp.ClientSession:
        context = self._credentials.context if self._credentials else None
        connector = aiohttp.TCPConnector(
            limit=0,
            limit_per_host=1,
            keepalive_timeout=_KEEP_S,
            use_dns_cache=False,  # a host is looked up with each new connection
            ssl=True if context is None else context,
        )
        return aiohttp.ClientSession(
            connector=connector,
            headers={"Accept": "application/json"},
            skip_auto_headers=["User-Agent", "Accept-Encoding"],
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            cookie_jar=aiohttp.DummyCookieJar() if self._login is None else aiohttp.CookieJar(unsafe=True),
            auto_decompress=False,
        )

    async def _headers(self, url: str) -> dict[str, str]:
        """Return the headers that show who calls. Raises SettingsError."""
        if self._credentials is None:
            return {}
        if url not in self._looked_up:  # the host is looked up in a thread, then it is known
            await asyncio.get_running_loop().run_in_executor(None, self._credentials.headers, url)
            if len(self._looked_up) >= MAX_KNOWN:
                self._looked_up.clear()
            self._looked_up.add(url)
        return self._credentials.headers(url)

    def _unreachable(self, error: Exception, url: str) -> UnreachableError:
        message = f"no answer within {self.timeout_s:g} s" if isinstance(error, TimeoutError) else _why(error)
        return UnreachableError(message, place=url, remedy=self._remedy)

    def _checked(self, response: aiohttp.ClientResponse, body: bytes, url: str) -> tuple[bytes, str]:
        if response.status < 300:
            return body, response.headers.get("Content-Type", "something")
        wants = response.headers.get("WWW-Authenticate", "").lower().startswith("negotiate")
        hint = KERBEROS_HINT if response.status == 401 and wants and self._login is None else ""
        raise refused(response.status, body, url, f"answered {response.status} {response.reason}{hint}")


def json_of(body: bytes, kind: str, url: str) -> Any:
    """Return what a body says, None when it is empty. Raises RefusedError when it is no JSON."""
    if not body:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError(f"answered {kind} instead of JSON", place=url, status=200, code="not-json") from None


def _target(url: str) -> URL:
    """Return the URL where it is one of a server and nothing else. Raises UnreachableError."""
    if _ADDRESS.fullmatch(url):
        try:
            urlsplit(url)  # looks at what is in brackets
            target = URL(url)
        except ValueError:
            target = None
        if target is not None and target.port:
            return target
    raise UnreachableError("is no http:// or https:// address", place=url)


def _why(error: Exception) -> str:
    if isinstance(error, KerberosError):
        return str(error)
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error.__cause__
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused"
    if isinstance(cause, ssl.SSLError):
        return f"TLS failed: {tls_reason(cause)}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed"
    return f"cannot connect: {error}"
