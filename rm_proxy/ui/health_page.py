"""The page Health: problems, bypass, versions, silent sidecars and their limits."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from quicksilver.common.web.pages import Pages
from quicksilver.common.web.snapshots import PageSnapshot
from rm_proxy.api.app import ApiParts

HEALTH_S: Final = 3.0
_MOST: Final = 200
"""Rows of one table."""


def health_routes(pages: Pages, parts: ApiParts) -> APIRouter:
    """Return the routes of the page."""
    router = APIRouter()
    facts = PageSnapshot(lambda: _facts(parts), HEALTH_S)

    @router.get("/health")
    async def health(request: Request) -> Response:
        return pages.render(request, "health.html", title="Health", section="health")

    @router.get("/data/health")
    async def data_health(request: Request) -> Response:
        return await facts.response(request)

    return router


def _facts(parts: ApiParts) -> dict[str, Any]:
    """Return health and bypass, and nodes counted by version, by settings and by what their sidecars lack."""
    unusable: list[dict[str, Any]] = []
    pairs: Counter[tuple[str, str]] = Counter()
    limits: dict[str, list[str]] = {}
    for node in parts.live.each_node():
        if node["report_age_s"] is not None:
            pairs[node["version"], node["settings_version"]] += 1
            for limit in node["limits"]:
                limits.setdefault(limit, []).append(node["id"])
        if not node["usable"] and len(unusable) < _MOST:
            unusable.append({"id": node["id"], "why": node["why_unusable"], "age_s": node["report_age_s"]})
    return {
        "health": parts.health().model_dump(),
        "bypass": parts.bypass().model_dump(),
        "sidecars": [
            {"version": version, "settings": settings, "nodes": n}
            for (version, settings), n in pairs.most_common(_MOST)
        ],
        "unusable": unusable,
        "limits": [
            {"text": text, "nodes": len(nodes), "example": nodes[0]}
            for text, nodes in sorted(limits.items(), key=lambda item: -len(item[1]))[:_MOST]
        ],
    }
