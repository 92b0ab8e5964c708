"""Words of the slot `admit`: what a wanted container may be, by the tokens of its YARN queue and its application."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Standing(StrEnum):
    """Whether a wanted container has a token (Apollo, OSDI '14, §3.5)."""

    REGULAR = "regular"
    """It has one: it goes guaranteed."""
    OPPORTUNISTIC = "opportunistic"
    """It has none, and stays queueable."""
    WAITS = "waits"
    """It has none, and its application has all queueable containers that it may have: it gets no node yet."""


@dataclass(frozen=True, slots=True)
class Admission:
    """A decision on one wanted container, with its reason in words for `quicksilver explain`."""

    standing: Standing
    reason: str
