"""Routes of the cluster over time: its last day, a node's last minutes, and kills by cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query

from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.messages import ContainerReport, ContainerState
from rm_proxy.api.live_state import LiveState
from rm_proxy.api.params import NodeId, Since, Until, ask
from rm_proxy.history.cluster_sample import Shrink, Shrinks
from rm_proxy.history.time_series import TimeSeries
from rm_proxy.store.queries import History
from rm_proxy.views.cluster_models import NodeDetail
from rm_proxy.views.history_models import ClusterHistory, ContainerSpan, Kills, NodeTimeline

LastDay = Annotated[float, Query(gt=0, le=86_400, description="Only this time before now, in seconds.")]
LastHour = Annotated[float, Query(gt=0, le=3600, description="Only this time before now, in seconds.")]


def cluster_routes(
    live: LiveState, history: History, series: TimeSeries, shrinks: Shrinks, now: Callable[[], float]
) -> APIRouter:
    """Return the routes; they are served below /v1."""
    router = APIRouter()

    @router.get("/cluster/history", tags=["nodes"], summary="The cluster over time")
    async def cluster_history(last_s: LastDay = 3600.0) -> ClusterHistory:
        """Cores by what runs, waits, is shrunk or idle; from memory, since the proxy started, a day at most."""
        return history_of(series, last_s, now())

    @router.get("/nodes/{node_id}/timeline", tags=["nodes"], summary="A node's containers over the last minutes")
    async def timeline(node_id: NodeId, last_s: LastHour = 1800.0) -> NodeTimeline:
        """Who waited, ran, was shrunk and how it ended; shrinks shorter than five seconds may be missing."""
        return await timeline_of(live, history, shrinks, node_id, last_s, now())

    @router.get("/kills", tags=["ledger"], summary="Who was killed, by cause, queue and kind")
    async def kills(since: Since = 0.0, until: Until = None) -> Kills:
        """The kills of the ledger; the greatest loss first, 1,000 rows at most."""
        items = await ask(lambda: history.kills(since_s=since, until_s=until))
        return Kills(since_s=since, until_s=until, items=items)

    return router


def history_of(series: TimeSeries, last_s: float, now_s: float) -> ClusterHistory:
    """Return the last seconds of a series."""
    columns = series.last(last_s, now_s)
    now_at_s, latest = series.latest or (None, {})
    return ClusterHistory(step_s=columns.step_s, t=columns.t, values=columns.values, now_s=now_at_s, now=latest)


async def timeline_of(
    live: LiveState, history: History, shrinks: Shrinks, node_id: str, last_s: float, now_s: float
) -> NodeTimeline:
    """Return a node's last minutes. Raises ApiError when the node is unknown or the store is out."""
    detail = detail_of(live, node_id)
    stored = await ask(lambda: history.spans(node_id, now_s - last_s))
    return drawn_timeline(detail, stored, shrinks, last_s, now_s)


def detail_of(live: LiveState, node_id: str) -> NodeDetail:
    """Return a node as it is now. Raises ApiError when it is unknown."""
    detail = live.node(node_id)
    if detail is None:
        raise ApiError(404, "unknown-node", f"there is no node {node_id}")
    return detail


def drawn_timeline(
    detail: NodeDetail, stored: tuple[list[ContainerSpan], bool], shrinks: Shrinks, last_s: float, now_s: float
) -> NodeTimeline:
    """Return a node's last minutes of what the store has, whether it has more, and what runs now."""
    node_id, from_s = detail.id, now_s - last_s
    spans = {span.container_id: span.model_copy(deep=True) for span in stored[0]}
    at_s = now_s - (detail.report_age_s or 0.0)
    for container in detail.containers:
        span = spans.setdefault(container.container_id, ContainerSpan(container_id=container.container_id))
        _add_live(span, container, at_s)
    for shrink in shrinks.of(node_id, from_s):
        _add_shrink(spans, shrink)
    ordered = sorted(spans.values(), key=lambda span: (span.held_s or span.started_s or from_s, span.container_id))
    return NodeTimeline(node_id=node_id, from_s=from_s, to_s=now_s, containers=ordered, truncated=stored[1])


def _add_live(span: ContainerSpan, container: ContainerReport, at_s: float) -> None:
    """Put what the last report says into a container's span."""
    span.app_id, span.kind, span.am = container.app_id, container.kind, container.am
    span.times_shrunk, span.why = container.times_shrunk, container.why
    if span.end:
        return  # it ended since
    span.state = container.state.value
    begun_s = at_s - container.since_s
    if container.state is ContainerState.WAITING:
        span.held_s = span.held_s or begun_s
    elif container.times_shrunk == 0:
        span.started_s = span.started_s or begun_s


def _add_shrink(spans: dict[str, ContainerSpan], shrink: Shrink) -> None:
    span = spans.get(shrink.container_id)
    if span is not None:
        span.shrunk.append((shrink.from_s, shrink.to_s))
