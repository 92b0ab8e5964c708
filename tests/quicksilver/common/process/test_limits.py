"""Bounds of a process: open files, repeated log lines, HTTP that is too slow."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import threading

import pytest
from fastapi import FastAPI
from starlette.responses import Response
from structlog.testing import capture_logs

from quicksilver.common.http.connection import BoundedConnection
from quicksilver.common.process import limits
from quicksilver.common.process.limits import SELDOM_S, Seldom, raise_open_files
from tests.paths import ROOT
from tests.quicksilver.common.http.test_rest import make_app, running

_RAISED = """
import resource
from quicksilver.common.process.limits import raise_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 700))
print(raise_open_files(400, "max_connections"), resource.getrlimit(resource.RLIMIT_NOFILE))
print(raise_open_files(600, "max_connections"))
"""


def test_the_limit_of_open_files_is_raised_and_a_low_one_told() -> None:
    root = str(ROOT)
    done = subprocess.run([sys.executable, "-c", _RAISED], capture_output=True, text=True, check=True, cwd=root)
    lines = [line for line in done.stdout.splitlines() if "too few" not in line]
    assert lines == ["700 (700, 700)", "700"]
    (told,) = [line for line in done.stdout.splitlines() if "too few" in line]
    assert "allowed=700" in told and "wanted=800" in told


def test_an_endless_limit_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = resource.RLIM_INFINITY
    monkeypatch.setattr(limits.resource, "getrlimit", lambda _: (endless, endless))
    assert raise_open_files(10_000, "max_connections") > 10_000


def test_lines_that_repeat_are_counted() -> None:
    clock = [0.0]
    seldom = Seldom(lambda: clock[0])
    with capture_logs() as logs:
        for number in range(100):
            clock[0] = number
            seldom.warning("refused", peer=str(number))
            seldom.warning("another", peer=str(number))
    told = [(line["peer"], line.get("more_since_the_last_line")) for line in logs if line["event"] == "refused"]
    assert told == [("0", None), (str(int(SELDOM_S)), int(SELDOM_S) - 1)]


def gone(connection: socket.socket) -> bool:
    """Wait for the end; whether nothing came before it."""
    connection.settimeout(20)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def connect(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), 20)


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /text HTTP/1.1\r\nHost: x\r\nX-Slow: ",
        b"POST /items HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{",
        b"POST /items HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    ],
)
def test_a_request_without_end_is_given_up(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedConnection, "request_s", 0.2)
    with running(make_app()) as url, connect(url) as slow:
        slow.sendall(begun)
        assert gone(slow)


def test_whole_requests_are_not_hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second request on a kept connection, slower than the first, has its own time."""
    monkeypatch.setattr(BoundedConnection, "request_s", 0.2)
    with running(make_app()) as url, connect(url) as kept:
        for _ in range(2):
            kept.sendall(b"GET /text HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b""
            while not answer.endswith(b"hello"):
                answer += kept.recv(4096)
        kept.sendall(b"GET /text HTTP/1.1\r\n")
        assert gone(kept)


def test_a_body_without_end_is_refused_at_its_limit() -> None:
    with running(make_app()) as url, connect(url) as endless:
        endless.sendall(b"POST /items HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        answer = b""
        try:
            for _ in range(1000):
                endless.sendall(b"100\r\n" + b" " * 256 + b"\r\n")
        except OSError:
            pass
        endless.settimeout(20)
        try:
            answer = endless.recv(100)
        except ConnectionResetError:
            return
        assert answer.startswith(b"HTTP/1.1 413")


def test_an_answer_that_nobody_reads_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedConnection, "answer_s", 0.2)
    app = FastAPI()

    @app.get("/large")
    async def large() -> Response:
        return Response(b"x" * 2**26)

    closed, give_up = threading.Event(), BoundedConnection._give_up

    def told(protocol: BoundedConnection, why: str) -> None:
        give_up(protocol, why)
        closed.set()

    monkeypatch.setattr(BoundedConnection, "_give_up", told)
    with running(app) as url, connect(url) as deaf:
        deaf.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        closed.wait(20)
        read = 0
        while chunk := deaf.recv(2**20):
            read += len(chunk)
        assert read < 2**26, "only what the kernel had taken"
