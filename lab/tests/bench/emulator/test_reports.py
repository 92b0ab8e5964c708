"""Reports of emulated nodes to the proxy's kind of server, and the proxy's kind of client at an emulated node."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest
import requests
from fastapi import FastAPI

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.rest_client import RestClient
from quicksilver.common.http.rest_errors import ApiError, RefusedError, UnreachableError
from quicksilver.common.http.rest_server import serve
from quicksilver.common.messages import Ack, ContainerEvent, Draining, EventKind, Grant, Grants, Report
from quicksilver.common.process.listening import bound_socket
from quicksilver_lab.bench.emulator.reports import NodeRest, ProxyLine, Traffic
from rm_proxy.api.report_connections import ReportConnections, ReportUpgrade
from tests import loops

REPORT = Report(
    node_id="127.1.0.1:8041",
    boot="b",
    seq=1,
    sidecar_url="http://127.1.0.1:2",
    memory_mb=1,
    vcores=1,
    events=[ContainerEvent(seq=7, container_id="c", kind=EventKind.ENDED, at_s=0.0)],
)


def run(story: Callable[[], Awaitable[None]]) -> None:
    loops.run(story())  # type: ignore[arg-type]


async def test_reports_go_over_one_kept_connection_and_are_counted() -> None:
    seqs: list[int] = []
    error: list[ApiError] = []

    def handle(node_id: str, report: Report, scope: object) -> Ack:
        if error:
            raise error[0]
        seqs.append(report.events[0].seq)
        return Ack(events_to=7)

    app, sock, traffic = FastAPI(), bound_socket("127.0.0.1", 0), Traffic()
    app.add_middleware(ReportUpgrade, connections=ReportConnections(handle, lambda node_id: True))
    server = asyncio.create_task(serve(app, sock))
    line = ProxyLine(sock.getsockname()[:2], 30.0, traffic)
    assert (await line.post(REPORT)).events_to == 7
    assert (await line.post(REPORT)).events_to == 7
    assert (seqs, traffic.reports, traffic.connections, traffic.refused) == ([7, 7], 2, 1, 0)
    assert 100 < traffic.report_bytes < 700
    error.append(ApiError(503, "busy", "not now"))
    with pytest.raises(RefusedError, match="not now"):
        await line.post(REPORT)
    assert traffic.refused == 1
    await line.close()
    server.cancel()
    await asyncio.gather(server, return_exceptions=True)


async def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        address = sock.getsockname()[:2]
    with pytest.raises(UnreachableError, match="start the proxy there"):
        line = ProxyLine(address, 30.0, Traffic())
        await line.post(REPORT)
    await line.close()


GRANT = Grant(container_id="c", app_id="a", attempt_id="t", memory_mb=1, vcores=1, max_hold_s=1.0)


async def test_grants_reach_the_node_of_their_host() -> None:
    got: list[Grants | Draining] = []
    traffic = Traffic()
    one, other = NodeRest(got.append, got.append, traffic), NodeRest(got.append, got.append, traffic)
    url = await one.start("127.1.0.1")
    assert url.startswith("http://127.1.0.1:")
    assert (await other.start("127.1.0.2", int(url.rpartition(":")[2]))).startswith("http://127.1.0.2:")
    client = RestClient(url, pool=1)
    for _ in range(2):
        await asyncio.to_thread(client.post, "/v1/grants", Grants(grants=[GRANT], drop=["d"]))
    await asyncio.to_thread(client.post, "/v1/drain", Draining(on=True))
    assert got == [Grants(grants=[GRANT], drop=["d"])] * 2 + [Draining(on=True)]
    assert (traffic.grants, traffic.announced, traffic.bad_requests) == (2, 2, 0)
    one.close()
    other.close()
    with pytest.raises(QuicksilverError):
        await asyncio.to_thread(client.post, "/v1/grants", Grants())
    client.close()


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "why"),
    [
        ("GET", "/v1/grants", b"", 404, "no GET /v1/grants"),
        ("POST", "/v1/other", b"{}", 404, "no POST /v1/other"),
        ("POST", "/v1/grants", b"{", 422, "not Grants"),
        ("POST", "/v1/grants", b"x" * (8 * 2**20 + 1), 413, "more than"),
        ("POST", "/" + "a" * 70_000, b"", 431, "the head"),
    ],
)
async def test_other_requests_are_refused(method: str, path: str, body: bytes, status: int, why: str) -> None:
    traffic = Traffic()
    rest = NodeRest(lambda message: None, lambda message: None, traffic)
    url = await rest.start("127.1.0.1")
    answer = await asyncio.to_thread(requests.request, method, url + path, data=body, timeout=30)
    assert (answer.status_code, traffic.bad_requests) == (status, 1)
    assert why in answer.json()["error"]["message"]
    rest.close()


async def test_an_address_in_use_is_named() -> None:
    one, other = (NodeRest(lambda message: None, lambda message: None, Traffic()) for _ in range(2))
    port = int((await one.start("127.1.0.1")).rpartition(":")[2])
    with pytest.raises(QuicksilverError, match=f"127.1.0.1:{port}"):
        await other.start("127.1.0.1", port)
    one.close()
    other.close()
