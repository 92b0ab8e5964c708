"""The route by which tracker relays report the master keys of their nodes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request, Response

from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.http.security import stays_here
from quicksilver.common.messages import NodeKeysMessage
from rm_proxy.api.params import NodeId

ReportKeys = Callable[[str, NodeKeysMessage], Awaitable[None]]


async def take_no_keys(node_id: str, message: NodeKeysMessage) -> None:
    """Refuse keys: the proxy grants nothing itself. Raises ApiError."""
    raise ApiError(409, "own-grants-off", "proxy.own_grants is off: no keys are needed here")


def key_routes(report: ReportKeys) -> APIRouter:
    """Return the route; it is served below /v1. report: gets a node, and its keys. Raises ApiError."""
    router = APIRouter(tags=["nodes"])

    @router.post("/nodes/{node_id}/keys", status_code=204, summary="The master keys of a node")
    async def keys(node_id: NodeId, body: NodeKeysMessage, request: Request) -> Response:
        """Sent by tracker relays, over TLS or from this host alone; stored in memory alone."""
        if request.url.scheme != "https" and not stays_here(request.client.host if request.client else ""):
            raise ApiError(403, "in-the-clear", "master keys are taken over TLS alone, or from this host")
        await report(node_id, body)
        return Response(status_code=204)

    return router
