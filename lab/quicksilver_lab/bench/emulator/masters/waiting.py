"""The tasks of a MapReduce master that wait for containers, and which of them gets one (ScheduledRequests, 3.4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver_lab.bench.emulator.masters.asks import (
    FAILED_MAP_PRIORITY,
    MAP_PRIORITY,
    OPPORTUNISTIC_MAP_PRIORITY,
    REDUCE_PRIORITY,
    MasterAsks,
)

_MAP_PRIORITIES: Final = frozenset({FAILED_MAP_PRIORITY, MAP_PRIORITY, OPPORTUNISTIC_MAP_PRIORITY})

RackOf = Callable[[str], str]
Given = tuple[int, y.ContainerProto]
"""A task and its container."""


@dataclass(slots=True)
class _Ask:
    """One task that waits. serial: tells it from earlier asks of the same task."""

    priority: int
    serial: int
    places: tuple[str, ...]
    since_s: float


class WaitingTasks:
    """Maps and reduces that are asked for. Every ask stands in `table` until it is assigned or taken back."""

    __slots__ = ("_failed", "_near", "_of_hundred", "_percent", "_rack_of", "_serial", "maps", "reduces", "table")

    def __init__(self, memory_mb: int, opportunistic_percent: int, rack_of: RackOf) -> None:
        """Begin empty. opportunistic_percent: of 100 maps the first so many are asked for as OPPORTUNISTIC."""
        self.table = MasterAsks(memory_mb)
        self.maps: dict[int, _Ask] = {}
        self.reduces: dict[int, _Ask] = {}
        self._near: dict[str, deque[tuple[int, int]]] = {}
        """Maps by host and by rack; entries of asks that are no more are skipped."""
        self._failed: deque[tuple[int, int]] = deque()
        self._percent, self._rack_of = opportunistic_percent, rack_of
        self._serial = self._of_hundred = 0

    def ask_map(self, task: int, hosts: tuple[str, ...], now_s: float) -> None:
        """Ask for a container for a map, near its hosts, or as OPPORTUNISTIC anywhere."""
        opportunistic = self._of_hundred < self._percent
        self._of_hundred = (self._of_hundred + 1) % 100
        if opportunistic:
            self._add(self.maps, task, _Ask(OPPORTUNISTIC_MAP_PRIORITY, self._next(), (), now_s))
            return
        ask = _Ask(MAP_PRIORITY, self._next(), (*hosts, *dict.fromkeys(map(self._rack_of, hosts))), now_s)
        for place in ask.places:
            self._near.setdefault(place, deque()).append((task, ask.serial))
        self._add(self.maps, task, ask)

    def ask_failed_map(self, task: int, now_s: float) -> None:
        """Ask for a container for a map that failed: before all others, anywhere, guaranteed."""
        ask = _Ask(FAILED_MAP_PRIORITY, self._next(), (), now_s)
        self._failed.append((task, ask.serial))
        self._add(self.maps, task, ask)

    def ask_reduce(self, task: int, now_s: float) -> None:
        """Ask for a container for a reduce."""
        self._add(self.reduces, task, _Ask(REDUCE_PRIORITY, self._next(), (), now_s))

    def drop_reduces(self, count: int) -> list[int]:
        """Ask no longer for so many reduces, the oldest asks first; return them."""
        dropped = list(self.reduces)[:count]
        for task in dropped:
            self._take(self.reduces, task)
        return dropped

    def hanging(self, now_s: float) -> list[float]:
        """Return how long each map has waited."""
        return [now_s - ask.since_s for ask in self.maps.values()]

    def assign(self, containers: Iterable[y.ContainerProto]) -> tuple[list[Given], list[y.ContainerProto]]:
        """Give containers to tasks; return who got which, and the containers that nobody needs.

        First failed maps and reduces, then maps by host, by rack, and whoever has waited longest.
        """
        assignments: list[Given] = []
        for_maps: list[y.ContainerProto] = []
        surplus: list[y.ContainerProto] = []
        for container in containers:
            priority = container.priority.priority
            if priority == REDUCE_PRIORITY and self.reduces:
                assignments.append((self._take(self.reduces, next(iter(self.reduces))), container))
            elif priority == FAILED_MAP_PRIORITY and (task := self._first(self._failed)) is not None:
                assignments.append((self._take(self.maps, task), container))
            else:
                (for_maps if priority in _MAP_PRIORITIES else surplus).append(container)
        for_maps = self._assign_near(for_maps, lambda container: container.nodeId.host, assignments)
        for_maps = self._assign_near(for_maps, lambda container: self._rack_of(container.nodeId.host), assignments)
        for container in for_maps:
            if self.maps:
                assignments.append((self._take(self.maps, next(iter(self.maps))), container))
            else:
                surplus.append(container)
        return assignments, surplus

    def _assign_near(
        self, containers: list[y.ContainerProto], place_of: Callable[[y.ContainerProto], str], assignments: list[Given]
    ) -> list[y.ContainerProto]:
        if not self._near:
            return containers
        rest = []
        for container in containers:
            task = None
            if container.priority.priority != OPPORTUNISTIC_MAP_PRIORITY:
                task = self._first(self._near.get(place_of(container)))
            if task is None:
                rest.append(container)
            else:
                assignments.append((self._take(self.maps, task), container))
        return rest

    def _first(self, keys: deque[tuple[int, int]] | None) -> int | None:
        while keys:
            task, serial = keys.popleft()
            ask = self.maps.get(task)
            if ask is not None and ask.serial == serial:
                return task
        return None

    def _next(self) -> int:
        self._serial += 1
        return self._serial

    def _add(self, asks: dict[int, _Ask], task: int, ask: _Ask) -> None:
        asks[task] = ask
        self.table.add(ask.priority, ask.places)

    def _take(self, asks: dict[int, _Ask], task: int) -> int:
        ask = asks.pop(task)
        self.table.take(ask.priority, ask.places)
        return task
