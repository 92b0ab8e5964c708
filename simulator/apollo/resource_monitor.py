"""What all job managers are told of the servers, and decisions looked at again (Apollo §3.1, §3.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import nsmallest
from itertools import islice
from math import ceil

from policies.correct_apollo import correct
from policies.model import NodeView
from policies.wait_matrix import WaitMatrix
from simulator.apollo.task import SLOT, Task, World


class ResourceMonitor:
    """The servers' matrices as of the last round, and a list of lightly loaded servers."""

    def __init__(self, world: World) -> None:
        """Begin with idle servers."""
        self._world = world
        nodes = len(world.nodes)
        self.matrices = [WaitMatrix(0.0, {SLOT: 0.0})] * nodes
        self.changed: set[int] = set()
        """Servers with other tasks than at the last round."""
        self._light = max(world.shape.light_servers, ceil(world.shape.light_ratio * nodes))
        self.light = list(range(min(self._light, nodes)))
        """Those that would let a task wait least, the best first."""

    def round(self) -> None:
        """Take in all matrices, and look at what waits."""
        world = self._world
        for number in sorted(self.changed):
            self.matrices[number] = world.nodes[number].matrix()
        self.changed.clear()
        now_s = world.clock.now_s
        waits_s = [matrix.wait(SLOT, now_s) for matrix in self.matrices]
        keys = [(seconds, world.rng.random(), number) for number, seconds in enumerate(waits_s)]
        self.light = [number for _, _, number in nsmallest(self._light, keys)]
        if world.shape.corrected:
            self._correct(now_s)
        if world.tally.going:
            world.clock.later(world.shape.report_s, self.round)

    def _correct(self, now_s: float) -> None:
        """Send duplicates of tasks whose placement looks wrong by now."""
        cfg = self._world.shape.correction
        to = Counter[int]()
        for task, number in islice(self._wrong(now_s), cfg.max_per_round):
            better = next((n for n in self.light if to[n] < cfg.max_per_node and n != number), None)
            if better is None:
                return
            task.manager.duplicate(task, better)
            to[better] += 1

    def _wrong(self, now_s: float) -> Iterator[tuple[Task, int]]:
        """Yield tasks that wait where they should not, with their server; one of each server."""
        cfg = self._world.shape.correction
        best = self.light[0]
        view = NodeView(str(best), queued_s=self.matrices[best].wait(SLOT, now_s))
        for node in self._world.nodes:
            waiting = node.waiting()
            if not waiting or node.number == best:
                continue
            here = node.picture()
            for task, container in zip(waiting, here.waiting, strict=True):
                if task.copies <= cfg.max_moves and correct(container, here, view, cfg, now_s):
                    yield task, node.number
                    break
