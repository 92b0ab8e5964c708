"""The servers of REST as targets: heads and bodies of requests, at the processes that run on hosts.

Whatever comes, the connection is answered or closed, no answer is a fault of the server (500), another caller is
answered meanwhile, and the server keeps no more memory.
"""

from __future__ import annotations

import atexit
import json
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from random import Random
from typing import Any, Final

from quicksilver_lab.bench.fuzz.mutation import mutated_bytes
from quicksilver_lab.bench.fuzz.targets import Step, Target
from quicksilver_lab.bench.rest_servers import KINDS, RestServer

PATIENCE_S: Final = 60.0
"""Time for an answer, on a machine that is busy with other things."""
_UNFINISHED_S: Final = 0.2
"""Time after which a request without an answer counts as one without its end."""
GROWTH_MB: Final = 64
"""Memory that a server may have more than after its start, for all requests together."""
_END: Final = ("end", b"")
_PING: Final = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_METHODS: Final = (b"GET", b"GET", b"POST", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"PATCH", b"BREW", b"get")
_PATHS: Final = (
    b"/",
    b"//",
    b"/..",
    b"/%00",
    b"/%2e%2e/ui/static/%2e%2e/x",
    b"*",
    b"http://x/",
    b"/ui/login",
    b"/logLevel?log=a",
    b"/v1/nodes/a:1/reports",
    b"/v1/nodes/a:1/reports",
)
_HEADERS: Final = (
    b"Host: localhost",
    b"Host: evil.example",
    b"Host: [",
    b"Content-Type: application/json",
    b"Content-Length: 2",
    b"Content-Length: -1",
    b"Content-Length: 99999999999999999999",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: chunked, chunked",
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Upgrade: h2c",
    b"Connection: Upgrade\r\nUpgrade: quicksilver-reports/1",
    b"Connection: Upgrade\r\nUpgrade: quicksilver-reports/1",
    b"Expect: 100-continue",
    b"Authorization: Bearer \xff",
    b"Cookie: quicksilver_token=\xe9; a=b",
    b"Origin: null",
    b"Accept: text/html",
    b"X-Forwarded-Prefix: //evil.example",
    b"Range: bytes=0-,0-,0-",
    b" folded",
    b"no colon",
    b": no name",
    b"",
)


_SERVERS: Final = ExitStack()


class FaultyAnswerError(Exception):
    """A server answered with its own fault."""


class GrownError(Exception):
    """A server keeps more memory than it may."""


class HttpTarget:
    """One connection to a server, which stays for all of them."""

    def __init__(self, kind: str) -> None:
        self.over = False
        self.server, self.first_mb = running(kind)
        self._connection = self.server.connect(PATIENCE_S)

    def feed(self, step: Step) -> str:
        """Send bytes; at the end, look at what came of them. Raises what a finding is."""
        side, data = step
        if side != "end":
            return self._send(data)
        self.over = True
        with self._connection as connection, self.server.connect(PATIENCE_S) as bystander:
            bystander.sendall(_PING)
            if not bystander.recv(100).startswith(b"HTTP/1.1 200"):
                raise FaultyAnswerError("another caller is not answered")
            outcome = _answer(connection)
        if outcome == HTTPStatus.INTERNAL_SERVER_ERROR.phrase:
            raise FaultyAnswerError(outcome)
        if self.server.rss_mb() > self.first_mb + GROWTH_MB:
            raise GrownError(f"{self.server.rss_mb():.0f} MB, {self.first_mb:.0f} at first")
        return outcome

    def kept_bytes(self) -> int:
        """Return 0: the memory of the process is looked at instead."""
        return 0

    def _send(self, data: bytes) -> str:
        try:
            self._connection.sendall(data)
        except OSError:
            return "closed"
        return "sent"


def _answer(connection: socket.socket) -> str:
    """Return the status of the answer, or that the server hung up. Raises TimeoutError when it does neither.

    A request without its end is ended by the end of the stream, which the server answers by closing.
    """
    try:
        connection.settimeout(_UNFINISHED_S)
        try:
            data = connection.recv(100)
        except TimeoutError:
            connection.settimeout(PATIENCE_S)
            connection.shutdown(socket.SHUT_WR)
            data = connection.recv(100)
    except TimeoutError:
        raise
    except OSError:
        return "closed"
    return HTTPStatus(int(data.split()[1])).phrase if data else "closed"


@cache
def running(kind: str) -> tuple[RestServer, float]:
    """Return a server that runs until `stop_servers`, and its memory in MB after a first call."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="quicksilver-fuzz-"))
        server = stack.enter_context(RestServer(kind, Path(folder)))
        calls(server)
        _SERVERS.push(stack.pop_all())
    return server, server.rss_mb()


def stop_servers() -> None:
    """Stop all servers; the end of this process does it too, unless it is cut short."""
    running.cache_clear()
    _SERVERS.close()


atexit.register(stop_servers)


@cache
def calls(server: RestServer) -> tuple[tuple[bytes, bytes], ...]:
    """Return the methods and paths that a server says it has."""
    with server.connect(PATIENCE_S) as connection:
        connection.sendall(_PING.replace(b"/healthz", b"/openapi.json"))
        text = b"".join(iter(lambda: connection.recv(65536), b""))
    paths: dict[str, Any] = json.loads(text.partition(b"\r\n\r\n")[2])["paths"]
    return tuple((verb.upper().encode(), path.encode()) for path, verbs in paths.items() for verb in verbs)


def http_steps(target: HttpTarget, rng: Random) -> Iterator[Step]:
    """Yield requests, whole and broken ones, in pieces of any size; then the end."""
    data = b"".join(_request(calls(target.server), rng) for _ in range(rng.choice((1, 1, 2, 30))))
    if rng.random() < 0.5:
        data = mutated_bytes(data, rng)
    while data:
        cut = len(data) if rng.random() < 0.5 else rng.randrange(1, len(data) + 1)
        yield "http", data[:cut]
        data = data[cut:]
    yield _END


def _request(known: tuple[tuple[bytes, bytes], ...], rng: Random) -> bytes:
    method, path = rng.choice(known) if rng.random() < 0.7 else (rng.choice(_METHODS), rng.choice(_PATHS))
    if rng.random() < 0.1:
        path += b"?" + _much(rng)
    body = _body(rng)
    headers = [b"Host: localhost", b"Content-Type: application/json"]
    if rng.random() < 0.7:
        headers.append(b"Content-Length: %d" % len(body))
    elif rng.random() < 0.5:
        headers.append(b"Transfer-Encoding: chunked")
        body = _chunks(body, rng)
    headers += rng.choices(_HEADERS, k=rng.choice((0, 0, 1, 3)))
    if rng.random() < 0.2:
        headers.append(rng.choice((b"x: %s", b"%s: x", b"Cookie: a=%s")) % _much(rng))
    if rng.random() < 0.1:
        headers += [b"a: b"] * rng.choice((150, 210, 5000))
    rng.shuffle(headers)
    return b"%s %s HTTP/1.1\r\n%s\r\n\r\n%s" % (method, path, b"\r\n".join(headers), body)


def _much(rng: Random) -> bytes:
    return rng.choice((b"a", b"%41", b"=&", b"\xff", b";")) * rng.choice((1, 1000, 30_000, 70_000, 300_000))


def _body(rng: Random) -> bytes:
    """Return a body: JSON of the right kind or any other, deep, large, or no JSON at all."""
    kind = rng.randrange(6)
    if kind == 0:
        depth = rng.choice((10, 500, 990, 5000, 100_000))
        return rng.choice((b"[", b'{"a":', b'[{"grants":')) * depth
    if kind == 1:
        return rng.randbytes(rng.choice((0, 1, 100)))
    keys = ("order", "who", "on", "reason", "file", "expect", "grants", "drop", "node_id", "seq", "containers", "text")
    values: tuple[Any, ...] = (
        None,
        True,
        -1,
        2**63,
        1e308,
        "",
        "x" * 5000,
        [],
        [[]],
        {},
        {"a": "\ud800"},
        [1] * 1000,
        "\0",
    )
    body = {key: rng.choice(values) for key in rng.sample(keys, rng.randrange(6))}
    return json.dumps(body).encode()


def _chunks(body: bytes, rng: Random) -> bytes:
    size = rng.choice((1, 100, 5000))
    pieces = [body[at : at + size] for at in range(0, min(len(body), 200 * size), size)]
    trailers = b"t: t\r\n" * rng.choice((0, 1, 300))
    ends = (b"0\r\n%s\r\n" % trailers, b"", b"ffffffffffffffffff\r\n", b"-1\r\n")
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + rng.choice(ends)


HTTP_TARGETS: Final[dict[str, Callable[[], Target]]] = {f"http-{kind}": partial(HttpTarget, kind) for kind in KINDS}
