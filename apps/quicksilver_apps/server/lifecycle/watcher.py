"""Applications at YARN: their states are read there, their services at their masters, and kills are carried out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from quicksilver.common.http.rest_errors import ApiError, RefusedError
from quicksilver.common.process.logs import get_logger
from quicksilver_apps.server.backend import Backend, BackendUnavailableError, MasterAddress, YarnReport
from quicksilver_apps.server.config import AppServerSettings
from quicksilver_apps.server.lifecycle.journal import EventJournal
from quicksilver_apps.server.lifecycle.one_by_one import OneByOne
from quicksilver_apps.server.lifecycle.yarn_states import after_report, after_view, spans_of
from quicksilver_apps.server.records import ServedApplication
from quicksilver_apps.server.states import AT_YARN, ENDED, State
from quicksilver_apps.server.store import applications, instances
from quicksilver_apps.server.store.database import DatabaseUnavailableError

log = get_logger(__name__)
_PRUNE_S: Final = 600.0
_CLEAN_S: Final = 30.0
_FRESH_S: Final = 0.5
"""An answer of a master that is not older serves all who ask."""


class StateWatcher:
    """Watches all applications that YARN has; `wake` after a kill was ordered."""

    def __init__(
        self, journal: EventJournal, backend: Backend, settings: AppServerSettings, on_end: Callable[[], None]
    ) -> None:
        """on_end: called after an application ended."""
        self._journal, self._backend, self._settings, self._on_end = journal, backend, settings, on_end
        self._woken = asyncio.Event()
        self._missing_since_s: dict[str, float] = {}
        self._views: dict[str, tuple[dict[str, Any], float]] = {}
        self._asked_s = 0.0
        self._gate = asyncio.Semaphore(settings.masters)
        self._each = OneByOne(journal.metrics)
        self.problem = ""
        """Why states are not known now; "" when all is well."""
        self.last_pass_s = 0.0
        """When all states were read last (monotonic)."""

    def wake(self, app_id: str = "") -> None:
        """Have a pass begin now, in which the master of an application is asked anew."""
        self._views.pop(app_id, None)
        self._asked_s = 0.0
        self._woken.set()

    async def run(self) -> None:
        """Watch until this is cancelled."""
        pruned_s = 0.0
        while True:
            self._woken.clear()
            try:
                await self.look()
                self.problem, self.last_pass_s = "", time.monotonic()
                if time.monotonic() - pruned_s > _PRUNE_S:
                    await self.prune()
                    pruned_s = time.monotonic()
            except (BackendUnavailableError, DatabaseUnavailableError) as error:
                self._journal.metrics.failures.labels("states").inc()
                if str(error) != self.problem:
                    log.warning("the states of applications cannot be read now", why=str(error))
                self.problem = str(error)
            try:
                async with asyncio.timeout(self._settings.poll_s):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def look(self) -> None:
        """Read the states of all applications at YARN once, and ask the masters.

        Raises BackendUnavailableError, StoreUnavailableError.
        """
        database = self._journal.database
        records = await database.read(lambda connection: applications.in_states(connection, AT_YARN))
        self._journal.metrics.set_counts(await database.read(applications.counts))
        known = {record.id for record in records}
        for gone in (self._missing_since_s.keys() | self._views.keys()) - known:
            self._missing_since_s.pop(gone, None)
            self._views.pop(gone, None)
        if not records:
            return
        reports = await self._backend.reports([record.yarn_id for record in records])
        self._each.begin()
        for record in records:
            await self._each.do(record, self._follow, record, reports.get(record.yarn_id))
        current = await database.read(lambda connection: applications.in_states(connection, AT_YARN))
        if time.monotonic() - self._asked_s >= self._settings.master_poll_s:
            self._asked_s = time.monotonic()
            reachable = [record for record in current if record.master_url]
            await asyncio.gather(*(self._each.do(record, self._refresh, record) for record in reachable))
        killed = [record for record in current if record.kill_s is not None]
        await asyncio.gather(*(self._each.do(record, self._kill, record) for record in killed))

    async def view(self, record: ServedApplication) -> tuple[dict[str, Any], bool]:
        """Return what the master of an application says, and whether it says so now.

        Where it does not answer, what it said last. Raises StoreUnavailableError.
        """
        if record.state in AT_YARN and record.master_url:
            view = await self._refresh(record)
            if view is not None:
                return view, True
        return record.view, False

    async def prune(self) -> None:
        """Delete applications that ended long ago."""
        before_s = self._journal.clock_s() - self._settings.keep_days * 86400
        while await self._journal.database.write(lambda connection: applications.prune(connection, before_s)):
            continue

    async def _follow(self, record: ServedApplication, report: YarnReport | None) -> None:
        now_s = time.monotonic()
        if report is None:
            since_s = self._missing_since_s.setdefault(record.id, now_s)
            if now_s - since_s >= self._settings.lost_after_s:
                await self._end(record, State.LOST, "YARN does not know it any more", {})
            return
        self._missing_since_s.pop(record.id, None)
        fields: dict[str, Any] = {}
        if report.master_url != record.master_url:
            fields["master_url"] = report.master_url
        if report.tracking_url and report.tracking_url != record.tracking_url:
            fields["tracking_url"] = report.tracking_url
        following = after_report(record, report)
        if following is None:
            if fields:
                await self._journal.note(record, **fields)
            return
        state, why = following
        if state is State.STARTING and record.started_s is None:
            fields["started_s"] = self._journal.clock_s()
        if state in ENDED:
            ended_s = report.ended_s or self._journal.clock_s()
            await self._end(record, state, why, fields | {"ended_s": ended_s, "diagnostics": report.diagnostics[:4000]})
        else:
            await self._journal.move(record, state, why, **fields)

    async def _end(self, record: ServedApplication, state: State, why: str, fields: Mapping[str, Any]) -> None:
        if await self._journal.move(record, state, why, **fields):
            self._on_end()
            await self._clean(record)

    async def _clean(self, record: ServedApplication) -> None:
        """Delete uploaded files; what cannot be deleted now stays, and the log says where."""
        try:
            async with asyncio.timeout(_CLEAN_S):
                await self._backend.clean(record.yarn_id, record.user)
        except (BackendUnavailableError, TimeoutError) as error:
            self._journal.metrics.failures.labels("clean").inc()
            log.warning("uploaded files stay", application=record.yarn_id, user=record.user, why=str(error))

    async def _refresh(self, record: ServedApplication) -> dict[str, Any] | None:
        """Ask a master; store what changed. Returns its answer, None without one."""
        before, at_s = self._views.get(record.id, ({}, 0.0))
        if time.monotonic() - at_s < _FRESH_S:
            return before
        async with self._gate:
            try:
                async with asyncio.timeout(self._settings.master_timeout_s):
                    view = await self._backend.view(MasterAddress(record.yarn_id, record.master_url, record.key))
            except (BackendUnavailableError, ApiError, TimeoutError) as error:
                self._journal.metrics.failures.labels("master").inc()
                if isinstance(error.__cause__, RefusedError):
                    self._each.say(record, str(error)[:500])
                return None
        self._views[record.id] = (view, time.monotonic())
        if view != before:
            await self._store(record, view)
        return view

    async def _store(self, record: ServedApplication, view: dict[str, Any]) -> None:
        extract = {name: value for name, value in view.items() if name != "events"} | {
            "events": view.get("events", [])[-50:]
        }
        now_s, limit = self._journal.clock_s(), self._settings.max_instances

        def work(connection: Any) -> None:
            known = {span.container_id: span for span in instances.of(connection, record.id)}
            instances.save(connection, spans_of(record.id, view, known, now_s)[:limit], limit)
            applications.note(connection, record.id, view=extract)

        await self._journal.database.write(work)
        following = after_view(record.state, view)
        if following is not None:
            await self._journal.move(record, *following)

    async def _kill(self, record: ServedApplication) -> None:
        """Have the master end it in order; after a time, or without a master, have YARN kill it."""
        assert record.kill_s is not None
        try:
            async with asyncio.timeout(self._settings.master_timeout_s):
                if record.master_url and self._journal.clock_s() - record.kill_s < self._settings.kill_grace_s:
                    master = MasterAddress(record.yarn_id, record.master_url, record.key)
                    await self._backend.stop(master, record.kill_why)
                else:
                    await self._backend.kill(record.yarn_id, record.user, record.kill_why)
        except (BackendUnavailableError, ApiError, TimeoutError) as error:
            self._journal.metrics.failures.labels("kill").inc()
            log.info("a kill is tried again", application=record.yarn_id, why=str(error))
