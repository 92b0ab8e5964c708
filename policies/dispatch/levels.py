"""Give places to the application with the least open work, in levels: no durations need to be known.

Work is the number of tasks that wait or run, times the duration that is expected of one; where nothing is known that is
the same for all, and the levels are so wide that it hardly matters. Within a level the fewest containers go first.
"""

from __future__ import annotations

from policies.base import Policy
from policies.common.service_levels import Levels
from policies.waiting import WaitingApp


class ByWork(Levels):
    """Settings of levels."""


def key(applicant: WaitingApp, cfg: ByWork, now_s: float) -> tuple[float, ...]:
    """Return (level of the open work, containers held, submission)."""
    level = 0.0 if cfg.starves(applicant, now_s) else cfg.level(applicant.open_s)
    return (level, float(applicant.held), applicant.app.submitted_s)


POLICY = Policy("levels", ByWork, key)
