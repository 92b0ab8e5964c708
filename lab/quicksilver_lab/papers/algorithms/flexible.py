"""Few applications at a time, which use everything: elastic components make way for the core of the next (Zoe, §3.2).

An application is let in while those in service could not use the whole cluster, and its core fits beside their cores
(REBALANCE, Algorithm 1, lines 8-13); what the cores leave goes to elastic components in cascade, to those first in
service first (14-21). Read otherwise than it is printed:
- a core that fits exactly fits (line 10 has "<": an application as large as the cluster would never run);
- of cores and memory, either being wanted entirely is enough to let in no more (line 8 has one resource).
Those in service are kept in the same order as those who wait ("following the request order"): with SJF a shorter one
that is let in later has its elastic components first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from policies.common.request_order import Key
from quicksilver_lab.papers.algorithms.admission import Desk, ResearchGrant, ResearchRoom, ResearchService
from quicksilver_lab.papers.algorithms.elastic_allocation import Cascade
from quicksilver_lab.papers.algorithms.request_order import Order
from quicksilver_lab.papers.algorithms.requests import ResearchRequest


class Flexible(Desk):
    """The machine, without preemption."""

    def __init__(self, room: ResearchRoom, order: Order) -> None:
        """Begin empty."""
        super().__init__(room, order)
        self.cascade = Cascade()
        self.wanted_millicores = 0
        """By those in service, core and elastic together."""
        self.wanted_mb = 0

    def arrive(self, requests: Sequence[ResearchRequest], now_s: float) -> list[ResearchGrant]:
        """Take them in. Raises NeverFitsError when the core of one is larger than the cluster."""
        for request in requests:
            self.check(request, whole=False)
        for request in requests:
            self.line.push(request)
        return self._if_unused(now_s)

    def depart(self, number: int, now_s: float) -> list[ResearchGrant]:
        """Give its resources back, and share them out anew."""
        self._leave(number)
        return self._rebalance(now_s)

    def _if_unused(self, now_s: float) -> list[ResearchGrant]:
        """Let the first of the line only into unused room (Algorithm 1, line 3)."""
        if not len(self.line):
            return []
        head = self.line.head(now_s)
        unused_millicores = self.free_millicores - self.cascade.millicores
        if head.core_millicores > unused_millicores or head.core_mb > self.free_mb - self.cascade.memory_mb:
            return []
        return self._rebalance(now_s)

    def _rebalance(self, now_s: float) -> list[ResearchGrant]:
        while len(self.line) and self._unsaturated() and self.core_fits(self.line.head(now_s)):
            self._enter(self.line.pop(now_s), now_s)
        return self._share()

    def _share(self) -> list[ResearchGrant]:
        return [ResearchGrant(s.request.id, s.granted) for s in self.cascade.share(self.free_millicores, self.free_mb)]

    def _unsaturated(self) -> bool:
        room = self.room
        enough_mb = bool(room.memory_mb) and self.wanted_mb >= room.memory_mb
        return self.wanted_millicores < room.millicores and not enough_mb

    def _enter(self, request: ResearchRequest, now_s: float) -> None:
        """Put it in service; `free` is the room beside the cores, which the cascade shares among elastic components."""
        place = bisect_right(self.cascade.members, self.order.key(request, now_s), key=self._key)
        self.take(request.core_millicores, request.core_mb)
        self.wanted_millicores += request.whole_millicores
        self.wanted_mb += request.whole_mb
        self.serving[request.id] = self.cascade.insert(place, request, now_s)

    def _key(self, served: ResearchService) -> Key:
        """Return the key of one in service: as it began."""
        return self.order.key(served.request, served.entered_s)

    def _leave(self, number: int) -> None:
        served = self.serving.pop(number)
        gone = served.request
        self.cascade.remove(served)
        self.take(-gone.core_millicores, -gone.core_mb)
        self.wanted_millicores -= gone.whole_millicores
        self.wanted_mb -= gone.whole_mb
