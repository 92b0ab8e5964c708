"""The cluster over time, and a node's last minutes, by REST."""

import asyncio
import time
from pathlib import Path

from fastapi.testclient import TestClient

from quicksilver.common.messages import ContainerReport, ContainerState
from rm_proxy.service.sampling.cluster_sampler import ClusterSampler
from tests.rm_proxy.ui.small_proxy import small_proxy
from tests.rm_proxy.yarn_messages import APP, cid, node_id, report


def container(number: int, state: ContainerState, since_s: float, times_shrunk: int = 0) -> ContainerReport:
    fields = {"container_id": cid(number), "app_id": APP, "kind": "Q", "memory_mb": 512, "vcores": 1}
    return ContainerReport(state=state, since_s=since_s, times_shrunk=times_shrunk, **fields)


def test_live_containers_on_a_timeline(tmp_path: Path) -> None:
    now_s = time.time()
    with small_proxy(tmp_path) as proxy:
        sampler = ClusterSampler(proxy.world)
        proxy.series, proxy.shrinks = sampler.series, sampler.shrinks
        containers = [
            container(1, ContainerState.WAITING, 30),
            container(2, ContainerState.RUNNING, 60),
            container(3, ContainerState.SHRUNK, 10, times_shrunk=1),
            container(4, ContainerState.RUNNING, 5, times_shrunk=2),
        ]
        proxy.world.reports.report(node_id(1), report(1, containers=containers), now_s)
        asyncio.run(sampler.sample())
        client = TestClient(proxy.app(), "http://localhost")
        timeline = client.get(f"/v1/nodes/{node_id(1)}/timeline").json()
        spans = {one["container_id"]: one for one in timeline["containers"]}
        assert abs(spans[cid(1)]["held_s"] - (now_s - 30)) < 1 and spans[cid(1)]["started_s"] is None
        assert abs(spans[cid(2)]["started_s"] - (now_s - 60)) < 1
        ((from_s, to_s),) = spans[cid(3)]["shrunk"]
        assert abs(from_s - (now_s - 10)) < 1 and abs(to_s - now_s) < 1
        assert spans[cid(4)]["started_s"] is None, "when it began is not known: it was shrunk since"
        history = client.get("/v1/cluster/history").json()
        assert (history["t"], history["now"]["waiting"], history["now"]["count_q"]) == ([], 1, 3)
        assert history["now"]["idle"] == 3 * 8 - 2 and history["step_s"] == 5
        for path in ("/v1/cluster/history?last_s=0", "/v1/nodes/n/timeline?last_s=4000"):
            assert client.get(path).status_code == 422
        assert client.get("/v1/nodes/none:1/timeline").json()["error"]["code"] == "unknown-node"
