"""The proxy and its sidecars as targets of Prometheus, in the form of its HTTP service discovery."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from pydantic import BaseModel

from rm_proxy.api.live_state import LiveState
from rm_proxy.views.cluster_models import NodeInfo

Part = Literal["proxy", "sidecar"]
_META = "__meta_quicksilver_"


class TargetGroup(BaseModel):
    """Addresses with the same labels; those that begin with `__meta_` are for relabelling."""

    targets: list[str]
    labels: dict[str, str]


def prometheus_routes(live: LiveState) -> APIRouter:
    """Return the route."""
    router = APIRouter(tags=["operation"])

    @router.get("/prometheus/targets", summary="Targets for Prometheus")
    async def targets(request: Request, part: Part | None = None) -> list[TargetGroup]:
        """This proxy, at the address that the caller used, and the sidecars that ever reported; `part` filters."""
        own = TargetGroup(targets=[request.url.netloc], labels=_labels("proxy", request.url.scheme))
        groups = [own, *_sidecars(live.nodes())]
        return [group for group in groups if part in (None, group.labels[f"{_META}part"])]

    return router


def _sidecars(nodes: Sequence[NodeInfo]) -> Iterator[TargetGroup]:
    for node in nodes:
        url = urlsplit(node.sidecar_url)
        if url.netloc:
            more = {"node": node.id, "host": node.host, "rack": node.rack, "label": node.label}
            yield TargetGroup(targets=[url.netloc], labels=_labels("sidecar", url.scheme, **more))


def _labels(part: Part, scheme: str, **more: str) -> dict[str, str]:
    meta = {f"{_META}{name}": value for name, value in {"part": part, **more}.items()}
    return {"__scheme__": scheme, **meta}
