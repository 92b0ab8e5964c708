"""Give places to the application with the highest response ratio, (wait + work) / work (HRRN, as Zoe §4 orders them).

Small applications go first, and each gains by waiting.
"""

from __future__ import annotations

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.waiting import WaitingApp


class ResponseRatio(PolicyConfig):
    """Settings of hrrn."""

    since_submission: bool = Field(False, json_schema_extra={"source": "own"})
    """Whether the wait begins with the application's submission. Otherwise it begins when containers begin
    to wait for places, anew in each stage."""


def key(applicant: WaitingApp, cfg: ResponseRatio, now_s: float) -> tuple[float, ...]:
    """Return (-response ratio, submission)."""
    from_s = applicant.app.submitted_s if cfg.since_submission else applicant.asked_s
    ratio = 1 + max(0.0, now_s - from_s) / max(applicant.open_s, 0.1)
    return (-ratio, applicant.app.submitted_s)


POLICY = Policy("hrrn", ResponseRatio, key)
