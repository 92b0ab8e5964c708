"""Use of each YARN queue and all queues below it, as sums by user: by queueable and by guaranteed containers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from policies.model import Resources
from rm_proxy.dispatch.shares import QueueRight
from rm_proxy.yarn.models import YarnQueue

_NOTHING = Resources()
MAX_QUEUES: Final = 10_000
"""Queues of which the names of those above are remembered."""
_ALL = ""
"""The name under which everything is summed up."""


@dataclass(slots=True)
class _Sum:
    memory_mb: int = 0
    vcores: float = 0
    by_user: dict[str, Resources] = field(default_factory=dict)


class QueueUsage:
    """Charges of application attempts: one sum each, replaced as a whole."""

    def __init__(self) -> None:
        self._charged: dict[str, tuple[str, str, Resources]] = {}
        self._sums: dict[str, _Sum] = {}

    def charge(self, attempt_id: str, queue: str, user: str, used: Resources) -> None:
        """Replace what an attempt was charged with."""
        before = self._charged.get(attempt_id)
        if before is None:
            if not (used.memory_mb or used.vcores):
                return
            more = used
        elif before[0] == queue and before[1] == user:
            charged = before[2]
            if used.memory_mb == charged.memory_mb and used.vcores == charged.vcores:
                return
            more = used - charged
        else:
            self._add(before[0], before[1], _NOTHING - before[2])
            more = used
        if used.memory_mb or used.vcores:
            self._charged[attempt_id] = (queue, user, used)
        else:
            self._charged.pop(attempt_id, None)
        self._add(queue, user, more)

    def of(self, queue: str) -> tuple[Resources, dict[str, Resources]]:
        """Return the use of a queue (full path) with all below it: the sum, and by user; do not change the latter."""
        known = self._sums.get(queue)
        return (Resources(known.memory_mb, known.vcores), known.by_user) if known is not None else (_NOTHING, {})

    @property
    def all(self) -> Resources:
        """The use of all queues together."""
        return self.of(_ALL)[0]

    def _add(self, queue: str, user: str, more: Resources) -> None:
        for name in _concerned(queue):
            known = self._sums.get(name)
            if known is None:
                known = self._sums[name] = _Sum()
            known.memory_mb += more.memory_mb
            known.vcores += more.vcores
            before = known.by_user.get(user)
            rest = before + more if before is not None else more
            if not (rest.memory_mb or rest.vcores):
                known.by_user.pop(user, None)
            else:
                known.by_user[user] = rest
            if not known.by_user:
                del self._sums[name]


@dataclass(frozen=True, slots=True)
class _Others:
    """Guaranteed use that no attempt here holds, by a report of the ResourceManager."""

    used: Resources = _NOTHING
    by_user: Mapping[str, Resources] = field(default_factory=dict)

    def least(self, peer: _Others) -> _Others:
        """Return what both have."""
        both = {user: _least(used, peer.by_user.get(user, _NOTHING)) for user, used in self.by_user.items()}
        return _Others(_least(self.used, peer.used), both)


class _Sums(Mapping[str, Resources]):
    """Two amounts by user, added up when they are looked at."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Mapping[str, Resources], second: Mapping[str, Resources]) -> None:
        self._first, self._second = first, second

    def __getitem__(self, user: str) -> Resources:
        if user not in self._first and user not in self._second:
            raise KeyError(user)
        return self._first.get(user, _NOTHING) + self._second.get(user, _NOTHING)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._first, **self._second})

    def __len__(self) -> int:
        return len({**self._first, **self._second})


class AllUsage:
    """Use by containers of both kinds (`rm_proxy.dispatch.shares.Usage`), those left out whose end a node reported.

    Guaranteed ones count as attempts hold them now. To these comes what the ResourceManager reports beyond what they
    held then: application masters, applications that go around the proxy. It counts if two reports in a row have it,
    since a report may find containers that were granted a moment ago, or that ended, and the next one is seconds away.
    """

    def __init__(self) -> None:
        self.queueable, self.guaranteed = QueueUsage(), QueueUsage()
        self._reported: dict[str, _Others] = {}
        self._others: dict[str, _Others] = {}

    def report(self, queues: Iterable[YarnQueue]) -> None:
        """Handle the ResourceManager's report of all queues."""
        before, self._reported = self._reported, {queue.path: self._beside(queue) for queue in queues}
        self._others = {path: others.least(before.get(path, others)) for path, others in self._reported.items()}

    def _beside(self, queue: YarnQueue) -> _Others:
        """Return what a report has beyond what attempts hold now."""
        own_use, by_user = self.guaranteed.of(queue.path)
        users = {user: _beyond(used, by_user.get(user, _NOTHING)) for user, used in queue.user_used.items()}
        return _Others(_beyond(queue.used, own_use), users)

    def used(self, queue: str) -> Resources:
        """Return the use of a queue (full path) with all below it."""
        return self.used_g(queue) + self.used_q(queue)

    def used_g(self, queue: str) -> Resources:
        """Return the part of it that guaranteed containers use."""
        others, own = self._others.get(queue, _NO_OTHERS).used, self.guaranteed.of(queue)[0]
        return others if own is _NOTHING else others + own

    def of_guaranteed(self, queue: str) -> tuple[Resources, Mapping[str, Resources]]:
        """Return what guaranteed containers use in a leaf queue: the sum, and by user."""
        others, (used, by_user) = self._others.get(queue, _NO_OTHERS), self.guaranteed.of(queue)
        return (others.used + used if by_user else others.used), _Sums(others.by_user, by_user)

    def used_g_by(self, queue: str) -> Mapping[str, Resources]:
        """Return what guaranteed containers use in a leaf queue, by user."""
        return _Sums(self._others.get(queue, _NO_OTHERS).by_user, self.guaranteed.of(queue)[1])

    def used_q(self, queue: str) -> Resources:
        """Return the part of the use that queueable containers have."""
        return self.queueable.of(queue)[0]

    def used_by(self, queue: str, user: str) -> Resources:
        """Return the use of a user in a leaf queue."""
        used_g = self.used_g_by(queue).get(user, _NOTHING)
        return used_g + self.queueable.of(queue)[1].get(user, _NOTHING)

    def users_q(self, queue: str) -> Collection[str]:
        """Return the users of a leaf queue who have queueable containers."""
        return self.queueable.of(queue)[1].keys()

    def discharge(self, attempt_id: str) -> None:
        """Note that an attempt uses nothing any more."""
        self.charge(attempt_id, "", "", _NOTHING, _NOTHING)

    def charge(
        self,
        attempt_id: str,
        queue: str,
        user: str,
        used_q: Resources,
        used_g: Resources,
        over_q: Resources = _NOTHING,
    ) -> None:
        """Replace what an attempt was charged with; over_q: the part of used_q by containers that ended."""
        self.queueable.charge(attempt_id, queue, user, used_q - over_q if over_q.memory_mb or over_q.vcores else used_q)
        self.guaranteed.charge(attempt_id, queue, user, used_g)


_NO_OTHERS: Final = _Others()


def right_of(queue: YarnQueue) -> QueueRight:
    """Return the rights of a queue as the ResourceManager reports them."""
    return QueueRight(
        path=queue.path,
        capacity=queue.capacity,
        maximum=queue.max_capacity,
        priority=queue.priority,
        leaf=queue.leaf,
        user_ratio=queue.user_ratio,
        user_limit=queue.user_limit,
        user_weights=queue.user_weights,
    )


def _least(first: Resources, second: Resources) -> Resources:
    return Resources(min(first.memory_mb, second.memory_mb), min(first.vcores, second.vcores))


def _beyond(used: Resources, own_use: Resources) -> Resources:
    return Resources(max(0, used.memory_mb - own_use.memory_mb), max(0.0, used.vcores - own_use.vcores))


@lru_cache(MAX_QUEUES)
def _concerned(queue: str) -> tuple[str, ...]:
    """Return the names under which the use of a queue is summed up."""
    return (queue, *parents(queue), _ALL)


@lru_cache(MAX_QUEUES)
def parents(queue: str) -> tuple[str, ...]:
    """Return the full paths of the queues above one, the nearest first."""
    paths, above = [], queue.rpartition(".")[0]
    while above:
        paths.append(above)
        above = above.rpartition(".")[0]
    return tuple(paths)
