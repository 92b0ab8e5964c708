"""Give places to the application with the least open work, in levels: no durations need to be known.

Work is the number of tasks that wait or run, times the duration that is expected of one; where nothing is known that is
the same for all, and the levels are so wide that it hardly matters. `within` says who goes first within a level.
"""

from __future__ import annotations

from enum import StrEnum
from math import inf
from typing import Final

from pydantic import Field

from policies.base import Policy
from policies.common.service_levels import Levels
from policies.waiting import WaitingApp

_AGES_S: Final = 1e11
"""Above all submissions, which are Unix seconds: within a level an age counts less than one level."""
_MOST: Final = 0.5
"""Of a level: what comes within it counts less than the next one."""


class Within(StrEnum):
    """Who goes first of the applications of one level."""

    SHARED = "shared"
    """Nobody has claims: they share the places, and the fewest containers go first."""
    AGE = "age"
    """The earliest submission has claims against the others."""
    WORK = "work"
    """The least open work has claims against the others."""


class ByWork(Levels):
    """Settings of levels."""

    within: Within = Field(Within.WORK, json_schema_extra={"source": "own; Eagle thesis §3.4: SRPT"})
    """Which application goes first within a level: none has claims against the others, and all share the places
    (shared); that of the earliest submission (age); that of the least open work (work). With age and work two jobs of
    a level go one after the other, so that the first ends sooner and the last no later."""


def key(applicant: WaitingApp, cfg: ByWork, now_s: float) -> tuple[float, ...]:
    """Return (level of the open work, containers held, submission); what has claims within a level is part of it."""
    starves = cfg.starves(applicant, now_s)
    level = 0.0 if starves else cfg.level(applicant.open_s)
    if cfg.within is Within.AGE:
        level += min(max(applicant.app.submitted_s, 0.0) / _AGES_S, _MOST)
    elif cfg.within is Within.WORK and not starves and (open_s := applicant.open_s) < inf:
        level += _MOST * open_s / (open_s + cfg.base_s * cfg.factor**level)
    return (level, float(applicant.container_count), applicant.app.submitted_s)


POLICY = Policy("levels", ByWork, key)
