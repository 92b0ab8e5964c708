"""Records of the proxy's decisions: rows for the store, the REST API and `quicksilver explain`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from policies.model import Kind, Resources
from policies.value_types import value_type

MAX_SCORES: Final = 100
"""Number of candidates that are stored of one decision, the best ones."""


@value_type
@dataclass(frozen=True, slots=True)
class GrantRecord:
    """One container as it was granted; times are Unix seconds."""

    container_id: str
    app_id: str
    attempt_id: str
    kind: Kind
    """The kind as which the ResourceManager granted it."""
    route_reason: str
    node_id: str
    wanted_node: str | None
    """The node to which it was steered; None for a guaranteed one."""
    place_reason: str
    scores: tuple[tuple[str, float], ...]
    """Candidates of the placement, best first."""
    unit: str
    priority: int
    resources: Resources
    expected_s: float
    asked_s: float
    granted_s: float
    shadow: Kind | None = None
    """In shadow mode: the kind that the route policy would have chosen."""
    spread_s: float = 0.0
    """Standard deviation of `expected_s`; 0 when not known."""
    expected_by: str = ""
    """Source of `expected_s`: task, stage, name, tag, rule, default."""
    retries: int = 0
    """How often its task was shed or killed before."""
    follows: str = ""
    """The container that was shed or killed before and for which this one was asked, as far as is known: the next
    ask of the same size counts as its retry."""
    version: str = ""
    """Version of the settings by which it became guaranteed or queueable; "" if no policy decided."""
    place_version: str = ""
    """Version of the settings by which its node was chosen; "" if none was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """A decision beside those of delivered containers, which `GrantRecord` has; times are Unix seconds."""

    at_s: float
    slot: str
    """Of the policy: route, place, quota, shed, steal, correct, police, promote ..."""
    policy: str
    chosen: str
    """The decision in few words: Q, G, a node id, shed, moved, 4096 MB ..."""
    reason: str
    app_id: str = ""
    """"" when it concerns no single application."""
    container_id: str = ""
    """"" when it concerns no single container, or one that is not granted yet."""
    node_id: str = ""
    """The node that was chosen or concerned; "" for none."""
    scores: tuple[tuple[str, float], ...] = ()
    """Candidates, best first."""
    unit: str = ""
    alternative: str = ""
    """Name of the alternative that decided in shadow; "" for the active policy's decision."""
    other: str = ""
    """For an alternative: its own choice in place of `chosen`; equal to it when they agree."""
    weight: int = 1
    """How many decisions of its kind this one stands for, where they were sampled."""
    id: str = ""
    """Unique for ever; assigned when the record is stored (`rm_proxy.service.sampling.decision_sampling`)."""


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """A change of the settings in force, or an attempt at one: who, when, what, from which value."""

    id: str
    at_s: float
    who: str
    how: str
    """start, sighup, rest, command, window."""
    ok: bool
    path: str
    """The setting, by its keys: policies.place.settings.k; "" for a file that was refused."""
    before: str
    """The value as JSON; "" when it was not set."""
    after: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class UseRecord:
    """Use of a node by guaranteed containers at a time of the week, over all weeks so far."""

    node_id: str
    slot: int
    """Quarter of an hour of the week, 0 is Monday 00:00 of the proxy's time zone: 0..671."""
    count: int
    mean_mb: float
    peak_mb: float
    mean_vcores: float
    peak_vcores: float
    at_s: float


@dataclass(frozen=True, slots=True)
class DurationRecord:
    """How long the tasks of one job name and request priority ran (Welford: count, mean, sum of squared deviations)."""

    app_type: str
    app_name: str
    priority: int
    count: int
    mean_s: float
    m2: float
    at_s: float


@value_type
@dataclass(frozen=True, slots=True)
class CompletionRecord:
    """One container's end as reported to the application master."""

    container_id: str
    app_id: str
    exit_status: int
    original_exit_status: int | None
    """The ResourceManager's status, where it was translated; None when quicksilver made the status itself."""
    diagnostics: str
    at_s: float
    own: bool = False
    """Made by the proxy: the container never started."""

    @property
    def translated(self) -> bool:
        """Whether the application master received another status than the ResourceManager gave."""
        return self.original_exit_status is not None


@dataclass(frozen=True, slots=True)
class AppRecord:
    """An application as the ResourceManager's REST describes it."""

    id: str
    queue: str
    user: str
    type: str
    name: str
    tags: tuple[str, ...]
    priority: int
    submitted_s: float
    finished_s: float | None = None
    final_status: str = ""
    """SUCCEEDED, FAILED or KILLED of an application that ended; "" before, or where it is not known."""
