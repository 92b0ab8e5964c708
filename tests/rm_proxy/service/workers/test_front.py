"""The front: logins go to the workers of their applications, REST connections by their paths; nothing is lost."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from quicksilver.common.address import Address
from quicksilver.common.process.listening import bound_socket
from rm_proxy.config import ProxySettings
from rm_proxy.service.workers import sockets
from rm_proxy.service.workers.front import Front
from tests.fake_rm import RegisteredMaster, StandIn

COUNT = 2


@dataclass
class Place:
    """A front before a stand-in, and the workers' ends of its channels."""

    listen: int
    rest: int
    workers: list[socket.socket]

    async def gets(self, worker: int) -> tuple[sockets.Message, list[socket.socket]]:
        """Return the next message of a worker that is not about the ResourceManager."""
        async with asyncio.timeout(60):
            while True:
                for message, ends in sockets.receive(self.workers[worker]):
                    if not isinstance(message, sockets.RmState):
                        return message, ends
                await asyncio.sleep(0.005)


@asynccontextmanager
async def front(tmp_path: Path, **settings: object) -> AsyncIterator[Place]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(StandIn, "127.0.0.1", 0)
    upstream = Address("127.0.0.1", server.sockets[0].getsockname()[1])
    listen, rest = bound_socket("127.0.0.1", 0), bound_socket("127.0.0.1", 0)
    channels = [sockets.channel() for _ in range(COUNT)]
    made = Front(ProxySettings.model_validate(settings), upstream, [ends[0] for ends in channels])
    place = Place(listen.getsockname()[1], rest.getsockname()[1], [ends[1] for ends in channels])
    await made.start(listen, rest)
    try:
        yield place
    finally:
        made.close()
        await asyncio.sleep(0.05)
        for ends in channels:
            for end in ends:
                end.close()
        rest.close()
        server.close()


async def forward(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes on until the end."""
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, 65536):
        await loop.sock_sendall(target, data)


async def test_a_login_goes_to_the_worker_of_its_application_with_all_its_bytes(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    async with front(tmp_path) as place:
        connecting = asyncio.create_task(RegisteredMaster.connect("127.0.0.1", place.listen, app=3))
        login, (to_master, to_rm) = await place.gets(1)
        assert isinstance(login, sockets.MasterLogin)
        assert [from_master for from_master, _ in login.chunks] == [True, False, True, False]
        assert login.relayed == 3, "the master does not know yet that it is let in"
        for end in (to_master, to_rm):
            end.setblocking(False)
        await loop.sock_sendall(to_master, login.chunks[-1][1])
        pumps = [asyncio.create_task(forward(*ends)) for ends in ((to_master, to_rm), (to_rm, to_master))]
        master = await connecting
        await master.register()
        assert [await master.beat(), await master.beat()] == [1, 2]
        master.close()
        await pumps[0]
        to_rm.close()
        pumps[1].cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        to_master.close()


async def test_other_applications_go_to_other_workers(tmp_path: Path) -> None:
    async with front(tmp_path) as place:
        for app, worker in ((2, 0), (3, 1), (4, 0)):
            connecting = asyncio.create_task(RegisteredMaster.connect("127.0.0.1", place.listen, app))
            login, ends = await place.gets(worker)
            assert isinstance(login, sockets.MasterLogin)
            ends[0].sendall(login.chunks[-1][1])
            (await connecting).close()
            for end in ends:
                end.close()


async def test_rest_connections_go_unread_by_their_paths(tmp_path: Path) -> None:
    async with front(tmp_path) as place:
        _, writer = await asyncio.open_connection("127.0.0.1", place.rest)
        writer.write(b"GET /v1/applications/applica")
        await asyncio.sleep(0.05)
        writer.write(b"tion_17_0005 HTTP/1.1\r\nHost: x\r\n\r\n")
        message, (call,) = await place.gets(1)
        assert isinstance(message, sockets.RestSocket)
        assert call.recv(16) == b"GET /v1/applicat"
        call.close()
        writer.close()
        silent = socket.create_connection(("127.0.0.1", place.rest))
        silent.close()


async def test_malformed_bytes_end_a_login(tmp_path: Path) -> None:
    async with front(tmp_path) as place:
        reader, writer = await asyncio.open_connection("127.0.0.1", place.listen)
        writer.write(b"nonsense that is no Hadoop RPC" * 10)
        assert await reader.read() == b""
        writer.close()


async def test_a_login_that_does_not_end_is_closed(tmp_path: Path) -> None:
    async with front(tmp_path, handshake_timeout_s=0.2) as place:
        reader, writer = await asyncio.open_connection("127.0.0.1", place.listen)
        assert await reader.read() == b""
        writer.close()


async def test_a_worker_that_asks_hears_whether_the_resourcemanager_is_there(tmp_path: Path) -> None:
    async with front(tmp_path) as place:
        sockets.send(place.workers[1], sockets.StateWanted())
        states = list[bool]()
        async with asyncio.timeout(60):
            while len(states) < 2:  # it said so when it found out
                states += [m.is_open for m, _ in sockets.receive(place.workers[1]) if isinstance(m, sockets.RmState)]
                await asyncio.sleep(0.005)
        assert states == [True, True]
