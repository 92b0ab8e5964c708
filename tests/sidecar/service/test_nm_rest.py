"""The NodeManager's REST: its list, and its own queue where the list leaves that open."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.async_client import AsyncRestClient
from sidecar.metrics import SidecarMetrics
from sidecar.node.nm_reconcile import QUEUED_PATH, NmList
from sidecar.service.nm_rest import NodeManagerRest

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
