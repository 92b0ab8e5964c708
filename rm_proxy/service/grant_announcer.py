"""Sends grants and drops to sidecars: bounded, in the event loop, over their connections for reports.

A sidecar without such a connection, or of an earlier version, gets a POST.

Announcements race with the application master's start; a sidecar waits for a late one, so that none of this is on the
path of an answer.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
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


Answer = Callable[[QuicksilverError | None], None]
"""Called once with the outcome of a message: None when the sidecar has it."""


class GrantAnnouncer:
    """Takes messages for nodes and sends them at once, or posts them in tasks; in order per node, one at a time.

    url_of: returns the URL of a node's sidecar, None while it is unknown.
    by_connection: sends a message over a node's connection; returns False where it has none that takes any. Raises
    QuicksilverError.
    failed: called with a node and the message that could not be delivered.
    sender: the way to the sidecars; it is closed with the announcer.
    parallel: posts on their way at once; limit: nodes with a waiting message, beyond which messages are dropped.
    """

    def __init__(
        self,
        metrics: ProxyMetrics,
        url_of: Callable[[str], str | None],
        by_connection: Callable[[str, Grants, Answer], bool],
        failed: Callable[[str, Grants], None],
        sender: Sender,
        *,
        parallel: int,
        limit: int,
    ) -> None:
        self._metrics, self._url_of, self._failed, self._sender = metrics, url_of, failed, sender
        self._by_connection = by_connection
        self._parallel, self._limit = parallel, limit
        self._delivered = metrics.announcements.labels("ok")
        self._ready: OrderedDict[str, Grants] = OrderedDict()
        """Waiting messages of nodes to which none is on its way."""
        self._next: dict[str, Grants] = {}
        """Waiting messages of the other nodes."""
        self._posting: dict[str, asyncio.Task[None]] = {}
        self._sent: set[str] = set()
        """Nodes with a message on their connection that is not answered."""
        self._closed = False

    def send(self, node_id: str, message: Grants) -> None:
        """Send a message, or queue it; it is merged with one that waits for the same node."""
        busy = node_id in self._sent or node_id in self._posting
        waiting = self._next if busy else self._ready
        known = waiting.get(node_id)
        if known is not None:
            known.grants.extend(message.grants)
            known.known.extend(message.known)
            known.drop.extend(message.drop)
            known.drop_reason = message.drop_reason or known.drop_reason
        elif not (busy or self._closed) and self._goes_by_connection(node_id, message):
            return  # as nearly always
        elif self._closed or len(self._ready) + len(self._next) >= self._limit:
            self._metrics.announcements.labels("dropped").inc()
            self._failed(node_id, message)
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

    def _goes_by_connection(self, node_id: str, message: Grants) -> bool:
        """Send a message over a node's connection without a task; return False where that cannot be done."""
        if not self._url_of(node_id):
            return False  # it has not reported yet
        self._sent.add(node_id)
        try:
            on_its_way = self._by_connection(node_id, message, partial(self._answered, node_id, message, time.time()))
        except QuicksilverError:  # a task tries again, and reports it
            on_its_way = False
        if not on_its_way:
            self._sent.discard(node_id)
        return on_its_way

    def _answered(self, node_id: str, message: Grants, begun_s: float, error: QuicksilverError | None) -> None:
        self._sent.discard(node_id)
        if error is None:
            self._delivered.inc()
            trace_announcement(node_id, message.grants, begun_s, time.time())
            if node_id in self._next:
                self._continue(node_id)
        elif not self._closed:
            self._post_in_task(node_id, message, TRIES - 1, str(error))

    def _continue(self, node_id: str) -> None:
        """Send what waited for a node while another message was on its way."""
        waits = self._next.pop(node_id, None)
        if waits is not None and (self._closed or not self._goes_by_connection(node_id, waits)):
            self._ready[node_id] = waits
        if not self._closed:
            self._go_on()

    def _go_on(self) -> None:
        while self._ready and len(self._posting) < self._parallel:
            self._post_in_task(*self._ready.popitem(last=False))

    def _post_in_task(
        self, node_id: str, message: Grants, tries: int = TRIES, why: str = "the sidecar has not reported yet"
    ) -> None:
        post = self._post(node_id, message, tries, why)
        self._posting[node_id] = asyncio.get_running_loop().create_task(post)

    async def _post(self, node_id: str, message: Grants, tries: int, why: str) -> None:
        try:
            await self._try(node_id, message, tries, why)
        except Exception:
            log.exception("a fault of the proxy while it sent grants to a sidecar", node=node_id)
            self._metrics.announcements.labels("failed").inc()
        finally:
            del self._posting[node_id]
            self._continue(node_id)

    async def _try(self, node_id: str, message: Grants, tries: int, why: str) -> None:
        url, begun_s = (self._url_of(node_id) or "").rstrip("/"), time.time()
        for _ in range(tries if url else 0):
            try:
                if not await self._answer(node_id, message):
                    await self._sender.post(f"{url}/v1/grants", message)
            except QuicksilverError as error:
                why = str(error)
                if not error.retriable:
                    break
            else:
                self._delivered.inc()
                trace_announcement(node_id, message.grants, begun_s, time.time())
                return
        self._metrics.announcements.labels("failed").inc()
        trace_announcement(node_id, message.grants, begun_s, time.time(), why)
        log.warning("grants could not be sent to a sidecar", node=node_id, grants=len(message.grants), why=why)
        self._failed(node_id, message)

    async def _answer(self, node_id: str, message: Grants) -> bool:
        """Wait until a node's connection delivered a message; False where it has none. Raises QuicksilverError."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def answered(error: QuicksilverError | None) -> None:
            if answer.done():
                return  # nobody waits any more
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(error)

        if not self._by_connection(node_id, message, answered):
            return False
        await answer
        return True
