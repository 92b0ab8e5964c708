"""Routes of YARN's queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query

from policies.config.schema import full_queue
from quicksilver.common.http.rest_errors import ApiError
from rm_proxy.api.live_state import LiveState
from rm_proxy.api.params import Limit, Offset, QueueName
from rm_proxy.history.queue_counts import QueueHistory
from rm_proxy.views.cluster_models import ListPage, QueueDetail, QueueInfo
from rm_proxy.views.queue_models import QueueOverTime, QueueTree

LastDay = Annotated[float, Query(gt=0, le=86_400, description="Only this time before now, in seconds.")]


def queue_routes(live: LiveState, history: QueueHistory, now: Callable[[], float]) -> APIRouter:
    """Return the routes; they are served below /v1. now: returns Unix seconds."""
    router = APIRouter(tags=["queues"])

    @router.get("/queues", summary="The YARN queues")
    async def queues(limit: Limit = 1000, offset: Offset = 0) -> ListPage[QueueInfo]:
        """The ResourceManager's numbers, and the queueable containers beside them."""
        items = live.queues()
        return ListPage(items=list(items[offset : offset + limit]), offset=offset, more=len(items) > offset + limit)

    @router.get("/queue-tree", summary="All YARN queues, with those above them")
    async def tree() -> QueueTree:
        """Use by guaranteed and queueable containers, capacities, what waits, applications and users."""
        return live.queue_tree()

    @router.get("/queues/{name}", summary="One YARN queue with its users")
    async def queue(name: QueueName) -> QueueDetail:
        """Beside the figures of the list: what each user has and may still have, and the queues above it."""
        detail = live.queue(name)
        if detail is None:
            raise ApiError(404, "unknown-queue", f"there is no YARN queue {name}")
        return detail

    @router.get("/queues/{name}/history", summary="One YARN queue over time")
    async def over_time(name: QueueName, last_s: LastDay = 1800.0) -> QueueOverTime:
        """Use and waiting containers; from memory, since the proxy started, a day at most."""
        known = live.queue_names()
        path = full_queue(name, known)
        if path not in known:
            raise ApiError(404, "unknown-queue", f"there is no YARN queue {name}")
        columns = history.last(path, last_s, now())
        return QueueOverTime(name=path, step_s=columns.step_s, t=columns.t, values=columns.values)

    return router
