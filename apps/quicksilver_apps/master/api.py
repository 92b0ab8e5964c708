"""The HTTP API of the master: for people, for the command line, and for the launchers of its instances."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any, Final

from quicksilver_apps.master import view
from quicksilver_apps.master.http_server import Answer, HttpError, Request
from quicksilver_apps.master.launcher.environment import peers
from quicksilver_apps.master.launcher.rendezvous import SIGNATURE, instance_key, signed
from quicksilver_apps.master.machine.application_state import ApplicationState
from quicksilver_apps.master.machine.events import (
    CheckPassed,
    CommandRuns,
    Event,
    LastLines,
    LauncherUp,
    ScaleTo,
    StopAll,
)

KEY_HEADER: Final = "x-quicksilver-key"
POLL_S: Final = 25.0
_ENDS: Final = ("killed", "succeeded")


class Api:
    """Answers requests from the machine's state, and tells it events."""

    def __init__(
        self, app: ApplicationState, application_id: str, user: str, key: str, tell: Callable[[Event], None]
    ) -> None:
        """Prepare. key: the secret of the application; tell: has the machine handle an event."""
        self._app, self._id, self._user, self._key, self._tell = app, application_id, user, key, tell
        self._news = asyncio.Event()

    def notify(self) -> None:
        """Wake those who wait for events."""
        self._news.set()
        self._news = asyncio.Event()

    async def handle(self, request: Request) -> Answer:
        """Answer a request. Raises HttpError."""
        parts = [part for part in request.path.split("/") if part]
        match (request.method, parts):
            case ("GET", []):
                data = view.application(self._app, self._id, self._user)
                return Answer(200, view.page(data).encode(), "text/html; charset=utf-8")
            case ("GET", ["v1", "application"]):
                return Answer.of(view.application(self._app, self._id, self._user))
            case ("GET", ["v1", "events"]):
                return await self._events(request)
            case ("GET", ["v1", "peers"]):
                return Answer.of(peers(self._app.services))
            case ("PUT", ["v1", "services", name, "elastic"]):
                return self._scale(request, name)
            case ("POST", ["v1", "stop"]):
                return self._stop(request)
            case ("PUT", ["v1", "instances", container_id, topic]):
                return self._launcher(request, container_id, topic)
        raise HttpError(404, "not_found", f"There is no {request.method} {request.path}.")

    async def _events(self, request: Request) -> Answer:
        after = request.query.get("after", "0")
        if not after.isdecimal():
            raise HttpError(400, "bad_request", f"after={after}: it is the number of an event, from 0 up.")
        seq = int(after)
        if self._app.log.last <= seq:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), POLL_S)
        events = self._app.log.after(seq)
        return Answer.of({"events": events, "next": events[-1]["seq"] if events else seq})

    def _scale(self, request: Request, name: str) -> Answer:
        self._check(request)
        service = self._app.services.get(name)
        if service is None:
            known = ", ".join(self._app.services)
            raise HttpError(404, "no_service", f"There is no service {name}; there are {known}.")
        count = _body(request).get("count")
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= service.spec.elastic:
            text = f"count: {count!r} is not within 0 and {service.spec.elastic}, the elastic instances of {name}."
            raise HttpError(400, "bad_count", text)
        if self._app.over:
            raise HttpError(409, "ending", "The application is ending.")
        self._tell(ScaleTo(name, count, time.time()))
        return Answer.of(view.service(service, self._user))

    def _stop(self, request: Request) -> Answer:
        self._check(request)
        body = _body(request)
        status, reason = body.get("status", "killed"), body.get("reason", "")
        if status not in _ENDS or not isinstance(reason, str):
            raise HttpError(400, "bad_status", f"status: {status!r} is none of {', '.join(_ENDS)}; reason is a text.")
        self._tell(StopAll(status, reason[:1000], time.time()))
        return Answer.of({"state": self._app.state, "final": self._app.final})

    def _launcher(self, request: Request, container_id: str, topic: str) -> Answer:
        """Handle what the launcher of an instance reports."""
        key = instance_key(self._key, container_id)
        if not signed(key, request.path, request.body, request.headers.get(SIGNATURE.lower(), "")):
            raise HttpError(401, "bad_signature", "The signature is not that of the container's launcher.")
        if self._app.instance(container_id) is None:
            raise HttpError(404, "no_instance", f"{container_id} runs no instance that this master knows.")
        self._tell(_event(container_id, topic, _body(request), time.time()))
        return Answer.of({"peers": peers(self._app.services)} if topic == "ports" else {})

    def _check(self, request: Request) -> None:
        if not hmac.compare_digest(request.headers.get(KEY_HEADER, "").encode(), self._key.encode()):
            raise HttpError(401, "bad_key", "The header X-Quicksilver-Key is not the key of this application.")


def _event(container_id: str, topic: str, body: dict[str, Any], now_s: float) -> Event:
    try:
        if topic == "ports":
            ports = {str(name): int(number) for name, number in body["ports"].items()}
            return LauncherUp(container_id, ports, int(body["listens_on"]), now_s)
        if topic == "state":
            return CommandRuns(container_id, now_s) if body["phase"] == "running" else CheckPassed(container_id, now_s)
        if topic == "end":
            return LastLines(container_id, str(body["lines"]), now_s)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HttpError(400, "bad_request", f"{topic}: {type(error).__name__}: {error}") from error
    raise HttpError(404, "not_found", f"A launcher reports ports, state or end, not {topic}.")


def _body(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(request.body or b"{}")
    except (ValueError, RecursionError) as error:
        raise HttpError(400, "bad_json", f"The body is no JSON: {error}.") from error
    if not isinstance(body, dict):
        raise HttpError(400, "bad_json", "The body is a JSON object.")
    return body
