"""What the proxy remembers of its decisions: rows for the store, the REST API and `quicksilver explain`."""

from __future__ import annotations

from dataclasses import dataclass

from policies.model import Kind, Resources


@dataclass(frozen=True, slots=True)
class GrantRecord:
    """One container as it was granted; times are Unix seconds."""

    container_id: str
    app_id: str
    attempt_id: str
    kind: Kind
    """What the ResourceManager granted it as."""
    route_reason: str
    node_id: str
    wanted_node: str | None
    """Where it was steered to; None for a guaranteed one."""
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
    """In shadow mode: what the route policy would have made of it."""


@dataclass(frozen=True, slots=True)
class CompletionRecord:
    """One container's end as the application master was told."""

    container_id: str
    app_id: str
    exit_status: int
    original_exit_status: int | None
    """What the ResourceManager said, where it was translated; None when quicksilver made the status itself."""
    diagnostics: str
    at_s: float
    own: bool = False
    """Made by the proxy: the container never started."""

    @property
    def translated(self) -> bool:
        """Whether the application master was told another status than the ResourceManager gave."""
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
