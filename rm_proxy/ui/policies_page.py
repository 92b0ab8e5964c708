"""The page Policies."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from quicksilver.common.web.pages import Pages
from quicksilver.common.web.snapshots import PageSnapshot, Shared
from rm_proxy.api.app import ApiParts
from rm_proxy.api.params import ask
from rm_proxy.views.cluster_models import ListPage
from rm_proxy.views.service_models import ChangeInfo

SHOWN: Final = 300
"""Changes."""
STORE_SHARE: Final = 0.02
"""Part of the time that queries of the store for the page may take."""


def policies_routes(pages: Pages, parts: ApiParts) -> APIRouter:
    """Return the routes of the page."""
    router = APIRouter()
    changes = Shared(lambda: ask(lambda: parts.history.changes(limit=SHOWN, starts=False)), 3.0, share=STORE_SHARE)
    state = PageSnapshot(lambda: _state(parts, changes), 3.0)

    @router.get("/policies")
    async def policies(request: Request) -> Response:
        return pages.render(request, "policies.html", title="Policies", section="policies", shown=SHOWN)

    @router.get("/data/policies")
    async def data(request: Request) -> Response:
        return await state.response(request)

    return router


async def _state(parts: ApiParts, changes: Shared[ListPage[ChangeInfo]]) -> dict[str, Any]:
    info = parts.live.policies().model_dump(mode="json", exclude={"available"})
    return {
        "policies": info,
        "compare": [comparison.model_dump(mode="json") for comparison in parts.live.comparisons()],
        "changes": [change.model_dump(mode="json") for change in (await changes.get()).items],
    }
