"""How many submissions may wait: each counts once, while it is stored and right after it was."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.tests.server.small_server import settings, simple
from quicksilver_apps.server.callers import Caller
from quicksilver_apps.server.lifecycle.event_stream import EventStream
from quicksilver_apps.server.lifecycle.journal import EventJournal
from quicksilver_apps.server.metrics import AppServerMetrics
from quicksilver_apps.server.models import Submission
from quicksilver_apps.server.records import ServedApplication
from quicksilver_apps.server.store.database import Database
from quicksilver_apps.server.submissions import BusyError, Submissions

CALLER = Caller("lab", "open")


class Slow(EventJournal):
    """Its answers come only once `go_on` is set; what it was asked to store is stored before."""

    go_on: asyncio.Event
    stored: asyncio.Event

    async def receive(self, record: ServedApplication) -> bool:
        answer = await super().receive(record)
        self.stored.set()
        await self.go_on.wait()
        return answer


def submit(submissions: Submissions, number: int) -> asyncio.Task[ServedApplication]:
    return asyncio.create_task(submissions.submit(Submission(description=simple(f"app-{number}")), CALLER))


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Slow]:
    database = Database(f"sqlite:///{tmp_path / 'apps.db'}")
    database.open()
    yield Slow(database, EventStream(1, 2), AppServerMetrics())
    database.close()


@pytest.mark.timeout(60)
def test_what_is_stored_and_not_answered_counts_once(journal: Slow, tmp_path: Path) -> None:
    async def run() -> None:
        journal.go_on = asyncio.Event()
        submissions = Submissions(journal, settings(tmp_path, max_waiting=3), lambda: None)
        tasks = []
        for number in range(3):
            journal.stored = asyncio.Event()
            tasks.append(submit(submissions, number))
            stored = asyncio.create_task(journal.stored.wait())
            await asyncio.wait([stored, tasks[-1]], return_when=asyncio.FIRST_COMPLETED)
            assert stored.done(), tasks[-1]
        with pytest.raises(BusyError, match="3 applications wait already"):
            await submit(submissions, 3)
        journal.go_on.set()
        assert [record.name for record in await asyncio.gather(*tasks)] == ["app-0", "app-1", "app-2"]

    asyncio.run(run())


@pytest.mark.timeout(60)
def test_of_many_at_once_as_many_are_stored_as_may_wait(journal: Slow, tmp_path: Path) -> None:
    async def run() -> list[ServedApplication | BaseException]:
        journal.go_on = journal.stored = asyncio.Event()
        journal.go_on.set()
        submissions = Submissions(journal, settings(tmp_path, max_waiting=3), lambda: None)
        return await asyncio.gather(*(submit(submissions, number) for number in range(20)), return_exceptions=True)

    answers = asyncio.run(run())
    assert [type(answer) for answer in answers].count(ServedApplication) == 3, answers
    assert all(isinstance(answer, ServedApplication | BusyError) for answer in answers), answers
