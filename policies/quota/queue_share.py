"""Keep guaranteed and queueable containers of a YARN queue together within its maximum capacity, shared by its users.

The ResourceManager charges opportunistic containers to no queue and no user, so this takes the place of
maximum-capacity (of the queue and of those above it), user-limit-factor and minimum-user-limit-percent for them. Where
containers share cores, all shares grow by the places that nodes have beyond YARN's vcores (`QueueView.places_ratio`).
Source: the CapacityScheduler of Hadoop 3; beyond Mercury §4.1, whose quotas are per application.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.model import Ask, QueueView, Resources

_BEYOND = 2**40
"""MB or vcores: no limit."""


class QueueShare(PolicyConfig):
    """Settings of queue_share."""

    factor: float = Field(1.0, ge=0, allow_inf_nan=False, json_schema_extra={"unit": "ratio", "source": "own"})
    """Queueable containers may use this many times the part of the queue's maximum capacity that guaranteed ones leave.

    The same holds for each of the queues above it.
    """
    user_ratio: float = Field(
        0.25, ge=0, le=1, json_schema_extra={"source": "own; after minimum-user-limit-percent of the CapacityScheduler"}
    )
    """Users that hold queueable containers share alike, but none gets less than this share; 1 for no limit by user."""
    user_limit: bool = Field(True, json_schema_extra={"source": "user-limit-factor of the CapacityScheduler"})
    """Keep a user's guaranteed and queueable containers within the queue's capacity times its user-limit-factor; a
    negative factor is no limit."""
    cluster_ratio: float = Field(math.inf, ge=0, json_schema_extra={"source": "own"})
    """Queueable containers of all queues may use this share of what the usable nodes have; `.inf` for no limit."""
    count_vcores: bool = Field(True, json_schema_extra={"source": "own"})
    """Count vcores beside memory; off where the ResourceManager plans by memory alone (DefaultResourceCalculator)."""

    def room(self, queue: QueueView) -> Resources:
        """Return the room of a queue that is left to queueable containers, not below 0; a user may be allowed less."""
        rest = Resources(_BEYOND, _BEYOND)
        for _, room, used in _rooms(queue, self):
            rest = _least(rest, room - used)
        return rest if queue.max_capacity.memory_mb else Resources()

    def room_for(self, queue: QueueView, user: str) -> Resources:
        """Return the room of a queue that is left to queueable containers of a user, not below 0."""
        rest = self.room(queue)
        for _, room, used in _user_rooms(queue, user, self, _rooms(queue, self)[0][1]):
            rest = _least(rest, room - used)
        return rest


Room = tuple[Callable[[], str], Resources, Resources]
"""What makes a text with the figures (needed by few asks), the room, and its use by queueable containers."""


def _rooms(queue: QueueView, cfg: QueueShare) -> list[Room]:
    """Return the rooms that a queue's queueable containers have to fit into, the queue's own first."""
    factor = cfg.factor * queue.places_ratio
    rooms = [_share(queue.name, queue.max_capacity, queue.used_g, queue.used_q, factor, cfg)]
    rooms += [
        _share(above.name, above.max_capacity, above.used_g, above.used_q, factor, cfg)
        for above in queue.parents
        if above.max_capacity.memory_mb
    ]
    if not math.isinf(cfg.cluster_ratio):
        room, used = _times(queue.cluster, cfg.cluster_ratio), queue.cluster_used_q
        rooms.append((lambda: _cluster_text(used, room, cfg), room, used))
    return rooms


def _cluster_text(used: Resources, room: Resources, cfg: QueueShare) -> str:
    text = f"queueable containers of all queues use {_text(used, cfg)} of {_text(room, cfg)}"
    return f"{text}, {cfg.cluster_ratio:g} of what the nodes have"


def _share(name: str, most: Resources, used_g: Resources, used: Resources, factor: float, cfg: QueueShare) -> Room:
    room = _times(most - used_g, factor)
    subject = f"queueable containers of {name}"
    return (lambda: f"{subject} use {_text(used, cfg)} of {_text(room, cfg)} that guaranteed ones leave"), room, used


def _user_rooms(queue: QueueView, user: str, cfg: QueueShare, room: Resources) -> list[Room]:
    """Return the rooms that the queueable containers of a user of the queue have to fit into.

    room: that of the queue itself.
    """
    holders = {name for name, used in queue.user_used_q.items() if used.memory_mb or used.vcores} | {user}
    share = _times(room, max(cfg.user_ratio, 1 / len(holders)))
    used = queue.user_used_q.get(user, Resources())

    def usage() -> str:
        return f"queueable containers of user {user} in {queue.name} use {_text(used, cfg)}"

    rooms: list[Room] = [
        (lambda: f"{usage()} of a share of {_text(share, cfg)} ({len(holders)} users hold some)", share, used)
    ]
    if cfg.user_limit and queue.user_limit is not None:
        own = _times(queue.user_limit - queue.user_used_g.get(user, Resources()), queue.places_ratio)
        text = "that guaranteed ones leave of the user's limit"
        rooms.append((lambda: f"{usage()} of {_text(own, cfg)} {text}", own, used))
    return rooms


def _least(first: Resources, second: Resources) -> Resources:
    return Resources(max(0, min(first.memory_mb, second.memory_mb)), max(0.0, min(first.vcores, second.vcores)))


def _exceeds(used: Resources, size: Resources, room: Resources, cfg: QueueShare) -> bool:
    if used.memory_mb + size.memory_mb > room.memory_mb:
        return True
    return cfg.count_vcores and used.vcores + size.vcores > room.vcores


def _times(amount: Resources, factor: float) -> Resources:
    return Resources(max(0, int(amount.memory_mb * factor)), max(0.0, amount.vcores * factor))


def _text(amount: Resources, cfg: QueueShare) -> str:
    return f"{amount.memory_mb} MB" + (f", {amount.vcores:g} vcores" if cfg.count_vcores else "")


def quota(ask: Ask, queue: QueueView, cfg: QueueShare) -> str | None:
    """Return None while the container fits all shares, the queue's first, else the reason with the figures."""
    if not queue.max_capacity.memory_mb:
        return f"queue_share: the maximum capacity of {queue.name} is 0 or not known yet"
    rooms = _rooms(queue, cfg)
    for text, room, used in [*rooms, *_user_rooms(queue, ask.app.user, cfg, rooms[0][1])]:
        if _exceeds(used, ask.resources, room, cfg):
            return f"queue_share: {text()}; {_text(ask.resources, cfg)} more do not fit"
    return None


POLICY = Policy("queue_share", QueueShare, quota, at_binding=True)
