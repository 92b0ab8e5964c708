"""Following an application, with a ResourceManager and a master that play their parts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from apps.tests.client.sites import Answer, server
from hadoop_rpc.protos import yarn_client_pb2 as c
from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver.common.http.rest_errors import RefusedError
from quicksilver_apps.client.errors import NotRunningError
from quicksilver_apps.client.master_api import KEY_HEADER, MasterApi
from quicksilver_apps.client.rm import Rm
from quicksilver_apps.client.watch import ApplicationWatch, End, container_of, end_of, event_text, is_ready

ID = "application_1_0001"


class FakeRm:
    """Reports one state after the other; the last one stays."""

    def __init__(self, *reports: c.ApplicationReportProto) -> None:
        self.reports = list(reports)

    async def call(self, do: Callable[[Any], Any]) -> Any:
        return await do(self)

    async def attempt_report(self, attempt: y.ApplicationAttemptIdProto) -> c.ApplicationAttemptReportProto:
        return c.ApplicationAttemptReportProto(am_container_id=y.ContainerIdProto(app_attempt_id=attempt, id=1))

    async def container_report(self, _: y.ContainerIdProto) -> c.ContainerReportProto:
        return c.ContainerReportProto(node_id=y.NodeIdProto(host="127.0.0.1", port=1))

    async def report(self, _: y.ApplicationIdProto) -> c.ApplicationReportProto:
        return self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]


def report(state: int, url: str = "N/A", **fields: Any) -> c.ApplicationReportProto:
    return c.ApplicationReportProto(yarn_application_state=state, originalTrackingUrl=url, **fields)  # type: ignore[arg-type]


FINISHED = report(
    c.FINISHED, startTime=1000, finishTime=3500, final_application_status=y.APP_SUCCEEDED, diagnostics=" done\nlog "
)


class FakeMaster:
    """Two events, the second once the first is known."""

    def __init__(self) -> None:
        self.state = "starting"

    def answer(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        if path == "/v1/application":
            services = [{"name": "w", "core": 1, "state": self.state}, {"name": "e", "core": 0, "state": "waiting"}]
            return 200, {}, json.dumps({"services": services}).encode()
        if path.startswith("/v1/events"):
            after = int(path.partition("=")[2])
            events = [
                {"seq": 1, "at_s": 10.0, "service": "w", "index": 0, "text": "starts in container_1_1_01_000002 on a"},
                {"seq": 2, "at_s": 11.0, "service": "", "index": None, "text": "ends"},
            ][after : after + 1]
            self.state = "ready" if after else "starting"
            return 200, {}, json.dumps({"events": events, "next": min(2, after + 1)}).encode()
        if headers.get(KEY_HEADER) != "k":
            return 401, {}, b'{"error": {"code": "key", "message": "The key is wrong."}}'
        return 200, {}, json.dumps({"name": "w", "state": method, "wanted": json.loads(body)["count"]}).encode()


def watch(*reports: c.ApplicationReportProto) -> tuple[ApplicationWatch, list[str]]:
    lines: list[str] = []
    return ApplicationWatch(cast(Rm, FakeRm(*reports)), ID, lambda _, text: lines.append(text)), lines


def test_until_the_end() -> None:
    with server(FakeMaster().answer) as url:
        running = report(c.RUNNING, url)
        watched, lines = watch(report(c.ACCEPTED), report(c.RUNNING), running, running, FINISHED)
        assert asyncio.run(watched.until_end()) == End("succeeded", "done\nlog", 2.5)
    assert lines == [
        "accepted; YARN has still to start its master",
        "its master is running",
        "w[0] starts in container_1_1_01_000002 on a",
        "ends",
    ]
    assert watched.containers == {"container_1_1_01_000002": "w[0]"}


def test_until_ready() -> None:
    with server(FakeMaster().answer) as url:
        watched, _ = watch(report(c.RUNNING, url))
        assert asyncio.run(watched.until_ready()) is None
    ended, _ = watch(FINISHED)
    assert asyncio.run(ended.until_ready()) == End("succeeded", "done\nlog", 2.5)


def test_a_new_attempt_repeats_nothing() -> None:
    with server(FakeMaster().answer) as first, server(FakeMaster().answer) as second:
        attempts = [report(c.RUNNING, first), report(c.RUNNING, first)]
        attempts += [report(c.RUNNING, "http://127.0.0.1:1"), report(c.RUNNING, second), report(c.RUNNING, second)]
        watched, lines = watch(*attempts, FINISHED)
        asyncio.run(watched.until_end())
    assert lines.count("ends") == 1


def test_texts() -> None:
    assert event_text({"service": "w", "index": 3, "text": "ended\nits log"}) == "w[3] ended"
    assert event_text({"service": "w", "index": None, "text": "waits"}) == "w waits"
    assert container_of({"service": "w", "index": None, "text": "container_1"}) == {}
    assert not is_ready({"services": [{"core": 1, "state": "starting"}]})


@pytest.mark.parametrize(
    ("state", "final", "status"),
    [
        (c.KILLED, y.APP_UNDEFINED, "killed"),
        (c.FINISHED, y.APP_KILLED, "killed"),
        (c.FINISHED, y.APP_FAILED, "failed"),
        (c.FAILED, y.APP_FAILED, "failed"),
        (c.FINISHED, y.APP_UNDEFINED, "failed"),
    ],
)
def test_ends(state: int, final: int, status: str) -> None:
    assert end_of(report(state, final_application_status=final)).status == status


def test_calls_that_change_show_the_key() -> None:
    async def play(url: str) -> None:
        async with MasterApi(url, ID, "k") as api, MasterApi(url, ID) as stranger:
            found = await api.scale("w", 2)
            assert (found["state"], found["wanted"]) == ("PUT", 2)
            with pytest.raises(RefusedError, match="The key is wrong"):
                await stranger.stop("killed", "")
        async with MasterApi("http://127.0.0.1:1", ID) as gone:
            with pytest.raises(NotRunningError, match="does not answer"):
                await gone.application()

    with server(FakeMaster().answer) as url:
        asyncio.run(play(url))
