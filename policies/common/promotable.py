"""Shared by the policies that promote: the running containers that are worth it."""

from __future__ import annotations

from pydantic import Field

from policies.base import PolicyConfig
from policies.model import ContainerView


class Worth(PolicyConfig):
    """Settings of every policy that promotes."""

    min_ran_s: float = Field(0.0, ge=0, json_schema_extra={"source": "own"})
    """Minimum time that a container has run before it is promoted."""
    min_remaining_s: float = Field(10.0, ge=0, json_schema_extra={"source": "own"})
    """A container that is expected to be over sooner stays as it is: a promotion takes two heartbeats."""


def ran_s(running: ContainerView, now_s: float) -> float:
    """Return how long a container has run; 0 for one that waits."""
    return max(0.0, now_s - running.started_s) if running.started_s is not None else 0.0


def worth(running: ContainerView, cfg: Worth, now_s: float) -> bool:
    """Return whether a container runs, has done so for long enough and has enough left."""
    if running.started_s is None or ran_s(running, now_s) < cfg.min_ran_s:
        return False
    return running.remaining_s >= cfg.min_remaining_s
