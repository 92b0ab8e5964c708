"""The page Policies."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from quicksilver.common.web.pages import Pages
from quicksilver.common.web.snapshots import PageSnapshot
from rm_proxy.api.app import ApiParts
from rm_proxy.api.params import ask

SHOWN: Final = 300
"""Changes."""


def policies_routes(pages: Pages, parts: ApiParts) -> APIRouter:
    """Return the routes of the page."""
    router = APIRouter()
    state = PageSnapshot(lambda: _state(parts), 3.0, share=0.02)

    @router.get("/policies")
    async def policies(request: Request) -> Response:
        return pages.render(request, "policies.html", title="Policies", section="policies", shown=SHOWN)

    @router.get("/data/policies")
    async def data(request: Request) -> Response:
        return await state.response(request)

    return router


async def _state(parts: ApiParts) -> dict[str, Any]:
    changes = await ask(lambda: parts.history.changes(limit=SHOWN, starts=False))
    info = parts.live.policies().model_dump(mode="json", exclude={"available"})
    return {
        "policies": info,
        "compare": [comparison.model_dump(mode="json") for comparison in parts.live.comparisons()],
        "changes": [change.model_dump(mode="json") for change in changes.items],
    }
