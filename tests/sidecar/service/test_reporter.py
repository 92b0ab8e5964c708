"""Reports to several proxies: all know the node, the active one's answers count."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.rest_server import serve
from quicksilver.common.messages import Ack, ContainerEvent, EventKind, Report
from quicksilver.common.process.listening import bound_socket
from sidecar.config import SidecarSettings
from sidecar.metrics import SidecarMetrics
from sidecar.service import reporter as reporter_module
from sidecar.service.report_line import ReportLine, RestLine
from sidecar.service.reporter import Reporter
from tests.sidecar.fakes import FakeProxy


def build(events: list[ContainerEvent]) -> Report:
    return Report(node_id="n:1", boot="b", seq=1, sidecar_url="http://n:2", memory_mb=1, vcores=1, events=events)


def ended(seq: int) -> ContainerEvent:
    return ContainerEvent(seq=seq, container_id=f"c{seq}", kind=EventKind.ENDED, at_s=0.0)


@asynccontextmanager
async def serving(*proxies: FakeProxy) -> AsyncIterator[list[str]]:
    sockets = [bound_socket("127.0.0.1", 0) for _ in proxies]
    urls = [f"http://127.0.0.1:{sock.getsockname()[1]}" for sock in sockets]
    tasks = [asyncio.create_task(serve(proxy.app, sock)) for proxy, sock in zip(proxies, sockets, strict=True)]
    try:
        yield urls
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_events_stay_until_the_active_proxy_has_them() -> None:
    first, second = FakeProxy(), FakeProxy()
    acks: list[Ack] = []
    taken: list[int] = []

    async with serving(first, second) as urls:
        settings = SidecarSettings(report_timeout_s=5.0)
        lines = [RestLine(url, settings.report_timeout_s) for url in urls]

        def on_ack(ack: Ack) -> bool:
            acks.append(ack)
            return False

        events: deque[ContainerEvent] = deque()
        reporter = Reporter(lines, settings, SidecarMetrics(), build, on_ack, taken.append, events)
        first.standby = second.standby = True
        reporter.add(ended(1))
        assert await reporter.send()
        assert [e.seq for e in events] == [1]
        assert (acks, taken) == ([], [])
        second.standby = False
        assert await reporter.send()
        assert list(events) == []
        assert (len(acks), taken) == (1, [1])
        second.away = True
        reporter.add(ended(2))
        assert await reporter.send()
        assert reporter.reachable
        assert [e.seq for e in events] == [2]
        first.standby = False
        assert await reporter.send()
        assert [e.seq for e in first.events] == [2]
        first.away = True
        assert not await reporter.send()
        assert reporter.reachable is False
        await reporter.close()


class LateLine(ReportLine):
    """A proxy that takes the second report."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1")
        self.refused = False
        self.taken = asyncio.Event()

    async def post(self, report: Report) -> Ack:
        if not self.refused:
            self.refused = True
            raise QuicksilverError("away")
        self.taken.set()
        return Ack(events_to=-1)

    async def close(self) -> None:
        """Nothing is open."""


async def test_a_proxy_that_was_away_gets_the_next_report_before_the_regular_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reporter_module, "RETRY_S", 0.01)

    line = LateLine()
    reporter = Reporter([line], SidecarSettings(report_s=60.0), SidecarMetrics(), build, lambda ack: False)
    running = asyncio.create_task(reporter.run())
    reporter.changed()
    async with asyncio.timeout(20.0):
        await line.taken.wait()
    assert line.refused
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def started(seq: int) -> ContainerEvent:
    return ContainerEvent(seq=seq, container_id=f"c{seq}", kind=EventKind.STARTED, at_s=0.0)


class Taker(ReportLine):
    """Takes each report, and remembers the events in it."""

    def __init__(self) -> None:
        super().__init__("http://proxy")
        self.reports: asyncio.Queue[list[int]] = asyncio.Queue()

    async def post(self, report: Report) -> Ack:
        seqs = [event.seq for event in report.events]
        self.reports.put_nowait(seqs)
        return Ack(events_to=max(seqs, default=-1))

    async def close(self) -> None:
        pass


@asynccontextmanager
async def reporting(line: Taker) -> AsyncIterator[Reporter]:
    reporter = Reporter([line], SidecarSettings(report_s=60.0), SidecarMetrics(), build, lambda ack: False)
    running = asyncio.create_task(reporter.run())
    try:
        async with asyncio.timeout(20.0):
            yield reporter
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await reporter.close()


async def test_a_start_is_reported_with_the_next_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter_module, "STARTED_S", 3600.0)
    line = Taker()
    async with reporting(line) as reporter:
        reporter.add(started(1))
        reporter.add(started(2))
        await asyncio.sleep(0.1)
        assert line.reports.empty()
        reporter.add(ended(3))
        assert await line.reports.get() == [1, 2, 3]
        reporter.add(started(4))
        reporter.changed()
        assert await line.reports.get() == [4]


async def test_a_start_alone_is_reported_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter_module, "STARTED_S", 0.01)
    line = Taker()
    async with reporting(line) as reporter:
        for seq in (1, 2):
            reporter.add(started(seq))
            assert await line.reports.get() == [seq]
        reporter.add(ended(3))
        reporter.add(started(4))
        assert await line.reports.get() == [3, 4]
        await asyncio.sleep(0.1)
        assert line.reports.empty(), "a start that was reported with an end is not reported again"
