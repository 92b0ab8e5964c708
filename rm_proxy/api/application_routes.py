"""Routes of applications, running and finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, get_args

from fastapi import APIRouter, Query

from policies.config.schema import full_queue
from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.messages import EventKind
from rm_proxy.api.live_state import LiveState
from rm_proxy.api.params import AppId, Limit, OfApp, OfContainer, Offset, OfNode, Since, Until, ask
from rm_proxy.store.applications import AppFilter, SortKey
from rm_proxy.store.queries import History
from rm_proxy.views.admission_models import AdmissionInfo
from rm_proxy.views.application_models import ApplicationEntry, State
from rm_proxy.views.cluster_models import ApplicationInfo, ApplicationRecord, ListPage
from rm_proxy.views.timeline_models import AppContainer, ContainerEventInfo, WaitHistogram
from rm_proxy.views.waiting_models import WaitsNow

_KEYS: Final = get_args(SortKey)
MAX_OFFSET: Final = 100_000
OfState = Annotated[
    Literal["running", "finished", "unknown", "all"], Query(description="unknown: its end was not reported.")
]
OfQueue = Annotated[str, Query(max_length=500, description="Only of this YARN queue and of those below it.")]
OfUser = Annotated[str, Query(max_length=200, description="Only of this user.")]
OfType = Annotated[str, Query(max_length=100, description="Only of this type: MAPREDUCE, SPARK, TEZ ...")]
OfText = Annotated[str, Query(max_length=200, description="Only those with this text in their name or id.")]
There = Annotated[float, Query(ge=0, description="Only those that were there at this time or later, Unix seconds.")]
Sort = Annotated[
    str, Query(pattern=f"^-?({'|'.join(_KEYS)})$", description=f"{', '.join(_KEYS)}; with `-` before it: descending.")
]
ShortOffset = Annotated[int, Query(ge=0, le=MAX_OFFSET, description="Items to skip.")]
BucketS = Annotated[
    float | None, Query(ge=0.1, le=7 * 86400, description="Length of a span; a fitting one if left out.")
]
OfKind = Annotated[Literal["G", "Q"] | None, Query(description="Only guaranteed or queueable ones.")]
OfEventKind = Annotated[Sequence[EventKind], Query(description="Only of these kinds; may be given several times.")]
WithLedger = Annotated[bool, Query(description="With the ledger's row of each application.")]


def application_routes(live: LiveState, history: History, now: Callable[[], float]) -> APIRouter:
    """Return the routes; they are served below /v1. now: returns Unix seconds."""
    router = APIRouter(tags=["applications"])

    @router.get("/applications", summary="The applications, running and finished")
    async def applications(
        state: OfState = "running",
        queue: OfQueue = "",
        user: OfUser = "",
        type: OfType = "",
        text: OfText = "",
        since: There = 0.0,
        sort: Sort = "id",
        ledger: WithLedger = False,
        limit: Limit = 1000,
        offset: ShortOffset = 0,
    ) -> ListPage[ApplicationEntry]:
        """Each with its mode, what it wants and holds; finished ones come from the store."""
        criteria = AppFilter(
            state=None if state == "all" else state,
            queue=full_queue(queue, live.queue_names()) if queue else "",
            user=user,
            type=type.upper(),
            text=text,
            since_s=since,
        )
        listing = Listing(criteria, sort, ledger, limit, offset)
        return await list_applications(live, history, listing, now())

    @router.get("/admission", summary="Which applications are in service as a whole, and which wait")
    async def admission() -> AdmissionInfo:
        """Core and elastic containers of each, as the `admit` policy decided last (at most a second ago)."""
        return live.admission()

    @router.get("/applications/{app_id}", summary="One application, live or remembered")
    async def application(app_id: AppId, ledger: WithLedger = False) -> ApplicationEntry:
        """A finished one comes from the store."""
        known: ApplicationInfo | ApplicationRecord | None = live.application(app_id)
        running = known is not None
        if known is None:
            known = await ask(lambda: history.application(app_id))
        if known is None:
            raise ApiError(404, "unknown-application", f"there is no application {app_id}")
        info = ApplicationInfo(**known.model_dump())
        rows = await ask(lambda: history.app_ledgers.rows([info], now())) if ledger else {}
        return entry(info, now(), running=running, ledger=rows.get(app_id))

    _detail_routes(router, live, history, now)
    return router


def _detail_routes(router: APIRouter, live: LiveState, history: History, now: Callable[[], float]) -> None:
    @router.get("/applications/{app_id}/waiting", summary="What an application waits for now, in words")
    async def waiting(app_id: AppId) -> WaitsNow:
        """Each outstanding ask with the quota, the order, the nodes or the scheduler that it waits for."""
        known = live.waits(app_id, now())
        if known is None:
            raise ApiError(404, "unknown-application", f"{app_id} does not run here now")
        return known

    @router.get("/applications/{app_id}/waits", summary="How long an application's containers waited, over time")
    async def waits(app_id: AppId, bucket_s: BucketS = None) -> WaitHistogram:
        """Percentiles by span of time: from ask to delivery, and at the nodes; what still waits counts in the last."""
        now_s = now()
        waiting = live.open_waits(now_s, app_id)
        return await ask(lambda: history.containers.waits(app_id, bucket_s, waiting=waiting, now_s=now_s))

    @router.get("/applications/{app_id}/containers", summary="An application's containers with their times")
    async def containers(
        app_id: AppId, kind: OfKind = None, limit: Limit = 200, offset: Offset = 0
    ) -> ListPage[AppContainer]:
        """The newest first; those at nodes now with their state."""
        page = await ask(lambda: history.containers.spans(app_id, kind=kind, limit=limit, offset=offset))
        reported = live.containers_of(app_id)
        for span in page.items:
            known = reported.get(span.container_id)
            if known is not None and not span.end:
                span.now, span.why = known.state.value, known.why
                span.attained_s, span.times_shrunk = known.attained_s, known.times_shrunk
        return page


def event_routes(history: History) -> APIRouter:
    """Return the route of container events; it is served below /v1."""
    router = APIRouter(tags=["decisions"])

    @router.get("/events", summary="What sidecars reported of containers, the newest first")
    async def events(
        app: OfApp = None,
        node: OfNode = None,
        container: OfContainer = None,
        kind: OfEventKind = (),
        since: Since = 0.0,
        until: Until = None,
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> ListPage[ContainerEventInfo]:
        """Starts, ends, kills, sheds with their causes."""
        kinds = [member.value for member in kind]
        filters = {"app_id": app, "node_id": node, "container_id": container}
        return await ask(
            lambda: history.containers.events(
                **filters, kinds=kinds, since_s=since, until_s=until, limit=limit, offset=offset
            )
        )

    return router


@dataclass(frozen=True, slots=True)
class Listing:
    """A part of the list: `criteria.state` None for all states; sort: a key, with `-` before it descending."""

    criteria: AppFilter
    sort: str = "id"
    ledger: bool = False
    limit: int = 1000
    offset: int = 0


async def list_applications(
    live: LiveState, history: History, part: Listing, now_s: float
) -> ListPage[ApplicationEntry]:
    """Return applications that live and those of the store. Raises ApiError when the store is out."""
    here, state = live.applications(), part.criteria.state
    apps: list[ApplicationInfo] = []
    if state in ("running", None):
        apps += [app for app in here if part.criteria.has(app)]
    key, descending = part.sort.removeprefix("-"), part.sort.startswith("-")
    if state != "running":
        order, ids = _sort_key(key), [app.id for app in here]
        most = part.offset + part.limit + 1
        stored = await ask(
            lambda: history.applications.matching(part.criteria, order, descending=descending, live=ids, limit=most)
        )
        apps += [ApplicationInfo(**app.model_dump()) for app in stored]
    apps = _in_order(apps, key, descending, now_s)
    page = apps[part.offset : part.offset + part.limit]
    rows = await ask(lambda: history.app_ledgers.rows(page, now_s)) if part.ledger else {}
    running = {app.id for app in here}
    items = [entry(app, now_s, running=app.id in running, ledger=rows.get(app.id)) for app in page]
    return ListPage(items=items, offset=part.offset, more=len(apps) > part.offset + part.limit)


def _sort_key(key: str) -> SortKey:
    return next(known for known in _KEYS if known == key)


def entry(app: ApplicationInfo, now_s: float, *, running: bool, ledger: Any = None) -> ApplicationEntry:
    """Return an application as the list has it. running: whether it lives here now; ledger: its row, None for none."""
    state: State = "running" if running else "unknown" if app.finished_s is None else "finished"
    until_s = app.finished_s if app.finished_s is not None else now_s if running else None
    known = until_s is not None and app.submitted_s > 0
    elapsed_s = max(0.0, until_s - app.submitted_s) if known and until_s is not None else None
    return ApplicationEntry(**app.model_dump(), state=state, elapsed_s=elapsed_s, ledger=ledger)


def _in_order(apps: Sequence[ApplicationInfo], key: str, descending: bool, now_s: float) -> list[ApplicationInfo]:
    """Return applications by a sort key, then by id; those without a value come last, as they do in the store."""

    def value(app: ApplicationInfo) -> Any:
        end_s = app.finished_s if app.finished_s is not None else now_s if app.attempt_id else None
        values: dict[str, Any] = {
            "submitted": app.submitted_s,
            "finished": app.finished_s,
            "elapsed": end_s - app.submitted_s if end_s is not None else None,
            "name": app.name.lower(),
            "user": app.user,
            "queue": app.queue,
            "type": app.type,
            "waiting": app.wanted_g + app.wanted_q,
            "held": app.live_g + app.live_q,
        }
        return values.get(key, "")

    by_id = sorted(apps, key=lambda app: (len(app.id), app.id), reverse=descending)
    with_value = sorted((app for app in by_id if value(app) is not None), key=value, reverse=descending)
    return with_value + [app for app in by_id if value(app) is None]
