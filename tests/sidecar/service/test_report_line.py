"""A sidecar's kept connection for reports: opened, used, opened again, and given up for posts where it is not taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from structlog.testing import capture_logs

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.rest_errors import ApiError, RefusedError, UnreachableError
from quicksilver.common.http.rest_server import serve
from quicksilver.common.messages import Ack, ContainerEvent, Grants, Report, Shed, Targets
from quicksilver.common.process.listening import bound_socket
from quicksilver.common.reports.frames import UPGRADE, FrameKind, frame
from rm_proxy.api.report_connections import ReportConnections, ReportUpgrade
from sidecar.config import SidecarSettings
from sidecar.metrics import SidecarMetrics
from sidecar.service import report_line as report_line_module
from sidecar.service.report_line import KeptLine, RestLine
from sidecar.service.reporter import Reporter
from tests.sidecar.fakes import FakeProxy

TIMEOUT_S = 5.0
OK = f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {UPGRADE}\r\n\r\n".encode()


def report(seq: int, **changes: Any) -> Report:
    fields: dict[str, Any] = {"node_id": "n:1", "boot": "b", "seq": seq, "sidecar_url": "http://n:2"}
    return Report(**(fields | {"memory_mb": 1, "vcores": 1} | changes))


class Proxy:
    """A proxy that takes both ways."""

    def __init__(self) -> None:
        self.kept: list[int] = []
        self.posts = FakeProxy()
        self.ack = Ack(events_to=3, targets=Targets(max_queue=2))
        self.error: ApiError | None = None
        self.connections = ReportConnections(self.handle, lambda node_id: True)
        self.app: FastAPI = self.posts.app
        self.app.add_middleware(ReportUpgrade, connections=self.connections)

    def handle(self, node_id: str, report: Report, scope: object) -> Ack:
        if self.error is not None:
            raise self.error
        self.kept.append(report.seq)
        return self.ack.model_copy()


@asynccontextmanager
async def serving(app: FastAPI, port: int = 0) -> AsyncIterator[str]:
    sock = bound_socket("127.0.0.1", port)
    task = asyncio.create_task(serve(app, sock))
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def line_to(url: str, timeout_s: float = TIMEOUT_S, sent: list[int] | None = None) -> AsyncIterator[KeptLine]:
    sizes = [] if sent is None else sent
    line = KeptLine(RestLine(url, timeout_s), timeout_s, on_sent=sizes.append)
    try:
        yield line
    finally:
        await line.close()


async def test_reports_go_over_one_connection_and_answers_are_whole() -> None:
    proxy, sent = Proxy(), list[int]()

    async with serving(proxy.app) as url, line_to(url, sent=sent) as line:
        answers = [await line.post(report(seq)) for seq in (1, 2, 3)]
        assert answers == [proxy.ack] * 3, "targets that did not change are the last ones"
        assert len(proxy.connections) == 1
        await line.post(report(4, node_id="m:1"))
        assert (await line.post(report(5, node_id="m:1"))).events_to == 3
    assert proxy.kept == [1, 2, 3, 4, 5] and proxy.posts.reports == []
    assert sent[1] < sent[0] / 2 and sent[3] > sent[1], "another name of the node begins anew"


async def test_grants_come_over_the_connection_where_somebody_takes_them() -> None:
    proxy, got = Proxy(), list[Grants]()
    message = Grants(drop=["c1"], drop_reason="gone")
    answers: asyncio.Queue[Exception | None] = asyncio.Queue()

    async with serving(proxy.app) as url:
        async with line_to(url) as line:
            await line.post(report(1))
            assert not proxy.connections.grant("n:1", message, answers.put_nowait)
        async with line_to(url) as line:
            line.on_grants = got.append
            await line.post(report(2))
            assert proxy.connections.grant("n:1", message, answers.put_nowait)
            assert await answers.get() is None
            await line.post(report(3))
    assert got == [message] and proxy.kept == [1, 2, 3]


async def test_a_connection_that_was_cut_is_opened_again_for_the_same_report() -> None:
    proxy = Proxy()

    async with serving(proxy.app) as url, line_to(url) as line:
        await line.post(report(1))
        session = line._session
        assert session is not None and session._transport is not None
        cut = asyncio.create_task(line.post(report(2)))
        await asyncio.sleep(0)
        session._transport.abort()
        assert (await cut).events_to == 3
    assert proxy.kept in ([1, 2], [1, 2, 2]), "events are counted once, so that the proxy may get one twice"


async def test_a_proxy_that_is_away_is_an_error_with_a_remedy_and_is_found_again() -> None:
    proxy = Proxy()

    sock = bound_socket("127.0.0.1", 0)
    port = sock.getsockname()[1]
    sock.close()
    async with line_to(f"http://127.0.0.1:{port}") as line:
        with pytest.raises(UnreachableError, match=r"connection refused; start the proxy there"):
            await line.post(report(1))
        async with serving(proxy.app, port):
            await line.post(report(2))
        with pytest.raises(UnreachableError, match="connection refused"):
            await line.post(report(3))
        async with serving(proxy.app, port):
            await line.post(report(4))
    assert proxy.kept == [2, 4]


async def test_an_old_proxy_gets_posts_and_is_asked_again_later() -> None:
    old, new = FakeProxy(), Proxy()

    async with serving(old.app) as url, line_to(url) as line:
        for seq in (1, 2):
            await line.post(report(seq))
        port = int(url.rpartition(":")[2])
    async with serving(new.app, port) as url, line_to(url) as line:
        line._again_s = asyncio.get_running_loop().time() + 60
        await line.post(report(3))
        line._again_s = 0.0
        await line.post(report(4))
    assert [each.seq for each in old.reports] == [1, 2]
    assert ([each.seq for each in new.posts.reports], new.kept) == ([3], [4])


async def test_a_refusal_is_an_error_with_the_proxys_words() -> None:
    proxy = Proxy()

    async with serving(proxy.app) as url, line_to(url) as line:
        await line.post(report(1))
        proxy.error = ApiError(503, "too-many-nodes", "too many nodes")
        with pytest.raises(RefusedError, match="too many nodes") as refusal:
            await line.post(report(2))
        assert (refusal.value.status, refusal.value.code, refusal.value.retriable) == (503, "too-many-nodes", True)
        proxy.error = None
        await line.post(report(3))
    assert proxy.kept == [1, 3]


Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def peer(answer: Answer) -> AsyncIterator[str]:
    """Yield the URL of a peer that does what it likes."""

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (frame(FrameKind.REPORT, b"{}"), "kind REPORT came from the proxy"),
        (frame(FrameKind.ACK, b"{}"), "events_to"),
        (frame(FrameKind.REFUSAL, b"{}"), "status"),
        (b"\xff\xff\xff\xff\x01", "bytes"),
        (b"", "the connection was closed"),
    ],
)
async def test_a_proxy_that_answers_anything_else_is_an_error(data: bytes, why: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await reader.read(4)
        writer.write(data)
        await writer.drain()
        if data:
            await reader.read()

    async with peer(answer) as url, line_to(url) as line:
        with pytest.raises((QuicksilverError, ValueError), match=why):
            await line.post(report(1))


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n\r\n", OK.replace(b"/1\r", b"/9\r"), b"x" * 70_000, b""])
async def test_who_does_not_take_the_connection_gets_a_post(head: bytes) -> None:
    posted: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        await writer.drain()
        posted.append(await reader.read(10))

    async with peer(answer) as url, line_to(url, 0.2) as line:
        with pytest.raises((QuicksilverError, ValueError)):
            await line.post(report(1))
        assert line._again_s > asyncio.get_running_loop().time() + report_line_module.AGAIN_S / 2


async def test_an_answer_without_a_report_ends_the_connection() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await reader.read(4)
        writer.write(frame(FrameKind.ACK, b'{"events_to":1}') * 2)
        await reader.read()

    with capture_logs() as logs:
        async with peer(answer) as url, line_to(url) as line:
            assert (await line.post(report(1))).events_to == 1
            assert line._session is not None and not line._session.is_open
    (entry,) = [entry for entry in logs if entry["event"] == "connection for reports closed"]
    assert "an answer came without a report" in entry["why"]


async def test_an_answer_that_does_not_come_ends_the_connection() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await reader.read()

    async with peer(answer) as url, line_to(url, 0.2) as line:
        with pytest.raises(UnreachableError, match=r"no answer within 0\.2 s"):
            await line.post(report(1))
        assert line._session is None


async def test_a_post_that_is_cancelled_leaves_no_answer_behind() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await reader.read()

    async with peer(answer) as url, line_to(url) as line:
        task = asyncio.create_task(line.post(report(1)))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert line._session is None


async def test_an_answer_that_comes_as_its_report_is_given_up_is_no_fault() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await reader.read()

    with capture_logs() as logs:
        async with peer(answer) as url, line_to(url) as line:
            task = asyncio.create_task(line.post(report(1)))
            await asyncio.sleep(0.1)
            session = line._session
            assert session is not None
            task.cancel()
            session.data_received(frame(FrameKind.ACK, b'{"events_to":1}'))  # before the task runs again
            await asyncio.gather(task, return_exceptions=True)
            assert line._session is None
    assert not [line for line in logs if line["event"] == "connection for reports closed"]


async def test_orders_of_the_active_proxy_are_followed_without_a_report() -> None:
    proxy = Proxy()
    acks: list[Ack] = []

    def build(events: list[ContainerEvent]) -> Report:
        return report(1, events=events)

    async with serving(proxy.app) as url, line_to(url) as line:
        come = asyncio.Event()

        def on_ack(ack: Ack) -> bool:
            acks.append(ack)
            come.set()
            return False

        reporter = Reporter([line], SidecarSettings(), SidecarMetrics(), build, on_ack)
        order = Ack(events_to=-1, shed=[Shed(container_id="c1", cause="steal")])
        for active in (False, True):
            proxy.ack = Ack(events_to=0, active=active)
            assert await reporter.send()
            proxy.connections.notify("n:1", lambda: order)
            await reporter.send()
        await asyncio.wait_for(come.wait(), 5)
    assert [ack.events_to for ack in acks] == [0, -1, 0], "a standby orders nothing"
