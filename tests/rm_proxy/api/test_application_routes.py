from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from quicksilver.common.http.rest_server import install_error_handlers
from quicksilver.common.messages import ContainerEvent, EventKind
from rm_proxy.api.application_routes import application_routes
from rm_proxy.api.live_state import LiveState
from rm_proxy.domain.records import AppRecord, CompletionRecord
from rm_proxy.store.queries import History
from rm_proxy.store.rows import NodeEvent
from rm_proxy.store.store import Store
from rm_proxy.views.cluster_models import ApplicationInfo
from tests.rm_proxy.api.test_app import grant

NOW_S = 5000.0


def record(number: int, **changes: Any) -> AppRecord:
    values: dict[str, Any] = {
        "id": f"application_1_{number:04}",
        "queue": "root.a",
        "user": "ann",
        "type": "MAPREDUCE",
        "name": f"sort {number}",
        "tags": (),
        "priority": 0,
        "submitted_s": 1000.0 + number,
        "finished_s": 2000.0 - number,
    }
    return AppRecord(**(values | changes))


class Live:
    def __init__(self) -> None:
        common = {"queue": "root.b", "user": "bob", "submitted_s": 4000.0, "attempt_id": "appattempt_1_0020_000001"}
        self.apps = [
            ApplicationInfo(id="application_1_0020", name="grep", live_q=3, wanted_q=2, **common),
            ApplicationInfo(id="application_1_10001", name="Join", live_g=1, **common),
        ]

    def applications(self) -> list[ApplicationInfo]:
        return self.apps

    def application(self, app_id: str) -> ApplicationInfo | None:
        return next((app for app in self.apps if app.id == app_id), None)

    def queue_names(self) -> list[str]:
        return ["root", "root.a", "root.b", "root.c.a1", "root.c"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(f"sqlite:///{tmp_path / 'p.db'}")
    store.open()
    rows = [
        record(1),
        record(2, queue="root.c.a1", type="SPARK", finished_s=None),
        record(3, user="bob", name="100% Wine"),
        record(20, queue="root.b", finished_s=None),  # it lives: the store's row is not shown
    ]
    killed = ContainerEvent(
        seq=1, container_id=grant(1).container_id, kind=EventKind.KILLED, at_s=1200.0, ran_s=7.0, cause="room"
    )
    done = (
        grant(1, app_id="application_1_0001"),
        CompletionRecord(grant(1).container_id, "application_1_0001", -102, None, "", 1200.0),
    )
    store.write([*rows, *done, NodeEvent("n1:1", "boot", killed)])
    yield store
    store.close()


@pytest.fixture
def client(store: Store) -> TestClient:
    app = FastAPI()
    install_error_handlers(app)
    live = cast(LiveState, Live())
    app.include_router(application_routes(live, History(store), lambda: NOW_S), prefix="/v1")
    return TestClient(app)


def ids(client: TestClient, **params: Any) -> list[str]:
    answer = client.get("/v1/applications", params=params)
    assert answer.status_code == 200, answer.text
    return [item["id"].rpartition("_")[2] for item in answer.json()["items"]]


def test_states(client: TestClient) -> None:
    assert ids(client) == ["0020", "10001"]
    assert ids(client, state="finished") == ["0001", "0003"]
    assert ids(client, state="unknown") == ["0002"]
    assert ids(client, state="all") == ["0001", "0002", "0003", "0020", "10001"]
    items = client.get("/v1/applications", params={"state": "all"}).json()["items"]
    assert [item["state"] for item in items] == ["finished", "unknown", "finished", "running", "running"]
    assert [item["elapsed_s"] for item in items] == [998.0, None, 994.0, 1000.0, 1000.0]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"queue": "root.a"}, ["0001", "0003"]),
        ({"queue": "c"}, ["0002"]),  # the queues below it too
        ({"queue": "a1"}, ["0002"]),
        ({"queue": "root"}, ["0001", "0002", "0003", "0020", "10001"]),
        ({"user": "bob"}, ["0003", "0020", "10001"]),
        ({"type": "spark"}, ["0002"]),
        ({"text": "JOIN"}, ["10001"]),
        ({"text": "100%"}, ["0003"]),  # no pattern of SQL's
        ({"text": "_1_0020"}, ["0020"]),
        ({"since": 1998}, ["0001", "0020", "10001"]),
        ({"sort": "-name"}, ["0002", "0001", "10001", "0020", "0003"]),  # sort 2, sort 1, Join, grep, 100% Wine
        ({"sort": "elapsed"}, ["0003", "0001", "0020", "10001", "0002"]),
        ({"sort": "-elapsed"}, ["10001", "0020", "0001", "0003", "0002"]),
        ({"sort": "-submitted"}, ["10001", "0020", "0003", "0002", "0001"]),
        ({"sort": "finished"}, ["0003", "0001", "0002", "0020", "10001"]),
        ({"sort": "-waiting"}, ["0020", "10001", "0003", "0002", "0001"]),
        ({"sort": "-held"}, ["0020", "10001", "0003", "0002", "0001"]),
    ],
)
def test_filters_and_orders(client: TestClient, params: dict[str, Any], expected: list[str]) -> None:
    assert ids(client, state="all", **params) == expected
    whole = client.get("/v1/applications", params={"state": "all", **params}).json()["items"]
    pages = [ids(client, state="all", limit=2, offset=offset, **params) for offset in range(0, len(whole) + 1, 2)]
    assert [one for page in pages for one in page] == expected
    last = client.get("/v1/applications", params={"state": "all", "limit": len(whole), **params}).json()
    assert not last["more"]


def test_the_ledger_of_each(client: TestClient, store: Store) -> None:
    def rows() -> dict[str, Any]:
        items = client.get("/v1/applications", params={"state": "all", "ledger": True}).json()["items"]
        return {item["id"]: item["ledger"] for item in items if item["ledger"]}

    assert rows().keys() == {"application_1_0001"}
    row = rows()["application_1_0001"]
    assert (row["kills"], row["lost_s"], row["containers_q"]) == (1, 7.0, 1)
    store.write([grant(3, app_id="application_1_0001"), grant(4, app_id="application_1_0020")])
    assert rows()["application_1_0001"] == row, "a finished one is not counted again"
    assert rows()["application_1_0020"]["containers_q"] == 1
    one = client.get("/v1/applications/application_1_0001", params={"ledger": True}).json()
    assert (one["state"], one["ledger"]["kills"]) == ("finished", 1)


def test_one_application_and_bad_parameters(client: TestClient) -> None:
    assert client.get("/v1/applications/application_1_0020").json()["state"] == "running"
    assert client.get("/v1/applications/application_1_0002").json()["state"] == "unknown"
    assert client.get("/v1/applications/application_9").status_code == 404
    for bad in ({"sort": "size"}, {"state": "done"}, {"offset": 100_001}, {"since": -1}):
        answer = client.get("/v1/applications", params=bad)
        assert answer.status_code == 422 and f"query.{next(iter(bad))}: " in answer.json()["error"]["message"]
