"""Give places to the application with the least open work, in levels: no durations need to be known.

Work is the number of tasks that wait or run, times the duration that is expected of one; where nothing is known that is
the same for all, and the levels are so wide that it hardly matters. Within a level the fewest containers go first, or
the earliest submission.
"""

from __future__ import annotations

from typing import Final

from pydantic import Field

from policies.base import Policy
from policies.common.service_levels import Levels
from policies.waiting import WaitingApp

_AGES_S: Final = 1e11
"""Above all submissions, which are Unix seconds: within a level an age counts less than one level."""


class ByWork(Levels):
    """Settings of levels."""

    oldest_first: bool = Field(False, json_schema_extra={"source": "own"})
    """Whether the earliest submission within a level has claims against the others; else they share the places, and
    the fewest containers go first."""


def key(applicant: WaitingApp, cfg: ByWork, now_s: float) -> tuple[float, ...]:
    """Return (level of the open work, containers held, submission); with `oldest_first` (level and submission, ..)."""
    level = 0.0 if cfg.starves(applicant, now_s) else cfg.level(applicant.open_s)
    if cfg.oldest_first:
        level += min(max(applicant.app.submitted_s, 0.0) / _AGES_S, 0.5)
    return (level, float(applicant.held), applicant.app.submitted_s)


POLICY = Policy("levels", ByWork, key)
