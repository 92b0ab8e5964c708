"""The attempts by id, in the order in which they came, and those of them that live: of a long day most do not."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from rm_proxy.attempt.attempt import Attempt


class AttemptIndex(OrderedDict[str, Attempt]):
    """All attempts that are remembered; what is done each second is done with `living` alone."""

    def __init__(self) -> None:
        super().__init__()
        self._living: dict[str, Attempt] = {}
        """Those that live, and those that ended since `closed` was called."""

    def __setitem__(self, attempt_id: str, attempt: Attempt) -> None:
        """Remember an attempt, in place of another of its id."""
        super().__setitem__(attempt_id, attempt)
        self._living[attempt_id] = attempt

    def living(self) -> Iterator[Attempt]:
        """Yield the attempts that live."""
        return (attempt for attempt in self.recent() if not attempt.finished)

    def recent(self) -> list[Attempt]:
        """Return the attempts that live, or ended since `closed` was called."""
        return [attempt for attempt in self._living.values() if self.get(attempt.id) is attempt]

    def closed(self) -> None:
        """Take in that nothing more is to be done with attempts that have ended."""
        for attempt_id in [i for i, a in self._living.items() if a.finished or self.get(i) is not a]:
            del self._living[attempt_id]
