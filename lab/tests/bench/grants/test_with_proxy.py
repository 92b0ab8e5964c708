"""Probes through the production proxy, before stand-ins of the ResourceManager and the nodes."""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from pathlib import Path
from typing import Final, Literal

import pytest
import requests

from quicksilver_lab.bench.emulator.masters.asks import MAP_PRIORITY
from quicksilver_lab.bench.grants.probes import ProbePhase, ProbeResult, Probes
from quicksilver_lab.bench.task.cluster import SidecarStandIn
from quicksilver_lab.bench.task.proxy_process import ProxyPlot, ProxyProcess
from quicksilver_lab.bench.task.yarn import (
    TIMESTAMP,
    ClusterLog,
    RestStandIn,
    SchedulerStandIn,
    TaskCluster,
    am_token,
    node_id,
)
from quicksilver_lab.cluster.ports import free_port

SIZE: Final = TaskCluster(nodes=4, slots=64, masters=3)
PATIENCE_S: Final = 60.0
KEYS: Final = {
    "container": {"key_id": 1, "secret": b64encode(b"keyC8byt").decode()},
    "nm": {"key_id": 2, "secret": b64encode(b"keyN8byt").decode()},
    "rm_identifier": TIMESTAMP,
}


@pytest.mark.long
@pytest.mark.parametrize("own_grants", [False, True, "ahead"])
def test_a_grant_takes_one_call_and_is_the_proxys_own_where_it_grants_itself(
    tmp_path: Path, own_grants: bool | Literal["ahead"]
) -> None:
    result = asyncio.run(_story(tmp_path, own_grants))
    assert len(result.grants) + result.skipped == 40 and result.grants
    expected = (1, bool(own_grants), own_grants == "ahead")
    assert {(sample.calls, sample.own, sample.ahead) for sample in result.grants} == {expected}
    assert result.missing == 0


async def _story(folder: Path, own_grants: bool | Literal["ahead"]) -> ProbeResult:
    log, loop = ClusterLog(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: SchedulerStandIn(log, SIZE.nodes), "127.0.0.1", 0)
    upstream = server.sockets[0].getsockname()[1]
    try:
        with RestStandIn(SIZE) as rm_web:
            plot = ProxyPlot(
                folder, free_port(), free_port(), upstream, rm_web, {"preset": "default"}, False, 1, own_grants
            )
            with ProxyProcess(plot) as proxy:
                await asyncio.to_thread(proxy.start)
                return await _measured(plot, log)
    finally:
        server.close()


async def _measured(plot: ProxyPlot, log: ClusterLog) -> ProbeResult:
    url = f"http://127.0.0.1:{plot.rest}"
    nodes = [SidecarStandIn(number, SIZE.slots, url, log, bool(plot.own_grants)) for number in range(SIZE.nodes)]
    reports = [asyncio.create_task(node.report_on()) for node in nodes]
    probes = Probes(("127.0.0.1", plot.listen), MAP_PRIORITY, {})
    try:
        await _until_usable(url)
        for number in range(SIZE.nodes if plot.own_grants else 0):
            answer = await asyncio.to_thread(
                requests.post, f"{url}/v1/nodes/{node_id(number)}/keys", json=KEYS, timeout=10
            )
            answer.raise_for_status()
        await probes.connect([am_token(app).SerializeToString() for app in range(1, SIZE.masters + 1)])
        return await probes.run(ProbePhase(1.0, 2.0, 20.0, 0.1))
    finally:
        await probes.close()
        for report in reports:
            report.cancel()
        await asyncio.gather(*reports, return_exceptions=True)
        for node in nodes:
            await node.close()


async def _until_usable(url: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while True:
        health = (await asyncio.to_thread(requests.get, f"{url}/v1/health", timeout=10)).json()
        if health["nodes_usable"] == SIZE.nodes:
            return
        assert time.monotonic() < end_s, health
        await asyncio.sleep(0.1)
