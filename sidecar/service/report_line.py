"""The ways of reports to a proxy: one connection that is kept, or a POST each where a proxy does not take that."""

from __future__ import annotations

import asyncio
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, cast
from urllib.parse import quote, urlsplit

from pydantic import ValidationError

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.async_client import AsyncRestClient
from quicksilver.common.http.rest_errors import UnreachableError, refused
from quicksilver.common.http.security import Credentials
from quicksilver.common.messages import Ack, Grants, Report, Targets
from quicksilver.common.process.logs import get_logger
from quicksilver.common.reports.deltas import DeltaWriter
from quicksilver.common.reports.frames import (
    TAKES,
    TAKES_GRANTS,
    UPGRADE,
    FrameError,
    FrameKind,
    FrameReader,
    RefusalBody,
    frame,
    reports_path,
)

log = get_logger(__name__)
REMIND_S: Final = 60.0
MAX_ANSWER: Final = 8 << 20
"""Bytes of an answer of the proxy, and of a frame."""
AGAIN_S: Final = 60.0
"""Time after which a proxy that took no connection for reports is asked again."""
REMEDY: Final = "start the proxy there, or correct sidecar.proxy_url; scheduling goes on meanwhile"
_HEAD_BYTES: Final = 64 * 1024


class ReportLine(ABC):
    """The connection to one proxy; its calls do not wait for those of others."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.changed = asyncio.Event()
        self.reachable: bool | None = None
        self.active: bool | None = None
        self.warned_s = -REMIND_S
        self.on_notice: Callable[[Ack], None] = lambda ack: None
        """Gets orders that the proxy sends beside its answers."""
        self.on_grants: Callable[[Grants], None] | None = None
        """Gets grants that come the same way; without it the proxy posts them."""

    @abstractmethod
    async def post(self, report: Report) -> Ack:
        """Return the proxy's answer to a report. Raises QuicksilverError, ValidationError."""

    @abstractmethod
    async def close(self) -> None:
        """Release the resources of the line."""


class RestLine(ReportLine):
    """A line over which each report is a POST."""

    def __init__(self, url: str, timeout_s: float, credentials: Credentials | None = None) -> None:
        super().__init__(url)
        self._client = AsyncRestClient(
            timeout_s=timeout_s, remedy=REMEDY, credentials=credentials, max_answer=MAX_ANSWER
        )

    async def post(self, report: Report) -> Ack:  # noqa: D102
        url = f"{self.url.rstrip('/')}{report_path(report.node_id)}"
        return Ack.model_validate(await self._client.post(url, report))

    async def close(self) -> None:  # noqa: D102
        await self._client.close()


def report_path(node_id: str) -> str:
    """Return the path of a proxy to which a node's reports are posted."""
    return f"/v1/nodes/{quote(node_id, safe=':')}/report"


def report_line(url: str, timeout_s: float, credentials: Credentials | None) -> ReportLine:
    """Return the way of reports to a proxy."""
    return KeptLine(RestLine(url, timeout_s, credentials), timeout_s, credentials)


class ReportSession(asyncio.Protocol):
    """One open connection: a request for the upgrade, then reports, each of which waits for its answer."""

    def __init__(
        self,
        url: str,
        head: bytes,
        on_notice: Callable[[Ack], None],
        on_grants: Callable[[Grants], None] | None,
        on_sent: Callable[[int], None],
    ) -> None:
        self._url, self._head, self._on_notice, self._on_grants, self._on_sent = (
            url,
            head,
            on_notice,
            on_grants,
            on_sent,
        )
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._begin: bytearray | None = bytearray()
        """The head of the answer; None once it is there."""
        self._frames = FrameReader(MAX_ANSWER)
        self._deltas = DeltaWriter(time.monotonic)
        self._targets: Targets | None = None
        self._answer: asyncio.Future[Ack] | None = None
        self.opened: asyncio.Future[bool] = self._loop.create_future()
        """Whether the proxy takes reports here."""

    @property
    def is_open(self) -> bool:
        """Whether a report can be sent."""
        return self._transport is not None and self._begin is None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._head)

    async def report(self, report: Report) -> Ack:
        """Return the answer to a report. Raises ConnectionError, FrameError, RefusedError, ValidationError."""
        if self._transport is None or not self.is_open:
            raise ConnectionError("the connection was closed")
        data = frame(*self._deltas.write(report))
        self._on_sent(len(data))
        self._answer = self._loop.create_future()
        self._transport.write(data)
        try:
            return await self._answer
        finally:
            self._answer = None

    def data_received(self, data: bytes) -> None:
        """Take the answer to the request, then frames."""
        try:
            if self._begin is not None:
                data = self._taken_head(self._begin, data)
            for kind, body in self._frames.feed(data) if data else ():
                self._frame(kind, body)
        except (QuicksilverError, ValidationError) as error:
            self._end(error)

    def _taken_head(self, begin: bytearray, data: bytes) -> bytes:
        """Return what comes behind the head, once that is there. Raises FrameError."""
        begin += data
        head, end, rest = bytes(begin).partition(b"\r\n\r\n")
        if not end:
            if len(begin) > _HEAD_BYTES:
                raise FrameError(f"the head of the answer has more than {_HEAD_BYTES} bytes", place=self._url)
            return b""
        first, *lines = head.lower().split(b"\r\n")
        if first.split(b" ")[1:2] != [b"101"] or f"upgrade: {UPGRADE}".encode() not in lines:
            text = first.decode("latin-1")[:100]
            raise FrameError(f"it answers {text} in place of a connection for reports", place=self._url)
        self._begin = None
        self.opened.set_result(True)
        return rest

    def _frame(self, kind: FrameKind, body: bytes) -> None:
        if kind is FrameKind.REFUSAL:
            raise refused(RefusalBody.model_validate_json(body).status, body, self._url)
        if kind is FrameKind.GRANTS and self._on_grants is not None and self._transport is not None:
            self._on_grants(Grants.model_validate_json(body))
            self._transport.write(frame(FrameKind.GRANTS_TAKEN, b""))
            return
        if kind not in (FrameKind.ACK, FrameKind.ACK_SAME_TARGETS, FrameKind.NOTICE):
            raise FrameError(f"a frame of the kind {kind.name} came from the proxy", place=self._url)
        ack = Ack.model_validate_json(body)
        if kind is FrameKind.NOTICE:
            self._on_notice(ack)
            return
        if kind is FrameKind.ACK_SAME_TARGETS:
            ack.targets = self._targets
        self._targets = ack.targets
        answer = self._answer
        if answer is not None and answer.cancelled():
            return  # its report was given up in this turn of the loop, and the connection with it
        if answer is None or answer.done():
            raise FrameError("an answer came without a report", place=self._url)
        answer.set_result(ack)

    def connection_lost(self, error: Exception | None) -> None:
        """End."""
        self._end(ConnectionError(f"the connection was lost: {error}" if error else "the connection was closed"))

    def close(self) -> None:
        """Close at once."""
        self._end(ConnectionError("the connection was closed"))

    def _end(self, error: Exception) -> None:
        if self._transport is not None:
            self._transport.abort()
        if not self.opened.done():
            self.opened.set_exception(error)
            self.opened.exception()  # who waits for it gets it; where nobody does any more, it is no news
        elif self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        elif not isinstance(error, ConnectionError):
            log.warning("connection for reports closed", proxy=self._url, why=str(error))


class KeptLine(ReportLine):
    """A line over one kept connection; where the proxy takes none, or none can be opened, over another line.

    on_sent: gets the size of each frame with a report.
    """

    def __init__(
        self,
        rest: ReportLine,
        timeout_s: float,
        credentials: Credentials | None = None,
        on_sent: Callable[[int], None] = lambda size: None,
    ) -> None:
        super().__init__(rest.url)
        self._rest, self._timeout_s, self._credentials, self._on_sent = rest, timeout_s, credentials, on_sent
        self._session: ReportSession | None = None
        self._node_id = ""
        self._again_s = -math.inf
        """When a connection may be tried again."""

    async def post(self, report: Report) -> Ack:  # noqa: D102
        try:
            session = self._current(report.node_id)
            if session is not None:
                try:
                    return await self._answer(session, report)
                except ConnectionError:  # the proxy ended it meanwhile: it may be there again already
                    self._leave()
            session = await self._open(report.node_id)
            if session is not None:
                return await self._answer(session, report)
        except (OSError, FrameError) as error:
            self._leave()
            why = f"no answer within {self._timeout_s:g} s" if isinstance(error, TimeoutError) else str(error)
            raise UnreachableError(why, place=self.url, remedy=REMEDY) from error
        except BaseException:
            self._leave()
            raise
        return await self._rest.post(report)

    async def close(self) -> None:  # noqa: D102
        self._leave()
        await self._rest.close()

    async def _answer(self, session: ReportSession, report: Report) -> Ack:
        async with asyncio.timeout(self._timeout_s):
            return await session.report(report)

    def _current(self, node_id: str) -> ReportSession | None:
        """Return the connection if it can be used."""
        if self._session is not None and (node_id != self._node_id or not self._session.is_open):
            self._leave()
        return self._session

    def _leave(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    async def _open(self, node_id: str) -> ReportSession | None:
        """Return a new connection, None where the proxy takes none, or cannot be reached."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._again_s:
            return None
        parts = urlsplit(self.url)
        path = f"{parts.path.rstrip('/')}{reports_path(node_id)}"
        headers = {"Host": parts.netloc.rpartition("@")[2], "Connection": "Upgrade", "Upgrade": UPGRADE}
        if self.on_grants is not None:
            headers[TAKES] = TAKES_GRANTS
        context = None
        if self._credentials is not None:  # the host is looked up in a thread
            headers |= await loop.run_in_executor(None, self._credentials.headers, self.url)
            context = self._credentials.context
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        head = "\r\n".join(lines).encode("latin-1")
        session = ReportSession(self.url, head, self._noticed, self.on_grants, self._on_sent)
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
            tls = (context or True) if parts.scheme == "https" else None
            async with asyncio.timeout(self._timeout_s):
                await loop.create_connection(lambda: session, parts.hostname or "", port, ssl=tls)
                await session.opened
        except (TimeoutError, FrameError) as error:
            session.close()
            self._again_s = loop.time() + AGAIN_S
            why = str(error) or f"no answer within {self._timeout_s:g} s"
            log.info("reports are posted one by one", proxy=self.url, why=why, again_s=AGAIN_S)
            return None
        except (OSError, ValueError):
            return None  # the other line says why
        except BaseException:
            session.close()
            raise
        self._session, self._node_id = session, node_id
        return session

    def _noticed(self, ack: Ack) -> None:
        self.on_notice(ack)
