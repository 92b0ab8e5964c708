"""Routes of applications: submit, list, look, scale, kill, logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.rest_errors import ApiError
from quicksilver_apps.server.backend import Backend, BackendUnavailableError, LogSource, MasterAddress
from quicksilver_apps.server.callers import Caller
from quicksilver_apps.server.config import AppServerSettings
from quicksilver_apps.server.lifecycle.journal import EventJournal
from quicksilver_apps.server.lifecycle.watcher import StateWatcher
from quicksilver_apps.server.models import (
    MAX_INTEGER,
    ApplicationBrief,
    ApplicationDetail,
    ApplicationEntry,
    ApplicationHistory,
    ApplicationPage,
    CheckAnswer,
    KillRequest,
    ScaleRequest,
    SpanInfo,
    StateChangeInfo,
    Submission,
    services_of,
)
from quicksilver_apps.server.records import InstanceSpan, ServedApplication
from quicksilver_apps.server.states import AT_YARN, ENDED, WAITING, State
from quicksilver_apps.server.store import applications, instances
from quicksilver_apps.server.submissions import BusyError, Submissions

AppId = Annotated[str, Path(max_length=100, description="The id of the request, or of YARN.")]
Limit = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=10_000_000)]
Text = Annotated[str, Query(max_length=200)]
_MASTER_LOGS: Final = "master"


@dataclass(frozen=True, slots=True)
class ApplicationParts:
    """What the routes use."""

    settings: AppServerSettings
    journal: EventJournal
    submissions: Submissions
    watcher: StateWatcher
    backend: Backend
    caller: Callable[[Request], Caller]


async def find(parts: ApplicationParts, app_id: str, caller: Caller) -> ServedApplication:
    """Return an application that the caller may see. Raises ApiError 404 for others."""
    record = await parts.journal.database.read(lambda connection: applications.get(connection, app_id))
    if record is None or not caller.may_see(record.user):
        raise ApiError(404, "unknown-application", f"there is no application {app_id}, or it is another user's")
    return record


def application_routes(parts: ApplicationParts) -> APIRouter:
    """Return the routes that read and submit."""
    router = APIRouter(tags=["applications"])
    caller_of = Depends(parts.caller)

    @router.post("/applications", status_code=202, summary="Submit an application")
    async def submit(body: Submission, response: Response, caller: Caller = caller_of) -> ApplicationBrief:
        """It is stored when this answers; its state says what became of it. Mistakes of a description answer 422."""
        results = parts.journal.metrics.submissions
        try:
            record = await parts.submissions.submit(body, caller)
        except QuicksilverError as error:
            results.labels("busy" if isinstance(error, BusyError) else "refused").inc()
            raise
        results.labels("stored").inc()
        response.headers["Location"] = f"applications/{record.id}"
        return ApplicationBrief.of(record)

    @router.post("/check", summary="Check a submission")
    async def check(body: Submission) -> CheckAnswer:
        """Nothing is stored; each mistake is a line with its place and remedy."""
        return await parts.submissions.check(body)

    @router.get("/applications", summary="Applications, the newest first")
    async def listing(
        caller: Caller = caller_of,
        state: Annotated[list[State] | None, Query(description="Several are one or the other.")] = None,
        user: Text = "",
        app_class: Annotated[str, Query(alias="class", max_length=50)] = "",
        queue: Text = "",
        text: Annotated[str, Query(max_length=200, description="In name, title or id.")] = "",
        template: Text = "",
        since: Annotated[float, Query(ge=0, description="Received since then, Unix seconds.")] = 0.0,
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> ApplicationPage[ApplicationEntry]:
        """A user sees the own ones, an admin and a reader all."""
        query = applications.Selection(caller.sees or user, tuple(state or ()), app_class, queue, text, template, since)
        if caller.sees and user not in ("", caller.sees):
            return ApplicationPage(items=[], offset=offset, more=False)
        read = parts.journal.database.read
        records = await read(lambda connection: applications.listing(connection, query, limit + 1, offset))
        entries = [
            ApplicationEntry(**ApplicationBrief.of(record).model_dump(), services=services_of(record, instances=False))
            for record in records[:limit]
        ]
        return ApplicationPage(items=entries, offset=offset, more=len(records) > limit)

    @router.get("/applications/{app_id}", summary="One application with its services and instances")
    async def one(app_id: AppId, caller: Caller = caller_of) -> ApplicationDetail:
        """While it runs, its master is asked; `live` is false where it did not answer."""
        return await detail(parts, await find(parts, app_id, caller), caller)

    @router.get("/applications/{app_id}/history", summary="What happened to an application")
    async def history(app_id: AppId, caller: Caller = caller_of) -> ApplicationHistory:
        """Its changes of state, and its containers with their times."""
        return await history_of(parts, await find(parts, app_id, caller))

    return router


async def detail(parts: ApplicationParts, record: ServedApplication, caller: Caller) -> ApplicationDetail:
    """Return all that is known of an application."""
    view, live = await parts.watcher.view(record)
    shown = replace(record, view=view)
    return ApplicationDetail(
        **ApplicationBrief.of(shown).model_dump(),
        services=services_of(shown, instances=True),
        description=record.description,
        diagnostics=record.diagnostics,
        kill_s=record.kill_s,
        tries=record.tries,
        live=live,
        may_change=caller.may_change(record.user),
        events=list(view.get("events", []))[-50:],
    )


async def history_of(parts: ApplicationParts, record: ServedApplication) -> ApplicationHistory:
    """Return an application's changes of state and its containers."""
    database = parts.journal.database
    changes = await database.read(lambda connection: applications.history(connection, record.id))
    spans = await database.read(lambda connection: instances.of(connection, record.id))
    return ApplicationHistory(
        changes=[StateChangeInfo.of(change) for change in changes], instances=[SpanInfo.of(span) for span in spans]
    )


def action_routes(parts: ApplicationParts) -> APIRouter:
    """Return the routes that change an application."""
    router = APIRouter(tags=["applications"])
    caller_of = Depends(parts.caller)

    @router.put("/applications/{app_id}/scale", summary="Set the elastic instances of a service")
    async def scale(app_id: AppId, body: ScaleRequest, caller: Caller = caller_of) -> dict[str, object]:
        """Its master gets as many as there is room for; it answers with the service."""
        record = await find(parts, app_id, caller)
        caller.check_change(record)
        if record.state not in (State.STARTING, State.READY) or not record.master_url:
            raise ApiError(409, "not-running", f"it is {record.state}; a service is scaled while its master runs")
        master = MasterAddress(record.yarn_id, record.master_url, record.key)
        answer = await parts.backend.scale(master, body.service, body.count)
        parts.watcher.wake(record.id)
        return answer

    @router.post("/applications/{app_id}/kill", status_code=202, summary="End an application")
    async def kill(app_id: AppId, body: KillRequest, caller: Caller = caller_of) -> ApplicationBrief:
        """Its master ends it in order; without an answer of it, YARN kills it. Harmless when it has ended."""
        record = await find(parts, app_id, caller)
        caller.check_change(record)
        why = f"killed by {caller.user or 'an admin'}{f': {body.reason}' if body.reason else ''}"
        for _ in range(5):  # its state may change meanwhile
            if await _killed(parts, record, why):
                break
            record = await find(parts, record.id, caller)
        return ApplicationBrief.of(await find(parts, record.id, caller))

    return router


async def _killed(parts: ApplicationParts, record: ServedApplication, why: str) -> bool:
    """Order the kill of an application; returns False when its state changed meanwhile."""
    if record.state in ENDED or record.kill_s is not None:
        return True
    if record.state in WAITING:
        return await parts.journal.move(record, State.KILLED, why)
    order = {"kill_s": parts.journal.clock_s(), "kill_why": why}
    if record.state in AT_YARN and record.state is not State.ENDING:
        done = await parts.journal.move(record, State.ENDING, why, **order)
    else:
        await parts.journal.note(record, **order)
        done = True
    parts.watcher.wake()
    return done


def log_routes(parts: ApplicationParts) -> APIRouter:
    """Return the routes of logs."""
    router = APIRouter(tags=["logs"])
    caller_of = Depends(parts.caller)

    @router.get(
        "/applications/{app_id}/logs/{service}/{index}", summary="A log file of an instance", response_class=Response
    )
    async def log(
        app_id: AppId,
        service: Annotated[str, Path(max_length=50)],
        index: Annotated[int, Path(ge=0, le=MAX_INTEGER)],
        caller: Caller = caller_of,
        file: Annotated[str, Query(max_length=200, pattern=r"^[A-Za-z0-9._-]+$")] = "stdout",
        container: Annotated[str, Query(max_length=100, description="An earlier one of this instance.")] = "",
        kb: Annotated[int | None, Query(ge=1, description="The end of the file, this long.")] = None,
    ) -> Response:
        """The end of the file as text; the header X-Quicksilver-Whole says whether it is all of it."""
        record = await find(parts, app_id, caller)
        span = await _span(parts, record, service, index, container)
        bound = min(kb or parts.settings.max_log_kb, parts.settings.max_log_kb) * 1024
        ended = record.state in ENDED
        source = LogSource(record.yarn_id, record.user, span.container_id, span.node, span.log_url, ended)
        part = await parts.backend.log(source, file, bound)
        whole = "true" if part.whole else "false"
        headers = {"X-Quicksilver-Whole": whole, "X-Content-Type-Options": "nosniff"}
        return Response(part.text, media_type="text/plain; charset=utf-8", headers=headers)

    return router


async def _span(
    parts: ApplicationParts, record: ServedApplication, service: str, index: int, container: str
) -> InstanceSpan:
    """Return a container of an instance, the newest unless one is named. Raises ApiError 404."""
    spans = await parts.journal.database.read(lambda connection: instances.of(connection, record.id))
    own = [span for span in spans if (span.service, span.number) == (service, index)]
    matches = [span for span in own if not container or span.container_id == container]
    if not matches:
        raise ApiError(404, "unknown-instance", f"{service}[{index}] of {record.id} has had no such container yet")
    return matches[-1]


def unavailable(error: BackendUnavailableError) -> ApiError:
    """Return the answer for a cluster that does not answer."""
    return ApiError(503, "cluster-unavailable", str(error))
