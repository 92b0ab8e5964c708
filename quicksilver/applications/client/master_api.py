"""The application master's HTTP API, asked by its submitter."""

from __future__ import annotations

from typing import Any, Final, Self

import requests

from quicksilver.applications.client.errors import NotRunningError
from quicksilver.common.http.rest_client import rest_session
from quicksilver.common.http.rest_errors import RefusedError, refused

KEY_HEADER: Final = "X-Quicksilver-Key"
_TIMEOUT_S: Final = 10.0
_LONG_POLL_S: Final = 40.0
"""The master answers after 25 s at the latest."""


class MasterApi:
    """One application master, at its tracking URL. All methods raise NotRunningError, and RefusedError."""

    def __init__(self, url: str, key: str = "") -> None:
        """key: what calls that change the application have to show."""
        self.url, self._key = url.rstrip("/"), key
        self._session = rest_session()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the kept connections."""
        self._session.close()

    def application(self) -> dict[str, Any]:
        """Return the application with its services and their instances."""
        found: dict[str, Any] = self._call("GET", "/v1/application")
        return found

    def events(self, after: int) -> tuple[list[dict[str, Any]], int]:
        """Wait up to 25 s for events after the one numbered `after`; return them, and where to go on."""
        answer = self._call("GET", "/v1/events", timeout_s=_LONG_POLL_S, params={"after": str(after)})
        return list(answer["events"]), int(answer["next"])

    def scale(self, service: str, count: int) -> dict[str, Any]:
        """Have a service keep `count` elastic instances at most; return the service."""
        found: dict[str, Any] = self._call("PUT", f"/v1/services/{service}/elastic", json={"count": count})
        return found

    def stop(self, status: str, reason: str) -> None:
        """End the application in order. status: killed or succeeded."""
        self._call("POST", "/v1/stop", json={"status": status, "reason": reason})

    def _call(self, method: str, path: str, timeout_s: float = _TIMEOUT_S, **arguments: Any) -> Any:
        url = f"{self.url}{path}"
        headers = {} if method == "GET" else {KEY_HEADER: self._key}
        try:
            answer = self._session.request(method, url, timeout=timeout_s, headers=headers, **arguments)
            if answer.status_code >= 300:
                raise refused(answer.status_code, answer.content, url)
            return answer.json() if answer.content else None
        except requests.JSONDecodeError as error:
            raise RefusedError("answered no JSON", place=url, status=200, code="not-json") from error
        except requests.RequestException as error:
            remedy = "try once more: it may be starting again; `quicksilver app logs APP --service application-master`"
            raise NotRunningError("the application master does not answer", place=self.url, remedy=remedy) from error
