"""Limits how much may overtake a waiting container; shared by the `order` policies that reorder.

Eagle (thesis §3.4.3): each start of a later one adds its expected duration to a counter of those that it overtakes, and
nothing may overtake whose duration would take a counter beyond the limit. So no container starves.
`sidecar.node.queue.waiting_queue` keeps the counters and the limit; the policies give the order alone.
"""

from __future__ import annotations

import math

from pydantic import Field

from policies.base import PolicyConfig
from policies.model import ContainerView

LEAST_S = 0.1
"""Minimum that a start counts, so that tasks without an expected duration cannot overtake for ever."""


class Bypassing(PolicyConfig):
    """Settings of an order in which later ones may overtake; the higher of the two limits counts."""

    bypass_ratio: float = Field(
        5.0,
        ge=0,
        json_schema_extra={"source": "Eagle thesis §3.5: 5 times the estimated duration of a task of its job"},
    )
    """Work that may overtake a waiting container, as a multiple of its own expected duration; `.inf` for no limit: then
    it may starve."""
    bypass_limit_s: float = Field(0.0, ge=0, json_schema_extra={"source": "own"})
    """Work that may overtake a waiting container, however short it is; the higher of the two limits counts; `.inf` for
    no limit."""

    def limit_s(self, waiting: ContainerView) -> float:
        """Return how much expected work, in seconds, may overtake this container."""
        if math.isinf(self.bypass_ratio):
            return math.inf
        return max(self.bypass_limit_s, self.bypass_ratio * work_s(waiting))


def work_s(container: ContainerView) -> float:
    """Return the seconds that the start of a container adds to the counters of those that it overtakes."""
    return max(LEAST_S, container.expected_s)


def yarn_first(waiting: ContainerView) -> tuple[float, float]:
    """Return the first part of the keys: the priorities of the YARN queue and of the application, higher first."""
    return -waiting.queue_priority, -waiting.app_priority


def within_job(waiting: ContainerView) -> tuple[float, float, float]:
    """Return the last part of the keys: the application's own precedence, then request priority, then arrival."""
    return waiting.precedence, waiting.priority, waiting.arrived_s
