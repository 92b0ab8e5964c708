"""The routes of all pages, the same at the proxy and at the sidecars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request, Response
from prometheus_client import CollectorRegistry
from pydantic import BaseModel

from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.http.servlets import conf, jmx, log_level
from quicksilver.common.http.servlets.stacks import stacks_text

JSON: Final = "application/json"
_HTML: Final = "text/html"
_TAGS: Final[list[str | Enum]] = ["daemon"]
_CROSS_SITE: Final = ("cross-site", "same-site")


class Readiness(BaseModel):
    """Whether the daemon does its work, and why not."""

    ready: bool
    reasons: list[str]


@dataclass(frozen=True, slots=True)
class ServletParts:
    """What the pages show; all are called in the event loop, and are quick."""

    service: str
    """Of the names of beans: QuicksilverProxy, QuicksilverSidecar."""
    registry: CollectorRegistry
    """The daemon's metrics."""
    set_gauges: Callable[[], None]
    """Sets those of its metrics that are set only when they are read."""
    properties: Callable[[], Sequence[conf.ShownProperty]]
    """Returns the settings in force."""
    health: Callable[[], BaseModel]
    not_ready: Callable[[], Sequence[str]]
    """Returns why the daemon does not do its work yet, or not any more; nothing when it does."""


def add_servlets(app: FastAPI, parts: ServletParts) -> None:
    """Add the pages to a daemon's REST."""
    for routes in (_probes(parts), _inspection(parts), _logs()):
        app.include_router(routes)


def _probes(parts: ServletParts) -> APIRouter:
    router = APIRouter(tags=_TAGS)

    @router.get("/healthz", summary="Whether the process lives")
    async def healthz() -> dict[str, Any]:
        """Answers 200 while the process handles calls; `status` is `degraded` when it has a problem."""
        return parts.health().model_dump(mode="json")

    @router.get("/readyz", summary="Whether the daemon does its work")
    async def readyz(response: Response) -> Readiness:
        """Answers 503 with the reasons until the daemon does its work, and when it cannot any more."""
        reasons = list(parts.not_ready())
        response.status_code = 503 if reasons else 200
        return Readiness(ready=not reasons, reasons=reasons)

    return router


def _inspection(parts: ServletParts) -> APIRouter:
    router = APIRouter(tags=_TAGS)

    @router.get("/conf", summary="The settings in force", response_class=Response)
    async def settings(request: Request, name: str = "", format: str = "") -> Response:
        """Each with its source, as Hadoop's ConfServlet: XML, or JSON by `format=json` or the header Accept."""
        form = format or ("json" if JSON in request.headers.get("accept", "") else "xml")
        if form not in ("json", "xml"):
            raise ApiError(400, "bad-format", f"there is no format {form[:50]!r}; take json or xml")
        properties = [entry for entry in parts.properties() if not name or entry.name == name]
        if not properties:
            raise ApiError(404, "unknown-setting", f"there is no setting {name[:200]}; /conf lists all")
        if form == "json":
            return Response(conf.as_json(properties, single=bool(name)), media_type=JSON)
        return Response(conf.as_xml(properties), media_type="text/xml; charset=utf-8")

    @router.get("/jmx", summary="Metrics as Hadoop's daemons show them", response_class=Response)
    async def beans(qry: str = "", get: str = "") -> Response:
        """`qry` chooses beans by a pattern of names, `get=BEAN::ATTRIBUTE` one attribute."""
        parts.set_gauges()
        return Response(jmx.answer(jmx.beans(parts.service, parts.registry), qry=qry, get=get), media_type=JSON)

    @router.get("/stacks", summary="What all threads and tasks do now", response_class=Response)
    async def stacks() -> Response:
        """Threads and asyncio tasks; tasks with equal stacks are counted together."""
        return Response(stacks_text(), media_type="text/plain; charset=utf-8")

    return router


def _logs() -> APIRouter:
    router = APIRouter(tags=_TAGS)

    @router.get("/logLevel", summary="The level of a logger", response_class=Response)
    async def level(request: Request, log: str = "", level: str = "") -> Response:
        """Shows the level of `log`; with `level` changes it until the daemon restarts, which needs the role admin."""
        if level and request.headers.get("sec-fetch-site") in _CROSS_SITE:
            raise ApiError(403, "cross-site", "a page of another site asks for it; use this site's own form")
        as_json = JSON in request.headers.get("accept", "")
        shown = log_level.apply(log, level) if log else None
        if as_json:
            names = {"loggers": log_level.known()} if shown is None else {}
            return Response(log_level.as_json(shown, **names), media_type=JSON)
        return Response(log_level.as_html(shown), media_type=f"{_HTML}; charset=utf-8")

    @router.options("/logLevel", include_in_schema=False)
    async def options() -> Response:
        """Answers the login of `hadoop daemonlog`, which begins with OPTIONS."""
        return Response(headers={"Allow": "GET, HEAD, OPTIONS"})

    return router
