"""JSON for the dashboard's pages, rendered once in a while for all viewers together."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import inspect
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from fastapi import Request, Response

T = TypeVar("T")
_WORTH_PACKING: Final = 1000
LIMIT_S: Final = 60.0
"""No page is older than this, however long it takes to make: a busy moment is soon over."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """One rendering."""

    body: bytes
    packed: bytes
    """By gzip; empty where the body is short."""
    etag: str


def rendered(content: Any) -> Rendered:
    """Render bytes of JSON, or what json.dumps takes."""
    body = content if isinstance(content, bytes) else json.dumps(content, separators=(",", ":")).encode()
    packed = gzip.compress(body, compresslevel=1, mtime=0) if len(body) >= _WORTH_PACKING else b""
    return Rendered(body, packed, f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"')


def answer(request: Request, rendering: Rendered) -> Response:
    """Return 304 if the caller has this rendering already, else the rendering."""
    headers = {"ETag": rendering.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding, Cookie, Authorization"}
    known = request.headers.get("if-none-match", "")
    if rendering.etag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
        return Response(status_code=304, headers=headers)
    body = rendering.body
    if rendering.packed and "gzip" in request.headers.get("accept-encoding", ""):
        body, headers["Content-Encoding"] = rendering.packed, "gzip"
    return Response(body, media_type="application/json", headers=headers)


class Shared(Generic[T]):
    """What `build` returned, for `every_s` seconds; callers that come while it is being made wait for the same one.

    A failure goes to the callers and is not kept.
    share: part of the time that building may take; what took long is kept for longer, up to LIMIT_S. For queries of
    the store.
    """

    def __init__(
        self,
        build: Callable[[], Awaitable[T]],
        every_s: float,
        *,
        share: float = 1.0,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._build, self._every_s, self._share, self._clock_s = build, every_s, share, clock_s
        self._last: tuple[T] | None = None
        self._until_s = 0.0
        self._lock = asyncio.Lock()

    async def get(self) -> T:
        """Return the value of now; it is shared, and not to be changed."""
        if self._last is None or self._clock_s() >= self._until_s:
            async with self._lock:
                if self._last is None or self._clock_s() >= self._until_s:
                    begun_s = self._clock_s()
                    self._last = (await self._build(),)
                    now_s = self._clock_s()
                    self._until_s = now_s + max(self._every_s, min(LIMIT_S, (now_s - begun_s) / self._share))
        return self._last[0]


class PageSnapshot:
    """What `build` returned, rendered; kept as `Shared` keeps it.

    build: runs in the event loop, so it either is quick or a coroutine.
    """

    def __init__(
        self,
        build: Callable[[], Any | Awaitable[Any]],
        every_s: float,
        *,
        share: float = 1.0,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        async def render() -> Rendered:
            content = build()
            return rendered(await content if inspect.isawaitable(content) else content)

        self._shared = Shared(render, every_s, share=share, clock_s=clock_s)

    async def get(self) -> Rendered:
        """Return the rendering of now."""
        return await self._shared.get()

    async def response(self, request: Request) -> Response:
        """Answer a call with it."""
        return answer(request, await self.get())


class ByKey(Generic[T]):
    """One of a kind for each of the last keys, as for each node that somebody looks at; of more the oldest goes."""

    def __init__(self, make: Callable[[Any], T], limit: int = 64) -> None:
        self._make, self._limit = make, limit
        self._known: OrderedDict[Any, T] = OrderedDict()

    def of(self, key: Any) -> T:
        """Return the one of a key."""
        if key not in self._known:
            self._known[key] = self._make(key)
            if len(self._known) > self._limit:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]


class Snapshots(ByKey[PageSnapshot]):
    """A snapshot for each of the last keys."""

    def __init__(
        self, build: Callable[[Any], Any | Awaitable[Any]], every_s: float, *, share: float = 1.0, limit: int = 64
    ) -> None:
        """build: gets the key."""
        super().__init__(lambda key: PageSnapshot(lambda: build(key), every_s, share=share), limit)
