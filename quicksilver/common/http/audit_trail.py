"""Calls of REST that change something, in the audit log: who, from where, what, with which result."""

from __future__ import annotations

import json
import re
from typing import Final
from urllib.parse import parse_qs, unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quicksilver.common.http.security import is_loopback
from quicksilver.common.process.audit_log import write_audit
from quicksilver.common.process.limits import SeldomByPeer

CALLER: Final = "quicksilver.caller"
"""Key of an ASGI scope: the caller as it proved to be, such as `token:admin` or `certificate:rm1`."""
LOG_LEVEL: Final = "/logLevel"
_LOGIN: Final = "/ui/login"
_READS: Final = ("GET", "HEAD", "OPTIONS")
_OPERATIONS: Final = (
    (re.compile(r"/v1/nodes/(?P<target>[^/]+)/drain"), "drain"),
    (re.compile(r"/v1/drain()"), "drain"),
    (re.compile(r"/v1/policies/reload()"), "reload"),
    (re.compile(r"/v1/bypass()"), "bypass"),
    (re.compile(r"/ui/login()"), "login"),
    (re.compile(r"/ui/logout()"), "logout"),
)
_SECRET: Final = re.compile(r"(/ui/log(in|out)|/v1/nodes/.*/keys)\b.*", re.DOTALL)
"""Calls with a token or with master keys in their body."""
_ROUTINE: Final = re.compile(r"/v1/nodes/[^/]+/report|/v1/grants|/v1/check")
"""Messages between proxy and sidecars, many each second; checks of a description, which change nothing."""
MAX_BODY: Final = 2000


class AuditTrail:
    """ASGI middleware, around the check of access, so that refused calls are written, too.

    Of calls that are refused or prove nothing, the first of each peer in a minute is written, with the number of those
    left out: they are no means to have the file rotated until what others did is gone. Of callers who prove who they
    are it is the first with each status.
    """

    def __init__(self, app: ASGIApp, secured: bool = False) -> None:
        """secured: whether callers have to prove who they are."""
        self._app, self._secured = app, secured
        self._seldom = SeldomByPeer()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a call on, and write a line when it is answered."""
        if scope["type"] != "http" or not changes_something(scope["method"], scope["path"], scope["query_string"]):
            await self._app(scope, receive, send)
            return
        body, written = bytearray(), False

        async def read() -> Message:
            message = await receive()
            if len(body) < MAX_BODY:
                body.extend(message.get("body", b"")[:MAX_BODY])
            return message

        async def answer(message: Message) -> None:
            nonlocal written
            if message["type"] == "http.response.start":  # the line is there before the caller has the answer
                written = True
                self._write(scope, bytes(body), message["status"])
            await send(message)

        try:
            await self._app(scope, read, answer)
        finally:
            if not written:
                self._write(scope, bytes(body), 500)

    def _write(self, scope: Scope, body: bytes, status: int) -> None:
        peer = str((scope.get("client") or ("unknown",))[0])
        proved = scope.get(CALLER) or (scope["path"] == _LOGIN and status < 400)
        left_out: int | None = 0
        if 400 <= status < 500 or (self._secured and not proved):
            caller = scope.get(CALLER)
            left_out = self._seldom.left_out(f"{peer} {caller} {status}" if caller else peer)
        if left_out is not None:
            _write(scope, body, status, peer, left_out)


def changes_something(method: str, path: str, query: bytes) -> bool:
    """Return whether a call belongs into the audit log; reports, grants and checks do not."""
    if method in _READS:
        return method != "OPTIONS" and path == LOG_LEVEL and sets_level(query)
    return _ROUTINE.fullmatch(path) is None


def sets_level(query: bytes) -> bool:
    """Return whether the query of /logLevel has a level."""
    return "level" in parse_qs(query.decode("latin-1"), keep_blank_values=True)


def _write(scope: Scope, body: bytes, status: int, peer: str, left_out: int) -> None:
    caller = scope.get(CALLER) or ("loopback" if is_loopback(peer) else "unknown")
    operation, target = _operation(scope["path"])
    arguments = "" if _SECRET.fullmatch(scope["path"]) else body.decode("utf-8", "replace")
    if scope["path"] == LOG_LEVEL:
        query = parse_qs(scope["query_string"].decode("latin-1"))
        operation, target = "logLevel", query.get("log", [""])[0]
        arguments = query.get("level", [""])[0]
    write_audit(
        operation,
        user=caller,
        ok=status < 400,
        ip=peer,
        target=target,
        details={"says": _named(body), "status": status, "arguments": arguments, "left_out": left_out or ""},
    )


def _operation(path: str) -> tuple[str, str]:
    for pattern, name in _OPERATIONS:
        match = pattern.fullmatch(path)
        if match is not None:
            return name, unquote(match.group(1))
    return "call", path


def _named(body: bytes) -> str:
    """Return the user whom a command names (`who`), which nothing proves."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    user = fields.get("who") if isinstance(fields, dict) else None
    return user if isinstance(user, str) else ""
