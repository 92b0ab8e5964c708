"""Short jobs first, by suspending long tasks that use more than their share (Big-C; Kairos thesis §4.5.1).

Each of two classes has a share of the slots. Where one does not use its own the other may, but only short tasks suspend
long ones, and never those that are within the share of the long class. A suspended task keeps its memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field

from policies.base import PolicyConfig


class Klass(StrEnum):
    """The classes, by estimated run time (`policies.common.short_long`)."""

    SHORT = "short"
    LONG = "long"


class ClassShares(PolicyConfig):
    """Settings of the shares."""

    short_ratio: float = Field(0.95, ge=0, le=1, json_schema_extra={"source": "Kairos thesis §4.5.1: Big-C's default"})
    """Share of the slots that belongs to short jobs."""
    suspended: int = Field(4, ge=0, json_schema_extra={"unit": "tasks", "source": "own; §4.5.2, Q: as many as Kairos"})
    """Tasks that may stand still on a node, for the memory that they keep; 0: none is suspended."""


@dataclass(frozen=True, slots=True)
class Use:
    """The slots of the cluster: all, and those of long tasks that run; and which classes have tasks that wait."""

    slots: int
    long: int
    short_waits: bool
    long_waits: bool


def long_slots(slots: int, cfg: ClassShares) -> int:
    """Return how many slots belong to long jobs, rounded."""
    return round((1 - cfg.short_ratio) * slots)


def free_slot_goes_to(use: Use, cfg: ClassShares) -> Klass | None:
    """Return the class that a free slot goes to: long below its share, else short, else long; None when none waits."""
    if use.long_waits and (use.long < long_slots(use.slots, cfg) or not use.short_waits):
        return Klass.LONG
    return Klass.SHORT if use.short_waits else None


def may_suspend(use: Use, suspended: int, cfg: ClassShares) -> bool:
    """Return whether a short task may take the slot of a long one on a node where `suspended` stand still already."""
    return use.short_waits and use.long > long_slots(use.slots, cfg) and suspended < cfg.suspended
