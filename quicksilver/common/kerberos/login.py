"""Logging in at web servers that want Kerberos (SPNEGO: `WWW-Authenticate: Negotiate`, RFC 4559), by a keytab.

The calls are those of `requests`; daemons make them in threads (`quicksilver.common.http.async_client`).
"""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase
from requests.cookies import extract_cookies_to_jar

from quicksilver.common.kerberos.gssapi import Handshake, KerberosError
from quicksilver.common.kerberos.keytab import LOGIN_REMEDY, Keytab, negotiate_token


class LoginFailedError(requests.RequestException):
    """A server wants a Kerberos login, and it failed; the text says why."""


class Negotiate(AuthBase):
    """Answers a server that wants SPNEGO; calls to other servers are unchanged.

    Hadoop's servers then give a cookie, which the session keeps: one handshake serves for hours. The server has to
    prove itself too. Raises LoginFailedError out of the request when that fails.
    """

    def __init__(self, keytab: Keytab, host: str | None = None) -> None:
        """`host`: the server's name in Kerberos, where the URL has another."""
        self._keytab, self._host = keytab, host

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Register a hook that checks the answer."""
        request.register_hook("response", self._answered)  # type: ignore[no-untyped-call]
        return request

    def _answered(self, response: requests.Response, **arguments: Any) -> requests.Response:
        if response.status_code != 401 or response.request.headers.get("Authorization"):
            return response  # with a login of ours it is a refusal, which the caller sees
        host = self._host or urlsplit(response.request.url or "").hostname or ""
        try:
            return response if server_token(response) is None else self._log_in(response, host, arguments)
        except KerberosError as error:
            response.close()
            message = f"no Kerberos login at HTTP@{host} as {self._keytab.principal}: {error} ({LOGIN_REMEDY})"
            raise LoginFailedError(message, request=response.request, response=response) from error

    def _log_in(self, response: requests.Response, host: str, arguments: dict[str, Any]) -> requests.Response:
        keytab = self._keytab
        handshake = Handshake(keytab.principal, keytab.path, keytab.tickets, f"HTTP@{host}")
        try:
            again = self._again(response, handshake.step())
            answer: requests.Response = response.connection.send(again, **arguments)
            answer.history.append(response)
            answer.request = again
            try:
                self._check_server(answer, handshake)
            except BaseException:
                answer.close()
                raise
            return answer
        finally:
            handshake.close()

    def _check_server(self, answer: requests.Response, handshake: Handshake) -> None:
        """Let the server prove who it is, unless it refuses us. Raises KerberosError."""
        if answer.status_code != 401 and not handshake.complete:
            handshake.step(server_token(answer) or b"")
            if not handshake.complete:
                raise KerberosError("the server did not prove who it is", place="Kerberos")

    def _again(self, response: requests.Response, token: bytes) -> requests.PreparedRequest:
        """Return the refused request once more, with a token; the refusal's body is not read, however long it is."""
        response.close()
        again = response.request.copy()
        jar = again._cookies  # type: ignore[attr-defined]
        extract_cookies_to_jar(jar, response.request, response.raw)  # type: ignore[no-untyped-call]
        again.prepare_cookies(jar)
        again.headers["Authorization"] = f"Negotiate {base64.b64encode(token).decode()}"
        return again


def server_token(response: requests.Response) -> bytes | None:
    """Return the token of a response; see `negotiate_token`."""
    return negotiate_token(response.headers.get("WWW-Authenticate", ""))
