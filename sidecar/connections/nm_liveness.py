"""Keeps a silent connection to the NodeManager, to notice its end and its return at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from quicksilver.common.address import Address
from quicksilver.common.process.logs import get_logger

log = get_logger(__name__)
_AGAIN_S: Final = 0.25
"""Delay between two tries to connect, also after a connection that a running NodeManager closed."""


class NmLiveness:
    """`changed(why)` is called when the NodeManager stops answering, with the reason, and with "" when it answers.

    Nothing is ever sent: Hadoop's server reads a connection's header when it comes, and closes idle connections only
    beyond `ipc.client.idlethreshold` (Server.ConnectionManager.closeIdle); a closed one is opened again.
    """

    def __init__(self, upstream: Address, connect_timeout_s: float, changed: Callable[[str], None]) -> None:
        self.why: str | None = None
        """Why it does not answer, "" when it does; None before the first try."""
        self._upstream, self._timeout_s, self._changed = upstream, connect_timeout_s, changed

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._timeout_s):
                    reader, writer = await asyncio.open_connection(*self._upstream)
            except (OSError, TimeoutError) as error:
                self._say(f"nobody answers at {self._upstream}: {_words(error)}")
            else:
                try:
                    self._say("")
                    await _until_closed(reader)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(_AGAIN_S)

    def _say(self, why: str) -> None:
        before, self.why = self.why, why
        if bool(why) == bool(before) and before is not None:
            return
        if why:
            log.warning("the NodeManager is down", why=why)
        elif before:
            log.info("the NodeManager is up again")
        self._changed(why)


async def _until_closed(reader: asyncio.StreamReader) -> None:
    """Wait until the connection ends, cleanly or not."""
    try:
        while await reader.read(1024):
            pass
    except OSError as error:
        log.debug("the silent connection to the NodeManager broke", why=str(error))


def _words(error: Exception) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
