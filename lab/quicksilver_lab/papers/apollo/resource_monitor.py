"""What all job managers are told of the servers, and decisions looked at again (Apollo §3.1, §3.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import nsmallest
from itertools import islice
from math import ceil

from policies.common.wait_matrix import WaitMatrix
from policies.correct.apollo import correct, worth
from policies.model import NodeView
from quicksilver_lab.papers.apollo.task import SLOT, ApolloTask, ApolloWorld


class ResourceMonitor:
    """The servers' matrices as of the last round, and a list of lightly loaded servers."""

    def __init__(self, world: ApolloWorld) -> None:
        """Begin with idle servers."""
        self._world = world
        nodes = len(world.nodes)
        self.matrices = [WaitMatrix(0.0, {SLOT: 0.0})] * nodes
        self._free_s = [0.0] * nodes
        """When each of them would start a task that came now."""
        self.changed: set[int] = set()
        """Servers with other tasks than at the last round."""
        self.queued: set[int] = set()
        """Servers where regular tasks wait."""
        self._length = min(nodes, max(world.shape.light_servers, ceil(world.shape.light_ratio * nodes)))
        self._light: list[int] = []

    def light(self) -> list[int]:
        """Return servers that would let a task wait least, the best first, idle ones by chance; made once a round."""
        if not self._light:
            now_s, free_s = self._world.clock.now_s, self._free_s
            idle = [node for node, at_s in enumerate(free_s) if at_s <= now_s]
            self._light = self._world.rng.sample(idle, min(self._length, len(idle)))
            if len(self._light) < self._length:
                busy = ((at_s, node) for node, at_s in enumerate(free_s) if at_s > now_s)
                self._light += [node for _, node in nsmallest(self._length - len(idle), busy)]
        return self._light

    def round(self) -> None:
        """Store all matrices, and check what waits."""
        world = self._world
        for number in sorted(self.changed):
            matrix = self.matrices[number] = world.nodes[number].matrix()
            self._free_s[number] = matrix.at_s + matrix.wait(SLOT, matrix.at_s)
        self.changed.clear()
        self._light.clear()
        if world.shape.corrected and self.queued:
            self._correct(world.clock.now_s)
        world.watch.look()
        if world.tally.going:
            world.clock.later(world.shape.report_s, self.round)

    def _correct(self, now_s: float) -> None:
        """Send duplicates of tasks whose placement looks wrong by now."""
        cfg = self._world.shape.correction
        to = Counter[int]()
        for task, number in islice(self._wrong(now_s), cfg.max_per_round):
            better = next((n for n in self.light() if to[n] < cfg.max_per_node and n != number), None)
            if better is None:
                return
            task.manager.duplicate(task, better)
            to[better] += 1

    def _wrong(self, now_s: float) -> Iterator[tuple[ApolloTask, int]]:
        """Yield tasks that wait where they should not, with their server; one of each server."""
        cfg = self._world.shape.correction
        waiting = self._to_look_at(cfg.max_moves)
        if not waiting:
            return
        best = self.light()[0]
        view = NodeView(str(best), queued_s=self.matrices[best].wait(SLOT, now_s))
        for number, tasks in waiting:
            node = self._world.nodes[number]
            if number == best or not worth(node.at_most_s(cfg), view.wait_s, cfg):
                continue
            here = node.picture()
            for task, container in zip(tasks, here.waiting, strict=True):
                if task.copies <= cfg.max_moves and correct(container, here, view, cfg, now_s):
                    yield task, number
                    break

    def _to_look_at(self, max_copies: int) -> list[tuple[int, list[ApolloTask]]]:
        """Return servers where regular tasks wait, with those, if one of them may still be sent elsewhere."""
        servers = []
        for number in sorted(self.queued):
            tasks = self._world.nodes[number].waiting()
            if not tasks:
                self.queued.discard(number)
            elif any(task.copies <= max_copies for task in tasks):
                servers.append((number, tasks))
        return servers
