"""A whole node under DefaultContainerExecutor: containers in control groups of the sidecar's own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from quicksilver_lab.bench.las.modes import las
from quicksilver_lab.cluster.ports import free_base_port
from tests.promise.conftest import running_cluster
from tests.real.kernels.executor_node import busy, kairos, needs_cgroups, outlives_sigkill, own_top
from tests.real.requester import SCALE

pytestmark = [pytest.mark.hadoop, pytest.mark.cgroup, pytest.mark.long]


def test_containers_are_free_soon_after_the_sidecars_death(tmp_path: Path) -> None:
    needs_cgroups()
    gate = tmp_path / "gate"
    with running_cluster(las(SCALE).spec(tmp_path, free_base_port(1), {"default": 100})) as cluster:

        async def run() -> None:
            async with busy(cluster, kairos(cluster), own_top(cluster)) as (node, am):
                await outlives_sigkill(node, am, gate, [f"until [ -e {gate} ]; do :; done"] * 6)

        asyncio.run(run())
