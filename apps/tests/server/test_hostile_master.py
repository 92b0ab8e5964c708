"""A master that lies, redirects, drips and floods: it harms its own application, not the server nor other users."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from apps.tests.client.sites import site
from apps.tests.server.fake_yarn import STAMP, FakeYarn, Peer, YarnSession, drip, ok, peer
from apps.tests.server.small_server import Client, eventually, served, settings, simple
from quicksilver.common.http.rest_errors import ApiError
from quicksilver_apps.client import master_api
from quicksilver_apps.client.login import Login
from quicksilver_apps.client.master_answers import MASTER_ANSWER_BYTES, MASTER_EVENTS, MASTER_SERVICES
from quicksilver_apps.server.backend import LogSource
from quicksilver_apps.server.config import AppServerSettings
from quicksilver_apps.server.server import AppServer
from quicksilver_apps.server.yarn_backend import YarnBackend
from tests.examples import others_long

ANNS, MALLORYS = f"container_{STAMP}_0002_01_000002", f"container_{STAMP}_0003_01_000002"
"""The first id that the fake YARN gives is asked for with the size of the largest container."""
SECRET = b"ann's secret: 4711"


def view(container: str = ANNS, **instance: Any) -> dict[str, Any]:
    one = {"index": 0, "container_id": container, "state": "ready", "since_s": 1.0, "kind": "core", **instance}
    services = [{"name": "work", "core": 1, "ready": 1, "running": 1, "state": "ready", "instances": [one]}]
    return {"state": "running", "services": services, "events": []}


def lie(**fields: Any) -> bytes:
    return json.dumps(view(MALLORYS) | fields).encode()


def of_instance(**fields: Any) -> bytes:
    return json.dumps(view(MALLORYS, **fields)).encode()


LIES: dict[str, bytes] = {
    "a list": b"[]",
    "a number": b"7",
    "null": b"null",
    "empty": b"",
    "no JSON": b"<html>",
    "brackets": b"[" * 100_000,
    "objects": b'{"services":' * 20_000,
    "services number": lie(services=5),
    "services of numbers": lie(services=[1]),
    "too many services": lie(services=[{"name": "a"}] * (MASTER_SERVICES + 1)),
    "no index": json.dumps({"services": [{"name": "work", "instances": [{"container_id": MALLORYS}]}]}).encode(),
    "index text": of_instance(index="x"),
    "index 2**70": of_instance(index=2**70),
    "index negative": of_instance(index=-1),
    "since text": of_instance(since_s="x"),
    "since infinite": of_instance().replace(b'"since_s": 1.0', b'"since_s": 1e999'),
    "exit status": of_instance(exit_status=2**40),
    "ready text": lie(services=[{"name": "work", "ready": "x"}]),
    "events object": lie(events={}),
    "events number": lie(events=5),
    "too many events": lie(events=[{}] * (MASTER_EVENTS + 1)),
    "NUL": of_instance(node="a\0b"),
    "half a character": of_instance().replace(b'"kind": "core"', b'"kind": "\\ud800"'),
    "long text": of_instance(diagnostics="x" * 1_000_000),
    "foreign container": of_instance(container_id=ANNS),
    "traversal": of_instance(container_id="../../../../../any/path?x=y#/logs/"),
    "container text": of_instance(container_id="container_x"),
}


class Stage:
    """An app server before a YARN with ann's good master and mallory's, whose answer the test chooses."""

    def __init__(
        self, config: AppServerSettings, server: AppServer, backend: YarnBackend, client: Client, yarn: FakeYarn
    ) -> None:
        self.config, self.server, self.backend, self.client, self.yarn = config, server, backend, client, yarn
        self.ann = client("POST", "/v1/applications", 202, description=simple("ann"))["id"]
        client.until_state(self.ann, "accepted")
        self.mallory = client("POST", "/v1/applications", 202, description=simple("mallory"))["id"]
        client.until_state(self.mallory, "accepted")

    def well(self) -> None:
        """Check that the server still follows ann's application."""
        assert not any(task.done() for task in self.server._tasks)
        eventually(lambda: self.client("GET", f"/v1/applications/{self.ann}", 200)["live"])
        assert self.client("GET", "/healthz", 200)["problems"] == []


@pytest.fixture
def node() -> Iterator[Peer]:
    with peer(lambda *_: ok(b"LogLength:%d\nLogContents:\n" % len(SECRET) + SECRET, "text/plain")) as made:
        yield made


@pytest.fixture
def stage(tmp_path: Path, node: Peer) -> Iterator[Stage]:
    yarn = FakeYarn(node.url.removeprefix("http://"))
    config = settings(tmp_path, master_timeout_s=0.5, staging=f"file://{tmp_path}/staging")
    session = YarnSession(site(tmp_path, {"fs.defaultFS": "file:///"}, {}), Login("lab"), config.staging, None, yarn)
    backend = YarnBackend(session, config)
    with (
        peer(lambda *_: ok(json.dumps(view(log_url=f"{node.url}/node/containerlogs/x")).encode())) as good,
        served(config, backend) as (server, url),
    ):
        client = Client(url)
        made = Stage(config, server, backend, client, yarn)
        yarn.run("ann", good.url)
        client.until_state(made.ann, "ready")
        yield made
        client.close()


def asked_again(master: Peer, times: int = 2) -> None:
    before = len(master.asked)
    eventually(lambda: len(master.asked) >= before + times)


@pytest.mark.parametrize("names", others_long([list(LIES)[:3], list(LIES)[3:]]), ids=["some", "the others"])
def test_lies_harm_the_liar_alone(stage: Stage, names: list[str]) -> None:
    said = [b"{}"]
    with peer(lambda *_: ok(said[0])) as master:
        stage.yarn.run("mallory", master.url)
        stage.client.until_state(stage.mallory, "starting")
        for name in names:
            said[0] = LIES[name]
            asked_again(master)
            found = stage.client("GET", f"/v1/applications/{stage.mallory}", 200)
            assert (found["state"], found["live"]) == ("starting", False), name
            stage.client("PUT", f"/v1/applications/{stage.mallory}/scale", 503, service="work", count=1)
            stage.well()
        assert stage.client("GET", f"/v1/applications/{stage.mallory}/history", 200)["instances"] == []
        said[0] = of_instance()
        stage.client.until_state(stage.mallory, "ready")
    metrics = stage.client("GET", "/metrics", 200)
    assert 'failures_total{of="master"}' in metrics and 'of="application"' not in metrics


def test_a_server_that_starts_while_a_master_lies_follows_the_others(stage: Stage) -> None:
    """It ended after each start, for as long as that application ran."""
    with peer(lambda *_: ok(LIES["index 2**70"])) as master:
        stage.yarn.run("mallory", master.url)
        stage.client.until_state(stage.mallory, "starting")
        asked_again(master)
        with served(stage.config, stage.backend) as (server, url):
            client = Client(url)
            asked_again(master, 4)
            assert not any(task.done() for task in server._tasks)
            assert client("GET", f"/v1/applications/{stage.ann}", 200)["live"]
            assert client("GET", f"/v1/applications/{stage.mallory}", 200)["state"] == "starting"
            client.close()


@pytest.mark.long
def test_refusals_of_a_master_harm_it_alone(stage: Stage) -> None:
    status = ["404 Not Found"]
    with peer(lambda *_: [f"HTTP/1.1 {status[0]}\r\nContent-Length: 0\r\n\r\n".encode()]) as master:
        stage.yarn.run("mallory", master.url)
        stage.client.until_state(stage.mallory, "starting")
        for status[0] in ("400 Bad Request", "404 Not Found", "409 Conflict", "500 Oops", "101 Switching", "999 Odd"):
            asked_again(master)
            stage.well()
        stage.client("POST", f"/v1/applications/{stage.mallory}/kill", 202, reason="")
        eventually(lambda: "mallory" in stage.yarn.killed)
    stage.well()


def test_an_error_of_our_own_at_one_application_leaves_the_others(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = stage.server.watcher._follow

    async def fails(record: Any, report: Any) -> None:
        if record.id == stage.mallory:
            raise ZeroDivisionError("a bug")
        await follow(record, report)

    monkeypatch.setattr(stage.server.watcher, "_follow", fails)
    eventually(lambda: 'failures_total{of="application"}' in stage.client("GET", "/metrics", 200))
    passed_s = stage.server.watcher.last_pass_s
    eventually(lambda: stage.server.watcher.last_pass_s > passed_s)
    stage.well()


def test_a_redirect_leads_nowhere(stage: Stage) -> None:
    with peer(lambda *_: ok(b'{"internal": "only loopback may read this"}')) as inner:
        moved = b"HTTP/1.1 303 See Other\r\nLocation: %b/v1/secret\r\nContent-Length: 0\r\n\r\n" % inner.url.encode()
        with peer(lambda *_: [moved]) as master:
            stage.yarn.run("mallory", master.url)
            asked_again(master)
            answer = stage.client("PUT", f"/v1/applications/{stage.mallory}/scale", 503, service="work", count=1)
            assert "internal" not in json.dumps(answer)
            stage.client("POST", f"/v1/applications/{stage.mallory}/kill", 202, reason="")
            eventually(lambda: "mallory" in stage.yarn.killed)
        assert inner.asked == []
    stage.well()


@pytest.mark.parametrize(
    "where", ["{url}/v1/bypass?x=", "{url}/v1", "{url}#x", "http://a@{host}", "http://127.1:{port}"]
)
def test_an_address_that_is_not_the_masters_is_not_asked(stage: Stage, where: str) -> None:
    with peer(lambda *_: ok(b"{}")) as inner:
        host = inner.url.removeprefix("http://")
        stage.yarn.run("mallory", where.format(url=inner.url, host=host, port=host.partition(":")[2]))
        stage.client.until_state(stage.mallory, "starting")
        passed_s = stage.server.watcher.last_pass_s
        eventually(lambda: stage.server.watcher.last_pass_s > passed_s)
        stage.client("PUT", f"/v1/applications/{stage.mallory}/scale", 409, service="work", count=1)
        stage.client("POST", f"/v1/applications/{stage.mallory}/kill", 202, reason="")
        eventually(lambda: "mallory" in stage.yarn.killed)
        assert inner.asked == []
    stage.well()


def test_a_master_on_another_host_is_not_asked(stage: Stage) -> None:
    stage.yarn.host = "node-7.example.org"
    with peer(lambda *_: ok(b"{}")) as inner:
        stage.yarn.run("mallory", inner.url)
        stage.client.until_state(stage.mallory, "starting")
        passed_s = stage.server.watcher.last_pass_s
        eventually(lambda: stage.server.watcher.last_pass_s > passed_s)
        assert inner.asked == []
    stage.well()


def test_logs_come_from_nodes_that_yarn_knows(stage: Stage, node: Peer) -> None:
    assert stage.client("GET", f"/v1/applications/{stage.ann}/logs/work/0", 200) == SECRET.decode()
    with peer(lambda *_: ok(b"LogLength:1\nLogContents:\nx", "text/plain")) as inner:
        said = of_instance(log_url=f"{inner.url}/node/containerlogs/x")
        with peer(lambda *_: ok(said)) as master:
            stage.yarn.run("mallory", master.url)
            stage.client.until_state(stage.mallory, "ready")
            stage.client("GET", f"/v1/applications/{stage.mallory}/logs/work/0", 404)
        assert inner.asked == []
    assert all(MALLORYS not in asked for asked in node.asked)


@pytest.mark.parametrize("container", [ANNS, "../../../any?x=y#/logs/", f"{MALLORYS}/../{ANNS}", ""])
def test_logs_of_foreign_containers(tmp_path: Path, node: Peer, container: str) -> None:
    yarn = FakeYarn(node.url.removeprefix("http://"))
    session = YarnSession(site(tmp_path, {}, {}), Login("lab"), "", None, yarn)
    source = LogSource(f"application_{STAMP}_0003", "mallory", container, "", f"{node.url}/x", False)

    async def play() -> None:
        backend = YarnBackend(session, settings(tmp_path))
        with pytest.raises(ApiError, match="is no container of application_1700000000000_0003"):
            await backend.log(source, "stdout", 100)
        await backend.close()

    asyncio.run(play())
    assert node.asked == []


def flood(sent: list[int]) -> Iterable[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n["
    for _ in range(400):
        yield b"1," * (1 << 19)
        sent.append(1)


def test_a_flood_is_read_to_a_bound(stage: Stage) -> None:
    sent: list[int] = []
    with peer(lambda *_: flood(sent)) as master:
        stage.yarn.run("mallory", master.url)
        asked_again(master)
        calls = len(master.asked)
        stage.client("PUT", f"/v1/applications/{stage.mallory}/scale", 503, service="work", count=1)
        most = (len(master.asked) + 1) * (MASTER_ANSWER_BYTES + (16 << 20))
        assert calls and len(sent) << 20 <= most, "what sockets hold comes on top"
        stage.well()


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "])
def test_a_dripping_master_holds_nobody_up(stage: Stage, head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master_api, "MASTER_CALL_S", 2.0)
    with peer(lambda *_: drip(head, 0.1)) as master:
        stage.yarn.run("mallory", master.url)
        asked_again(master)
        begun_s = time.monotonic()
        with ThreadPoolExecutor(30) as pool:
            path = f"/v1/applications/{stage.mallory}/scale"
            list(pool.map(lambda _: stage.client("PUT", path, 503, service="work", count=1), range(30)))
        assert time.monotonic() - begun_s < 30.0, "all at once, each to its deadline"
        assert stage.backend._threads._work_queue.qsize() == 0
        bob = stage.client("POST", "/v1/applications", 202, description=simple("bob"))["id"]
        stage.client.until_state(bob, "accepted")
        stage.well()
