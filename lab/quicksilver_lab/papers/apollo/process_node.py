"""A server of Apollo: regular tasks as they come, opportunistic ones at random when none waits (§3.2, §3.5)."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Final

from policies.common.remaining_time import left_s
from policies.common.victims import Victims, fewest
from policies.common.wait_matrix import WaitMatrix
from policies.correct.apollo import Apollo, slower
from policies.model import ContainerView, Kind, NodeQueue, NodeView, Resources
from quicksilver_lab.papers.algorithms.tokens import Extra, pick
from quicksilver_lab.papers.apollo.task import SLOT, ApolloTask, ApolloWorld
from sidecar.node.queue.wait_estimate import CoreRoom, WaitingJob, starts_s, wait_matrix

_NO_WAIT: Final = {SLOT: 0.0}


class Try:
    """One run of a task on a server."""

    __slots__ = ("began_s", "length_s", "lives_ratio", "regular_s", "task")

    def __init__(self, task: ApolloTask, began_s: float, length_s: float, lives_ratio: float = 1.0) -> None:
        """Begin. lives_ratio: after this share of its run it fails; 1: never."""
        self.lives_ratio = lives_ratio
        self.task, self.began_s, self.length_s = task, began_s, length_s
        self.regular_s = began_s if task.regular else inf
        """Since when it is a regular one."""

    @property
    def regular(self) -> bool:
        """Whether it is a regular one by now."""
        return self.regular_s < inf

    def spent_s(self, now_s: float) -> tuple[float, float]:
        """Return how long it has been a regular one, and an opportunistic one before."""
        since_s = min(self.regular_s, now_s)
        return now_s - since_s, since_s - self.began_s

    @property
    def rate(self) -> float:
        """How much of its work it does in a second."""
        return self.task.length_s / self.length_s

    @property
    def original(self) -> ApolloTask:
        """The task of which it is a run, perhaps of its copy."""
        return self.task if self.task.original or self.task.rival is None else self.task.rival


class ProcessNode:
    """The tasks of one server."""

    def __init__(self, number: int, slots: int, world: ApolloWorld, bad: bool = False) -> None:
        """Begin with nothing. bad: tries fail here."""
        self._bad, self._done, self._failed = bad, 0, 0
        self.number, self.rack = number, number // world.shape.racks_of
        self._slots, self._world = slots, world
        self.queue: deque[ApolloTask] = deque()
        """Regular tasks that wait, and some that began elsewhere meanwhile."""
        self._extras: list[ApolloTask] = []
        """Opportunistic tasks that wait."""
        self._tries: list[Try] = []

    def arrive(self, task: ApolloTask, regular: bool) -> None:
        """Queue a task."""
        (self.queue if regular else self._extras).append(task)
        self._fill()

    def upgrade(self, task: ApolloTask) -> None:
        """Make an opportunistic task a regular one, if it is still here: where it runs, or behind those that wait."""
        for attempt in self._tries:
            if attempt.task is task:
                attempt.regular_s = self._world.clock.now_s
        if task in self._extras:
            self._extras.remove(task)
            self.queue.append(task)
        self._fill()

    def _fill(self) -> None:
        """Start what there is room for; regular tasks take the place of opportunistic ones."""
        monitor, queue = self._world.monitor, self.queue
        monitor.changed.add(self.number)
        while queue:
            if queue[0].begun:
                queue.popleft()
            elif len(self._tries) < self._slots or self._make_room():
                self._start(queue.popleft())
            else:
                monitor.queued.add(self.number)
                return
        monitor.queued.discard(self.number)
        free = self._slots - len(self._tries)
        if self._extras and free:
            waiting = [Extra(str(n), SLOT, task.manager.weight()) for n, task in enumerate(self._extras)]
            for name in pick(waiting, Resources(0, free), self._world.rng):
                self._start(self._extras[int(name)])
            self._extras = [task for task in self._extras if not task.begun]

    @property
    def success_ratio(self) -> float:
        """How likely a try is to succeed here, by what was so far; each server begins with one that did."""
        return (self._done + 1) / (self._done + self._failed + 1)

    def _lives_ratio(self) -> float:
        rng = self._world.rng
        return rng.random() if self._bad and rng.random() < self._world.shape.fail_tries else 1.0

    def _make_room(self) -> bool:
        """Kill the opportunistic task that loses the least work; False when there is none."""
        world = self._world
        extra = {str(attempt.task.number): attempt for attempt in self._tries if not attempt.regular}
        for name in fewest(SLOT, [_view(attempt) for attempt in extra.values()], Victims.LEAST_WORK, world.clock.now_s):
            task = extra[name].task
            self._tries.remove(extra[name])
            world.tally.killed()
            world.figures.ran(*extra[name].spent_s(world.clock.now_s))
            world.watch.killed(task)
            world.clock.later(world.shape.delay_s, task.manager.again, task)
            return True
        return False

    def _start(self, task: ApolloTask) -> None:
        world = self._world
        task.begun, task.at = True, self.number
        times = world.watch.times()
        seconds = task.length_s * task.manager.slower(task, self) * times
        attempt = Try(task, world.clock.now_s, seconds, self._lives_ratio())
        self._tries.append(attempt)
        world.watch.began(attempt, slow=times > 1)
        world.tally.began()
        task.manager.began(task, self.number)
        world.clock.later(attempt.length_s * attempt.lives_ratio, self._end, attempt)

    def stop(self, task: ApolloTask) -> None:
        """Stop a task whose other copy is ahead."""
        attempt = next(attempt for attempt in self._tries if attempt.task is task)
        self._tries.remove(attempt)
        self._world.tally.stopped()
        self._fill()

    def _end(self, attempt: Try) -> None:
        if attempt not in self._tries:
            return
        self._tries.remove(attempt)
        world, manager = self._world, attempt.task.manager
        if attempt.lives_ratio < 1:
            self._failed += 1
            world.watch.failed(attempt)
            self._fill()
            return
        self._done += 1
        world.figures.ran(*attempt.spent_s(world.clock.now_s))
        world.watch.over(attempt)
        world.tally.ended(manager.job.number, attempt.began_s - manager.job.arrives_s, stage=attempt.task.stage)
        world.clock.later(world.shape.delay_s, manager.ended, attempt.original, attempt.length_s)
        self._fill()

    # What it tells

    def matrix(self) -> WaitMatrix:
        """Return the expected waits of regular tasks, which opportunistic ones do not delay."""
        now_s = self._world.clock.now_s
        tasks = self.waiting()
        if not tasks and sum(attempt.regular for attempt in self._tries) < self._slots:
            return WaitMatrix(now_s, _NO_WAIT)
        room, running = self._plays()
        waiting = [WaitingJob(SLOT, task.manager.expected_s) for task in tasks]
        return wait_matrix(room, running, waiting, [SLOT], now_s)

    def waiting(self) -> list[ApolloTask]:
        """Return regular tasks that wait, in their order."""
        return [task for task in self.queue if not task.begun]

    def _plays(self) -> tuple[CoreRoom, list[WaitingJob]]:
        now_s = self._world.clock.now_s
        regular = [attempt for attempt in self._tries if attempt.regular]
        running = [WaitingJob(SLOT, attempt.task.manager.expected_s, now_s - attempt.began_s) for attempt in regular]
        return CoreRoom(Resources(0, self._slots - len(regular))), running

    def at_most_s(self, cfg: Apollo) -> float:
        """Return what none of its regular tasks will still wait longer than, as `correct` counts; quickly."""
        now_s, longest_s, ran = self._world.clock.now_s, 0.0, []
        for attempt in self._tries:
            if attempt.regular:
                expected_s, ran_s = attempt.task.manager.expected_s, now_s - attempt.began_s
                longest_s = max(longest_s, left_s(expected_s, 0.0, ran_s))
                if expected_s > 0:
                    ran.append(ran_s / expected_s)
        ahead_s = sum(task.manager.expected_s for task in self.queue if not task.begun)
        return (longest_s + ahead_s) * slower(ran, cfg)

    def picture(self) -> NodeQueue:
        """Return its regular tasks for the policy that corrects decisions; the containers' ids are task numbers."""
        room, running = self._plays()
        waiting = self.waiting()
        jobs = [WaitingJob(SLOT, task.manager.expected_s) for task in waiting]
        views = [self._waits(task, at_s) for task, at_s in zip(waiting, starts_s(room, running, jobs), strict=True)]
        return NodeQueue(
            NodeView(str(self.number)),
            tuple(_view(attempt) for attempt in self._tries if attempt.regular),
            tuple(views),
        )

    def _waits(self, task: ApolloTask, starts_in_s: float) -> ContainerView:
        manager = task.manager
        return ContainerView(
            str(task.number),
            str(manager.job.number),
            Kind.QUEUEABLE,
            SLOT,
            arrived_s=task.sent_s,
            expected_s=manager.expected_s,
            starts_in_s=starts_in_s,
            placed_wait_s=task.placed_wait_s,
            stage_wait_s=manager.average_wait_s(),
        )


def _view(attempt: Try) -> ContainerView:
    task = attempt.task
    return ContainerView(
        str(task.number),
        str(task.manager.job.number),
        Kind.QUEUEABLE,
        SLOT,
        started_s=attempt.began_s,
        expected_s=task.manager.expected_s,
    )
