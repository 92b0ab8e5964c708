"""The application master behind the proxy: its containers are guaranteed or queueable, proxy and master are killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.cluster.spec import ClusterSpec
from tests.real.applications.running_app import RunningApp

pytestmark = pytest.mark.hadoop

SIZE = {"resources": {"memory_mb": 256}}
SERVER = {
    "name": "server",
    "core": 1,
    "command": "exec python3 -m http.server $PORT_WEB",
    "ports": [{"name": "web"}],
    "ready": {"port": "web"},
    **SIZE,
}
POOL = {"name": "pool", "core": 1, "elastic": 2, "after": ["server"], "command": "exec sleep 3600", **SIZE}
SIDECAR = {"memory_mb": 2048, "vcores": 4, "reserve_mb": 0}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(
        ClusterSpec(
            workdir=tmp_path_factory.mktemp("apps"),
            base_port=free_base_port(2),
            nodes=2,
            yarn_only=True,
            min_allocation_mb=256,
            queues={"default": 100},
            extra_site={"capacity-scheduler": {"yarn.scheduler.capacity.maximum-am-resource-percent": "1"}},
        )
    )
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize("route", ["only_g", "only_q"])
def test_master_and_proxy_are_killed_and_the_application_goes_on(cluster: Cluster, route: str, tmp_path: Path) -> None:
    policies = {"queues": "*", "routes": [{"policy": route}], "quota": {"policy": "none"}}
    stack = LocalDaemons(cluster, policies, sidecar=SIDECAR)
    stack.start()
    try:
        stack.wait(60)
        app = RunningApp(cluster, tmp_path, {"name": "behind", "services": [SERVER, POOL]})
        try:
            goes_on(app, stack)
        finally:
            app.kill()
    finally:
        stack.stop()


def goes_on(app: RunningApp, stack: LocalDaemons) -> None:
    app.wait_ready("pool", 3)
    stack.kill("proxy")
    app.scale("pool", 1)
    before = {each["container_id"] for each in app.wait_ready("pool", 2)}
    time.sleep(2)  # the notes for the next attempt are made each second
    app.kill_master()
    app.wait("the second attempt", lambda: app.attempts() == 2 and app.state())
    after = {each["container_id"] for each in app.wait_ready("pool", 2)}
    assert after == before
    app.scale("pool", 2)
    app.wait_ready("pool", 3)
