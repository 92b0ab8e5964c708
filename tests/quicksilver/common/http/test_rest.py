import asyncio
import json
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import requests
from fastapi import FastAPI
from pydantic import BaseModel

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.rest_client import RestClient, rest_session
from quicksilver.common.http.rest_errors import ApiError, RefusedError, UnreachableError
from quicksilver.common.http.rest_server import BodyLimit, install_error_handlers, serve
from quicksilver.common.process.listening import bound_socket

PATIENCE_S = 60
"""Ends a test that hangs; none is about time."""


class Item(BaseModel):
    name: str
    count: int


def make_app() -> FastAPI:
    app = FastAPI()
    install_error_handlers(app)
    app.add_middleware(BodyLimit, max_bytes=1000)

    @app.post("/items")
    async def items(item: Item) -> Item:
        return item

    @app.get("/refused")
    async def refused() -> None:
        raise ApiError(409, "busy", "the thing is busy")

    @app.get("/fault")
    async def fault() -> None:
        raise RuntimeError("secret detail")

    @app.get("/text")
    async def text() -> object:
        from fastapi.responses import PlainTextResponse

        return PlainTextResponse("hello")

    return app


@contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """Serve on a free loopback port from a thread with a loop of its own."""
    sock = bound_socket("127.0.0.1", 0)
    port = sock.getsockname()[1]
    loop = asyncio.new_event_loop()
    task = loop.create_task(serve(app, sock))

    async def wait() -> None:
        await asyncio.wait([task])

    thread = threading.Thread(target=lambda: loop.run_until_complete(wait()))
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(10)
        assert not thread.is_alive() and task.cancelled()
        loop.close()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(make_app()) as address:
        yield address


def test_calls_give_json_over_a_kept_connection(url: str) -> None:
    client = RestClient(url)
    assert client.post("/items", Item(name="a", count=2)) == {"name": "a", "count": 2}
    client.close()


def test_errors_of_the_server_come_with_code_and_message(url: str) -> None:
    with pytest.raises(RefusedError) as caught:
        RestClient(url).get("/refused")
    assert (caught.value.status, caught.value.code) == (409, "busy")
    assert str(caught.value) == f"{url}/refused: the thing is busy"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "message"),
    [
        (
            "POST",
            "/items",
            '{"name": "a", "count": "x"}',
            422,
            "invalid",
            "body.count: Input should be a valid integer",
        ),
        ("POST", "/items", "{", 422, "invalid", "body.1: JSON decode error"),
        ("POST", "/items", "x" * 1001, 413, "too-large", "the body has more than 1000 bytes"),
        ("GET", "/nowhere", None, 404, "not-found", "Not Found"),
        ("GET", "/items", None, 405, "method-not-allowed", "Method Not Allowed"),
        ("GET", "/fault", None, 500, "internal", "RuntimeError; the log of this process has the details"),
    ],
)
def test_every_error_is_an_envelope(
    url: str, method: str, path: str, body: str | None, status: int, code: str, message: str
) -> None:
    answer = rest_session().request(
        method, url + path, data=body, headers={"Content-Type": "application/json"}, timeout=PATIENCE_S
    )
    assert answer.status_code == status
    assert set(answer.json()) == {"error"} and answer.json()["error"]["code"] == code
    assert message in answer.json()["error"]["message"] and "secret" not in answer.text


def test_a_chunked_body_is_cut_off_at_the_limit(url: str) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 500

    answer = requests.post(
        f"{url}/items", data=endless(), headers={"Content-Type": "application/json"}, timeout=PATIENCE_S
    )
    assert answer.status_code == 413 and answer.json()["error"]["code"] == "too-large"


def test_what_is_not_json_is_refused(url: str) -> None:
    with pytest.raises(RefusedError, match="answered text/plain; charset=utf-8 instead of JSON"):
        RestClient(url).get("/text")


def test_nobody_there_is_one_line_with_a_remedy() -> None:
    free = bound_socket("127.0.0.1", 0)
    port = free.getsockname()[1]
    free.close()
    with pytest.raises(UnreachableError) as caught:
        RestClient(f"http://127.0.0.1:{port}", remedy="start it").get("/x")
    assert str(caught.value) == f"http://127.0.0.1:{port}/x: connection refused; start it"


def test_a_server_that_never_answers_runs_into_the_timeout() -> None:
    silent = bound_socket("127.0.0.1", 0)
    with pytest.raises(UnreachableError, match=r"no answer within 0\.1 s"):
        RestClient(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.1).get("/x")
    silent.close()


def test_an_occupied_port_is_one_clear_error() -> None:
    taken = bound_socket("127.0.0.1", 0)
    port = taken.getsockname()[1]
    with pytest.raises(
        QuicksilverError, match=rf"127\.0\.0\.1:{port}: cannot listen: Address already in use; stop what"
    ):
        bound_socket("127.0.0.1", port)
    taken.close()
    with pytest.raises(QuicksilverError, match=r"no-such-host\.invalid:1: cannot be resolved"):
        bound_socket("no-such-host.invalid", 1)


async def test_serving_leaves_the_signal_handlers_alone() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    sock = bound_socket("127.0.0.1", 0)
    task = asyncio.create_task(serve(make_app(), sock))
    reader, writer = await asyncio.open_connection(*sock.getsockname())
    body = json.dumps({"name": "a", "count": 1}).encode()
    writer.write(b"POST /items HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
    writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    writer.close()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sock.fileno() == -1


def test_garbage_on_the_port_disturbs_nobody(url: str) -> None:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as garbage:
        garbage.sendall(b"hrpc\x09\x00\x00" + b"\xff" * 100 + b"\r\n\r\n")
        assert garbage.recv(100).startswith(b"HTTP/1.1 400")
    assert RestClient(url).post("/items", Item(name="a", count=1)) == {"name": "a", "count": 1}
