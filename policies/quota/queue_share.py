"""Keep guaranteed and queueable containers of a YARN queue together within its maximum capacity, shared by its users.

The ResourceManager charges opportunistic containers to no queue and no user, so this takes the place of
maximum-capacity (of the queue and of those above it), user-limit-factor and minimum-user-limit-percent for them. Where
containers share cores, all shares grow by the places that nodes have beyond YARN's vcores (`QueueView.places_ratio`).
Source: the CapacityScheduler of Hadoop 3; beyond Mercury §4.1, whose quotas are per application.
"""

from __future__ import annotations

import math

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.model import Ask, ParentView, QueueView, Resources

_NOTHING = Resources()
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
        for _, _, room, used in _rooms(queue, self):
            rest = _least(rest, room - used)
        return rest if queue.max_capacity.memory_mb else Resources()

    def room_for(self, queue: QueueView, user: str) -> Resources:
        """Return the room of a queue that is left to queueable containers of a user, not below 0."""
        rest = self.room(queue)
        for _, _, room, used in _user_rooms(queue, user, self, _rooms(queue, self)[0][2]):
            rest = _least(rest, room - used)
        return rest


Room = tuple[str, tuple[object, ...], Resources, Resources]
"""A format with its figures beside the next two, of which few asks need the text; the room, and its use by queueable
containers."""
_OF_ALL = "queueable containers of all queues use {used} of {room}, {:g} of what the nodes have"
_OF_QUEUE = "queueable containers of {} use {used} of {room} that guaranteed ones leave"
_OF_USERS = "queueable containers of user {} in {} use {used} of a share of {room} ({} users hold some)"
_OF_USER = "queueable containers of user {} in {} use {used} of {room} that guaranteed ones leave of the user's limit"


def _rooms(queue: QueueView, cfg: QueueShare) -> list[Room]:
    """Return the rooms that a queue's queueable containers have to fit into, the queue's own first."""
    factor = cfg.factor * queue.places_ratio
    rooms = [_share(queue, factor)]
    for above in queue.parents:
        if above.max_capacity.memory_mb:
            rooms.append(_share(above, factor))
    if not math.isinf(cfg.cluster_ratio):
        room = _times(queue.cluster, cfg.cluster_ratio)
        rooms.append((_OF_ALL, (cfg.cluster_ratio,), room, queue.cluster_used_q))
    return rooms


def _share(queue: QueueView | ParentView, factor: float) -> Room:
    """Return the part of a queue's maximum capacity that guaranteed containers leave."""
    return _OF_QUEUE, (queue.name,), _rest(queue.max_capacity, queue.used_g, factor), queue.used_q


def _user_rooms(queue: QueueView, user: str, cfg: QueueShare, room: Resources) -> list[Room]:
    """Return the rooms that the queueable containers of a user of the queue have to fit into.

    room: that of the queue itself.
    """
    holders = {user}
    for name, used in queue.user_used_q.items():
        if used.memory_mb or used.vcores:
            holders.add(name)
    share = _times(room, max(cfg.user_ratio, 1 / len(holders)))
    used = queue.user_used_q.get(user, _NOTHING)
    rooms: list[Room] = [(_OF_USERS, (user, queue.name, len(holders)), share, used)]
    if cfg.user_limit and queue.user_limit is not None:
        own = _rest(queue.user_limit, queue.user_used_g.get(user, _NOTHING), queue.places_ratio)
        rooms.append((_OF_USER, (user, queue.name), own, used))
    return rooms


def _least(first: Resources, second: Resources) -> Resources:
    return Resources(max(0, min(first.memory_mb, second.memory_mb)), max(0.0, min(first.vcores, second.vcores)))


def _times(amount: Resources, factor: float) -> Resources:
    return Resources(max(0, int(amount.memory_mb * factor)), max(0.0, amount.vcores * factor))


def _rest(amount: Resources, used: Resources, factor: float) -> Resources:
    """Return what is left of an amount, times a factor."""
    memory_mb = int((amount.memory_mb - used.memory_mb) * factor)
    return Resources(max(0, memory_mb), max(0.0, (amount.vcores - used.vcores) * factor))


def _text(amount: Resources, cfg: QueueShare) -> str:
    return f"{amount.memory_mb} MB" + (f", {amount.vcores:g} vcores" if cfg.count_vcores else "")


def _fits(size: Resources, user: str, queue: QueueView, cfg: QueueShare) -> bool:
    """Return whether a container fits all shares, as `quota` says: most do, and need no text.

    False where it is not sure: with a share of the whole cluster.
    """
    factor, count_vcores = cfg.factor * queue.places_ratio, cfg.count_vcores
    if not math.isinf(cfg.cluster_ratio):
        return False
    memory_mb, vcores = size.memory_mb, size.vcores
    most, used_g, used = queue.max_capacity, queue.used_g, queue.used_q
    room_mb = max(0, int((most.memory_mb - used_g.memory_mb) * factor))
    room_vcores = max(0.0, (most.vcores - used_g.vcores) * factor)
    if used.memory_mb + memory_mb > room_mb or (count_vcores and used.vcores + vcores > room_vcores):
        return False
    for above in queue.parents:
        most, used_g, used = above.max_capacity, above.used_g, above.used_q
        if not most.memory_mb:
            continue
        if used.memory_mb + memory_mb > max(0, int((most.memory_mb - used_g.memory_mb) * factor)):
            return False
        if count_vcores and used.vcores + vcores > max(0.0, (most.vcores - used_g.vcores) * factor):
            return False
    used = _NOTHING
    count = 1
    for name, of_user in queue.user_used_q.items():
        if name == user:
            used = of_user
        elif of_user.memory_mb or of_user.vcores:
            count += 1
    ratio = max(cfg.user_ratio, 1 / count)
    if used.memory_mb + memory_mb > int(room_mb * ratio):
        return False
    if count_vcores and used.vcores + vcores > room_vcores * ratio:
        return False
    limit = queue.user_limit
    if limit is None or not cfg.user_limit:
        return True
    used_g, factor = queue.user_used_g.get(user, _NOTHING), queue.places_ratio
    if used.memory_mb + memory_mb > max(0, int((limit.memory_mb - used_g.memory_mb) * factor)):
        return False
    return not count_vcores or used.vcores + vcores <= max(0.0, (limit.vcores - used_g.vcores) * factor)


def quota(ask: Ask, queue: QueueView, cfg: QueueShare) -> str | None:
    """Return None while the container fits all shares, the queue's first, else the reason with the figures."""
    if not queue.max_capacity.memory_mb:
        return f"queue_share: the maximum capacity of {queue.name} is 0 or not known yet"
    if _fits(ask.resources, ask.app.user, queue, cfg):
        return None
    rooms, size = _rooms(queue, cfg), ask.resources
    rooms += _user_rooms(queue, ask.app.user, cfg, rooms[0][2])
    for text, figures, room, used in rooms:
        over_mb = used.memory_mb + size.memory_mb > room.memory_mb
        if over_mb or (cfg.count_vcores and used.vcores + size.vcores > room.vcores):
            full = text.format(*figures, used=_text(used, cfg), room=_text(room, cfg))
            return f"queue_share: {full}; {_text(size, cfg)} more do not fit"
    return None


POLICY = Policy("queue_share", QueueShare, quota, at_binding=True, alike=True, together=True)
