"""The master's HTTP API over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from apps.tests.master.descriptions import app, grant
from quicksilver_apps.master.api import Api
from quicksilver_apps.master.http_server import BODY_BYTES, HEAD_BYTES, HttpServer
from quicksilver_apps.master.launcher.rendezvous import SIGNATURE, instance_key, sign
from quicksilver_apps.master.machine.events import Allocated, Event, MasterRegistered
from quicksilver_apps.master.machine.machine import Machine

POOL = {"name": "pool", "core": 1, "elastic": 2, "ports": [{"name": "web", "link": "http/lab"}]}
KEY = {"X-Quicksilver-Key": "secret"}


class Served:
    """A machine behind its API."""

    def __init__(self) -> None:
        self.machine = Machine(app(POOL), 100.0)
        self.api = Api(self.machine.app, "application_1_0001", "ann", "secret", self.tell)
        self.failures: list[Exception] = []
        self.port = 0
        self.tell(MasterRegistered(100.0))
        self.tell(Allocated((grant(1),), 101.0))

    def tell(self, event: Event) -> None:
        self.machine.handle(event)
        self.api.notify()

    async def raw(self, data: bytes) -> tuple[int, bytes]:
        """Send bytes; return status and body."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        answer = await reader.read()
        writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), body

    async def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n{lines}\r\n"
        status, answer = await self.raw(head.encode() + data)
        return status, json.loads(answer)

    async def launcher(self, what: str, body: Any, container: str = "c1", key: str = "secret") -> tuple[int, Any]:
        path = f"/v1/instances/{container}/{what}"
        signature = sign(instance_key(key, container), path, json.dumps(body).encode())
        return await self.call("PUT", path, body, {SIGNATURE: signature})


@asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    served = Served()
    server = HttpServer(served.api.handle, served.failures.append)
    served.port = await server.start("127.0.0.1")
    yield served
    await server.close()
    assert not served.failures


def run(test: Callable[[Served], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(30), serving() as served:
            await test(served)

    asyncio.run(main())


def test_the_application_with_its_instances() -> None:
    async def test(served: Served) -> None:
        assert await served.launcher("ports", {"ports": {"web": 8080}, "listens_on": 61001}) == (
            200,
            {"peers": {"services": {"pool": [{"index": 0, "host": "node", "ports": {"web": 8080}, "ready": False}]}}},
        )
        assert await served.launcher("state", {"phase": "running"}) == (200, {})
        status, found = await served.call("GET", "/v1/application")
        assert status == 200
        assert {name: found[name] for name in ("application_id", "name", "class", "state", "final", "started_s")} == {
            "application_id": "application_1_0001",
            "name": "app",
            "class": "batch",
            "state": "running",
            "final": "",
            "started_s": 100.0,
        }
        [pool] = found["services"]
        assert {name: pool[name] for name in ("core", "elastic", "wanted", "running", "ready", "state")} == {
            "core": 1,
            "elastic": 2,
            "wanted": 3,
            "running": 1,
            "ready": 1,
            "state": "ready",
        }
        first = pool["instances"][0]
        assert first["links"] == {"web": "http://node:8080/lab"}
        assert (first["state"], first["kind"], first["container_id"], first["node"]) == ("ready", "core", "c1", "node")
        assert [each["state"] for each in pool["instances"]] == ["ready", "waiting", "waiting"]
        assert [each["text"] for each in found["events"]][-2:] == ["runs", "is ready"]
        status, page = await served.raw(b"GET / HTTP/1.1\r\n\r\n")
        assert status == 200
        assert b"http://node:8080/lab" in page
        assert (await served.call("GET", "/v1/peers"))[1]["services"]["pool"][0]["ready"]

    run(test)


def test_events_come_when_they_happen() -> None:
    async def test(served: Served) -> None:
        _, first = await served.call("GET", "/v1/events?after=0")
        waiting = asyncio.create_task(served.call("GET", f"/v1/events?after={first['next']}"))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await served.launcher("state", {"phase": "running"})
        _, second = await waiting
        assert [each["seq"] for each in second["events"]] == [first["next"] + 1, first["next"] + 2]
        assert (await served.call("GET", "/v1/events?after=x"))[0] == 400

    run(test)


def test_scaling_needs_the_key_and_a_count_within_the_description() -> None:
    async def test(served: Served) -> None:
        path = "/v1/services/pool/elastic"
        assert (await served.call("PUT", path, {"count": 1}))[0] == 401
        assert (await served.call("PUT", path, {"count": 1}, {"X-Quicksilver-Key": "guess"}))[0] == 401
        for count in (-1, 3, "1", None, True, 1.5):
            status, answer = await served.call("PUT", path, {"count": count}, KEY)
            assert (status, answer["error"]["code"]) == (400, "bad_count")
        assert (await served.call("PUT", "/v1/services/none/elastic", {"count": 1}, KEY))[0] == 404
        assert served.machine.app.services["pool"].elastic == 2
        status, pool = await served.call("PUT", path, {"count": 1}, KEY)
        assert (status, pool["wanted"], len(pool["instances"])) == (200, 2, 2)

    run(test)


def test_a_stop_ends_the_application() -> None:
    async def test(served: Served) -> None:
        assert (await served.call("POST", "/v1/stop", {}))[0] == 401
        assert (await served.call("POST", "/v1/stop", {"status": "failed"}, KEY))[0] == 400
        status, answer = await served.call("POST", "/v1/stop", {"status": "succeeded", "reason": "enough"}, KEY)
        assert (status, answer) == (200, {"state": "ending", "final": "succeeded"})
        assert served.machine.app.diagnostics == "enough"
        assert (await served.call("PUT", "/v1/services/pool/elastic", {"count": 1}, KEY))[0] == 409

    run(test)


def test_launchers_prove_who_they_are() -> None:
    async def test(served: Served) -> None:
        body = {"ports": {}, "listens_on": 1}
        assert (await served.launcher("ports", body, key="guess"))[0] == 401
        assert (await served.launcher("ports", body, container="c9"))[0] == 404
        assert (await served.launcher("ports", {"ports": 3}))[0] == 400
        assert (await served.launcher("colour", {}))[0] == 404
        assert (await served.launcher("end", {"exit_status": 1, "lines": "x"}))[0] == 200

    run(test)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", 404),
        (b"DELETE /v1/application HTTP/1.1\r\n\r\n", 404),
        (b"\r\n\r\n", 400),
        (b"GET / SPDY/3\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET http://[ HTTP/1.1\r\n\r\n", 400),
        (b"POST /v1/stop HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /v1/stop HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST /v1/stop HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES + 1), 413),
        (b"GET / HTTP/1.1\r\nA: %s\r\n\r\n" % (b"x" * 2 * HEAD_BYTES), 413),
        (b"POST /v1/stop HTTP/1.1\r\nX-Quicksilver-Key: secret\r\nContent-Length: 1\r\n\r\n{", 400),
        (b"POST /v1/stop HTTP/1.1\r\nX-Quicksilver-Key: secret\r\nContent-Length: 2\r\n\r\n[]", 400),
    ],
)
def test_bad_requests_are_refused_with_a_reason(request_bytes: bytes, status: int) -> None:
    async def test(served: Served) -> None:
        got, body = await served.raw(request_bytes)
        assert (got, "message" in json.loads(body)["error"]) == (status, True)

    run(test)
