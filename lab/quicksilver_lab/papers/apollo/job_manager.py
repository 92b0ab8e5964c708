"""The scheduler of one job: sends its tasks to where they will be over first, as far as its tokens go (§3.3, §3.5)."""

from __future__ import annotations

from collections import deque
from itertools import count, islice

from policies.common.completion_time import Input, Server, estimate_s, reading_s
from policies.common.stable_matching import Preference, dispatch_order, match, preference
from policies.common.tokens import allowance, weight
from policies.common.wait_matrix import WaitMatrix
from quicksilver.simulator.model import SimulatedJob
from quicksilver_lab.papers.algorithms.tokens import Wish, regular_next
from quicksilver_lab.papers.apollo.process_node import ProcessNode
from quicksilver_lab.papers.apollo.task import SLOT, ApolloTask, ApolloWorld

LEAST_RETRY_S = 0.001
"""Between two batches of one job at least."""


class JobManager:
    """A job's tasks: pending, out as regular ones, out as opportunistic ones, over."""

    def __init__(self, world: ApolloWorld, job: SimulatedJob, numbers_from: int, tokens: int) -> None:
        """Begin with all tasks of the first stage pending, each with its input on some servers.

        tokens: regular tasks that may be out.
        """
        self.job, self._world, self.tokens = job, world, tokens
        self._numbers = count(numbers_from)
        self._stages = enumerate(job.by_stage())
        self._begin_stage()
        self._regular = 0
        self._extras: dict[ApolloTask, int] = {}
        """Opportunistic tasks that are out, with their server."""
        self._known: dict[int, WaitMatrix] = {}
        """What servers answered that were sent a task."""
        self._due = False

    def _begin_stage(self) -> bool:
        """Make the tasks of the next stage pending; False when there is none. What siblings did is of their stage."""
        following = next(self._stages, None)
        if following is None:
            return False
        stage, (durations_s, self._estimate_s) = following
        world = self._world
        nodes, replicas = range(len(world.nodes)), min(world.shape.replicas, len(world.nodes))
        self._pending = deque(
            ApolloTask(next(self._numbers), self, seconds, tuple(world.rng.sample(nodes, replicas)), stage)
            for seconds in durations_s
        )
        self._open_tasks = len(self._pending)
        self._over, self._over_s, self._over_work_s = 0, 0.0, 0.0
        self._waits, self._waits_s = 0, 0.0
        return True

    # What it knows

    @property
    def expected_s(self) -> float:
        """How long a task is expected to run: as its siblings did, else as was told."""
        return self._over_s / self._over if self._over else self._estimate_s

    @property
    def usual_rate(self) -> float:
        """How much of their work those that are over did in a second; 0 while none is."""
        return self._over_work_s / self._over_s if self._over_s else 0.0

    def average_wait_s(self) -> float:
        """Return the average wait of its tasks that were sent: what it was, or what was expected of it."""
        return self._waits_s / self._waits

    def weight(self) -> float:
        """Return how likely a server picks an opportunistic task of the job."""
        shape = self._world.shape
        return weight(self.tokens, max(1, len(self._extras)), shape.opportunistic)

    def slower(self, task: ApolloTask, node: ProcessNode) -> float:
        """Return how many times longer a task runs on a server than where its input is."""
        shape = self._world.shape
        if not shape.reading_ratio:
            return 1.0
        part, server = self._input(task, node, 1.0), Server(str(node.number), str(node.rack))
        return 1 - shape.reading_ratio + reading_s([part], server, shape.completion)

    def _input(self, task: ApolloTask, node: ProcessNode, seconds: float) -> Input:
        """Return the copy of a task's input that is nearest to a server; `seconds`: how long a task runs beside it."""
        nodes, shape = self._world.nodes, self._world.shape
        nearest = min(task.inputs, key=lambda n: (n != node.number, nodes[n].rack != node.rack))
        size_mb = seconds * shape.reading_ratio * shape.completion.local_mb_s
        return Input(size_mb, str(nearest), str(nodes[nearest].rack))

    # Scheduling

    def soon(self, seconds: float = 0.0) -> None:
        """Schedule, but once at a time."""
        if not self._due:
            self._due = True
            self._world.clock.later(seconds, self._schedule)

    def _schedule(self) -> None:
        self._due = False
        shape = self._world.shape
        regular = self._hand_out_tokens()
        room = regular + allowance(self.tokens, shape.opportunistic) - len(self._extras)
        batch = [self._pending.popleft() for _ in range(min(shape.batch, room, len(self._pending)))]
        if not batch:
            return
        offers = [self._offers(task) for task in batch]
        nodes = match(offers)
        waits_s = {node: self._wait_s(int(node)) for node in nodes if node is not None}
        order = dispatch_order(nodes, waits_s)
        for rank, which in enumerate(order):
            node = nodes[which]
            assert node is not None
            self._send(batch[which], int(node), waits_s[node], rank < regular)
        self._pending.extendleft(task for task, node in zip(batch[::-1], nodes[::-1], strict=True) if node is None)
        if self._pending:
            self.soon(max(2 * shape.delay_s, LEAST_RETRY_S))

    def _hand_out_tokens(self) -> int:
        """Upgrade opportunistic tasks while there are tokens; return how many are left for pending ones."""
        shape = self._world.shape
        free = max(0, self.tokens - self._regular)
        if not free:
            return 0
        if not self._extras:
            return min(free, len(self._pending))
        pending = [Wish(str(n), 0.0) for n in range(min(free, len(self._pending)))]
        out = {f"out {task.number}": task for task in islice(self._extras, free)}
        names = regular_next([*(Wish(name, 0.0, out=True) for name in out), *pending], self.tokens, self._regular)
        for task in (out[name] for name in names if name in out):
            node = self._world.nodes[self._extras.pop(task)]
            task.regular = True
            self._regular += 1
            self._world.tally.counts["upgrades"] += 1
            self._world.clock.later(shape.delay_s, node.upgrade, task)
        return sum(name not in out for name in names)

    def _offers(self, task: ApolloTask) -> Preference:
        """Return when a task would be over on its candidates, with a little chance against herds (§3.4)."""
        shape, rng, nodes = self._world.shape, self._world.rng, self._world.nodes
        candidates = set(task.inputs) if shape.reading_ratio else set()
        if shape.reading_ratio:
            for server in task.inputs:
                first = server - server % shape.racks_of
                rack = range(first, min(first + shape.racks_of, len(nodes)))
                candidates.update(rng.sample(rack, min(shape.rack_servers, len(rack))))
        light = self._world.monitor.light()
        candidates.update(rng.sample(light, min(shape.light_servers, len(light))))
        return preference({str(n): self.over_s(task, n) + rng.random() * shape.jitter_s for n in sorted(candidates)})

    def over_s(self, task: ApolloTask, number: int) -> float:
        """Return in how many seconds a task would be over on a server."""
        shape, node = self._world.shape, self._world.nodes[number]
        seconds = self.expected_s
        server = Server(str(number), str(node.rack), self._wait_s(number), success_ratio=node.success_ratio)
        inputs = [self._input(task, node, seconds)] if shape.reading_ratio else []
        return estimate_s(inputs, seconds * (1 - shape.reading_ratio), server, shape.completion)

    def _wait_s(self, number: int) -> float:
        broadcast, heard = self._world.monitor.matrices[number], self._known.get(number)
        newest = heard if heard is not None and heard.at_s > broadcast.at_s else broadcast
        return newest.wait(SLOT, self._world.clock.now_s)

    def _send(self, task: ApolloTask, number: int, wait_s: float, regular: bool) -> None:
        task.regular = task.sent_regular = regular
        task.node, task.copies = number, 1
        if regular:
            self._regular += 1
        else:
            self._extras[task] = number
            self._world.tally.counts["opportunistic"] += 1
        task.sent_s, task.placed_wait_s = self._world.clock.now_s, wait_s
        self._waits += 1
        self._waits_s += wait_s
        self._world.clock.later(self._world.shape.delay_s, self._land, task, number, regular)

    def duplicate(self, task: ApolloTask, number: int) -> None:
        """Send a regular task that waits to a second server; it runs where its turn comes first (§3.4)."""
        task.copies += 1
        self._world.tally.counts["duplicates"] += 1
        self._world.clock.later(self._world.shape.delay_s, self._land, task, number, True)

    def rerun(self, task: ApolloTask, number: int, wait_s: float) -> None:
        """Send a copy of a running task to a second server; the one that is over first counts (§3.4)."""
        world = self._world
        copy = ApolloTask(
            task.number, self, task.length_s, task.inputs, task.stage, regular=True, rival=task, original=False
        )
        task.rival = copy
        copy.sent_s, copy.placed_wait_s, copy.node, copy.copies = world.clock.now_s, wait_s, number, 1
        world.tally.counts["reruns"] += 1
        world.clock.later(world.shape.delay_s, self._land, copy, number, True)

    def _land(self, task: ApolloTask, number: int, regular: bool) -> None:
        node = self._world.nodes[number]
        node.arrive(task, regular)
        self._known[number] = node.matrix()

    # What servers tell

    def began(self, task: ApolloTask, number: int) -> None:
        """Note that a task runs, and what it waited."""
        waited_s = self._world.clock.now_s - task.sent_s
        if not task.original:
            return
        self._waits_s += waited_s - task.placed_wait_s
        if task.sent_regular:
            self._world.figures.waited(waited_s, task.placed_wait_s)
        if number != task.node:
            self._world.tally.counts["duplicates_won"] += 1

    def again(self, task: ApolloTask) -> None:
        """Send a task again that gave way or failed; what waits of it anywhere stays void."""
        if self._extras.pop(task, None) is None:
            self._regular -= 1
        self._pending.appendleft(ApolloTask(task.number, self, task.length_s, task.inputs, task.stage))
        self.soon()

    def ended(self, task: ApolloTask, seconds: float) -> None:
        """Learn from a task that is over, and use its token."""
        self._over += 1
        self._over_s += seconds
        self._over_work_s += task.length_s
        if self._extras.pop(task, None) is None:
            self._regular -= 1
        self._open_tasks -= 1
        if not self._open_tasks and not self._begin_stage():
            self._world.virtual.give_back(self.tokens)
        self.soon()
