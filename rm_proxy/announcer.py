"""Sends grants and drops to sidecars: a bounded queue per proxy, a few threads, one kept connection per node.

Announcements race with the application master's start; a sidecar waits for a late one, so that none of this is on the
path of an answer.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from rm_proxy.metrics import ProxyMetrics
from shell.errors import QuicksilverError
from shell.logs import get_logger
from shell.messages import Grants
from shell.rest import RestClient
from shell.security import Credentials

TRIES: Final = 3
log = get_logger(__name__)


class Announcer:
    """Takes messages for nodes from one thread and posts them from others, in order per node.

    url_of: where a node's sidecar listens, None while it is not known.
    failed: called (from a worker) with a node and the message that could not be delivered.
    """

    def __init__(
        self,
        metrics: ProxyMetrics,
        url_of: Callable[[str], str | None],
        failed: Callable[[str, Grants], None],
        *,
        workers: int = 8,
        timeout_s: float = 1.0,
        limit: int = 10_000,
        credentials: Credentials | None = None,
    ) -> None:
        self._metrics, self._url_of, self._failed = metrics, url_of, failed
        self._timeout_s, self._limit, self._credentials = timeout_s, limit, credentials
        self._waiting: OrderedDict[str, Grants] = OrderedDict()
        self._busy: set[str] = set()
        self._clients: dict[str, RestClient] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._work, name=f"announcer-{n}", daemon=True) for n in range(workers)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def send(self, node_id: str, message: Grants) -> None:
        """Queue a message; what waits for the same node is sent together with it."""
        with self._changed:
            waiting = self._waiting.get(node_id)
            if waiting is None and len(self._waiting) >= self._limit:
                self._metrics.announcements.labels("dropped").inc()
                return
            if waiting is not None:
                waiting.grants.extend(message.grants)
                waiting.drop.extend(message.drop)
                waiting.drop_reason = message.drop_reason or waiting.drop_reason
            else:
                self._waiting[node_id] = message
            self._changed.notify()

    def close(self, timeout_s: float = 2.0) -> None:
        """End the threads; messages that still wait are dropped."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout_s)

    def _work(self) -> None:
        while True:
            with self._changed:
                node_id = next((n for n in self._waiting if n not in self._busy), None)
                if self._stopping:
                    return
                if node_id is None:
                    self._changed.wait()
                    continue
                message = self._waiting.pop(node_id)
                self._busy.add(node_id)
            try:
                self._post(node_id, message)
            finally:
                with self._changed:
                    self._busy.discard(node_id)
                    self._changed.notify()

    def _post(self, node_id: str, message: Grants) -> None:
        url = self._url_of(node_id)
        why = "the sidecar has not reported yet"
        for _ in range(TRIES if url else 0):
            try:
                self._client(node_id, url or "").post("/v1/grants", message)
            except QuicksilverError as error:
                why = str(error)
            else:
                self._metrics.announcements.labels("ok").inc()
                return
        self._metrics.announcements.labels("failed").inc()
        log.warning("a sidecar could not be told of grants", node=node_id, grants=len(message.grants), why=why)
        self._failed(node_id, message)

    def _client(self, node_id: str, url: str) -> RestClient:
        client = self._clients.get(node_id)
        if client is None or client.base_url != url:
            if client is not None:
                client.close()
            client = RestClient(url, timeout_s=self._timeout_s, pool=1, credentials=self._credentials)
            self._clients[node_id] = client
        return client
