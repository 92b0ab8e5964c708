"""Logging in and out by browser, and the check that calls that change something come from our own pages."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from quicksilver.common.http.access import Browsers
from quicksilver.common.http.browser_login import own_origin
from quicksilver.common.http.rest_server import envelope
from quicksilver.common.web.pages import HEADERS, Pages, to_root

LOGIN: Final = "login"
MAX_FORM: Final = 10_000


class OwnOrigin:
    """ASGI middleware: a call that changes something and comes from another site's page is answered with 403."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Judge the call, then pass it on or answer it."""
        if scope["type"] != "http" or own_origin(scope["method"], Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        why = "a page of another site sent this; open the page itself, or use the command line"
        await envelope(403, "other-origin", why)(scope, receive, send)


def browsers() -> Browsers:
    """Return the rules for browsers, for `protect`."""
    return Browsers("/ui", ("/ui/login", "/ui/logout", "/ui/static/"), _login_address)


def _login_address(scope: Scope) -> str:
    path = scope["path"]
    query = scope.get("query_string", b"").decode("latin-1")
    behind = path.removeprefix("/ui/") if path.startswith("/ui/") else ""
    to = quote(f"{behind}?{query}" if query else behind, safe="")
    return f"{'ui/' if path == '/ui' else to_ui(path)}{LOGIN}?to={to}"


def to_ui(path: str) -> str:
    """Return the relative address of `/ui/` from a path behind it."""
    return "../" * (path.count("/") - 2)


def login_routes(pages: Pages) -> APIRouter:
    """Return the routes of the form, and of logging out."""
    router = APIRouter(include_in_schema=False)

    @router.get(f"/{LOGIN}")
    async def form(request: Request, to: str = "") -> Response:
        return pages.render(request, "login.html", title="Log in", section=LOGIN, error="", to=_inside(to))

    @router.post(f"/{LOGIN}")
    async def log_in(request: Request) -> Response:
        body = await request.body()
        fields = parse_qs(body[:MAX_FORM].decode("utf-8", "replace"))
        token, to = fields.get("token", [""])[0].strip(), _inside(fields.get("to", [""])[0])
        if pages.login.role_of(token) is None:
            error = "This token is unknown, or its role is not for pages."
            pages.login.refused(request.client.host if request.client else "unknown", "token", error)
            return pages.render(request, "login.html", title="Log in", section=LOGIN, status=401, error=error, to=to)
        response = RedirectResponse(f"{to_root(request)}ui/{to}", 303, HEADERS)
        pages.login.remember(request, response, token)
        return response

    @router.post("/logout")
    async def log_out(request: Request) -> Response:
        response = RedirectResponse(LOGIN, 303, HEADERS)
        pages.login.forget(request, response)
        return response

    return router


def _inside(path: str) -> str:
    """Return a path behind /ui/ that cannot lead elsewhere; "" for any other."""
    plain = path and path[0].isalnum() and ":" not in path.partition("/")[0] and "\\" not in path
    return path if plain and "//" not in path and ".." not in path else ""
