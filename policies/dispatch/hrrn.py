"""Give places to the application with the highest response ratio, (wait + work) / work (HRRN, as Zoe §4 orders them).

Small applications go first, and each gains by waiting.
"""

from __future__ import annotations

from policies.base import NoSettings, Policy
from policies.waiting import WaitingApp


def key(applicant: WaitingApp, cfg: NoSettings, now_s: float) -> tuple[float, ...]:
    """Return (-response ratio, submission)."""
    ratio = 1 + max(0.0, now_s - applicant.asked_s) / max(applicant.open_s, 0.1)
    return (-ratio, applicant.app.submitted_s)


POLICY = Policy("hrrn", NoSettings, key)
