"""How parts that decide let alternatives decide as well (`policies.shadow`), of which nothing depends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from policies.config.policy_set import Policies
from policies.model import AppView

T = TypeVar("T")


class Compare(Protocol):
    """Compares a decision with what alternatives would have decided."""

    def __call__(
        self, slot: str, app: AppView | None, chosen: T, decide: Callable[[Policies], T], show: Callable[[T], str] = str
    ) -> None:
        """Note it.

        app: whose policies decided; None for those of nodes. decide: returns what other policies decide in its place;
        show: a decision in few words, by which two of them differ.
        """


def not_compared(
    slot: str, app: AppView | None, chosen: T, decide: Callable[[Policies], T], show: Callable[[T], str] = str
) -> None:
    """Compare nothing: there are no alternatives."""
