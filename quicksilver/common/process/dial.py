"""Connects to a daemon that may be restarting: refused connections are retried."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

AGAIN_S: Final = 0.2


async def dial(
    connect: Callable[[], Awaitable[object]],
    *,
    timeout_s: float,
    refused: Callable[[OSError], None],
    has_client: Callable[[], bool],
) -> bool:
    """Connect; retry while nothing listens there and `has_client()`. Returns whether it is connected.

    A client whose connection is accepted and closed before its login gives up where it would have tried again had it
    been refused (org.apache.hadoop.ipc.Client.setupIOstreams wraps what breaks a login): so it waits.
    timeout_s: of one attempt. `refused` is called for each refusal. Other errors raise OSError (TimeoutError).
    """
    while True:
        try:
            async with asyncio.timeout(timeout_s):
                await connect()
            return True
        except ConnectionRefusedError as error:
            refused(error)
        await asyncio.sleep(AGAIN_S)
        if not has_client():
            return False
