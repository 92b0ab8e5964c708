"""Answers of the REST API on the proxy itself: its settings, bypass and health. Times are Unix seconds."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class ActivePolicy(BaseModel):
    """A policy in use, with its settings."""

    slot: str
    name: str
    settings: dict[str, Any] = {}
    rules: list[dict[str, Any]] = []
    """For a slot whose policy is chosen by rules: the rules in order."""
    origin: str = ""
    """Where it comes from: `preset NAME`, `file`, `file over preset NAME`, `built in`."""


class WindowInfo(BaseModel):
    """A window, in which an alternative is in force."""

    name: str
    use: str
    """The alternative."""
    queues: list[str]
    cron: str
    length_s: float
    drain_s: float
    open: bool
    begins_s: float | None
    """Of the opening that lasts, or of the next one; null if there will be none."""
    ends_s: float | None


class RolloutInfo(BaseModel):
    """A part of the applications that an alternative decides on."""

    use: str
    queues: list[str]
    percent: float
    running: int
    """Applications that run now, in these queues."""
    taken: int
    """Of these: on which the alternative decides."""


class PoliciesInfo(BaseModel):
    """The policies in use, and the names that each slot could take."""

    active: list[ActivePolicy]
    available: dict[str, list[str]]
    source: str = ""
    """The file that they were read from."""
    version: str = ""
    """Number and digest of the settings, and the windows that are open."""
    windows_open: list[str] = []
    alternatives: list[str] = []
    preset: str = ""
    """Below the file's settings; "" for none."""
    mode: str = "active"
    queues: list[str] = []
    """YARN queues whose containers may be queueable, as globs."""
    time_zone: str = ""
    """Of the windows; "" for the proxy's."""
    windows: list[WindowInfo] = []
    rollouts: list[RolloutInfo] = []
    shadow: list[str] = []
    """Alternatives that are asked and not followed."""
    alternative_settings: dict[str, Any] = {}
    """What each alternative has otherwise."""
    deciding: dict[str, int] = {}
    """Running applications by the alternative that decides on them; "" for the base."""


class RolloutArm(BaseModel):
    """Applications on which one set of settings decided."""

    use: str
    """The alternative; "" for the base."""
    applications: int
    elapsed_p50_s: float | None
    elapsed_p95_s: float | None
    containers_g: int
    containers_q: int
    queueing_mean_s: float | None
    """Of queueable containers, at their nodes."""
    kills: int
    lost_s: float
    work_s: float
    """Task-seconds that were not lost."""


class RolloutFigures(BaseModel):
    """How applications of a roll-out did, beside the others of the same queues."""

    since_s: float
    """Applications that were submitted since; by default since the roll-outs last changed."""
    complete: bool
    """False where there were more applications than are counted: then these are the newest ones."""
    arms: list[RolloutArm]


class ChangeInfo(BaseModel):
    """A change of the settings, or an attempt at one; values as JSON."""

    id: str
    at_s: float
    who: str
    how: str
    """start, sighup, rest, command, window."""
    ok: bool
    path: str
    """The setting; `version` for that of all settings; "" where a file was refused."""
    before: str
    after: str
    error: str


class Difference(BaseModel):
    """One decision that an alternative would have made otherwise."""

    at_s: float
    app_id: str
    chosen: str
    """The decision in force."""
    other: str
    """The alternative's decision."""
    reason: str
    """The alternative's."""


class ComparisonInfo(BaseModel):
    """How an alternative of `policies.shadow` compares with what is in force, in one slot."""

    alternative: str
    slot: str
    policy: str
    active: str
    """The policy in force."""
    since_s: float
    decisions: int = Field(ge=0)
    differ: int = Field(ge=0)
    differ_percent: float = Field(ge=0, le=100)
    wait_less_s: float | None
    """Of placements: by how much a container would have waited less, by estimates; mean, negative for more."""
    faults: int = Field(ge=0)
    left_out: int = Field(ge=0)
    """Decisions that were not compared because there were many."""
    examples: list[Difference]


class BypassInfo(BaseModel):
    """Applications in bypass because of the error budget or an order, with the reasons."""

    order: Literal["on", "off", "auto"]
    """The admin's order; auto: the error budget decides."""
    phase: Literal["active", "bypass", "trial"]
    """Of all applications; trial: a part of them is active again."""
    why: str
    applications: dict[str, str] = {}
    """Those in bypass by their own error budget, and why; 1000 at most."""


class BypassOrder(BaseModel):
    """An admin's order."""

    model_config = ConfigDict(extra="forbid")

    order: Literal["on", "off", "auto"]
    who: str = Field("", max_length=100)
    """The user on whose behalf the command was given; the peer's address is added."""


class Health(BaseModel):
    """Whether the proxy works; `problems` has a sentence with a remedy for each problem.

    `degraded` if there is a problem. `notices` has what was ordered (drained nodes, bypass), nodes whose sidecar has
    not reported yet, and unusable nodes while they are at most 5 %.
    """

    status: Literal["ok", "degraded"]
    version: str
    settings_version: str = ""
    """Number and digest of the settings in use, and the windows that are open."""
    started_s: float
    mode: str
    listen: str
    upstream: str
    rm_web: str
    rm_reachable: bool
    nodes: int = Field(ge=0)
    nodes_usable: int = Field(ge=0)
    connections: int = Field(ge=0)
    attempts: int = Field(ge=0)
    restored: int = 0
    """Attempts of the process before, with which this one continued."""
    store: str = ""
    """The store's URL without its password."""
    store_backlog: int = 0
    problems: list[str] = []
    notices: list[str] = []
