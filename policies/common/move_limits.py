"""Settings that policies have in common which move waiting containers to other nodes: `steal` and `correct`."""

from __future__ import annotations

from pydantic import Field

from policies.base import PolicyConfig


class Moving(PolicyConfig):
    """Bounds that the proxy keeps, whatever the policy chooses; a policy of another package may have them too."""

    max_moves: int = Field(2, ge=1, json_schema_extra={"unit": "times", "source": "own; below retries_to_g"})
    """A task that was shed or killed this many times is not moved any more."""
    max_per_round: int = Field(50, ge=1, json_schema_extra={"unit": "containers", "source": "own"})
    """Containers that are moved in one round of the coordinator, which comes each second."""
    max_per_node: int = Field(8, ge=1, json_schema_extra={"unit": "containers", "source": "own"})
    """Containers on their way from one node, or to one node, at a time."""
    timeout_s: float = Field(15.0, gt=0, json_schema_extra={"source": "own; reports 1 s, heartbeats of AMs 1 to 3 s"})
    """How long the room at the new node is kept until the application asks again."""
