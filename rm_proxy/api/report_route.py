"""Reports of sidecars without FastAPI's way to a route, which costs more than the proxy's own work on a report.

This middleware lies inside those that guard every call (`quicksilver.common.http.access`, `BodyLimit`). It answers only
reports that the route would take unchanged; anything malformed goes on to the route, which names what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from pydantic import ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.http.rest_server import envelope
from quicksilver.common.messages import Ack, Report
from rm_proxy.api.received_report import read_report

MAX_NODE_ID: Final = 300
_PATH: Final = re.compile(r"/v1/nodes/([^/]+)/report")
_JSON: Final = b"application/json"

HandleReport = Callable[[str, Report, Scope], Ack]
"""Gets a node's id, its report and the scope of the call, returns the answer. Raises ApiError."""


class ReportRoute:
    """ASGI middleware that answers `POST /v1/nodes/ID/report` itself where the body is a report of that node."""

    def __init__(self, app: ASGIApp, *, handle: HandleReport) -> None:
        self._app, self._handle = app, handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the call, or pass it on."""
        node_id = _node_id(scope)
        if node_id is None:
            await self._app(scope, receive, send)
            return
        body = await _body(receive)
        if body is None:
            return  # the caller hung up
        try:
            report: Report | None = read_report(body)
        except ValidationError:
            report = None
        if report is None or report.node_id != node_id:
            await self._app(scope, _again(body, receive), send)
            return
        try:
            data = self._handle(node_id, report, scope).model_dump_json().encode()
        except ApiError as error:
            await envelope(error.status, error.code, str(error))(scope, receive, send)
            return
        headers = [(b"content-length", b"%d" % len(data)), (b"content-type", _JSON)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": data})


def _node_id(scope: Scope) -> str | None:
    """Return the node whose report a call is; None for other calls, and for bodies of unknown length or type."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    path = _PATH.fullmatch(scope["path"])
    if path is None or len(path[1]) > MAX_NODE_ID:
        return None
    measured = json = False
    for name, value in scope["headers"]:
        if name == b"content-length":
            measured = True
        elif name == b"content-type":
            json = value == _JSON
    return path[1] if measured and json else None


async def _body(receive: Receive) -> bytes | None:
    """Return the whole body, None when the caller hung up before."""
    message = await receive()
    if not message.get("more_body", False):
        return message.get("body", b"") if message["type"] == "http.request" else None
    parts = [message["body"]]
    while message.get("more_body", False):
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
    return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that repeats a body that was read."""
    repeated = False

    async def replayed() -> Message:
        nonlocal repeated
        if repeated:
            return await receive()
        repeated = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
