"""Give places to the application that was submitted first, as YARN's FIFO policy and the Capacity Scheduler do."""

from __future__ import annotations

from policies.base import NoSettings, Policy
from policies.waiting import WaitingApp


def key(applicant: WaitingApp, cfg: NoSettings, now_s: float) -> tuple[float, ...]:
    """Return (submission,)."""
    return (applicant.app.submitted_s,)


POLICY = Policy("fifo", NoSettings, key)
