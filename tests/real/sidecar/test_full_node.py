"""The NodeManager of a node full of guaranteed containers dies, comes back with recovery, and nothing hangs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from quicksilver_lab.bench.las.master import APP_TYPE
from quicksilver_lab.bench.sleep_job import job
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.cluster.spec import ClusterSpec
from rm_proxy.domain.exit_codes import preempted_status

pytestmark = [pytest.mark.hadoop, pytest.mark.long]
VCORES = 3
_CALCULATORS = "org.apache.hadoop.yarn.util.resource"


def test_running_containers_end_though_their_nodemanager_restarts(tmp_path: Path) -> None:
    """NodeManagers (3.4) with a queue want room for recovered containers beside the room that they have already."""
    spec = ClusterSpec(
        workdir=tmp_path,
        base_port=free_base_port(1),
        nodes=1,
        nm_recovery=True,
        yarn_only=True,
        min_allocation_mb=256,
        node_vcores=VCORES,
        extra_site={
            "capacity-scheduler": {
                "yarn.scheduler.capacity.resource-calculator": f"{_CALCULATORS}.DominantResourceCalculator"
            }
        },
    )
    cluster = Cluster(spec)
    cluster.start()
    stack = LocalDaemons(cluster, {"queues": "*", "routes": [{"policy": "only_g"}]})

    async def story() -> list[list[int]]:
        async with job(cluster, "full-node") as mine:
            tasks = mine.ask(VCORES, 20.0)
            await mine.until(lambda: running(stack) == VCORES, 120)
            await asyncio.sleep(3)  # the sidecar has found their processes
            name = f"nodemanager-{spec.node_addresses[0].name}"
            await asyncio.to_thread(cluster.kill, name)
            await asyncio.to_thread(cluster.restart, name)
            await mine.until_done(tasks, 120)
            await mine.until_done(mine.ask(VCORES, 1.0), 60)  # the room is there again
            assert not mine.errors
            return sorted(task.exits for task in tasks)

    try:
        stack.start()
        stack.wait(60)
        exits = asyncio.run(story())
        print(f"\nexit codes by task: {exits}")
        assert exits == [[preempted_status(APP_TYPE), 0], [0], [0]]  # one gave room to the others
    finally:
        stack.stop()
        cluster.stop()


def running(stack: LocalDaemons) -> int:
    (node,) = stack.get("/v1/nodes")["items"]
    return int(node["used_g"]["vcores"])
