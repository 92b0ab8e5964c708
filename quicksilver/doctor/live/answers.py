"""The answers of running daemons that the doctor reads, as values within bounds.

One of them, a job's configuration, comes from a user's own program: it may be anything, and reaches a terminal.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from quicksilver.common.command_line.cells import printable

TEXT_CHARACTERS: Final = 10_000
ROWS: Final = 100_000
"""Of a list."""


def _text(value: object) -> str:
    return "" if value is None else printable(str(value)[:TEXT_CHARACTERS])


def _raw(value: object) -> str:
    return "" if value is None else str(value)


Text = Annotated[str, BeforeValidator(_text)]
Raw = Annotated[str, BeforeValidator(_raw)]
"""Of a daemon of Hadoop, to be compared with its file."""


class _AnswerPart(BaseModel):
    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class _Cluster(_AnswerPart):
    version: Text = Field("", alias="resourceManagerVersion")
    hadoop_version: Text = Field("", alias="hadoopVersion")
    ha_state: Text = Field("", alias="haState")


class ClusterAnswer(_AnswerPart):
    """The ResourceManager of itself."""

    info: _Cluster = Field(_Cluster(), alias="clusterInfo")


class _Property(_AnswerPart):
    key: Raw = ""
    value: Raw = ""
    resource: Raw = ""


class ConfAnswer(_AnswerPart):
    """What a daemon of Hadoop runs with."""

    properties: list[_Property] = Field(max_length=ROWS)


class _NodeRow(_AnswerPart):
    id: Text
    state: Text = ""
    version: Text = ""
    health: Text = Field("", alias="healthReport")
    web: Text = Field("", alias="nodeHTTPAddress")


class _NodeRows(_AnswerPart):
    node: list[_NodeRow] = Field([], max_length=ROWS)


class LiveNodesAnswer(_AnswerPart):
    """The nodes that the ResourceManager lists; null without any."""

    nodes: _NodeRows | None = None


class _NodeManager(_AnswerPart):
    version: Text = Field("", alias="nodeManagerVersion")


class NodeAnswer(_AnswerPart):
    """A NodeManager of itself."""

    info: _NodeManager = Field(_NodeManager(), alias="nodeInfo")


class HealthAnswer(_AnswerPart):
    """A proxy of itself."""

    version: Text = ""
    mode: Text = ""
    listen: Text = ""
    upstream: Text = ""
    problems: list[Text] = Field([], max_length=ROWS)


class SidecarRow(_AnswerPart):
    """A node as a proxy lists it."""

    id: Text
    usable: bool = False
    why_unusable: Text = ""
    sidecar_url: Text = ""


class SidecarsAnswer(_AnswerPart):
    """A page of nodes of a proxy."""

    items: list[SidecarRow] = Field([], max_length=ROWS)
    more: bool = False


class VersionAnswer(_AnswerPart):
    """A sidecar of itself."""

    version: Text = ""


class _AppRow(_AnswerPart):
    id: Annotated[str, Field(pattern=r"^application_\d{1,20}_\d{1,20}$")]


class _AppRows(_AnswerPart):
    app: list[_AppRow] = Field([], max_length=ROWS)


class LiveAppsAnswer(_AnswerPart):
    """Applications that run; null without any."""

    apps: _AppRows | None = None


class _JobProperty(_AnswerPart):
    name: Text = ""
    value: Text = ""


class _JobProperties(_AnswerPart):
    properties: list[_JobProperty] = Field([], alias="property", max_length=ROWS)

    @field_validator("properties", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return [value] if isinstance(value, dict) else value  # one alone comes without a list


class JobAnswer(_AnswerPart):
    """The configuration of a job, by its own application master."""

    conf: _JobProperties = _JobProperties()
