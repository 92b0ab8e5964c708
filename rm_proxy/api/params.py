"""Shared parts of the REST API's routes: parameters, and queries of the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import Path, Query
from starlette.concurrency import run_in_threadpool

from quicksilver.common.http.rest_errors import ApiError
from rm_proxy.store.writer import StoreUnavailableError

R = TypeVar("R")
Limit = Annotated[int, Query(ge=1, le=1000, description="Items of the answer at most.")]
Offset = Annotated[int, Query(ge=0, le=10_000_000, description="Items to skip.")]
AppId = Annotated[str, Path(max_length=100, description="An application id, e.g. application_1700000000000_0001.")]
QueueName = Annotated[str, Path(max_length=500, description="A YARN queue: its full path, e.g. root.batch.")]
NodeId = Annotated[str, Path(max_length=300, description="A node id as YARN writes it: host:port.")]
ContainerId = Annotated[str, Path(max_length=100, description="A container id.")]
OfApp = Annotated[str | None, Query(max_length=100, description="Only of this application.")]
OfNode = Annotated[str | None, Query(max_length=300, description="Only of this node.")]
OfContainer = Annotated[str | None, Query(max_length=100, description="Only of this container.")]
Since = Annotated[float, Query(description="From this time on, Unix seconds.")]
Until = Annotated[float | None, Query(description="Before this time, Unix seconds.")]


async def ask(query: Callable[[], R]) -> R:
    """Run a query of the store in a thread. Raises ApiError when the store is out."""
    try:
        return await run_in_threadpool(query)
    except StoreUnavailableError as error:
        raise ApiError(503, "store-unavailable", str(error)) from error
