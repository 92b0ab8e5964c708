"""The proxy's port is open just while the ResourceManager's is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

from quicksilver.common.address import Address
from quicksilver.common.process.listening import bound_socket
from quicksilver_lab.cluster.ports import free_port
from rm_proxy.service.connections.listener import Listener


class Polite(asyncio.Protocol):
    """Takes a connection and closes it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 the other side is the kernel
            await asyncio.sleep(0.005)


def listening_socket() -> socket.socket:
    """Return one bound to a port by its number, as the proxy is: one that the kernel chose would be lost."""
    return bound_socket("127.0.0.1", free_port())


async def lets_in(address: tuple[str, int]) -> bool:
    """Return whether it was served: taken, and closed by the other side."""
    try:
        reader, writer = await asyncio.open_connection(*address)
    except ConnectionRefusedError:
        return False
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return False
    finally:
        writer.close()


async def test_it_follows_the_port_behind() -> None:
    turns: list[bool] = []
    behind = socket.create_server(("127.0.0.1", 0))
    upstream = behind.getsockname()
    listening = listening_socket()
    copy, here = listening.dup(), listening.getsockname()
    listener = Listener(listening, Address(*upstream), Polite, turns.append, every_s=0.05, timeout_s=5)
    await listener.start()
    assert await lets_in(here)
    for _ in range(2):
        behind.close()
        listener.check_soon()

        async def shut() -> bool:
            return not await lets_in(here)

        await until(shut)
        assert not copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        behind = socket.create_server(upstream)
        await until(lambda: lets_in(here))
    listener.refused()
    assert not await lets_in(here)
    listener.close()
    behind.close()
    copy.close()
    assert turns == [True, False, True, False, True, False]


async def test_it_begins_shut_where_nobody_listens() -> None:
    turns: list[bool] = []

    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        listening = listening_socket()
        here = listening.getsockname()
        listener = Listener(listening, Address(*nobody.getsockname()), Polite, turns.append, every_s=9, timeout_s=5)
        await listener.start()
        assert not await lets_in(here)
        listener.close()
    assert turns == [False]
