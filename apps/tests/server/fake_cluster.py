"""A cluster without YARN: takes submissions as YARN does, an id once, and runs masters that answer at once."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from quicksilver.common.http.rest_errors import ApiError
from quicksilver_apps.server.backend import (
    REQUEST_TAG,
    BackendUnavailableError,
    Largest,
    LogPart,
    LogSource,
    MasterAddress,
    StartOrder,
    StartRefusedError,
    YarnReport,
    YarnState,
)


@dataclass
class FakeApp:
    order: StartOrder
    report: YarnReport
    submissions: int = 1
    elastic: dict[str, int] = field(default_factory=dict)
    """Wanted of each service."""
    ready: bool = True
    restarts: int = 0
    since_s: float = field(default_factory=time.time)

    def view(self) -> dict[str, Any]:
        services = []
        for each in self.order.application.services:
            wanted = each.core + self.elastic.get(each.name, each.elastic)
            ready = wanted if self.ready else 0
            services.append(
                {
                    "name": each.name,
                    "core": each.core,
                    "elastic": each.elastic,
                    "wanted": wanted,
                    "running": wanted,
                    "ready": ready,
                    "state": "ready" if self.ready else "starting",
                    "instances": [self._instance(each, number) for number in range(wanted)],
                }
            )
        return {
            "application_id": self.report.yarn_id,
            "name": self.order.application.name,
            "class": self.order.application.app_class.value,
            "state": "running",
            "final": "",
            "diagnostics": "",
            "started_s": self.since_s,
            "services": services,
            "events": [{"at_s": self.since_s, "service": "", "index": None, "text": "registered"}],
        }

    def _instance(self, service: Any, number: int) -> dict[str, Any]:
        host = f"n{number % 3 + 1}.example.org"
        place = [each.name for each in self.order.application.services].index(service.name)
        suffix = f"{place + 1}{number:05d}"
        return {
            "index": number,
            "container_id": f"container_{self.report.yarn_id.removeprefix('application_')}_01_{suffix}",
            "node": f"{host}:8041",
            "kind": "core" if number < service.core else "elastic",
            "state": "ready" if self.ready else "starting",
            "exit_status": None,
            "restarts": self.restarts,
            "ports": {port.name: 8000 + number for port in service.ports},
            "links": {port.name: f"http://{host}:{8000 + number}/" for port in service.ports if port.link},
            "log_url": f"http://{host}:8042/node/containerlogs/x",
            "since_s": self.since_s,
            "diagnostics": "",
        }


class FakeCluster:
    """The backend; tests change its fields while it is used."""

    def __init__(self) -> None:
        self.apps: dict[str, FakeApp] = {}
        self.away = False
        """Whether nothing answers."""
        self.refuses = ""
        """The reason with which YARN refuses all submissions."""
        self.lose_answers = 0
        """So many submissions arrive at YARN and are not answered."""
        self.swallow = 0
        """So many submissions do not arrive."""
        self.delay_s = 0.0
        self.obedient = True
        """Whether masters end when they are asked to."""
        self.masters_away = False
        self.kills: list[tuple[str, str]] = []
        self.keys: list[str] = []
        self.cleaned: list[str] = []
        self.size = Largest(8192, 4)
        self.most_at_once = 0
        self._now = 0
        self._ids = itertools.count(1)

    def _check(self) -> None:
        if self.away:
            raise BackendUnavailableError("no ResourceManager answers", place="rm:8032", remedy="start it")

    async def largest(self) -> Largest:
        self._check()
        return self.size

    async def new_id(self) -> str:
        self._check()
        return f"application_1700000000000_{next(self._ids):04d}"

    async def submit(self, order: StartOrder) -> None:
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            await asyncio.sleep(self.delay_s)
            self._check()
            if self.refuses:
                raise StartRefusedError(self.refuses)
            if self.swallow:
                self.swallow -= 1
                raise BackendUnavailableError("the connection broke")
            self._take(order)
            if self.lose_answers:
                self.lose_answers -= 1
                raise BackendUnavailableError("the connection broke")
        finally:
            self._now -= 1

    def _take(self, order: StartOrder) -> None:
        if order.yarn_id in self.apps:
            self.apps[order.yarn_id].submissions += 1
            return
        tag = next(one for one in order.tags if one.startswith(REQUEST_TAG))
        request = tag.removeprefix(REQUEST_TAG)
        self.apps[order.yarn_id] = FakeApp(order, YarnReport(order.yarn_id, YarnState.ACCEPTED, request))

    def set(self, yarn_id: str, **fields: Any) -> None:
        app = self.apps[yarn_id]
        app.report = replace(app.report, **fields)

    def start(self, yarn_id: str) -> None:
        """Have a master run."""
        self.set(
            yarn_id, state=YarnState.RUNNING, master_url=f"http://n1:{yarn_id[-4:]}", tracking_url="http://rm/proxy"
        )
        self.apps[yarn_id].since_s = time.time()

    def start_all(self) -> None:
        for yarn_id, app in self.apps.items():
            if app.report.state is YarnState.ACCEPTED:
                self.start(yarn_id)

    def end(self, yarn_id: str, *, succeeded: bool = True, diagnostics: str = "") -> None:
        self.set(yarn_id, state=YarnState.FINISHED, succeeded=succeeded, diagnostics=diagnostics, ended_s=time.time())

    async def reports(self, yarn_ids: Collection[str]) -> Mapping[str, YarnReport]:
        self._check()
        return {one: self.apps[one].report for one in yarn_ids if one in self.apps}

    async def kill(self, yarn_id: str, user: str, why: str) -> None:
        self._check()
        self.kills.append((yarn_id, user))
        self.set(yarn_id, state=YarnState.KILLED, diagnostics=why, ended_s=time.time())

    async def clean(self, yarn_id: str, user: str) -> None:
        self._check()
        self.cleaned.append(yarn_id)

    def _master(self, master: MasterAddress) -> FakeApp:
        if self.masters_away:
            raise BackendUnavailableError("the master does not answer")
        return self.apps[master.yarn_id]

    async def view(self, master: MasterAddress) -> dict[str, Any]:
        return self._master(master).view()

    async def scale(self, master: MasterAddress, service: str, count: int) -> dict[str, Any]:
        app = self._master(master)
        self.keys.append(master.key)
        described = next((one for one in app.order.application.services if one.name == service), None)
        if described is None:
            raise ApiError(404, "unknown-service", f"there is no service {service}")
        if count > described.elastic:
            raise ApiError(400, "out-of-range", f"{count} is outside 0..{described.elastic}")
        app.elastic[service] = count
        return next(one for one in app.view()["services"] if one["name"] == service)

    async def stop(self, master: MasterAddress, reason: str) -> None:
        self._master(master)
        self.keys.append(master.key)
        if self.obedient:
            self.set(master.yarn_id, state=YarnState.FINISHED, killed=True, diagnostics=reason, ended_s=time.time())

    async def log(self, source: LogSource, file: str, limit_bytes: int) -> LogPart:
        if file not in ("stdout", "stderr"):
            raise ApiError(404, "unknown-file", f"there is no file {file}")
        text = f"{file} of {source.container_id}\n".encode() * 50
        return LogPart(text[-limit_bytes:], len(text) <= limit_bytes)

    async def files(self, source: LogSource) -> Sequence[str]:
        return ["stdout", "stderr"]

    async def close(self) -> None:
        return None
