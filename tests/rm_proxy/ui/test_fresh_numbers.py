"""What the pages show of now is new with each poll, however long the store takes for the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from quicksilver.common.web.snapshots import Shared
from rm_proxy.store.container_history import ContainerHistory
from rm_proxy.store.queries import History
from tests.rm_proxy.ui.small_proxy import SmallProxy, small_proxy
from tests.rm_proxy.yarn_messages import APP, Am, cid, container_report, node_id, report, row

STORE_S, POLL_S = 1.0, 4.0
"""What a query takes, so that pages ask again after fifty seconds; and how often they poll."""


class Polls:
    """The calls of a page, by a clock that stands still between them."""

    def __init__(self, proxy: SmallProxy) -> None:
        self.proxy, self.now_s = proxy, 0.0
        self.asked: list[str] = []
        """Slow queries of the store."""

    @cached_property
    def client(self) -> TestClient:
        return TestClient(self.proxy.app())

    def clock_s(self) -> float:
        return self.now_s

    def data(self, page: str) -> dict[str, Any]:
        self.now_s += POLL_S
        content: dict[str, Any] = self.client.get(f"/ui/data/{page}").json()
        return content

    def slowed(self, kind: type, name: str) -> Callable[..., Any]:
        query = getattr(kind, name)

        def takes_long(*arguments: Any, **more: Any) -> Any:
            self.asked.append(name)
            self.now_s += STORE_S
            return query(*arguments, **more)

        return takes_long


@pytest.fixture
def polls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Polls]:
    with small_proxy(tmp_path) as proxy:
        made = Polls(proxy)
        shared = Shared.__init__
        monkeypatch.setattr(Shared, "__init__", lambda *a, **more: shared(*a, **more | {"clock_s": made.clock_s}))
        for kind, name in ((History, "spans"), (History, "changes"), (ContainerHistory, "waits")):
            monkeypatch.setattr(kind, name, made.slowed(kind, name))
        yield made


def test_an_application(polls: Polls) -> None:
    am = Am(polls.proxy.world)
    before = polls.data(f"applications/{APP}")["waiting"]
    am.asks(row("*", 400))
    after = polls.data(f"applications/{APP}")["waiting"]
    assert (before["wanted"], after["wanted"], polls.asked) == (0, 400, ["waits"])


def test_a_node(polls: Polls) -> None:
    page = f"node/{node_id(1)}"
    assert polls.data(page)["timeline"]["containers"] == []
    running = container_report(7, kind="G")
    polls.proxy.world.reports.report(node_id(1), report(1, seq=2, containers=[running]), time.time())
    (span,) = polls.data(page)["timeline"]["containers"]
    assert (span["container_id"], polls.asked) == (cid(7), ["spans"])


def test_the_policies(polls: Polls) -> None:
    before = polls.data("policies")["policies"]["version"]
    policies = polls.proxy.world.policies
    polls.proxy.world.switch(policies.numbered(policies.number + 1))
    after = polls.data("policies")["policies"]["version"]
    assert before != after == polls.proxy.world.policies.version and polls.asked == ["changes"]
