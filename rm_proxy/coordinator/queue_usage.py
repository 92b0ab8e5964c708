"""Use of each YARN queue and all queues below it, as sums by user: by queueable and by guaranteed containers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from policies.model import Resources
from rm_proxy.dispatch.shares import QueueRight
from rm_proxy.yarn.models import YarnQueue

_NOTHING = Resources()
_ALL = ""
"""The name under which everything is summed up."""


@dataclass(slots=True)
class _Sum:
    used: Resources = _NOTHING
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
            if used == _NOTHING:
                return
        elif before == (queue, user, used):
            return
        else:
            self._add(before[0], before[1], _NOTHING - before[2])
        if used == _NOTHING:
            self._charged.pop(attempt_id, None)
        else:
            self._charged[attempt_id] = (queue, user, used)
            self._add(queue, user, used)

    def of(self, queue: str) -> tuple[Resources, dict[str, Resources]]:
        """Return the use of a queue (full path) with all below it: the sum, and by user; do not change the latter."""
        known = self._sums.get(queue)
        return (known.used, known.by_user) if known is not None else (_NOTHING, {})

    @property
    def all(self) -> Resources:
        """The use of all queues together."""
        return self.of(_ALL)[0]

    def _add(self, queue: str, user: str, more: Resources) -> None:
        for name in (queue, *parents(queue), _ALL):
            self._add_to(name, user, more)

    def _add_to(self, name: str, user: str, more: Resources) -> None:
        known = self._sums.setdefault(name, _Sum())
        known.used += more
        left = known.by_user.get(user, _NOTHING) + more
        if left == _NOTHING:
            known.by_user.pop(user, None)
        else:
            known.by_user[user] = left
        if not known.by_user:
            del self._sums[name]


class AllUsage:
    """Use by containers of both kinds (`rm_proxy.dispatch.shares.Usage`).

    Guaranteed ones count as the ResourceManager last reported them, or as attempts hold them now, if these are more. A
    queueable one whose end was reported by its node uses no place any more, though its application holds it still.
    """

    def __init__(self) -> None:
        self.queues: dict[str, YarnQueue] = {}
        """The ResourceManager's queues by path."""
        self.queueable, self.guaranteed, self._over = QueueUsage(), QueueUsage(), QueueUsage()

    def used(self, queue: str) -> Resources:
        """Return the use of a queue (full path) with all below it."""
        yarn = self.queues.get(queue)
        return _larger(yarn.used if yarn is not None else _NOTHING, self.guaranteed.of(queue)[0]) + self.used_q(queue)

    def used_q(self, queue: str) -> Resources:
        """Return the part of it that queueable containers use."""
        return self.queueable.of(queue)[0] - self._over.of(queue)[0]

    def used_by(self, queue: str, user: str) -> Resources:
        """Return the use of a user in a leaf queue."""
        yarn = self.queues.get(queue)
        reported = yarn.user_used.get(user, _NOTHING) if yarn is not None else _NOTHING
        held = self.guaranteed.of(queue)[1].get(user, _NOTHING)
        used_q = self.queueable.of(queue)[1].get(user, _NOTHING) - self._over.of(queue)[1].get(user, _NOTHING)
        return _larger(reported, held) + used_q

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
        self.queueable.charge(attempt_id, queue, user, used_q)
        self.guaranteed.charge(attempt_id, queue, user, used_g)
        self._over.charge(attempt_id, queue, user, over_q)


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


def _larger(one: Resources, other: Resources) -> Resources:
    return Resources(max(one.memory_mb, other.memory_mb), max(one.vcores, other.vcores))


def parents(queue: str) -> Iterator[str]:
    """Yield the full paths of the queues above one, the nearest first."""
    above = queue.rpartition(".")[0]
    while above:
        yield above
        above = above.rpartition(".")[0]
