"""An application whose asks wait for places, as the `dispatch` policies see it."""

from __future__ import annotations

from dataclasses import dataclass

from policies.model import AppView
from policies.value_types import value_type


@value_type
@dataclass(frozen=True, slots=True)
class WaitingApp:
    """An application with containers that wait at the proxy until a node has a place for them."""

    app: AppView
    ask_count: int
    """Containers that wait for a place."""
    container_count: int = 0
    """Containers that it has: waiting at nodes, running, or asked for."""
    attained_s: float = 0.0
    """Service of its containers over all nodes, the ended ones included; seconds of run time."""
    expected_s: float = 10.0
    """How long a task of it is expected to run."""
    waits_since_s: float = 0.0
    """Since when it waits without a new place; Unix seconds."""
    asked_s: float = 0.0
    """When it asked for the first of the containers that wait; Unix seconds."""

    @property
    def open_s(self) -> float:
        """Return the expected work of all its containers that wait, run or are asked for, in task-seconds."""
        return self.expected_s * (self.ask_count + self.container_count)
