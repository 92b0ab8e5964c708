"""Start the container of the highest response ratio, (wait + expected) / expected (HRRN; Zoe §4 for applications).

Short ones go first, and each gains by waiting. Before that, YARN's own wishes: the priority of the queue, then of the
application.
"""

from __future__ import annotations

from pydantic import Field

from policies.base import Policy
from policies.common.overtaking import Bypassing, within_job, work_s, yarn_first
from policies.model import ContainerView


class Hrrn(Bypassing):
    """Settings of hrrn."""

    bypass_limit_s: float = Field(600.0, ge=0, json_schema_extra={"source": "own; HRRN has no limit"})
    """Work that may overtake a waiting container, however short it is; the higher of the two limits counts; `.inf` for
    no limit."""


def key(waiting: ContainerView, cfg: Hrrn, now_s: float) -> tuple[float, ...]:
    """Return (-queue priority, -application priority, -response ratio, job's submission, precedence, ..., arrival)."""
    ratio = 1 + max(0.0, now_s - waiting.arrived_s) / work_s(waiting)
    return (*yarn_first(waiting), -ratio, waiting.job_submitted_s, *within_job(waiting))


POLICY = Policy("hrrn", Hrrn, key)
