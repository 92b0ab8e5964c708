"""Levels of service or work, each a factor wider than the one before, as in a multi-level feedback queue."""

from __future__ import annotations

from math import ceil, inf, log
from typing import Final

from pydantic import Field

from policies.base import PolicyConfig
from policies.waiting import WaitingApp

BASE_S: Final = 20.0
FACTOR: Final = 4.0


def level(work_s: float, base_s: float = BASE_S, factor: float = FACTOR) -> float:
    """Return the level of an amount of work or service: 0 up to `base_s`, 1 up to `base_s` times `factor`, .."""
    if work_s <= base_s:
        return 0.0
    return inf if work_s == inf else float(ceil(log(work_s / base_s, factor) - 1e-9))


class Starving(PolicyConfig):
    """Settings shared by policies that pass over some applications for others."""

    starve_s: float = Field(30.0, gt=0, json_schema_extra={"source": "own"})
    """An application that got no place for this time while it waited goes first, until it gets one."""

    def starves(self, applicant: WaitingApp, now_s: float) -> bool:
        """Return whether an application has waited for too long without a new place."""
        return now_s - applicant.waits_since_s > self.starve_s


class Levels(Starving):
    """Settings shared by policies that order applications by levels."""

    base_s: float = Field(BASE_S, gt=0, allow_inf_nan=False, json_schema_extra={"source": "own"})
    """Upper end of level 0, in task-seconds."""
    factor: float = Field(FACTOR, gt=1, allow_inf_nan=False, json_schema_extra={"unit": "", "source": "own"})
    """How many times as wide each level is as the one before."""

    def level(self, work_s: float) -> float:
        """Return the level of an amount of work or service: 0 up to `base_s`, 1 up to `base_s` times `factor`, .."""
        return level(work_s, self.base_s, self.factor)
