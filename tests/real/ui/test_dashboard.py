"""The dashboard of a real proxy, in Chromium, while an unmodified job runs on a real cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads.mapreduce import start_pi
from quicksilver_lab.workloads.rest import eventually
from tests.real.test_jobs import MAPS_Q
from tests.real.ui.test_jobs_pages import KEPT_S
from tests.rm_proxy.ui.chromium import MISSING, Browser, chromium, inspect_page

pytestmark = pytest.mark.hadoop
MAPS = 16
"""More than the nodes have room for, so that some wait."""


@pytest.fixture(scope="module")
def stack(overlay_cluster: Cluster) -> Iterator[LocalDaemons]:
    made = LocalDaemons(overlay_cluster, policies=MAPS_Q)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if MISSING:
        pytest.fail(MISSING)
    with chromium(tmp_path_factory.mktemp("real-dashboard")) as session:
        yield session


def busiest(stack: LocalDaemons) -> str:
    nodes = stack.get("/v1/nodes")["items"]
    return str(max(nodes, key=lambda node: node["container_count"])["id"])


def test_pages_while_a_job_runs(overlay_cluster: Cluster, stack: LocalDaemons, browser: Browser) -> None:
    job = start_pi(overlay_cluster, "dashboard", MAPS, 2_000_000)
    deadline = time.monotonic() + 90
    while not stack.get("/v1/cluster/history")["now"].get("count_q"):
        assert time.monotonic() < deadline, "no queueable container ran"
        time.sleep(0.5)
    node = busiest(stack)
    inspect_page(browser, f"{stack.url}/ui/", "real-cluster", walk=False)
    assert int(browser.text("#nodes")) == 3 and browser.text("#status") == "ok", browser.text("main")
    inspect_page(browser, f"{stack.url}/ui/nodes", "real-nodes", walk=False)
    assert node in browser.text("#list")
    inspect_page(browser, f"{stack.url}/ui/nodes/{quote(node, safe='')}", "real-node", walk=False)
    inspect_page(browser, f"{stack.url}/ui/health", "real-health", walk=False)
    assert "No problem is known" in browser.text("#problems") and browser.text("#sidecars td:last-child") == "3"
    assert job.wait(timeout_s=240).application_id

    def ends() -> list[dict[str, Any]] | None:
        containers = stack.get(f"/v1/nodes/{node}/timeline")["containers"]
        over = all(one["ended_s"] is not None for one in containers)
        return [one for one in containers if one["end"] == "ended" and one["kind"] == "Q"] if over else None

    ended = eventually("the ends on the timeline", ends)
    assert ended and all(one["started_s"] < one["ended_s"] for one in ended)
    assert any(one["held_s"] is not None and one["held_s"] < one["started_s"] for one in ended), "some waited"
    history = stack.get("/v1/cluster/history")
    assert max(history["values"]["count_q"]) >= 1  # waits shorter than its 5 s are in no sample

    def counted() -> int | None:
        found: int = stack.get("/ui/data/today")["ledger"]["containers_q"]
        return found if found >= MAPS else None

    eventually("all of them in the ledger", counted, KEPT_S)
