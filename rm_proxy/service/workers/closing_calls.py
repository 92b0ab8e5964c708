"""Closes REST connections after each call, so that the next one of the same client finds its own worker.

Those of a node stay open: a sidecar posts its reports to one worker.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_OF_A_NODE: Final = "/v1/nodes/"
_CLOSE: Final = (b"connection", b"close")


class ClosingCalls:
    """ASGI application around another one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call."""
        stays = scope["type"] != "http" or _OF_A_NODE in scope["path"]

        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start" and not (stays and message["status"] < 400):
                message = {**message, "headers": [*message.get("headers", ()), _CLOSE]}
            await send(message)

        await self._app(scope, receive, closing)
