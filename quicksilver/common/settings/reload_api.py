"""The REST route by which settings are read anew; proxy and sidecar have the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import APIRouter, FastAPI, Request

from quicksilver.common.http.rest_errors import ApiError, ErrorEnvelope
from quicksilver.common.messages import CheckRequest, ReloadAnswer, ReloadRequest
from quicksilver.common.settings.reload import How, ReloadRefusedError, said_by

Check = Callable[[str], Awaitable[ReloadAnswer]]
"""Gets a file's name, "" for the one in use."""
Reload = Callable[[str, How, ReloadRequest], Awaitable[ReloadAnswer]]
REFUSED: Final = "settings-refused"
"""Code of the error that lists the mistakes of a settings file, a line each."""


def add_reload(routes: APIRouter | FastAPI, path: str, reload: Reload) -> None:
    """Add the route; a file with mistakes is answered with 422 and all of them."""

    @routes.post(
        path,
        tags=["operation"],
        summary="Read the settings anew",
        responses={422: {"model": ErrorEnvelope, "description": "The file has mistakes; nothing changed."}},
    )
    async def read_anew(body: ReloadRequest, request: Request) -> ReloadAnswer:
        """Read quicksilver.yaml anew and take over its policies at once, all of them or none."""
        author = said_by(body.who, request.client.host if request.client else "unknown")
        try:
            return await reload(author, "command" if body.command else "rest", body)
        except ReloadRefusedError as error:
            raise ApiError(422, REFUSED, str(error)) from error


def add_check(routes: APIRouter | FastAPI, path: str, check: Check) -> None:
    """Add the route that says what a reload would change; a file with mistakes is answered with 422 and all of them."""

    @routes.post(
        path,
        tags=["operation"],
        summary="Say what a reload would change",
        responses={422: {"model": ErrorEnvelope, "description": "The file has mistakes."}},
    )
    async def check_file(body: CheckRequest) -> ReloadAnswer:
        """Read quicksilver.yaml and compare it with the settings in force; nothing changes."""
        try:
            return await check(body.file)
        except ReloadRefusedError as error:
            raise ApiError(422, REFUSED, str(error)) from error
