"""Sends grants and drops to sidecars: bounded, in the event loop, over their connections for reports.

A sidecar without such a connection, or of an earlier version, gets a POST.

Announcements race with the application master's start; a sidecar waits for a late one, so that none of this is on the
path of an answer.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from pydantic import BaseModel

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.messages import Grants
from quicksilver.common.process.logs import get_logger
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.traces import trace_announcement

TRIES: Final = 3
log = get_logger(__name__)


class Sender(Protocol):
    """The way to sidecars without a connection: `quicksilver.common.http.async_client.AsyncRestClient`."""

    async def post(self, url: str, body: BaseModel) -> object:
        """POST a message. Raises QuicksilverError."""

    async def close(self) -> None:
        """Close the connections."""


class GrantAnnouncer:
    """Takes messages for nodes and posts them in tasks, in order per node.

    url_of: returns the URL of a node's sidecar, None while it is unknown.
    by_connection: sends a message over a node's connection; returns False where it has none that takes any.
    failed: called with a node and the message that could not be delivered.
    sender: the way to the sidecars; it is closed with the announcer.
    parallel: messages on their way at once; limit: nodes with a waiting message, beyond which messages are dropped.
    """

    def __init__(
        self,
        metrics: ProxyMetrics,
        url_of: Callable[[str], str | None],
        by_connection: Callable[[str, Grants], Awaitable[bool]],
        failed: Callable[[str, Grants], None],
        sender: Sender,
        *,
        parallel: int,
        limit: int,
    ) -> None:
        self._metrics, self._url_of, self._failed, self._sender = metrics, url_of, failed, sender
        self._by_connection = by_connection
        self._parallel, self._limit = parallel, limit
        self._ready: OrderedDict[str, Grants] = OrderedDict()
        """Waiting messages of nodes to which none is on its way."""
        self._next: dict[str, Grants] = {}
        """Waiting messages of the other nodes."""
        self._posting: dict[str, asyncio.Task[None]] = {}
        self._closed = False

    def send(self, node_id: str, message: Grants) -> None:
        """Queue a message; it is merged with one that waits for the same node."""
        waiting = self._next if node_id in self._posting else self._ready
        known = waiting.get(node_id)
        if known is not None:
            known.grants.extend(message.grants)
            known.drop.extend(message.drop)
            known.drop_reason = message.drop_reason or known.drop_reason
        elif self._closed or len(self._ready) + len(self._next) >= self._limit:
            self._metrics.announcements.labels("dropped").inc()
        else:
            waiting[node_id] = message
            self._go_on()

    async def close(self) -> None:
        """Cut off messages on their way, drop waiting ones, and close all connections."""
        self._closed = True
        self._ready.clear()
        self._next.clear()
        tasks = list(self._posting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._sender.close()

    def _go_on(self) -> None:
        while self._ready and len(self._posting) < self._parallel:
            node_id, message = self._ready.popitem(last=False)
            self._posting[node_id] = asyncio.get_running_loop().create_task(self._post(node_id, message))

    async def _post(self, node_id: str, message: Grants) -> None:
        try:
            await self._try(node_id, message)
        except Exception:
            log.exception("a fault of the proxy while it sent grants to a sidecar", node=node_id)
            self._metrics.announcements.labels("failed").inc()
        finally:
            del self._posting[node_id]
            waits = self._next.pop(node_id, None)
            if waits is not None:
                self._ready[node_id] = waits
            if not self._closed:
                self._go_on()

    async def _try(self, node_id: str, message: Grants) -> None:
        url = (self._url_of(node_id) or "").rstrip("/")
        why, begun_s = "the sidecar has not reported yet", time.time()
        for _ in range(TRIES if url else 0):
            try:
                if not await self._by_connection(node_id, message):
                    await self._sender.post(f"{url}/v1/grants", message)
            except QuicksilverError as error:
                why = str(error)
                if not error.retriable:
                    break
            else:
                self._metrics.announcements.labels("ok").inc()
                trace_announcement(node_id, message.grants, begun_s, time.time())
                return
        self._metrics.announcements.labels("failed").inc()
        trace_announcement(node_id, message.grants, begun_s, time.time(), why)
        log.warning("grants could not be sent to a sidecar", node=node_id, grants=len(message.grants), why=why)
        self._failed(node_id, message)
