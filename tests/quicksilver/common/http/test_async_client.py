import asyncio
import gc
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from pydantic import BaseModel

from quicksilver.common.errors import SettingsError
from quicksilver.common.http.async_client import MAX_ANSWER, AsyncRestClient
from quicksilver.common.http.rest_errors import RefusedError, UnreachableError
from quicksilver.common.http.security import Credentials

pytestmark = pytest.mark.filterwarnings("default:unclosed resource:ResourceWarning")
"""As an error it would keep a loop of uvloop from its end: tests/loops.py."""

NOTHING = b"HTTP/1.1 204 No Content\r\n\r\n"
WHY = b'{"error": {"code": "busy", "message": "not yet"}}'
BUSY = b"HTTP/1.1 409 Conflict\r\ncontent-length: %d\r\n\r\n" % len(WHY) + WHY


@pytest.fixture(autouse=True, scope="module")
def only_what_is_made_here() -> None:
    """Have `run` collect what its plays made; all that a long session made before takes a third of a second a test."""
    gc.collect()
    gc.freeze()


class Body(BaseModel):
    text: str


class Server:
    """Answers one request after the other with what it was given; `b""` closes the connection, None says nothing."""

    def __init__(self, answers: list[bytes | None]) -> None:
        self.answers, self.requests = answers, []
        self.writers: dict[asyncio.StreamWriter, asyncio.Event] = {}
        self.url = ""
        self.asked, self.closed = asyncio.Event(), asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        over = self.writers[writer] = asyncio.Event()
        while head := await self._head(reader):
            length = int(head.rpartition(b"Content-Length: ")[2].split(b"\r\n")[0]) if b"Content-Length" in head else 0
            self.requests.append((head, await reader.readexactly(length)))
            self.asked.set()
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
    """Run it on both loops. A loop's handler of exceptions, which counts faults of the proxy, may hear of nothing."""
    for loops in (asyncio.new_event_loop, uvloop.new_event_loop):
        told: list[dict[str, Any]] = []

        async def watched(told: list[dict[str, Any]] = told) -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
            await play()

        with asyncio.Runner(loop_factory=loops) as runner:
            runner.run(watched())
        gc.collect()
        assert told == []


def test_calls_go_over_one_connection() -> None:
    async def play() -> None:
        async with serving(NOTHING, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", NOTHING) as server:
            poster = AsyncRestClient(credentials=Credentials(lambda: "secret"))
            for text in ("a", "é", "c"):
                await poster.post(f"{server.url}/v1/grants", Body(text=text))
            await poster.close()
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
        ((b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (MAX_ANSWER + 2) + b"x" * (MAX_ANSWER + 1), NOTHING), 2),
        ((NOTHING + NOTHING, NOTHING), 1),
        ((None, NOTHING), 2),
    ],
)
def test_the_next_call_works_after_whatever_came(answers: tuple[bytes | None, ...], connections: int) -> None:
    async def play() -> None:
        async with serving(*answers) as server:
            poster = AsyncRestClient(timeout_s=1.5 if answers[0] is None else 20.0)
            failed = False
            try:
                await poster.post(f"{server.url}/x", Body(text="a"))
            except (UnreachableError, RefusedError):
                failed = True
            assert failed is (not (answers[0] or b"").startswith(b"HTTP/1.1 204"))
            await poster.post(f"{server.url}/x", Body(text="b"))
            assert (len(server.writers), len(server.requests)) == (connections, 2)
            await poster.close()

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
            poster = AsyncRestClient(timeout_s=0.2 if answer is None else 20.0)
            with pytest.raises(error, match=words):
                await poster.post(f"{server.url}/x", Body(text="a"))
            await poster.close()

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
        "http://h:0",
        "http://a..b:1",
        f"http://{'a' * 64}:1",
        "http://[:::]:1",
    ],
)
def test_what_is_no_address_is_not_dialed(url: str) -> None:
    async def play() -> None:
        with pytest.raises(UnreachableError, match="is no http"):
            await AsyncRestClient().post(f"{url}/x", Body(text="a"))

    run(play)


def test_nobody_listens() -> None:
    async def play() -> None:
        async with serving() as server:
            url, poster = server.url, AsyncRestClient()
        with pytest.raises(UnreachableError, match="connection refused"):
            await poster.post(f"{url}/x", Body(text="a"))
        await poster.close()

    run(play)


def test_a_call_that_is_given_up_leaves_no_answer_for_the_next_one() -> None:
    async def play() -> None:
        async with serving(None, BUSY) as server:
            poster = AsyncRestClient(timeout_s=20.0, threads=1)  # which is free again at once
            call = asyncio.ensure_future(poster.post(f"{server.url}/x", Body(text="a")))
            await server.asked.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            with pytest.raises(RefusedError, match="not yet"):
                await poster.post(f"{server.url}/x", Body(text="b"))
            assert (len(server.writers), len(server.requests)) == (2, 2)
            await poster.close()

    run(play)


def test_closing_ends_calls_those_that_wait_for_a_thread_too() -> None:
    async def play() -> None:
        async with serving(None) as silent, serving(NOTHING) as server:
            poster = AsyncRestClient(timeout_s=20.0, threads=1)
            calls = [asyncio.ensure_future(poster.post(f"{to.url}/x", Body(text="a"))) for to in (silent, server)]
            await silent.asked.wait()
            await poster.close()
            assert [type(error) for error in await asyncio.gather(*calls, return_exceptions=True)] == [
                UnreachableError,
                UnreachableError,
            ]
            assert server.requests == []

    run(play)


def test_calls_of_one_server_wait_for_each_other_and_those_of_another_do_not() -> None:
    async def play() -> None:
        async with serving(None) as silent, serving(*[NOTHING] * 5) as server:
            poster = AsyncRestClient(timeout_s=20.0)
            stuck = asyncio.ensure_future(poster.post(f"{silent.url}/x", Body(text="a")))
            await asyncio.gather(*(poster.post(f"{server.url}/x", Body(text=str(n))) for n in range(5)))
            assert (len(server.writers), len(server.requests), stuck.done()) == (1, 5, False)
            stuck.cancel()
            await asyncio.gather(stuck, return_exceptions=True)
            await poster.close()

    run(play)


def test_a_token_is_not_sent_in_the_clear() -> None:
    async def play() -> None:
        poster = AsyncRestClient(credentials=Credentials(lambda: "secret"))
        for _ in range(2):
            with pytest.raises(SettingsError, match="in the clear"):
                await poster.post("http://192.0.2.1:1/x", Body(text="a"))
        await poster.close()

    run(play)


FOUND = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n{"a":1}'
PAGE = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\n<hi>"


async def got(server: Server, **settings: Any) -> Any:
    client = AsyncRestClient(**settings)
    try:
        return await client.get(f"{server.url}/list", {"states": "A,B", "name": "é&"})
    finally:
        await client.close()


def test_a_get_returns_json_and_sends_its_parameters() -> None:
    async def play() -> None:
        async with serving(FOUND) as server:
            assert await got(server) == {"a": 1}
            assert server.requests[0][0].startswith(b"GET /list?states=A,B&name=%C3%A9%26 HTTP/1.1\r\n")

    run(play)


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (PAGE, RefusedError, "answered text/html instead of JSON"),
        (BUSY, RefusedError, "not yet"),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", RefusedError, "answered 404 Not Found"),
        (None, UnreachableError, "no answer within 0.2 s; look at it"),
        (b"", UnreachableError, "closed; look at it"),
    ],
)
def test_a_get_that_fails_says_why(answer: bytes | None, error: type[Exception], words: str) -> None:
    async def play() -> None:
        async with serving(answer, answer) as server:  # a lost GET is repeated once
            with pytest.raises(error, match=words):
                await got(server, timeout_s=0.2 if answer is None else 20.0, remedy="look at it")

    run(play)


def test_an_answer_of_brackets_is_refused() -> None:
    async def play() -> None:
        brackets = b"[" * 60_000
        async with serving(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(brackets) + brackets) as server:
            with pytest.raises(RefusedError, match="instead of JSON"):
                await got(server)

    run(play)


def test_a_dripping_answer_ends_at_the_total_time() -> None:
    async def play() -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\n"
        async with serving(head) as server:

            async def drip() -> None:
                await server.asked.wait()
                while True:
                    for writer in list(server.writers):
                        writer.write(b" ")
                    await asyncio.sleep(0.01)

            dripping = asyncio.create_task(drip())
            with pytest.raises(UnreachableError):
                await got(server, timeout_s=20.0, get_total_s=0.3)
            dripping.cancel()

    run(play)


def test_a_redirect_is_followed_only_where_it_may_be_and_without_credentials() -> None:
    async def play() -> None:
        async with serving(FOUND) as there:
            to = f"{there.url}/there".encode()
            moved = b"HTTP/1.1 307 Temporary Redirect\r\nlocation: %b\r\ncontent-length: 0\r\n\r\n" % to
            async with serving(moved, moved) as server:
                assert await got(server, redirects=True) == {"a": 1}
                with pytest.raises(RefusedError, match="307"):
                    await got(server, redirects=True, credentials=Credentials(lambda: "secret"))
            async with serving(moved) as server:
                with pytest.raises(RefusedError, match="307"):
                    await got(server)
            assert len(there.requests) == 1

    run(play)
