"""Admission: applications are checked, wait for quota, and are submitted to YARN, once each.

The YARN id is stored before the submission, and the submission is repeated with the same id: YARN takes an id once, so
that an application whose submission was cut off at any moment is neither lost nor there twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from quicksilver.common.process.background_tasks import BackgroundTasks
from quicksilver.common.process.logs import get_logger
from quicksilver_apps.server.backend import (
    REQUEST_TAG,
    Backend,
    BackendUnavailableError,
    Largest,
    StartOrder,
    StartRefusedError,
)
from quicksilver_apps.server.config import AppServerSettings, Quota
from quicksilver_apps.server.lifecycle.journal import EventJournal
from quicksilver_apps.server.lifecycle.one_by_one import OneByOne
from quicksilver_apps.server.lifecycle.quota_check import obstacle, sum_of, why_never
from quicksilver_apps.server.records import QuotaSize, ServedApplication
from quicksilver_apps.server.states import WAITING, State
from quicksilver_apps.server.store import applications
from quicksilver_apps.server.store.database import DatabaseUnavailableError

log = get_logger(__name__)
_LARGEST_S: Final = 60.0
"""How long the size of the largest container is believed."""
_IDLE_S: Final = 1.0
_BETWEEN_S: Final = 0.05
"""Between two passes, each of which reads all that wait."""
_TOGETHER: Final = 50
"""Applications that are checked at a time."""
_PAUSE_S: Final = 1.0
"""Pause of a submission that YARN did not answer; doubled each time, up to 30 s."""
_Used = dict[str, tuple[int, QuotaSize]]


class QueueAdmission:
    """Checks and submits; `wake` after a submission was received, and after an application ended."""

    def __init__(self, journal: EventJournal, backend: Backend, settings: AppServerSettings) -> None:
        self._journal, self._backend, self._settings = journal, backend, settings
        self._woken = asyncio.Event()
        self._tasks = BackgroundTasks("a submission broke off")
        self._each = OneByOne(journal.metrics)
        self._busy: set[str] = set()
        self._not_before_s: dict[str, float] = {}
        self._largest: tuple[Largest, float] | None = None
        self.problem = ""
        """Why nothing is admitted now; "" when all is well."""

    def wake(self) -> None:
        """Have a pass begin now."""
        self._woken.set()

    async def run(self) -> None:
        """Admit until this is cancelled."""
        try:
            while True:
                self._woken.clear()
                try:
                    await self.recover()
                    await self.admit()
                    self.problem = ""
                except (BackendUnavailableError, DatabaseUnavailableError) as error:
                    self._say(str(error))
                await asyncio.sleep(_BETWEEN_S)
                try:
                    async with asyncio.timeout(_IDLE_S):
                        await self._woken.wait()
                except TimeoutError:
                    continue
        finally:
            await self._tasks.cancel()

    async def admit(self) -> None:
        """Check what was received; begin as many submissions as quotas and `submissions` allow.

        Raises BackendUnavailableError, StoreUnavailableError.
        """
        database = self._journal.database
        waiting = await database.read(lambda connection: applications.in_states(connection, WAITING))
        if not waiting:
            return
        largest = await self._largest_container()
        used: _Used = await database.read(applications.used)
        for record in waiting:  # those whose submission begins now count, too
            if record.id in self._busy:
                count, size = used.get(record.user, (0, QuotaSize()))
                used[record.user] = (count + 1, sum_of(size, record.size))
        free = [record for record in waiting if record.id not in self._busy]
        self._each.begin()
        for at in range(0, len(free), _TOGETHER):
            checks = (self._each.do(record, self._checked, record, largest) for record in free[at : at + _TOGETHER])
            for current in await asyncio.gather(*checks):
                if current is not None:
                    await self._each.do(current, self._consider, current, used)

    async def recover(self) -> None:
        """Look up each submission whose result is not known, as after a crash; raises as `admit`."""
        read = self._journal.database.read
        unsure = await read(lambda connection: applications.in_states(connection, [State.SUBMITTING]))
        for record in unsure:
            if record.id not in self._busy:
                await self._each.do(record, self._look_up, record, "the submission was cut off")

    async def _largest_container(self) -> Largest:
        now_s = time.monotonic()
        if self._largest is None or now_s - self._largest[1] > _LARGEST_S:
            self._largest = (await self._backend.largest(), now_s)
        return self._largest[0]

    async def _checked(self, record: ServedApplication, largest: Largest) -> ServedApplication | None:
        """Move an application that was received to `checked` or `refused`; returns it as it is then."""
        if record.state is not State.RECEIVED:
            return record
        whole = await self._get(record.id)
        if whole is None:
            return None
        why = why_never(whole.application, whole.size, self._quota(whole), largest)
        if why:
            await self._journal.move(whole, State.REFUSED, why)
            return None
        moved = await self._journal.move(whole, State.CHECKED, "its size fits its quota and the cluster")
        return await self._get(record.id) if moved else None

    async def _consider(self, record: ServedApplication, used: _Used) -> None:
        count, size = used.get(record.user, (0, QuotaSize()))
        over = obstacle(record.size, self._quota(record), count, size)
        if over:
            if record.state is State.CHECKED:
                await self._journal.move(record, State.QUEUED, over)
            elif record.why != over:
                await self._journal.note(record, why=over)
            return
        if len(self._busy) >= self._settings.submissions or self._not_before_s.get(record.id, 0.0) > time.monotonic():
            return
        used[record.user] = (count + 1, sum_of(size, record.size))
        self._busy.add(record.id)
        self._tasks.spawn(self._submit(record))

    def _quota(self, record: ServedApplication) -> Quota:
        return self._settings.quotas.of(record.user, record.role)

    async def _get(self, app_id: str) -> ServedApplication | None:
        return await self._journal.database.read(lambda connection: applications.get(connection, app_id))

    async def _submit(self, record: ServedApplication) -> None:
        try:
            yarn_id = record.yarn_id or await self._backend.new_id()
            fields = {"yarn_id": yarn_id, "tries": record.tries + 1}
            if not await self._journal.move(record, State.SUBMITTING, "there is quota", **fields):
                return
            current = await self._get(record.id)
            if current is not None:
                await self._send(current)
        except (BackendUnavailableError, DatabaseUnavailableError) as error:
            self._say(str(error))
            self._later(record)
        finally:
            self._busy.discard(record.id)
            self.wake()

    async def _send(self, record: ServedApplication) -> None:
        tags = (f"{REQUEST_TAG}{record.id}",)
        order = StartOrder(record.id, record.yarn_id, record.user, record.key, record.application, tags)
        begun_s = time.monotonic()
        try:
            async with asyncio.timeout(self._settings.submit_timeout_s):
                await self._backend.submit(order)
        except StartRefusedError as error:
            await self._journal.move(record, State.FAILED, f"refused: {error}")
            await self._backend.clean(record.yarn_id, record.user)
            return
        except (BackendUnavailableError, TimeoutError) as error:
            self._journal.metrics.failures.labels("submit").inc()
            await self._look_up(record, str(error) or f"no answer within {self._settings.submit_timeout_s:g} s")
            return
        self._journal.metrics.submit_s.observe(time.monotonic() - begun_s)
        self._not_before_s.pop(record.id, None)
        await self._journal.move(record, State.SUBMITTED, "YARN has it", submitted_s=self._journal.clock_s())

    async def _look_up(self, record: ServedApplication, why: str) -> None:
        """Find out what became of a submission whose answer is not known; the same id is used again."""
        reports: Mapping[str, object] = await self._backend.reports([record.yarn_id])
        if record.yarn_id in reports:
            text = "YARN has it; it was found again by its id"
            await self._journal.move(record, State.SUBMITTED, text, submitted_s=self._journal.clock_s())
        elif record.tries >= self._settings.submit_attempts:
            await self._journal.move(record, State.FAILED, f"not submitted in {record.tries} tries: {why}")
        else:
            self._later(record)
            await self._journal.move(record, State.QUEUED, f"to be submitted again: {why}")

    def _later(self, record: ServedApplication) -> None:
        if len(self._not_before_s) > 10_000:
            self._not_before_s.clear()
        self._not_before_s[record.id] = time.monotonic() + min(30.0, _PAUSE_S * 2 ** min(record.tries, 5))

    def _say(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("no application is submitted now", why=problem)
        self.problem = problem
