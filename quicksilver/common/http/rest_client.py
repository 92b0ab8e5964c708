"""REST from a command: calls of one server over kept connections, with clear errors."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any

import requests
from pydantic import BaseModel
from requests.auth import AuthBase

from quicksilver.common.http.rest_errors import KERBEROS_HINT, RefusedError, UnreachableError, refused, tls_reason
from quicksilver.common.http.security import Credentials


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
        except (requests.JSONDecodeError, RecursionError):
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


def _refused(response: requests.Response, url: str) -> RefusedError:
    what = f"answered {response.status_code} {response.reason}{_wanted(response)}"
    return refused(response.status_code, response.content, url, what)


def _wanted(response: requests.Response) -> str:
    """Return which settings a server's wish for a login is answered by, "" when it has none or was answered."""
    wants = response.headers.get("WWW-Authenticate", "").lower().startswith("negotiate")
    if response.status_code != 401 or not wants or response.request.headers.get("Authorization"):
        return ""
    return KERBEROS_HINT
