"""Submissions as they come: read, checked, refused with a reason, or stored."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from quicksilver.common.http.rest_errors import ApiError
from quicksilver_apps.description.mistakes import DescriptionError
from quicksilver_apps.description.model import Application, as_json
from quicksilver_apps.description.reader import Template, parse_template, template_from_data
from quicksilver_apps.server.callers import Caller
from quicksilver_apps.server.config import AppServerSettings
from quicksilver_apps.server.lifecycle.journal import EventJournal
from quicksilver_apps.server.models import CheckAnswer, Submission
from quicksilver_apps.server.records import ServedApplication, StoredTemplate, size_of
from quicksilver_apps.server.states import State
from quicksilver_apps.server.store import applications, templates

_NAME: Final = "description"
"""As mistakes name the text that was sent."""


class BusyError(ApiError):
    """Too much waits; the caller is to come again later."""

    def __init__(self, message: str, after_s: int) -> None:
        super().__init__(429, "too-many-waiting", message)
        self.after_s = after_s


class Submissions:
    """Reads and stores submissions, no more than may wait."""

    def __init__(self, journal: EventJournal, settings: AppServerSettings, on_received: Callable[[], None]) -> None:
        self._journal, self._settings, self._on_received = journal, settings, on_received
        self._arriving: Counter[tuple[str, str]] = Counter()
        """User and id of those that have a place and are not stored yet, or just were."""
        self._counting = asyncio.Lock()

    async def submit(self, submission: Submission, caller: Caller) -> ServedApplication:
        """Store an application. Raises ApiError with what is wrong, and BusyError."""
        user = self._user(submission, caller)
        template, stored = await self._template(submission)
        application = await asyncio.to_thread(self._filled, template, submission)
        record = self._record(application, submission, user, caller, stored)
        place = user, record.id
        await self._take(place, caller)
        try:
            if not await self._journal.receive(record):
                return await self._repeated(record)
        finally:
            self._arriving -= Counter([place])
        self._on_received()
        return record

    async def check(self, submission: Submission) -> CheckAnswer:
        """Return what is wrong with a submission; values that are not given yet are not."""
        try:
            template, _ = await self._template(submission)
            checked = await asyncio.to_thread(template.check, submission.parameters)
        except DescriptionError as error:
            return CheckAnswer(ok=False, mistakes=list(error.lines))
        if checked.error is not None:
            return CheckAnswer(ok=False, mistakes=list(checked.error.lines), parameters=parameters_of(template))
        answer = CheckAnswer(
            ok=not checked.to_give,
            mistakes=[f"{name}: has no value yet" for name in checked.to_give],
            warnings=list(checked.warnings),
            to_give=list(checked.to_give),
            parameters=parameters_of(template),
        )
        if answer.ok:
            application = template.fill(submission.parameters)
            answer.mistakes = foreign_files(application)
            answer.ok = not answer.mistakes
            size = size_of(application)
            answer.memory_mb, answer.vcores = size.memory_mb, size.vcores
        return answer

    def _user(self, submission: Submission, caller: Caller) -> str:
        user = submission.user or caller.user
        if not user:
            problem = "the token names no user, as whom the application would run"
            raise ApiError(403, "no-user", f"{problem}; take one of a line user:NAME or admin:NAME")
        if not caller.may_change(user):
            raise ApiError(403, "forbidden", f"only an admin submits as {user}")
        return user

    async def _template(self, submission: Submission) -> tuple[Template, StoredTemplate | None]:
        if (submission.description is None) == (not submission.template):
            raise ApiError(422, "invalid", "send either a description or the name of a template")
        if submission.template:
            name, version = submission.template, submission.template_version
            stored = await self._journal.database.read(lambda connection: templates.get(connection, name, version))
            if stored is None:
                which = f" of version {version}" if version else ""
                raise ApiError(404, "unknown-template", f"there is no template {name}{which}; /v1/templates has all")
            return await asyncio.to_thread(parse_template, stored.text, name), stored
        description = submission.description
        if isinstance(description, str):
            limit = self._settings.max_description_kb * 1024
            if len(description.encode()) > limit:
                raise ApiError(413, "too-large", f"the description has more than {limit} bytes")
            return await asyncio.to_thread(parse_template, description, _NAME), None
        return await asyncio.to_thread(template_from_data, description, _NAME), None

    def _filled(self, template: Template, submission: Submission) -> Application:
        application = template.fill(submission.parameters)
        if submission.queue is not None:
            application = application.model_copy(update={"queue": submission.queue})
        elif not application.queue and self._settings.queue:
            application = application.model_copy(update={"queue": self._settings.queue})
        if wrong := foreign_files(application):
            raise DescriptionError(wrong)
        return application

    async def _take(self, place: tuple[str, str], caller: Caller) -> None:
        """Take a place among those that wait, for a user and an id. Raises BusyError when all are taken, or the user's.

        Each is counted once, by the store or as it arrives: one that is stored meanwhile is left out of the former.
        """
        user, after_s = place[0], self._settings.retry_after_s
        async with self._counting:
            places = {*self._arriving, place}
            arriving, ids = Counter(each for each, _ in places), [app_id for _, app_id in places]
            waiting = await self._journal.database.read(lambda connection: applications.waiting_of(connection, ids))
            if sum(waiting.values()) + arriving.total() > self._settings.max_waiting:
                raise BusyError(f"{self._settings.max_waiting} applications wait already; try again later", after_s)
            bound = self._settings.quotas.of(user, caller.quota_role).waiting
            if bound is not None and waiting.get(user, 0) + arriving[user] > bound:
                raise BusyError(f"{bound} applications of {user} wait already; try again later", after_s)
            self._arriving[place] += 1

    async def _repeated(self, record: ServedApplication) -> ServedApplication:
        """Return the application that was stored under the same request id before."""
        before = await self._journal.database.read(lambda connection: applications.get(connection, record.id))
        if before is None or before.user != record.user or before.name != record.name:
            raise ApiError(409, "other-request", f"the request id {record.id} is that of another application")
        return before

    def _record(
        self,
        application: Application,
        submission: Submission,
        user: str,
        caller: Caller,
        stored: StoredTemplate | None,
    ) -> ServedApplication:
        size, now_s = size_of(application), self._journal.clock_s()
        return ServedApplication(
            id=submission.request_id or str(uuid.uuid4()),
            yarn_id="",
            user=user,
            role=caller.quota_role,
            name=application.name,
            title=application.title,
            app_class=application.app_class.value,
            queue=application.queue,
            state=State.RECEIVED,
            why="a submission is stored",
            description=as_json(application),
            template=stored.name if stored else "",
            template_version=stored.version if stored else 0,
            labels=dict(application.labels),
            key=secrets.token_urlsafe(24),
            memory_mb=size.memory_mb,
            vcores=size.vcores,
            elastic=size.elastic,
            received_s=now_s,
            changed_s=now_s,
            submitted_s=None,
            started_s=None,
            ended_s=None,
            tries=0,
            kill_s=None,
            kill_why="",
            master_url="",
            tracking_url="",
            diagnostics="",
            view={},
        )


def foreign_files(application: Application) -> list[str]:
    """Return a line for each file that is not named by a URI of the cluster: the server sends none of its own."""
    places = [("files", application.files)]
    places += [(f"services[{number}].files", each.files) for number, each in enumerate(application.services)]
    lines = []
    for place, files in places:
        for number, file in enumerate(files):
            if urlsplit(file.source).scheme != "hdfs":
                problem = f"{file.source[:200]!r} is not in HDFS; the app server takes files of the cluster alone"
                lines.append(f"{_NAME}: {place}[{number}].source: {problem}; upload it and name it as hdfs://..")
    return lines


def parameters_of(template: Template) -> dict[str, dict[str, Any]]:
    """Return the parameters of a template as JSON data."""
    parameters: Mapping[str, Any] = template.parameters
    return {name: parameter.model_dump(mode="json") for name, parameter in parameters.items()}


def moved(record: ServedApplication, state: State) -> ServedApplication:
    """Return a record in another state, as it is after a move."""
    return replace(record, state=state)
