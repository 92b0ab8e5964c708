"""Browsers at a REST server: a token in a cookie, and protection against calls that other sites make with it.

A browser logs in with a token of the token file. The cookie is HttpOnly and SameSite=Strict. A call that changes
something and is authenticated by the cookie needs a header with a digest of the token, which only our own pages know.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import Request, Response
from starlette.requests import cookie_parser

from quicksilver.common.http.tokens import AccessTokens, Role

COOKIE: Final = "quicksilver_token"
CSRF_HEADER: Final = "x-quicksilver-csrf"
SAFE: Final = ("GET", "HEAD", "OPTIONS")
_PREFIX: Final = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_LONGEST: Final = 1000


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who looks at a page."""

    role: str
    """admin, user or read; `open` where there is no security."""
    csrf: str = ""
    """Value of the header that calls of the page have to send."""
    user: str = ""
    """The user whom the token names; "" where it names none."""


def csrf_of(token: str) -> str:
    """Return the value of the CSRF header of callers with this token."""
    return hmac.new(token.encode("utf-8", "surrogateescape"), b"quicksilver csrf", hashlib.sha256).hexdigest()


def token_of(headers: Mapping[str, str]) -> str | None:
    """Return the token in a call's cookie; None without one."""
    token = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
    return token if 0 < len(token) <= _LONGEST else None


def own_origin(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a call does not come from another site's page; calls of programs have no origin.

    Browsers send Sec-Fetch-Site on HTTPS and loopback, and Origin elsewhere.
    """
    if method in SAFE:
        return True
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    if origin is None:
        return True
    return urlsplit(origin).netloc in (headers.get("host"), headers.get("x-forwarded-host"))


def base_path(headers: Mapping[str, str], setting: str = "") -> str:
    """Return the prefix under which browsers see this server: the setting, else what a web proxy in front names.

    A prefix that is no plain path counts as none.
    """
    named = setting or headers.get("x-forwarded-prefix") or headers.get("x-forwarded-context") or ""
    path = named.rstrip("/")
    return path if _PREFIX.fullmatch(path) else ""


class BrowserLogin:
    """Tokens of browsers; `tokens` returns the ones in force, None where there is no security.

    roles: those that may log in, the one that counts first.
    refused: gets the peer, a reason and a sentence for each login that fails; set by who counts them.
    """

    def __init__(
        self,
        tokens: Callable[[], AccessTokens | None],
        base: str = "",
        roles: tuple[Role, ...] = (Role.ADMIN, Role.READ),
    ) -> None:
        self._tokens, self._base, self._roles = tokens, base, roles
        self.refused: Callable[[str, str, str], None] = lambda peer, reason, why: None

    def visitor(self, request: Request) -> Visitor:
        """Return who looks at a page; a caller with a bearer token counts as a reader of pages."""
        tokens = self._tokens()
        if tokens is None:
            return Visitor("open")
        token = token_of(request.headers)
        roles = tokens.roles(token) if token else frozenset()
        csrf = csrf_of(token) if token and roles else ""
        role = next((role for role in self._roles if role in roles), Role.READ)
        return Visitor(role.value, csrf, tokens.user(token) if token else "")

    def role_of(self, token: str) -> Role | None:
        """Return the role that a token gives to a browser; None if it gives none, as to nodes."""
        tokens = self._tokens()
        roles = tokens.roles(token[:_LONGEST]) if tokens is not None else frozenset()
        return next((role for role in self._roles if role in roles), None)

    def remember(self, request: Request, response: Response, token: str) -> None:
        """Put the token into a cookie that ends with the browser."""
        response.set_cookie(COOKIE, token, **self._where(request))

    def forget(self, request: Request, response: Response) -> None:
        """Remove the cookie."""
        response.delete_cookie(COOKIE, **self._where(request))

    def _where(self, request: Request) -> dict[str, Any]:
        path = f"{base_path(request.headers, self._base)}/"
        secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
        return {"path": path, "httponly": True, "samesite": "strict", "secure": secure}
