"""What the app server needs of a cluster: submit, find again, ask masters, read logs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from quicksilver.common.errors import QuicksilverError
from quicksilver_apps.description.model import Application

REQUEST_TAG: Final = "quicksilver_request:"
"""Prefix of the YARN tag that has the id of the request, by which an application is found again."""


class BackendUnavailableError(QuicksilverError):
    """The cluster, or a master, does not answer now."""

    retriable = True


class StartRefusedError(QuicksilverError):
    """YARN, or the file system, does not take this application, and will not later."""


class YarnState(StrEnum):
    """What YARN says of an application."""

    NEW = "new"
    """Also: saved, submitted."""
    ACCEPTED = "accepted"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class YarnReport:
    """One application as the ResourceManager reports it."""

    yarn_id: str
    state: YarnState
    request_id: str = ""
    """Of its tag; "" without one."""
    succeeded: bool | None = None
    """What its master said at its end; None when it said nothing."""
    killed: bool = False
    """Whether its master said that it was killed."""
    diagnostics: str = ""
    master_url: str = ""
    """Base of the master's HTTP API; "" while it is not known."""
    tracking_url: str = ""
    """For people."""
    started_s: float = 0.0
    ended_s: float = 0.0
    """Unix time; 0: it has not ended."""


@dataclass(frozen=True, slots=True)
class StartOrder:
    """A submission; with the same ids it can be repeated, and YARN has the application once."""

    request_id: str
    yarn_id: str
    user: str
    key: str
    """The secret of calls that change the application."""
    application: Application
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest container that the cluster grants."""

    memory_mb: int
    vcores: int


@dataclass(frozen=True, slots=True)
class MasterAddress:
    """The master of one application, and what calls of it need."""

    yarn_id: str
    url: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class LogSource:
    """The container whose log is wanted."""

    yarn_id: str
    user: str
    container_id: str
    node: str
    log_url: str
    ended: bool
    """Whether the application has ended, so that its logs may be aggregated."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """The end of a log file."""

    text: bytes
    whole: bool
    """Whether it is all of the file."""


class Backend(Protocol):
    """A cluster. All calls raise BackendUnavailableError when it does not answer."""

    async def largest(self) -> Largest:
        """Return the largest container that the cluster grants."""

    async def new_id(self) -> str:
        """Return a YARN application id that nobody has."""

    async def submit(self, order: StartOrder) -> None:
        """Upload files and submit. Raises StartRefusedError."""

    async def reports(self, yarn_ids: Collection[str]) -> Mapping[str, YarnReport]:
        """Return YARN's reports of these applications; those that it does not know are missing."""

    async def kill(self, yarn_id: str, user: str, why: str) -> None:
        """Have YARN kill an application; harmless when it has ended."""

    async def clean(self, yarn_id: str, user: str) -> None:
        """Delete the uploaded files of an application that has ended; harmless when there are none."""

    async def view(self, master: MasterAddress) -> dict[str, Any]:
        """Return what a master says of its application (`/v1/application`)."""

    async def scale(self, master: MasterAddress, service: str, count: int) -> dict[str, Any]:
        """Set the elastic instances that a service shall have. Raises ApiError with the master's refusal."""

    async def stop(self, master: MasterAddress, reason: str) -> None:
        """Have a master end its application in order."""

    async def log(self, source: LogSource, file: str, limit_bytes: int) -> LogPart:
        """Return the end of a container's log file. Raises ApiError 404 when there is none."""

    async def files(self, source: LogSource) -> Sequence[str]:
        """Return the names of a container's log files."""

    async def close(self) -> None:
        """Close connections."""
