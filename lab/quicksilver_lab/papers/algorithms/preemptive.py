"""Flexible; an application more urgent than the last in service does not wait for a departure (Zoe, §3.3, Algorithm 2).

Elastic components of the less urgent ones make way, cores never do. Who is urgent and finds no room for its core waits
in a line of its own, which goes before the other: while somebody waits there, nobody of the other line is let in.
Read otherwise than it is printed:
- what the cores leave must hold the new core (line 3 compares with all elastic components that are wanted);
- those in service keep their places: with SRPT who is ahead runs the faster, and so stays ahead, nearly always.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.common.request_order import Key
from quicksilver_lab.papers.algorithms.admission import ResearchGrant, ResearchRoom, ResearchService, nothing_done
from quicksilver_lab.papers.algorithms.flexible import Flexible
from quicksilver_lab.papers.algorithms.request_order import Left, Order
from quicksilver_lab.papers.algorithms.requests import ResearchRequest


class Preemptive(Flexible):
    """The machine."""

    def __init__(self, room: ResearchRoom, order: Order, work_share: Left = nothing_done) -> None:
        """Begin empty; `work_share` returns the remaining share of the work of one in service, for SRPT."""
        super().__init__(room, order)
        self.urgent = order.line()
        self._work_share = work_share

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self.line) + len(self.urgent)

    def arrive(self, requests: Sequence[ResearchRequest], now_s: float) -> list[ResearchGrant]:
        """Take them in, the most urgent first. Raises NeverFitsError when one's core is larger than the cluster."""
        for request in requests:
            self.check(request, whole=False)
        changes: dict[int, ResearchGrant] = {}
        for request in sorted(requests, key=lambda r: self.order.key(r, now_s)):
            changes |= {grant.id: grant for grant in self._arrive(request, now_s)}
        return list(changes.values())

    def depart(self, number: int, now_s: float) -> list[ResearchGrant]:
        """Give its resources back: to the urgent ones first."""
        self._leave(number)
        while len(self.urgent) and self.core_fits(self.urgent.head(now_s)):
            self._enter(self.urgent.pop(now_s), now_s)
        return self._rebalance(now_s)

    def _arrive(self, request: ResearchRequest, now_s: float) -> list[ResearchGrant]:
        members = self.cascade.members
        if not members or self.order.key(request, now_s) >= self._key(members[-1]):
            self.line.push(request)
            return self._if_unused(now_s)
        if not self.core_fits(request):
            self.urgent.push(request)
            return []
        self._enter(request, now_s)
        return self._rebalance(now_s)

    def _if_unused(self, now_s: float) -> list[ResearchGrant]:
        return [] if len(self.urgent) else super()._if_unused(now_s)

    def _rebalance(self, now_s: float) -> list[ResearchGrant]:
        while not len(self.urgent) and len(self.line) and self._unsaturated():
            if not self.core_fits(self.line.head(now_s)):
                break
            self._enter(self.line.pop(now_s), now_s)
        return self._share()

    def _key(self, served: ResearchService) -> Key:
        """Return the key of one in service: as it began, with SRPT by its remaining work."""
        share = self._work_share(served.request.id) if self.order.shrinks else 1.0
        return self.order.key(served.request, served.entered_s, share)
