"""What the store holds: applications, their changes of state, their instances, templates. Times are Unix seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quicksilver_apps.description.model import Application
from quicksilver_apps.server.states import State


@dataclass(frozen=True, slots=True)
class QuotaSize:
    """What counts against quotas: the master and all core instances, and the number of elastic ones."""

    memory_mb: int = 0
    vcores: int = 0
    elastic: int = 0


def size_of(application: Application) -> QuotaSize:
    """Return the size of an application (Zoe, §2.1: core instances must all be there, elastic ones help)."""
    services = application.services
    return QuotaSize(
        application.master.memory_mb + sum(each.core * each.resources.memory_mb for each in services),
        application.master.vcores + sum(each.core * each.resources.vcores for each in services),
        sum(each.elastic for each in services),
    )


@dataclass(frozen=True, slots=True)
class ServedApplication:
    """One application as it is stored; fields as the table's columns."""

    id: str
    yarn_id: str
    user: str
    role: str
    name: str
    title: str
    app_class: str
    queue: str
    state: State
    why: str
    description: dict[str, Any]
    template: str
    template_version: int
    labels: dict[str, Any]
    key: str
    memory_mb: int
    vcores: int
    elastic: int
    received_s: float
    changed_s: float
    submitted_s: float | None
    started_s: float | None
    ended_s: float | None
    tries: int
    kill_s: float | None
    kill_why: str
    master_url: str
    tracking_url: str
    diagnostics: str
    view: dict[str, Any]

    @property
    def application(self) -> Application:
        """The description, filled."""
        return Application.model_validate(self.description)

    @property
    def size(self) -> QuotaSize:
        """What counts against quotas."""
        return QuotaSize(self.memory_mb, self.vcores, self.elastic)


@dataclass(frozen=True, slots=True)
class StateChange:
    """A change of the state of an application."""

    seq: int
    app_id: str
    user: str
    name: str
    at_s: float
    source: str
    target: str
    why: str


@dataclass(frozen=True, slots=True)
class InstanceSpan:
    """One container of an application."""

    app_id: str
    service: str
    number: int
    container_id: str
    kind: str
    node: str
    state: str
    log_url: str
    exit_status: int | None
    started_s: float
    ready_s: float | None
    ended_s: float | None
    diagnostics: str


@dataclass(frozen=True, slots=True)
class StoredTemplate:
    """One version of a template."""

    name: str
    version: int
    text: str
    title: str
    owner: str
    created_s: float
    deleted: bool
