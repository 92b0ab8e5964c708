"""Shares of YARN queues and their users in the places that are free, as the ResourceManager itself weighs them.

The next place goes to the queue with the least use for its capacity, first up to what is guaranteed to it, then as a
loan up to its maximum; within a queue to the user with the least use for his weight. Use is that of guaranteed and
queueable containers together, as the larger part of the cluster's memory and vcores. Sources: the Capacity Scheduler
(PriorityUtilizationQueueOrderingPolicy, UsersManager) and the Fair Scheduler's weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import inf
from typing import Final, NamedTuple, Protocol

from policies.model import Resources, total

ROOT: Final = "root"
_NOTHING: Final = Resources()
_LEAST_WEIGHT: Final = 1e-9
"""Of a queue without any capacity: it gets what all others leave."""


class Group(NamedTuple):
    """The applications of one user in a YARN queue; of all users where these have no shares."""

    queue: str
    """Full path."""
    user: str = ""

    def __str__(self) -> str:
        return f"queue {self.queue}, user {self.user}" if self.user else f"queue {self.queue}"


EVERYBODY: Final = Group("")
"""The group of all applications where the scheduler has no shares."""


@dataclass(frozen=True, slots=True)
class QueueRight:
    """Rights of one YARN queue, in the default partition."""

    path: str
    capacity: Resources
    """Guaranteed to it, or its steady fair share."""
    maximum: Resources
    priority: int = 0
    leaf: bool = True
    user_ratio: float = 1.0
    """minimum-user-limit-percent as a ratio; 1: the ResourceManager gives users no shares."""
    user_limit: Resources | None = None
    """Limit of one user; None for no limit."""
    user_weights: Mapping[str, float] = field(default_factory=dict)
    """Of users whose weight is not 1."""


class Usage(Protocol):
    """What the containers of queues and users use now."""

    def used(self, queue: str) -> Resources:
        """Return the use of a queue (full path) with all below it."""

    def used_q(self, queue: str) -> Resources:
        """Return the part of it that queueable containers use."""

    def used_by(self, queue: str, user: str) -> Resources:
        """Return the use of a user in a leaf queue."""

    def users_q(self, queue: str) -> Iterable[str]:
        """Return the users of a leaf queue who have queueable containers."""


@dataclass(slots=True)
class Claimant:
    """A queue or a user who wants places; all figures in places of one size."""

    name: str
    used: float
    weight: float
    demand: float
    guaranteed: float = 0.0
    limit: float = inf
    """Of its use."""
    priority: int = 0
    gets: float = 0.0


def fill(places: float, claimants: Sequence[Claimant]) -> None:
    """Give free places to those with the least use for their weight, none more than it wants and is allowed to have."""
    rooms = [min(claimant.demand, max(0.0, claimant.limit - claimant.used)) for claimant in claimants]
    places = max(0.0, places)
    if sum(rooms) <= places:
        for claimant, room in zip(claimants, rooms, strict=True):
            claimant.gets += room
        return
    level = _level(places, claimants, rooms)
    for claimant, room in zip(claimants, rooms, strict=True):
        claimant.gets += min(room, max(0.0, level * claimant.weight - claimant.used))


def _level(places: float, claimants: Sequence[Claimant], rooms: Sequence[float]) -> float:
    """Return the use for each unit of weight up to which the places fill the claimants, as water fills vessels."""
    steps: list[tuple[float, float]] = []
    for rival, room in zip(claimants, rooms, strict=True):
        if room > 0:
            steps += ((rival.used / rival.weight, rival.weight), ((rival.used + room) / rival.weight, -rival.weight))
    steps.sort()
    level, rate = steps[0][0], 0.0
    for at, change in steps:
        needs = rate * (at - level)
        if needs >= places:
            break
        places -= needs
        level, rate = at, rate + change
    return level + places / rate if rate > 0 else level


def divide(places: float, claimants: Sequence[Claimant]) -> None:
    """Give free places to sibling queues: those of a higher priority first, and first up to what is guaranteed."""
    if len({claimant.priority for claimant in claimants}) <= 1:
        fill(places, claimants)
        return
    by_priority = sorted(claimants, key=lambda claimant: -claimant.priority)
    for guaranteed in (True, False):
        for _, same in groupby(by_priority, key=lambda claimant: claimant.priority):
            parts = [_part(claimant, guaranteed) for claimant in same]
            fill(places, [part for _, part in parts])
            for claimant, part in parts:
                claimant.gets += part.gets
                places -= part.gets


def _part(rival: Claimant, guaranteed: bool) -> tuple[Claimant, Claimant]:
    """Return a claimant, and what it claims of its guaranteed part, or beyond what it got of that."""
    limit = min(rival.limit, rival.guaranteed) if guaranteed else rival.limit
    return rival, Claimant(rival.name, rival.used + rival.gets, rival.weight, rival.demand - rival.gets, limit=limit)


class Shares:
    """The rights of all queues, beside their use."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._rights: dict[str, QueueRight] = {}
        self._total = _NOTHING
        self.places_ratio = 1.0
        """Places of the nodes / their vcores, at least 1: limits grow by the places that nodes have beyond these."""

    def update(self, rights: Iterable[QueueRight]) -> None:
        """Replace the rights by those that the ResourceManager reports now."""
        self._rights = {right.path: right for right in rights}
        root = self._rights.get(ROOT)
        leaves = (right.capacity for right in self._rights.values() if right.leaf)
        self._total = root.capacity if root is not None else total(leaves)

    @property
    def known(self) -> bool:
        """Whether the scheduler has shares at all: FIFO has none."""
        return self._total.memory_mb > 0

    def group(self, queue: str, user: str) -> Group:
        """Return the group of a user's applications in a queue; one and the same for all without any shares."""
        if not self.known:
            return EVERYBODY
        right = self._rights.get(queue)
        return Group(queue, user if right is not None and right.user_ratio < 1 else "")

    def split(self, places: float, size: Resources, demand: Mapping[Group, float]) -> dict[Group, float]:
        """Return how many of the free places of a size each group may have, of those that it wants.

        While no shares are known, groups of a time when some were have equal ones.
        """
        if not self.known:
            equal = {group: Claimant(group.queue, 0.0, 1.0, count) for group, count in demand.items()}
            fill(places, list(equal.values()))
            return {group: claimant.gets for group, claimant in equal.items()}
        below: dict[str, dict[str, float]] = {}
        users: dict[str, list[Group]] = {}
        for group, count in demand.items():
            users.setdefault(group.queue, []).append(group)
            path = group.queue
            while path != ROOT:
                parent = self._parent(path)
                siblings = below.setdefault(parent, {})
                siblings[path] = siblings.get(path, 0.0) + count
                path = parent
        portions: dict[Group, float] = {}
        todo = [(ROOT, places)]
        while todo:
            path, places = todo.pop()
            if path in users:
                self._split_users(places, size, users[path], demand, portions)
                continue
            claimants = [self._claimant(child, count, size) for child, count in below.get(path, {}).items()]
            divide(places, claimants)
            todo += [(claimant.name, claimant.gets) for claimant in claimants]
        return portions

    def _split_users(
        self,
        places: float,
        size: Resources,
        groups: Sequence[Group],
        demand: Mapping[Group, float],
        portions: dict[Group, float],
    ) -> None:
        if not groups[0].user:
            portions[groups[0]] = min(places, demand[groups[0]])
            return
        unit = self._part(size)
        claimants = []
        for queue, user in groups:
            right = self._rights[queue]
            limit = self._part(right.user_limit) / unit * self.places_ratio if right.user_limit is not None else inf
            used, weight = self._part(self._usage.used_by(queue, user)) / unit, _weight(right, user)
            claimants.append(Claimant(user, used, weight, demand[Group(queue, user)], limit=limit))
        fill(places, claimants)
        portions.update(zip(groups, (each.gets for each in claimants), strict=True))

    def _claimant(self, path: str, demand: float, size: Resources) -> Claimant:
        unit, right = self._part(size), self._rights.get(path)
        used = self._part(self._usage.used(path)) / unit
        if right is None:
            return Claimant(path, used, _LEAST_WEIGHT, demand)
        share = self._memory_part(right.capacity)
        limit = self._memory_part(right.maximum) / unit * self.places_ratio if right.maximum.memory_mb else inf
        return Claimant(path, used, max(_LEAST_WEIGHT, share), demand, share / unit, limit, right.priority)

    def _parent(self, path: str) -> str:
        parent = path.rpartition(".")[0]
        return parent if parent in self._rights else ROOT

    def _part(self, amount: Resources) -> float:
        """Return the larger part of the cluster's memory and vcores."""
        vcores = amount.vcores / self._total.vcores if self._total.vcores else 0.0
        return max(amount.memory_mb / self._total.memory_mb, vcores)

    def _memory_part(self, amount: Resources) -> float:
        """Return the part of the cluster's memory: the ResourceManager's answers round vcores of small shares."""
        return amount.memory_mb / self._total.memory_mb

    # What is guaranteed

    def lacks(self, group: Group, size: Resources, user: str, asked_g: Resources, waiting: Iterable[str]) -> int:
        """Return how many places a user lacks of what is guaranteed to him, which queueable ones of others use.

        asked_g: guaranteed containers that his group has asked for; waiting: users of the queue with containers that
        wait. 0 where nothing is guaranteed, or nobody has more than his own share.
        """
        right = self._rights.get(group.queue)
        if right is None or not self.known or not size.memory_mb:
            return 0
        share, extra = self._memory_part(right.capacity), self._part(asked_g)
        own = self._part(self._usage.used_by(group.queue, user)) + extra
        room = share - self._part(self._usage.used(group.queue)) - extra
        if right.user_limit is not None:
            own_room = self._part(right.user_limit) - own
            room = min(room, own_room)
        if group.user:
            active = {user, *waiting, *self._usage.users_q(group.queue)}
            each = share / sum(_weight(right, name) for name in active)
            taken = any(self._exceeds(group.queue, name, each * _weight(right, name)) for name in active - {user})
            own_room = each * _weight(right, user) - own
            if taken:
                return self._count(own_room, size)
            room = min(room, own_room)
        return self._count(room, size) if room > 0 and self._lent(group.queue) else 0

    def _count(self, room: float, size: Resources) -> int:
        return max(0, int(room / self._part(size) + 1e-6))

    def _exceeds(self, queue: str, user: str, share: float) -> bool:
        return user in self._usage.users_q(queue) and self._part(self._usage.used_by(queue, user)) > share

    def _lent(self, queue: str) -> bool:
        """Return whether queueable containers of another leaf queue use more than is guaranteed to it."""
        others = [(path, right) for path, right in self._rights.items() if right.leaf and path != queue]
        return any(
            self._usage.used_q(path).memory_mb
            and self._part(self._usage.used(path)) > self._memory_part(right.capacity)
            for path, right in others
        )


def _weight(right: QueueRight, user: str) -> float:
    return max(_LEAST_WEIGHT, right.user_weights.get(user, 1.0))
