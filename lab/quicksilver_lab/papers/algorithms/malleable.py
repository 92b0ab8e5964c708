"""Free resources go to those in service first, then to the next; nothing is ever taken back (Zoe, §2.2, §4.3).

First fit, as in the literature on malleable jobs: the next one starts when its core fits into what the others leave.
"""

from __future__ import annotations

from collections.abc import Sequence

from quicksilver_lab.papers.algorithms.admission import Desk, ResearchGrant, ResearchRoom, ResearchService
from quicksilver_lab.papers.algorithms.request_order import Order
from quicksilver_lab.papers.algorithms.requests import ResearchRequest


class Malleable(Desk):
    """The machine."""

    def __init__(self, room: ResearchRoom, order: Order) -> None:
        """Begin empty."""
        super().__init__(room, order)
        self._hungry: dict[int, ResearchService] = {}
        """Those in service that lack elastic components, as they began."""

    def arrive(self, requests: Sequence[ResearchRequest], now_s: float) -> list[ResearchGrant]:
        """Take them in. Raises NeverFitsError when the core of one is larger than the cluster."""
        for request in requests:
            self.check(request, whole=False)
        for request in requests:
            self.line.push(request)
        return self._start(now_s)

    def depart(self, number: int, now_s: float) -> list[ResearchGrant]:
        """Give its resources back: first to those in service, in the order of their begin."""
        gone = self.serving.pop(number)
        self._hungry.pop(number, None)
        core, elastic = gone.request, gone.request.elastic
        self.take(
            -core.core_millicores - gone.granted * elastic.millicores,
            -core.core_mb - gone.granted * elastic.memory_mb,
        )
        return [*self._feed(), *self._start(now_s)]

    def _feed(self) -> list[ResearchGrant]:
        changes = []
        for served in list(self._hungry.values()):
            if self.free_millicores <= 0 or self.free_mb <= 0:
                break
            if self._give(served):
                changes.append(ResearchGrant(served.request.id, served.granted))
        return changes

    def _give(self, served: ResearchService) -> int:
        """Give as many elastic components as fit, and return how many."""
        elastic = served.request.elastic
        many = min(elastic.count - served.granted, elastic.fitting(self.free_millicores, self.free_mb))
        served.granted += many
        self.take(many * elastic.millicores, many * elastic.memory_mb)
        if served.granted < elastic.count:
            self._hungry[served.request.id] = served
        else:
            self._hungry.pop(served.request.id, None)
        return many

    def _start(self, now_s: float) -> list[ResearchGrant]:
        changes: list[ResearchGrant] = []
        while len(self.line) and self.core_fits(self.line.head(now_s)):
            head = self.line.pop(now_s)
            self.take(head.core_millicores, head.core_mb)
            served = self.serving[head.id] = ResearchService(head, 0, now_s)
            self._give(served)
            changes.append(ResearchGrant(head.id, served.granted))
        return changes
