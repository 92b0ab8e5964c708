"""Elastic components for those in service, as many as there is room for, to the first one first (Zoe, Algorithm 1).

The first of them have all that they want. What changes is where that ends, and little behind it; so only that is
looked at when one comes or goes.
"""

from __future__ import annotations

from quicksilver_lab.papers.algorithms.admission import ResearchService
from quicksilver_lab.papers.algorithms.requests import ResearchRequest


class Cascade:
    """The applications in service, in their order, with their elastic components."""

    def __init__(self) -> None:
        """Begin empty."""
        self.members: list[ResearchService] = []
        self._full = 0
        """So many of the first have all that they want, ..."""
        self._full_millicores = 0
        """... which is this; a new application counts among them before its start is reported."""
        self._full_mb = 0
        self._fresh: list[ResearchService] = []
        self.millicores = 0
        """The resources of all elastic components."""
        self.memory_mb = 0

    def __len__(self) -> int:
        """Return how many are in service."""
        return len(self.members)

    def insert(self, place: int, request: ResearchRequest, now_s: float) -> ResearchService:
        """Put one before the member at `place`, or at the end, with its `share`."""
        served = ResearchService(request, entered_s=now_s)
        self.members.insert(place, served)
        self._fresh.append(served)
        if place < self._full:
            self._full += 1
            self._fill(served, 1)
        return served

    def remove(self, served: ResearchService) -> None:
        """Take one out, with its resources. Raises ValueError when it is not in."""
        place = self.members.index(served)
        del self.members[place]
        elastic = served.request.elastic
        self.millicores -= served.granted * elastic.millicores
        self.memory_mb -= served.granted * elastic.memory_mb
        if place < self._full:
            self._full -= 1
            self._fill(served, -1)

    def share(self, millicores: int, memory_mb: int) -> list[ResearchService]:
        """Share out the room that the cores leave; return the applications with a change, each new one included.

        millicores, memory_mb: at least 0.
        """
        millicores -= self._full_millicores
        memory_mb -= self._full_mb
        while millicores < 0 or memory_mb < 0:
            self._full -= 1
            elastic = self._fill(self.members[self._full], -1)
            millicores += elastic[0]
            memory_mb += elastic[1]
        changed = self._beyond(millicores, memory_mb)
        for served in self._fresh:
            if served.granted < 0:
                self._grant(served, served.request.elastic.count)
                changed.append(served)
        self._fresh = []
        return changed

    def _beyond(self, millicores: int, memory_mb: int) -> list[ResearchService]:
        """Share out the rest behind the full ones; return the applications with a change."""
        changed, begin = [], self._full
        for place, served in enumerate(self.members[begin:], begin):
            elastic = served.request.elastic
            if elastic.millicores > millicores or elastic.memory_mb > memory_mb:
                many = 0
            else:
                many = elastic.fitting(millicores, memory_mb)
                millicores -= many * elastic.millicores
                memory_mb -= many * elastic.memory_mb
            if many != served.granted:
                self._grant(served, many)
                changed.append(served)
            if place == self._full and many == elastic.count:
                self._full += 1
                self._fill(served, 1)
        return changed

    def _grant(self, served: ResearchService, many: int) -> None:
        elastic, more = served.request.elastic, many - max(0, served.granted)
        served.granted = many
        self.millicores += more * elastic.millicores
        self.memory_mb += more * elastic.memory_mb

    def _fill(self, served: ResearchService, sign: int) -> tuple[int, int]:
        """Count it among the full ones, or no more; return its request in millicores and MB."""
        elastic = served.request.elastic
        wants = elastic.count * elastic.millicores, elastic.count * elastic.memory_mb
        self._full_millicores += sign * wants[0]
        self._full_mb += sign * wants[1]
        return wants
