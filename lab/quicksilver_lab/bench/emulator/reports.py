"""REST of many emulated nodes with the proxy: their reports to it, its grants to them.

Reports go as those of production. A sidecar has FastAPI for its routes; for hundreds of nodes in one loop that costs
more than the nodes: here asyncio does it all.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import httptools
from pydantic import ValidationError

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.messages import Ack, Draining, Grants, Message, Report
from sidecar.service.report_line import KeptLine, ReportSession, RestLine

_BODY_BYTES: Final = 8 * 2**20
_HEAD_BYTES: Final = 64 * 2**10


@dataclass(slots=True)
class Traffic:
    """What all nodes of the process sent and got."""

    reports: int = 0
    report_bytes: int = 0
    refused: int = 0
    """Reports that the proxy did not take, or that did not reach it."""
    connections: int = 0
    """That were opened to the proxy."""
    grants: int = 0
    """Messages of the proxy with grants or drops."""
    announced: int = 0
    """Containers in them."""
    bad_requests: int = 0


class ProxyLine(KeptLine):
    """A node's way to the proxy: that of production, counted."""

    def __init__(self, address: tuple[str, int], timeout_s: float, traffic: Traffic) -> None:
        self._traffic = traffic
        super().__init__(RestLine(f"http://{address[0]}:{address[1]}", timeout_s), timeout_s, on_sent=self._sent)

    async def post(self, report: Report) -> Ack:
        """Return the proxy's answer. Raises UnreachableError, RefusedError, ValidationError."""
        self._traffic.reports += 1
        try:
            return await super().post(report)
        except QuicksilverError:
            self._traffic.refused += 1
            raise

    async def _open(self, node_id: str) -> ReportSession | None:
        session = await super()._open(node_id)
        self._traffic.connections += session is not None
        return session

    def _sent(self, size: int) -> None:
        self._traffic.report_bytes += size


Takes = Mapping[str, tuple[type[Message], Callable[[Any], None]]]
"""Paths that are posted to, with the message that is wanted there and who gets it."""


class _Asking(asyncio.Protocol):
    """A connection of the proxy to a node; requests may follow each other, the next one after the answer."""

    def __init__(self, takes: Takes, traffic: Traffic, opened: set[asyncio.Transport]) -> None:
        self._takes, self._traffic, self._opened = takes, traffic, opened
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._body = bytearray()
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._opened.add(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._opened.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._give_up(400, f"no HTTP request: {error}")

    def _give_up(self, status: int, why: str) -> None:
        self._answer(status, why)
        self._transport.close()

    def _answer(self, status: int, why: str = "") -> None:
        if self._transport.is_closing():
            return
        body = b""
        if why:
            self._traffic.bad_requests += 1
            body = json.dumps({"error": {"code": f"http-{status}", "message": why}}).encode()
        head = f"HTTP/1.1 {status} {'OK' if status < 300 else 'Refused'}\r\n"
        if status != 204:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self._transport.write(head.encode() + b"\r\n" + body)

    # httptools

    def on_message_begin(self) -> None:
        self._url, self._body, self._head_bytes = b"", bytearray(), 0

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value))

    def _count_head(self, more: int) -> None:
        self._head_bytes += more
        if self._head_bytes > _HEAD_BYTES:
            self._give_up(431, f"the head has more than {_HEAD_BYTES} bytes")

    def on_body(self, body: bytes) -> None:
        if len(self._body) + len(body) > _BODY_BYTES:
            self._give_up(413, f"the body has more than {_BODY_BYTES} bytes")
        else:
            self._body += body

    def on_message_complete(self) -> None:
        if self._transport.is_closing():
            return
        path, method = self._url.decode("latin-1"), self._parser.get_method().decode()
        entry = self._takes.get(path)
        if entry is None or method != "POST":
            self._answer(404, f"an emulated node has no {method} {path}; it takes {', '.join(self._takes)}")
            return
        model, take = entry
        try:
            message = model.model_validate_json(bytes(self._body))
        except ValidationError as error:
            self._answer(422, f"not {model.__name__}: {error.error_count()} mistakes")
            return
        take(message)
        self._answer(204)


class NodeRest:
    """What the proxy reaches of one node: `/v1/grants` and `/v1/drain`, on an address of the node's own host."""

    def __init__(
        self, on_grants: Callable[[Grants], None], on_drain: Callable[[Draining], None], traffic: Traffic
    ) -> None:
        self._takes: Takes = {"/v1/grants": (Grants, self.granted), "/v1/drain": (Draining, on_drain)}
        self._on_grants, self._traffic = on_grants, traffic
        self._server: asyncio.Server | None = None
        self._opened: set[asyncio.Transport] = set()

    async def start(self, host: str, port: int = 0) -> str:
        """Listen; return the address as a URL. Raises QuicksilverError when that cannot be."""
        try:
            self._server = await asyncio.get_running_loop().create_server(self._accept, host, port)
        except OSError as error:
            remedy = "end what listens there; hosts of emulated nodes lie in 127.0.0.0/8"
            raise QuicksilverError(f"cannot listen: {error}", place=f"{host}:{port}", remedy=remedy) from error
        return "http://{}:{}".format(*self._server.sockets[0].getsockname()[:2])

    def _accept(self) -> asyncio.Protocol:
        return _Asking(self._takes, self._traffic, self._opened)

    def granted(self, message: Grants) -> None:
        """Count grants, and pass them on; those of the connection for reports, too."""
        self._traffic.grants += 1
        self._traffic.announced += len(message.grants)
        self._on_grants(message)

    def close(self) -> None:
        """Stop listening, and close what is open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for transport in list(self._opened):
            transport.close()
