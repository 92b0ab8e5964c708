"""The NodeManager's REST: its list, and its own queue where the list leaves that open."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.async_client import AsyncRestClient
from sidecar.metrics import SidecarMetrics
from sidecar.node.nm_reconcile import QUEUED_PATH, NmList
from sidecar.service.nm.nm_rest import NodeManagerRest

URL = "http://n:8042"
METRICS = {"beans": [{"ContainersOpportunisticQueued": 1, "ContainersGuaranteedQueued": 0}]}


class Client:
    """Answers by path; an exception is raised."""

    def __init__(self, state: str, metrics: object) -> None:
        row = {"id": "container_1_0001_01_000002", "state": state}
        self.answers: dict[str, object] = {
            "/ws/v1/node/info": {"nodeInfo": {}},
            "/ws/v1/node/containers": {"containers": {"container": [row]}},
            QUEUED_PATH: metrics,
        }
        self.paths: list[str] = []

    async def get(self, url: str) -> Any:
        path = url.removeprefix(URL)
        self.paths.append(path)
        answer = self.answers[path]
        if isinstance(answer, Exception):
            raise answer
        return answer


def read(client: Client) -> NmList:
    rest = NodeManagerRest(URL, cast("AsyncRestClient", client), SidecarMetrics(), lambda name: None)
    listed = asyncio.run(rest.containers(lambda: False))
    assert listed is not None and rest.answers is True
    return listed


def test_the_queue_is_asked_for_only_where_a_container_is_scheduled() -> None:
    running, scheduled = Client("RUNNING", METRICS), Client("SCHEDULED", METRICS)
    assert (read(running).queued, read(scheduled).queued) == (0, 1)
    assert QUEUED_PATH not in running.paths and scheduled.paths[-1] == QUEUED_PATH


@pytest.mark.parametrize("metrics", [QuicksilverError("forbidden"), {"no": "beans"}])
def test_a_nodemanager_without_metrics_counts_as_one_that_does_not_queue(metrics: object) -> None:
    assert read(Client("SCHEDULED", metrics)).queued == 0


def test_name_and_begin_are_read_again_when_the_process_may_be_another() -> None:
    """Also where its REST never failed meanwhile: it is up before the port of the calls is, and down after it."""
    names: list[str] = []
    client = Client("RUNNING", METRICS)
    rest = NodeManagerRest(URL, cast("AsyncRestClient", client), SidecarMetrics(), names.append)

    def began_s(node_id: str, began_ms: int) -> float:
        client.answers["/ws/v1/node/info"] = {"nodeInfo": {"id": node_id, "nmStartupTime": began_ms}}
        listed = asyncio.run(rest.containers(lambda: False))
        assert listed is not None
        return listed.began_s

    assert (began_s("n:1", 1000), began_s("n:2", 2000)) == (1.0, 1.0)
    rest.forget()
    assert began_s("n:2", 2000) == 2.0
    assert names == ["n:1", "n:2"]
