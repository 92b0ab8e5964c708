"""Answers of the proxy's REST API. Times are Unix seconds, durations seconds, memory MB, as the names say."""

from __future__ import annotations

from math import isfinite
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from policies.model import NodeView, ParentView, QueueView, Resources
from quicksilver.common.messages import ContainerReport, Targets

T = TypeVar("T")


class Page(BaseModel, Generic[T]):
    """A part of a list."""

    items: list[T]
    offset: int
    more: bool
    """Whether there is more behind; ask again with offset + len(items)."""


class NodeInfo(BaseModel):
    """A node: YARN's record of it, and its sidecar's last report."""

    id: str
    host: str
    rack: str
    label: str = ""
    state: str = "RUNNING"
    """The ResourceManager's word."""
    usable: bool
    """Whether queueable containers may be placed here now."""
    why_unusable: str = ""
    capacity: Resources
    used_g: Resources
    used_q: Resources
    queue_length: int = 0
    queued_s: float = 0.0
    remaining_s: float = 0.0
    since_queueable_s: float = 0.0
    container_count: int = 0
    """Containers that run or wait here, application masters not counted; placements on their way are."""
    slots: int = 0
    """How many of them the node starts at once; 0 where its containers do not share cores."""
    shrunk: int = 0
    """How many of them gave way and stand still, or nearly so."""
    attained_sd_s: float = 0.0
    """Standard deviation of the service that they have attained."""
    free_physical_mb: int | None = None
    draining: bool = False
    report_age_s: float | None = None
    """Null when its sidecar never reported."""
    sidecar_url: str = ""
    settings_version: str = ""
    """Of the settings that the sidecar uses."""
    limits: list[str] = []
    """Functions that the sidecar lacks there, with the reasons."""
    targets: Targets | None = None
    """Limits sent to its sidecar: for shedding, and for the use by queueables; null before the first round."""

    @classmethod
    def of(cls, view: NodeView, **more: Any) -> NodeInfo:
        """Make one of a policy's view; `more` fills what the view does not have."""
        same = {name: getattr(view, name) for name in cls.model_fields if hasattr(view, name)}
        return cls(**(same | {"container_count": view.containers} | more))


class NodeDetail(NodeInfo):
    """A node with the containers that its sidecar knows."""

    containers: list[ContainerReport] = []


class ApplicationInfo(BaseModel):
    """An application that the proxy relays for."""

    id: str
    name: str = ""
    user: str = ""
    queue: str = ""
    type: str = "YARN"
    tags: list[str] = []
    priority: int = 0
    submitted_s: float = 0.0
    finished_s: float | None = None
    mode: str = "active"
    """active, shadow, bypass, or passthrough for an encrypted connection."""
    mode_reason: str = ""
    attempt_id: str = ""
    wanted_g: int = 0
    wanted_q: int = 0
    """Containers asked for and not delivered yet."""
    live_g: int = 0
    live_q: int = 0
    used_g: Resources = Resources()
    used_q: Resources = Resources()


class QueueInfo(BaseModel):
    """A YARN queue: the ResourceManager's numbers, and the queueable containers beside them."""

    name: str
    max_capacity: Resources
    used_g: Resources
    used_q: Resources
    """By queueable containers: wanted, waiting or running."""
    left_q: Resources | None = None
    """Resources that the quota leaves to further queueable containers; null where no quota counts by queue."""
    user_used_q: dict[str, Resources] = {}
    labels: list[str] = []
    priority: int = 0
    queueable: bool = True
    """Whether `policies.queues` lets queueable containers into this queue."""

    @classmethod
    def of(cls, view: QueueView, **more: Any) -> QueueInfo:
        """Make one of a policy's view; `more` fills what the view does not have."""
        same = {name: getattr(view, name) for name in cls.model_fields if hasattr(view, name)}
        return cls(**(same | {"labels": sorted(view.labels)} | more))


class QueueUser(BaseModel):
    """A user of a YARN queue."""

    user: str
    used_g: Resources
    """By guaranteed containers, application masters included."""
    used_q: Resources
    left_q: Resources | None = None
    """Resources that the quota leaves to the user's further queueables; null where no quota counts by queue."""


class QueueAbove(BaseModel):
    """A queue above another one, with the use of all below it."""

    name: str
    max_capacity: Resources
    used_g: Resources
    used_q: Resources

    @classmethod
    def of(cls, view: ParentView) -> QueueAbove:
        """Make one of a policy's view."""
        return cls(**{name: getattr(view, name) for name in cls.model_fields})


class QueueDetail(QueueInfo):
    """A YARN queue with its users and what limits it from above."""

    user_limit: Resources | None = None
    """The scheduler's limit of one user, guaranteed and queueable; null for no limit."""
    users: list[QueueUser] = []
    above: list[QueueAbove] = []
    """The nearest first."""
    cluster: Resources = Resources()
    """Sum of the usable nodes' resources."""
    cluster_used_q: Resources = Resources()


class Score(BaseModel):
    """A candidate of a placement; lower is better, null is infinite."""

    node: str
    score: float | None


class Decision(BaseModel):
    """A container as it was delivered, and why so."""

    container_id: str
    app_id: str
    attempt_id: str
    kind: Literal["G", "Q"]
    route_reason: str
    node_id: str
    wanted_node: str | None
    place_reason: str
    scores: list[Score]
    unit: str
    priority: int
    resources: Resources
    expected_s: float
    asked_s: float
    granted_s: float
    delay_s: float
    shadow: Literal["G", "Q"] | None
    version: str = ""
    """Of the settings by which it became guaranteed or queueable; "" where no policy decided."""
    place_version: str = ""
    """Of the settings by which its node was chosen; "" where none was."""
    spread_s: float = 0.0
    """Standard deviation of `expected_s`; 0 when not known."""
    expected_by: str = ""
    """Source of `expected_s`: task, stage, name, tag, rule, default."""
    retries: int = 0
    """How often its task was shed or killed before."""
    follows: str = ""
    """The container that was lost before and for which this one was asked."""


class ChoiceInfo(BaseModel):
    """A decision beside those of delivered containers."""

    id: str
    at_s: float
    slot: str
    policy: str
    app_id: str
    container_id: str
    node_id: str
    chosen: str
    reason: str
    scores: list[Score]
    unit: str
    alternative: str
    other: str
    weight: int
    """For how many decisions it stands, where they were sampled."""

    @classmethod
    def of(cls, made: object) -> ChoiceInfo:
        """Make one of a record or a row of the store; infinite scores become null."""
        same = {name: getattr(made, name) for name in cls.model_fields}
        pairs = ((node, None if score is None or not isfinite(score) else score) for node, score in same["scores"])
        return cls(**(same | {"scores": [Score(node=node, score=score) for node, score in pairs]}))


class EventInfo(BaseModel):
    """An event that a node's sidecar reported of a container."""

    node_id: str
    kind: str
    at_s: float
    reason: str
    waited_s: float
    ran_s: float | None
    attained_s: float | None = None
    """CPU seconds that it was given by then."""
    times_shrunk: int = 0
    cause: str = ""
    """Who wanted it, in one word, see the sidecar's events; of an end: for which container it was shrunk last."""
    saved_s: float = 0.0
    """CPU seconds that kills in place of its shrinks would have lost."""


class CompletionInfo(BaseModel):
    """A container's end as reported to its application master."""

    exit_status: int
    original_exit_status: int | None
    diagnostics: str
    at_s: float
    own: bool = False
    """Made by the proxy, because the container never started."""


class ApplicationRecord(BaseModel):
    """An application as it was recorded last."""

    id: str
    name: str
    user: str
    queue: str
    type: str
    tags: list[str]
    priority: int
    submitted_s: float
    finished_s: float | None


class LiveContainer(BaseModel):
    """A container as the last report of its node has it."""

    node_id: str
    report_age_s: float
    container: ContainerReport


class Explanation(BaseModel):
    """The known history of one container."""

    container_id: str
    story: list[str] = []
    """The same in sentences, in order."""
    decision: Decision | None = None
    application: ApplicationRecord | None = None
    live: LiveContainer | None = None
    events: list[EventInfo] = []
    choices: list[ChoiceInfo] = []
    """Decisions about it after its delivery: what moved, promoted or shed it."""
    completion: CompletionInfo | None = None
    followed_by: list[str] = []
    """Containers that were asked for because it was lost."""


class Delays(BaseModel):
    """A distribution of times; percentiles are nearest ranks, null without values."""

    count: int
    p50_s: float | None = None
    p95_s: float | None = None
    max_s: float | None = None


class NodeCounts(BaseModel):
    """Containers delivered on one node."""

    node_id: str
    guaranteed: int
    queueable: int


class Summary(BaseModel):
    """Counts and delays over a time, of all applications or of one."""

    since_s: float
    app_id: str | None
    guaranteed: int
    queueable: int
    nodes: list[NodeCounts]
    allocation_g: Delays
    """From ask to delivery."""
    allocation_q: Delays
    queueing: Delays
    """Waiting at the node, of queueable containers that started."""
    events: dict[str, int]
    """Container events by kind."""


class ActivePolicy(BaseModel):
    """A policy in use, with its settings."""

    slot: str
    name: str
    settings: dict[str, Any] = {}
    rules: list[dict[str, Any]] = []
    """For a slot whose policy is chosen by rules: the rules in order."""


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


class Comparison(BaseModel):
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
    """Whether the proxy works; `problems` has a sentence with a remedy for each problem."""

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
    store: str = ""
    """The store's URL without its password."""
    store_backlog: int = 0
    problems: list[str] = []
