"""The pages of all nodes, and of one node with its timeline."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from quicksilver.common.web.pages import Pages
from quicksilver.common.web.snapshots import ByKey, PageSnapshot, Shared, Snapshots
from rm_proxy.api.app import ApiParts
from rm_proxy.api.cluster_routes import detail_of, drawn_timeline
from rm_proxy.api.params import NodeId, ask
from rm_proxy.ui.node_rows import node_rows
from rm_proxy.views.history_models import ContainerSpan

NODES_S: Final = 3.0
NODE_S: Final = 2.0
STORE_SHARE: Final = 0.05
SPANS_S: Final = (600, 1800, 3600)
Span = Annotated[int, Query(gt=0, le=3600)]


def nodes_routes(pages: Pages, parts: ApiParts) -> APIRouter:
    """Return the routes of the pages."""
    router = APIRouter()
    rows = PageSnapshot(lambda: node_rows(parts.live), NODES_S)
    stored: ByKey[Shared[_Spans]] = ByKey(lambda key: Shared(lambda: _stored(parts, *key), NODE_S, share=STORE_SHARE))
    details = Snapshots(lambda key: _node(parts, *key, stored=stored.of(key)), NODE_S)

    @router.get("/nodes")
    async def nodes(request: Request) -> Response:
        return pages.render(request, "nodes.html", title="Nodes", section="nodes")

    @router.get("/data/nodes")
    async def data_nodes(request: Request) -> Response:
        return await rows.response(request)

    @router.get("/nodes/{node_id}")
    async def node(request: Request, node_id: NodeId) -> Response:
        known = parts.live.node(node_id) is not None
        return pages.render(
            request,
            "node.html",
            title=node_id,
            section="nodes",
            status=200 if known else 404,
            node_id=node_id,
            known=known,
            spans_s=SPANS_S,
        )

    @router.get("/data/node/{node_id}")
    async def data_node(request: Request, node_id: NodeId, last_s: Span = 1800) -> Response:
        fits = next(span_s for span_s in SPANS_S if span_s >= last_s)
        return await details.of((node_id, fits)).response(request)

    return router


_Spans = tuple[list[ContainerSpan], bool]


async def _stored(parts: ApiParts, node_id: str, last_s: int) -> _Spans:
    """Return the containers of a node's last minutes, and whether there were more; on a busy host this takes long."""
    since_s = time.time() - last_s
    return await ask(lambda: parts.history.spans(node_id, since_s))


async def _node(parts: ApiParts, node_id: str, last_s: int, *, stored: Shared[_Spans]) -> dict[str, Any]:
    """Return a node with its containers and its last minutes. Raises ApiError."""
    detail = detail_of(parts.live, node_id)
    timeline = drawn_timeline(detail, await stored.get(), parts.shrinks, last_s, time.time())
    return {"node": detail.model_dump(), "timeline": timeline.model_dump()}
