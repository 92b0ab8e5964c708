"""Class a job by the mean duration of its tasks and a cut-off, given or learnt from earlier jobs (Hawk, thesis §2.3.3).

The part of the jobs that is long stays about the same over time, so the cut-off is a quantile of what earlier jobs had.
"""

from __future__ import annotations

from math import ceil
from typing import Literal

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.common.short_long import is_long
from policies.model import JobClass, JobView


class TaskTimeSettings(PolicyConfig):
    """Settings of task_time."""

    cutoff_s: float = Field(0.0, ge=0, json_schema_extra={"source": "Hawk §2.3.3: statistics of past jobs"})
    """Jobs whose tasks take longer on average are long; 0 to learn it from the jobs that ended."""
    short_ratio: float = Field(0.9, gt=0, lt=1, json_schema_extra={"source": "Hawk, table 2.1: 10 % of Google's jobs"})
    """Part of the jobs that is short, for a cut-off that is learnt."""
    min_jobs: int = Field(20, ge=1, json_schema_extra={"unit": "jobs", "source": "own"})
    """Ended jobs without which nothing is learnt; until then no job of a known duration has a class."""
    unknown: Literal["short", "long"] = Field("short", json_schema_extra={"source": "own: its first tasks teach"})
    """Class of a job of whose tasks no duration is known yet."""


def classify(job: JobView, cfg: TaskTimeSettings) -> JobClass:
    """Return the class of a job."""
    if not job.known:
        return JobClass(cfg.unknown)
    cutoff_s, earlier_s = cfg.cutoff_s, job.earlier_s
    if not cutoff_s:
        if len(earlier_s) < cfg.min_jobs:
            return JobClass.NONE
        cutoff_s = earlier_s[min(len(earlier_s), ceil(len(earlier_s) * cfg.short_ratio)) - 1]
    return JobClass.LONG if is_long(job.task_s, cutoff_s) else JobClass.SHORT


POLICY = Policy("task_time", TaskTimeSettings, classify)
