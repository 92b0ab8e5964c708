"""Reports to the proxies: regularly and on change; events are sent until the active proxy acknowledges them.

With high availability each ResourceManager has a proxy, and all get every report: a standby knows the nodes when it
becomes active. Only the active one's answers count, so that it gets every event that the earlier one did not handle.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from pydantic import ValidationError

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.rest_errors import RefusedError
from quicksilver.common.messages import Ack, ContainerEvent, EventKind, Report
from quicksilver.common.process.logs import get_logger
from sidecar.config import SidecarSettings
from sidecar.metrics import SidecarMetrics
from sidecar.service.report_line import REMIND_S, ReportLine

log = get_logger(__name__)
_EVENTS_PER_REPORT: Final = 1000
STARTED_S: Final = 0.2
"""How long a start waits for another event, to be reported with it: nobody waits to hear of it."""
RETRY_S: Final = 1.0
"""Time to the next report where a proxy did not take the last one."""


class Reporter:
    """Sends the reports that `build(events)` returns, in one loop.

    on_ack: gets each answer and notice of the active proxy; returns whether to report again at once. on_taken: gets
    the number up to which the proxy has the events, when it grew. unacknowledged: the events that no proxy has
    acknowledged.
    """

    def __init__(
        self,
        lines: Sequence[ReportLine],
        settings: SidecarSettings,
        metrics: SidecarMetrics,
        build: Callable[[list[ContainerEvent]], Report],
        on_ack: Callable[[Ack], bool],
        on_taken: Callable[[int], None] = lambda seq: None,
        unacknowledged: deque[ContainerEvent] | None = None,
    ) -> None:
        self.settings, self.metrics = settings, metrics
        self._build, self._on_ack, self._on_taken = build, on_ack, on_taken
        self._events = unacknowledged if unacknowledged is not None else deque[ContainerEvent]()
        self._dropped = 0
        self._started: asyncio.TimerHandle | None = None
        """Reports starts that wait."""
        self._lines = list(lines)
        for line in self._lines:
            line.on_notice = partial(self._noticed, line)

    @property
    def reachable(self) -> bool | None:
        """Whether a proxy took the last report; None before the first."""
        known = [line.reachable for line in self._lines if line.reachable is not None]
        return any(known) if known else None

    def add(self, event: ContainerEvent) -> None:
        """Store an event and report soon."""
        if len(self._events) >= self.settings.events_max:
            self._events.popleft()
            self.metrics.events_dropped.inc()
            if not self._dropped:
                log.error("the proxy takes no events: the oldest are dropped", kept=self.settings.events_max)
            self._dropped += 1
        self._events.append(event)
        if event.kind is not EventKind.STARTED:
            self.changed()
        elif self._started is None and not all(line.changed.is_set() for line in self._lines):
            self._started = asyncio.get_running_loop().call_later(STARTED_S, self.changed)

    def changed(self) -> None:
        """Report soon."""
        if self._started is not None:
            self._started.cancel()
            self._started = None
        for line in self._lines:
            line.changed.set()

    async def run(self) -> None:
        """Report until cancelled."""
        async with asyncio.TaskGroup() as group:
            for line in self._lines:
                group.create_task(self._run(line), name=f"reports to {line.url}")

    async def _run(self, line: ReportLine) -> None:
        while True:
            every_s = self.settings.report_s
            if line.reachable is False:
                every_s = min(every_s, RETRY_S)
            try:
                async with asyncio.timeout(every_s):
                    await line.changed.wait()
                if line.reachable is False or line.active is False:
                    await asyncio.sleep(every_s)  # on change at once, but only to the active proxy
                else:
                    await asyncio.sleep(self.settings.coalesce_s)
            except TimeoutError:
                pass  # nothing changed: the regular report
            line.changed.clear()
            await self._send(line)

    async def send(self) -> bool:
        """Send one report to each proxy; return whether one took it."""
        return any(await asyncio.gather(*(self._send(line) for line in self._lines)))

    async def _send(self, line: ReportLine) -> bool:
        events = [event for event, _ in zip(self._events, range(_EVENTS_PER_REPORT), strict=False)]
        try:
            ack = await line.post(self._build(events))
        except (QuicksilverError, ValidationError) as error:
            self._failed(line, error)
            return False
        self._taken(line, ack, events[-1].seq if events else -1)
        return True

    async def close(self) -> None:
        """Close the connections."""
        if self._started is not None:
            self._started.cancel()
        for line in self._lines:
            await line.close()

    def _taken(self, line: ReportLine, ack: Ack, sent: int) -> None:
        self.metrics.reports.labels("taken").inc()
        if line.reachable is not True or line.active is not ack.active:
            message = "the proxy takes our reports" if ack.active else "the standby proxy takes our reports"
            log.info(message, proxy=line.url, events_dropped=self._dropped)
        line.reachable, line.active = True, ack.active
        if not ack.active:
            return
        self._dropped = 0
        before = len(self._events)
        while self._events and self._events[0].seq <= ack.events_to:
            self._events.popleft()
        if len(self._events) < before:
            self._on_taken(ack.events_to)
            if self._events and self._events[-1].seq > sent:
                line.changed.set()  # there are more than one report takes
        if self._on_ack(ack):
            self.changed()

    def _noticed(self, line: ReportLine, ack: Ack) -> None:
        """Follow orders that came without a report; only the active proxy's count."""
        if line.active and self._on_ack(ack):
            self.changed()

    def _failed(self, line: ReportLine, error: Exception) -> None:
        self.metrics.reports.labels("refused" if isinstance(error, RefusedError) else "unreachable").inc()
        now_s = asyncio.get_running_loop().time()
        if line.reachable is not False or now_s - line.warned_s >= REMIND_S:
            log.warning("the proxy did not take a report", why=str(error), events_kept=len(self._events))
            line.warned_s = now_s
        line.reachable = False
