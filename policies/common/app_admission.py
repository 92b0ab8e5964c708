"""What the policies that admit whole applications have in common: settings, order, room (Zoe, §3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from math import inf
from typing import Final, Literal

from pydantic import Field

from policies.admission import Admission, Standing
from policies.base import PolicyConfig
from policies.common.request_order import Key, RequestOrder, RequestSize, rank, size_of
from policies.model import Ask, QueueView, Resources, total
from policies.requests import AppRequest, Assignment, Containers, Room
from policies.settings_model import SettingsModel

Core = int | Literal["initial", "all"]
"""A number of containers; `initial`: those that the application asks for at first; `all`: it has no elastic ones."""


class CoreRule(SettingsModel):
    """What is core of matching applications that do not say it themselves."""

    type: str = "*"
    """YARN application type, as a glob; upper and lower case are alike."""
    queue: str = "*"
    """Full path of the YARN queue, as a glob."""
    core: Core
    """Core containers beside the master's: a number, `initial` (those of its first request), or `all`."""


DEFAULT_CORE: Final[tuple[CoreRule, ...]] = (
    CoreRule(type="MAPREDUCE", core=1),
    CoreRule(type="TEZ", core=1),
    CoreRule(type="SPARK", core="initial"),
    CoreRule(type="*FLINK*", core="initial"),
    CoreRule(core="all"),
)


class AppAdmission(PolicyConfig):
    """Settings of a policy that admits whole applications."""

    order: RequestOrder = Field(RequestOrder.FIFO, json_schema_extra={"source": "Zoe, §4.2"})
    """Which application goes first, of those of one priority."""
    size: RequestSize = Field(RequestSize.RUNTIME, json_schema_extra={"source": "Zoe, Table 2"})
    """The size by which `sjf`, `srpt` and `hrrn` order: runtime (1d), runtime x containers (2d), runtime x the sum of
    cores x GB (3d)."""
    runtime_s: float = Field(600.0, gt=0, json_schema_extra={"source": "own"})
    """Expected runtime of an application that names none (tag `runtime_s:SECONDS`)."""
    interactive_priority: int = Field(1000, ge=0, json_schema_extra={"source": "own; Zoe, §4.5"})
    """Added to the priority of an application with the tag `class:interactive`, so that it goes before batch ones."""
    count: Literal["memory", "both"] = Field("both", json_schema_extra={"source": "Zoe, §3.2"})
    """Resources that are counted: `memory` where the ResourceManager counts no vcores (DefaultResourceCalculator)."""
    core: tuple[CoreRule, ...] = Field(DEFAULT_CORE, json_schema_extra={"source": "own; Zoe, §2.1"})
    """What is core, by application type and queue (globs): a number of containers, `initial` (those of the first
    request) or `all`; the first rule that matches counts. An application's own tags (`core:PRIORITY=COUNT`) come
    before."""
    idle_s: float = Field(0.0, ge=0, json_schema_extra={"source": "own; Zoe, §8"})
    """Elastic containers that used next to no CPU for this time are given back; 0: never. An application's own tag
    (`idle_s:SECONDS`) comes before."""
    idle_ratio: float = Field(0.05, gt=0, le=1, json_schema_extra={"source": "own"})
    """Use of CPU below which a container is idle: cores over its vcores."""
    idle_hold_s: float = Field(300.0, ge=0, json_schema_extra={"source": "own"})
    """After containers were given back because they were idle, the application gets no more elastic ones than it has
    for this time."""

    def core_of(self, app_type: str, queue: str) -> Core:
        """Return what is core of an application without tags of its own."""
        for rule in self.core:
            if fnmatchcase(app_type.upper(), rule.type.upper()) and fnmatchcase(queue, rule.queue):
                return rule.core
        return "all"


def standing(ask: Ask, queue: QueueView, cfg: AppAdmission) -> Admission | None:
    """Return what a container may be: guaranteed while its application lacks core ones, else queueable, or it waits."""
    portion = ask.portion
    if portion is None:
        return None
    if not portion.in_service:
        return Admission(Standing.WAITS, f"its application is not admitted: {portion.why}")
    if portion.core_left > 0:
        return Admission(Standing.REGULAR, "core of its application")
    if portion.elastic_left > 0:
        return Admission(Standing.OPPORTUNISTIC, "elastic, within the share of its application")
    return Admission(Standing.WAITS, "elastic, beyond the share of its application")


@dataclass(slots=True)
class Desk:
    """Room that is still free: in the cluster, and below each limit."""

    free: Resources
    limits: dict[str, Resources]

    @classmethod
    def of(cls, room: Room) -> Desk:
        """Return a desk with all of a room free."""
        return cls(room.total, dict(room.limits))

    def take(self, names: Iterable[str], size: Resources) -> None:
        """Take resources out of the cluster and below these limits."""
        self.free -= size
        for name in names:
            if name in self.limits:
                self.limits[name] -= size

    def fits(self, size: Resources) -> bool:
        """Return whether the cluster has that much."""
        return size.fits(self.free)

    def short(self, names: Iterable[str], size: Resources) -> str:
        """Return the first of these limits that leaves less than that; "" if none does."""
        return next((name for name in names if name in self.limits and not size.fits(self.limits[name])), "")

    def give(self, names: Iterable[str], containers: Containers) -> int:
        """Take as many of some containers as fit, at most their number; return how many."""
        rooms = (self.free, *(self.limits[name] for name in names if name in self.limits))
        count = max(0, min(containers.count, *(_fitting(containers.size, room) for room in rooms)))
        self.take(names, replace(containers, count=count).all)
        return count


def _fitting(size: Resources, room: Resources) -> int:
    """Return how many containers of a size a room holds; below 0 where it is overdrawn."""
    parts = ((size.memory_mb, room.memory_mb), (size.vcores, room.vcores))
    return int(min((free // need for need, free in parts if need and free < inf), default=1 << 30))


class AdmissionPlan:
    """One decision: those in service and those that wait, each in their order, and the room."""

    def __init__(self, requests: Iterable[AppRequest], room: Room, cfg: AppAdmission, now_s: float) -> None:
        self.room = room if cfg.count == "both" else room.memory_only()
        self.waits: dict[str, str] = {}
        self._cfg, self._now_s = cfg, now_s
        each = list(requests)
        self.serving = sorted((r for r in each if r.entered_s is not None), key=self.key)
        self.waiting = sorted((r for r in each if r.entered_s is None), key=self.key)
        self.desk = Desk.of(self.room)

    def key(self, request: AppRequest) -> Key:
        """Return the sort key of a request: of one in service as it began, but for its work that is left."""
        cfg, entered_s = self._cfg, request.entered_s
        runtime_s = request.runtime_s or cfg.runtime_s
        parts = ((c.count, c.size.vcores, c.size.memory_mb / 1024) for c in (*request.core, *request.elastic))
        size = 0.0 if cfg.order is RequestOrder.FIFO else size_of(cfg.size, runtime_s, parts)
        left_ratio = request.left_ratio if entered_s is not None else 1.0
        at_s = self._now_s if entered_s is None else entered_s
        return rank(cfg.order, request.priority, request.arrived_s, size, at_s, left_ratio)

    def possible(self, whole: bool) -> list[AppRequest]:
        """Return those that wait and could be served by the empty cluster; the others wait for a larger one."""
        requests, empty = [], Desk.of(self.room)
        for request in self.waiting:
            size = request.whole_size if whole else request.core_size
            limit = empty.short(request.limits, size)
            if empty.fits(size) and not limit:
                requests.append(request)
                continue
            has = f"{limit} may use {_text(empty.limits[limit])}" if limit else f"there are {_text(empty.free)}"
            self.waits[request.id] = f"it needs {_text(size)} at once, and {has} in all: make the application smaller"
        return requests

    def heads(self, requests: Sequence[AppRequest], whole: bool) -> Iterator[AppRequest]:
        """Yield the waiting requests in their order as long as each fits; the caller takes its room.

        The first that finds no room in the cluster holds up all behind it; one that finds none in its YARN queue holds
        up that queue alone.
        """
        full: dict[str, str] = {}
        for place, request in enumerate(requests):
            size = request.whole_size if whole else request.core_size
            behind = next((name for name in request.limits if name in full), "")
            limit = behind or self.desk.short(request.limits, size)
            if behind:
                self.waits[request.id] = f"{full[behind]} goes before it, for which {behind} has no room"
            elif limit:
                full[limit] = request.id
                self.waits[request.id] = f"{limit} has no room for {_text(size)}"
            elif not self.desk.fits(size):
                self.hold_up(requests[place:], size, self.desk.free)
                return
            else:
                yield request

    def hold_up(self, requests: Sequence[AppRequest], size: Resources, free: Resources) -> None:
        """Note that the first of these waits for room of this size, and the others for the first."""
        first = requests[0]
        self.waits[first.id] = f"it is next; {_text(size)} are wanted at once, {_text(free)} are left"
        for place, request in enumerate(requests[1:], 1):
            self.waits.setdefault(request.id, f"{place} before it, {first.id} first")

    def saturate(self, requests: Sequence[AppRequest]) -> None:
        """Note that these wait because those in service can use everything."""
        for place, request in enumerate(requests):
            ahead = f"; {place} before it" if place else ""
            self.waits.setdefault(request.id, f"the applications in service can use the whole cluster{ahead}")

    def cascade(self, served: Sequence[AppRequest], keep: bool) -> Assignment:
        """Share out what the cores leave: to the first as much as it can use, then to the next (Algorithm 1, 14-21).

        keep: nothing is taken from what they were granted before; only the rest is shared out.
        """
        shares: dict[str, dict[int, int]] = {request.id: {} for request in served}
        if keep:
            for request in served:
                for each in request.elastic:
                    had = min(each.count, request.granted.get(each.priority, 0))
                    count = self.desk.give(request.limits, replace(each, count=had))
                    shares[request.id][each.priority] = shares[request.id].get(each.priority, 0) + count
        for request in served:
            share = shares[request.id]
            for each in request.elastic:
                had = share.get(each.priority, 0)
                more = self.desk.give(request.limits, replace(each, count=max(0, each.count - had)))
                share[each.priority] = had + more
        return Assignment(shares, self.waits)


def entered(request: AppRequest, now_s: float) -> AppRequest:
    """Return a request that is in service from now on."""
    return replace(request, entered_s=now_s)


def granted_size(requests: Iterable[AppRequest]) -> Resources:
    """Return the size of the elastic containers that these applications were granted, as far as they want them now."""
    parts = ((each, request.granted.get(each.priority, 0)) for request in requests for each in request.elastic)
    return total(replace(each, count=min(each.count, granted)).all for each, granted in parts)


def _text(size: Resources) -> str:
    memory = f"{size.memory_mb} MB"
    return memory if size.vcores in (0, inf) else f"{memory} and {size.vcores:g} vcores"
