"""Names that are nearly those of Hadoop's properties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Final

MOST_EDITS: Final = 2
_SHORTEST: Final = 12
"""Shorter names may differ by fewer than two letters."""


@cache
def known_names() -> frozenset[str]:
    """Return the names of Hadoop 3.4.2's properties: its *-default.xml files and the constants of its classes."""
    text = resources.files("quicksilver.doctor").joinpath("names.txt").read_text("ascii")
    return frozenset(text.split())


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the known name that is one or two edits away (letter more, less, other, or two swapped), if there is one.

    Case and the kind of separator count as no edit at all. Of several the closest, then the first in order.
    """
    if len(name) < _SHORTEST:
        return None
    plain = _plain(name)
    letters = Counter(plain)
    matches: list[tuple[int, str]] = []
    for candidate in names:
        if abs(len(candidate) - len(name)) > MOST_EDITS:
            continue
        theirs = _plain(candidate)
        differing = (letters - Counter(theirs)).total() + (Counter(theirs) - letters).total()
        if differing <= 2 * MOST_EDITS:
            edits = distance(plain, theirs)
            if edits <= MOST_EDITS:
                matches.append((edits, candidate))
    return min(matches, default=(0, None))[1]


def distance(source: str, target: str) -> int:
    """Return the least number of edits between two words; two neighbours swapped are one edit."""
    before: list[int] = []
    row = list(range(len(target) + 1))
    for i, a in enumerate(source, 1):
        two_before, before, row = before, row, [i]
        for j, b in enumerate(target, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == target[j - 2] and source[i - 2] == b:
                cost = min(cost, two_before[j - 2] + 1)
            row.append(cost)
    return row[-1]


def _plain(name: str) -> str:
    return name.lower().replace("_", ".").replace("-", ".")
