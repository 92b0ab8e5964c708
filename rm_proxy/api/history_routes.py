"""Routes of stored data: decisions beside the allocated containers, an application's story, the ledger."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import StreamingResponse

from quicksilver.common.http.rest_errors import ApiError
from rm_proxy.api.live_state import LiveState
from rm_proxy.api.params import AppId, Limit, OfApp, OfContainer, Offset, OfNode, Since, Until, ask
from rm_proxy.domain.records import DecisionRecord
from rm_proxy.store.ledger import By, Scope, csv_header, csv_lines
from rm_proxy.store.queries import DecisionFilter, History
from rm_proxy.views.cluster_models import ListPage
from rm_proxy.views.container_models import ChoiceInfo
from rm_proxy.views.explain import tell_application
from rm_proxy.views.history_models import AppStory, LedgerRow

OfSlot = Annotated[str | None, Query(max_length=50, description="Only of this slot: quota, place, shed, steal ...")]
OfAlternative = Annotated[
    str | None, Query(max_length=200, description="Only of this alternative; empty: only of the policies in force.")
]
Recent = Annotated[bool, Query(description="Answer from memory: the last ones, also while the store is out.")]
KeyedBy = Annotated[By, Query(description="What a row stands for.")]
ZoneMin = Annotated[int, Query(ge=-1080, le=1080, description="Time zone in which days begin, in minutes east of UTC.")]


def history_routes(
    live: LiveState, history: History, last_decisions: Callable[[], Sequence[DecisionRecord]]
) -> APIRouter:
    """Return the routes; they are served below /v1."""
    router = APIRouter()

    @router.get("/choices", tags=["decisions"], summary="Decisions beside those of allocated containers, newest first")
    async def choices(
        limit: Limit = 100,
        offset: Offset = 0,
        slot: OfSlot = None,
        app: OfApp = None,
        node: OfNode = None,
        container: OfContainer = None,
        alternative: OfAlternative = None,
        since: Since = 0.0,
        until: Until = None,
        recent: Recent = False,
    ) -> ListPage[ChoiceInfo]:
        """Refusals of quotas, steers and falls to guaranteed, what was shed, moved, policed or promoted, and why."""
        criteria = DecisionFilter(app, node, container, slot, alternative, since, until)
        if not recent:
            return await ask(lambda: history.choices(criteria, limit=limit, offset=offset))
        items = [ChoiceInfo.of(record) for record in last_decisions() if criteria.has(record)]
        return ListPage(items=items[offset : offset + limit], offset=offset, more=len(items) > offset + limit)

    @router.get("/applications/{app_id}/story", tags=["applications"], summary="What became of an application")
    async def story(app_id: AppId) -> AppStory:
        """How many containers went guaranteed and queueable and why, waits, sheds, moves, kills, what they cost."""
        waiting = live.open_waits(time.time(), app_id)
        known = await ask(lambda: history.story(app_id, waiting))
        known.live = live.application(app_id)
        if known.application is None and known.live is None and not known.routes:
            raise ApiError(404, "unknown-application", f"nothing is known of {app_id}; see `keep_days`")
        known.story = tell_application(known)
        return known

    _ledger_routes(router, history)
    return router


def _ledger_routes(router: APIRouter, history: History) -> None:
    @router.get("/ledger", tags=["ledger"], summary="Task-seconds lost by kills, saved by shrinking, spent queueing")
    async def ledger(
        by: KeyedBy = "app",
        since: Since = 0.0,
        until: Until = None,
        zone_min: ZoneMin = 0,
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> ListPage[LedgerRow]:
        """By application or day, the newest first; by queue or user, by name."""
        scope = Scope(by, since, until, zone_min)
        items = await ask(lambda: history.ledger.rows(scope, limit=limit + 1, offset=offset))
        return ListPage(items=items[:limit], offset=offset, more=len(items) > limit)

    @router.get(
        "/ledger.csv",
        tags=["ledger"],
        summary="The whole ledger as CSV",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/csv": {}}, "description": "A header, then a line for each row."}},
    )
    async def ledger_csv(
        by: KeyedBy = "app", since: Since = 0.0, until: Until = None, zone_min: ZoneMin = 0
    ) -> StreamingResponse:
        """Texts that a spreadsheet would take for formulas begin with an apostrophe."""
        pages = history.ledger.pages(Scope(by, since, until, zone_min))
        first = await ask(lambda: next(pages))
        headers = {"Content-Disposition": f'attachment; filename="ledger-{by}.csv"'}
        return StreamingResponse(_csv(first, pages, by), media_type="text/csv; charset=utf-8", headers=headers)


def _csv(first: list[LedgerRow], pages: Iterator[list[LedgerRow]], by: By) -> Iterator[str]:
    yield csv_header(by) + csv_lines(first, by)
    for page in pages:
        yield csv_lines(page, by)
