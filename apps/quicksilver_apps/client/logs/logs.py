"""The logs of containers: from their NodeManagers while the application runs, later from the log server of the cluster.

Both answer by REST in one form: lines of a head, `LogContents:`, the bytes, a foot. The log server (MapReduce's
JobHistoryServer, or the timeline server) has what NodeManagers aggregated, once an application has ended.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import requests
from pydantic import BaseModel, Field, ValidationError, field_validator

from quicksilver_apps.client.errors import ClientError
from quicksilver_apps.client.master_answers import is_of
from quicksilver_apps.client.session import Session
from quicksilver_apps.client.site import ClusterSite

MASTER: Final = "application-master"
"""The name under which the logs of the application master are asked for."""
FILES: Final = ("stdout", "stderr")
_TIMEOUT_S: Final = 30.0
_LENGTH: Final = re.compile(rb"^LogLength:\s*(\d+)\s*$", re.MULTILINE)
_CONTENTS: Final = b"LogContents:\n"


M = TypeVar("M", bound=BaseModel)


class _LogAttempt(BaseModel):
    """An attempt, as the ResourceManager's REST has it."""

    id: int
    containerId: str = ""
    nodeHttpAddress: str = ""


class _Attempts(BaseModel):
    appAttempt: list[_LogAttempt] = []


class _AttemptsAnswer(BaseModel):
    appAttempts: _Attempts | None = None


class _Logged(BaseModel):
    containerId: str


class _LoggedAnswer(BaseModel):
    """The containers whose logs a log server has."""

    containers: list[_Logged] = Field([], alias="containerLogsInfo")

    @field_validator("containers", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return [value] if isinstance(value, dict) else value  # one alone comes without a list


@dataclass(frozen=True, slots=True)
class LogPlace:
    """One container of an application."""

    service: str
    index: int
    container_id: str
    node_url: str = ""
    """Web server of its NodeManager; "": unknown."""

    @property
    def title(self) -> str:
        """How people know it."""
        return self.service if self.service == MASTER else f"{self.service}[{self.index}]"


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a log file."""

    data: bytes
    length: int
    """Bytes of the whole file."""


class Logs:
    """Reads logs; used by one thread at a time."""

    def __init__(self, session: Session) -> None:
        self._site, self._params = session.site, session.login.params
        self._http = session.login.session(session.ca)

    def close(self) -> None:
        """Close the kept connections."""
        self._http.close()

    def of_node(self, source: LogPlace, file: str, last_bytes: int) -> Tail | None:
        """Return the end of a log from the container's NodeManager; None when it has none of it. Raises ClientError."""
        path = f"/ws/v1/node/containers/{_part(source.container_id)}/logs/{_part(file)}"
        return self._tail(f"{source.node_url}{path}", last_bytes)

    def aggregated(self, source: LogPlace, file: str, last_bytes: int) -> Tail | None:
        """Return the end of a log from the log server; None when it has none of it. Raises ClientError."""
        path = f"/containerlogs/{_part(source.container_id)}/{_part(file)}"
        return self._tail(f"{self._log_server()}{path}", last_bytes)

    def aggregated_containers(self, application_id: str) -> list[str]:
        """Return the ids of containers whose logs the log server has. Raises ClientError."""
        answer = self._get(f"{self._log_server()}/aggregatedlogs", {"appid": application_id})
        if answer.status_code == 404:
            return []
        self._check(answer)
        return sorted({each.containerId for each in _parsed(_LoggedAnswer, answer).containers})

    def masters(self, application_id: str) -> list[LogPlace]:
        """Return the containers of an application's master, one for each attempt, the newest last.

        Raises ClientError.
        """
        failure = ""
        for url in self._site.rm_urls:
            try:
                answer = self._get(f"{url}/ws/v1/cluster/apps/{application_id}/appattempts", {})
                self._check(answer)
                attempts = (_parsed(_AttemptsAnswer, answer).appAttempts or _Attempts()).appAttempt
            except ClientError as error:
                failure = str(error)
                continue
            scheme = urlsplit(url).scheme
            return [
                LogPlace(MASTER, each.id, each.containerId, f"{scheme}://{each.nodeHttpAddress}")
                for each in sorted(attempts, key=lambda each: each.id)
                if each.containerId
            ]
        raise ClientError(failure, remedy="is the ResourceManager's web server reachable from here?")

    def _log_server(self) -> str:
        conf = self._site.conf
        if url := conf.text("yarn.log.server.web-service.url"):
            return url.rstrip("/")
        if url := conf.text("yarn.log.server.url"):
            parts = urlsplit(url)
            return f"{parts.scheme}://{parts.netloc}/ws/v1/history"
        raise ClientError(
            "the logs of an ended application are not known here",
            place=str(conf.directory / "yarn-site.xml"),
            remedy="set yarn.log.server.url there, or use `yarn logs -applicationId APP`; without "
            "yarn.log-aggregation-enable they lie on the nodes, in yarn.nodemanager.log-dirs",
        )

    def _tail(self, url: str, last_bytes: int) -> Tail | None:
        answer = self._get(url, {"size": str(-last_bytes)}, "text/plain")
        if answer.status_code in (302, 307, 400, 404):
            return None  # a NodeManager sends those who ask for what it has not to the log server
        self._check(answer)
        return parsed(answer.content, last_bytes)

    def _get(self, url: str, params: Mapping[str, str], accept: str = "application/json") -> requests.Response:
        headers = {"Accept": accept}
        try:
            return self._http.get(url, params={**self._params, **params}, headers=headers, timeout=_TIMEOUT_S)
        except requests.RequestException as error:
            raise ClientError("does not answer", place=url, remedy="is it up, and reachable from here?") from error

    def _check(self, answer: requests.Response) -> None:
        if answer.status_code >= 300:
            raise ClientError(f"answered {answer.status_code} {answer.reason}", place=answer.url.partition("?")[0])


def _part(text: str) -> str:
    """Return a text as one part of a path."""
    return quote(text, safe="")


def _parsed(model: type[M], answer: requests.Response) -> M:
    try:
        return model.model_validate_json(answer.content)
    except ValidationError as error:
        place, first = answer.url.partition("?")[0], error.errors(include_url=False)[0]
        raise ClientError(f"answered what is not understood: {first['msg']}", place=place) from error


def parsed(answer: bytes, last_bytes: int) -> Tail | None:
    """Return what an answer of the REST for logs holds; None when it has no file in it."""
    head, separator, body = answer.partition(_CONTENTS)
    length = _LENGTH.search(head)
    if not separator or length is None:
        return None
    size = int(length[1])
    return Tail(body[: min(size, last_bytes)], size)


def sources_of(application: Mapping[str, Any], addresses: Collection[str], scheme: str) -> list[LogPlace]:
    """Return the containers of an application as its master lists them.

    addresses, scheme: of the web servers of all NodeManagers that YARN knows; an address that is none of them is left
    out, whatever the master says.
    """
    return [
        LogPlace(service["name"], each["index"], each["container_id"], node_url_of(each["log_url"], addresses, scheme))
        for service in application["services"]
        for each in service["instances"]
        if each["container_id"]
    ]


def node_url_of(log_url: str, addresses: Collection[str], scheme: str) -> str:
    """Return the address of the NodeManager of a log's page, "" when YARN knows no such one."""
    try:
        address = urlsplit(log_url).netloc
    except ValueError:
        return ""
    return f"{scheme}://{address}" if address in addresses else ""


def node_scheme(site: ClusterSite) -> str:
    """Return how the web servers of NodeManagers are called: http or https."""
    return "https" if site.conf.text("yarn.http.policy") == "HTTPS_ONLY" else "http"


def check_container(container_id: str, application_id: str) -> None:
    """Check that a container is of an application, before its logs are asked for. Raises ClientError."""
    if not is_of(container_id, application_id):
        problem = f"{container_id[:100]!r} is no container of {application_id}"
        raise ClientError(problem, remedy="name a container of this application")
