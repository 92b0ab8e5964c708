"""Use of queueable containers in each YARN queue and all queues below it, as sums by user."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from policies.model import Resources

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


def parents(queue: str) -> Iterator[str]:
    """Yield the full paths of the queues above one, the nearest first."""
    above = queue.rpartition(".")[0]
    while above:
        yield above
        above = above.rpartition(".")[0]
