"""What strangers send to the real servers of REST: each as a process on loopback, with nothing of Hadoop behind it."""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
import uvloop
from fastapi import FastAPI

from quicksilver.common.http import acceptor, rest_server
from quicksilver.common.http.connection import HEAD_BYTES, HEADERS, PIPELINED
from quicksilver.common.http.rest_server import serve
from quicksilver.common.http.security import Security, SecuritySettings
from quicksilver.common.process.listening import bound_socket
from quicksilver_lab.bench.procstat import cpu_s
from quicksilver_lab.bench.rest_servers import KINDS, RestServer
from tests.fake_rm import RegisteredMaster, StandIn
from tests.quicksilver.common.http.test_rest import PATIENCE_S, make_app

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"POST /v1/bypass HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
SENT_MB = 60
GROWTH_MB = 20
BUSY_S = 0.3
"""CPU time of the server for one such connection: longer it cannot have kept others waiting. It was up to 6.3 s."""
ENDLESS = {
    "small headers": (GET, b"a:\r\n" * 16384),
    "headers": (GET, b"x-something: of ordinary length\r\n" * 2000),
    "name": (GET, b"n" * 65536),
    "value": (GET + b"x: ", b"v" * 65536),
    "address": (b"GET /", b"u" * 65536),
    "trailers": (CHUNKED + b"0\r\n", b"a:\r\n" * 16384),
    "chunk header": (CHUNKED + b"1;", b"e" * 65536),
    "requests": (b"", (GET + b"\r\n") * 2000),
}


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    with RestServer(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


def healthy(server: RestServer) -> None:
    """Ask like anybody else."""
    assert requests.get(f"http://127.0.0.1:{server.port}/healthz", timeout=PATIENCE_S).status_code == 200


def sends(connection: socket.socket, begin: bytes, piece: bytes, most_mb: int = SENT_MB) -> bytes:
    """Send until the server hangs up, which it has to; return the first bytes of its answer, if one got through."""
    connection.settimeout(PATIENCE_S)
    try:
        connection.sendall(begin)
        for _ in range((most_mb << 20) // len(piece)):
            connection.sendall(piece)
    except OSError:
        try:
            return connection.recv(100)
        except OSError:
            return b""
    raise AssertionError(f"{most_mb} MB were taken")


def endures(server: RestServer, connection: socket.socket, begin: bytes, piece: bytes) -> bytes:
    """Have one endless request sent; return the answer."""
    before_mb, before_s = server.rss_mb(), cpu_s(server.process.pid)
    answer = sends(connection, begin, piece)
    assert cpu_s(server.process.pid) - before_s < BUSY_S
    assert server.rss_mb() - before_mb < GROWTH_MB
    healthy(server)
    return answer


@pytest.mark.parametrize("shape", ENDLESS)
def test_a_request_without_end_costs_nobody_anything(server: RestServer, shape: str) -> None:
    healthy(server)
    with server.connect() as connection:
        answer = endures(server, connection, *ENDLESS[shape])
    refused = shape in ("small headers", "headers", "name", "value", "address")
    assert not answer or not refused or answer.startswith(b"HTTP/1.1 431 "), answer


@pytest.mark.parametrize("depth", [500, 900, 960, 1000, 2000, 100_000])
def test_brackets_are_answered_by_every_call(server: RestServer, depth: int) -> None:
    """Such a body ended in RecursionError, which is answered with 500."""
    base = f"http://127.0.0.1:{server.port}"
    paths = requests.get(f"{base}/openapi.json", timeout=PATIENCE_S).json()["paths"]
    calls = [(verb, path) for path, verbs in paths.items() for verb in verbs if "requestBody" in verbs[verb]]
    assert calls
    for verb, path in calls:
        address = base + path.replace("{", "").replace("}", "")
        for body in ("[" * depth, "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
            answer = requests.request(
                verb, address, data=body, headers={"Content-Type": "application/json"}, timeout=PATIENCE_S
            )
            allowed = (404, 422) if body.startswith("[") else (200, 204, 404, 422)  # a key that nobody knows
            assert answer.status_code in allowed, (verb, path, answer.status_code, answer.text[:200])


def test_a_body_that_is_no_text_is_invalid(server: RestServer) -> None:
    path = "/v1/check" if server.kind == "app-server" else "/v1/policies/reload"
    for body in (b"\xff\xfe{}", b'{"a": "\xff"}', b'{"a": ' + b"9" * 5000 + b"}", b"{"):
        answer = requests.post(
            f"http://127.0.0.1:{server.port}{path}",
            data=body,
            headers={"Content-Type": "application/json"},
            timeout=PATIENCE_S,
        )
        assert answer.status_code == 422, (body[:20], answer.text)


@pytest.mark.parametrize("path", ["/v1/health", "/metrics", "/v1/bypass"])
def test_a_name_that_is_not_the_servers_leads_nowhere(server: RestServer, path: str) -> None:
    foreign = {"Host": "evil.example:8390", "Origin": "http://evil.example:8390", "Sec-Fetch-Site": "same-origin"}
    for method in ("GET", "POST"):
        answer = requests.request(method, f"http://127.0.0.1:{server.port}{path}", headers=foreign, timeout=PATIENCE_S)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "unknown-host")


def test_an_own_name_before_it_does_not_open_foreign_ones(server: RestServer) -> None:
    """The name that was judged last is remembered; a call without any name comes from no browser."""
    for host, status in ((b"", b"403"), (b"localhost", b"200"), (b"evil.example", b"403"), (b"", b"403")):
        with server.connect(PATIENCE_S) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nConnection: close\r\nHost: " + host + b"\r\n\r\n")
            assert connection.recv(100).split()[1] == status, host


def test_a_head_of_the_largest_size_is_answered(server: RestServer) -> None:
    """In pieces, beside a body, and with as many headers as there may be."""
    for sent, status in ((HEAD_BYTES, b"200"), (HEAD_BYTES + 1, b"431")):
        head = GET + b"Connection: close\r\nx: "
        head += b"v" * (sent - len(head) - 4) + b"\r\n\r\n"
        with server.connect(PATIENCE_S) as connection:
            for at in range(0, len(head), 1000):
                connection.sendall(head[at : at + 1000])
            assert connection.recv(100).split()[1] == status
    for count, status in ((HEADERS, b"200"), (HEADERS + 1, b"431")):
        with server.connect(PATIENCE_S) as connection:
            connection.sendall(GET + b"Connection: close\r\n" + b"a: b\r\n" * (count - 2) + b"\r\n")
            assert connection.recv(100).split()[1] == status
    with server.connect(PATIENCE_S) as connection:
        connection.sendall((GET + b"\r\n") * PIPELINED)
        answers = b""
        while answers.count(b"HTTP/1.1 200") < PIPELINED:
            piece = connection.recv(65536)
            assert piece, answers[-200:]
            answers += piece


@pytest.mark.long
def test_with_tls_it_is_the_same(tmp_path: Path) -> None:
    certs: Any = pytest.importorskip("quicksilver.common.http.certs", reason="needs cryptography")
    certs.make_ca(tmp_path, "c")
    pair = certs.make_certificate(tmp_path, "proxy", ["localhost", "127.0.0.1"])
    files = f"tls_cert: '{pair.certificate}', tls_key: '{pair.key}', tls_ca: '{tmp_path / 'ca.crt'}'"
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    with RestServer("proxy", tmp_path / "proxy", security=f"{files}, metrics_open: true") as server:
        for shape in ("small headers", "value"):
            before_mb = server.rss_mb()
            with server.connect() as plain, context.wrap_socket(plain, server_hostname="localhost") as connection:
                sends(connection, *ENDLESS[shape], most_mb=40 * SENT_MB)  # what comes within LINGER_S is dropped
            assert server.rss_mb() - before_mb < GROWTH_MB
            with server.connect() as plain, context.wrap_socket(plain, server_hostname="localhost") as connection:
                connection.sendall(GET + b"\r\n")
                assert connection.recv(100).startswith(b"HTTP/1.1 200")


def hung_up(connections: list[socket.socket], count: int) -> None:
    """Wait until the server has hung up on so many of them."""
    end_s, waiting = time.monotonic() + PATIENCE_S, select.poll()
    for connection in connections:
        waiting.register(connection, select.POLLIN)
    while (found := len(waiting.poll(100))) < count:
        assert time.monotonic() < end_s, f"{found} of {len(connections)} were closed"


def test_silent_connections_leave_files_for_application_masters(tmp_path: Path) -> None:
    """650 of them used up 600 files, and a new master was not served; callers of REST are, beside them."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with await loop.create_server(StandIn, "127.0.0.1", 0) as rm:
            upstream = f"127.0.0.1:{rm.sockets[0].getsockname()[1]}"
            server = RestServer(
                "proxy", tmp_path, upstream=upstream, more="rest_connections: 100, rm_probe_s: 60", files=600
            )
            try:
                await asyncio.to_thread(server.wait)
                with ExitStack() as stack:
                    silent = [stack.enter_context(server.connect(PATIENCE_S)) for _ in range(650)]
                    await asyncio.to_thread(hung_up, silent, 550)
                    master = await RegisteredMaster.connect("127.0.0.1", server.listen)
                    assert await master.beat() == 1
                    files = psutil.Process(server.process.pid).num_fds()
                    assert files < 300, "a hundred connections, and the proxy's own files"
                    master.close()
                    await asyncio.to_thread(healthy, server)
            finally:
                await asyncio.to_thread(server.stop)

    uvloop.run(story())


# The acceptor, in this process


def refused(connection: socket.socket) -> bool:
    """Wait for what the server does; return whether it hung up without a word."""
    connection.settimeout(PATIENCE_S)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


async def serving(
    stack: ExitStack, connections: int, tls: ssl.SSLContext | None, app: FastAPI | None = None
) -> tuple[asyncio.Task[None], int]:
    sock = stack.enter_context(bound_socket("127.0.0.1", 0))
    port: int = sock.getsockname()[1]
    return asyncio.create_task(serve(app or make_app(), sock, max_connections=connections, tls=tls)), port


def contexts(tmp_path: Path) -> tuple[ssl.SSLContext | None, ssl.SSLContext]:
    """Return the TLS of a server and of its clients."""
    certs: Any = pytest.importorskip("quicksilver.common.http.certs", reason="needs cryptography")
    certs.make_ca(tmp_path, "c")
    pair = certs.make_certificate(tmp_path, "proxy", ["127.0.0.1"])
    settings = SecuritySettings(tls_cert=pair.certificate, tls_key=pair.key, tls_ca=tmp_path / "ca.crt")
    of_clients = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    of_clients.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return Security(settings).server, of_clients


def run_serving(
    story: Callable[[ExitStack, int], Coroutine[Any, Any, None]],
    limit: int,
    tls: ssl.SSLContext | None = None,
    app: FastAPI | None = None,
) -> None:
    """Run a test against a server of `limit` connections; it is given the port."""

    async def work() -> None:
        with ExitStack() as stack:
            running, port = await serving(stack, limit, tls, app)
            await story(stack, port)
            running.cancel()
            await asyncio.wait([running])

    uvloop.run(work())


def dial(stack: ExitStack, port: int, host: str = "127.0.0.1") -> socket.socket:
    """Connect from an address of this machine."""
    return stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_S, (host, 0)))


def answered(connection: socket.socket) -> bool:
    """Ask, and read an answer of 200 whole."""
    connection.sendall(b"GET /text HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = b""
    while not answer.endswith(b"hello"):
        piece = connection.recv(4096)
        if not piece:
            return False
        answer += piece
    return answer.startswith(b"HTTP/1.1 200")


SILENT = (
    b"",
    b"GET /text HTTP/1.1\r\nHost: localhost\r\nx: ",
    b"POST /items HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{",
)


@pytest.mark.parametrize("begun", SILENT)
def test_silent_connections_shut_nobody_out(begun: bytes) -> None:
    """Before, they filled the bound for 30 s each. The one that has waited longest goes first."""

    async def story(stack: ExitStack, port: int) -> None:
        silent = [dial(stack, port) for _ in range(3)]
        for connection in silent:
            connection.sendall(begun)
        for gone in silent:
            assert await asyncio.to_thread(answered, dial(stack, port))
            assert await asyncio.to_thread(refused, gone)

    run_serving(story, 3)


def test_silent_connections_shut_nobody_out_with_tls(tmp_path: Path) -> None:
    """Neither do those whose handshake does not go on, nor those that are silent after it."""
    of_server, of_clients = contexts(tmp_path)

    async def story(stack: ExitStack, port: int) -> None:
        silent = [dial(stack, port) for _ in range(3)]
        for number in range(6):
            new = await asyncio.to_thread(of_clients.wrap_socket, dial(stack, port), server_hostname="127.0.0.1")
            silent.append(stack.enter_context(new))
            assert await asyncio.to_thread(refused, silent[number])
        assert await asyncio.to_thread(answered, new)

    run_serving(story, 3, of_server)


def test_a_host_that_opens_many_loses_its_own() -> None:
    """A kept connection of another host stays, though it has waited longer than all the others."""

    async def story(stack: ExitStack, port: int) -> None:
        kept = dial(stack, port, "127.0.0.2")
        assert await asyncio.to_thread(answered, kept)
        many = [dial(stack, port) for _ in range(9)]
        await asyncio.to_thread(hung_up, many, 7)
        assert await asyncio.to_thread(answered, kept)

    run_serving(story, 3)


def test_no_request_that_is_answered_makes_room() -> None:
    """Where all connections have one, the new connection is closed, unread; afterwards they make room again."""
    app, begun, over = make_app(), asyncio.Semaphore(0), asyncio.Event()

    @app.get("/slow")
    async def slow() -> None:
        begun.release()
        await over.wait()

    async def story(stack: ExitStack, port: int) -> None:
        busy = [dial(stack, port) for _ in range(2)]
        for connection in busy:
            connection.sendall(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await begun.acquire()
        for _ in range(3):
            assert await asyncio.to_thread(refused, dial(stack, port))
        over.set()
        for connection in busy:
            assert (await asyncio.to_thread(connection.recv, 100)).startswith(b"HTTP/1.1 200")
        assert await asyncio.to_thread(answered, dial(stack, port))

    run_serving(story, 2, app=app)


@pytest.mark.parametrize("encrypted", [False, True])
def test_connections_count_from_their_first_moment(
    encrypted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those in a TLS handshake that does not go on as well; who leaves makes room."""
    of_server = contexts(tmp_path)[0] if encrypted else None
    acceptors = list[acceptor.RestAcceptor]()

    def made(*parts: Any) -> acceptor.RestAcceptor:
        acceptors.append(acceptor.RestAcceptor(*parts))
        return acceptors[-1]

    monkeypatch.setattr(rest_server, "RestAcceptor", made)

    async def story(stack: ExitStack, port: int) -> None:
        connections = [dial(stack, port) for _ in range(8)]
        await asyncio.to_thread(hung_up, connections, 5)
        for gone in connections[:5]:
            assert await asyncio.to_thread(refused, gone)
        connections[7].close()
        if encrypted:
            connections[6].sendall(b"GET / HTTP/1.1\r\n\r\n")  # no handshake
        stay = connections[5 : 6 if encrypted else 7]
        while len(acceptors[0].open) > len(stay):  # noqa: ASYNC110 - the server's own, in this loop
            await asyncio.sleep(0.01)
        stay += [dial(stack, port) for _ in range(3 - len(stay))]
        for one in stay:
            one.settimeout(0.3)
            with pytest.raises(TimeoutError):
                await asyncio.to_thread(one.recv, 1)

    run_serving(story, 3, of_server)


def test_the_last_files_are_not_for_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = acceptor.RESERVED_FILES + 5
    monkeypatch.setattr("resource.getrlimit", lambda _: (allowed, allowed))

    async def story() -> None:
        with ExitStack() as stack:
            running, port = await serving(stack, 100, None)
            with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
                assert await asyncio.to_thread(refused, connection)
            running.cancel()
            await asyncio.wait([running])

    uvloop.run(story())


def test_rest_takes_a_third_of_few_files() -> None:
    assert [acceptor.rest_limit(100, allowed) for allowed in (10, 300, 600, 10_000)] == [1, 33, 100, 100]
