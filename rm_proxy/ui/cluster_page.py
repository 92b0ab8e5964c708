"""The page Cluster."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from rm_proxy.api.app import ApiParts
from rm_proxy.ui.pages import Pages


def cluster_routes(pages: Pages, parts: ApiParts) -> APIRouter:
    """Return the routes of the page."""
    router = APIRouter()

    @router.get("/")
    async def cluster(request: Request) -> Response:
        return pages.render(request, "cluster.html", title="Cluster", section="")

    return router
