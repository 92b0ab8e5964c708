"""Routes of bypass: its applications, and an admin's order."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Request

from quicksilver.common.settings.reload import said_by
from rm_proxy.coordinator.error_budget import Order
from rm_proxy.views.service_models import BypassInfo, BypassOrder


def bypass_routes(info: Callable[[], BypassInfo], give_order: Callable[[Order, str], BypassInfo]) -> APIRouter:
    """Return the routes; they are served below /v1."""
    router = APIRouter(tags=["operation"])

    @router.get("/bypass", summary="Who is in bypass, and why")
    async def bypass() -> BypassInfo:
        """Bypass by the error budget or by order; `mode: bypass` of the settings is shown by the applications."""
        return info()

    @router.post("/bypass", summary="Bypass on, off, or by the error budget")
    async def order(body: BypassOrder, request: Request) -> BypassInfo:
        """`on`: nothing new becomes queueable; `off`: not even when the budget is spent; `auto`: the budget decides."""
        return give_order(body.order, said_by(body.who, request.client.host if request.client else "unknown"))

    return router
