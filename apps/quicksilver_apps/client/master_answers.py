"""The answers of an application master as values within bounds. A user's container gives them: they may be anything."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from quicksilver.common.http.rest_errors import RefusedError

MASTER_ANSWER_BYTES: Final = 8 << 20
"""Of one answer: that of a master with 10,000 instances has some 5 MB."""
MASTER_SERVICES: Final = 50
"""As many as a description may have."""
MASTER_INSTANCES: Final = 20_000
"""Of all services together."""
MASTER_EVENTS: Final = 1000
"""A master remembers 200."""
MASTER_PORTS: Final = 1000
"""Of an instance."""
MASTER_NAME_CHARACTERS: Final = 300
"""Of a name, state, node or id."""
MASTER_TEXT_CHARACTERS: Final = 20_000
"""Of a diagnosis, an event or a link."""
MASTER_INTEGER: Final = 2**31 - 1
MASTER_TIME_S: Final = 1e11
"""Unix seconds, far in the future."""
_ID: Final = r"(container_(e\d{1,10}_)?\d{1,20}_\d{1,10}_\d{1,10}_\d{1,20})?"
_OWNER: Final = re.compile(r"container_(?:e\d+_)?(\d+_\d+)_\d+_\d+")
_ANY: Final = r"^[^\x00]*$"
"""A database takes no NUL."""

Name = Annotated[str, StringConstraints(max_length=MASTER_NAME_CHARACTERS, pattern=_ANY)]
Text = Annotated[str, StringConstraints(max_length=MASTER_TEXT_CHARACTERS, pattern=_ANY)]
Count = Annotated[int, Field(ge=0, le=MASTER_INTEGER)]
Time = Annotated[float, Field(ge=0, le=MASTER_TIME_S)]
M = TypeVar("M", bound=BaseModel)


class _RecordPart(BaseModel):
    """Base of the parts; what a later master may say more is skipped."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False, populate_by_name=True)


class InstanceView(_RecordPart):
    """One instance."""

    index: Count
    container_id: Annotated[str, StringConstraints(max_length=MASTER_NAME_CHARACTERS, pattern=f"^{_ID}$")] = ""
    node: Name = ""
    kind: Name = ""
    state: Name = ""
    exit_status: Annotated[int, Field(ge=-MASTER_INTEGER - 1, le=MASTER_INTEGER)] | None = None
    restarts: Count = 0
    ports: dict[Name, Annotated[int, Field(ge=0, le=65535)]] = Field({}, max_length=MASTER_PORTS)
    links: dict[Name, Text] = Field({}, max_length=MASTER_PORTS)
    log_url: Text = ""
    since_s: Time = 0.0
    diagnostics: Text = ""


class ServiceView(_RecordPart):
    """One service."""

    name: Name
    core: Count = 0
    elastic: Count = 0
    wanted: Count = 0
    running: Count = 0
    ready: Count = 0
    state: Name = ""
    instances: list[InstanceView] = Field([], max_length=MASTER_INSTANCES)


class EventView(_RecordPart):
    """One event."""

    seq: Annotated[int, Field(ge=0, le=2**53)] = 0
    at_s: Time = 0.0
    service: Name = ""
    index: Count | None = None
    text: Text = ""


class ApplicationView(_RecordPart):
    """The whole application."""

    application_id: Name = ""
    name: Name = ""
    app_class: Name = Field("", alias="class")
    state: Name = ""
    final: Name = ""
    diagnostics: Text = ""
    started_s: Time = 0.0
    services: list[ServiceView] = Field([], max_length=MASTER_SERVICES)
    events: list[EventView] = Field([], max_length=MASTER_EVENTS)

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if sum(len(each.instances) for each in self.services) > MASTER_INSTANCES:
            raise ValueError(f"has more than {MASTER_INSTANCES} instances")
        return self


class EventsView(_RecordPart):
    """Events after a number, and where to go on."""

    events: list[EventView] = Field(max_length=MASTER_EVENTS)
    next: Annotated[int, Field(ge=0, le=2**53)]


def parsed(model: type[M], body: bytes, url: str) -> M:
    """Return an answer's body as a `model`. Raises RefusedError, which names the first thing that is wrong."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"][:6])
        problem = f"the master's answer is not understood: {where + ': ' if where else ''}{first['msg'][:200]}"
        raise RefusedError(problem, place=url, status=200, code="not-understood") from error


def check_owner(services: list[ServiceView], application_id: str, url: str) -> None:
    """Check that all containers are of the application. Raises RefusedError."""
    for service in services:
        for instance in service.instances:
            if instance.container_id and not is_of(instance.container_id, application_id):
                problem = f"the master names {instance.container_id}, which is no container of {application_id}"
                raise RefusedError(problem, place=url, status=200, code="foreign-container")


def is_of(container_id: str, application_id: str) -> bool:
    """Return whether a text is the id of a container of an application."""
    match = _OWNER.fullmatch(container_id)
    return match is not None and f"application_{match[1]}" == application_id


def as_data(view: _RecordPart) -> dict[str, Any]:
    """Return an answer as JSON data, as the master sends it."""
    return view.model_dump(by_alias=True)
