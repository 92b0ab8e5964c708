"""Give places to the application that has the fewest containers, as the Fair Scheduler does within a queue."""

from __future__ import annotations

from policies.base import Policy
from policies.common.service_levels import Starving
from policies.waiting import WaitingApp


class Fair(Starving):
    """Settings of fair."""


def key(applicant: WaitingApp, cfg: Fair, now_s: float) -> tuple[float, ...]:
    """Return (containers held, submission); 0 containers for one that got no place for long."""
    containers = 0 if cfg.starves(applicant, now_s) else applicant.container_count
    return (float(containers), applicant.app.submitted_s)


POLICY = Policy("fair", Fair, key)
