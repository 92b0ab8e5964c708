"""Following an application from its submission to its end: YARN's state, then the master's events."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hadoop_rpc.protos import yarn_client_pb2 as client_pb2
from hadoop_rpc.protos import yarn_pb2
from quicksilver_apps.client.errors import NotRunningError
from quicksilver_apps.client.master_api import MasterApi
from quicksilver_apps.client.master_places import MasterPlaces
from quicksilver_apps.client.rm import END_STATES, Rm, id_of

_PAUSE_S: Final = 0.2
_AGAIN_S: Final = 1.0
_CONTAINER: Final = re.compile(r"container_[a-z0-9_]*\d")
_STATES: Final = {
    client_pb2.ACCEPTED: "accepted; YARN has still to start its master",
    client_pb2.RUNNING: "its master is running",
}
_FINAL: Final = {
    yarn_pb2.APP_SUCCEEDED: "succeeded",
    yarn_pb2.APP_FAILED: "failed",
    yarn_pb2.APP_KILLED: "killed",
}


@dataclass(frozen=True, slots=True)
class End:
    """How an application ended."""

    status: str
    """succeeded, failed or killed."""
    diagnostics: str
    """Of several lines, where its master said much."""
    elapsed_s: float


class ApplicationWatch:
    """Watches one application; `on_line` gets a line for each event: Unix seconds and text."""

    def __init__(self, rm: Rm, application_id: str, on_line: Callable[[float, str], None]) -> None:
        self._rm, self._name, self._on_line = rm, application_id, on_line
        self._id, self._places = id_of(application_id), MasterPlaces()
        self._state = 0
        self._api: MasterApi | None = None
        self._after, self._newest_s = 0, 0.0
        self.last: dict[str, Any] = {}
        """The master's last answer."""
        self.containers: dict[str, str] = {}
        """Whose each container is, such as `worker[2]`, as far as events say it."""

    async def until_end(self) -> End:
        """Return how it ended. Raises ClientError."""
        end = await self._follow(lambda _: False)
        assert end is not None, "nothing else stops it"
        return end

    async def until_ready(self) -> End | None:
        """Return None once all services that have a core are ready; how it ended, if it ends before.

        Raises ClientError.
        """
        return await self._follow(is_ready)

    async def _follow(self, enough: Callable[[Mapping[str, Any]], bool]) -> End | None:
        try:
            while True:
                report = await self._rm.report(self._id)
                self._say_state(report)
                if report.yarn_application_state in END_STATES:
                    return end_of(report)
                url = await self._url(report)
                if not url:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                if await self._poll(url) and enough(self.last):
                    return None
        finally:
            if self._api is not None:
                await self._api.close()

    async def _url(self, report: client_pb2.ApplicationReportProto) -> str:
        try:
            return await self._places.url_of(self._rm, report)
        except NotRunningError:
            return ""  # it has just ended

    async def _poll(self, url: str) -> bool:
        """Print the events that the master at `url` has or waits for; return whether it answered."""
        if self._api is None or self._api.url != url:
            if self._api is not None:
                await self._api.close()
            self._api, self._after = (
                MasterApi(url, self._name),
                0,
            )  # a new attempt may count anew; the time says what is known
        try:
            events, self._after = await self._api.events(self._after)
            self.last = await self._api.application()
        except NotRunningError:
            await asyncio.sleep(_PAUSE_S if self._after == 0 else _AGAIN_S)
            return False
        for event in events:
            self.containers |= container_of(event)
            if event["at_s"] > self._newest_s:
                self._on_line(event["at_s"], event_text(event))
        self._newest_s = max([self._newest_s, *(event["at_s"] for event in events)])
        return True

    def _say_state(self, report: client_pb2.ApplicationReportProto) -> None:
        state = report.yarn_application_state
        if state != self._state and state in _STATES:
            self._on_line(time.time(), _STATES[state])
        self._state = state


def event_text(event: Mapping[str, Any]) -> str:
    """Return an event of the master as one line."""
    service, index = event.get("service") or "", event.get("index")
    where = f"{service}[{index}] " if service and index is not None else f"{service} " if service else ""
    return f"{where}{str(event['text']).partition(chr(10))[0]}"  # the rest is the end of its log


def container_of(event: Mapping[str, Any]) -> dict[str, str]:
    """Return whose container an event names: its id, and `SERVICE[INDEX]`; {} where it names none."""
    named = _CONTAINER.search(event["text"])
    if named is None or not event.get("service") or event.get("index") is None:
        return {}
    return {named[0]: f"{event['service']}[{event['index']}]"}


def is_ready(application: Mapping[str, Any]) -> bool:
    """Return whether each service that has a core is ready, or has ended already."""
    return all(each["state"] in ("ready", "ended") for each in application["services"] if each["core"])


def end_of(report: client_pb2.ApplicationReportProto) -> End:
    """Return how an application ended, from YARN's report of it."""
    state = report.yarn_application_state
    status = "killed" if state == client_pb2.KILLED else _FINAL.get(report.final_application_status, "failed")
    elapsed_s = max(0.0, (report.finishTime - report.startTime) / 1000.0)
    return End(status, report.diagnostics.strip(), elapsed_s)
