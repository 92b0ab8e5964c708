"""Bypass around the machines: what is told, kept and ordered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner
from fastapi import FastAPI
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

from quicksilver.common.http.connection import BoundedConnection
from rm_proxy.api.bypass_routes import bypass_routes
from rm_proxy.attempt.effects import BudgetTurned
from rm_proxy.cli.bypass import proxy
from rm_proxy.coordinator.error_budget import FaultKind, Order
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service import bypass_control as module
from rm_proxy.service.bypass_control import BypassControl, stored_order
from rm_proxy.store.store import Store
from rm_proxy.store.writer import Writer
from rm_proxy.views.service_models import BypassInfo
from tests.rm_proxy.yarn_messages import APP, Am, coordinator, granted_rows, row


class Whole:
    """A coordinator with its bypass and a store, as `server.Proxy` has them."""

    def __init__(self, store: Store) -> None:
        self.world, self.metrics, self.store = coordinator(), ProxyMetrics(), store
        self.writer = Writer(store, self.metrics)
        self.bypass = BypassControl(self.world, self.metrics, self.writer)

    def round(self, now_s: float) -> None:
        self.world.rounds.all_parts(now_s)
        for effect in self.world.take_effects():
            if isinstance(effect, BudgetTurned):
                self.bypass.turned(effect.turned)
        self.bypass.round()

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"quicksilver_proxy_{name}", labels)


def test_a_spent_budget_is_an_alarm(store: Store) -> None:
    whole = Whole(store)
    am = Am(whole.world)
    am.asks(row("*", 1))
    whole.bypass.fault(FaultKind.INTERNAL, APP)
    with capture_logs() as logs:
        whole.round(1.0)
    assert [(line["log_level"], line.get("application")) for line in logs] == [("error", APP)]
    assert whole.sample("faults_total", kind="internal") == 1
    assert (whole.sample("bypassed_applications"), whole.sample("bypass", reason="budget")) == (1, 0)
    (problem,) = whole.bypass.problems()
    assert problem.startswith(f"{APP} is in bypass: its own error budget is spent (1 internal)")
    assert list(whole.bypass.info().applications) == [APP]


def test_an_order_is_told_kept_and_taken_up_again(store: Store) -> None:
    whole = Whole(store)
    whole.writer.start()
    assert stored_order(store) == ()
    info = whole.bypass.order("on", "ann@host")
    assert (info.order, info.phase, whole.sample("bypass", reason="order")) == ("on", "bypass", 1)
    whole.round(1.0)
    assert whole.bypass.problems() == [], "what an admin ordered is no problem"
    assert whole.bypass.ordered().startswith("bypass (bypass): ordered")
    whole.writer.close()
    later = Whole(store)
    later.bypass.restore(stored_order(store))
    am = Am(later.world)
    am.asks(row("*", 1))
    assert not granted_rows(am.sent.ask)
    again = Whole(store)
    again.bypass.order("auto", "ann@host")
    again.bypass.restore(stored_order(store))
    assert again.bypass.info().order == "auto", "what was ordered since counts"


def test_faults_of_the_event_loop_count_but_for_those_of_rest(store: Store) -> None:
    whole = Whole(store)
    loop = asyncio.new_event_loop()
    rest = BoundedConnection.__new__(BoundedConnection)
    with capture_logs() as logs:
        whole.bypass.loop_fault(loop, {"message": "x", "exception": RuntimeError("a bug"), "protocol": rest})
        assert not whole.sample("faults_total", kind="internal")
        whole.bypass.loop_fault(loop, {"message": "x", "exception": RuntimeError("a bug")})
    loop.close()
    assert whole.sample("faults_total", kind="internal") == 1 and len(logs) == 2


async def test_lateness_is_measured(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MEASURE_S", 0.0)
    whole = Whole(store)

    seen = asyncio.Event()
    monkeypatch.setattr(whole.world.modes.budget, "measure", lambda *_: seen.set())
    whole.bypass.start()
    await seen.wait()
    whole.bypass.close()
    assert whole.sample("late_seconds_count")


class Served:
    """What the route needs."""

    def __init__(self) -> None:
        self.orders: list[tuple[str, str]] = []

    def bypass(self) -> BypassInfo:
        return BypassInfo(order="auto", phase="trial", why="10% are tried", applications={APP: "spent"})

    def order_bypass(self, order: Order, who: str) -> BypassInfo:
        self.orders.append((order, who))
        return BypassInfo(order=order, phase="bypass", why="ordered")


def test_rest_and_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    served, app = Served(), FastAPI()
    app.include_router(bypass_routes(served.bypass, served.order_bypass), prefix="/v1")
    client = TestClient(app)
    assert client.get("/v1/bypass").json()["applications"] == {APP: "spent"}
    assert client.post("/v1/bypass", json={"order": "on", "who": "ann"}).json()["order"] == "on"
    assert client.post("/v1/bypass", json={"order": "maybe"}).status_code == 422
    assert served.orders == [("on", "ann@testclient")]

    class Client:
        def __init__(self, *_: object, **__: object) -> None: ...

        def get(self, path: str, params: object = None) -> object:
            return client.get(path).json()

        def post(self, path: str, body: object) -> object:
            return client.post(path, json=body.model_dump()).json()  # type: ignore[attr-defined]

        def close(self) -> None: ...

    for place in ("rm_proxy.cli.bypass.rest_client", "rm_proxy.cli.requests.rest_client"):
        monkeypatch.setattr(place, Client)
    shown = CliRunner().invoke(proxy, ["bypass"], catch_exceptions=False).output
    assert shown == f"order auto, all applications: trial: 10% are tried\n{APP}: bypass: spent\n"
    ordered = CliRunner().invoke(proxy, ["bypass", "off"], catch_exceptions=False)
    assert ordered.output == "order off, all applications: bypass: ordered\n" and served.orders[-1][0] == "off"
    assert CliRunner().invoke(proxy, ["bypass", "perhaps"]).exit_code == 2
