"""Start containers of the job that was submitted first (Mercury, ATC '15, §4.3, queue reordering).

Before that, YARN's own wishes: the priority of the queue, then of the application. Within a job: what the application
needs first (precedence), then its request priority, then arrival.
"""

from __future__ import annotations

from pydantic import Field

from policies.base import Policy
from policies.common.overtaking import Bypassing, within_job, yarn_first
from policies.model import ContainerView


class JobSubmission(Bypassing):
    """Settings of job_submission."""

    bypass_limit_s: float = Field(600.0, ge=0, json_schema_extra={"source": "own; Mercury has no limit"})
    """Work that may overtake a waiting container, however short it is; the higher of the two limits counts; `.inf` for
    no limit."""


def key(waiting: ContainerView, cfg: JobSubmission, now_s: float) -> tuple[float, ...]:
    """Return (-queue priority, -application priority, job's submission, precedence, request priority, arrival)."""
    return (*yarn_first(waiting), waiting.job_submitted_s, *within_job(waiting))


POLICY = Policy("job_submission", JobSubmission, key, steady=True)
