"""What REST answers and reads."""

from __future__ import annotations

from typing import Annotated, Any, Final, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from quicksilver_apps.description.model import Name, QueueName
from quicksilver_apps.server.config import Quota
from quicksilver_apps.server.records import InstanceSpan, ServedApplication, StateChange, StoredTemplate

T = TypeVar("T")
Value = str | int | float | bool
MAX_INTEGER: Final = 2**31 - 1
"""Of a number of a version or an instance; a store takes none that is much larger."""
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


class Body(BaseModel):
    """Base of bodies: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid")


class ApplicationPage(BaseModel, Generic[T]):
    """A part of a list."""

    items: list[T]
    offset: int
    more: bool
    """Whether there are further ones."""


class Submission(Body):
    """An application to submit: a description, or the name of a template."""

    description: dict[str, Any] | str | None = None
    """As JSON data, or as text of YAML or JSON, whose mistakes are named with their lines."""
    template: str = ""
    template_version: int | None = Field(None, ge=1, le=MAX_INTEGER)
    """None: the newest."""
    parameters: dict[str, Value] = {}
    user: Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9_][A-Za-z0-9._@$-]*)?$", max_length=100)] = ""
    """As whom it runs, for admins; "": the caller."""
    queue: QueueName | None = None
    """Another YARN queue than the description's."""
    request_id: Annotated[str, StringConstraints(pattern=_UUID)] | None = None
    """A UUID of the caller's own; a submission that is repeated with it is stored once."""


class ServiceInfo(BaseModel):
    """A service of an application, as described and as its master reports it."""

    name: str
    core: int
    elastic: int
    wanted: int | None = None
    running: int = 0
    ready: int = 0
    state: str = ""
    memory_mb: int
    vcores: int
    instances: list[dict[str, Any]] = []


class ApplicationBrief(BaseModel):
    """One application in a list."""

    id: str
    yarn_id: str
    user: str
    name: str
    title: str
    app_class: str = Field(serialization_alias="class")
    queue: str
    state: str
    why: str
    template: str
    template_version: int
    labels: dict[str, Any]
    memory_mb: int
    vcores: int
    elastic: int
    received_s: float
    changed_s: float
    submitted_s: float | None
    started_s: float | None
    ended_s: float | None
    tracking_url: str

    @classmethod
    def of(cls, record: ServedApplication) -> ApplicationBrief:
        """Return what a list shows of an application."""
        return cls(**{name: getattr(record, name) for name in ApplicationBrief.model_fields})


class ApplicationEntry(ApplicationBrief):
    """One application in a list, with its services."""

    services: list[ServiceInfo]


class ApplicationDetail(ApplicationEntry):
    """All that is known of one application."""

    description: dict[str, Any]
    diagnostics: str
    kill_s: float | None
    tries: int
    live: bool
    """Whether the services are as the master reports them now, and not as it did last."""
    may_change: bool
    """Whether the caller may scale and kill it."""
    events: list[dict[str, Any]]
    """The newest of its master."""


def services_of(record: ServedApplication, *, instances: bool) -> list[ServiceInfo]:
    """Return the services of an application: as described, with what its master said last."""
    answers = {str(service["name"]): service for service in record.view.get("services", [])}
    services = []
    for each in record.description.get("services", []):
        now = answers.get(each["name"], {})
        services.append(
            ServiceInfo(
                name=each["name"],
                core=each.get("core", 0),
                elastic=each.get("elastic", 0),
                wanted=now.get("wanted"),
                running=now.get("running", 0),
                ready=now.get("ready", 0),
                state=now.get("state", ""),
                memory_mb=each["resources"]["memory_mb"],
                vcores=each["resources"].get("vcores", 1),
                instances=list(now.get("instances", [])) if instances else [],
            )
        )
    return services


class StateChangeInfo(BaseModel):
    """A change of the state of an application."""

    seq: int
    app_id: str
    user: str
    name: str
    at_s: float
    source: str
    """"" for the first."""
    target: str
    why: str

    @classmethod
    def of(cls, change: StateChange) -> StateChangeInfo:
        """Return a change as REST shows it."""
        return cls(**{name: getattr(change, name) for name in cls.model_fields})


class SpanInfo(BaseModel):
    """One container of an application."""

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

    @classmethod
    def of(cls, span: InstanceSpan) -> SpanInfo:
        """Return a container as REST shows it."""
        return cls(**{name: getattr(span, name) for name in cls.model_fields})


class ApplicationHistory(BaseModel):
    """What happened to an application."""

    changes: list[StateChangeInfo]
    instances: list[SpanInfo]


class ScaleRequest(Body):
    """How many elastic instances a service shall have."""

    service: Name
    count: int = Field(ge=0, le=100_000)


class KillRequest(Body):
    """Why an application is killed."""

    reason: str = Field("", max_length=500)


class CheckAnswer(BaseModel):
    """What is wrong with a submission."""

    ok: bool
    mistakes: list[str]
    """A line for each."""
    warnings: list[str] = []
    to_give: list[str] = []
    """Parameters that a submission has to give."""
    parameters: dict[str, dict[str, Any]] = {}
    memory_mb: int | None = None
    vcores: int | None = None


class TemplateBody(Body):
    """A template to store."""

    text: str = Field(min_length=1)
    """YAML or JSON."""


class TemplateBrief(BaseModel):
    """One version of a template."""

    name: str
    version: int
    title: str
    owner: str
    created_s: float
    deleted: bool

    @classmethod
    def of(cls, template: StoredTemplate) -> TemplateBrief:
        """Return a version as REST shows it."""
        return cls(**{name: getattr(template, name) for name in TemplateBrief.model_fields})


class TemplateInfo(TemplateBrief):
    """A version of a template with its text, its parameters, and the other versions."""

    text: str
    parameters: dict[str, dict[str, Any]]
    versions: list[TemplateBrief]


class QuotaInfo(BaseModel):
    """A user's quota and what is used of it."""

    user: str
    quota: Quota
    applications: int
    memory_mb: int
    vcores: int
    elastic: int
    waiting: int


class ServerHealth(BaseModel):
    """Whether the app server works, and its problems."""

    status: str
    version: str
    started_s: float
    store: str
    applications: dict[str, int]
    problems: list[str]
