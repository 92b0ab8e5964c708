"""HTTP connections with timeouts: for a request that does not arrive, and for an answer that is not read."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from quicksilver.common.process.limits import Seldom

REQUEST_S: Final = 30.0
"""Time for a whole request to arrive, from its first byte or the connection's begin on; then it is given up."""
ANSWER_S: Final = 30.0
"""Time after which an answer is given up if the client reads nothing of it."""
_seldom = Seldom()


class PatientProtocol(HttpToolsProtocol):
    """One connection. Between two requests uvicorn's own `timeout_keep_alive` counts."""

    request_s = REQUEST_S
    answer_s = ANSWER_S

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._coming: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Take bytes; the first of a request begin its time."""
        if self._coming is None:
            self._expect()
        super().data_received(data)

    def on_message_complete(self) -> None:
        """Note that the whole request has arrived."""
        super().on_message_complete()
        self._arrived()

    def pause_writing(self) -> None:
        """Wait for the reader of an answer."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.answer_s, self._give_up, "an answer that nobody reads")

    def resume_writing(self) -> None:
        """Note that it reads."""
        self._read()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeouts."""
        self._arrived()
        self._read()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._coming = self.loop.call_later(self.request_s, self._give_up, "a request that does not come")

    def _arrived(self) -> None:
        if self._coming is not None:
            self._coming.cancel()
            self._coming = None

    def _read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _give_up(self, why: str) -> None:
        peer = self.client[0] if self.client else "?"
        _seldom.warning("REST connection closed", why=why, peer=peer)
        self.transport.abort()
