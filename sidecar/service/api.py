"""REST of the sidecar: grants of the proxy, the node's state, why a container waits, metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

from fastapi import FastAPI, Path, Response

from quicksilver.common.http.api_docs import add_api_docs
from quicksilver.common.http.rest_errors import ApiError, ErrorEnvelope
from quicksilver.common.http.rest_server import DEFAULT_BODY_BYTES, BodyLimit, install_error_handlers
from quicksilver.common.messages import ContainerReport, Draining, Grants, Message, Report
from sidecar.metrics import CONTENT_TYPE
from sidecar.node.events import Drain
from sidecar.node.node import SidecarNode
from sidecar.node.report_view import container, containers
from sidecar.service.dispatcher import Dispatcher
from sidecar.service.proxy_answers import handle_grants


class SidecarHealth(Message):
    """Health of the sidecar, and its limitations."""

    status: str
    """ok, or degraded."""
    version: str = ""
    """Of quicksilver."""
    node_id: str
    nodemanager: bool | None
    """Whether the NodeManager is up and its REST answered the last call; None before the first one."""
    proxy: bool | None
    """Whether the proxy took the last report; None before the first."""
    settings_version: str = ""
    """Number and digest of the settings in use, and the windows that are open."""
    limits: list[str]


def make_api(dispatcher: Dispatcher, report: Callable[[], Report]) -> FastAPI:
    """Return the REST application; all its routes run in the sidecar's own loop."""
    app = FastAPI(title="quicksilver sidecar", version="1", docs_url=None, redoc_url=None)
    add_api_docs(app)
    install_error_handlers(app)
    app.add_middleware(BodyLimit, max_bytes=DEFAULT_BODY_BYTES)
    _grant_routes(app, dispatcher)
    _node_routes(app, dispatcher.node, report)

    @app.get("/metrics")
    async def prometheus() -> Response:
        """Return all metrics in Prometheus's text form."""
        dispatcher.set_gauges()
        return Response(dispatcher.metrics.exposition(), media_type=CONTENT_TYPE)

    return app


def _grant_routes(app: FastAPI, dispatcher: Dispatcher) -> None:
    @app.post("/v1/grants", status_code=204)
    async def grants(body: Grants) -> Response:
        """Store announcements of queueable containers, and drop those whose starts are not wanted any more."""
        handle_grants(body, dispatcher.gates.queue)
        return Response(status_code=204)

    @app.post("/v1/drain", status_code=204)
    async def drain(body: Draining) -> Response:
        """Begin or end a drain: shed waiting containers, hold no new ones, after `timeout_s` kill what still runs."""
        dispatcher.put(Drain(body.on, body.reason or "draining", time.time(), timeout_s=body.timeout_s))
        return Response(status_code=204)


def _node_routes(app: FastAPI, node: SidecarNode, report: Callable[[], Report]) -> None:
    @app.get("/v1/node", response_model=Report)
    async def node_state() -> Report:
        """Return the report for the proxy, without the events."""
        return report()

    @app.get("/v1/containers", response_model=list[ContainerReport])
    async def all_containers() -> list[ContainerReport]:
        """Return all containers; waiting ones in the order in which they will start, with the reason why they wait."""
        return containers(node, time.time())

    @app.get("/v1/containers/{container_id}", response_model=ContainerReport, responses={404: {"model": ErrorEnvelope}})
    async def one_container(container_id: Annotated[str, Path(max_length=200)]) -> ContainerReport:
        """Return one container with the reason why it waits; 404 when it is not here."""
        report = container(node, container_id, time.time())
        if report is None:
            raise ApiError(404, "unknown-container", f"{container_id} neither waits nor runs on this node")
        return report
