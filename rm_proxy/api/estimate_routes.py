"""The REST route of errors of expected durations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Query

from rm_proxy.store.estimate_errors import Estimates
from rm_proxy.store.queries import History


def estimate_routes(
    history: History, ask: Callable[[Callable[[], Estimates]], Awaitable[Estimates]], now: Callable[[], float]
) -> APIRouter:
    """Return the route; `ask` runs a query of the store in a thread."""
    router = APIRouter(tags=["decisions"])

    @router.get("/estimates", summary="How good expected durations were, by time")
    async def estimates(
        since_s: Annotated[float | None, Query(ge=0, le=1e11, description="Unix time; default: an hour ago.")] = None,
        bucket_s: Annotated[float, Query(ge=1, le=1e8, description="Length of a span, in seconds.")] = 60.0,
        app_id: Annotated[str | None, Query(max_length=100, description="Only of this application.")] = None,
    ) -> Estimates:
        """Expected against measured run times of allocated containers; the newest 1,000 spans at most."""
        begin_s = now() - 3600 if since_s is None else since_s
        return await ask(lambda: history.estimates(since_s=begin_s, bucket_s=bucket_s, app_id=app_id))

    return router
