"""The order in which applications are served: FIFO, SJF, SRPT and HRRN on three definitions of size (Zoe, §4.4, §4.6).

The order of containers at a node is the slot `order`; here whole applications wait, thousands of them, for admission.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final, Protocol

from policies.common.request_order import Key, RequestOrder, rank
from quicksilver_lab.papers.algorithms.requests import SIZES, ResearchRequest
from quicksilver_lab.papers.algorithms.tournament import Tournament

Left = Callable[[int], float]
"""Share of an application's work that is left, 1 to 0, by its id."""

ORDERS: Final = tuple(each.value for each in RequestOrder)


class Order:
    """Keys of requests.

    While nothing runs, SRPT is SJF: only what was served has less left than its size. HRRN's ratio, (wait + size) /
    size, grows while a request waits, and stays as it is from when it is served.
    """

    def __init__(self, name: str, size: str = "1d") -> None:
        if name not in ORDERS or size not in SIZES:
            raise ValueError(f"order {name} by {size}: choose one of {', '.join(ORDERS)} by {', '.join(SIZES)}")
        self.name = RequestOrder(name)
        self.size = SIZES[size]

    @property
    def shrinks(self) -> bool:
        """Whether completed work counts."""
        return self.name is RequestOrder.SRPT

    def key(self, request: ResearchRequest, now_s: float, share: float = 1.0) -> Key:
        """Return the key at `now_s` of a request of whose work `share` is still to do."""
        size = self.size(request)
        return (*rank(self.name, request.priority, request.arrived_s, size, now_s, share), request.id)

    def line(self) -> RequestLine:
        """Return an empty waiting line of this order."""
        return RatioLine(self) if self.name is RequestOrder.HRRN else KeyLine(self)


class RequestLine(Protocol):
    """The waiting requests; only the first is ever looked at."""

    def __len__(self) -> int: ...

    def push(self, request: ResearchRequest) -> None:
        """Put it in its place."""

    def head(self, now_s: float) -> ResearchRequest:
        """Return the first at `now_s`, which never goes back. Raises IndexError when nobody waits."""

    def pop(self, now_s: float) -> ResearchRequest:
        """Take the first out."""


class KeyLine:
    """A line whose keys do not change by waiting: a heap, O(log n) for each that comes or goes."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._heap: list[tuple[Key, ResearchRequest]] = []

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._heap)

    def push(self, request: ResearchRequest) -> None:
        """Put it in its place; its id is in the key, so that no two are equal."""
        heapq.heappush(self._heap, (self._order.key(request, request.arrived_s), request))

    def head(self, now_s: float) -> ResearchRequest:
        """Return the first."""
        return self._heap[0][1]

    def pop(self, now_s: float) -> ResearchRequest:
        """Take the first out."""
        return heapq.heappop(self._heap)[1]


class RatioLine:
    """A line by response ratio: one tournament for each priority, looked at from the highest."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._by_priority: dict[int, Tournament[ResearchRequest]] = {}
        self._waiting = 0

    def __len__(self) -> int:
        """Return how many wait."""
        return self._waiting

    def push(self, request: ResearchRequest) -> None:
        """Put it among those of its priority."""
        alike = self._by_priority.setdefault(request.priority, Tournament())
        alike.push(request, request.arrived_s, self._order.size(request), request.id)
        self._waiting += 1

    def head(self, now_s: float) -> ResearchRequest:
        """Return the one of the highest ratio at `now_s`, of the highest priority."""
        return self._first().head(now_s)

    def pop(self, now_s: float) -> ResearchRequest:
        """Take the first out."""
        first = self._first().pop(now_s)
        self._waiting -= 1
        return first

    def _first(self) -> Tournament[ResearchRequest]:
        ranked = sorted((p for p, those in self._by_priority.items() if len(those)), reverse=True)
        return self._by_priority[ranked[0]]
