"""The stream of changes: server-sent events, which a client continues where it stopped."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Header, Query
from fastapi.responses import StreamingResponse

from quicksilver.common.http.rest_errors import ApiError
from quicksilver_apps.server.api.application_routes import ApplicationParts
from quicksilver_apps.server.callers import Caller
from quicksilver_apps.server.models import StateChangeInfo
from quicksilver_apps.server.records import StateChange
from quicksilver_apps.server.store import applications

KEEP_ALIVE_S: Final = 15.0
_BATCH: Final = 500
MAX_EVENT: Final = 10**15 - 1
"""Of the number of an event, which is its id."""
_NUMBER: Final = re.compile(r"[0-9]{1,15}")
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}


def event_routes(parts: ApplicationParts) -> APIRouter:
    """Return the route of the stream."""
    router = APIRouter(tags=["events"])
    caller_of = Depends(parts.caller)

    @router.get("/events", summary="Changes of state as they happen", response_class=StreamingResponse)
    async def events(
        caller: Caller = caller_of,
        app: Annotated[str, Query(max_length=100, description="Only of this application.")] = "",
        after: Annotated[int | None, Query(ge=0, le=MAX_EVENT, description="Begin behind this number.")] = None,
        last_event_id: Annotated[str, Header(max_length=30)] = "",
    ) -> StreamingResponse:
        """Each event has its number as id; `Last-Event-ID`, or `after`, continues behind one. See EventSource."""

        def wants(change: StateChange) -> bool:
            return caller.may_see(change.user) and app in ("", change.app_id)

        if parts.journal.stream.is_full:
            raise ApiError(429, "too-many-clients", "too many clients listen already; try again later")
        start = int(last_event_id) if _NUMBER.fullmatch(last_event_id) else after
        return StreamingResponse(_lines(parts, wants, start), media_type="text/event-stream", headers=_HEADERS)

    return router


async def _lines(
    parts: ApplicationParts, wants: Callable[[StateChange], bool], after: int | None
) -> AsyncIterator[bytes]:
    """Yield what happened after a number, then what happens; ends when the client reads too slowly.

    It listens from the first line on: an answer that never begins, since its client has gone, holds no place.
    """
    listener = parts.journal.stream.listen(wants)
    if listener is None:
        return
    try:
        read = parts.journal.database.read
        last = await read(applications.last_change) if after is None else after
        yield b": quicksilver\nretry: 2000\n\n"
        while after is not None:
            number = last
            batch = await read(lambda connection: applications.changes_after(connection, number, _BATCH))  # noqa: B023
            for change in batch:
                last = change.seq
                if listener.wants(change):
                    yield _event(change)
            if len(batch) < _BATCH:
                break
        while not listener.late or not listener.queue.empty():
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    change = await listener.queue.get()
            except TimeoutError:
                yield b": alive\n\n"
                continue
            if change.seq > last:
                last = change.seq
                yield _event(change)
    finally:
        parts.journal.stream.leave(listener)


def _event(change: StateChange) -> bytes:
    data = json.dumps(StateChangeInfo.of(change).model_dump(mode="json"), separators=(",", ":"))
    return f"id: {change.seq}\nevent: change\ndata: {data}\n\n".encode()
