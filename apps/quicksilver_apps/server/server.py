"""The app server: its parts, put together, started and closed."""

from __future__ import annotations

import asyncio
import getpass
import signal
import socket
import time
from collections.abc import Mapping
from typing import Final

from fastapi import FastAPI
from pydantic import BaseModel

from quicksilver.common.http.access import protect
from quicksilver.common.http.rest_server import serve
from quicksilver.common.http.security import OPEN, Security
from quicksilver.common.http.servlets.conf import ShownProperty, section_rows
from quicksilver.common.http.servlets.routes import ServletParts, add_servlets
from quicksilver.common.process import fdstore, watchdog
from quicksilver.common.process.limits import raise_open_files
from quicksilver.common.process.listening import bound_socket
from quicksilver.common.process.logs import get_logger
from quicksilver.common.process.version import version
from quicksilver.common.settings.reload import on_hangup
from quicksilver.common.web.access import browsers
from quicksilver_apps.server.api.app import create_app
from quicksilver_apps.server.api.application_routes import ApplicationParts
from quicksilver_apps.server.backend import Backend
from quicksilver_apps.server.callers import AppServerSide, Callers
from quicksilver_apps.server.config import SECTION, AppServerSettings
from quicksilver_apps.server.lifecycle.admission import QueueAdmission
from quicksilver_apps.server.lifecycle.event_stream import EventStream
from quicksilver_apps.server.lifecycle.journal import EventJournal
from quicksilver_apps.server.lifecycle.watcher import StateWatcher
from quicksilver_apps.server.metrics import AppServerMetrics
from quicksilver_apps.server.models import ServerHealth
from quicksilver_apps.server.store.database import Database
from quicksilver_apps.server.submissions import Submissions
from quicksilver_apps.server.ui.pages_of_apps import add_pages

log = get_logger(__name__)
REST_SOCKET: Final = "app-server-rest"
_ALIVE_S: Final = 1.0
"""The name under which the listening socket is kept while the server restarts."""


class AppServer:
    """All parts of one running app server; made inside a running event loop."""

    def __init__(
        self,
        settings: AppServerSettings,
        backend: Backend,
        security: Security = OPEN,
        sections: Mapping[str, BaseModel] | None = None,
        source: str = "",
    ) -> None:
        """Prepare. source: the settings file; sections: further ones of it that are in force, for /conf.

        Raises SettingsError for a store that cannot be.
        """
        self.settings, self.backend, self.security, self._source = settings, backend, security, source
        self._sections = {SECTION: settings, "security": security.settings, **(sections or {})}
        self.metrics = AppServerMetrics()
        self.database = Database(settings.store)
        self.stream = EventStream(settings.event_clients, settings.event_queue)
        self.journal = EventJournal(self.database, self.stream, self.metrics)
        self.admission = QueueAdmission(self.journal, backend, settings)
        self.watcher = StateWatcher(self.journal, backend, settings, self.admission.wake)
        self.submissions = Submissions(self.journal, settings, self.admission.wake)
        self.started_s = time.time()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, rest: socket.socket) -> None:
        """Open the store and begin to serve. Raises StoreUnavailableError."""
        await asyncio.to_thread(self.database.open)
        server = serve(self.app(), rest, max_connections=self.settings.rest_connections, tls=self.security.server)
        runs = (
            ("rest", server),
            ("admission", self.admission.run()),
            ("watcher", self.watcher.run()),
            ("alive", _report_alive()),
        )
        self._tasks = [asyncio.create_task(run, name=name) for name, run in runs]
        log.info("the app server serves", listen=str(self.settings.rest_listen), store=self.database.name)

    async def ended(self) -> None:
        """Wait until a part ends, which none should, and raise its error."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task

    async def close(self) -> None:
        """Stop all parts; applications go on, and the next process finds them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.backend.close()
        await asyncio.to_thread(self.database.close)

    def app(self) -> FastAPI:
        """Return the application with REST, pages and the check of access."""
        security, settings = self.security, self.settings
        callers = Callers(security, settings.open_user or getpass.getuser())
        parts = ApplicationParts(settings, self.journal, self.submissions, self.watcher, self.backend, callers)
        app = create_app(parts)
        add_servlets(app, self._servlets())
        login = add_pages(app, security, settings.ui_base_path)
        side = AppServerSide(False, security.settings.tls, metrics_open=security.settings.metrics_open)
        count = self.metrics.auth_failures
        hosts = [settings.rest_listen.host]
        failures = protect(app, security, side, lambda reason: count.labels(reason).inc(), browsers(), hosts)
        login.refused = failures.refused
        return app

    def health(self) -> ServerHealth:
        """Return whether all is well, and what is not."""
        problems = [problem for problem in (self.admission.problem, self.watcher.problem) if problem]
        return ServerHealth(
            status="degraded" if problems else "ok",
            version=version(),
            started_s=self.started_s,
            store=self.database.name,
            applications=self.metrics.counts,
            problems=list(dict.fromkeys(problems)),
        )

    def not_ready(self) -> list[str]:
        """Return why it does not do its work; nothing when it does."""
        if not self.watcher.last_pass_s and not self.watcher.problem:
            return ["the states of applications are not read yet"]
        return self.health().problems

    async def reload(self, who: str, how: str) -> None:
        """Read tokens and certificates anew, as SIGHUP asks for."""
        self.security.reload()
        log.info("tokens and certificates are read anew", who=who, how=how)

    def _servlets(self) -> ServletParts:
        return ServletParts(
            service="QuicksilverAppServer",
            registry=self.metrics.registry,
            set_gauges=lambda: self.metrics.listeners.set(len(self.stream)),
            properties=self._properties,
            health=self.health,
            not_ready=self.not_ready,
        )

    def _properties(self) -> list[ShownProperty]:
        rows = [row for name, section in self._sections.items() for row in section_rows(name, section, self._source)]
        return sorted(rows, key=lambda row: row.name)


async def _report_alive() -> None:
    while True:
        watchdog.alive()
        await asyncio.sleep(_ALIVE_S)


async def run(server: AppServer) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises QuicksilverError when the address cannot be bound, or the store cannot be opened.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):  # SIGUSR2: for another process to take over
        loop.add_signal_handler(number, stop.set)
    server.security.allow(server.settings.rest_listen, f"{SECTION}.rest_listen")
    raise_open_files(server.settings.rest_connections, f"{SECTION}.rest_connections")
    on_hangup(loop, server.reload)
    await server.start(bound_socket(*server.settings.rest_listen, name=REST_SOCKET))
    fdstore.ready()
    stopping, failing = asyncio.create_task(stop.wait()), asyncio.create_task(server.ended())
    try:
        await asyncio.wait([stopping, failing], return_when=asyncio.FIRST_COMPLETED)
        if failing.done():
            await failing
    finally:
        stopping.cancel()
        failing.cancel()
        await server.close()
