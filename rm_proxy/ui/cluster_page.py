"""The page Cluster: what runs over time, and the gain and loss of the day."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from quicksilver.common.web.pages import Pages
from quicksilver.common.web.snapshots import PageSnapshot, Snapshots
from rm_proxy.api.app import ApiParts
from rm_proxy.api.cluster_routes import history_of
from rm_proxy.api.params import ask
from rm_proxy.store.ledger import Scope

SPANS_S: Final = (900, 3600, 6 * 3600, 86_400)
HISTORY_S: Final = 4.0
STATE_S: Final = 2.0
TODAY_S: Final = 30.0
STORE_SHARE: Final = 0.02
"""Part of the time in which the store may be asked for the dashboard."""
_DAY_S: Final = 86_400
ZoneMin = Annotated[int, Query(ge=-1080, le=1080)]
Span = Annotated[int, Query(gt=0, le=_DAY_S)]


def cluster_routes(pages: Pages, parts: ApiParts) -> APIRouter:
    """Return the routes of the page."""
    router = APIRouter()
    history = Snapshots(lambda last_s: _history(parts, last_s), HISTORY_S, limit=len(SPANS_S))
    today = Snapshots(lambda zone_min: _today(parts, zone_min), TODAY_S, share=STORE_SHARE, limit=24)
    state = PageSnapshot(lambda: _state(parts), STATE_S)

    @router.get("/")
    async def cluster(request: Request) -> Response:
        return pages.render(request, "cluster.html", title="Cluster", section="", spans_s=SPANS_S)

    @router.get("/data/history")
    async def data_history(request: Request, last_s: Span = 3600) -> Response:
        fits = next(span_s for span_s in SPANS_S if span_s >= last_s)
        return await history.of(fits).response(request)

    @router.get("/data/today")
    async def data_today(request: Request, zone_min: ZoneMin = 0) -> Response:
        return await today.of(15 * round(zone_min / 15)).response(request)

    @router.get("/data/cluster")
    async def data_cluster(request: Request) -> Response:
        return await state.response(request)

    return router


def _history(parts: ApiParts, last_s: int) -> bytes:
    return history_of(parts.series, last_s, time.time()).model_dump_json().encode()


def _state(parts: ApiParts) -> dict[str, Any]:
    """Return health, and the last sample of the cluster."""
    health = parts.health()
    at_s, sample = parts.series.latest or (None, {})
    return {"health": health.model_dump(), "now_s": at_s, "now": sample}


async def _today(parts: ApiParts, zone_min: int) -> dict[str, Any]:
    """Return the ledger's row and the kills since midnight, in a zone of so many minutes east of UTC."""
    zone_s = 60 * zone_min
    since_s = (time.time() + zone_s) // _DAY_S * _DAY_S - zone_s
    history = parts.history
    rows = await ask(lambda: history.ledger.rows(Scope("day", since_s, None, zone_min), limit=1))
    kills = await ask(lambda: history.kills(since_s=since_s))
    for row in rows:
        row.shrinks += parts.live.shrinks_now()
    return {
        "since_s": since_s,
        "zone_min": zone_min,
        "ledger": rows[0].model_dump() if rows else None,
        "kills": [row.model_dump() for row in kills],
    }
