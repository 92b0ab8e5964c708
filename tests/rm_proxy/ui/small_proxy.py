"""A proxy without YARN: a real coordinator, store and REST application, fed by the test."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.types import Scope

from quicksilver.common.http.access import Side, protect
from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.http.security import OPEN, Security
from quicksilver.common.messages import Ack, Draining, ReloadAnswer, ReloadRequest, Report
from quicksilver.common.settings.reload import How
from quicksilver.common.web.access import browsers
from rm_proxy.api.app import ApiParts, create_app
from rm_proxy.api.live_state import LiveState
from rm_proxy.api.report_connections import ReportConnections
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.error_budget import Order
from rm_proxy.domain.records import DecisionRecord
from rm_proxy.history.cluster_sample import NAMES, Shrinks
from rm_proxy.history.queue_counts import QueueHistory
from rm_proxy.history.time_series import TimeSeries
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.store.queries import History
from rm_proxy.store.store import Store
from rm_proxy.ui.dashboard import UiSettings, add_dashboard
from rm_proxy.views.service_models import BypassInfo, Health
from tests.rm_proxy.yarn_messages import coordinator


class SmallProxy:
    """Parts of a proxy; fields may be set before `app` is called, and while it is served."""

    def __init__(self, store: Store, nodes: int = 3, security: Security = OPEN) -> None:
        self.store, self.security = store, security
        self.world: Coordinator = coordinator(nodes=nodes)
        self.recent: list[DecisionRecord] = []
        self.problems: list[str] = []
        self.notices: list[str] = []
        self.queue_history = QueueHistory()
        self.order: Order = "auto"
        self.drained: list[tuple[str, Draining, str]] = []
        self.metrics = ProxyMetrics()
        self.series, self.shrinks = TimeSeries(NAMES), Shrinks()
        self.refusals: list[str] = []

    def parts(self, **more: Any) -> ApiParts:
        """Return what the routes use."""
        fields: dict[str, Any] = {
            "live": LiveState(self.world, 1e9, lambda: "/etc/quicksilver/quicksilver.yaml"),
            "history": History(self.store),
            "metrics": self.metrics,
            "recent": self._recent,
            "health": self.health,
            "bypass": self.bypass,
            "order_bypass": self._order_bypass,
            "reload": self._reload,
            "check": self._check,
            "drain": self._drain,
            "report": self._report,
            "report_connections": ReportConnections(self._report, self.world.reports.takes_report),
            "series": self.series,
            "shrinks": self.shrinks,
            "queue_history": self.queue_history,
        }
        return ApiParts(**(fields | more))

    def app(self, **settings: Any) -> FastAPI:
        """Return the application, put together as the proxy does."""
        parts = self.parts()
        app = create_app(parts)
        security = self.security
        ui = UiSettings(lambda: security.tokens if security.on else None, **settings)
        login = add_dashboard(app, parts, ui)
        names = ["testserver"]  # as TestClient calls it
        login.refused = protect(app, security, Side(True, False), self.refusals.append, browsers(), names).refused
        return app

    def health(self) -> Health:
        nodes = self.world.nodes.values()
        return Health(
            status="degraded" if self.problems else "ok",
            version="0.1.0",
            settings_version=self.world.policies.version,
            started_s=time.time() - 7300,
            mode="active",
            listen="rm1:8030",
            upstream="rm1:18030",
            rm_web="http://rm1:8088",
            rm_reachable=True,
            nodes=len(nodes),
            nodes_usable=sum(1 for node in nodes if node.view.usable),
            connections=2,
            attempts=len(self.world.attempts),
            store=self.store.name,
            problems=self.problems,
            notices=self.notices,
        )

    def bypass(self) -> BypassInfo:
        return BypassInfo(order=self.order, phase="active", why="", applications={})

    def _recent(self) -> Sequence[DecisionRecord]:
        return self.recent

    def _order_bypass(self, order: Order, who: str) -> BypassInfo:
        self.order = order
        return self.bypass()

    async def _reload(self, who: str, how: How, request: ReloadRequest) -> ReloadAnswer:
        return ReloadAnswer(file=request.file or "quicksilver.yaml", version="2-b", before="1-a")

    async def _check(self, file: str) -> ReloadAnswer:
        return ReloadAnswer(file=file or "quicksilver.yaml", version="2-b", before="1-a", digest="b")

    async def _drain(self, node_id: str, wanted: Draining, who: str) -> None:
        if node_id not in self.world.nodes:
            raise ApiError(404, "unknown-node", f"there is no node {node_id}")
        self.drained.append((node_id, wanted, who))

    def _report(self, node_id: str, report: Report, scope: Scope) -> Ack:
        self.world.reports.report(node_id, report, time.time())
        return Ack(events_to=0)


@contextmanager
def small_proxy(folder: Path, nodes: int = 3, security: Security = OPEN) -> Iterator[SmallProxy]:
    """Open a store of its own for it, and close it."""
    store = Store(f"sqlite:///{folder / 'proxy.db'}")
    store.open()
    try:
        yield SmallProxy(store, nodes, security)
    finally:
        store.close()
