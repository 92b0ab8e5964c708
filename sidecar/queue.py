"""The waiting containers of a node, in the order of the `order` policy: bounded in number, bytes and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from policies.model import ContainerView

OrderKey = Callable[[ContainerView, float], tuple[float, ...]]
"""A waiting container and the time to its sort key; the lowest starts first."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One held start. `hold_until_s`: when it must be given up, Unix seconds; `size`: its bytes."""

    view: ContainerView
    attempt_id: str
    hold_until_s: float
    size: int


class WaitingQueue:
    """Held starts by container id.

    max_length: containers; max_bytes: sum of their launch requests.
    """

    def __init__(self, order_key: OrderKey, max_length: int, max_bytes: int) -> None:
        self._order_key = order_key
        self.max_length = max_length
        self.max_bytes = max_bytes
        self.bytes = 0
        self._waiting: dict[str, Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, container_id: object) -> bool:
        return container_id in self._waiting

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._waiting.values())

    def refusal(self, size: int) -> str | None:
        """Return why a start of `size` bytes finds no place, or None."""
        if len(self._waiting) >= self.max_length:
            return f"the queue is full: {len(self._waiting)} containers wait (limit {self.max_length})"
        if self.bytes + size > self.max_bytes:
            return f"the queue is full: {self.bytes} bytes wait, {size} more exceed the limit of {self.max_bytes}"
        return None

    def add(self, waiting: Waiting) -> None:
        """Add a start; raises ValueError when it waits already or finds no place (ask `refusal` first)."""
        refusal = self.refusal(waiting.size)
        if refusal is not None or waiting.view.id in self._waiting:
            raise ValueError(refusal or f"{waiting.view.id} waits already")
        self._waiting[waiting.view.id] = waiting
        self.bytes += waiting.size

    def remove(self, container_id: str) -> Waiting:
        """Take a start out; raises KeyError when it does not wait."""
        waiting = self._waiting.pop(container_id)
        self.bytes -= waiting.size
        return waiting

    def head(self, now_s: float) -> Waiting | None:
        """Return the start that is next; equal keys go by arrival, then by id."""
        return min(self._waiting.values(), key=lambda w: self._rank(w, now_s), default=None)

    def in_order(self, now_s: float) -> list[Waiting]:
        """Return all starts, the next one first."""
        return sorted(self._waiting.values(), key=lambda w: self._rank(w, now_s))

    def expired(self, now_s: float) -> list[Waiting]:
        """Return the starts whose time to wait is over."""
        return [w for w in self._waiting.values() if w.hold_until_s <= now_s]

    def deadline_s(self) -> float | None:
        """Return when the next one expires; None when nothing waits."""
        return min((w.hold_until_s for w in self._waiting.values()), default=None)

    def _rank(self, waiting: Waiting, now_s: float) -> tuple[tuple[float, ...], float, str]:
        return (self._order_key(waiting.view, now_s), waiting.view.arrived_s, waiting.view.id)
