"""Stragglers: tries that go slowly, and their copies on other servers (Apollo §3.4); and tries that fail.

Rates are those of slots that share nothing: a try goes at one rate from its begin to its end, and is known by it.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from quicksilver_lab.papers.algorithms.stragglers import StragglerProgress, catches_up_s, rerun
from quicksilver_lab.papers.apollo.task import SLOT, ApolloTask, ApolloWorld

if TYPE_CHECKING:
    from quicksilver_lab.papers.apollo.process_node import Try


class ApolloWatch:
    """The tries of one run that are slow by chance; others are never looked at."""

    def __init__(self, world: ApolloWorld) -> None:
        """Begin with none."""
        self._world = world
        self._slow: dict[ApolloTask, Try] = {}
        """Originals that go slowly and have no copy yet."""
        self._copied: dict[ApolloTask, Try] = {}
        """Originals that have one."""

    def times(self) -> float:
        """Return how many times longer the try that begins now will take, by chance."""
        shape = self._world.shape
        return shape.slow_times if shape.slow_tries and self._world.rng.random() < shape.slow_tries else 1.0

    def began(self, attempt: Try, slow: bool) -> None:
        """Note a try: a slow one is watched, and a copy may be fast enough to catch up with its original."""
        task, world = attempt.task, self._world
        if not task.original:
            assert task.rival is not None
            first = self._copied.get(task.rival)
            if first is None:
                return
            ahead = (world.clock.now_s - first.began_s) * first.rate
            after_s = catches_up_s(ahead, first.rate, attempt.rate)
            if after_s < inf:
                world.clock.later(after_s, self._caught_up, first)
        elif slow:
            self._slow[task] = attempt
            world.tally.counts["stragglers"] += 1

    def killed(self, task: ApolloTask) -> None:
        """Note that an opportunistic task is killed; it has no copy."""
        self._slow.pop(task, None)

    def over(self, attempt: Try) -> None:
        """Note that a try is over: whatever else there is of the task is void."""
        task, rival = attempt.task, attempt.task.rival
        self._slow.pop(attempt.original, None)
        if rival is None:
            return
        running = self._copied.pop(attempt.original, None)
        if not task.original:
            self._world.tally.counts["reruns_won"] += 1
            if running is not None:
                self._world.nodes[rival.at].stop(rival)
        elif rival.begun:
            self._world.nodes[rival.at].stop(rival)
        rival.begun = True

    def failed(self, attempt: Try) -> None:
        """Note a try that failed: its task begins anew, unless another copy of it goes on."""
        task, original, world = attempt.task, attempt.original, self._world
        self._slow.pop(original, None)
        world.tally.failed()
        running = self._copied.pop(original, None)
        if task.original and task.rival is not None:
            return
        if not task.original:
            original.rival = None
        if running is None:
            world.clock.later(world.shape.delay_s, task.manager.again, original)

    def _caught_up(self, first: Try) -> None:
        """Stop an original of which the copy is as far, if both still run."""
        if self._copied.get(first.task) is first:
            del self._copied[first.task]
            self._world.nodes[first.task.at].stop(first.task)

    def look(self) -> None:
        """Send copies of those that would be over sooner elsewhere, at most one to each server at a time."""
        world = self._world
        if not (self._slow and world.shape.reruns):
            return
        now_s, used = world.clock.now_s, set[int]()
        for task, attempt in list(self._slow.items()):
            number = next((n for n in world.monitor.light() if n not in used and n != task.at), None)
            if number is None:
                continue
            ran_s = now_s - attempt.began_s
            wait_s = world.monitor.matrices[number].wait(SLOT, now_s)
            progress = StragglerProgress(attempt.rate * ran_s, task.length_s, ran_s)
            if attempt.regular and rerun(progress, task.manager.usual_rate, wait_s, world.shape.straggling):
                self._copied[task] = self._slow.pop(task)
                used.add(number)
                task.manager.rerun(task, number, wait_s)
