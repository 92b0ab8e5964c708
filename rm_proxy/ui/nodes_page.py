"""The pages of all nodes and of one node."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from rm_proxy.api.app import ApiParts
from rm_proxy.ui.pages import Pages


def nodes_routes(pages: Pages, parts: ApiParts) -> APIRouter:
    """Return the routes of the pages."""
    router = APIRouter()

    @router.get("/nodes")
    async def nodes(request: Request) -> Response:
        return pages.render(request, "nodes.html", title="Nodes", section="nodes")

    return router
