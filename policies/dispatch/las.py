"""Give places to the application with the least attained service, in levels (Kairos, thesis §4.2, for whole jobs)."""

from __future__ import annotations

from policies.base import Policy
from policies.common.service_levels import Levels
from policies.waiting import WaitingApp


class Las(Levels):
    """Settings of las."""


def key(applicant: WaitingApp, cfg: Las, now_s: float) -> tuple[float, ...]:
    """Return (level of the attained service, containers held, submission)."""
    level = 0.0 if cfg.starves(applicant, now_s) else cfg.level(applicant.attained_s)
    return (level, float(applicant.container_count), applicant.app.submitted_s)


POLICY = Policy("las", Las, key)
