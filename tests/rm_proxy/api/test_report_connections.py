"""Connections for reports on real sockets: opened through the guards, closed on what is malformed or not allowed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.types import Scope
from structlog.testing import capture_logs

from quicksilver.common.http.access import Side, protect
from quicksilver.common.http.rest_errors import ApiError, UnreachableError
from quicksilver.common.http.rest_server import BodyLimit, install_error_handlers, serve
from quicksilver.common.http.security import OPEN, Security, SecuritySettings
from quicksilver.common.http.tokens import Role, add_token
from quicksilver.common.messages import Ack, Grants, Report, Shed, Targets
from quicksilver.common.process.listening import bound_socket
from quicksilver.common.reports.deltas import DeltaWriter
from quicksilver.common.reports.frames import TAKES, TAKES_GRANTS, UPGRADE, FrameKind, FrameReader, frame, reports_path
from rm_proxy.api import report_connections
from rm_proxy.api.report_connections import ReportConnections, ReportUpgrade

NODE = "n1:1"
LIMIT = 10_000


def report(**changes: Any) -> Report:
    fields: dict[str, Any] = {"node_id": NODE, "boot": "b", "seq": 1, "sidecar_url": "http://n1:8391"}
    return Report(**(fields | {"memory_mb": 4096, "vcores": 4} | changes))


class Proxy:
    """What takes reports, behind the guards of production."""

    def __init__(self, security: Security = OPEN) -> None:
        self.reports: list[Report] = []
        self.counts: list[float] = []
        self.cuts: list[str] = []
        self.ack = Ack(events_to=7, targets=Targets(max_queue=3), drain="")
        self.refused: list[str] = []
        self.known = True
        self.connections = ReportConnections(
            self.handle,
            lambda node_id: self.known,
            max_bytes=LIMIT,
            count=self.counts.append,
            grants_s=5.0,
            cut=self.cuts.append,
        )
        self.app = FastAPI()
        install_error_handlers(self.app)
        self.app.add_middleware(ReportUpgrade, connections=self.connections)
        self.app.add_middleware(BodyLimit, max_bytes=LIMIT)
        protect(self.app, security, Side(True, False), self.refused.append)

    def handle(self, node_id: str, report: Report, scope: Scope) -> Ack:
        if report.boot == "refused":
            raise ApiError(403, "other-host", "not from here")
        if report.boot == "fault":
            raise ZeroDivisionError
        self.reports.append(report.model_copy())
        return self.ack.model_copy()


class Sidecar:
    """The other end, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self._frames, self._deltas = FrameReader(1 << 20), DeltaWriter(time.monotonic)
        self._come: list[tuple[FrameKind, bytes]] = []

    async def ask(self, **headers: str) -> bytes:
        """Ask for a connection for reports; return the head of the answer."""
        fields = {"Host": "localhost", "Connection": "Upgrade", "Upgrade": UPGRADE} | headers
        lines = [f"GET {reports_path(NODE)} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        self.writer.write("\r\n".join(lines).encode())
        return await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), 10)

    async def opened(self, **headers: str) -> Sidecar:
        """Ask for a connection, and get it."""
        assert (await self.ask(**headers)).startswith(b"HTTP/1.1 101 ")
        return self

    async def send(self, data: bytes) -> tuple[FrameKind, dict[str, Any]]:
        """Send bytes; return the next frame that comes."""
        self.writer.write(data)
        return await self.next()

    async def report(self, **changes: Any) -> tuple[FrameKind, dict[str, Any]]:
        """Send a report; return the answer."""
        return await self.send(frame(*self._deltas.write(report(**changes))))

    async def next(self) -> tuple[FrameKind, dict[str, Any]]:
        """Return the next frame."""
        while not self._come:
            data = await asyncio.wait_for(self._reader.read(65536), 10)
            assert data, "the connection was closed"
            self._come = self._frames.feed(data)
        kind, body = self._come.pop(0)
        return kind, json.loads(body)

    async def is_closed(self) -> bool:
        """Return whether the proxy closes the connection, and sends nothing before."""
        try:
            return await asyncio.wait_for(self._reader.read(1), 10) == b""
        except ConnectionError:
            return True


Connect = Callable[[], Awaitable[Sidecar]]


@asynccontextmanager
async def serving(proxy: Proxy, **settings: Any) -> AsyncIterator[Connect]:
    sock = bound_socket("127.0.0.1", 0)
    port = sock.getsockname()[1]
    task = asyncio.create_task(serve(proxy.app, sock, **settings))
    sidecars: list[Sidecar] = []

    async def connect() -> Sidecar:
        sidecars.append(Sidecar(*await asyncio.open_connection("127.0.0.1", port)))
        return sidecars[-1]

    try:
        yield connect
    finally:
        for sidecar in sidecars:
            sidecar.writer.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_reports_go_as_deltas_and_answers_without_what_is_known() -> None:
    proxy = Proxy()

    async with serving(proxy) as connect:
        sidecar = await (await connect()).opened()
        answers = [await sidecar.report(seq=seq, queue_length=seq) for seq in (1, 2)]
        first = {"events_to": 7, "targets": {"max_queue": 3}, "drain": ""}
        assert answers == [(FrameKind.ACK, first), (FrameKind.ACK_SAME_TARGETS, {"events_to": 7, "drain": ""})]
        proxy.ack = Ack(events_to=8, targets=Targets(max_queue=3), shed=[Shed(container_id="c", cause="steal")])
        kind, answer = await sidecar.report(seq=3, queue_length=3)
        assert (kind, answer["shed"][0]["container_id"]) == (FrameKind.ACK_SAME_TARGETS, "c")
        proxy.ack = Ack(events_to=8, targets=Targets(max_queue=4))
        assert await sidecar.report(seq=4, queue_length=4) == (
            FrameKind.ACK,
            {"events_to": 8, "targets": {"max_queue": 4}},
        )
        proxy.ack = Ack(events_to=-1, active=False)
        assert await sidecar.report(seq=5) == (FrameKind.ACK, {"events_to": -1, "active": False})
    assert [each.queue_length for each in proxy.reports] == [1, 2, 3, 4, 0]
    assert proxy.reports[0].model_copy(update={"seq": 5, "queue_length": 0}) == proxy.reports[-1]
    assert proxy.counts == [1, 0]


def whole(**changes: Any) -> bytes:
    return frame(FrameKind.REPORT, report(**changes).model_dump_json().encode())


@pytest.mark.parametrize(
    ("data", "status", "why"),
    [
        (frame(FrameKind.DELTA, b'{"base":1,"seq":2,"passed_s":0}'), 422, "in place of a whole report"),
        (frame(FrameKind.ACK, b"{}"), 422, "kind ACK"),
        (frame(FrameKind.REPORT, b"{"), 422, "EOF"),
        (frame(FrameKind.REPORT, b'{"node_id":1}'), 422, "node_id"),
        (whole().replace(b":4096", b":1e99"), 422, "memory_mb"),
        (whole(node_id="n2:1"), 422, "a report of n2:1 came"),
        (whole() * 2, 422, "before the answer"),
        (whole() + b"\0", 422, "before the answer"),
        (b"\xff\xff\xff\xff\x01", 422, "4294967295 bytes"),
        (b"\0\0\0\1\x63", 422, "kind 99"),
        (b"POST /v1/nodes/n1:1/report HTTP/1.1\r\n\r\n", 422, "a frame of 1347375956 bytes"),
        (whole(boot="refused"), 403, "not from here"),
        (whole(boot="fault"), 500, "ZeroDivisionError"),
    ],
)
async def test_what_is_out_of_form_or_order_ends_the_connection(data: bytes, status: int, why: str) -> None:
    proxy = Proxy()

    async with serving(proxy) as connect:
        sidecar = await (await connect()).opened()
        kind, answer = await sidecar.send(data)
        assert (kind, answer["status"]) == (FrameKind.REFUSAL, status)
        assert why in answer["error"]["message"]
        assert await sidecar.is_closed()
        again = await (await connect()).opened()
        assert (await again.report())[0] is FrameKind.ACK
    assert len(proxy.reports) == 1 and proxy.counts == [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Upgrade": "websocket"}, 426), ({"Upgrade": "quicksilver-reports/9"}, 426), ({"Connection": "close"}, 426)],
)
async def test_another_protocol_is_not_spoken(headers: dict[str, str], status: int) -> None:
    async with serving(Proxy()) as connect:
        assert (await (await connect()).ask(**headers)).startswith(b"HTTP/1.1 %d " % status)


async def test_a_foreign_name_of_the_host_gets_no_connection() -> None:
    async with serving(Proxy()) as connect:
        assert (await (await connect()).ask(Host="evil.example")).startswith(b"HTTP/1.1 403 ")


async def test_nodes_beyond_the_bound_get_no_connection() -> None:
    proxy = Proxy()
    proxy.known = False

    async with serving(proxy) as connect:
        assert (await (await connect()).ask()).startswith(b"HTTP/1.1 503 ")
    assert proxy.counts == []


async def test_a_call_before_it_on_the_same_connection_does_not_hinder() -> None:
    proxy = Proxy()

    async with serving(proxy) as connect:
        sidecar = await connect()
        sidecar.writer.write(b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head = await sidecar.ask()
        assert head.startswith(b"HTTP/1.1 404 ")
        await sidecar._reader.readuntil(b"HTTP/1.1 101 ")
        await sidecar._reader.readuntil(b"\r\n\r\n")
        assert (await sidecar.report())[0] is FrameKind.ACK


def revoke(file: Path) -> None:
    """Take the tokens of nodes out of a file."""
    file.write_text("".join(line for line in file.read_text().splitlines(True) if not line.startswith("node")))


async def test_only_a_token_of_a_node_opens_one_and_it_ends_with_the_token(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    tokens = {role: add_token(file, role) for role in (Role.NODE, Role.READ, Role.ADMIN)}
    security = Security(SecuritySettings(token_file=file))
    proxy = Proxy(security)

    async with serving(proxy) as connect:
        for role, status in ((Role.READ, 403), (Role.ADMIN, 403)):
            head = await (await connect()).ask(Authorization=f"Bearer {tokens[role]}")
            assert head.startswith(b"HTTP/1.1 %d " % status)
        assert (await (await connect()).ask()).startswith(b"HTTP/1.1 401 ")
        sidecar = await (await connect()).opened(Authorization=f"Bearer {tokens[Role.NODE]}")
        assert (await sidecar.report())[0] is FrameKind.ACK
        security.reload()
        proxy.connections.round()
        assert (await sidecar.report(seq=2))[0] is FrameKind.ACK_SAME_TARGETS
        revoke(file)
        security.reload()
        kind, answer = await sidecar.report(seq=3)
        assert (kind, answer["status"], len(proxy.reports)) == (FrameKind.REFUSAL, 401, 2)
        add_token(file, Role.NODE)
        token = file.read_text().split()[-1]
        security.reload()
        silent = await (await connect()).opened(Authorization=f"Bearer {token}")
        revoke(file)
        security.reload()
        proxy.connections.round()
        assert await silent.is_closed()
    assert proxy.refused == ["role", "role", "none"]


@pytest.mark.parametrize(("new_s", "lines"), [(0.0, 0), (60.0, 1)])
async def test_the_latest_connection_of_a_node_counts(
    new_s: float, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is logged where it looks like two sidecars of one name."""
    monkeypatch.setattr(report_connections, "NEW_S", new_s)
    proxy = Proxy()

    with capture_logs() as logs:
        async with serving(proxy) as connect:
            first = await (await connect()).opened()
            second = await (await connect()).opened()
            assert await first.is_closed()
            assert (await second.report())[0] is FrameKind.ACK
            assert proxy.cuts == [NODE], "the first one's sidecar may have died"
    assert proxy.counts == [1, 1, 0] and proxy.cuts == [NODE, NODE]
    assert sum("do two sidecars have this name?" in line.get("why", "") for line in logs) == lines


async def test_orders_come_without_a_report() -> None:
    proxy = Proxy()

    async with serving(proxy) as connect:
        sidecar = await (await connect()).opened()
        await sidecar.report()
        proxy.connections.notify("n9:1", lambda: pytest.fail("there is no connection to it"))
        proxy.connections.notify(NODE, lambda: None)
        proxy.connections.notify(NODE, lambda: Ack(events_to=-1, drop=["c1"], drop_reason="over"))
        assert await sidecar.next() == (FrameKind.NOTICE, {"events_to": -1, "drop": ["c1"], "drop_reason": "over"})
        assert (await sidecar.report(seq=2))[0] is FrameKind.ACK_SAME_TARGETS


async def test_silence_and_frames_without_an_end_end_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Proxy()

    async with serving(proxy) as connect:
        silent = await (await connect()).opened()
        proxy.connections.round()
        assert (await silent.report())[0] is FrameKind.ACK
        monkeypatch.setattr(report_connections, "IDLE_S", -1.0)
        proxy.connections.round()
        assert await silent.is_closed()
        monkeypatch.setattr(report_connections, "IDLE_S", 60.0)
        slow = await (await connect()).opened()
        slow.writer.write(whole()[:9])
        await slow.writer.drain()
        monkeypatch.setattr(report_connections, "FRAME_S", -1.0)
        while proxy.connections:
            proxy.connections.round()
            await asyncio.sleep(0.01)
        assert await slow.is_closed()


async def test_who_does_not_read_is_left() -> None:
    proxy = Proxy()

    async with serving(proxy) as connect:
        sidecar = await (await connect()).opened()
        sidecar.writer.transport.pause_reading()
        await asyncio.sleep(0)
        drops = ["c" * 100] * 10_000
        for _ in range(40):
            proxy.connections.notify(NODE, lambda: Ack(events_to=-1, drop=drops))
        assert len(proxy.connections) == 0


async def test_a_connection_counts_and_makes_room_for_others() -> None:
    proxy = Proxy()

    async with serving(proxy, max_connections=1) as connect:
        sidecar = await (await connect()).opened()
        await sidecar.report()
        other = await connect()
        assert (await other.ask(Upgrade="none")).startswith(b"HTTP/1.1 426 ")
        assert await sidecar.is_closed()


async def test_the_end_of_the_server_is_the_end_of_each_connection() -> None:
    proxy = Proxy()

    async with serving(proxy) as connect:
        sidecar = await (await connect()).opened()
        await sidecar.report()
        begun_s = time.monotonic()
    assert time.monotonic() - begun_s < 1.5, "nothing is waited for"
    assert await sidecar.is_closed()
    assert proxy.counts[-1] == 0


async def granted(proxy: Proxy) -> bool:
    """Send grants, and wait for the outcome; return False where the connection takes none."""
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answered(error: UnreachableError | None) -> None:
        assert not answer.done()
        answer.set_result(None) if error is None else answer.set_exception(error)

    if not proxy.connections.grant(NODE, GRANTS, answered):
        return False
    await answer
    return True


GRANTS = Grants(drop=["c1"], drop_reason="gone")
GRANTED = (FrameKind.GRANTS, {"drop": ["c1"], "drop_reason": "gone"})
TAKEN = frame(FrameKind.GRANTS_TAKEN, b"")


async def test_grants_go_over_the_connection_until_they_are_acknowledged() -> None:
    proxy = Proxy()

    async with serving(proxy) as connect:
        sidecar = await (await connect()).opened(**{TAKES: TAKES_GRANTS})
        grants = [asyncio.create_task(granted(proxy)) for _ in range(2)]
        assert [await sidecar.next(), await sidecar.next()] == [GRANTED] * 2
        assert not any(grant.done() for grant in grants)
        sidecar.writer.write(TAKEN)
        assert await grants[0] and not grants[1].done()
        kind, answer = await sidecar.send(frame(*sidecar._deltas.write(report())) + TAKEN[:2])
        assert (kind, answer["events_to"]) == (FrameKind.ACK, 7), "an acknowledgement may come with a report"
        sidecar.writer.write(TAKEN[2:])
        assert await grants[1]
        assert (await sidecar.report(seq=2))[0] is FrameKind.ACK_SAME_TARGETS


async def test_a_connection_of_an_earlier_sidecar_gets_no_grants() -> None:
    proxy = Proxy()

    async with serving(proxy) as connect:
        assert not await granted(proxy)
        sidecar = await (await connect()).opened()
        assert not await granted(proxy)
        assert (await sidecar.report())[0] is FrameKind.ACK
        kind, refusal = await sidecar.send(TAKEN)
        assert (kind, refusal["status"]) == (FrameKind.REFUSAL, 422)


async def test_grants_that_are_not_acknowledged_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_connections, "MAX_RECEIPTS", 2)
    proxy = Proxy()

    async with serving(proxy) as connect:
        sidecar = await (await connect()).opened(**{TAKES: TAKES_GRANTS})
        proxy.connections._grants_s = 0.05
        for why in ("no answer within 0.05 s", "no answer within 0.05 s", "acknowledges no grants"):
            with pytest.raises(UnreachableError, match=why):
                await granted(proxy)
        assert [await sidecar.next(), await sidecar.next()] == [GRANTED] * 2
        sidecar.writer.write(TAKEN)  # of the first one, for which nobody waits
        await sidecar.report()
        proxy.connections._grants_s = 5.0
        grant = asyncio.create_task(granted(proxy))
        assert await sidecar.next() == GRANTED
        sidecar.writer.close()
        with pytest.raises(UnreachableError, match="the connection for reports was closed"):
            await grant
