"""Logging in at web servers that want Kerberos (SPNEGO: `WWW-Authenticate: Negotiate`, RFC 4559), by a keytab."""

from __future__ import annotations

import base64
import binascii
import os
import re
import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase
from requests.cookies import extract_cookies_to_jar

from quicksilver.common.errors import SettingsError
from quicksilver.common.kerberos.gssapi import Handshake, KerberosError, check_installed

_NEGOTIATE: Final = re.compile(r"(?:^|,)\s*negotiate(?:\s+([A-Za-z0-9+/=]+))?\s*(?:,|$)", re.IGNORECASE)
LOGIN_REMEDY: Final = (
    "is the principal in the keytab (`klist -k`), and does `kinit -k -t KEYTAB PRINCIPAL` work as this user?"
)


class LoginFailedError(requests.RequestException):
    """A server wants a Kerberos login, and it failed; the text says why."""


@dataclass(frozen=True, slots=True)
class Keytab:
    """A principal and its keytab. Tickets stay in this process's memory and are renewed by themselves."""

    principal: str
    path: Path
    tickets: str = field(default_factory=lambda: f"MEMORY:quicksilver-{secrets.token_hex(8)}", repr=False)

    @classmethod
    def of(cls, principal: str | None, keytab: Path | None, section: str) -> Self | None:
        """Return the login that a section's settings `kerberos_principal` and `kerberos_keytab` name; None without.

        `_HOST` in the principal stands for this host's full name, as in Hadoop. Raises SettingsError naming the setting
        when one of them is missing or the file cannot be read, KerberosError when this machine has no Kerberos.
        """
        if principal is None and keytab is None:
            return None
        if principal is None or keytab is None:
            missing = "kerberos_principal" if principal is None else "kerberos_keytab"
            raise SettingsError(
                "not set", place=f"{section}.{missing}", remedy="a Kerberos login needs both principal and keytab"
            )
        if not os.access(keytab, os.R_OK):
            why = "cannot be read by this user" if keytab.exists() else "is not there"
            remedy = "make it with kadmin's ktadd, readable by this user alone (mode 0400)"
            raise SettingsError(f"{keytab} {why}", place=f"{section}.kerberos_keytab", remedy=remedy)
        check_installed()
        return cls(principal.replace("_HOST", socket.getfqdn().lower()), keytab)

    def auth(self, host: str | None = None) -> Negotiate:
        """Return it for a requests session; `host`: the server's name in Kerberos, where the URL has another."""
        return Negotiate(self, host)


class Negotiate(AuthBase):
    """Answers a server that wants SPNEGO; calls to other servers are unchanged.

    Hadoop's servers then give a cookie, which the session keeps: one handshake serves for hours. The server has to
    prove itself too. Raises LoginFailedError out of the request when that fails.
    """

    def __init__(self, keytab: Keytab, host: str | None = None) -> None:
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
            what = f"no Kerberos login at HTTP@{host} as {self._keytab.principal}: {error} ({LOGIN_REMEDY})"
            raise LoginFailedError(what, request=response.request, response=response) from error

    def _log_in(self, response: requests.Response, host: str, arguments: dict[str, Any]) -> requests.Response:
        keytab = self._keytab
        handshake = Handshake(keytab.principal, keytab.path, keytab.tickets, f"HTTP@{host}")
        try:
            again = self._again(response, handshake.step())
            answer: requests.Response = response.connection.send(again, **arguments)
            answer.history.append(response)
            answer.request = again
            if answer.status_code != 401 and not handshake.complete:
                handshake.step(server_token(answer) or b"")
                if not handshake.complete:
                    raise KerberosError("the server did not prove who it is", place="Kerberos")
            return answer
        finally:
            handshake.close()

    def _again(self, response: requests.Response, token: bytes) -> requests.PreparedRequest:
        """Return the refused request once more, with a token; the connection is free for it."""
        _ = response.content
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


def negotiate_token(challenge: str) -> bytes | None:
    """Return the token that a server sends by `WWW-Authenticate: Negotiate`, b"" when it wants ours, None without.

    Raises KerberosError when it is not base64.
    """
    match = _NEGOTIATE.search(challenge)
    if match is None:
        return None
    try:
        return base64.b64decode(match.group(1) or "", validate=True)
    except (binascii.Error, ValueError) as error:
        raise KerberosError("the server's token is not base64", place="Kerberos") from error
