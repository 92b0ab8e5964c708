"""The application of the app server's REST, put together."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI, Request, Response

from quicksilver.common.http.api_docs import add_api_docs
from quicksilver.common.http.rest_errors import ErrorEnvelope
from quicksilver.common.http.rest_server import BodyLimit, envelope, install_error_handlers
from quicksilver.common.process.version import version
from quicksilver_apps.description.mistakes import DescriptionError
from quicksilver_apps.server.api.application_routes import (
    ApplicationParts,
    action_routes,
    application_routes,
    log_routes,
    unavailable,
)
from quicksilver_apps.server.api.event_routes import event_routes
from quicksilver_apps.server.api.template_routes import template_routes
from quicksilver_apps.server.backend import BackendUnavailableError
from quicksilver_apps.server.store.database import DatabaseUnavailableError
from quicksilver_apps.server.submissions import BusyError

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    403: {"model": ErrorEnvelope, "description": "The caller may not do this."},
    404: {"model": ErrorEnvelope, "description": "There is no such thing, or it is another user's."},
    409: {"model": ErrorEnvelope, "description": "It is not possible in the state that it is in."},
    422: {"model": ErrorEnvelope, "description": "A parameter, the body or the description is wrong; a line for each."},
    429: {"model": ErrorEnvelope, "description": "Too much waits already; Retry-After says when to come again."},
    503: {"model": ErrorEnvelope, "description": "The store or the cluster does not answer now."},
}


def create_app(parts: ApplicationParts) -> FastAPI:
    """Return the application; serve it with `quicksilver.common.http.rest_server.serve`."""
    app = FastAPI(
        title="quicksilver app server",
        version=version(),
        description="Applications of services with core and elastic instances, submitted to Apache Hadoop YARN.",
        docs_url=None,
        redoc_url=None,
        responses=_ERRORS,
    )
    install_error_handlers(app)
    app.add_exception_handler(DescriptionError, _on_description)
    app.add_exception_handler(BackendUnavailableError, _on_backend)
    app.add_exception_handler(DatabaseUnavailableError, _on_store)
    app.add_exception_handler(BusyError, _on_busy)
    add_api_docs(app)
    app.add_middleware(BodyLimit, max_bytes=4 * 1024 * parts.settings.max_description_kb)
    for routes in (application_routes, action_routes, log_routes, template_routes, event_routes):
        app.include_router(routes(parts), prefix="/v1")

    @app.get("/metrics", tags=["operation"], response_class=Response, summary="Prometheus metrics")
    async def prometheus() -> Response:
        metrics = parts.journal.metrics
        metrics.listeners.set(len(parts.journal.stream))
        return Response(metrics.exposition(), media_type=CONTENT_TYPE)

    return app


async def _on_description(_request: Request, error: Exception) -> Response:
    return envelope(422, "description", str(error))


async def _on_backend(_request: Request, error: Exception) -> Response:
    assert isinstance(error, BackendUnavailableError)
    answer = unavailable(error)
    return envelope(answer.status, answer.code, str(answer))


async def _on_store(_request: Request, error: Exception) -> Response:
    return envelope(503, "store-unavailable", str(error))


async def _on_busy(_request: Request, error: Exception) -> Response:
    assert isinstance(error, BusyError)
    response = envelope(error.status, error.code, str(error))
    response.headers["Retry-After"] = str(error.after_s)
    return response
