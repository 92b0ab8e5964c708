"""A real NodeManager that keeps its address: starts are redirected to the sidecar, and go straight on after a kill."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from quicksilver_lab.bench.las.jobs import LasScale
from quicksilver_lab.bench.las.modes import las
from quicksilver_lab.bench.sleep_job import job
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.ports import free_base_port
from sidecar.connections.nftables import EXPIRES_S
from tests.sidecar.connections.test_nftables import own_network, rules

pytestmark = [pytest.mark.hadoop, pytest.mark.netns]
ALL_Q: dict[str, Any] = {"queues": "*", "routes": [{"policy": "only_q"}], "quota": {"policy": "none"}}
__all__ = ["own_network"]


@pytest.fixture
def cluster(own_network: None, tmp_path: Any) -> Iterator[Cluster]:
    spec = las(LasScale(2, 0.02, 0.0, 0.0)).spec(tmp_path, free_base_port(1), {"default": 100})
    yarn = dict(spec.extra_site["yarn"]) | {"yarn.nodemanager.bind-host": "0.0.0.0"}
    made = Cluster(spec.model_copy(update={"extra_site": {**spec.extra_site, "yarn": yarn}}))
    made.start()
    try:
        yield made
    finally:
        made.stop()


def metric(stack: LocalDaemons, cluster: Cluster, name: str) -> float:
    url = f"{stack.sidecar_rest(cluster.spec.node_addresses[0]).url}/metrics"
    lines = requests.get(url, timeout=10).text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def test_starts_are_redirected_and_after_a_kill_go_straight_to_the_nodemanager(cluster: Cluster) -> None:
    listen = f"0.0.0.0:{cluster.spec.node_addresses[0].rpc.port + 7}"
    settings = {"intercept": "nftables", "listen": listen, "vcores": 2, "resizer": "none"}
    stack = LocalDaemons(cluster, ALL_Q, sidecar=settings, supervised=False)

    async def one(name: str, count: int) -> float:
        begun_s = time.monotonic()
        async with job(cluster, name) as asked:
            asked.ask(count, 1.0)
            await asked.until_done(within_s=100)
        return time.monotonic() - begun_s

    stack.start()
    try:
        asyncio.run(one("redirected", 5))
        assert metric(stack, cluster, 'quicksilver_sidecar_starts_total{action="held"}') == 5
        assert metric(stack, cluster, 'quicksilver_sidecar_container_events_total{kind="ended"}') == 5
        stack.kill("node1")
        begun_s = time.monotonic()
        while "expires" in rules():
            assert time.monotonic() < begun_s + 2 * EXPIRES_S
        print(f"the rule was over {time.monotonic() - begun_s:.1f} s after SIGKILL")
        took_s = asyncio.run(one("straight", 2))
        print(f"the next job, straight through the NodeManager: {took_s:.1f} s")
        stack.processes["node1"].wait()
        stack.start_sidecar(cluster.spec.node_addresses[0])
        stack.wait()
        assert rules().count("table inet quicksilver_") == 1
        asyncio.run(one("redirected again", 3))
        assert metric(stack, cluster, 'quicksilver_sidecar_starts_total{action="held"}') == 3
    finally:
        stack.stop()
    assert rules() == ""
