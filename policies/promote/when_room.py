"""Make a queueable container guaranteed when its YARN queue has room for one more (own; Mercury, ATC '15, §3.3).

Guaranteed containers that the queue still asks for come first as long as the queue is filled to `fill_ratio` only.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from policies.base import Policy
from policies.common.promotable import Worth, ran_s, worth
from policies.model import AppView, ContainerView, QueueView, Resources


class WhenRoom(Worth):
    """Settings of when_room."""

    min_ran_s: float = Field(5.0, ge=0, json_schema_extra={"source": "own"})
    """Minimum time that a container has run before it is promoted: there is work to lose then."""
    up_to: Literal["capacity", "max_capacity"] = Field(
        "max_capacity", json_schema_extra={"unit": "share of the YARN queue", "source": "own"}
    )
    """The bound of promotion for the queue's guaranteed containers: its capacity, or its maximum capacity."""
    fill_ratio: float = Field(0.9, gt=0, le=1, json_schema_extra={"source": "own"})
    """The part of it that promotion may fill; the rest is left to its guaranteed requests."""
    count_vcores: bool = Field(True, json_schema_extra={"source": "own"})
    """Count vcores beside memory; off where the ResourceManager plans by memory alone (DefaultResourceCalculator)."""


def promote(running: ContainerView, app: AppView, queue: QueueView, cfg: WhenRoom, now_s: float) -> str | None:
    """Return why a running container is to become guaranteed; None when its queue has no room for it."""
    if not worth(running, cfg, now_s):
        return None
    share = queue.capacity if cfg.up_to == "capacity" else queue.max_capacity
    limit = Resources(int(share.memory_mb * cfg.fill_ratio), share.vcores * cfg.fill_ratio)
    after = queue.used_g + running.resources
    if after.memory_mb > limit.memory_mb or (cfg.count_vcores and after.vcores > limit.vcores):
        return None
    vcores = f" and {after.vcores:g} of {limit.vcores:g} vcores" if cfg.count_vcores else ""
    return (
        f"when_room: it ran {ran_s(running, now_s):.1f} s; guaranteed containers of {queue.name} then use "
        f"{after.memory_mb} of {limit.memory_mb} MB{vcores}"
    )


POLICY = Policy("when_room", WhenRoom, promote)
