"""Two workers of one proxy, before stand-ins, through real sockets: what one serves, and what the end of one costs."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import psutil
import pytest
import requests

from hadoop_rpc.errors import HadoopRpcError
from policies.config.policy_set import Policies
from quicksilver.common.errors import SettingsError
from quicksilver.common.process.journal_file import JournalFile
from quicksilver_apps.yarn.yarn_client import AmClient
from quicksilver_lab.bench.load.child_process import ChildError
from quicksilver_lab.bench.task.cluster import AskingMaster, Load, SidecarStandIn
from quicksilver_lab.bench.task.proxy_process import ProxyPlot, hadoop_conf, proxy_settings
from quicksilver_lab.bench.task.run import speed_up
from quicksilver_lab.bench.task.workers_process import WorkersProcess
from quicksilver_lab.bench.task.yarn import (
    TIMESTAMP,
    ClusterLog,
    RestStandIn,
    SchedulerStandIn,
    TaskCluster,
    am_token,
    app_id,
    node_id,
)
from quicksilver_lab.cluster.ports import free_port
from rm_proxy.coordinator.workers.spread import Spread
from rm_proxy.service.process import run
from rm_proxy.service.workers.journals import journal_of

SIZE: Final = TaskCluster(nodes=6, slots=4, masters=4)
LOAD: Final = Load(rate=12, task_s=0.4, beat_s=0.3)
SPREAD: Final = Spread(0, 2)
PATIENCE_S: Final = 150.0
SECRETS: Final = (b"keyC8byt", b"keyN8byt")
KEYS: Final = {
    "container": {"key_id": 1, "secret": b64encode(SECRETS[0]).decode()},
    "nm": {"key_id": 2, "secret": b64encode(SECRETS[1]).decode()},
    "rm_identifier": TIMESTAMP,
}


class ResumingMaster(AskingMaster):
    """A master that connects and registers again when its connection ends, and notes where its tasks run."""

    def __init__(self, app: int, log: ClusterLog) -> None:
        super().__init__(app, SIZE, LOAD, log)
        self.nodes: Counter[str] = Counter()
        self.ended = self.connections = 0
        self.asks = True

    async def live(self, port: int, nodes: dict[str, SidecarStandIn]) -> None:
        """Heartbeat until cancelled, over as many connections as it takes."""
        while True:
            try:
                async with AmClient("127.0.0.1", port, am_token(self._app)) as am:
                    await am.register()
                    self.connections += 1
                    while True:
                        await self._beat(am, nodes)
                        await asyncio.sleep(LOAD.beat_s)
            except (HadoopRpcError, OSError):
                await asyncio.sleep(0.2)

    async def _beat(self, am: AmClient, nodes: dict[str, SidecarStandIn]) -> None:
        if not self.asks:
            self._owed = -1e9
        answer = await am.allocate(self._request())
        self.ended += len(answer.completed_container_statuses)
        for container in answer.allocated_containers:
            self._open -= 1
            node = f"{container.nodeId.host}:{container.nodeId.port}"
            self.nodes[node] += 1
            nodes[node].run(container, LOAD.task_s)


@dataclass
class Scene:
    """A proxy of two workers with nodes and masters."""

    proxy: WorkersProcess
    log: ClusterLog
    nodes: dict[str, SidecarStandIn]
    masters: list[ResumingMaster]
    rest: int

    def of(self, worker: int) -> list[ResumingMaster]:
        return [master for master in self.masters if SPREAD.of_app(master.name) == worker]

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        end_s = loop.time() + PATIENCE_S
        while not holds():
            seen = [(m.name, m.ended, m.connections, dict(m.nodes)) for m in self.masters]
            assert loop.time() < end_s, f"not {what}: {seen}, {self.log.counts}, {self.log.faults[:3]}"
            await asyncio.sleep(0.1)

    async def get(self, path: str) -> requests.Response:
        url = f"http://127.0.0.1:{self.rest}{path}"
        return await asyncio.to_thread(requests.get, url, timeout=PATIENCE_S)


@asynccontextmanager
async def scene(folder: Path, own_grants: bool | Literal["ahead"] = False) -> AsyncIterator[Scene]:
    log, loop = ClusterLog(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: SchedulerStandIn(log, SIZE.nodes), "127.0.0.1", 0)
    upstream = server.sockets[0].getsockname()[1]
    try:
        with RestStandIn(SIZE) as rm_web:
            addresses = folder, free_port(), free_port(), upstream, rm_web
            plot = ProxyPlot(*addresses, {"preset": "default"}, own_grants=own_grants, workers=2)
            with WorkersProcess(plot, folder / "log") as proxy:
                await asyncio.to_thread(proxy.start)
                async with _under_load(plot, proxy, log) as there:
                    yield there
    finally:
        server.close()


@asynccontextmanager
async def _under_load(plot: ProxyPlot, proxy: WorkersProcess, log: ClusterLog) -> AsyncIterator[Scene]:
    url = f"http://127.0.0.1:{plot.rest}"
    fences = bool(plot.own_grants)
    nodes = {node_id(number): SidecarStandIn(number, SIZE.slots, url, log, fences) for number in range(SIZE.nodes)}
    masters = [ResumingMaster(app, log) for app in range(1, SIZE.masters + 1)]
    tasks = [asyncio.create_task(node.report_on()) for node in nodes.values()]
    tasks += [asyncio.create_task(master.live(plot.listen, nodes)) for master in masters]
    try:
        yield Scene(proxy, log, nodes, masters, plot.rest)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for node in nodes.values():
            await node.close()


@pytest.mark.long
def test_each_worker_serves_its_applications_on_all_nodes_and_its_end_is_theirs_alone(tmp_path: Path) -> None:
    asyncio.run(_story(tmp_path))


async def _story(folder: Path) -> None:
    async with scene(folder) as there:
        assert {SPREAD.of_node(node) for node in there.nodes} == {0, 1}
        await there.until("each ran at nodes of both workers", lambda: all(_both(m) for m in there.masters))
        await _calls(there)

        pids = there.proxy.pids()
        ended = {master.name: master.ended for master in there.masters}
        os.kill(pids["worker-1"], signal.SIGKILL)
        await there.until("their masters registered again", lambda: all(m.connections == 2 for m in there.of(1)))
        await there.until("all went on", lambda: all(m.ended > ended[m.name] + 3 for m in there.masters))
        assert [master.connections for master in there.of(0)] == [1, 1], "the other worker's saw nothing"
        now = there.proxy.pids()
        assert now["worker-1"] != pids["worker-1"] and now["worker-0"] == pids["worker-0"]

        for master in there.masters:
            master.asks = False
        await there.until("all tasks ended", lambda: not any(node._running for node in there.nodes.values()))
        await there.until("all events are settled", lambda: not any(node._events for node in there.nodes.values()))
        processes = [psutil.Process(pid) for pid in there.proxy.pids().values()]
    assert not [process for process in processes if process.is_running()], "all end with the supervisor"


def _both(master: ResumingMaster) -> bool:
    return {SPREAD.of_node(node) for node in master.nodes} == {0, 1} and master.ended > 0


async def _calls(there: Scene) -> None:
    """REST reaches the worker of what it is about, and any by its number; orders hold for all."""
    apps = [(await there.get(f"/v1/applications/{app_id(number)}")).status_code for number in (1, 2)]
    assert apps == [200, 200]
    with requests.Session() as session:  # which would keep its connection, and ask one worker for both
        urls = [f"http://127.0.0.1:{there.rest}/v1/health?worker={worker}" for worker in (0, 1)]
        starts = {(await asyncio.to_thread(session.get, url, timeout=PATIENCE_S)).json()["started_s"] for url in urls}
    assert len(starts) == 2
    metrics = [(await there.get(f"/metrics?worker={worker}")).text for worker in (0, 1)]
    grants = [sum(_value(line) for line in text.splitlines() if "proxy_grants_total{" in line) for text in metrics]
    assert all(grants), grants
    url = f"http://127.0.0.1:{there.rest}/v1/bypass"
    answer = await asyncio.to_thread(requests.post, url, json={"order": "on"}, timeout=PATIENCE_S)
    assert answer.ok, answer.text
    await _until_bypass(there, "on")
    await asyncio.to_thread(requests.post, url, json={"order": "auto"}, timeout=PATIENCE_S)
    await _until_bypass(there, "auto")


@pytest.mark.long
@pytest.mark.parametrize("own_grants", [True, "ahead"])
def test_each_worker_grants_on_the_nodes_of_both(tmp_path: Path, own_grants: bool | Literal["ahead"]) -> None:
    asyncio.run(_own_grants_story(tmp_path, own_grants))
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {"log", "proxy.db"} <= {file.name for file in files}
    for file in files:
        text = file.read_bytes()
        assert not [secret for secret in SECRETS if secret in text or b64encode(secret) in text], file


async def _own_grants_story(folder: Path, own_grants: bool | Literal["ahead"]) -> None:
    async with scene(folder, own_grants) as there:
        for node in there.nodes:
            url = f"http://127.0.0.1:{there.rest}/v1/nodes/{node}/keys"
            await there.until(f"keys of {node} are taken", lambda url=url: requests.post(url, json=KEYS).ok)  # type: ignore[misc]
        await _until_keys(there)
        await there.until("each ran at nodes of both workers", lambda: all(_both(m) for m in there.masters))
        await there.until("each has own grants", lambda: all(there.log.own_grants[m.name] > 3 for m in there.masters))
        assert own_grants != "ahead" or there.log.counts["known"], "sidecars hold them until they are known"

        os.kill(there.proxy.pids()["worker-1"], signal.SIGKILL)
        await there.until("their masters registered again", lambda: all(m.connections == 2 for m in there.of(1)))
        before = dict(there.log.own_grants)
        await _until_keys(there)
        await there.until(
            "it grants again", lambda: all(there.log.own_grants[m.name] > before[m.name] for m in there.of(1))
        )
    assert not there.log.faults


async def _until_keys(there: Scene) -> None:
    """Each worker knows the keys of all nodes."""
    async with asyncio.timeout(PATIENCE_S):
        for worker in (0, 1):
            while f"own_grant_nodes {SIZE.nodes}.0" not in (await there.get(f"/metrics?worker={worker}")).text:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


def _value(line: str) -> float:
    return float(line.rpartition(" ")[2])


async def _until_bypass(there: Scene, order: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        for worker in (0, 1):
            while (await there.get(f"/v1/bypass?worker={worker}")).json()["order"] != order:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


@pytest.mark.long
def test_the_front_is_replaced_and_all_end_with_the_supervisor(tmp_path: Path) -> None:
    with RestStandIn(SIZE) as rm_web:
        plot = ProxyPlot(tmp_path, free_port(), free_port(), free_port(), rm_web, {"preset": "default"}, workers=2)
        with WorkersProcess(plot, tmp_path / "log") as proxy:
            proxy.start()
            pids = proxy.pids()
            _until_ready(tmp_path / "log")
            assert "database is locked" not in (tmp_path / "log").read_text(), "the supervisor made the tables"
            front = psutil.Process(pids["front"])
            front.kill()
            psutil.wait_procs([front], PATIENCE_S)
            assert proxy.health(1)["status"], "the new front accepts what waited in the backlog"
            children = [psutil.Process(pid) for name, pid in proxy.pids().items() if name != "supervisor"]
            assert pids["front"] not in {child.pid for child in children}
            os.kill(pids["supervisor"], signal.SIGKILL)
            _, alive = psutil.wait_procs(children, PATIENCE_S)
            assert not alive


def _until_ready(log: Path) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while "all processes of the proxy serve" not in log.read_text():
        assert time.monotonic() < end_s, log.read_text()
        time.sleep(0.1)


@pytest.mark.long
def test_a_worker_that_fails_at_the_first_start_ends_the_proxy(tmp_path: Path) -> None:
    plot = ProxyPlot(tmp_path, free_port(), free_port(), free_port(), "http://127.0.0.1:1", {}, workers=2)
    path = proxy_settings(plot).endpoints(hadoop_conf(tmp_path)).journal
    lock = JournalFile(journal_of(path, Spread(1, 2)), form="x", setting="x")
    lock.lock()
    with WorkersProcess(plot, tmp_path / "log") as proxy, pytest.raises(ChildError, match="it does not serve"):
        proxy.start()
    lock.close()
    log = (tmp_path / "log").read_text()
    assert "another process uses it" in log and "worker 1: it ended before it served" in log


def test_settings_that_several_workers_cannot_follow_are_refused_at_the_start(tmp_path: Path) -> None:
    plot = ProxyPlot(tmp_path, free_port(), free_port(), 1, "http://127.0.0.1:1", {"preset": "hawk"}, workers=2)
    with pytest.raises(SettingsError, match=r"proxy\.workers: 2 workers cannot serve with policies\.probe"):
        run(proxy_settings(plot), Policies.load(dict(plot.policies)), hadoop_conf(tmp_path))


def test_the_speed_up_is_that_of_the_busiest_worker() -> None:
    several = {"threads_us_per_task": {"supervisor": 10, "front": 20, "worker-0": 500, "worker-1": 400}}
    assert speed_up(several, {"cpu_us_per_task": 900}, 2) == 1.8
