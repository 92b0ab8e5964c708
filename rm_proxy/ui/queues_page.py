"""The pages of YARN's queues and of one queue."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from policies.config.schema import full_queue
from quicksilver.common.web.pages import Pages
from quicksilver.common.web.snapshots import PageSnapshot, Snapshots
from rm_proxy.api.app import ApiParts

LastDay = Annotated[float, Query(gt=0, le=86_400)]


def queues_routes(pages: Pages, parts: ApiParts) -> APIRouter:
    """Return the routes of the pages."""
    router = APIRouter()
    tree = PageSnapshot(lambda: parts.live.queue_tree().model_dump_json().encode(), 3.0)
    single = Snapshots(lambda key: _queue(parts, *key), 3.0)

    @router.get("/queues")
    async def queues(request: Request) -> Response:
        return pages.render(request, "queues.html", title="Queues", section="queues")

    @router.get("/queues/{name}")
    async def queue(request: Request, name: str) -> Response:
        return pages.render(request, "queue.html", title=name, section="queues", name=name)

    @router.get("/data/queues")
    async def tree_data(request: Request) -> Response:
        return await tree.response(request)

    @router.get("/data/queues/{name}")
    async def queue_data(request: Request, name: str, last_s: LastDay = 1800.0) -> Response:
        return await single.of((name, last_s)).response(request)

    return router


def _queue(parts: ApiParts, name: str, last_s: float) -> dict[str, Any]:
    """Return a queue's node of the tree, users and history; `queue` is null where there is no such queue."""
    path = full_queue(name, parts.live.queue_names())
    items = parts.live.queue_tree().items
    known = next((item for item in items if item.name == path), None)
    detail = parts.live.queue(path)
    if known is None or detail is None:
        return {"queue": None}
    columns = parts.queue_history.last(path, last_s, time.time())
    below = [child for child in items if child.name.rpartition(".")[0] == path]
    return {
        "queue": known.model_dump(mode="json"),
        "detail": detail.model_dump(mode="json"),
        "below": [child.model_dump(mode="json") for child in below],
        "history": {"t": columns.t, "step_s": columns.step_s, **columns.values},
    }
