"""Connections whose handshake was not over when the sidecar died: kept, taken over, given up when they are silent."""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from quicksilver.common.process import fdstore
from sidecar.connections import handshake_handover
from tests.sidecar.fakes import FakeAm, cid, start_request
from tests.sidecar.service.test_server import until, world


class Keeper:
    """Takes what a process wants kept."""

    def __init__(self, path: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(str(path))
        self.sock.setblocking(False)
        self.kept: dict[str, list[int]] = {}
        self.ever: list[str] = []

    def read(self) -> dict[str, list[int]]:
        """Handle what was said; return what is kept of handshakes."""
        while True:
            try:
                data, numbers, _, _ = socket.recv_fds(self.sock, 4096, 10)
            except BlockingIOError:
                return {name: numbers for name, numbers in self.kept.items() if "handshake" in name}
            fields = dict(line.split("=", 1) for line in data.decode().splitlines())
            name = fields.get("FDNAME", "")
            if "FDSTORE" in fields:
                self.kept[name] = list(numbers)
                self.ever.append(name)
            elif "FDSTOREREMOVE" in fields:
                for number in self.kept.pop(name, []):
                    os.close(number)


@pytest.fixture
def keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keeper]:
    keeper = Keeper(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setattr(fdstore, "_inherited", None)
    yield keeper
    keeper.read()
    for numbers in keeper.kept.values():
        for number in numbers:
            os.close(number)
    keeper.sock.close()


async def test_a_connection_is_kept_while_its_handshake_lasts(tmp_path: Path, keeper: Keeper) -> None:
    async with world(tmp_path) as w:
        silent = await asyncio.open_connection("127.0.0.1", w.port)
        await until(lambda: len(keeper.read()) == 1)
        (numbers,) = keeper.read().values()
        peers = [socket.socket(fileno=os.dup(number)) for number in numbers]
        assert peers[0].getpeername() == silent[1].get_extra_info("sockname")
        assert peers[1].getpeername() == ("127.0.0.1", w.nm.port)
        for peer in peers:
            peer.close()
        silent[1].close()
        await until(lambda: not keeper.read())
        am = await FakeAm.connect(w.port)
        await am.start(start_request(cid(2), opportunistic=False))
        await am.close()
        await until(lambda: not keeper.read())
        assert len({name for name in keeper.ever if "handshake" in name}) == 2


async def test_the_next_life_passes_it_on(tmp_path: Path, keeper: Keeper) -> None:
    client, ours = socket.socketpair()
    theirs, nodemanager = socket.socketpair()
    name = "sidecar-handshake-1-1"
    fdstore.hand_over(
        [(name, ours.detach()), (name, theirs.detach()), ("sidecar-handshake-1-2", os.dup(client.fileno()))]
    )
    client.settimeout(60)
    nodemanager.settimeout(60)

    async with world(tmp_path):
        await asyncio.to_thread(client.sendall, b"proof")
        assert await asyncio.to_thread(nodemanager.recv, 100) == b"proof"
        await asyncio.to_thread(nodemanager.sendall, b"success")
        assert await asyncio.to_thread(client.recv, 100) == b"success"
        nodemanager.close()
        assert await asyncio.to_thread(client.recv, 100) == b""
    client.close()


async def test_a_silent_one_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake_handover, "SILENT_S", 0.05)
    client, ours = socket.socketpair()
    theirs, nodemanager = socket.socketpair()
    client.settimeout(60)

    await handshake_handover.pass_on("n", ours, theirs)
    assert await asyncio.to_thread(client.recv, 1) == b""
    client.close()
    nodemanager.close()


def early(keeper: Keeper) -> dict[str, list[int]]:
    """Return what is kept of connections that nobody has read."""
    keeper.read()
    return {name: numbers for name, numbers in keeper.kept.items() if "early" in name}


async def test_who_is_not_read_yet_begins_anew_in_the_next_life(
    tmp_path: Path, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The NodeManager does not answer: nothing of the client is read until it does, in this life or the next."""

    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    async with world(tmp_path / "one") as w:
        await w.nm.stop()
        connecting = asyncio.create_task(FakeAm.connect(w.port))
        await until(lambda: len(early(keeper)) == 1)
        ((name, numbers),) = early(keeper).items()
        assert select.select(numbers, [], [], 60)[0], "what the client sent was read"
        kept = os.dup(numbers[0])
    assert early(keeper), "the next process takes it"
    monkeypatch.setattr(fdstore, "_inherited", None)
    fdstore.hand_over([(name, kept)])
    async with world(tmp_path / "two") as w:
        am = await connecting
        answer = await am.start(start_request(cid(2), opportunistic=False))
        assert len(answer.succeeded_requests) == 1
        await until(lambda: not early(keeper))
        await am.close()


async def test_who_hangs_up_before_it_is_read_is_not_kept(
    tmp_path: Path, keeper: Keeper, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path) as w:
        await w.nm.stop()
        _, writer = await asyncio.open_connection("127.0.0.1", w.port)
        writer.write(b"hrpc")
        await until(lambda: len(early(keeper)) == 1)
        writer.close()
        await until(lambda: not early(keeper))
        await until(lambda: not w.sidecar.dispatcher.gates.connections)
    assert [one for one in caplog.records if one.name == "asyncio"] == []


async def test_who_waits_too_long_for_the_nodemanager_is_closed(tmp_path: Path, keeper: Keeper) -> None:
    async with world(tmp_path, handshake_timeout_s=1.5) as w:
        await w.nm.stop()
        reader, writer = await asyncio.open_connection("127.0.0.1", w.port)
        await until(lambda: len(early(keeper)) == 1)
        await until(lambda: not early(keeper))
        assert await reader.read() == b""
        await until(lambda: not w.sidecar.dispatcher.gates.connections)
        writer.close()
