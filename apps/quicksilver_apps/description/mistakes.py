"""Mistakes in descriptions: their place, what is wrong, and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.masking import masked

Steps = tuple[str | int, ...]
"""Keys and list positions from the top of a description."""
MAX_LINES: Final = 20
"""Lines of one error; with more mistakes the last line has their number."""
MAX_HINTS: Final = MAX_LINES
"""Mistakes of a kind for which close names are sought; that takes milliseconds for each."""
MAX_MISTAKES: Final = 200
"""Mistakes of a kind that are collected; a description may hold tens of thousands."""


@dataclass(frozen=True, slots=True)
class DescriptionMistake:
    """One mistake: its place, what is wrong, and a remedy that begins with a verb."""

    path: Steps
    problem: str
    remedy: str
    on_key: bool = False
    """Whether the key itself is wrong, rather than its value."""
    depends_on: tuple[Steps, ...] = ()
    """Other places whose values make this a mistake."""
    key_meant: str = ""
    """Of an unknown key: the known one that is probably meant, which then is not missing too."""

    @property
    def place(self) -> str:
        """Return the path as in `services[0].resources.memory_mb`."""
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return steps.removeprefix(".") or "description"

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}; {self.remedy}"


class DescriptionError(QuicksilverError):
    """A description cannot be used; one line for each mistake: `FILE:LINE: PLACE: WHAT; REMEDY`, 20 at most."""

    def __init__(self, lines: Sequence[str], mistakes: Sequence[DescriptionMistake] = ()) -> None:
        self.lines = tuple(masked("".join(c if c.isprintable() else " " for c in line)) for line in lines)
        self.mistakes = tuple(mistakes)
        """All of them, in the order of the file; empty when the text could not be read."""
        super().__init__("\n".join(self.lines))
