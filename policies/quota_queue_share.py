"""Keep guaranteed and queueable containers of a YARN queue together within its maximum capacity, shared by its users.

The ResourceManager charges opportunistic containers to no queue and no user, so this takes the place of
maximum-capacity and minimum-user-limit-percent for them. Source: CapacityScheduler documentation of Hadoop 3; beyond
Mercury §4.1, whose quotas are per application.
"""

from __future__ import annotations

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.model import Ask, QueueView, Resources


class QueueShare(PolicyConfig):
    """Settings of queue_share."""

    factor: float = Field(1.0, ge=0, allow_inf_nan=False, json_schema_extra={"unit": "ratio", "source": "own"})
    """Queueable containers may use this many times what guaranteed ones leave of the queue's maximum capacity."""
    user_ratio: float = Field(
        0.25, ge=0, le=1, json_schema_extra={"source": "own; after minimum-user-limit-percent of the CapacityScheduler"}
    )
    """Users that hold queueable containers share alike, but none gets less than this share; 1 for no limit by user."""
    count_vcores: bool = Field(True, json_schema_extra={"source": "own"})
    """Count vcores beside memory; off where the ResourceManager plans by memory alone (DefaultResourceCalculator)."""


def _exceeds(wanted: Resources, room: Resources, cfg: QueueShare) -> bool:
    return wanted.memory_mb > room.memory_mb or (cfg.count_vcores and wanted.vcores > room.vcores)


def _times(amount: Resources, factor: float) -> Resources:
    return Resources(max(0, int(amount.memory_mb * factor)), max(0.0, amount.vcores * factor))


def _text(amount: Resources, cfg: QueueShare) -> str:
    return f"{amount.memory_mb} MB" + (f", {amount.vcores:g} vcores" if cfg.count_vcores else "")


def quota(ask: Ask, queue: QueueView, cfg: QueueShare) -> str | None:
    """Return None while the container fits the queue's and its user's share, else the reason with the figures."""
    if not queue.max_capacity.memory_mb:
        return f"queue_share: the maximum capacity of {queue.name} is 0 or not known yet"
    room = _times(queue.max_capacity - queue.used_g, cfg.factor)
    if _exceeds(queue.used_q + ask.resources, room, cfg):
        return (
            f"queue_share: queueable containers of {queue.name} use {_text(queue.used_q, cfg)} of {_text(room, cfg)} "
            f"that guaranteed ones leave; {_text(ask.resources, cfg)} more do not fit"
        )
    user = ask.app.user
    holders = {name for name, used in queue.user_used_q.items() if used.memory_mb or used.vcores} | {user}
    share = _times(room, max(cfg.user_ratio, 1 / len(holders)))
    used = queue.user_used_q.get(user, Resources())
    if _exceeds(used + ask.resources, share, cfg):
        return (
            f"queue_share: queueable containers of user {user} in {queue.name} use {_text(used, cfg)} of a share of "
            f"{_text(share, cfg)} ({len(holders)} users hold some); {_text(ask.resources, cfg)} more do not fit"
        )
    return None


POLICY = Policy("queue_share", QueueShare, quota)
