"""The proxy's REST API: what an admin asks, and where sidecars report.

`create_app` needs the state of the running proxy (`ProxyState`): its methods are called in the event loop, so they must
be quick; its `history` asks the store in worker threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal, Protocol, TypeVar

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.types import Scope

from quicksilver.common.http.access import check_url
from quicksilver.common.http.rest import (
    DEFAULT_BODY_BYTES,
    NAMES,
    ApiError,
    BodyLimit,
    ErrorEnvelope,
    install_error_handlers,
)
from quicksilver.common.messages import Ack, Draining, ReloadAnswer, ReloadRequest, Report
from quicksilver.common.process.version import version
from quicksilver.common.settings.reload import How, said_by
from quicksilver.common.settings.reload_api import add_reload
from rm_proxy.api.bypass_routes import bypass_routes
from rm_proxy.api.estimate_routes import estimate_routes
from rm_proxy.api.history_routes import history_routes
from rm_proxy.api.params import (
    AppId,
    ContainerId,
    Limit,
    NodeId,
    OfApp,
    OfContainer,
    Offset,
    OfNode,
    QueueName,
    Since,
    Until,
    ask,
)
from rm_proxy.api.report_route import ReportRoute
from rm_proxy.coordinator.error_budget import Order
from rm_proxy.domain.records import DecisionRecord
from rm_proxy.metrics import CONTENT_TYPE, ProxyMetrics
from rm_proxy.store.queries import History, Wanted
from rm_proxy.views.explain import tell
from rm_proxy.views.models import (
    ApplicationInfo,
    BypassInfo,
    ChangeInfo,
    Comparison,
    Decision,
    Explanation,
    Health,
    LiveContainer,
    NodeDetail,
    NodeInfo,
    Page,
    PoliciesInfo,
    QueueDetail,
    QueueInfo,
    Summary,
)

T = TypeVar("T")
_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    404: {"model": ErrorEnvelope, "description": "There is no such thing."},
    422: {"model": ErrorEnvelope, "description": "A parameter or the body is invalid; the message names the field."},
    503: {"model": ErrorEnvelope, "description": "The store does not answer now."},
}


class ProxyState(Protocol):
    """What the running proxy knows; the implementation answers from memory, in the event loop."""

    @property
    def history(self) -> History:
        """The store's queries."""

    @property
    def metrics(self) -> ProxyMetrics:
        """What `/metrics` shows."""

    def nodes(self) -> Sequence[NodeInfo]:
        """Return all nodes, ordered by id."""

    def node(self, node_id: str) -> NodeDetail | None:
        """Return a node with its containers; None when it is unknown."""

    def applications(self) -> Sequence[ApplicationInfo]:
        """Return the applications that live now, ordered by id."""

    def queues(self) -> Sequence[QueueInfo]:
        """Return the leaf queues, ordered by name."""

    def queue(self, name: str) -> QueueDetail | None:
        """Return a queue with its users; None when it is unknown."""

    def policies(self) -> PoliciesInfo:
        """Return the policies in use."""

    def comparisons(self) -> Sequence[Comparison]:
        """Return how alternatives compare, by name and slot."""

    async def reload(self, who: str, how: How, request: ReloadRequest) -> ReloadAnswer:
        """Read the settings anew. Raises ReloadRefusedError."""

    async def drain(self, node_id: str, wanted: Draining, who: str) -> None:
        """Have a node hold nothing, or hold starts again. Raises ApiError when its sidecar cannot be told."""

    def recent(self) -> Sequence[DecisionRecord]:
        """Return the last decisions beside those of delivered containers, the newest first."""

    def health(self) -> Health:
        """Return whether all is well."""

    def bypass(self) -> BypassInfo:
        """Return who is in bypass, and why."""

    def order_bypass(self, order: Order, who: str) -> BypassInfo:
        """Take an admin's order."""

    def container(self, container_id: str) -> LiveContainer | None:
        """Return a container as the last report of its node has it."""

    def report(self, node_id: str, report: Report) -> Ack:
        """Take a sidecar's report. Raises ApiError when it cannot be taken."""


def create_app(
    state: ProxyState, *, max_body_bytes: int = DEFAULT_BODY_BYTES, now: Callable[[], float] = time.time
) -> FastAPI:
    """Return the application; serve it with `quicksilver.common.http.rest.serve`."""
    app = FastAPI(
        title="quicksilver proxy",
        version=version(),
        description="Two-level scheduling for Apache Hadoop YARN: nodes, applications, queues and decisions.",
        redoc_url=None,
        responses=_ERRORS,
    )
    install_error_handlers(app)
    app.add_middleware(ReportRoute, take=partial(_take, state))
    app.add_middleware(BodyLimit, max_bytes=max_body_bytes)
    made = (_node_routes(state), _live_routes(state), _decision_routes(state, now), _container_routes(state))
    for routes in (*made, history_routes(state), bypass_routes(state)):
        app.include_router(routes, prefix="/v1")
    app.include_router(estimate_routes(state.history, ask, now), prefix="/v1")

    @app.get("/metrics", tags=["operation"], response_class=Response, summary="Prometheus metrics")
    async def prometheus() -> Response:
        return Response(state.metrics.exposition(), media_type=CONTENT_TYPE)

    return app


def _take(state: ProxyState, node_id: str, report: Report, scope: Scope) -> Ack:
    """Take a report in. Raises ApiError, also where its sidecar's address is not of its host."""
    if NAMES in scope:
        check_url(report.sidecar_url, node_id, scope[NAMES])
    return state.report(node_id, report)


def _page(items: Sequence[T], limit: int, offset: int) -> Page[T]:
    return Page(items=list(items[offset : offset + limit]), offset=offset, more=len(items) > offset + limit)


def _node_routes(state: ProxyState) -> APIRouter:
    router = APIRouter(tags=["nodes"])

    @router.get("/nodes", summary="All nodes")
    async def nodes(limit: Limit = 1000, offset: Offset = 0) -> Page[NodeInfo]:
        """What YARN says of each node, and what its sidecar reported last."""
        return _page(state.nodes(), limit, offset)

    @router.get("/nodes/{node_id}", summary="One node with its containers")
    async def node(node_id: NodeId) -> NodeDetail:
        """A node, and the containers that its sidecar knows, waiting ones with what they wait for."""
        found = state.node(node_id)
        if found is None:
            raise ApiError(404, "unknown-node", f"there is no node {node_id}")
        return found

    @router.post("/nodes/{node_id}/report", summary="A sidecar's report")
    async def report(node_id: NodeId, report: Report, request: Request) -> Ack:
        """Sent by sidecars each second and on change; the answer says which events need not be sent again."""
        if report.node_id != node_id:
            fault = {"loc": ("body", "node_id"), "msg": f"is {report.node_id}, the path says {node_id}"}
            raise RequestValidationError([fault])
        return _take(state, node_id, report, request.scope)

    @router.post("/nodes/{node_id}/drain", status_code=204, summary="Empty a node, or let it take containers again")
    async def drain(node_id: NodeId, body: Draining, request: Request) -> Response:
        """What waits there is shed, what runs goes on; it holds until it is taken back or the sidecar starts anew."""
        await state.drain(node_id, body, said_by("", request.client.host if request.client else "unknown"))
        return Response(status_code=204)

    return router


def _live_routes(state: ProxyState) -> APIRouter:
    router = APIRouter()

    @router.get("/applications", tags=["applications"], summary="The applications that live now")
    async def applications(limit: Limit = 1000, offset: Offset = 0) -> Page[ApplicationInfo]:
        """Each with its mode, what it wants, and what it holds."""
        return _page(state.applications(), limit, offset)

    @router.get("/queues", tags=["queues"], summary="The YARN queues")
    async def queues(limit: Limit = 1000, offset: Offset = 0) -> Page[QueueInfo]:
        """The ResourceManager's numbers, and the queueable containers beside them."""
        return _page(state.queues(), limit, offset)

    @router.get("/queues/{name}", tags=["queues"], summary="One YARN queue with its users")
    async def queue(name: QueueName) -> QueueDetail:
        """Beside the figures of the list: what each user has and may still have, and the queues above it."""
        found = state.queue(name)
        if found is None:
            raise ApiError(404, "unknown-queue", f"there is no YARN queue {name}")
        return found

    @router.get("/policies", tags=["operation"], summary="The policies in use")
    async def policies() -> PoliciesInfo:
        """The policy of each slot with its settings, and the names that the slot could take."""
        return state.policies()

    @router.get("/policies/changes", tags=["operation"], summary="Changes of the settings, the newest first")
    async def changes(limit: Limit = 100, offset: Offset = 0) -> Page[ChangeInfo]:
        """Who changed what, when, how, from which value; files that were refused too."""
        return await ask(lambda: state.history.changes(limit=limit, offset=offset))

    @router.get("/policies/compare", tags=["operation"], summary="Alternatives beside the policies in use")
    async def compare() -> list[Comparison]:
        """What the alternatives of `policies.shadow` would have decided otherwise, since the settings were read."""
        return list(state.comparisons())

    add_reload(router, "/policies/reload", state.reload)

    @router.get("/health", tags=["operation"], summary="Whether all is well")
    async def health() -> Health:
        """`degraded` with a list of problems when something is not; the status code is 200 in both cases."""
        return state.health()

    return router


def _decision_routes(state: ProxyState, now: Callable[[], float]) -> APIRouter:
    router = APIRouter()

    @router.get("/applications/{app_id}", tags=["applications"], summary="One application, live or remembered")
    async def application(app_id: AppId) -> ApplicationInfo:
        """A finished one comes from the store."""
        live = next((app for app in state.applications() if app.id == app_id), None)
        if live is not None:
            return live
        kept = await ask(lambda: state.history.application(app_id))
        if kept is None:
            raise ApiError(404, "unknown-application", f"there is no application {app_id}")
        return ApplicationInfo(**kept.model_dump())

    @router.get("/decisions", tags=["decisions"], summary="Containers as they were delivered, the newest first")
    async def decisions(
        limit: Limit = 100,
        offset: Offset = 0,
        app: OfApp = None,
        container: OfContainer = None,
        node: OfNode = None,
        kind: Annotated[Literal["G", "Q"] | None, Query(description="Only guaranteed or queueable ones.")] = None,
        since: Since = 0.0,
        until: Until = None,
    ) -> Page[Decision]:
        """Why each went guaranteed or queueable, and why to its node."""
        wanted = Wanted(app, node, container, since_s=since, until_s=until)
        return await ask(lambda: state.history.decisions(wanted, kind=kind, limit=limit, offset=offset))

    @router.get("/summary", tags=["decisions"], summary="Counts and delays")
    async def summary(
        app: OfApp = None,
        last_s: Annotated[float | None, Query(gt=0, description="Only the last so many seconds.")] = None,
    ) -> Summary:
        """Containers by node and kind; percentiles of allocation delay and of waiting at the nodes."""
        since_s = 0.0 if last_s is None else now() - last_s
        return await ask(lambda: state.history.summary(since_s=since_s, app_id=app))

    return router


def _container_routes(state: ProxyState) -> APIRouter:
    router = APIRouter(tags=["decisions"])

    @router.get("/containers/{container_id}", summary="All that is known of one container")
    async def container(container_id: ContainerId) -> Explanation:
        """Why guaranteed or queueable, why this node with candidates and scores, why it waited, and its events."""
        known = await ask(lambda: state.history.explanation(container_id))
        known.live = state.container(container_id)
        if not (known.decision or known.live or known.events or known.completion or known.choices):
            raise ApiError(404, "unknown-container", f"nothing is known of {container_id}; see `keep_days`")
        known.story = tell(known)
        return known

    return router
