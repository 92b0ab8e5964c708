"""Give places to the application with the least expected work that waits or runs (shortest remaining processing time).

It rests on the estimated durations of tasks, and on their number.
"""

from __future__ import annotations

from policies.base import Policy
from policies.common.service_levels import Starving
from policies.waiting import WaitingApp


class Srpt(Starving):
    """Settings of srpt."""


def key(applicant: WaitingApp, cfg: Srpt, now_s: float) -> tuple[float, ...]:
    """Return (expected work in task-seconds, submission); no work for one that got no place for long."""
    open_s = 0.0 if cfg.starves(applicant, now_s) else applicant.open_s
    return (open_s, applicant.app.submitted_s)


POLICY = Policy("srpt", Srpt, key)
