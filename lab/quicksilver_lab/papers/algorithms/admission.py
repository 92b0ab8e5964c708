"""Which applications run, and with how many elastic components: shared by the disciplines of Zoe (§2.2, §3).

A discipline (`rigid`, `malleable`, `flexible`, `preemptive`) is a machine: requests arrive and
depart, and each call returns what changes. It never looks at all who wait, only at the first of a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from quicksilver_lab.papers.algorithms.request_order import Order, RequestLine
from quicksilver_lab.papers.algorithms.requests import ResearchRequest


@dataclass(frozen=True, slots=True)
class ResearchRoom:
    """The resources to share."""

    millicores: int
    memory_mb: int = 0
    """0: not counted."""


@dataclass(frozen=True, slots=True)
class ResearchGrant:
    """From now on the application has its core and so many elastic components; the first one starts it."""

    id: int
    elastic: int


class NeverFitsError(Exception):
    """A request that an empty cluster could not serve: it would hold up the line for ever."""

    def __init__(self, request: ResearchRequest, millicores: int, memory_mb: int, room: ResearchRoom) -> None:
        """Name its request and the room."""
        super().__init__(
            f"application {request.id} needs {millicores / 1000:g} cores and {memory_mb} MB at once, the cluster has "
            f"{room.millicores / 1000:g} cores and {room.memory_mb or 'uncounted'} MB: "
            "make the cluster larger, or the application smaller"
        )


class ResearchAdmission(Protocol):
    """A discipline: a machine that handles arrivals and departures, and returns the changes."""

    @property
    def waiting(self) -> int:
        """How many wait."""

    def arrive(self, requests: Sequence[ResearchRequest], now_s: float) -> list[ResearchGrant]:
        """Handle those that arrive at one time. Raises NeverFitsError before any is taken in."""

    def depart(self, number: int, now_s: float) -> list[ResearchGrant]:
        """Give back the resources of an application in service. Raises KeyError when it is not in service."""


@dataclass(slots=True, eq=False)
class ResearchService:
    """One in service. `granted` is -1 until its first grant is reported."""

    request: ResearchRequest
    granted: int = -1
    entered_s: float = 0.0


class Desk:
    """Shared by the disciplines: a room, a line, the applications in service and the free resources, never below 0."""

    def __init__(self, room: ResearchRoom, order: Order) -> None:
        """Begin empty."""
        if room.millicores < 1 or room.memory_mb < 0:
            raise ValueError(f"{room}: nothing to share")
        self.room = room
        self.order = order
        self.line: RequestLine = order.line()
        self.serving: dict[int, ResearchService] = {}
        self.free_millicores = room.millicores
        self.free_mb = room.memory_mb if room.memory_mb else 1 << 62

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self.line)

    def check(self, request: ResearchRequest, whole: bool) -> None:
        """Raise NeverFitsError when its need at once, its core or the whole, is more than the room."""
        millicores = request.whole_millicores if whole else request.core_millicores
        memory_mb = request.whole_mb if whole else request.core_mb
        if millicores > self.room.millicores or (self.room.memory_mb and memory_mb > self.room.memory_mb):
            raise NeverFitsError(request, millicores, memory_mb, self.room)

    def take(self, millicores: int, memory_mb: int) -> None:
        """Take free resources; negative amounts are given back."""
        self.free_millicores -= millicores
        self.free_mb -= memory_mb

    def core_fits(self, request: ResearchRequest) -> bool:
        """Whether its core fits into the free resources."""
        return request.core_millicores <= self.free_millicores and request.core_mb <= self.free_mb


def nothing_done(number: int) -> float:
    """Return that all of its work is left."""
    return 1.0
