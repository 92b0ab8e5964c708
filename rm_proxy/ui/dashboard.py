"""The dashboard, put together and added to the proxy's application."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import RedirectResponse

from quicksilver.common.http.browser_login import BrowserLogin
from quicksilver.common.http.tokens import AccessTokens
from quicksilver.common.web.access import OwnOrigin, login_routes
from quicksilver.common.web.docs_site import docs_routes
from quicksilver.common.web.pages import Pages
from rm_proxy.api.app import ApiParts
from rm_proxy.ui.applications_page import applications_routes
from rm_proxy.ui.cluster_page import cluster_routes
from rm_proxy.ui.health_page import health_routes
from rm_proxy.ui.nodes_page import nodes_routes
from rm_proxy.ui.policies_page import policies_routes
from rm_proxy.ui.queues_page import queues_routes
from rm_proxy.ui.site import SITE


@dataclass(frozen=True, slots=True)
class UiSettings:
    """What the dashboard has to know of the proxy beside the parts of REST."""

    tokens: Callable[[], AccessTokens | None] = lambda: None
    """Returns the tokens in force; None without security."""
    base_path: str = ""
    """Prefix under which browsers see the proxy, if no header says it."""


def page_routes(pages: Pages, parts: ApiParts) -> list[APIRouter]:
    """Return the routes of all pages; each gets its path behind `/ui`."""
    return [
        cluster_routes(pages, parts),
        nodes_routes(pages, parts),
        applications_routes(pages, parts),
        queues_routes(pages, parts),
        policies_routes(pages, parts),
        health_routes(pages, parts),
    ]


def add_dashboard(app: FastAPI, parts: ApiParts, settings: UiSettings | None = None) -> BrowserLogin:
    """Add all routes below `/ui` and the check of origins; call it before `protect`. Returns the login of browsers."""
    settings = settings or UiSettings()
    login = BrowserLogin(settings.tokens, settings.base_path)
    pages = Pages(SITE, login)
    for router in (*page_routes(pages, parts), login_routes(pages), pages.assets.routes(), docs_routes(pages)):
        app.include_router(router, prefix="/ui", include_in_schema=False)

    @app.get("/", include_in_schema=False)
    @app.get("/ui", include_in_schema=False)
    async def to_dashboard(_request: Request) -> Response:
        return RedirectResponse("ui/", 307)

    app.add_middleware(OwnOrigin)
    return login
