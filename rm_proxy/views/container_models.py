"""Answers of the REST API on one container: the decisions about it, and its life. Times are Unix seconds."""

from __future__ import annotations

from math import isfinite
from typing import Literal

from pydantic import BaseModel

from policies.model import Resources
from quicksilver.common.messages import ContainerReport
from rm_proxy.views.cluster_models import ApplicationRecord


class Score(BaseModel):
    """A candidate of a placement; lower is better, null is infinite."""

    node: str
    score: float | None


class Decision(BaseModel):
    """A container as it was allocated, and why so."""

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
    """A decision beside those of allocated containers."""

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
    def of(cls, source: object) -> ChoiceInfo:
        """Make one of a record or a row of the store; infinite scores become null."""
        same = {name: getattr(source, name) for name in cls.model_fields}
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
