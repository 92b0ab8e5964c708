"""The pages of all applications, of one application, and of one container."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Query, Request, Response

from policies.config.schema import full_queue
from quicksilver.common.web.pages import Pages
from quicksilver.common.web.snapshots import ByKey, Shared, Snapshots
from rm_proxy.api.app import ApiParts
from rm_proxy.api.application_routes import Listing, OfState, entry, list_applications
from rm_proxy.api.params import ask
from rm_proxy.store.applications import AppFilter
from rm_proxy.views.application_models import ApplicationEntry
from rm_proxy.views.cluster_models import ApplicationInfo, ListPage
from rm_proxy.views.explain import tell_application
from rm_proxy.views.history_models import AppStory
from rm_proxy.views.timeline_models import AppContainer, ContainerEventInfo, WaitHistogram

SHOWN: Final = 500
"""Applications of the list, containers of an application."""
LOSSES: Final = ("killed", "shed", "failed", "lost")
STORE_SHARE: Final = 0.02
"""Part of the time that queries of the store for one page may take."""
Text = Annotated[str, Query(max_length=500)]
SinceS = Annotated[float, Query(ge=0)]


def applications_routes(pages: Pages, parts: ApiParts) -> APIRouter:
    """Return the routes of the pages."""
    router = APIRouter()
    lists = Snapshots(lambda key: _list(parts, key), 3.0, share=STORE_SHARE)
    stored: ByKey[Shared[_Stored]] = ByKey(
        lambda app_id: Shared(lambda: _stored(parts, app_id), 3.0, share=STORE_SHARE)
    )
    details = Snapshots(lambda app_id: _detail(parts, app_id, stored.of(app_id)), 3.0)

    @router.get("/applications")
    async def applications(request: Request) -> Response:
        return pages.render(request, "applications.html", title="Applications", section="applications", shown=SHOWN)

    @router.get("/applications/{app_id}")
    async def application(request: Request, app_id: str) -> Response:
        return pages.render(request, "application.html", title=app_id, section="applications", app_id=app_id)

    @router.get("/containers/{container_id}")
    async def container(request: Request, container_id: str) -> Response:
        return pages.render(
            request, "container.html", title=container_id, section="applications", container_id=container_id
        )

    @router.get("/data/applications")
    async def list_data(
        request: Request,
        state: OfState = "all",
        queue: Text = "",
        user: Text = "",
        type: Text = "",
        text: Text = "",
        last_s: SinceS = 0.0,
    ) -> Response:
        return await lists.of((state, queue, user, type, text, last_s)).response(request)

    @router.get("/data/applications/{app_id}")
    async def detail_data(request: Request, app_id: str) -> Response:
        return await details.of(app_id).response(request)

    return router


async def _list(parts: ApiParts, key: tuple[Any, ...]) -> bytes:
    state, queue, user, type, text, last_s = key
    criteria = AppFilter(
        state=None if state == "all" else state,
        queue=full_queue(queue, parts.live.queue_names()) if queue else "",
        user=user,
        type=type.upper(),
        text=text,
        since_s=time.time() - last_s if last_s else 0.0,
    )
    listing = Listing(criteria, "-submitted", ledger=True, limit=SHOWN)
    page = await list_applications(parts.live, parts.history, listing, time.time())
    return page.model_dump_json().encode()


class _Stored(NamedTuple):
    """What the store has of an application."""

    story: AppStory
    waits: WaitHistogram
    spans: ListPage[AppContainer]
    losses: ListPage[ContainerEventInfo]


async def _stored(parts: ApiParts, app_id: str) -> _Stored:
    """Return what the store has of an application; on a busy host these queries take long."""
    live, history, now_s = parts.live, parts.history, time.time()
    still = live.open_waits(now_s, app_id)
    return _Stored(
        await ask(lambda: history.story(app_id, still)),
        await ask(lambda: history.containers.waits(app_id, waiting=still, now_s=now_s)),
        await ask(lambda: history.containers.spans(app_id, limit=SHOWN)),
        await ask(lambda: history.containers.events(app_id=app_id, kinds=LOSSES, limit=200)),
    )


async def _detail(parts: ApiParts, app_id: str, shared: Shared[_Stored]) -> dict[str, Any]:
    """Return all that the page of an application shows; `app` is null where nothing is known of it."""
    stored, live, now_s = await shared.get(), parts.live, time.time()
    story = stored.story.model_copy(deep=True)
    story.live = live.application(app_id)
    known = story.live or story.application
    if known is None:
        return {"app": None}
    story.story = tell_application(story)
    app: ApplicationEntry = entry(
        ApplicationInfo(**known.model_dump()), now_s, running=story.live is not None, ledger=story.ledger
    )
    waiting = live.waits(app_id, now_s)
    if story.ledger is not None:
        story.ledger.shrinks += live.shrinks_now(app_id)
    reported = live.containers_of(app_id)
    spans = [span.model_copy(update={"shrunk": list(span.shrunk)}) for span in stored.spans.items]
    for span in spans:
        here = reported.get(span.container_id)
        if here is not None and not span.end:
            span.now, span.why, span.times_shrunk = here.state.value, here.why, here.times_shrunk
    by_id = {span.container_id: span for span in spans}
    for shrink in parts.shrinks.of_containers(by_id):
        by_id[shrink.container_id].shrunk.append((shrink.from_s, shrink.to_s))
    return {
        "now_s": now_s,
        "app": app.model_dump(mode="json"),
        "waiting": waiting.model_dump(mode="json") if waiting is not None else None,
        "waits": stored.waits.model_dump(mode="json"),
        "story": story.model_dump(mode="json", exclude={"live", "application"}),
        "containers": [span.model_dump(mode="json") for span in spans],
        "more": stored.spans.more,
        "losses": [loss.model_dump(mode="json") for loss in stored.losses.items],
    }
