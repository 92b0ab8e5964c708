"""The sidecar's sockets, between a NodeManager, an application master and a proxy that are none."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from hadoop_rpc.connection import Failure, SaslFrame
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import RpcSaslProto
from hadoop_rpc.sasl import DigestMd5Client
from policies.config.policy_set import Policies
from policies.model import Resources
from quicksilver.common.address import Address
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.rest_server import serve
from quicksilver.common.messages import Grant, Grants
from quicksilver.common.process.listening import bound_socket
from quicksilver_lab.cluster.ports import free_port
from sidecar.config import Place, SidecarSettings
from sidecar.gate.start_messages import container_id, container_proto
from sidecar.service import server
from sidecar.service.processes import process_watch
from sidecar.service.server import Sidecar
from tests.sidecar.fakes import APP, ATTEMPT, FakeAm, FakeNm, FakeProxy, cid, nm_token, nm_web, start_request

PATIENCE_S = 60.0
"""What must come comes within it, however loaded the machine is."""


@dataclass
class World:
    """Everything around one sidecar."""

    nm: FakeNm
    proxy: FakeProxy
    sidecar: Sidecar
    port: int
    rest: str
    local_dir: Path
    running: asyncio.Task[None]

    async def grant(self, *serials: int, **more: Any) -> None:
        fields = {"app_id": APP, "attempt_id": ATTEMPT, "memory_mb": 1024, "vcores": 1, "max_hold_s": 60.0} | more
        grants = [Grant(container_id=cid(serial), **fields) for serial in serials]
        await self.post("/v1/grants", Grants(grants=grants))

    async def post(self, path: str, body: Any) -> None:
        answer = await asyncio.to_thread(requests.post, self.rest + path, json=body.model_dump(), timeout=PATIENCE_S)
        assert answer.status_code == 204, answer.text

    async def get(self, path: str) -> requests.Response:
        return await asyncio.to_thread(requests.get, self.rest + path, timeout=PATIENCE_S)

    def pid_file(self, serial: int, pid: int) -> Path:
        folder = self.local_dir / "nmPrivate" / APP / cid(serial)
        folder.mkdir(parents=True)
        path = folder / f"{cid(serial)}.pid"
        path.write_text(f"{pid}\n")
        return path


async def until(condition: Callable[[], Any], within_s: float = PATIENCE_S) -> None:
    end_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end_s, f"not within {within_s:g} s"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def world(tmp_path: Path, *, extra: Any = (), web: bool = True, **settings: Any) -> AsyncIterator[World]:
    nm, proxy = FakeNm(), FakeProxy()
    await nm.start()
    nm_sock, proxy_sock = bound_socket("127.0.0.1", 0), bound_socket("127.0.0.1", 0)
    proxy_url = f"http://127.0.0.1:{proxy_sock.getsockname()[1]}"
    web_port = nm_sock.getsockname()[1]
    servers = [asyncio.create_task(serve(proxy.app, proxy_sock))]
    if web:
        servers.append(asyncio.create_task(serve(nm_web(nm, extra), nm_sock)))
    else:
        nm_sock.close()
    listen, rest = Address("127.0.0.1", free_port()), Address("127.0.0.1", free_port())
    place = Place(
        listen=listen,
        upstream=Address("127.0.0.1", nm.port),
        web_listen=Address("127.0.0.1", free_port()),
        web_upstream=Address("127.0.0.1", web_port),
        rest=rest,
        rest_url=f"http://{rest}",
        proxy_url=proxy_url,
        node_id="node1:8041",
        capacity=Resources(2048, 2),
        local_dirs=(tmp_path,),
    )
    defaults = {
        "state_dir": tmp_path / "state",
        "reserve_mb": 0,
        "announce_wait_s": 0.3,
        "settle_s": 0.0,
        "report_s": 0.2,
    }
    sidecar = Sidecar(
        SidecarSettings(**(defaults | settings)), place, Policies.load(None), f"http://127.0.0.1:{web_port}"
    )
    running = asyncio.create_task(sidecar.run())
    await until(lambda: running.done() or proxy.reports)
    if running.done():
        await running  # raises why
    try:
        yield World(nm, proxy, sidecar, listen.port, f"http://{rest}", tmp_path, running)
    finally:
        sidecar.stop()
        await asyncio.wait_for(running, PATIENCE_S)
        await nm.stop()
        for server in servers:
            server.cancel()
        await asyncio.gather(*servers, return_exceptions=True)


async def test_guaranteed_passes_and_its_end_is_seen_by_its_process(tmp_path: Path) -> None:
    async with world(tmp_path, reconcile_s=3600.0) as w:  # the NodeManager's list is not asked
        am = await FakeAm.connect(w.port)
        answer = await am.start(start_request(cid(2), opportunistic=False))
        assert [container_id(one) for one in answer.succeeded_requests] == [cid(2)]
        assert answer.services_meta_data[0].key == "mapreduce_shuffle"
        process = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
        w.pid_file(2, process.pid)
        await until(lambda: w.sidecar.dispatcher.watcher.pid(cid(2)) == process.pid)
        assert w.sidecar.node.state.used("G") == Resources(1024, 1)
        process.kill()
        await process.wait()
        await until(lambda: w.proxy.kinds(cid(2)) == ["started", "ended"])
        assert w.sidecar.node.state.used() == Resources(0, 0)
        await am.close()


async def test_calls_of_policies_are_measured_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[object] = []
    monkeypatch.setattr(server, "measure_calls", measured.append)
    async with world(tmp_path) as w:
        assert not w.running.done()
    assert measured == [time.monotonic]


async def test_announced_waits_and_starts_on_the_kept_session_after_its_master_closed(tmp_path: Path) -> None:
    async with world(tmp_path, ping_s=0.05) as w:
        await w.grant(2, 3, 4)
        for serial in (2, 3, 4):
            am = await FakeAm.connect(w.port)
            answer = await am.start(start_request(cid(serial), opportunistic=True, command=f"job {serial}"))
            assert [container_id(one) for one in answer.succeeded_requests] == [cid(serial)]
            assert answer.services_meta_data[0].value == b"\0\0\x34\xfa"
            await am.close()
        await until(lambda: w.nm.started() == [cid(2), cid(3)])
        await until(lambda: len(w.nm.connections) == 1)  # one session is kept
        await until(lambda: w.nm.pings > 2)
        why = (await w.get(f"/v1/containers/{cid(4)}")).json()
        assert why["state"] == "waiting"
        assert why["why"].startswith("waits for memory: 1024 MB wanted, 0 MB free; shed in ")
        w.nm.end(cid(2))
        await until(lambda: cid(4) in w.nm.running)
        for serial in (3, 4):
            w.nm.end(cid(serial))
        await until(lambda: w.proxy.kinds(cid(4)) == ["held", "started", "ended"])
        await until(lambda: not w.nm.connections)  # nothing of it waits or runs
        waited = next(e for e in w.proxy.events if e.container_id == cid(4) and e.kind == "started")
        assert waited.waited_s > 0.1


async def test_guaranteed_goes_up_only_after_its_victim_is_gone(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.nm.stop_takes_s = 0.3
        await w.grant(2, 3)
        am = await FakeAm.connect(w.port)
        await am.start(start_request(cid(2), opportunistic=True))
        await am.start(start_request(cid(3), opportunistic=True))
        await until(lambda: w.nm.running == {cid(2), cid(3)})
        begun_s = time.monotonic()
        await am.start(start_request(cid(9), opportunistic=False))
        assert time.monotonic() - begun_s >= 0.3, "the victim was still there"
        assert w.nm.running == {cid(2), cid(9)}
        await until(lambda: w.proxy.kinds(cid(3)) == ["held", "started", "killed"])
        assert "makes room for" in w.proxy.events[-1].reason or w.proxy.kinds(cid(9)) == ["started"]
        await am.close()


async def test_split_of_guaranteed_announced_and_foreign_in_one_call(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.nm.refuse[cid(5)] = "The auxService:nothing does not exist"
        await w.grant(3, 4)
        am = await FakeAm.connect(w.port)
        answer = await am.start(
            start_request(cid(2), opportunistic=False),
            start_request(cid(3), opportunistic=True),
            start_request(cid(4), opportunistic=True),
            start_request(cid(5), opportunistic=True),
        )
        assert sorted(container_id(one) for one in answer.succeeded_requests) == [cid(2), cid(3), cid(4)]
        assert [container_id(one.container_id) for one in answer.failed_requests] == [cid(5)]
        assert len(answer.services_meta_data) == 1
        await until(lambda: w.nm.running == {cid(2), cid(3)})
        assert w.proxy.kinds(cid(5)) == []
        await am.close()


async def test_calls_about_waiting_containers(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.grant(2, 3, 4, 5)
        am = await FakeAm.connect(w.port)
        for serial in (2, 3, 4, 5):
            await am.start(start_request(cid(serial), opportunistic=True))
        await until(lambda: w.nm.running == {cid(2), cid(3)})
        ids = [container_proto(cid(serial)) for serial in (2, 4)]
        answer = await am.call("getContainerStatuses", y.GetContainerStatusesRequestProto(container_id=ids))
        statuses = y.GetContainerStatusesResponseProto.FromString(answer.body)  # type: ignore[union-attr]
        states = {container_id(s.container_id): (s.state, s.container_sub_state) for s in statuses.status}
        assert states[cid(4)] == (y.C_RUNNING, y.CSS_SCHEDULED)
        assert states[cid(2)][0] == y.C_RUNNING
        stop = y.StopContainersRequestProto(container_id=[container_proto(cid(4))])
        answer = await am.call("stopContainers", stop)
        done = y.StopContainersResponseProto.FromString(answer.body)  # type: ignore[union-attr]
        assert [container_id(one) for one in done.succeeded_requests] == [cid(4)]
        await until(lambda: w.proxy.kinds(cid(4)) == ["held", "stopped"])
        other = await am.call("restartContainer", container_proto(cid(5)))
        assert isinstance(other, Failure)
        assert other.text == "no restartContainer here"
        assert cid(5) in w.nm.running  # it was started first, room or not
        assert ("stopContainers", (cid(4),)) not in w.nm.calls
        await am.close()


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        ("Container rejected as it is allocated by a previous RM", ["held", "lost"]),
        ("This token is expired. current time is 2 found 1", ["held", "lost"]),
        ("Container already is running on this node!!", ["held", "started"]),
        ("The auxService:nothing does not exist", ["held", "failed"]),
    ],
)
async def test_a_late_start_that_fails_is_told_apart(tmp_path: Path, words: str, kinds: list[str]) -> None:
    async with world(tmp_path) as w:
        w.nm.refuse[cid(2)] = words
        await w.grant(2)
        am = await FakeAm.connect(w.port)
        await am.start(start_request(cid(2), opportunistic=True))
        await until(lambda: len(w.proxy.kinds(cid(2))) >= 2)
        assert w.proxy.kinds(cid(2))[:2] == kinds
        if kinds[1] != "started":
            assert words in next(e for e in w.proxy.events if e.kind == kinds[1]).reason
        await am.close()


async def test_restart_of_the_nodemanager_loses_what_waits(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.grant(2, 3, 4)
        am = await FakeAm.connect(w.port)
        for serial in (2, 3, 4):
            await am.start(start_request(cid(serial), opportunistic=True))
        await until(lambda: len(w.nm.running) == 2)
        await w.nm.stop()
        await until(lambda: w.proxy.kinds(cid(4)) == ["held", "lost"])
        with pytest.raises(ConnectionError):
            await am.read()
        await am.close()
        coming = asyncio.create_task(FakeAm.connect(w.port))
        await until(lambda: w.sidecar.dispatcher.gates.connections)
        await w.nm.start()
        again = await coming
        await again.start(start_request(cid(9), opportunistic=False))
        assert cid(9) in w.nm.running
        await again.close()


async def test_garbage_is_closed_and_disturbs_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with world(tmp_path) as w:
        am = await FakeAm.connect(w.port)
        reader, writer = await asyncio.open_connection("127.0.0.1", w.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
        writer.close()
        answer = await am.start(start_request(cid(2), opportunistic=False))
        assert len(answer.succeeded_requests) == 1
        text = (await w.get("/metrics")).text
        assert 'quicksilver_sidecar_protocol_errors_total{side="client"} 1.0' in text
        await am.close()


async def test_another_applications_grant_is_not_held(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.grant(2)
        am = await FakeAm.connect(w.port, nm_token(app=7))
        await am.start(start_request(cid(2), opportunistic=True))
        assert w.nm.started() == [cid(2)]
        assert "held" not in w.proxy.kinds(cid(2))
        await am.close()


async def test_grant_that_comes_after_its_start(tmp_path: Path) -> None:
    async with world(tmp_path, announce_wait_s=30.0) as w:
        am = await FakeAm.connect(w.port)
        starting = asyncio.create_task(am.start(start_request(cid(2), opportunistic=True)))
        await until(lambda: cid(2) in w.sidecar.node.state.containers)
        await w.grant(2)
        await starting
        await until(lambda: w.proxy.kinds(cid(2)) == ["held", "started"])
        await am.close()


async def test_stop_sheds_tells_the_proxy_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_STOP_S", PATIENCE_S)  # for the last report

    async with world(tmp_path) as w:
        await w.grant(2, 3, 4)
        am = await FakeAm.connect(w.port)
        for serial in (2, 3, 4):
            await am.start(start_request(cid(serial), opportunistic=True))
        await until(lambda: len(w.nm.running) == 2)
        w.sidecar.stop()
        await until(lambda: w.proxy.kinds(cid(4)) == ["held", "shed"])
        assert next(e for e in w.proxy.events if e.kind == "shed").reason == "sidecar stopping"
        with pytest.raises(ConnectionError):
            await am.read()
        await am.close()
        await asyncio.wait_for(w.running, PATIENCE_S)  # by itself, though the other starts run on
        assert w.nm.running == {cid(2), cid(3)}


async def test_containers_of_before_are_adopted(tmp_path: Path) -> None:
    row = {"id": cid(7), "state": "RUNNING", "totalMemoryNeededMB": 512, "totalVCoresNeeded": 1, "more": 1}
    async with world(tmp_path, extra=[row]) as w:
        await until(lambda: cid(7) in w.sidecar.node.state.containers)
        assert w.sidecar.node.state.used("G") == Resources(512, 1)
        assert w.proxy.kinds(cid(7)) == []


async def test_web_pages_are_relayed_and_unreachable_things_are_said(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        url = f"http://{w.sidecar.place.web_listen}/ws/v1/node/info"
        answer = await asyncio.to_thread(requests.get, url, timeout=PATIENCE_S)
        assert answer.json()["nodeInfo"]["id"] == "node1:8041"
    async with world(tmp_path / "second", web=False) as w:
        await until(lambda: w.sidecar.nm_rest.answers is False)
        health = await w.get("/healthz")
        assert (health.status_code, health.json()["status"]) == (200, "degraded")
        assert "the NodeManager's REST does not answer" in health.json()["limits"][0]
        ready = await w.get("/readyz")
        assert ready.status_code == 503
        assert "the NodeManager's REST does not answer" in ready.json()["reasons"]


async def test_rest_errors_have_one_form(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        missing = await w.get("/v1/containers/container_1_0001_01_000001")
        assert missing.status_code == 404
        assert missing.json()["error"]["code"] == "unknown-container"
        bad = await asyncio.to_thread(
            requests.post, w.rest + "/v1/grants", json={"grants": [{"container_id": 3}]}, timeout=PATIENCE_S
        )
        assert bad.status_code == 422
        assert "grants.0" in bad.json()["error"]["message"]
        node = (await w.get("/v1/node")).json()
        assert (node["memory_mb"], node["vcores"], node["draining"]) == (2048, 2.0, False)


async def test_an_occupied_port_is_one_clear_error(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        place = w.sidecar.place
        second = Sidecar(SidecarSettings(), place, Policies.load(None), "http://127.0.0.1:1")
        with pytest.raises(QuicksilverError, match=f"{place.listen}: cannot listen: Address already in use; stop"):
            await second.run()


async def test_encrypted_connections_are_said_in_the_limits(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        assert w.sidecar.limitations.texts() == []
        am = FakeAm(*await asyncio.open_connection("127.0.0.1", w.port))
        hello = am.connection.sasl(RpcSaslProto(state=RpcSaslProto.NEGOTIATE))
        am.writer.write(am.connection.preamble(0xDF) + hello)
        (offer,) = am.connection.receive_data(await am.read())
        assert isinstance(offer, SaslFrame)
        answer = DigestMd5Client(nm_token().identifier, b"").respond(offer.message.auths[0].challenge)
        choice = RpcSaslProto(state=RpcSaslProto.INITIATE, token=answer.replace(b"qop=auth", b"qop=auth-conf"))
        choice.auths.add(method="TOKEN", mechanism="DIGEST-MD5", protocol="", serverId="default")
        am.writer.write(am.connection.sasl(choice))
        await until(lambda: w.sidecar.limitations.texts())
        assert "pass unread" in w.sidecar.limitations.texts()[0]
        assert "hadoop.rpc.protection=authentication" in w.sidecar.limitations.texts()[0]
        await until(lambda: w.proxy.reports[-1].limits == w.sidecar.limitations.texts())
        await am.close()


async def test_unreadable_pid_files_are_said_and_the_nodemanagers_list_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(process_watch, "read_pid_file", unreadable)  # to root no mode is

    async with world(tmp_path) as w:
        am = await FakeAm.connect(w.port)
        await am.start(start_request(cid(2), opportunistic=False))
        await until(lambda: w.sidecar.limitations.texts())
        assert "nmPrivate cannot be read: Permission denied" in w.sidecar.limitations.texts()[0]
        w.nm.end(cid(2))
        await until(lambda: w.proxy.kinds(cid(2)) == ["started", "ended"])
        assert w.proxy.reports[-1].limits == w.sidecar.limitations.texts()
        await am.close()


async def test_a_recycled_process_number_is_not_believed(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        am = await FakeAm.connect(w.port)
        process = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
        old = w.pid_file(2, process.pid)
        os.utime(old, (time.time() - 3600, time.time() - 3600))
        await am.start(start_request(cid(2), opportunistic=False))
        await until(lambda: w.proxy.kinds(cid(2)) == ["started", "ended"])
        process.kill()
        await process.wait()
        await am.close()


async def test_connection_limit(tmp_path: Path) -> None:
    async with world(tmp_path, max_connections=1) as w:
        am = await FakeAm.connect(w.port)
        with pytest.raises(ConnectionError):
            await FakeAm.connect(w.port)
        assert len((await am.start(start_request(cid(2), opportunistic=False))).succeeded_requests) == 1
        await am.close()
        await until(lambda: not w.sidecar.dispatcher.gates.connections)
        await (await FakeAm.connect(w.port)).close()


async def test_the_proxy_may_be_away(tmp_path: Path) -> None:
    async with world(tmp_path, events_max=100) as w:
        w.proxy.away = True
        am = await FakeAm.connect(w.port)
        for serial in range(2, 72):
            await am.start(start_request(cid(serial), opportunistic=False))
            w.nm.end(cid(serial))
        await until(lambda: w.sidecar.dispatcher.reporter.reachable is False)
        await until(lambda: not list(w.sidecar.node.state.using()))
        assert len(w.proxy.events) < 10
        w.proxy.away = False
        await until(lambda: len({event.seq for event in w.proxy.events}) >= 100)
        assert max(event.seq for event in w.proxy.events) == 140
        assert "quicksilver_sidecar_events_dropped_total 0.0" not in (await w.get("/metrics")).text
        await am.close()


async def test_a_second_life_tells_what_the_first_one_held_and_takes_over_what_runs(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.grant(2, 3, 4)
        am = await FakeAm.connect(w.port)
        for serial in (2, 3, 4):
            await am.start(start_request(cid(serial), opportunistic=True))
        await until(lambda: w.nm.running == {cid(2), cid(3)} and w.proxy.kinds(cid(3)) == ["held", "started"])
        (journal,) = (tmp_path / "state").glob("*.journal")
        left = journal.read_bytes()
        first = w.sidecar
        first.stop()
        await until(lambda: w.proxy.kinds(cid(4)) == ["held", "shed"])
        await w.running
        am.writer.close()
        w.proxy.events = [event for event in w.proxy.events if event.kind != "shed"]
        journal.write_bytes(left)  # as if it had been killed then
        second = Sidecar(first.settings, first.place, Policies.load(None), first.nm_rest.url)
        running = asyncio.create_task(second.run())
        await until(lambda: w.proxy.kinds(cid(4)) == ["held", "lost"])
        assert second.identity.boot == first.identity.boot
        assert set(second.node.state.containers) == {cid(2), cid(3)}
        am = await FakeAm.connect(w.port)
        for serial in (3, 4):  # both were answered before; whoever repeats them is told the same
            answer = await am.start(start_request(cid(serial), opportunistic=True))
            assert [container_id(one) for one in answer.succeeded_requests] == [cid(serial)]
        assert w.nm.running == {cid(2), cid(3)}
        w.nm.end(cid(3))
        await until(lambda: w.proxy.kinds(cid(3))[-1] == "ended")
        text = (await w.get("/metrics")).text
        assert "quicksilver_sidecar_taken_over_containers 3.0" in text
        await am.close()
        second.stop()
        await asyncio.wait_for(running, PATIENCE_S)
