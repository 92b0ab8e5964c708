"""REST from a daemon: calls by `requests` over kept connections, in a few threads beside the event loop.

Who needs an answer within the same millisecond keeps a connection of its own (`quicksilver.common.reports`).
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Final
from urllib.parse import urlencode, urlsplit
from weakref import WeakValueDictionary

import requests
from pydantic import BaseModel
from requests.auth import AuthBase

from quicksilver.common.http.cut_off import POOL_CLASSES, RestCall
from quicksilver.common.http.rest_client import is_lost, refusal, rest_session, why_unreachable
from quicksilver.common.http.rest_errors import RefusedError, UnreachableError
from quicksilver.common.http.security import Credentials

MAX_ANSWER: Final = 64 * 1024
"""Bytes of an answer's body that are read where the caller sets no other limit; no daemon of ours sends more."""
GET_TOTAL_S: Final = 120.0
"""How long a whole GET may take where the caller sets no other limit: a server may send a byte every few seconds."""
THREADS: Final = 4
"""Calls of one client at the same time where its owner sets no other number."""
_LABEL: Final = "[A-Za-z0-9_-]{1,63}"
_ADDRESS: Final = re.compile(rf"https?://({_LABEL}(\.{_LABEL})*\.?|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?(/.*)?")
_JSON: Final = {"Content-Type": "application/json"}


class AsyncRestClient:
    """Calls of servers, to each one at a time; used inside one running event loop."""

    def __init__(
        self,
        *,
        timeout_s: float = 5.0,
        remedy: str = "",
        credentials: Credentials | None = None,
        login: AuthBase | None = None,
        max_answer: int = MAX_ANSWER,
        get_total_s: float = GET_TOTAL_S,
        redirects: bool = False,
        threads: int = THREADS,
    ) -> None:
        """`remedy` is part of the error when a server cannot be reached; `login` answers servers that want SPNEGO.

        `timeout_s` bounds a whole POST with waiting and dialing, and of a GET each wait for its next bytes. A redirect
        is refused: a server could send its caller to any other. redirects: whether a GET without credentials follows
        one, for servers of the cluster itself. threads: calls at once.
        """
        self.timeout_s, self._get_total_s = timeout_s, get_total_s
        self._remedy, self._credentials, self._login, self._threads = remedy, credentials, login, threads
        self._max_answer, self._redirects = max_answer, redirects
        self._parts: tuple[requests.Session, ThreadPoolExecutor] | None = None
        self._calls: set[RestCall] = set()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By server: who calls it at present."""

    async def get(self, url: str, params: Mapping[str, str] | None = None) -> Any:
        """GET, return the JSON body. Raises UnreachableError or RefusedError."""
        return json_of(*await self.get_bytes(url, params), url)

    async def get_bytes(self, url: str, params: Mapping[str, str] | None = None) -> tuple[bytes, str]:
        """GET, return the body and its type. Raises UnreachableError or RefusedError."""
        query = urlencode(params or {}, safe=",")
        return await self._call("GET", url, self._get_total_s, params=query, allow_redirects=self._redirects)

    async def post(self, url: str, body: BaseModel) -> Any:
        """POST `body` as JSON, return the JSON body, None when it is empty.

        Raises UnreachableError, RefusedError, or SettingsError for what may not be sent.
        """
        return json_of(*await self.send_bytes("POST", url, body), url)

    async def send_bytes(
        self, method: str, url: str, body: BaseModel, more: Mapping[str, str] | None = None
    ) -> tuple[bytes, str]:
        """Send `body` as JSON, with `more` headers; return the answer's body and type. Raises as `post`."""
        headers = _JSON | dict(more or {})
        data = body.model_dump_json().encode()
        return await self._call(method, url, self.timeout_s, data=data, headers=headers, allow_redirects=False)

    async def close(self) -> None:
        """Cut calls off that are open, and close the kept connections; a call after it dials anew."""
        parts, self._parts = self._parts, None
        if parts is not None:
            session, threads = parts
            for call in self._calls:
                call.cut_off()
            session.close()
            threads.shutdown(wait=False)

    async def _call(self, method: str, url: str, limit_s: float, **arguments: Any) -> tuple[bytes, str]:
        server = _server_of(url)
        try:
            async with asyncio.timeout(limit_s), self._turns.setdefault(server, asyncio.Lock()):
                response = await self._in_thread(method, url, arguments)
        except TimeoutError as error:
            why = f"no answer within {self.timeout_s:g} s"
            raise UnreachableError(why, place=url, remedy=self._remedy) from error
        except requests.RequestException as error:
            why = why_unreachable(error, self.timeout_s)
            raise UnreachableError(why, place=url, remedy=self._remedy) from error
        if response.status_code >= 300:
            raise refusal(response, url)
        return response.content, response.headers.get("Content-Type", "something")

    async def _in_thread(self, method: str, url: str, arguments: dict[str, Any]) -> requests.Response:
        if self._parts is None:
            self._parts = self._session(), ThreadPoolExecutor(self._threads, "rest")
        session, threads = self._parts
        call = RestCall()
        self._calls.add(call)
        try:
            return await asyncio.get_running_loop().run_in_executor(
                threads, self._answer, session, call, method, url, arguments
            )
        except BaseException:
            call.cut_off()
            raise
        finally:
            self._calls.discard(call)

    def _session(self) -> requests.Session:
        session = rest_session(
            self._threads,
            self._credentials,
            redirects=self._redirects,
            answer_bytes=self._max_answer,
            read_s=self._get_total_s,
            context=_system_context,
            pool_classes=POOL_CLASSES,
        )
        session.headers["Accept-Encoding"] = "identity"
        session.auth = self._login
        if self._login is None:
            session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        return session

    def _answer(
        self, session: requests.Session, call: RestCall, method: str, url: str, arguments: dict[str, Any]
    ) -> requests.Response:
        """Return the answer, whatever it says; called in a thread. Raises RequestException, SettingsError."""
        proof = self._credentials.headers(url) if self._credentials else {}
        arguments["headers"] = proof | arguments.get("headers", {})
        with call:
            if call.is_over:
                raise requests.ConnectionError("the client was closed before the call began")
            try:
                return session.request(method, url, timeout=self.timeout_s, **arguments)
            except requests.ConnectionError as error:  # perhaps of a kept connection whose server had enough of it
                if method != "GET" or call.is_over or not is_lost(error):
                    raise
            return session.request(method, url, timeout=self.timeout_s, **arguments)


@lru_cache(1)
def _system_context() -> ssl.SSLContext:
    """Return TLS with what this host trusts, for servers that are not ours."""
    return ssl.create_default_context()


def json_of(body: bytes, kind: str, url: str) -> Any:
    """Return what a body says, None when it is empty. Raises RefusedError when it is no JSON."""
    if not body:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError(f"answered {kind} instead of JSON", place=url, status=200, code="not-json") from None


def _server_of(url: str) -> str:
    """Return the server of a URL that is one and nothing else. Raises UnreachableError."""
    if _ADDRESS.fullmatch(url):
        try:
            parts = urlsplit(url)  # looks at what is in brackets, too
            if parts.port != 0:
                return f"{parts.scheme}://{parts.netloc}"
        except ValueError:
            pass  # said below
    raise UnreachableError("is no http:// or https:// address", place=url)
