import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from policies.config.policy_set import Policies
from quicksilver.common.http.rest_server import install_error_handlers
from quicksilver.common.messages import ReloadAnswer
from quicksilver.common.settings.reload import ReloadRefusedError
from rm_proxy.api.live_state import LiveState
from rm_proxy.api.policy_routes import policy_routes
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.domain.records import ChangeRecord
from rm_proxy.store.queries import History
from rm_proxy.store.store import Store
from tests.rm_proxy.api.test_app import grant
from tests.rm_proxy.api.test_application_routes import record
from tests.rm_proxy.yarn_messages import APP, Am, coordinator, row

SETTINGS: dict[str, Any] = {
    "preset": "default",
    "order": {"policy": "hrrn"},
    "alternatives": {"careful": {"quota": {"policy": "none"}}, "night": {"routes": [{"policy": "only_g"}]}},
    "rollout": [{"queue": ["root.a"], "percent": 50, "use": "careful"}],
    "windows": [
        {"name": "evening", "cron": "0 20 * * *", "length_s": 3600, "use": "night", "queue": ["root.b"]},
        {"name": "always", "cron": "* * * * *", "length_s": 3600, "use": "night", "queue": ["root.c"]},
    ],
    "shadow": ["careful"],
    "time_zone": "UTC",
}


@pytest.fixture
def world() -> Coordinator:
    world = coordinator(SETTINGS)
    Am(world).asks(row(count=1))
    return world


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(f"sqlite:///{tmp_path / 'p.db'}")
    store.open()
    yield store
    store.close()


async def check(file: str) -> ReloadAnswer:
    if file == "bad.yaml":
        raise ReloadRefusedError(("bad.yaml:1:1: no", "bad.yaml:2:1: nor this"))
    return ReloadAnswer(file=file, version="2-b", before="1-a", digest="b")


@pytest.fixture
def client(world: Coordinator, store: Store) -> TestClient:
    app = FastAPI()
    install_error_handlers(app)
    live = LiveState(world, 5.0, lambda: "/etc/quicksilver/quicksilver.yaml")
    routes = policy_routes(live, History(store), cast(Any, check), check, time.time)
    app.include_router(routes, prefix="/v1")
    return TestClient(app)


def test_where_policies_come_from(client: TestClient) -> None:
    known = client.get("/v1/policies").json()
    origins = {one["slot"]: one["origin"] for one in known["active"]}
    assert origins["order"] == "file over preset default"
    assert {origins[slot] for slot in ("place", "dispatch", "quota", "route")} == {"preset default"}
    assert (known["preset"], known["shadow"], known["deciding"]) == ("default", ["careful"], {"": 1})
    assert known["alternative_settings"]["careful"]["quota"][0]["policy"] == "none"


def test_without_a_preset(world: Coordinator, client: TestClient) -> None:
    world.use(Policies.load({"queues": "*", "routes": [{"policy": "only_q"}]}), 0.0)
    known = client.get("/v1/policies").json()
    origins = {one["slot"]: one["origin"] for one in known["active"]}
    assert (origins["route"], origins["place"], known["preset"]) == ("file", "built in", "")
    assert known["windows"] == known["rollouts"] == []


def test_windows_and_rollouts(world: Coordinator, client: TestClient) -> None:
    known = client.get("/v1/policies").json()
    windows = {one["name"]: one for one in known["windows"]}
    evening = windows["evening"]
    assert evening["begins_s"] % 86400 == 72000 and evening["ends_s"] == evening["begins_s"] + 3600
    assert evening["begins_s"] > time.time() - 3600 and windows["always"]["begins_s"] < time.time() + 1
    assert known["rollouts"] == [{"use": "careful", "queues": ["root.a"], "percent": 50.0, "running": 0, "taken": 0}]
    world.use(Policies.load({**SETTINGS, "rollout": [{"percent": 100, "use": "careful"}]}), 0.0)
    known = client.get("/v1/policies").json()
    assert (known["rollouts"][0]["running"], known["rollouts"][0]["taken"]) == (1, 1)
    assert known["deciding"] == {"careful": 1} and world.apps.app(APP) is not None


def test_figures_of_a_rollout(client: TestClient, store: Store) -> None:
    assert client.get("/v1/policies/rollout").json() == {"since_s": 0.0, "complete": True, "arms": []}
    apps = [record(number, submitted_s=2000.0, finished_s=2000.0 + number) for number in range(1, 41)]
    early = record(50, submitted_s=1000.0, finished_s=3000.0)
    store.write([*apps, early, record(51, queue="root.b", submitted_s=2000.0), grant(1, app_id=apps[0].id)])
    arms = client.get("/v1/policies/rollout", params={"since": 1500}).json()["arms"]
    assert [one["use"] for one in arms] == ["", "careful"]
    assert sum(one["applications"] for one in arms) == 40 and 10 <= arms[0]["applications"] <= 30
    assert sum(one["containers_q"] for one in arms) == 1 and 1 <= arms[0]["elapsed_p50_s"] <= 40
    changed = ("c1", 1990.0, "ann", "rest", True, "policies.rollout", "", "[]")
    store.write([ChangeRecord(*changed), ChangeRecord("c2", 2500.0, "ann", "start", True, "policies.rollout", "", "")])
    known = client.get("/v1/policies/rollout").json()
    assert (known["since_s"], sum(one["applications"] for one in known["arms"])) == (1990.0, 40)
    changes = client.get("/v1/policies/changes", params={"starts": False}).json()["items"]
    assert [one["id"] for one in changes] == ["c1"]
    assert len(client.get("/v1/policies/changes").json()["items"]) == 2


def test_a_check(client: TestClient) -> None:
    assert client.post("/v1/policies/check", json={"file": "new.yaml"}).json()["digest"] == "b"
    refused = client.post("/v1/policies/check", json={"file": "bad.yaml"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "settings-refused")
    assert refused.json()["error"]["message"].count("\n") == 1
