"""Tokens for jobs: a job begins when it can have its own, first come, first served (Apollo §2.3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class VirtualCluster:
    """The tokens that all jobs share; without a limit nobody waits."""

    def __init__(self, tokens: int) -> None:
        """Begin with all of them free. tokens: 0 for no limit."""
        self._limited = tokens > 0
        self._all = self._free = tokens
        self._waiting: deque[tuple[int, Callable[[int], object]]] = deque()

    def ask(self, tokens: int, begin: Callable[[int], object]) -> None:
        """Call `begin` with the tokens of a job, at most as many as there are, as soon as it can have them."""
        self._waiting.append((min(tokens, self._all) if self._limited else tokens, begin))
        self._admit()

    def give_back(self, tokens: int) -> None:
        """Take back what a job had that is over."""
        self._free += tokens
        self._admit()

    def _admit(self) -> None:
        while self._waiting and (not self._limited or self._waiting[0][0] <= self._free):
            tokens, begin = self._waiting.popleft()
            self._free -= tokens
            begin(tokens)
