"""The ResourceManager's own scheduling: guaranteed containers, handed out when a node heartbeats.

FIFO goes by application, the oldest first. The Capacity Scheduler goes by queue, the one with the least used share of
its capacity first, up to its maximum, and within a queue by application. The Fair Scheduler, here with one queue, goes
by application, the one with the fewest containers first. Of containers that are not on a host of their
choice a node gets only so many in one heartbeat (`off_switch`; stock YARN: 1). Not modelled: reservations, limits of
users, preemption between queues, priorities of applications.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from policies.model import Resources
from quicksilver.simulator.errors import SimulatorError

ANY: Final = "*"
Key = tuple[int, int]
"""Priority and allocation request id."""


@dataclass(slots=True)
class Rows:
    """What an application wants of one key, by host, rack and ANY, of which ANY is the demand."""

    size: Resources
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class SchedulerNode:
    """A node; `used` is what guaranteed containers hold."""

    id: str
    host: str
    rack: str
    capacity: Resources
    used: Resources = field(default_factory=Resources)

    @property
    def free(self) -> Resources:
        """What guaranteed containers leave."""
        return self.capacity - self.used


@dataclass(slots=True)
class SchedulerDemand:
    """An application that may want containers; the number is its place in the order."""

    number: int
    queue: str
    rows: dict[Key, Rows] = field(default_factory=dict)
    containers: int = 0
    """Containers that it was given and that have not ended, for the Fair Scheduler."""


@dataclass(frozen=True, slots=True)
class Share:
    """A queue of the Capacity Scheduler, as shares of the cluster in 0..1."""

    capacity: float
    maximum: float = 1.0


@dataclass(frozen=True, slots=True)
class Assigned:
    """A container that a node was given."""

    demand: SchedulerDemand
    key: Key
    size: Resources


class Scheduler:
    """All demands and nodes. Queues without shares: first come, first served."""

    def __init__(
        self,
        nodes: Iterable[SchedulerNode],
        queues: Mapping[str, Share] | None = None,
        off_switch: int = 1,
        fair: bool = False,
    ) -> None:
        """Begin with these nodes.

        off_switch: per heartbeat of a node; 0: until more than half of its free cores are given out (assignmultiple
        with dynamic.max.assign). fair: the application with the fewest containers comes first.
        """
        self.nodes = {node.id: node for node in nodes}
        self.used: dict[str, Resources] = {}
        """By queue, of guaranteed containers."""
        self.total = sum((node.capacity for node in self.nodes.values()), Resources())
        self._queues, self._off_switch, self._fair = dict(queues or {}), off_switch, fair
        self._wanting: dict[str, list[int]] = {}
        self._demands: dict[int, SchedulerDemand] = {}
        self._named = False
        """Whether anybody ever named a host."""

    @property
    def wanting(self) -> bool:
        """Whether any application wants a container."""
        return bool(self._demands)

    def want(self, demand: SchedulerDemand) -> None:
        """Note that an application wants what its rows say.

        Raises SimulatorError for a queue that is not there, or may never hold one of them.
        """
        line = self._line(demand.queue)
        for rows in demand.rows.values():
            if self._queues and self._dominant(rows.size) > self._queues[line].maximum + 1e-9:
                raise SimulatorError(f"queue '{line}': one container is more than its maximum; raise `queues` maximum")
        if not demand.rows:
            self.forget(demand)
        elif demand.number not in self._demands:
            self._demands[demand.number] = demand
            insort(self._wanting.setdefault(line, []), demand.number)

    def _line(self, queue: str) -> str:
        if not self._queues:
            return ""
        if queue not in self._queues:
            known = ", ".join(sorted(self._queues))
            raise SimulatorError(f"queue '{queue}' is none of {known}; name it in `queues` of the system's settings")
        return queue

    def forget(self, demand: SchedulerDemand) -> None:
        """An application wants nothing any more."""
        if self._demands.pop(demand.number, None) is not None:
            line = self._wanting[self._line(demand.queue)]
            del line[bisect_left(line, demand.number)]

    def row(self, demand: SchedulerDemand, key: Key, size: Resources, name: str, count: int) -> None:
        """Set how many containers of a key an application wants at a host, in a rack or anywhere."""
        self._named |= name != ANY
        rows = demand.rows.setdefault(key, Rows(size))
        if count:
            rows.counts[name] = count
        else:
            rows.counts.pop(name, None)
        if not rows.counts:
            del demand.rows[key]

    def charge(self, queue: str, node: SchedulerNode, size: Resources, sign: int) -> None:
        """Count a guaranteed container, or one less."""
        used = self.used.get(queue, Resources())
        if sign > 0:
            node.used, self.used[queue] = node.used + size, used + size
        else:
            node.used, self.used[queue] = node.used - size, used - size

    def assign(self, node: SchedulerNode) -> list[Assigned]:
        """Hand out what a heartbeat of a node allows, and count it."""
        assignments: list[Assigned] = []
        off_switch = self._off_switch or int(node.free.vcores / 2) + 1
        while self._demands and node.used.vcores < node.capacity.vcores and (off_switch or self._named):
            assignment = self._next(node, off_switch)
            if assignment is None:
                break
            assigned, local = assignment
            off_switch -= not local
            self.charge(assigned.demand.queue, node, assigned.size, 1)
            assigned.demand.containers += 1
            assignments.append(assigned)
            if not assigned.demand.rows:
                self.forget(assigned.demand)
        return assignments

    def _next(self, node: SchedulerNode, off_switch: int) -> tuple[Assigned, bool] | None:
        for line in self._lines():
            for number in self._numbers(line):
                demand = self._demands[number]
                for key in sorted(demand.rows) if len(demand.rows) > 1 else demand.rows:
                    local = self._fits(demand.rows[key], node, off_switch)
                    if local is not None and self._allowed(line, demand.rows[key].size):
                        return Assigned(demand, key, self._take(demand, key, node)), local
        return None

    def _numbers(self, line: str) -> Iterable[int]:
        """Return the applications of a line in their order."""
        if not self._fair:
            return self._wanting[line]
        return sorted(self._wanting[line], key=lambda number: (self._demands[number].containers, number))

    def _lines(self) -> list[str]:
        if not self._queues:
            return [line for line, wanting in self._wanting.items() if wanting]
        return sorted((line for line, wanting in self._wanting.items() if wanting), key=self._used_ratio)

    def _used_ratio(self, queue: str) -> tuple[float, str]:
        used = self.used.get(queue, Resources())
        return self._dominant(used) / self._queues[queue].capacity, queue

    def _dominant(self, used: Resources) -> float:
        memory = used.memory_mb / self.total.memory_mb if self.total.memory_mb else 0.0
        return max(memory, used.vcores / self.total.vcores)

    def _allowed(self, queue: str, size: Resources) -> bool:
        if not self._queues:
            return True
        return self._dominant(self.used.get(queue, Resources()) + size) <= self._queues[queue].maximum + 1e-9

    @staticmethod
    def _fits(rows: Rows, node: SchedulerNode, off_switch: int) -> bool | None:
        """Return whether a container of these rows would be local at a node, None when it may not go there now."""
        if ANY not in rows.counts:
            return None
        local = node.host in rows.counts
        if not (local or off_switch):
            return None
        return local if rows.size.fits(node.free) else None

    @staticmethod
    def _take(demand: SchedulerDemand, key: Key, node: SchedulerNode) -> Resources:
        rows = demand.rows[key]
        for name in (node.host, node.rack, ANY):
            if name in rows.counts:
                rows.counts[name] -= 1
                if rows.counts[name] == 0:
                    del rows.counts[name]
        if ANY not in rows.counts:
            del demand.rows[key]
        return rows.size
