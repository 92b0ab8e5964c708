"""Cuts a call that carries own grants at one of its steps: found in the bytes between proxy and ResourceManager."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

METHOD: Final = b"allocateForDistributedScheduling"
"""The name of the call, as the header of each one has it."""


class CallStep(StrEnum):
    """Where the call is cut; also the kinds of these faults."""

    REQUEST = "cut before the ResourceManager has it"
    ANSWER = "cut before its answer"
    DELIVERY = "cut before the master has the answer"


class Passage(StrEnum):
    """What becomes of bytes."""

    PASS = "pass"
    CUT = "cut"
    """They do not pass, and their connection is cut."""
    HOLD_BELOW = "hold below"
    """They pass; what the proxy makes of them does not reach the application masters: those connections are cut."""


class CallCutter:
    """Waits for one call on the connections of a link, which `connection` tells apart; then it is spent."""

    def __init__(self, step: CallStep) -> None:
        self.step, self.done = step, False
        self._ends: dict[int, bytes] = {}
        """By connection: the last bytes, in which the name may have begun."""
        self._awaited: int | None = None
        """The connection on which the call's answer is to come."""

    def up(self, connection: int, data: bytes) -> Passage:
        """Handle bytes of the proxy."""
        if self.done or self._awaited is not None:
            return Passage.PASS
        known = self._ends.get(connection, b"") + data
        self._ends[connection] = known[1 - len(METHOD) :]
        if METHOD not in known:
            return Passage.PASS
        if self.step is CallStep.REQUEST:
            self.done = True
            return Passage.CUT
        self._awaited = connection
        return Passage.PASS

    def down(self, connection: int) -> Passage:
        """Handle bytes of the ResourceManager."""
        if self.done or connection != self._awaited:
            return Passage.PASS
        self.done = True
        return Passage.CUT if self.step is CallStep.ANSWER else Passage.HOLD_BELOW

    def closed(self, connection: int) -> None:
        """Handle the end of a connection; a call of which no answer came is not the one any more."""
        self._ends.pop(connection, None)
        if connection == self._awaited:
            self._awaited = None
