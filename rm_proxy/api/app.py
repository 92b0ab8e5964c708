"""The proxy's REST API for admins, and the reports of sidecars.

`create_app` gets the parts of the running proxy that the routes use (`ApiParts`).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeVar

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError

from quicksilver.common.http.api_docs import add_api_docs
from quicksilver.common.http.rest_errors import ApiError, ErrorEnvelope
from quicksilver.common.http.rest_server import DEFAULT_BODY_BYTES, BodyLimit, install_error_handlers
from quicksilver.common.messages import Ack, Draining, Report
from quicksilver.common.process.version import version
from quicksilver.common.settings.reload import said_by
from quicksilver.common.settings.reload_api import Check, Reload
from rm_proxy.api.application_routes import application_routes, event_routes
from rm_proxy.api.bypass_routes import bypass_routes
from rm_proxy.api.cluster_routes import cluster_routes
from rm_proxy.api.estimate_routes import estimate_routes
from rm_proxy.api.history_routes import history_routes
from rm_proxy.api.key_routes import ReportKeys, key_routes, take_no_keys
from rm_proxy.api.live_state import LiveState
from rm_proxy.api.params import (
    ContainerId,
    Limit,
    NodeId,
    OfApp,
    OfContainer,
    Offset,
    OfNode,
    Since,
    Until,
    ask,
)
from rm_proxy.api.policy_routes import policy_routes
from rm_proxy.api.prometheus_routes import prometheus_routes
from rm_proxy.api.queue_routes import queue_routes
from rm_proxy.api.received_report import check_numbers
from rm_proxy.api.report_connections import ReportConnections, ReportUpgrade
from rm_proxy.api.report_route import HandleReport, ReportRoute
from rm_proxy.coordinator.error_budget import Order
from rm_proxy.domain.records import DecisionRecord
from rm_proxy.history.cluster_sample import NAMES, Shrinks
from rm_proxy.history.queue_counts import QueueHistory
from rm_proxy.history.time_series import TimeSeries
from rm_proxy.metrics import CONTENT_TYPE, ProxyMetrics
from rm_proxy.store.queries import DecisionFilter, History
from rm_proxy.views.cluster_models import ListPage, NodeDetail, NodeInfo
from rm_proxy.views.container_models import Decision, Explanation
from rm_proxy.views.explain import tell
from rm_proxy.views.history_models import Summary
from rm_proxy.views.service_models import BypassInfo, Health

T = TypeVar("T")
_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    404: {"model": ErrorEnvelope, "description": "There is no such thing."},
    422: {"model": ErrorEnvelope, "description": "A parameter or the body is invalid; the message names the field."},
    503: {"model": ErrorEnvelope, "description": "The store does not answer now."},
}


@dataclass(frozen=True, slots=True)
class ApiParts:
    """Parts of the running proxy that the routes use; all but `history` are called in the event loop, and are quick."""

    live: LiveState
    history: History
    """The store's queries, run in worker threads."""
    metrics: ProxyMetrics
    recent: Callable[[], Sequence[DecisionRecord]]
    """Returns the last decisions beside those of allocated containers, the newest first."""
    health: Callable[[], Health]
    bypass: Callable[[], BypassInfo]
    order_bypass: Callable[[Order, str], BypassInfo]
    """Gets an admin's order, and who gave it."""
    reload: Reload
    check: Check
    """Says what a reload would change."""
    drain: Callable[[str, Draining, str], Awaitable[None]]
    """Gets a node, whether it is drained, and who wants it. Raises ApiError when its sidecar cannot be reached."""
    report: HandleReport
    report_connections: ReportConnections
    report_keys: ReportKeys = take_no_keys
    series: TimeSeries = field(default_factory=lambda: TimeSeries(NAMES))
    """The cluster over time."""
    shrinks: Shrinks = field(default_factory=Shrinks)
    queue_history: QueueHistory = field(default_factory=QueueHistory)
    """The YARN queues over time."""


def create_app(
    parts: ApiParts, *, max_body_bytes: int = DEFAULT_BODY_BYTES, now: Callable[[], float] = time.time
) -> FastAPI:
    """Return the application; serve it with `quicksilver.common.http.rest_server.serve`."""
    app = FastAPI(
        title="quicksilver proxy",
        version=version(),
        description="Two-level scheduling for Apache Hadoop YARN: nodes, applications, queues and decisions.",
        docs_url=None,
        redoc_url=None,
        responses=_ERRORS,
    )
    install_error_handlers(app)
    add_api_docs(app)
    app.add_middleware(ReportRoute, handle=parts.report)
    app.add_middleware(ReportUpgrade, connections=parts.report_connections)
    app.add_middleware(BodyLimit, max_bytes=max_body_bytes)
    live, history = parts.live, parts.history
    for routes in (
        _node_routes(live, parts.report, parts.drain),
        policy_routes(live, history, parts.reload, parts.check, now),
        key_routes(parts.report_keys),
        queue_routes(live, parts.queue_history, now),
        _operation_routes(parts),
        application_routes(live, history, now),
        event_routes(history),
        _decision_routes(live, history, now),
        _container_routes(live, history),
        history_routes(live, history, parts.recent),
        bypass_routes(parts.bypass, parts.order_bypass),
        estimate_routes(history, ask, now),
        prometheus_routes(live),
        cluster_routes(live, history, parts.series, parts.shrinks, now),
    ):
        app.include_router(routes, prefix="/v1")

    @app.get("/metrics", tags=["operation"], response_class=Response, summary="Prometheus metrics")
    async def prometheus() -> Response:
        return Response(parts.metrics.exposition(), media_type=CONTENT_TYPE)

    return app


def _page(items: Sequence[T], limit: int, offset: int) -> ListPage[T]:
    return ListPage(items=list(items[offset : offset + limit]), offset=offset, more=len(items) > offset + limit)


def _node_routes(
    live: LiveState, handle_report: HandleReport, drain_node: Callable[[str, Draining, str], Awaitable[None]]
) -> APIRouter:
    router = APIRouter(tags=["nodes"])

    @router.get("/nodes", summary="All nodes")
    async def nodes(limit: Limit = 1000, offset: Offset = 0) -> ListPage[NodeInfo]:
        """YARN's record of each node, and its sidecar's last report."""
        return _page(live.nodes(), limit, offset)

    @router.get("/nodes/{node_id}", summary="One node with its containers")
    async def node(node_id: NodeId) -> NodeDetail:
        """A node, and the containers that its sidecar knows, waiting ones with what they wait for."""
        detail = live.node(node_id)
        if detail is None:
            raise ApiError(404, "unknown-node", f"there is no node {node_id}")
        return detail

    @router.post("/nodes/{node_id}/report", summary="A sidecar's report")
    async def report(node_id: NodeId, report: Report, request: Request) -> Ack:
        """Sent by sidecars each second and on change; the answer says which events need not be sent again."""
        if report.node_id != node_id:
            fault = {"loc": ("body", "node_id"), "msg": f"is {report.node_id}, the path says {node_id}"}
            raise RequestValidationError([fault])
        check_numbers(report)
        return handle_report(node_id, report, request.scope)

    @router.post("/nodes/{node_id}/drain", status_code=204, summary="Empty a node, or let it take containers again")
    async def drain(node_id: NodeId, body: Draining, request: Request) -> Response:
        """Waiting containers are shed, running ones continue; holds until it is undone or the sidecar starts anew."""
        await drain_node(node_id, body, said_by("", request.client.host if request.client else "unknown"))
        return Response(status_code=204)

    return router


def _operation_routes(parts: ApiParts) -> APIRouter:
    router = APIRouter()

    @router.get("/health", tags=["operation"], summary="Whether all is well")
    async def health() -> Health:
        """`degraded` with a list of problems, or `ok`; notices do not count. The status code is always 200."""
        return parts.health()

    return router


def _decision_routes(live: LiveState, history: History, now: Callable[[], float]) -> APIRouter:
    router = APIRouter()

    @router.get("/decisions", tags=["decisions"], summary="Containers as they were allocated, the newest first")
    async def decisions(
        limit: Limit = 100,
        offset: Offset = 0,
        app: OfApp = None,
        container: OfContainer = None,
        node: OfNode = None,
        kind: Annotated[Literal["G", "Q"] | None, Query(description="Only guaranteed or queueable ones.")] = None,
        since: Since = 0.0,
        until: Until = None,
    ) -> ListPage[Decision]:
        """Reasons for each container's kind (guaranteed or queueable) and for its node."""
        criteria = DecisionFilter(app, node, container, since_s=since, until_s=until)
        return await ask(lambda: history.decisions(criteria, kind=kind, limit=limit, offset=offset))

    @router.get("/summary", tags=["decisions"], summary="Counts and delays")
    async def summary(
        app: OfApp = None,
        last_s: Annotated[float | None, Query(gt=0, description="Only this time before now, in seconds.")] = None,
    ) -> Summary:
        """Containers by node and kind; percentiles of allocation delay and of waiting at the nodes.

        Containers that still wait count with their waits so far.
        """
        now_s = now()
        since_s = 0.0 if last_s is None else now_s - last_s
        waiting = live.open_waits(now_s, app)
        return await ask(lambda: history.summary(since_s=since_s, app_id=app, waiting=waiting))

    return router


def _container_routes(live: LiveState, history: History) -> APIRouter:
    router = APIRouter(tags=["decisions"])

    @router.get("/containers/{container_id}", summary="All that is known of one container")
    async def container(container_id: ContainerId) -> Explanation:
        """Why guaranteed or queueable, why this node with candidates and scores, why it waited, and its events."""
        known = await ask(lambda: history.explanation(container_id))
        known.live = live.container(container_id)
        if not (known.decision or known.live or known.events or known.completion or known.choices):
            raise ApiError(404, "unknown-container", f"nothing is known of {container_id}; see `keep_days`")
        known.story = tell(known)
        return known

    return router
