"""Five hundred containers come, fork, end and are killed at random, while the sidecar shares out two cores."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver.common.http.rest_server import serve
from quicksilver.common.messages import Grant, Grants
from quicksilver.common.process.listening import bound_socket
from quicksilver_lab.cluster.ports import free_port
from sidecar.gate.start_messages import container_proto
from tests.real.sidecar.real_nm import ProcessNm
from tests.real.sidecar.watcher import MOUNTS, GroupWatcher
from tests.sidecar.fakes import APP, ATTEMPT, FakeAm, FakeProxy, cid, nm_web, start_request
from tests.sidecar.resizer.containers import needs_cgroup1

COUNT, SEED = 500, 2018
CORES, QUANTUM_S = 2, 0.5
REACTION_S = 1.0
"""What a sidecar may need, with both cores busy and dozens of processes on them, to carry out what it decided."""
SCORE = 500
PARENT = f"quicksilver-test-{os.getpid()}"
POLICIES = f"""
policies:
  queues: "*"
  routes: [{{policy: only_q}}]
  preempt: {{policy: las, settings: {{quantum_s: {QUANTUM_S}, extra: 4}}}}
"""
SITE = """<configuration>
<property><name>yarn.nodemanager.local-dirs</name><value>{}</value></property>
<property><name>yarn.nodemanager.resource.cpu-vcores</name><value>64</value></property>
<property><name>yarn.nodemanager.resource.memory-mb</name><value>65536</value></property>
</configuration>"""
BURN = """
RANDOM={seed}
burn() {{ for ((i = 0; i < $1; i++)); do :; done; }}
for ((n = 0; n < {rounds}; n++)); do
  burn 10000
  if ((RANDOM % 4 == 0)); then burn 10000 & fi
  if ((RANDOM % 8 == 0)); then (burn 3000 & burn 3000; wait) & fi
done
wait
"""


@dataclass
class Storm:
    """What comes when, drawn beforehand."""

    rng: random.Random = field(default_factory=lambda: random.Random(SEED))
    guaranteed: set[str] = field(default_factory=set)
    stopped: set[str] = field(default_factory=set)
    """Containers that are on their way out, or over."""

    def __post_init__(self) -> None:
        self.ids = [cid(serial) for serial in range(2, COUNT + 2)]
        self.guaranteed |= {one for one in self.ids if self.rng.random() < 0.08}

    def command(self, serial: int) -> str:
        """Return what a container runs: most are short, a few run for several quanta."""
        rounds = self.rng.choices((2, 6, 40), (12, 6, 1))[0]
        return BURN.format(seed=serial, rounds=rounds)


def get(url: str) -> requests.Response:
    return requests.get(url, timeout=5)


async def until(true: object, what: str, within_s: float = 60.0) -> None:
    assert callable(true)
    end_s = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end_s, f"not within {within_s:g} s: {what}"
        await asyncio.sleep(0.05)


@dataclass
class World:
    """A sidecar as a process, and everything around it."""

    nm: ProcessNm
    proxy: FakeProxy
    port: int
    rest: str
    log: Path

    @property
    def label(self) -> str:
        return f"{PARENT}/127.0.0.1-{self.port}"

    def idle(self) -> bool:
        """Return whether the sidecar knows of nothing more; it may need the NodeManager's list, read each second."""
        return not self.nm.leaders and get(f"{self.rest}/v1/containers").json() == []

    def groups(self) -> list[Path]:
        return [group for group in MOUNTS.glob(f"*/{self.label}/container_*") if group.is_dir()]


def settings(nm: ProcessNm, web_port: int, proxy_port: int, port: int, rest_port: int) -> str:
    return f"""{POLICIES}
sidecar:
  listen: 127.0.0.1:{port}
  upstream: 127.0.0.1:{nm.port}
  web_listen: 127.0.0.1:{free_port()}
  web_upstream: 127.0.0.1:{web_port}
  rest_listen: 127.0.0.1:{rest_port}
  proxy_url: http://127.0.0.1:{proxy_port}
  vcores: {CORES}
  cgroup: {PARENT}
  resizer: cgroup1
  reserve_mb: 0
  settle_s: 0
  oom_score_queueable: {SCORE}
"""


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    nm, proxy = ProcessNm(folder / "local"), FakeProxy()
    await nm.start()
    web, reports = bound_socket("127.0.0.1", 0), bound_socket("127.0.0.1", 0)
    ports = free_port(), free_port()
    (folder / "conf").mkdir()
    (folder / "conf" / "yarn-site.xml").write_text(SITE.format(folder / "local"))
    config = folder / "quicksilver.yaml"
    config.write_text(settings(nm, web.getsockname()[1], reports.getsockname()[1], *ports))
    servers = [asyncio.create_task(serve(nm_web(nm), web)), asyncio.create_task(serve(proxy.app, reports))]
    words = ["sidecar", "run", "--config", str(config), "--conf-dir", str(folder / "conf")]
    with (folder / "sidecar.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "quicksilver", *words, stdout=log, stderr=log
        )
    made = World(nm, proxy, ports[0], f"http://127.0.0.1:{ports[1]}", folder / "sidecar.log")
    try:
        await until(lambda: proxy.reports or process.returncode is not None, "the sidecar is up", 120)
        assert process.returncode is None, made.log.read_text()
        yield made
    finally:
        if process.returncode is None:
            process.terminate()
        code = await asyncio.wait_for(process.wait(), 10)
        nm.close()
        await nm.stop()
        for server in servers:
            server.cancel()
        await asyncio.gather(*servers, return_exceptions=True)
    assert code == 0, made.log.read_text()[-3000:]


async def rage(w: World, storm: Storm) -> None:
    """Let all containers come, and kill some of them by and by."""
    am = await FakeAm.connect(w.port)
    fields = {"app_id": APP, "attempt_id": ATTEMPT, "memory_mb": 16, "vcores": 1, "max_hold_s": 120.0}
    queueable = [one for one in storm.ids if one not in storm.guaranteed]
    body = Grants(grants=[Grant.model_validate({"container_id": one, **fields}) for one in queueable]).model_dump()
    answer = await asyncio.to_thread(requests.post, f"{w.rest}/v1/grants", json=body, timeout=5)
    assert answer.status_code == 204, answer.text
    for serial, one in enumerate(storm.ids):
        request = start_request(
            one, opportunistic=one not in storm.guaranteed, memory_mb=16, command=storm.command(serial)
        )
        done = await am.start(request)
        assert len(done.succeeded_requests) == 1, done
        if storm.rng.random() < 0.2 and w.nm.leaders:
            await kill(w, am, storm)
        if storm.rng.random() > 0.3:  # a burst goes on at once
            await lull(w, storm.rng.expovariate(8))
        await until(lambda: len(storm.ids[: serial + 1]) - len(w.nm.over) < 40, "the storm waits for the node", 60)  # noqa: B023
    await am.close()


async def lull(w: World, for_s: float) -> None:
    """Pause, as long as containers contend for the cores: whatever the machine does besides, the storm stays one."""
    end_s = time.monotonic() + for_s
    while len(w.nm.leaders) > CORES and time.monotonic() < end_s:  # noqa: ASYNC110
        await asyncio.sleep(0.005)


async def kill(w: World, am: FakeAm, storm: Storm) -> None:
    """Kill a container that lives: by its master, by the NodeManager itself, or from outside."""
    victim = storm.rng.choice(sorted(w.nm.leaders))
    how = storm.rng.randrange(3)
    if how == 0:
        storm.stopped.add(victim)
        await am.call("stopContainers", y.StopContainersRequestProto(container_id=[container_proto(victim)]))
    elif how == 1:
        storm.stopped.add(victim)
        w.nm.end(victim)
    else:
        os.kill(w.nm.leaders[victim], signal.SIGKILL)


@pytest.mark.cgroup
@pytest.mark.alone
@pytest.mark.long
def test_a_storm_of_containers_never_has_more_than_the_cores(tmp_path: Path) -> None:
    needs_cgroup1()

    async def story() -> None:
        storm = Storm()
        async with world(tmp_path) as w:
            watcher = GroupWatcher(
                w.label,
                CORES,
                storm.guaranteed.__contains__,
                lambda: dict(w.nm.leaders),
                lambda one: one in storm.stopped or one not in w.nm.leaders,
                SCORE,
            )
            begun_s = time.monotonic()
            with watcher:
                await rage(w, storm)
                await until(lambda: len(w.nm.over) == COUNT, "all are over", 60)
            seen = watcher.seen
            print(
                f"{COUNT} containers in {time.monotonic() - begun_s:.1f} s, {len(storm.guaranteed)} guaranteed: {seen}"
            )
            await until(lambda: not w.groups(), "no groups of containers")
            assert w.nm.left() == {}
            await until(w.idle, "the sidecar knows that all are over")
            metrics = (await asyncio.to_thread(get, f"{w.rest}/metrics")).text
            assert "\nquicksilver_sidecar_shrunk 0.0\n" in metrics, metrics
            assert seen.checked > COUNT
            assert seen.shrunk > COUNT
            assert seen.too_many_s < QUANTUM_S + REACTION_S, seen
            assert seen.strays_s < REACTION_S, seen
        log = w.log.read_text()
        assert "a resize failed" not in log, log
        assert "Traceback" not in log, log
        assert not list(MOUNTS.glob(f"*/{PARENT}"))

    asyncio.run(story())
