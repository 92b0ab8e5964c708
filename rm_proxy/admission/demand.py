"""What one application holds and wants, split into core and elastic containers (Zoe, §2.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from policies.common.app_admission import Core
from policies.model import Resources
from policies.requests import Containers
from rm_proxy.attempt.attempt import Attempt


@dataclass(slots=True)
class DemandAtPriority:
    """Containers of one request priority."""

    size: Resources
    """The largest that is wanted, else of those that are held."""
    held_g: int = 0
    held_q: int = 0
    asked_g: int = 0
    """Guaranteed ones that did not come yet."""
    asked_q: int = 0
    """Queueable ones that are asked for at a node."""
    waiting: int = 0
    """Without a node, and not guaranteed."""

    @property
    def all(self) -> int:
        """All of them."""
        return self.held_g + self.held_q + self.asked_g + self.asked_q + self.waiting

    @property
    def guaranteed(self) -> int:
        """Those that are guaranteed, or asked for so."""
        return self.held_g + self.asked_g

    @property
    def queueable(self) -> int:
        """Queueable ones that have a node."""
        return self.held_q + self.asked_q


Demand = Mapping[int, DemandAtPriority]
"""By request priority."""


def demand_of(attempt: Attempt) -> dict[int, DemandAtPriority]:
    """Return what an attempt holds and wants; containers without a node that are OPPORTUNISTIC by wish count too."""
    demand = {
        priority: DemandAtPriority(live.size, live.guaranteed, live.queueable)
        for priority, live in attempt.live.by_priority.items()
    }
    sizes: dict[int, Resources] = {}
    for entry in attempt.entries:
        priority, size = entry.key.priority, entry.resources
        at = demand.setdefault(priority, DemandAtPriority(size))
        at.asked_g += entry.g_share
        at.asked_q += len(entry.pending)
        at.waiting += max(0, entry.demand - entry.g_share - len(entry.pending))
        if entry.demand > 0:
            before = sizes.get(priority, Resources())
            sizes[priority] = Resources(max(before.memory_mb, size.memory_mb), max(before.vcores, size.vcores))
    for priority, size in sizes.items():
        demand[priority].size = size
    return {priority: at for priority, at in demand.items() if at.all}


@dataclass(slots=True)
class CoreNeed:
    """How many containers of an application are core: by request priority, or so many in all."""

    by_priority: dict[int, int] = field(default_factory=dict)
    count: int | None = None
    """Of any priority, in place of `by_priority`."""
    everything: bool = False
    """All are."""

    def remainder(self, demand: Demand, priority: int) -> int:
        """Return how many guaranteed containers of this priority it may still ask for."""
        at = demand.get(priority)
        if at is None:
            return 0
        if self.everything:
            return at.waiting
        if self.count is not None:
            return max(0, self.count - sum(part.guaranteed for part in demand.values()))
        return max(0, self.by_priority.get(priority, 0) - at.guaranteed)

    def lacks(self, demand: Demand) -> bool:
        """Return whether core containers are wanted that did not come yet."""
        return any(at.asked_g or min(at.waiting, self.remainder(demand, priority)) for priority, at in demand.items())

    def split(
        self, demand: Demand, sizes: Mapping[int, Resources]
    ) -> tuple[tuple[Containers, ...], tuple[Containers, ...]]:
        """Return the core and the elastic containers; guaranteed ones beyond the need count as core, too.

        sizes: of containers that it had or wanted before, by priority: core that it does not want now is reserved.
        """
        spare = max(0, (self.count or 0) - sum(at.guaranteed for at in demand.values()))
        core, elastic = [], []
        for priority, at in sorted(demand.items()):
            if self.everything:
                count = at.all
            elif self.count is not None:
                count = at.guaranteed + min(spare, at.waiting)
                spare -= min(spare, at.waiting)
            else:
                count = max(at.guaranteed, self.by_priority.get(priority, 0))
            if count:
                core.append(Containers(priority, at.size, count))
            if at.all > count:
                elastic.append(Containers(priority, at.size, at.all - count))
        return (*core, *self._reserved(demand, sizes, spare)), tuple(elastic)

    def _reserved(self, demand: Demand, sizes: Mapping[int, Resources], spare: int) -> Iterator[Containers]:
        """Yield core containers that are not wanted now; spare: those of any priority."""
        for priority, count in self.by_priority.items():
            if count and priority not in demand and priority in sizes:
                yield Containers(priority, sizes[priority], count)
        if spare and sizes:
            priority = max(sizes, key=lambda candidate: (sizes[candidate].memory_mb, sizes[candidate].vcores))
            yield Containers(priority, sizes[priority], spare)


def core_need(rule: Core, tagged: Mapping[int, int], demand: Demand) -> CoreNeed:
    """Return what is core of an application that comes with its first demand; tagged: what its own tags say.

    What it holds as guaranteed already was core: the proxy may know it no longer.
    """
    if tagged:
        return CoreNeed(dict(tagged))
    if rule == "all":
        return CoreNeed(everything=True)
    if rule == "initial":
        core = {priority: at.guaranteed for priority, at in demand.items() if at.held_g}
        return CoreNeed(core or {priority: at.all for priority, at in demand.items()})
    return CoreNeed(count=int(rule))
