"""Which running task a second copy of it would beat (Apollo, OSDI '14, §3.4, "Straggler Detection").

A task tells how far it is (data read, CPU used), its siblings how fast such tasks usually are. Both copies run until
one of them is over, or until the second has caught up with the first, which is then stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from pydantic import Field

from policies.base import PolicyConfig


class Stragglers(PolicyConfig):
    """Settings of the detection of stragglers."""

    gain_ratio: float = Field(
        0.5, gt=0, le=1, json_schema_extra={"source": "Apollo §3.4: significantly less; figure own"}
    )
    """A copy is worth it when it would be over in less than this share of the task's remaining time."""
    least_ran_s: float = Field(5.0, ge=0, json_schema_extra={"source": "own: a rate takes time to be known"})
    """A task that ran less long is not looked at."""


@dataclass(frozen=True, slots=True)
class StragglerProgress:
    """How far a task is: `done` of `total`, in any unit of work; 0 < total."""

    done: float
    total: float
    ran_s: float

    @property
    def left_s(self) -> float:
        """Return how long it will still run at its own rate; infinity when it has done nothing."""
        return (self.total - self.done) * self.ran_s / self.done if self.done > 0 else inf


def rerun(task: StragglerProgress, usual_rate: float, wait_s: float, cfg: Stragglers) -> bool:
    """Return whether a second copy is worth it.

    usual_rate: work in a second of the siblings that are over; 0: none is. wait_s: of the copy.
    """
    if task.ran_s < cfg.least_ran_s or usual_rate <= 0:
        return False
    return wait_s + task.total / usual_rate < cfg.gain_ratio * task.left_s


def catches_up_s(ahead: float, rate: float, copy_rate: float) -> float:
    """Return when a copy that begins now will be as far as the first, which is `ahead`; infinity for never."""
    return ahead / (copy_rate - rate) if copy_rate > rate else inf
