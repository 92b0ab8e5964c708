"""Applications in service: how far each has got, and when it will be done as things stand."""

from __future__ import annotations

from dataclasses import dataclass

from quicksilver.simulator.model import ApplicationJob
from quicksilver_lab.papers.zoe.model import Work, workers


@dataclass(slots=True, eq=False)
class InService:
    """One that has its core."""

    app: ApplicationJob
    all_workers: int
    remaining_s: float
    """Work, in worker-seconds, at `since_s`."""
    begun_s: float
    since_s: float
    elastic: int = 0
    rate: int = 0
    """Components that do work."""
    version: int = 0
    """How often its grant changed: an end that was foreseen before is void."""

    @classmethod
    def begin(cls, app: ApplicationJob, work: Work, now_s: float) -> InService:
        """Return it with all its work to do."""
        everyone = workers(app.core, len(app.durations_s) - app.core, work)
        return cls(app, everyone, app.runtime_s * everyone, now_s, now_s)

    def grant(self, elastic: int, work: Work, now_s: float) -> float:
        """Go on with so many elastic components; return when it will be done."""
        self.remaining_s = self.left_at(now_s)
        self.since_s = now_s
        self.elastic = elastic
        self.rate = workers(self.app.core, elastic, work)
        self.version += 1
        return now_s + self.remaining_s / self.rate

    def left_at(self, now_s: float) -> float:
        """Return the work left at `now_s`, in worker-seconds."""
        return max(0.0, self.remaining_s - self.rate * (now_s - self.since_s))


class Means:
    """What was in use, and how many waited and ran, by time: from the first arrival to the last."""

    def __init__(self, millicores: int, memory_mb: int) -> None:
        """Begin; of the whole cluster, memory_mb 0: not counted."""
        self._room = (millicores, memory_mb, 1, 1)
        self._begin_s: float | None = None
        self._at_s = 0.0
        self._sums = [0.0, 0.0, 0.0, 0.0]
        self._marked_s = 0.0
        self._marked = list(self._sums)

    def pass_by(self, now_s: float, millicores: int, memory_mb: int, waiting: int, running: int) -> None:
        """Add the time since the last event, in which so much was in use."""
        if self._begin_s is None:
            self._begin_s = self._at_s = self._marked_s = now_s
        spent_s, sums = now_s - self._at_s, self._sums
        sums[0] += spent_s * millicores
        sums[1] += spent_s * memory_mb
        sums[2] += spent_s * waiting
        sums[3] += spent_s * running
        self._at_s = now_s

    def mark(self) -> None:
        """Let the means end here, until the next mark."""
        self._marked_s, self._marked = self._at_s, list(self._sums)

    def figures(self) -> dict[str, float]:
        """Return the means up to the last mark; nothing when no time passed."""
        spent_s = self._marked_s - (self._begin_s or 0.0)
        if self._begin_s is None or spent_s <= 0:
            return {}
        names = ("cores_share", "memory_share", "waiting_mean", "running_mean")
        return {
            name: total / spent_s / whole
            for name, total, whole in zip(names, self._marked, self._room, strict=True)
            if whole
        }
