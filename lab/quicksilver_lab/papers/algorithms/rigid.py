"""All components at once, or none: how schedulers do that know no classes of components (Zoe's baseline, §2.2).

The first of the line holds up those behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from quicksilver_lab.papers.algorithms.admission import Desk, ResearchGrant, ResearchService
from quicksilver_lab.papers.algorithms.requests import ResearchRequest


class Rigid(Desk):
    """The machine."""

    def arrive(self, requests: Sequence[ResearchRequest], now_s: float) -> list[ResearchGrant]:
        """Take them in. Raises NeverFitsError when one is larger than the cluster."""
        for request in requests:
            self.check(request, whole=True)
        for request in requests:
            self.line.push(request)
        return self._start(now_s)

    def depart(self, number: int, now_s: float) -> list[ResearchGrant]:
        """Give its resources back, and start the applications that fit."""
        gone = self.serving.pop(number).request
        self.take(-gone.whole_millicores, -gone.whole_mb)
        return self._start(now_s)

    def _start(self, now_s: float) -> list[ResearchGrant]:
        changes: list[ResearchGrant] = []
        while len(self.line):
            head = self.line.head(now_s)
            if head.whole_millicores > self.free_millicores or head.whole_mb > self.free_mb:
                break
            self.line.pop(now_s)
            self.take(head.whole_millicores, head.whole_mb)
            self.serving[head.id] = ResearchService(head, head.elastic.count, now_s)
            changes.append(ResearchGrant(head.id, head.elastic.count))
        return changes
