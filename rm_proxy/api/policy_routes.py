"""Routes of the policies: in force, changes, comparison, roll-outs; check and reload of the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from fastapi import APIRouter, Query

from quicksilver.common.settings.reload_api import Check, Reload, add_check, add_reload
from rm_proxy.api.application_routes import entry
from rm_proxy.api.live_state import LiveState
from rm_proxy.api.params import Limit, Offset, ask
from rm_proxy.store.applications import AppFilter
from rm_proxy.store.queries import History
from rm_proxy.views.cluster_models import ApplicationInfo, ListPage
from rm_proxy.views.service_models import ChangeInfo, ComparisonInfo, PoliciesInfo, RolloutFigures

MAX_COMPARED: Final = 1000
"""Applications whose figures make those of a roll-out."""
_ROLLOUT_PATHS: Final = ("policies.rollout", "policies.alternatives")
Starts = Annotated[bool, Query(description="With the settings that each start of the proxy found.")]
SinceS = Annotated[
    float | None,
    Query(ge=0, description="Applications submitted since, Unix seconds; if left out: since the roll-outs changed."),
]


def policy_routes(
    live: LiveState, history: History, reload: Reload, check: Check, now: Callable[[], float]
) -> APIRouter:
    """Return the routes; they are served below /v1. now: returns Unix seconds."""
    router = APIRouter(tags=["operation"])

    @router.get("/policies", summary="The policies in use")
    async def policies() -> PoliciesInfo:
        """The policy of each slot with its settings and where it comes from, windows, roll-outs, alternatives."""
        return live.policies()

    @router.get("/policies/changes", summary="Changes of the settings, the newest first")
    async def changes(limit: Limit = 100, offset: Offset = 0, starts: Starts = True) -> ListPage[ChangeInfo]:
        """Changes of settings: author, time, source, old and new value; refused files as well."""
        return await ask(lambda: history.changes(limit=limit, offset=offset, starts=starts))

    @router.get("/policies/compare", summary="Alternatives beside the policies in use")
    async def compare() -> list[ComparisonInfo]:
        """Decisions that alternatives of `policies.shadow` would have made otherwise, since the settings were read."""
        return list(live.comparisons())

    @router.get("/policies/rollout", summary="How applications of a roll-out did, beside the others")
    async def rollout(since: SinceS = None) -> RolloutFigures:
        """Finished applications of the queues of `policies.rollout`, by the alternative that decided on them."""
        from_s = since if since is not None else await ask(lambda: history.changed_s(_ROLLOUT_PATHS))
        query = AppFilter(state="finished", since_s=from_s)
        records = await ask(
            lambda: history.applications.matching(query, "submitted", descending=True, live=(), limit=MAX_COMPARED + 1)
        )
        apps = [ApplicationInfo(**app.model_dump()) for app in records[:MAX_COMPARED] if app.submitted_s >= from_s]
        rows = await ask(lambda: history.app_ledgers.rows(apps, now()))
        entries = [entry(app, now(), running=False, ledger=rows.get(app.id)) for app in apps]
        return RolloutFigures(since_s=from_s, complete=len(records) <= MAX_COMPARED, arms=live.rollout_arms(entries))

    add_check(router, "/policies/check", check)
    add_reload(router, "/policies/reload", reload)
    return router
