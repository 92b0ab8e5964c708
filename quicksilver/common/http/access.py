"""Access to REST routes: the check before every call, and the log of refused calls."""

from __future__ import annotations

import hmac
import ipaddress
import math
import re
import socket
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from quicksilver.common.http.audit_trail import CALLER, LOG_LEVEL, AuditTrail, changes_something, sets_level
from quicksilver.common.http.browser_login import CSRF_HEADER, SAFE, csrf_of, token_of
from quicksilver.common.http.connection import CERTIFICATE_ENDS, NAMES, UPGRADE
from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.http.rest_server import envelope
from quicksilver.common.http.security import Security
from quicksilver.common.http.tokens import AccessTokens, Role
from quicksilver.common.process.limits import SeldomByPeer
from quicksilver.common.process.logs import get_logger

log = get_logger(__name__)
_REPORT: Final = re.compile(r"/v1/nodes/(?P<node>[^/]+)/reports?")
"""Calls of sidecars: a report, and the request for a connection for reports."""
_KEYS: Final = re.compile(r"/v1/nodes/[^/]+/keys")
"""Calls of tracker relays; a certificate does not suffice for them."""
ALLOWED: Final = "quicksilver.allowed"
"""Key of an ASGI scope: returns whether its caller still may, by the tokens in force; missing without security."""
_BEARER: Final = "bearer "
MAX_TOKEN: Final = 1000
_OPEN: Final = ("/metrics", "/healthz", "/readyz")
"""Paths that `security.metrics_open` opens."""
_LOOPBACK_NAMES: Final = ("localhost", "localhost.localdomain", "ip6-localhost")

Names = frozenset[str]
"""Of the peer's certificate; empty without one."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call is refused, and how it is answered."""

    status: int
    code: str
    message: str
    reason: str
    """For the metric: none, token, role, node, host."""


@dataclass(frozen=True, slots=True)
class Side:
    """A server's rules for its callers; the proxy and the sidecars differ in them."""

    proxy: bool
    """Whether it is the proxy."""
    certificates: bool
    """Whether peers are known by certificates; then no token makes a node or a proxy."""
    proxy_names: Names = frozenset()
    """At a sidecar: what the certificate of a proxy names."""
    metrics_open: bool = False

    def may(self, method: str, path: str, query: bytes = b"") -> frozenset[Role]:
        """Return the roles that may do this; unknown paths too, so that strangers do not learn which there are."""
        if path == LOG_LEVEL and sets_level(query):
            return frozenset([Role.ADMIN])
        if self.proxy and _REPORT.fullmatch(path):
            return frozenset([Role.NODE])
        if self.proxy and _KEYS.fullmatch(path):
            return frozenset([Role.KEYS])
        if method in ("GET", "HEAD"):
            return frozenset([Role.READ, Role.ADMIN] if self.proxy else [Role.READ, Role.ADMIN, Role.PROXY])
        if self.proxy:
            return frozenset([Role.ADMIN])
        return frozenset([Role.PROXY] if path == "/v1/grants" else [Role.ADMIN, Role.PROXY])

    def roles(self, names: Names, token: str | None, tokens: AccessTokens) -> frozenset[Role]:
        """Return a caller's roles according to its certificate and token."""
        roles = tokens.roles(token) if token is not None else frozenset()
        if not self.certificates:
            return roles
        roles -= {Role.NODE, Role.PROXY}
        if self.proxy:
            return roles | {Role.NODE} if names else roles
        return roles | {Role.PROXY} if names & self.proxy_names else roles

    def caller(self, names: Names, authorization: str | None, tokens: AccessTokens) -> str:
        """Return how a caller proved who it is, for the audit log; "" when it did not."""
        token = _bearer(authorization)
        roles = tokens.roles(token) if token is not None else frozenset()
        shown = [f"token:{'+'.join(sorted(role.value for role in roles))}"] if roles else []
        return ",".join([*shown, *([f"certificate:{'+'.join(sorted(names))}"] if names else [])])

    def judge(
        self, method: str, path: str, names: Names, authorization: str | None, tokens: AccessTokens, query: bytes = b""
    ) -> Refusal | None:
        """Return why a call is refused, None when it may go on."""
        if self.metrics_open and path in _OPEN and method in ("GET", "HEAD"):
            return None
        token = _bearer(authorization)
        need, roles = self.may(method, path, query), self.roles(names, token, tokens)
        if not roles & need:
            return _refusal(need, known=bool(roles or names), tried=authorization is not None)
        report = _REPORT.fullmatch(path)
        if self.certificates and need == {Role.NODE} and report and host_of(report["node"]) not in names:
            message = f"the certificate names {', '.join(sorted(names))}, not the host of {report['node']}"
            return Refusal(403, "other-node", message, "node")
        return None


@dataclass(frozen=True, slots=True)
class Browsers:
    """A server's pages for browsers, which bring their token in a cookie."""

    pages: str
    """Prefix of the pages' paths; a stranger who asks for one is sent to log in."""
    open: tuple[str, ...]
    """Prefixes of paths that need no token: the form, and the files that it loads."""
    login: Callable[[Scope], str]
    """Returns the relative address of the form, for a call of a page."""

    def is_open(self, path: str) -> bool:
        """Return whether everybody may go there."""
        return path.startswith(self.open)

    def wants_page(self, method: str, path: str, headers: Headers) -> bool:
        """Return whether a person looks at a page."""
        return method == "GET" and path.startswith(self.pages) and "text/html" in headers.get("accept", "")


class Access:
    """ASGI middleware: calls that may not be are answered with 401 or 403 and their bodies are not read."""

    def __init__(
        self, app: ASGIApp, *, security: Security, side: Side, failures: Failures, browsers: Browsers | None = None
    ) -> None:
        self._app, self._security, self._side, self._failures = app, security, side, failures
        self._browsers = browsers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Judge the call, then pass it on or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)  # there is no other kind: the server has websockets off
            return
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        browsers = self._browsers
        authorization, token = self._proof(scope, headers)
        if browsers is not None and browsers.is_open(path):
            await self._app(scope, receive, send)
            return
        refusal = self._judge(scope, headers, authorization, token)
        if refusal is None:
            if UPGRADE in scope:
                scope[ALLOWED] = partial(self._still_allowed, scope, headers, authorization, token)
            await self._app(scope, receive, send)
            return
        if browsers is not None and refusal.status == 401 and browsers.wants_page(method, path, headers):
            await RedirectResponse(browsers.login(scope), 303)(scope, receive, send)
            return
        peer = (scope.get("client") or ("unknown",))[0]
        self._failures.refused(str(peer), refusal.reason, refusal.message)
        response = envelope(refusal.status, refusal.code, refusal.message)
        if refusal.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        await response(scope, receive, send)

    def _still_allowed(self, scope: Scope, headers: Headers, authorization: str | None, token: str | None) -> bool:
        """Return whether a caller may still do what it began."""
        ends_s = scope.get(CERTIFICATE_ENDS, math.inf)
        return time.time() < ends_s and self._judge(scope, headers, authorization, token) is None

    def _proof(self, scope: Scope, headers: Headers) -> tuple[str | None, str | None]:
        """Return what a caller shows, and the token of its cookie, which counts without an Authorization header.

        The caller is named in the scope, for the audit log.
        """
        authorization = headers.get("authorization")
        token = token_of(headers) if self._browsers is not None and authorization is None else None
        if token is not None:
            authorization = f"Bearer {token}"
        names: Names = scope.setdefault(NAMES, frozenset())
        scope[CALLER] = self._side.caller(names, authorization, self._security.tokens)
        return authorization, token

    def _judge(self, scope: Scope, headers: Headers, authorization: str | None, token: str | None) -> Refusal | None:
        """Return why a call is refused."""
        method, path, query = scope["method"], scope["path"], scope.get("query_string", b"")
        refusal = self._side.judge(method, path, scope[NAMES], authorization, self._security.tokens, query)
        changes = token is not None and (changes_something(method, path, query) or method not in SAFE)
        if refusal is None and token is not None and changes:
            sent = headers.get(CSRF_HEADER, "")
            if not hmac.compare_digest(sent.encode("latin-1"), csrf_of(token).encode()):
                message = "the page is older than this login; load it again"
                return Refusal(403, "csrf", message, "role")
        return refusal


class OwnHost:
    """ASGI middleware where there is no security: a call by a name that is not this server's is answered with 403.

    A page of another site that has its own name lead here (DNS rebinding) is of this origin for the browser; only the
    name in Host shows it. Addresses pass: no name leads to them but this server's own.
    """

    def __init__(self, app: ASGIApp, *, names: Names, failures: Failures) -> None:
        self._app, self._names, self._failures = app, names, failures
        self._judged: str | None = None
        """A Host header that was judged as own: sidecars send the same one with each report."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Judge the call, then pass it on or answer it."""
        host = Headers(scope=scope).get("host") if scope["type"] == "http" else None
        if host is None or host == self._judged or is_own_host(host, self._names):  # browsers always send it
            self._judged = host
            await self._app(scope, receive, send)
            return
        known = ", ".join(sorted(self._names))
        why = f"this server is not {host[:100]}; call it {known}, or add the name to security.host_names"
        self._failures.refused(str((scope.get("client") or ("unknown",))[0]), "host", why)
        await envelope(403, "unknown-host", why)(scope, receive, send)


class Failures:
    """Counts refused callers, and logs the first of each peer in a minute."""

    def __init__(self, count: Callable[[str], None], clock_s: Callable[[], float] = time.monotonic) -> None:
        """`count` gets the reason of each."""
        self._count, self._seldom = count, SeldomByPeer(clock_s)

    def refused(self, peer: str, reason: str, why: str) -> None:
        """Count and log one refusal."""
        self._count(reason)
        more = self._seldom.left_out(peer)
        if more is not None:
            log.warning("a REST call was refused", peer=peer, reason=reason, why=why, others_since=more)

    def bad_handshake(self, why: str) -> None:
        """Count and log a failed TLS handshake; the caller is not known."""
        self.refused("unknown", "tls", why)


def protect(
    app: FastAPI,
    security: Security,
    side: Side,
    count: Callable[[str], None],
    browsers: Browsers | None = None,
    hosts: Collection[str] = (),
) -> Failures:
    """Make `app` refuse callers without access, or foreign names where there is no security; write the audit log.

    Add it after all other middleware. hosts: names of this server beside the machine's own and those of the settings.
    Returns what counts refused callers.
    """
    failures = Failures(count)
    if security.on:
        security.on_bad_handshake(failures.bad_handshake)
        app.add_middleware(Access, security=security, side=side, failures=failures, browsers=browsers)
    else:
        names = own_names([*hosts, *security.settings.host_names])
        app.add_middleware(OwnHost, names=names, failures=failures)
    app.add_middleware(AuditTrail, secured=security.on)
    return failures


def own_names(more: Collection[str]) -> Names:
    """Return the names of this machine, of loopback, and `more`, in lower case."""
    names = {*_LOOPBACK_NAMES, socket.gethostname(), socket.getfqdn(), *more}
    return frozenset(name.lower().rstrip(".") for name in names if name and not _is_address(name))


def is_own_host(host: str, names: Names) -> bool:
    """Return whether a Host header has an address, or one of these names."""
    name = host_of(host) if re.fullmatch(r".*:\d*", host) else host_of(f"{host}:")
    return name.rstrip(".") in names or _is_address(name)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def check_url(url: str, node_id: str, names: Collection[str]) -> None:
    """Check that a sidecar names its own REST, so that what the proxy sends there does not go elsewhere.

    Raises ApiError.
    """
    host = (urlsplit(url).hostname or "").lower()
    if host != host_of(node_id) and host not in names:
        raise ApiError(403, "other-host", f"sidecar_url {url} is not of the host of {node_id}")


def host_of(node_id: str) -> str:
    """Return the host of `host:port`, in lower case."""
    return node_id.rpartition(":")[0].removeprefix("[").removesuffix("]").lower()


def _bearer(authorization: str | None) -> str | None:
    """Return the token of an Authorization header; "" where it has none, which is no token's."""
    if authorization is None:
        return None
    is_token = authorization[: len(_BEARER)].lower() == _BEARER
    return authorization[len(_BEARER) :].strip()[:MAX_TOKEN] if is_token else ""


def _refusal(roles: Collection[Role], *, known: bool, tried: bool) -> Refusal:
    need = " or ".join(role.value for role in Role if role in roles)
    if known:
        return Refusal(403, "forbidden", f"this needs the role {need}", "role")
    if tried:
        return Refusal(401, "unauthenticated", "the token is unknown, or not for this server", "token")
    return Refusal(401, "unauthenticated", f"send a bearer token of the role {need}, or a certificate", "none")
