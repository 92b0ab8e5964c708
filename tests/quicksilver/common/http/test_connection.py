"""Answers on the wire: what the kernel is called for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from quicksilver.common.http.connection import BoundedConnection, _AnswerWriter

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


class Recorder(asyncio.Transport):
    """A transport that keeps each piece that it is to write."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.pieces.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        """The connection reads one request after the other."""

    def resume_reading(self) -> None:
        """The connection reads on."""


def pieces(request: bytes, parts: list[bytes], pause_s: float | None = None) -> Recorder:
    """Return what a connection writes for a request, when the application answers with a head and these parts.

    pause_s: a pause after the head.
    """

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        length = sum(map(len, parts))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % length)]})
        if pause_s is not None:
            await asyncio.sleep(pause_s)
        for number, part in enumerate(parts, 1):
            await send({"type": "http.response.body", "body": part, "more_body": number < len(parts)})

    async def work() -> Recorder:
        config = Config(app, log_config=None, lifespan="off", http=BoundedConnection, date_header=False)
        config.load()
        transport = Recorder()
        connection = BoundedConnection(config=config, server_state=ServerState(), app_state={})
        connection.connection_made(transport)
        connection.data_received(request)
        for _ in range(5):
            await asyncio.sleep(0.01)
        transport.closed = True
        connection.connection_lost(None)
        return transport

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("parts", "pause_s", "count"),
    [([b"hello"], None, 1), ([b"hel", b"lo"], None, 2), ([b"hello"], 0.005, 2)],
    ids=["at once", "in parts", "later"],
)
def test_a_head_goes_with_what_follows_at_once(parts: list[bytes], pause_s: float | None, count: int) -> None:
    written = pieces(GET + b"\r\n", parts, pause_s).pieces
    assert len(written) == count and written[0].startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"".join(written).endswith(b"\r\n\r\nhello")


def test_each_of_two_requests_in_one_piece_has_its_answer() -> None:
    written = pieces((GET + b"\r\n") * 2, [b"hello"]).pieces
    assert len(written) == 2 and all(piece.endswith(b"hello") for piece in written)


def test_all_is_written_before_the_end() -> None:
    (answer,) = pieces(GET + b"Connection: close\r\n\r\n", [b"hello"]).pieces
    assert answer.endswith(b"connection: close\r\n\r\nhello")


@pytest.mark.parametrize("given_up", [False, True])
def test_a_head_that_waits_is_not_written_to_a_connection_that_was_given_up(given_up: bool) -> None:
    async def work() -> list[bytes]:
        transport = Recorder()
        _AnswerWriter(transport, asyncio.get_running_loop()).write(b"head")
        transport.closed = given_up
        await asyncio.sleep(0)
        return transport.pieces

    assert asyncio.run(work()) == ([] if given_up else [b"head"])
