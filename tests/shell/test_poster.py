import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from pydantic import BaseModel

from shell.poster import MAX_ANSWER, Poster
from shell.rest import RefusedError, UnreachableError
from shell.security import Credentials

NOTHING = b"HTTP/1.1 204 No Content\r\n\r\n"
WHY = b'{"error": {"code": "busy", "message": "not yet"}}'
BUSY = b"HTTP/1.1 409 Conflict\r\ncontent-length: %d\r\n\r\n" % len(WHY) + WHY


class Body(BaseModel):
    text: str


class Server:
    """Answers one request after the other with what it was given; `b""` closes the connection, None says nothing."""

    def __init__(self, answers: list[bytes | None]) -> None:
        self.answers, self.requests = answers, []
        self.writers: dict[asyncio.StreamWriter, asyncio.Event] = {}
        self.url = ""
        self.closed = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        over = self.writers[writer] = asyncio.Event()
        while head := await self._head(reader):
            length = int(head.rpartition(b"Content-Length: ")[2].split(b"\r\n")[0])
            self.requests.append((head, await reader.readexactly(length)))
            answer = self.answers.pop(0)
            if answer == b"":
                break
            if answer is not None:
                writer.write(answer)
        writer.close()
        self.closed.set()
        over.set()

    async def end(self) -> None:
        for writer, over in self.writers.items():
            writer.transport.abort()
            await over.wait()

    @staticmethod
    async def _head(reader: asyncio.StreamReader) -> bytes:
        try:
            return await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""


@asynccontextmanager
async def serving(*answers: bytes | None):  # type: ignore[no-untyped-def]
    server = Server(list(answers))
    listening = await asyncio.start_server(server, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        await server.end()


def run(play: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(play())  # type: ignore[arg-type]


def test_calls_go_over_one_connection() -> None:
    async def play() -> None:
        async with serving(NOTHING, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", NOTHING) as server:
            poster = Poster(server.url + "/", credentials=Credentials(lambda: "secret"))
            for text in ("a", "é", "c"):
                await poster.post("/v1/grants", Body(text=text))
            poster.close()
            await server.closed.wait()
            assert len(server.writers) == 1
            assert [body for _, body in server.requests] == [f'{{"text":"{t}"}}'.encode() for t in ("a", "é", "c")]
            assert server.requests[0][0].startswith(b"POST /v1/grants HTTP/1.1\r\nHost: 127.0.0.1:")
            assert b"\r\nAuthorization: Bearer secret\r\n" in server.requests[2][0]

    run(play)


@pytest.mark.parametrize(
    ("answers", "connections"),
    [
        ((b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n", NOTHING), 2),
        ((BUSY, NOTHING), 1),
        ((b"", NOTHING), 2),
        ((b"nonsense\r\n\r\n", NOTHING), 2),
        ((b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (MAX_ANSWER + 1) + b"x" * (MAX_ANSWER + 1), NOTHING), 2),
        ((NOTHING + NOTHING, NOTHING), 2),
        ((None, NOTHING), 2),
    ],
)
def test_the_next_call_works_after_whatever_came(answers: tuple[bytes | None, ...], connections: int) -> None:
    async def play() -> None:
        async with serving(*answers) as server:
            poster = Poster(server.url, timeout_s=0.3 if answers[0] is None else 20.0)
            failed = False
            try:
                await poster.post("/x", Body(text="a"))
            except (UnreachableError, RefusedError):
                failed = True
            assert failed is (not (answers[0] or b"").startswith(b"HTTP/1.1 204"))
            if answers[0] == NOTHING + NOTHING:
                await server.closed.wait()
            await poster.post("/x", Body(text="b"))
            assert (len(server.writers), len(server.requests)) == (connections, 2)
            poster.close()

    run(play)


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (BUSY, RefusedError, "not yet"),
        (b"HTTP/1.1 307 Temporary Redirect\r\nlocation: http://x/\r\ncontent-length: 0\r\n\r\n", RefusedError, "307"),
        (b"", UnreachableError, "closed"),
        (None, UnreachableError, "no answer within 0.2 s"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 70000\r\n\r\n" + b"x" * 70000, UnreachableError, "more than 65536 bytes"),
    ],
)
def test_what_goes_wrong_is_told(answer: bytes | None, error: type[Exception], words: str) -> None:
    async def play() -> None:
        async with serving(answer) as server:
            poster = Poster(server.url, timeout_s=0.2 if answer is None else 20.0)
            with pytest.raises(error, match=words):
                await poster.post("/x", Body(text="a"))
            poster.close()

    run(play)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h:1",
        "nothing",
        "http://",
        "http://h:99999",
        "http://h:x",
        "http://a b:1",
        "http://u@h:1",
        "http://h\x00:1",
    ],
)
def test_what_is_no_address_is_not_dialed(url: str) -> None:
    async def play() -> None:
        with pytest.raises(UnreachableError, match="is no http"):
            await Poster(url).post("/x", Body(text="a"))

    run(play)


def test_nobody_listens() -> None:
    async def play() -> None:
        async with serving() as server:
            url = server.url
        with pytest.raises(UnreachableError, match="connection refused"):
            await Poster(url).post("/x", Body(text="a"))

    run(play)
