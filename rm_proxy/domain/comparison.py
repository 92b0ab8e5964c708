"""How parts that decide let alternatives decide as well (`policies.shadow`), of which nothing depends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from policies.config.policy_set import Policies
from policies.model import AppView

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """A question that the policies in force answered, and how others would answer it."""

    slot: str
    app: AppView | None
    """Whose policies decided; None for those of nodes."""
    decision: T
    decide: Callable[[Policies], T]
    """Returns what other policies decide in its place."""
    show: Callable[[T], str] = str
    """Returns an answer in few words, by which two of them differ."""


Compare = Callable[[Question[Any]], None]
"""Compares a decision with what alternatives would have decided."""


def not_compared(question: Question[Any]) -> None:
    """Compare nothing: there are no alternatives."""


def shadowed(policies: Policies, slot: str) -> bool:
    """Return whether an alternative in shadow has a policy in a slot: it is asked even where none is in force."""
    return any(policies.alternatives[name].policy_name(slot) != "none" for name in policies.shadow)


class PerSecond:
    """Bounds work that is done for alternatives alone."""

    __slots__ = ("_count", "_limit", "_second")

    def __init__(self, limit: int) -> None:
        self._limit, self._second, self._count = limit, 0, 0

    def take(self, now_s: float) -> bool:
        """Return whether there may be one more in this second, and count it."""
        if self._second != int(now_s):
            self._second, self._count = int(now_s), 0
        self._count += 1
        return self._count <= self._limit


class InTurn:
    """Chooses some of many at each call, so that all have their turn."""

    __slots__ = ("_limit", "_next")

    def __init__(self, limit: int) -> None:
        self._limit, self._next = limit, 0

    def of(self, names: Sequence[str]) -> list[str]:
        """Return at most `limit` of `names`, those that follow the last ones."""
        count = min(self._limit, len(names))
        first = self._next % len(names) if names else 0
        self._next = first + count
        return [names[(first + at) % len(names)] for at in range(count)]
