"""An application that fills the cluster gives room back for another one's core, and goes on through kills."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quicksilver_apps.description.model import as_json
from quicksilver_apps.description.reader import read
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.cluster.spec import ClusterSpec
from tests.paths import ROOT
from tests.real.applications.running_app import RunningApp

pytestmark = pytest.mark.hadoop

NODE_MB = 2048
UNITS = 150
GIVES_BACK_S = 15.0
"""Much more than the few seconds that it takes on a quiet machine."""
URGENT = {
    "name": "urgent",
    "class": "interactive",
    "services": [
        {"name": "shell", "core": 6, "command": "exec sleep 8", "resources": {"memory_mb": 256}, "main": True},
    ],
}


@pytest.fixture
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDaemons]:
    """Return proxy and sidecars that admit whole applications, the urgent ones at once, on two nodes of their own."""
    made = Cluster(
        ClusterSpec(
            workdir=tmp_path_factory.mktemp("growing"),
            base_port=free_base_port(2),
            nodes=2,
            node_memory_mb=NODE_MB,
            node_vcores=8,
            yarn_only=True,
            min_allocation_mb=256,
            queues={"default": 100},
            extra_site={"capacity-scheduler": {"yarn.scheduler.capacity.maximum-am-resource-percent": "1"}},
        )
    )
    policies = {"preset": "zoe", "admit": {"policy": "preemptive", "settings": {"count": "memory"}}}
    daemons = LocalDaemons(made, policies, sidecar={"memory_mb": NODE_MB, "vcores": 8, "reserve_mb": 0})
    made.start()
    try:
        daemons.start()
        daemons.wait(60)
        yield daemons
    finally:
        daemons.stop()
        made.stop()


def work(cluster: Cluster, folder: Path) -> RunningApp:
    """Submit the example of a pool of work, with more workers than there is room for."""
    example = ROOT / "examples" / "workpool"
    sizes = {"units": UNITS, "unit-s": 2.0, "core-workers": 1, "elastic-workers": 20}
    shutil.copy(example / "units.py", folder)
    return RunningApp(cluster, folder, as_json(read(example / "application.yaml", sizes)))


def test_a_pool_of_work_fills_the_cluster_gives_room_back_and_goes_on_through_kills(
    stack: LocalDaemons, tmp_path: Path
) -> None:
    cluster = stack.cluster
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    pool = work(cluster, first)
    try:
        pool.wait("it fills the cluster", lambda: len(pool.instances("worker", "running", "ready")) >= 12)
        urgent = RunningApp(cluster, second, URGENT)
        urgent.wait("its master", lambda: urgent.state())
        begun_s = time.monotonic()
        urgent.wait("its core", lambda: len(urgent.instances("shell", "running", "ready")) == 6, GIVES_BACK_S)
        print(f"the core of the urgent application ran {time.monotonic() - begun_s:.1f} s after its master")
        stack.kill("proxy")
        assert urgent.wait_ended()["finalStatus"] == "SUCCEEDED"
        pool.wait("it has the room again", lambda: len(pool.instances("worker", "running", "ready")) >= 12)
        pool.kill_master()
        pool.wait("the second attempt", lambda: pool.attempts() == 2 and pool.state())
        assert pool.wait_ended(180)["finalStatus"] == "SUCCEEDED"
    finally:
        pool.kill()
