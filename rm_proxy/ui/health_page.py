"""The page Health."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from rm_proxy.api.app import ApiParts
from rm_proxy.ui.pages import Pages


def health_routes(pages: Pages, parts: ApiParts) -> APIRouter:
    """Return the routes of the page."""
    router = APIRouter()

    @router.get("/health")
    async def health(request: Request) -> Response:
        return pages.render(request, "health.html", title="Health", section="health")

    return router
