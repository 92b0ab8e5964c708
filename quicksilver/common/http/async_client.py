"""POSTs of JSON from the event loop itself, without threads, over one kept connection per server."""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from pydantic import BaseModel
from yarl import URL

from quicksilver.common.http.rest_errors import UnreachableError, refused, tls_reason
from quicksilver.common.http.security import Credentials

MAX_ANSWER: Final = 64 * 1024
"""Bytes of an answer's body that are read; a longer one is none of ours."""
_KEEP_S: Final = 50.0
"""An idle connection is closed before its server does it (`rest_server.serve`: 60 s): no call meets a
closed one.
"""
_MOST_KNOWN: Final = 10_000
_LABEL: Final = "[A-Za-z0-9_-]{1,63}"
_ADDRESS: Final = re.compile(rf"https?://({_LABEL}(\.{_LABEL})*\.?|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?(/.*)?")
_HEADERS: Final = {"Accept": "application/json", "Content-Type": "application/json"}


class Poster:
    """Calls of servers, to each one at a time; used inside one running event loop."""

    def __init__(self, *, timeout_s: float = 5.0, credentials: Credentials | None = None) -> None:
        """`timeout_s` is for a whole call, waiting and dialing included. Redirects are refused."""
        self._timeout_s, self._credentials = timeout_s, credentials
        self._session: aiohttp.ClientSession | None = None
        self._looked_up: set[str] = set()

    async def post(self, url: str, body: BaseModel) -> None:
        """POST `body` as JSON. Raises UnreachableError, RefusedError, or SettingsError for what may not be sent."""
        target = _target(url)
        try:
            async with asyncio.timeout(self._timeout_s):
                headers = await self._headers(url)
                status, answer = await self._call(target, headers, body.model_dump_json().encode())
        except TimeoutError as error:
            raise UnreachableError(f"no answer within {self._timeout_s:g} s", place=url) from error
        except (OSError, aiohttp.ClientError) as error:
            raise UnreachableError(_why(error), place=url) from error
        if status >= 300:
            raise refused(status, answer, url)

    async def close(self) -> None:
        """Close the kept connections; a call after it dials anew."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _call(self, url: URL, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        if self._session is None:
            self._session = self._open()
        async with self._session.post(url, data=body, headers=headers, allow_redirects=False) as answer:
            told = bytearray()
            async for part in answer.content.iter_any():
                told += part
                if len(told) > MAX_ANSWER:
                    raise aiohttp.ClientPayloadError(f"the answer has more than {MAX_ANSWER} bytes")
            return answer.status, bytes(told)

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
            headers=_HEADERS,
            skip_auto_headers=["User-Agent", "Accept-Encoding"],
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    async def _headers(self, url: str) -> dict[str, str]:
        """Return the headers that show who calls. Raises SettingsError."""
        if self._credentials is None:
            return {}
        if url not in self._looked_up:  # the host is looked up in a thread, then it is known
            await asyncio.get_running_loop().run_in_executor(None, self._credentials.headers, url)
            if len(self._looked_up) >= _MOST_KNOWN:
                self._looked_up.clear()
            self._looked_up.add(url)
        return self._credentials.headers(url)


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
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error.__cause__
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused"
    if isinstance(cause, ssl.SSLError):
        return f"TLS failed: {tls_reason(cause)}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed"
    return f"cannot connect: {error}"
