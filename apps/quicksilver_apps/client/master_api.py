"""The application master's HTTP API, asked by its submitter."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Self
from urllib.parse import quote

from pydantic import BaseModel

from quicksilver.common.http.async_client import AsyncRestClient
from quicksilver.common.http.rest_errors import UnreachableError
from quicksilver_apps.client.errors import NotRunningError
from quicksilver_apps.client.master_answers import (
    MASTER_ANSWER_BYTES,
    ApplicationView,
    EventsView,
    ServiceView,
    as_data,
    check_owner,
    parsed,
)

KEY_HEADER: Final = "X-Quicksilver-Key"
MASTER_CALL_S: Final = 10.0
"""How long a whole call may take."""
MASTER_LONG_POLL_S: Final = 40.0
"""The same for events, of which the master answers after 25 s at the latest."""


class _Scale(BaseModel):
    count: int


class _Stop(BaseModel):
    status: str
    reason: str


class MasterApi:
    """One application master, at the address that `MasterPlaces` found.

    A master is its user's own program: its answers are parsed within bounds, its redirects are refused, and each call
    has a deadline. All methods raise NotRunningError, and RefusedError.
    """

    def __init__(self, url: str, application_id: str, key: str = "") -> None:
        """key: what calls that change the application have to show."""
        self.url, self._id, self._key = url.rstrip("/"), application_id, key
        self._client = AsyncRestClient(timeout_s=MASTER_LONG_POLL_S, max_answer=MASTER_ANSWER_BYTES)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the kept connections."""
        await self._client.close()

    async def application(self) -> dict[str, Any]:
        """Return the application with its services and their instances."""
        view = parsed(ApplicationView, await self._call("GET", "/v1/application"), self.url)
        check_owner(view.services, self._id, self.url)
        return as_data(view)

    async def events(self, after: int) -> tuple[list[dict[str, Any]], int]:
        """Wait up to 25 s for events after the one numbered `after`; return them, and where to go on."""
        body = await self._call("GET", f"/v1/events?after={after}", limit_s=MASTER_LONG_POLL_S)
        view = parsed(EventsView, body, self.url)
        return [as_data(each) for each in view.events], view.next

    async def scale(self, service: str, count: int) -> dict[str, Any]:
        """Have a service keep `count` elastic instances at most; return the service."""
        body = await self._call("PUT", f"/v1/services/{quote(service, safe='')}/elastic", _Scale(count=count))
        view = parsed(ServiceView, body, self.url)
        check_owner([view], self._id, self.url)
        return as_data(view)

    async def stop(self, status: str, reason: str) -> None:
        """End the application in order. status: killed or succeeded."""
        await self._call("POST", "/v1/stop", _Stop(status=status, reason=reason))

    async def _call(self, method: str, path: str, body: BaseModel | None = None, limit_s: float | None = None) -> bytes:
        url, limit_s = f"{self.url}{path}", limit_s or MASTER_CALL_S
        try:
            async with asyncio.timeout(limit_s):
                if body is None:
                    return (await self._client.get_bytes(url))[0]
                return (await self._client.send_bytes(method, url, body, {KEY_HEADER: self._key}))[0]
        except (UnreachableError, TimeoutError) as error:
            remedy = "try once more: it may be starting again; `quicksilver app logs APP --service application-master`"
            why = f"no answer within {limit_s:g} s" if isinstance(error, TimeoutError) else error.message
            problem = f"the application master does not answer: {why}"
            raise NotRunningError(problem, place=self.url, remedy=remedy) from error
