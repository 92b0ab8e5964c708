"""What the ResourceManager's REST says, and no longer says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from fastapi import FastAPI, HTTPException

from policies.model import Resources
from quicksilver.common.http.rest_errors import UnreachableError
from quicksilver.common.http.rest_server import serve
from quicksilver.common.process.listening import bound_socket
from rm_proxy.config import ProxySettings
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service import yarn_poller
from rm_proxy.service.yarn_poller import YarnPoller
from rm_proxy.yarn.models import YarnQueue
from tests import loops
from tests.rm_proxy.yarn_messages import APP, Am, coordinator, node_id, yarn_node


async def test_what_is_not_known_of_grants_leaves_them_as_they_were() -> None:
    world = coordinator(nodes=1)
    poller = YarnPoller(world, Mock(), ProxyMetrics(), ProxySettings(), "http://127.0.0.1:1", Mock(), Mock())
    answers = AsyncMock(side_effect=["none with 0", UnreachableError("refused"), ""])
    poller._yarn.why_no_grants = answers  # type: ignore[method-assign]
    seen = []
    for _ in range(3):
        await poller.grants()
        seen.append(world.grants.why_none)
    poller.start()
    await poller.close()
    assert seen == ["none with 0", "none with 0", ""]


def test_an_application_is_over_when_yarn_does_not_know_it_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    app = FastAPI()
    away = runs = False
    now_s = 0.0
    monkeypatch.setattr(yarn_poller, "monotonic", lambda: now_s)
    listed = {"id": APP, "user": "ann", "queue": "root.default", "applicationType": "MAPREDUCE"}

    @app.get("/ws/v1/cluster/apps")
    def running() -> dict[str, Any]:
        return {"apps": {"app": [listed]} if runs else None}

    @app.get("/ws/v1/cluster/apps/{app_id}")
    def unknown(app_id: str) -> dict[str, Any]:
        raise HTTPException(503 if away else 404)

    am = Am(coordinator(nodes=1))

    async def story() -> list[bool]:
        nonlocal away, runs, now_s
        sock = bound_socket("127.0.0.1", 0)
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        task = asyncio.create_task(serve(app, sock))
        poller = YarnPoller(am.world, Mock(), ProxyMetrics(), ProxySettings(), url, lambda: None, lambda: None)
        over = []
        for now_s, runs, away in (  # noqa: B007 read above
            (0.0, False, False),
            (100.0, True, False),  # it was recovered
            (1000.0, False, False),
            (1170.0, False, False),
            (1180.0, False, True),  # no answer tells nothing
            (1181.0, False, False),
        ):
            await poller.apps()
            over.append(am.attempt.finished)
        poller.start()
        await poller.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return over

    assert loops.run(story()) == [False, False, False, False, False, True]


async def test_the_end_of_an_application_whose_master_left_properly_is_recorded() -> None:
    app = FastAPI()
    runs, looks = True, 0
    listed = {"id": APP, "user": "ann", "queue": "root.default", "applicationType": "MAPREDUCE", "startedTime": 1000}

    @app.get("/ws/v1/cluster/apps")
    def running() -> dict[str, Any]:
        return {"apps": {"app": [listed]} if runs else None}

    @app.get("/ws/v1/cluster/apps/{app_id}")
    def ended(app_id: str) -> dict[str, Any]:
        nonlocal looks
        looks += 1
        return {"app": listed | {"state": "FINISHED", "finishedTime": 61_000}}

    am, writer = Am(coordinator(nodes=1)), Mock()

    sock = bound_socket("127.0.0.1", 0)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    task = asyncio.create_task(serve(app, sock))
    poller = YarnPoller(am.world, writer, ProxyMetrics(), ProxySettings(), url, lambda: None, lambda: None)
    await poller.apps()
    am.attempt.end("it unregistered")
    runs = False
    for _ in range(3):
        await poller.apps()
    poller.start()
    await poller.close()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert writer.application.call_args_list[-1].args[0].finished_s == 61.0
    assert looks == 1, "its end is known then"


def test_the_store_hears_of_a_node_when_it_changed_else_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    world, writer = coordinator(nodes=2), Mock()
    poller = YarnPoller(world, writer, ProxyMetrics(), ProxySettings(), "http://rm", lambda: None, lambda: None)
    listed = [yarn_node(1), yarn_node(2)]
    monkeypatch.setattr(poller, "_read", AsyncMock(side_effect=lambda *_: list(listed)))

    def kept(at_s: float) -> list[str]:
        writer.node.reset_mock()
        monkeypatch.setattr(yarn_poller.time, "time", lambda: at_s)
        loops.run(poller.nodes())
        return [call.args[0].id for call in writer.node.call_args_list]

    both = [node_id(1), node_id(2)]
    assert [kept(0.0), kept(30.0)] == [both, []]
    listed[1] = replace(listed[1], rack="/other")
    assert [kept(31.0), kept(59.0), kept(60.0), kept(91.0)] == [[node_id(2)], [], [node_id(1)], [node_id(2)]]


async def test_a_round_lets_others_go_on_between_its_parts() -> None:
    world, seen = coordinator(nodes=1), list[str]()
    metrics = ProxyMetrics()

    def in_parts(now_s: float) -> Iterator[None]:
        for number in range(3):
            seen.append(f"part {number}")
            yield

    world.rounds = Mock(in_parts=in_parts)
    settings = ProxySettings()
    poller = YarnPoller(
        world, Mock(), metrics, settings, "http://rm", lambda: seen.append("done"), lambda: seen.append("fault")
    )

    async def others() -> None:
        for _ in range(2):
            await asyncio.sleep(0)
            seen.append("another")

    await asyncio.gather(poller._round(), others())
    assert seen[0] == "part 0" and seen[-1] == "done" and seen.count("another") == 2
    assert metrics.registry.get_sample_value("quicksilver_proxy_round_seconds_count") == 1


@pytest.mark.parametrize("fails", [False, True])
async def test_each_round_reports_that_the_proxy_works(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """One that fails, too: that is a fault for the error budget, and nothing that a restart mends."""
    reports, faults = list[bool](), list[bool]()
    monkeypatch.setattr(yarn_poller.watchdog, "alive", lambda: reports.append(True))

    def on_round() -> None:
        if fails:
            raise ValueError("a mistake of ours")

    world, settings = coordinator(nodes=1), ProxySettings()
    poller = YarnPoller(world, Mock(), ProxyMetrics(), settings, "http://rm", on_round, lambda: faults.append(True))
    await poller._round()
    assert (reports, faults) == ([True], [True] * fails)


async def test_the_end_of_an_application_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(yarn_poller, "monotonic", lambda: now_s)
    world = coordinator(nodes=1)
    am, writer = Am(world), Mock()
    poller = YarnPoller(world, writer, ProxyMetrics(), ProxySettings(), "http://rm", lambda: None, lambda: None)
    record = world.inventory.records[APP]
    ended = replace(record, finished_s=99.0)
    forgotten = replace(record, id=APP.replace("_0001", "_0002"))
    lists = [[record, forgotten], *([[]] * 5)]
    looked_up: dict[str, list[Any]] = {APP: [record, ended], forgotten.id: [None, None, None]}
    poller._yarn.apps = AsyncMock(side_effect=lists)  # type: ignore[method-assign]
    poller._lookup.app = AsyncMock(side_effect=lambda app_id: looked_up[app_id].pop(0))  # type: ignore[method-assign]

    for _ in lists:
        await poller.apps()
        am.attempt.end("its master finished")
        now_s += 100
    await poller._yarn.close()
    await poller._lookup.close()
    assert world.inventory.records[APP].finished_s == 99.0
    assert writer.application.call_args_list[-1].args[0].finished_s == 99.0
    assert looked_up == {APP: [], forgotten.id: []}, "no more once the end is known, or YARN knows nothing for long"


async def test_reads_that_the_end_cuts_off_are_no_failures(caplog: pytest.LogCaptureFixture) -> None:
    app = FastAPI()
    asked, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @app.get("/ws/v1/cluster/nodes")
    def slow() -> dict[str, Any]:
        loop.call_soon_threadsafe(asked.set)
        go_on.wait(30)
        return {"nodes": None}

    sock = bound_socket("127.0.0.1", 0)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    task = asyncio.create_task(serve(app, sock))
    settings = ProxySettings(nodes_refresh_s=0.05, apps_refresh_s=60, queues_refresh_s=60)
    world = coordinator(nodes=1)
    poller = YarnPoller(world, Mock(), ProxyMetrics(), settings, url, lambda: None, lambda: None)
    poller.start()
    await asyncio.wait_for(asked.wait(), 30)
    await poller.close()
    go_on.set()
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [record.getMessage() for record in caplog.records if record.name.startswith("apscheduler.executors")] == []


async def test_the_queues_are_read_each_second_until_their_capacities_are_known() -> None:
    world = coordinator(nodes=1)
    poller = YarnPoller(world, Mock(), ProxyMetrics(), ProxySettings(), "http://rm", lambda: None, lambda: None)
    size, none = Resources(8192, 8), Resources()
    empty = YarnQueue("root.default", True, "RUNNING", none, none, frozenset(), "")
    answers = [[empty], [replace(empty, max_capacity=size)]]
    poller._yarn.queues = AsyncMock(side_effect=answers)  # type: ignore[method-assign]
    world.inventory.update_queues([empty])

    for _ in range(4):
        await poller.first_capacity()
    await poller._yarn.close()
    await poller._lookup.close()
    assert poller._yarn.queues.await_count == 2, "no more once it is known"
    assert not world.inventory.lacks_capacity
    assert not coordinator(nodes=0).inventory.lacks_capacity, "without nodes there is none to know"


def test_long_lists_are_read_more_seldom_and_new_applications_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(yarn_poller, "monotonic", lambda: now_s)
    world = coordinator(nodes=1)
    record = world.inventory.records[APP]
    record = replace(record, submitted_s=1000.0)

    async def story() -> YarnPoller:
        nonlocal now_s
        poller = YarnPoller(world, Mock(), ProxyMetrics(), ProxySettings(), "http://127.0.0.1:1", Mock(), Mock())
        poller._yarn = rest = Mock(cost_s={"/nodes": 0.3, "/apps": 0.4})
        rest.nodes, rest.apps = AsyncMock(return_value=[yarn_node(1)]), AsyncMock(return_value=[record])
        for now_s in range(0, 45, 5):  # noqa: B007 read above
            await poller.nodes()
            await poller.apps()
        now_s = 41.0
        await poller.nodes()  # 0.3 s of CPU each 15 s
        rest.identity = rest.cluster = rest.queues = AsyncMock(return_value=[])
        monkeypatch.setattr(poller, "grants", AsyncMock())
        await poller.first()
        return poller

    rest: Any = loops.run(story())._yarn
    assert rest.nodes.await_count == 3 + 1, "at 0, 15 and 30 s, and at once for a new ResourceManager"
    since = [call.kwargs["since_s"] for call in rest.apps.await_args_list]
    assert since == [0.0, *[940.0] * 3, 0.0, *[940.0] * 3, 0.0, 0.0]
