"""Connecting to who may be starting again."""

from __future__ import annotations

import asyncio

import pytest

from quicksilver.common.process import dial as dialing
from quicksilver.common.process.dial import dial
from quicksilver_lab.cluster.ports import free_port


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialing, "AGAIN_S", 0.01)


def test_who_comes_back_is_reached() -> None:
    async def run() -> tuple[bool, int]:
        port, refused = free_port(), 0
        servers: list[asyncio.Server] = []

        async def connect() -> None:
            nonlocal refused
            if refused == 2 and not servers:
                servers.append(await asyncio.start_server(lambda _, w: w.close(), "127.0.0.1", port))
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()

        def told(error: OSError) -> None:
            nonlocal refused
            refused += 1

        reached = await dial(connect, timeout_s=5, refused=told, has_client=lambda: True)
        servers[0].close()
        return reached, refused

    assert asyncio.run(run()) == (True, 2)


def test_who_has_gone_is_not_dialed_for() -> None:
    async def run() -> tuple[bool, int]:
        errors: list[OSError] = []

        async def connect() -> None:
            raise ConnectionRefusedError

        reached = await dial(connect, timeout_s=5, refused=errors.append, has_client=lambda: len(errors) < 3)
        return reached, len(errors)

    assert asyncio.run(run()) == (False, 3)


def test_what_else_goes_wrong_is_raised() -> None:
    async def broken() -> None:
        raise OSError("no route")

    async def slow() -> None:
        await asyncio.sleep(60)

    for connect in (broken, slow):
        with pytest.raises(OSError):
            asyncio.run(dial(connect, timeout_s=0.01, refused=lambda _: None, has_client=lambda: True))
