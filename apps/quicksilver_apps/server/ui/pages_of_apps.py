"""The pages: applications, one of them, submitting, templates, quotas."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, FastAPI, Path, Query, Request, Response
from fastapi.responses import RedirectResponse

from quicksilver.common.http.browser_login import BrowserLogin
from quicksilver.common.http.security import Security
from quicksilver.common.web.access import OwnOrigin, login_routes
from quicksilver.common.web.docs_site import docs_routes
from quicksilver.common.web.pages import Pages, WebSite
from quicksilver_apps.server.callers import ROLES
from quicksilver_apps.server.states import ENDED, State

SITE: Final = WebSite(
    package="quicksilver_apps.server.ui",
    sections=(
        ("", "Applications"),
        ("submit", "Submit"),
        ("templates", "Templates"),
        ("quotas", "Quotas"),
        ("docs/", "Docs"),
    ),
    health="healthz",
    login_words="the role user, read or admin",
    login_example="user --user NAME",
)
Name = Annotated[str, Path(max_length=100)]


def page_routes(pages: Pages) -> APIRouter:
    """Return the routes of all pages, behind `/ui`."""
    router = APIRouter()

    @router.get("/")
    async def applications(request: Request) -> Response:
        states = [(state.value, state in ENDED) for state in State]
        return pages.render(request, "apps.html", title="Applications", section="", states=states)

    @router.get("/applications")
    async def to_list() -> Response:
        return RedirectResponse("./", 307)

    @router.get("/applications/{app_id}")
    async def application(request: Request, app_id: Name) -> Response:
        return pages.render(request, "app.html", title=app_id, section="", app_id=app_id)

    @router.get("/submit")
    async def submit(request: Request, template: Annotated[str, Query(max_length=50)] = "") -> Response:
        return pages.render(request, "submit.html", title="Submit", section="submit", chosen=template)

    @router.get("/templates")
    async def templates(request: Request) -> Response:
        return pages.render(request, "templates.html", title="Templates", section="templates")

    @router.get("/templates/{name}")
    async def template(request: Request, name: Name) -> Response:
        return pages.render(request, "template.html", title=f"Template {name}", section="templates", name=name)

    @router.get("/quotas")
    async def quotas(request: Request) -> Response:
        return pages.render(request, "quotas.html", title="Quotas", section="quotas")

    return router


def add_pages(app: FastAPI, security: Security, base_path: str) -> BrowserLogin:
    """Add all routes below `/ui` and the check of origins; call it before `protect`. Returns the login of browsers."""
    login = BrowserLogin(lambda: security.tokens if security.on else None, base_path, ROLES)
    pages = Pages(SITE, login)
    for router in (page_routes(pages), login_routes(pages), pages.assets.routes(), docs_routes(pages)):
        app.include_router(router, prefix="/ui", include_in_schema=False)

    @app.get("/", include_in_schema=False)
    @app.get("/ui", include_in_schema=False)
    async def to_pages(_request: Request) -> Response:
        return RedirectResponse("ui/", 307)

    app.add_middleware(OwnOrigin)
    return login
