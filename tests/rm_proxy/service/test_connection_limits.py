"""Who may come in at the proxy, by the machine and with real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from hadoop_rpc.connection import AM_PROTOCOL, Response
from hadoop_rpc.frames import BEFORE_LOGIN_BYTES
from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver.common.address import Address
from quicksilver.common.process.limits import Seldom
from rm_proxy.config import ProxySettings
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.error_budget import FaultKind
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.attempt_journal import AttemptJournal
from rm_proxy.service.connections import am_connections, connection_limits
from rm_proxy.service.connections.am_connections import AmConnection, ConnectionParts, Connections
from rm_proxy.service.connections.connection_limits import SMALL_BYTES, ConnectionLimits, connection_limit
from rm_proxy.service.connections.upstream import Upstream
from rm_proxy.service.recovery import Recovery
from tests.fake_rm import RegisteredMaster, StandIn
from tests.rm_proxy.yarn_messages import coordinator

# The machine


def test_all_and_one_host_are_bounded() -> None:
    limits = ConnectionLimits(limit=3, login_limit=2, byte_limit=0)
    assert [limits.enter("a") for _ in range(3)] == ["", "", "host"]
    limits.logged_in("a")
    assert limits.enter("a") == "", "who has logged in does not count"
    assert limits.enter("b") == "limit"
    limits.leave("a", logged_in=True)
    assert limits.enter("b") == "" and (limits.inside, limits.logins) == (3, 3)


def test_only_who_keeps_much_is_sent_away() -> None:
    limits = ConnectionLimits(9, 9, byte_limit=4 * SMALL_BYTES)
    assert all(limits.keeps(0, SMALL_BYTES) for _ in range(8))
    assert not limits.keeps(SMALL_BYTES, SMALL_BYTES + 1)
    assert limits.keeps(SMALL_BYTES + 1, 0) and limits.kept_bytes == 7 * SMALL_BYTES


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["enter", "login", "leave"])), max_size=60))
def test_nobody_is_forgotten_or_counted_twice(steps: list[tuple[str, str]]) -> None:
    limits, before, after = ConnectionLimits(8, 3, 0), list[str](), list[str]()
    for host, step in steps:
        if step == "enter" and not limits.enter(host):
            before.append(host)
        elif step == "login" and host in before:
            before.remove(host)
            after.append(host)
            limits.logged_in(host)
        elif step == "leave" and host in before + after:
            known = host in after
            (after if known else before).remove(host)
            limits.leave(host, known)
        assert limits.inside == len(before) + len(after) <= 8 and limits.logins == len(before)
        assert all(before.count(h) <= 3 for h in "abc")
    for host in before:
        limits.leave(host, False)
    assert not limits._logins


# Real sockets


class Hub:
    """The parts of a proxy that connections use, before a stand-in for the ResourceManager."""

    def __init__(self, **settings: Any) -> None:
        self.settings = ProxySettings(upstream=Address("127.0.0.1", 1), **settings)
        self.metrics = ProxyMetrics()
        self.coordinator: Coordinator = coordinator()
        self.connections = Connections(self.settings, self.metrics)
        self.limits = self.connections.limits
        self.faults: list[tuple[FaultKind, str]] = []
        self.renewed: list[str] = []
        self.lookup: asyncio.Task[None] | None = None
        """What the record of each application comes with."""

    @property
    def open_connections(self) -> set[AmConnection]:
        return self.connections.open

    def refused(self, reason: str) -> float:
        labels = {"reason": reason}
        return self.metrics.registry.get_sample_value("quicksilver_proxy_connections_refused_total", labels) or 0.0

    def parts(self, upstream: Address) -> ConnectionParts:
        recovery = Recovery(AttemptJournal(Path("unused"), self.metrics), self.coordinator, self.metrics)
        closes = self.connections.close_undialed
        return ConnectionParts(
            settings=self.settings,
            attempt=self.coordinator.attempt,
            metrics=self.metrics,
            connections=self.connections,
            upstream=Upstream(
                upstream, False, self.settings, self.coordinator, self.metrics, recovery, lambda: None, closes
            ),
            handle_effects=lambda effects: None,
            identified=lambda attempt_id: self.lookup,
            write_note=lambda attempt_id, note: None,
            fault=lambda kind, app_id: self.faults.append((kind, app_id)),
            restore=self.renewed.append,
            spent=lambda attempt_id, took_s: None,
        )

    async def start(self, stack: AsyncExitStack, stand_in: type[StandIn]) -> int:
        loop = asyncio.get_running_loop()
        rm = await stack.enter_async_context(await loop.create_server(stand_in, "127.0.0.1", 0))
        parts = self.parts(Address("127.0.0.1", rm.sockets[0].getsockname()[1]))
        server = await stack.enter_async_context(await loop.create_server(lambda: AmConnection(parts), "127.0.0.1", 0))
        front: int = server.sockets[0].getsockname()[1]
        return front

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait; the test's own time-out ends it."""
        while not condition():  # noqa: ASYNC110 - what is waited for is in another's hands
            await asyncio.sleep(0.005)


@asynccontextmanager
async def hub_of(**settings: Any) -> AsyncIterator[tuple[Hub, int, type[StandIn]]]:
    """Yield a hub, its port and the class of its stand-in for the ResourceManager."""

    class Own(StandIn):
        opened = 0

    hub = Hub(**settings)
    async with AsyncExitStack() as stack:
        yield hub, await hub.start(stack, Own), Own
        for connection in list(hub.open_connections):
            connection.close()
        await hub.until(lambda: not hub.open_connections)
    assert (hub.limits.inside, hub.limits.logins, hub.limits.kept_bytes) == (0, 0, 0)


@pytest.fixture(autouse=True)
def fresh_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(am_connections, "_seldom", Seldom())


def idle(port: int, source: str = "127.0.0.1") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 10, (source, 0))
    connection.setblocking(False)
    return connection


async def end_of(connection: socket.socket) -> None:
    """Wait until the proxy hangs up; nothing else may come."""
    try:
        assert await asyncio.get_running_loop().sock_recv(connection, 1) == b""
    except ConnectionResetError:
        pass
    finally:
        connection.close()


async def test_who_says_nothing_costs_the_resource_manager_nothing() -> None:
    with capture_logs() as logs:
        async with hub_of(handshake_timeout_s=4.0) as (hub, port, rm):
            silent = [idle(port) for _ in range(50)]
            await hub.until(lambda: len(hub.open_connections) == 50)
            master = await RegisteredMaster.connect("127.0.0.1", port)
            assert await master.beat() == 1 and rm.opened == 1 and hub.limits.logins == 50
            await asyncio.gather(*map(end_of, silent))
            assert hub.refused("handshake") == 50 and await master.beat() == 2
            master.close()
    assert len([line for line in logs if "did not log in" in line["event"]]) == 1, "one line for all of them"


async def test_the_first_calls_wait_for_the_record_of_their_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(am_connections, "LOOKUP_WAIT_S", 60.0)
    async with hub_of() as (hub, port, _):
        answered = asyncio.Event()

        async def record() -> None:
            await answered.wait()

        hub.lookup = asyncio.create_task(record())
        master = await RegisteredMaster.connect("127.0.0.1", port)
        beat = asyncio.create_task(master.beat())
        await asyncio.wait([beat], timeout=0.2)
        assert not beat.done()
        answered.set()
        assert await beat == 1 and await master.beat() == 2
        master.close()


async def test_without_an_answer_the_first_calls_wait_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(am_connections, "LOOKUP_WAIT_S", 0.3)
    async with hub_of() as (hub, port, _):
        hub.lookup = asyncio.create_task(asyncio.sleep(60))
        begun_s = monotonic()
        master = await RegisteredMaster.connect("127.0.0.1", port)
        assert await master.beat() == 1 and monotonic() - begun_s >= 0.3
        master.close()
        await hub.until(lambda: not hub.connections.open)
        hub.lookup.cancel()  # after the connection: nothing is left to release


async def test_a_host_that_fills_the_doors_keeps_no_other_out() -> None:
    async with hub_of(max_logins_per_host=3) as (hub, port, _):
        silent = [idle(port, "127.0.0.2") for _ in range(5)]
        await hub.until(lambda: hub.refused("host") == 2)
        assert len(hub.open_connections) == 3
        master = await RegisteredMaster.connect("127.0.0.1", port)
        assert await master.beat() == 1
        more = [await RegisteredMaster.connect("127.0.0.1", port, app=n) for n in range(2, 6)]
        assert [await other.beat() for other in more] == [1] * 4, "the limit is of those before their login"
        assert hub.refused("limit") == 0
        for one in (master, *more):
            one.close()
        for connection in silent:
            connection.close()


async def test_the_limit_of_all_is_told_once() -> None:
    with capture_logs() as logs:
        async with hub_of(max_connections=3) as (hub, port, _):
            masters = [await RegisteredMaster.connect("127.0.0.1", port, app=n) for n in range(1, 4)]
            for _ in range(20):
                await end_of(idle(port))
            assert hub.refused("limit") == 20
            masters[0].close()
            await hub.until(lambda: len(hub.open_connections) == 2)
            again = await RegisteredMaster.connect("127.0.0.1", port, app=9)
            assert await again.beat() == 1
            for one in (*masters, again):
                one.close()
    refused = [line for line in logs if line["event"].startswith("connection refused")]
    assert [line["event"] for line in refused] == ["connection refused, proxy.max_connections is reached"]


async def test_a_large_frame_before_the_login_is_refused_unread() -> None:
    async with hub_of() as (hub, port, _):
        early = idle(port)
        early.send(b"hrpc\x09\x00\xdf" + (BEFORE_LOGIN_BYTES + 1).to_bytes(4, "big"))
        await end_of(early)
        master = await RegisteredMaster.connect("127.0.0.1", port)
        master.writer.write((BEFORE_LOGIN_BYTES + 1).to_bytes(4, "big") + b"x" * 100)
        await hub.until(lambda: hub.limits.kept_bytes == 104)
        master.close()
    assert hub.faults == [], "garbage before the login is nobody's fault"


async def test_unfinished_frames_are_bounded_together() -> None:
    async with hub_of(max_unfinished_mb=4) as (hub, port, _):
        masters = [await RegisteredMaster.connect("127.0.0.1", port, app=n) for n in range(1, 4)]
        for master in masters:
            master.writer.write((15 << 20).to_bytes(4, "big") + b"x" * (3 << 20))
        await hub.until(lambda: hub.refused("memory") >= 2)
        assert hub.limits.kept_bytes <= 4 << 20
        other = await RegisteredMaster.connect("127.0.0.1", port, app=8)
        assert await other.beat() == 1, "others are served"
        for one in (*masters, other):
            one.close()


async def test_a_master_that_does_not_read_is_not_read_for() -> None:
    """Its answers stay at the ResourceManager: the proxy keeps a bounded part, and others are served."""

    async with hub_of() as (hub, port, rm):
        rm.padding = 1 << 20
        paused: list[bool] = []
        real = AmConnection.pause_writing

        def pause(side: AmConnection) -> None:
            paused.append(True)
            real(side)

        AmConnection.pause_writing = pause  # type: ignore[method-assign]
        try:
            deaf = await RegisteredMaster.connect("127.0.0.1", port)
            deaf.writer.transport.pause_reading()
            for _ in range(60):
                deaf.ask()
            await hub.until(lambda: bool(paused))
            other = await RegisteredMaster.connect("127.0.0.1", port, app=2)
            for number in range(1, 6):
                assert await other.beat() == number
            (side,) = [
                c for c in hub.open_connections if c.relay.attempt is not None and "0001_000001" in c.relay.attempt.id
            ]
            assert side.transport is not None
            assert side.transport.get_write_buffer_size() < 4 << 20, "of 60 MB that wait"
            deaf.writer.transport.resume_reading()
            got = 0
            while got < 60:
                data = await deaf.reader.read(2**20)
                got += len(deaf.rpc.receive_data(data))
        finally:
            AmConnection.pause_writing = real  # type: ignore[method-assign]
        deaf.close()
        other.close()


async def test_a_login_waits_for_a_resource_manager_that_is_away() -> None:
    async with hub_of() as (hub, _, rm):
        loop = asyncio.get_running_loop()
        with socket.socket() as away:
            away.bind(("127.0.0.1", 0))
            parts = hub.parts(Address(*away.getsockname()))
            async with await loop.create_server(lambda: AmConnection(parts), "127.0.0.1", 0) as server:
                port = server.sockets[0].getsockname()[1]
                early = asyncio.create_task(RegisteredMaster.connect("127.0.0.1", port))
                await hub.until(lambda: parts.upstream.down is not None)
                async with await loop.create_server(rm, sock=away):
                    master = await early
                    assert await master.beat() == 1 and rm.opened == 1 and parts.upstream.down is None
                    master.close()
                    await hub.until(lambda: not hub.open_connections)


async def test_a_fault_of_our_own_ends_one_connection_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with hub_of() as (hub, port, _):
        master = await RegisteredMaster.connect("127.0.0.1", port)
        other = await RegisteredMaster.connect("127.0.0.1", port, app=2)
        await master.beat()

        def broken(*_: object) -> None:
            raise RuntimeError("a bug")

        side = next(
            c for c in hub.open_connections if c.relay.attempt is not None and c.relay.attempt.app_id.endswith("1")
        )
        monkeypatch.setattr(side.relay.attempt.exchange, "on_allocate", broken)
        with pytest.raises(ConnectionError):
            await master.beat()
        assert await other.beat() == 1
        master.close()
        other.close()
    assert hub.faults == [(FaultKind.INTERNAL, "application_1700000000000_0001")]
    assert hub.renewed == ["appattempt_1700000000000_0001_000001"]


async def test_malformed_bytes_of_a_master_are_a_fault_of_its_application_alone() -> None:
    async with hub_of() as (hub, port, _):
        good = await RegisteredMaster.connect("127.0.0.1", port, app=9)
        for number in range(1, 4):
            broken = await RegisteredMaster.connect("127.0.0.1", port, app=number)
            broken.writer.write(b"\x00\x00\x00\x03\xff\xff\xff")
            assert await broken.reader.read() == b""
            broken.close()
        assert await good.beat() == 1
        good.close()
    assert hub.faults == [(FaultKind.PROTOCOL, f"application_1700000000000_000{number}") for number in range(1, 4)]


async def test_methods_that_masters_invent_make_no_metrics() -> None:
    async with hub_of() as (hub, port, _):
        master = await RegisteredMaster.connect("127.0.0.1", port)
        for number in range(5):
            master.writer.write(master.rpc.call(f"invented{number}", AM_PROTOCOL, y.AllocateRequestProto()))
            await master.event()
        text = hub.metrics.exposition().decode()
        assert "invented" not in text and 'calls_total{method="other"} 5.0' in text
        master.close()


def test_connections_fit_the_files_that_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "raise_open_files", lambda *_: 1_000)
    settings = ProxySettings(max_connections=5_000, rest_connections=100)
    assert connection_limit(settings) == (1_000 - 200 - 100) // 2
    assert connection_limit(ProxySettings(max_connections=300)) == (800 - 266) // 2
    monkeypatch.setattr(connection_limits, "raise_open_files", lambda *_: 100_000)
    assert connection_limit(settings) == 5_000


async def test_calls_on_their_way_are_answered_before_the_proxy_stops() -> None:
    async with hub_of() as (hub, port, rm):
        held: list[Callable[[], None]] = []
        real, holds = rm.data_received, False

        def received(stand_in: StandIn, data: bytes) -> None:
            if holds:
                held.append(lambda: real(stand_in, data))
            else:
                real(stand_in, data)

        rm.data_received = received  # type: ignore[assignment, method-assign]
        calling = await RegisteredMaster.connect("127.0.0.1", port)
        quiet = await RegisteredMaster.connect("127.0.0.1", port, app=2)
        assert (await calling.beat(), await quiet.beat()) == (1, 1)
        holds = True
        calling.ask()
        await hub.until(lambda: bool(held))
        stopped = asyncio.create_task(hub.connections.finish())
        assert await quiet.reader.read(1) == b"", "who has no call on its way is let go at once"
        held.pop()()
        assert isinstance(await calling.event(), Response)
        assert await calling.reader.read(1) == b""
        await stopped
        calling.close()
        quiet.close()
