"""The short way of a report: the same answers as the route's, behind the same guards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from quicksilver.common.http.access import Side, check_url, protect
from quicksilver.common.http.connection import NAMES
from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.http.rest_server import BodyLimit, install_error_handlers
from quicksilver.common.http.security import Security, SecuritySettings
from quicksilver.common.http.tokens import Role, add_token
from quicksilver.common.messages import Ack, Report
from rm_proxy.api.report_route import MAX_NODE_ID, ReportRoute

LIMIT = 2_000
REPORT = Report(node_id="n1:1", boot="b", seq=1, sidecar_url="http://n1:8391", memory_mb=4096, vcores=4)
JSON = {"content-type": "application/json"}


class Proxy:
    """What takes reports; the route behind is told apart by its answer."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.bodies: list[bytes] = []
        self.app = FastAPI()
        install_error_handlers(self.app)
        self.app.add_api_route("/v1/nodes/{node_id}/report", self.route, methods=["POST"])
        self.app.add_middleware(ReportRoute, handle=self.take)
        self.app.add_middleware(BodyLimit, max_bytes=LIMIT)

    def take(self, node_id: str, report: Report, scope: object) -> Ack:
        if report.boot == "refused":
            raise ApiError(409, "busy", "not now")
        self.taken.append(node_id)
        return Ack(events_to=7)

    async def route(self, node_id: str, request: Request) -> str:
        self.bodies.append(await request.body())
        return "route"


@pytest.fixture
def proxy() -> Proxy:
    return Proxy()


@pytest.fixture
def client(proxy: Proxy) -> TestClient:
    return TestClient(proxy.app, raise_server_exceptions=False)


def body(**changes: object) -> bytes:
    return REPORT.model_copy(update=changes).model_dump_json().encode()


@pytest.mark.parametrize(("path", "node_id"), [("n1:1", "n1:1"), ("n1%3A1", "n1:1"), ("[::1]:5", "[::1]:5")])
def test_a_report_is_answered_without_the_route(proxy: Proxy, client: TestClient, path: str, node_id: str) -> None:
    answer = client.post(f"/v1/nodes/{path}/report", content=body(node_id=node_id), headers=JSON)
    assert (answer.status_code, Ack.model_validate_json(answer.content)) == (200, Ack(events_to=7))
    assert answer.headers["content-type"] == "application/json"
    assert proxy.taken == [node_id] and proxy.bodies == []


@pytest.mark.parametrize(
    ("path", "content", "headers"),
    [
        ("/v1/nodes/n1:1/report", b"{", JSON),
        ("/v1/nodes/n1:1/report", body()[:-1] + b',"vcores":"many"}', JSON),
        ("/v1/nodes/n2:1/report", body(), JSON),
        ("/v1/nodes/n1:1/report", body(), {"content-type": "text/plain"}),
        (f"/v1/nodes/{'n' * MAX_NODE_ID}:1/report", body(node_id="n" * MAX_NODE_ID + ":1"), JSON),
    ],
)
def test_what_is_out_of_form_is_the_routes(
    proxy: Proxy, client: TestClient, path: str, content: bytes, headers: dict[str, str]
) -> None:
    assert client.post(path, content=content, headers=headers).json() == "route"
    assert proxy.taken == [] and proxy.bodies == [content], "the route gets the body as it came"


def pieces() -> Iterator[bytes]:
    yield from (body()[:10], body()[10:])


def test_a_body_of_untold_length_is_the_routes(proxy: Proxy, client: TestClient) -> None:
    assert client.post("/v1/nodes/n1:1/report", content=pieces(), headers=JSON).json() == "route"
    assert proxy.bodies == [body()]


def test_a_refusal_has_the_form_of_all(client: TestClient) -> None:
    answer = client.post("/v1/nodes/n1:1/report", content=body(boot="refused"), headers=JSON)
    assert (answer.status_code, answer.json()) == (409, {"error": {"code": "busy", "message": "not now"}})


def test_a_body_beyond_the_limit_is_not_read(proxy: Proxy, client: TestClient) -> None:
    answer = client.post("/v1/nodes/n1:1/report", content=body(limits=["x" * LIMIT]), headers=JSON)
    assert (answer.status_code, proxy.taken, proxy.bodies) == (413, [], [])


def test_who_may_not_report_is_not_heard(proxy: Proxy, tmp_path: Path) -> None:
    token = {role: add_token(tmp_path / "t", role) for role in (Role.NODE, Role.READ)}
    protect(proxy.app, Security(SecuritySettings(token_file=tmp_path / "t")), Side(True, False), lambda reason: None)
    client = TestClient(proxy.app)
    shown = [{}, {"authorization": "bearer x"}, *({"authorization": f"bearer {t}"} for t in token.values())]
    answers = [client.post("/v1/nodes/n1:1/report", content=body(), headers=JSON | one) for one in shown]
    assert [answer.status_code for answer in answers] == [401, 401, 200, 403]
    assert proxy.taken == ["n1:1"]


def test_the_callers_certificate_is_seen(proxy: Proxy) -> None:
    seen: list[object] = []

    def take(node_id: str, report: Report, scope: object) -> Ack:
        assert isinstance(scope, dict)
        seen.append(scope[NAMES])
        check_url(report.sidecar_url, node_id, scope[NAMES])
        return Ack(events_to=0)

    route = ReportRoute(proxy.app, handle=take)

    async def named(scope, receive, send):  # type: ignore[no-untyped-def]
        scope[NAMES] = frozenset(["n1"])
        await route(scope, receive, send)

    client = TestClient(named)
    assert client.post("/v1/nodes/n1:1/report", content=body(), headers=JSON).status_code == 200
    other = client.post("/v1/nodes/n1:1/report", content=body(sidecar_url="http://other:1"), headers=JSON)
    assert (other.status_code, other.json()["error"]["code"]) == (403, "other-host")
    assert seen == [frozenset(["n1"])] * 2


def test_who_hangs_up_within_the_body_is_not_answered(proxy: Proxy) -> None:
    come = iter([{"type": "http.request", "body": body()[:9], "more_body": True}, {"type": "http.disconnect"}])
    sent: list[object] = []

    async def receive() -> MutableMapping[str, Any]:
        return next(come)

    async def send(message: object) -> None:
        sent.append(message)

    headers = [(b"content-length", b"%d" % len(body())), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/v1/nodes/n1:1/report", "headers": headers}
    asyncio.run(ReportRoute(proxy.app, handle=proxy.take)(scope, receive, send))
    assert (proxy.taken, sent) == ([], [])
