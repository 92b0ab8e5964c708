"""A node of any number of cores that runs the production machine, `sidecar.cpu_sharing.las`, with resizes that take no
time.
"""

from __future__ import annotations

from math import inf

from policies.model import Way
from quicksilver_lab.papers.kairos.task import KairosTask
from sidecar.cpu_sharing.events import Joined, LasEvent, LasRules, Left, ReadyContainer, Resized, SharingTurn
from sidecar.cpu_sharing.las import Las


class LasNode:
    """The tasks of one node, each of one core."""

    def __init__(self, rules: LasRules) -> None:
        """Begin with nothing."""
        self._las = Las(rules)
        self._tasks: dict[str, KairosTask] = {}
        self._runs: set[str] = set()
        self._at_s = 0.0
        self._over: str = ""
        """Who is over at `next_s`, if that is not a turn."""
        self.next_s = inf
        self.version = 0
        self.preemptions = 0

    def arrive(self, task: KairosTask, now_s: float) -> None:
        """Tell the machine of a newcomer."""
        name = f"{task.number:012}"
        self._tasks[name] = task
        self._tell(Joined(name, 1, Way.SHRINK, now_s), now_s)
        self._tell(ReadyContainer(name, now_s), now_s)
        self._look_ahead(now_s)

    def wake(self, now_s: float) -> KairosTask | None:
        """Tell the machine that a task is over, or that it is time for a turn."""
        over = self._over
        self._tell(Left(over, now_s) if over else SharingTurn(now_s), now_s)
        task = self._tasks.pop(over) if over else None
        self._look_ahead(now_s)
        return task

    def spread_s(self, now_s: float) -> float:
        """Return what the machine reports."""
        self._tell(SharingTurn(now_s), now_s)
        return self._las.spread_s()

    def attained_s(self, now_s: float) -> list[float]:
        """Return what each task has attained."""
        self._tell(SharingTurn(now_s), now_s)
        return [share.attained_s for share in self._las.shares.values()]

    def _tell(self, event: LasEvent, now_s: float) -> None:
        waiting = [event]
        while waiting:
            commands = self._las.handle(waiting.pop(0))
            waiting += [Resized(command.container_id, "", now_s) for command in commands]
        runs = {share.id for share in self._las.shares.values() if share.running and share.ready}
        self.preemptions += len((self._runs - runs) & self._las.shares.keys())
        for name in runs:
            if self._tasks[name].started_s < 0:
                self._tasks[name].started_s = now_s
        self._runs = runs

    def _look_ahead(self, now_s: float) -> None:
        self.version += 1
        ends = [(now_s + self._tasks[name].length_s - self._las.shares[name].attained_s, name) for name in self._runs]
        over_s, over = min(ends, default=(inf, ""))
        turn_s = self._las.deadline_s()
        if turn_s is not None and turn_s < over_s:
            self.next_s, self._over = turn_s, ""
        else:
            self.next_s, self._over = over_s, over
