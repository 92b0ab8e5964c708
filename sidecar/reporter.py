"""Reports to the proxy: each second and on change; events stay until the proxy acknowledged them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import quote

from pydantic import ValidationError

from shell.errors import QuicksilverError
from shell.logs import get_logger
from shell.messages import Ack, ContainerEvent, Report
from shell.rest import RefusedError, RestClient
from shell.security import Credentials
from sidecar.config import SidecarSettings
from sidecar.metrics import SidecarMetrics

log = get_logger(__name__)
_EVENTS_PER_REPORT: Final = 1000
_REMIND_S: Final = 60.0


class Reporter:
    """Sends what `build(events)` makes; `on_ack` gets each answer. All of it in one loop, the call in a thread.

    on_taken: gets the number up to which the proxy has the events, when it grew.
    """

    def __init__(
        self,
        proxy_url: str,
        settings: SidecarSettings,
        metrics: SidecarMetrics,
        build: Callable[[list[ContainerEvent]], Report],
        on_ack: Callable[[Ack], None],
        credentials: Credentials | None = None,
        on_taken: Callable[[int], None] = lambda seq: None,
    ) -> None:
        self.settings, self.metrics = settings, metrics
        self.reachable: bool | None = None
        """Whether the proxy took the last report; None before the first."""
        remedy = "start the proxy there, or correct sidecar.proxy_url; scheduling goes on meanwhile"
        self._client = RestClient(
            proxy_url, timeout_s=settings.report_timeout_s, remedy=remedy, credentials=credentials
        )
        self._build, self._on_ack, self._on_taken = build, on_ack, on_taken
        self._events: deque[ContainerEvent] = deque()
        self._dropped = 0
        self._changed = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="report")
        self._warned_s = -_REMIND_S

    def add(self, event: ContainerEvent) -> None:
        """Keep an event and report soon."""
        if len(self._events) >= self.settings.events_max:
            self._events.popleft()
            self.metrics.events_dropped.inc()
            if not self._dropped:
                log.error("the proxy takes no events: the oldest are dropped", kept=self.settings.events_max)
            self._dropped += 1
        self._events.append(event)
        self._changed.set()

    def waiting(self) -> Iterable[ContainerEvent]:
        """Return the events that the proxy has not acknowledged."""
        return self._events

    def changed(self) -> None:
        """Report soon."""
        self._changed.set()

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self.settings.report_s):
                    await self._changed.wait()
                if self.reachable is False:
                    await asyncio.sleep(self.settings.report_s)  # on change at once, but only to who answers
                else:
                    await asyncio.sleep(self.settings.coalesce_s)
            except TimeoutError:
                pass  # nothing changed: the report of each second
            self._changed.clear()
            await self.send()

    async def send(self) -> bool:
        """Send one report; return whether the proxy took it."""
        events = [event for event, _ in zip(self._events, range(_EVENTS_PER_REPORT), strict=False)]
        report = self._build(events)
        path = f"/v1/nodes/{quote(report.node_id, safe=':')}/report"
        loop = asyncio.get_running_loop()
        try:
            ack = Ack.model_validate(await loop.run_in_executor(self._thread, self._client.post, path, report))
        except (QuicksilverError, ValidationError) as error:
            self._failed(error)
            return False
        self._taken(ack)
        return True

    def close(self) -> None:
        """Give the thread and its connections back."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def _taken(self, ack: Ack) -> None:
        self.metrics.reports.labels("taken").inc()
        if self.reachable is not True:
            log.info("the proxy takes our reports", proxy=self._client.base_url, events_dropped=self._dropped)
        self.reachable, self._dropped = True, 0
        before = len(self._events)
        while self._events and self._events[0].seq <= ack.events_to:
            self._events.popleft()
        if len(self._events) < before:
            self._on_taken(ack.events_to)
        if self._events and len(self._events) < before:
            self._changed.set()  # there were more than one report takes
        self._on_ack(ack)

    def _failed(self, error: Exception) -> None:
        self.metrics.reports.labels("refused" if isinstance(error, RefusedError) else "unreachable").inc()
        now_s = asyncio.get_running_loop().time()
        if self.reachable is not False or now_s - self._warned_s >= _REMIND_S:
            log.warning("the proxy did not take a report", why=str(error), events_kept=len(self._events))
            self._warned_s = now_s
        self.reachable = False
