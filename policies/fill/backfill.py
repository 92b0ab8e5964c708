"""Let a smaller container use room that the first of the queue does not fit into (Apollo, OSDI '14, §3.1).

It may start if no other is expected to start later for that. Estimates err, so it counts as one that overtakes, and
the first of the queue is overtaken by no more than its limit.
"""

from __future__ import annotations

from pydantic import Field

from policies.base import Policy
from policies.common.overtaking import Bypassing, work_s
from policies.model import ContainerView, Gap


class Backfill(Bypassing):
    """Settings of backfill. The limits are those of the first of the queue; they hold whatever the order has."""

    delay_ratio: float = Field(
        0.0, ge=0, json_schema_extra={"source": "Apollo §3.1: without affecting the expected start of others"}
    )
    """By how much others may start later, as a multiple of the expected duration of the container that fills."""


def fill(waiting: ContainerView, gap: Gap, cfg: Backfill) -> bool:
    """Return whether no other is delayed by more than allowed, and the first of the queue may be overtaken."""
    within = gap.head.bypassed_s + work_s(waiting) <= cfg.limit_s(gap.head)
    return within and gap.delay_s <= cfg.delay_ratio * waiting.expected_s


POLICY = Policy("backfill", Backfill, fill)
