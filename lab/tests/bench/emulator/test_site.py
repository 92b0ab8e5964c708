"""An emulated node with the sidecar of production, as masters, the proxy and the NodeManager see it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from policies.config.policy_set import Policies
from policies.model import Resources
from quicksilver.common.http.rest_client import RestClient
from quicksilver.common.http.rest_server import serve
from quicksilver.common.messages import Grant, Grants
from quicksilver.common.process.listening import bound_socket
from quicksilver_lab.bench.emulator.reports import Traffic
from quicksilver_lab.bench.emulator.site import EmulatedSite, Slow, Wiring
from sidecar.config import SidecarSettings
from sidecar.gate.start_messages import container_id
from sidecar.metrics import SidecarMetrics
from tests import loops
from tests.sidecar.fakes import APP, ATTEMPT, FakeAm, FakeNm, FakeProxy, cid, start_request


@dataclass
class Nm(FakeNm):
    """Remembers how fast containers shall run."""

    speeds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        FakeNm.__init__(self)

    def connected(self) -> asyncio.Protocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._serve)

    def speed(self, container_id: str, ratio: float) -> None:
        self.speeds[container_id] = round(ratio, 3)

    def served_s(self, container_id: str) -> float | None:
        return 0.0 if container_id in self.speeds else None


@dataclass
class World:
    nm: Nm
    proxy: FakeProxy
    site: EmulatedSite
    port: int

    async def grant(self, *serials: int) -> None:
        grants = [
            Grant(
                container_id=cid(n), app_id=APP, attempt_id=ATTEMPT, app_type="MAPREDUCE", memory_mb=1, vcores=1,
                max_hold_s=60.0,
            )
            for n in serials
        ]  # fmt: skip
        client = RestClient(self.proxy.reports[-1].sidecar_url)
        await asyncio.to_thread(client.post, "/v1/grants", Grants(grants=grants))
        client.close()

    async def began(self, serial: int) -> None:
        await until(lambda: cid(serial) in self.nm.running)
        self.site.began(cid(serial), 1.0)

    def ended(self, serial: int) -> None:
        self.nm.end(cid(serial))
        self.site.ended(cid(serial))


async def until(condition: Callable[[], Any], within_s: float = 30.0) -> None:
    end_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end_s, "it did not happen in time"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def world(vcores: int = 1, **policies: Any) -> AsyncIterator[World]:
    nm, proxy, sock = Nm(), FakeProxy(), bound_socket("127.0.0.1", 0)
    server = asyncio.create_task(serve(proxy.app, sock))
    section = {"queues": "*", "routes": [{"policy": "only_q"}]} | policies
    settings = SidecarSettings(report_s=0.2, announce_wait_s=0.3)
    wiring = Wiring(Policies.load(section), settings, sock.getsockname()[:2], SidecarMetrics(), Traffic())
    site = EmulatedSite("127.2.0.1:8041", Resources(8192, vcores), 16.0, nm, wiring)
    await site.start("127.2.0.1")
    gate = await asyncio.get_running_loop().create_server(site.client, "127.0.0.1", 0)
    try:
        await until(lambda: proxy.reports)
        yield World(nm, proxy, site, gate.sockets[0].getsockname()[1])
    finally:
        gate.close()
        await site.close()
        server.cancel()
        await asyncio.gather(server, return_exceptions=True)


def run(story: Callable[[], Awaitable[None]]) -> None:
    loops.run(story())  # type: ignore[arg-type]


async def test_held_starts_are_answered_at_once_and_start_when_there_is_room() -> None:
    async with world() as w:
        am = await FakeAm.connect(w.port)
        await w.grant(1, 2)
        for serial in (1, 2):
            answer = await am.start(start_request(cid(serial), opportunistic=True, memory_mb=1))
            assert [container_id(one) for one in answer.succeeded_requests] == [cid(serial)]
        await am.close()
        await w.began(1)
        assert w.nm.started() == [cid(1)]
        w.ended(1)
        await w.began(2)
        w.ended(2)
        for serial in (1, 2):
            await until(lambda serial=serial: w.proxy.kinds(cid(serial)) == ["held", "started", "ended"])


async def test_a_guaranteed_start_kills_on_a_session_of_the_killed_one() -> None:
    async with world() as w:
        am = await FakeAm.connect(w.port)
        await w.grant(1)
        await am.start(start_request(cid(1), opportunistic=True, memory_mb=1))
        await w.began(1)
        await am.start(start_request(cid(2), opportunistic=False, memory_mb=1))
        assert w.nm.calls[-1] == ("startContainers", (cid(2),))
        assert ("stopContainers", (cid(1),)) in w.nm.calls
        w.site.ended(cid(1))
        await until(lambda: w.proxy.kinds(cid(1)) == ["held", "started", "killed"])
        await am.close()


async def test_what_gives_way_runs_slower() -> None:
    las = {"policy": "las", "settings": {"extra": 1, "quantum_s": 50, "min_cores": 0.05}}
    async with world(preempt=las) as w:
        am = await FakeAm.connect(w.port)
        await w.grant(1, 2)
        await am.start(start_request(cid(1), opportunistic=True, memory_mb=1))
        await w.began(1)
        await until(lambda: w.nm.speeds.get(cid(1)) == 1.0)
        await am.start(start_request(cid(2), opportunistic=True, memory_mb=1))
        await w.began(2)
        await until(lambda: w.nm.speeds[cid(1)] < 0.05)
        assert w.nm.speeds == {cid(1): round(0.05 / 1.05, 3), cid(2): round(1 / 1.05, 3)}
        w.ended(2)
        await until(lambda: w.nm.speeds[cid(1)] == 1.0)
        await am.close()


def test_cores_are_shared_evenly_beyond_what_there_is() -> None:
    nm = Nm()
    slow = Slow(nm, 2.0)
    for name in "abc":
        slow.size(name, 1.0)
    assert nm.speeds == {"a": 0.667, "b": 0.667, "c": 0.667}
    slow.shrink("a", 0.5)
    assert nm.speeds == {"a": 0.4, "b": 0.8, "c": 0.8}
    slow.freeze("b")
    assert nm.speeds == {"a": 0.5, "b": 0.0, "c": 1.0}
    slow.restore("b")
    slow.over("c")
    assert nm.speeds["a"] == 0.5
    assert nm.speeds["b"] == 1.0
