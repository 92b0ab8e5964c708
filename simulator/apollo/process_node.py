"""A server of Apollo: regular tasks as they come, opportunistic ones at random when none waits (§3.2, §3.5)."""

from __future__ import annotations

from collections import deque

from policies.model import ContainerView, Kind, NodeQueue, NodeView, Resources
from policies.tokens import Extra, pick
from policies.victims import Victims, fewest
from policies.wait_matrix import WaitMatrix
from sidecar.estimate import Job, Room, starts_s
from sidecar.wait_times import wait_matrix
from simulator.apollo.task import SLOT, Task, World


class Try:
    """One run of a task on a server."""

    __slots__ = ("began_s", "length_s", "regular", "task")

    def __init__(self, task: Task, began_s: float, length_s: float) -> None:
        """Begin."""
        self.task, self.began_s, self.length_s, self.regular = task, began_s, length_s, task.regular


class ProcessNode:
    """The tasks of one server."""

    def __init__(self, number: int, slots: int, world: World) -> None:
        """Begin with nothing."""
        self.number, self.rack = number, number // world.shape.racks_of
        self._slots, self._world = slots, world
        self.queue: deque[Task] = deque()
        """Regular tasks that wait, and some that began elsewhere meanwhile."""
        self._extras: list[Task] = []
        """Opportunistic tasks that wait."""
        self._tries: list[Try] = []

    def arrive(self, task: Task, regular: bool) -> None:
        """Queue a task."""
        (self.queue if regular else self._extras).append(task)
        self._fill()

    def upgrade(self, task: Task) -> None:
        """Make an opportunistic task a regular one, if it is still here: where it runs, or behind those that wait."""
        for one in self._tries:
            if one.task is task:
                one.regular = True
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
            for chosen in pick(waiting, Resources(0, free), self._world.rng):
                self._start(self._extras[int(chosen)])
            self._extras = [task for task in self._extras if not task.begun]

    def _make_room(self) -> bool:
        """Kill the opportunistic task that loses the least work; False when there is none."""
        world = self._world
        extra = {str(one.task.number): one for one in self._tries if not one.regular}
        for name in fewest(SLOT, [_view(one) for one in extra.values()], Victims.LEAST_WORK, world.clock.now_s):
            task = extra[name].task
            self._tries.remove(extra[name])
            world.tally.killed()
            world.clock.later(world.shape.delay_s, task.manager.killed, task)
            return True
        return False

    def _start(self, task: Task) -> None:
        world = self._world
        task.begun = True
        one = Try(task, world.clock.now_s, task.length_s * task.manager.slower(task, self))
        self._tries.append(one)
        world.tally.began()
        task.manager.began(task, self.number)
        world.clock.later(one.length_s, self._end, one)

    def _end(self, one: Try) -> None:
        if one not in self._tries:
            return
        self._tries.remove(one)
        world, manager = self._world, one.task.manager
        world.tally.ended(manager.job.number, one.began_s - manager.job.arrives_s)
        world.clock.later(world.shape.delay_s, manager.ended, one.task, one.length_s)
        self._fill()

    # What it tells

    def matrix(self) -> WaitMatrix:
        """Return the expected waits of regular tasks, which opportunistic ones do not delay."""
        now_s = self._world.clock.now_s
        room, running = self._plays()
        waiting = [Job(SLOT, task.manager.expected_s) for task in self.waiting()]
        return wait_matrix(room, running, waiting, [SLOT], now_s)

    def waiting(self) -> list[Task]:
        """Return regular tasks that wait, in their order."""
        return [task for task in self.queue if not task.begun]

    def _plays(self) -> tuple[Room, list[Job]]:
        now_s = self._world.clock.now_s
        regular = [one for one in self._tries if one.regular]
        running = [Job(SLOT, one.task.manager.expected_s, now_s - one.began_s) for one in regular]
        return Room(Resources(0, self._slots - len(regular))), running

    def picture(self) -> NodeQueue:
        """Return its regular tasks for the policy that corrects decisions; the containers' ids are task numbers."""
        room, running = self._plays()
        waiting = self.waiting()
        jobs = [Job(SLOT, task.manager.expected_s) for task in waiting]
        views = [self._waits(task, at_s) for task, at_s in zip(waiting, starts_s(room, running, jobs), strict=True)]
        return NodeQueue(
            NodeView(str(self.number)), tuple(_view(one) for one in self._tries if one.regular), tuple(views)
        )

    def _waits(self, task: Task, starts_in_s: float) -> ContainerView:
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


def _view(one: Try) -> ContainerView:
    task = one.task
    return ContainerView(
        str(task.number),
        str(task.manager.job.number),
        Kind.QUEUEABLE,
        SLOT,
        started_s=one.began_s,
        expected_s=task.manager.expected_s,
    )
