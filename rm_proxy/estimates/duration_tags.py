"""Durations that an application names in its tags: `expected_s:12`, and for one request priority `expected_s:20:12`.

The allocation tags of a SchedulingRequest may name one for the tasks of that request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Final

PREFIX: Final = "expected_s:"
MAX_TAGS: Final = 10
"""Hints that are read of one request, as many as the tags that YARN allows an application."""
MAX_S: Final = 1e7
"""A longer expectation is a mistake: 115 days."""


@dataclass(frozen=True, slots=True)
class TagHints:
    """Hints in the tags of an application, in seconds, and the tags that cannot be read."""

    any_s: float | None = None
    """Of all tasks."""
    by_priority: Mapping[int, float] = field(default_factory=dict)
    bad: tuple[str, ...] = ()

    def of(self, priority: int) -> float | None:
        """Return the hint for a request priority, None when there is none."""
        return self.by_priority.get(priority, self.any_s)


@lru_cache(maxsize=4096)
def tag_hints(tags: frozenset[str]) -> TagHints:
    """Return the hints among an application's tags; of several for the same the longest counts.

    YARN keeps tags in lower case. A tag with the prefix that has no duration > 0 behind it is `bad`, and no hint.
    """
    hints: dict[int | None, float] = {}
    bad = []
    for tag in sorted(tags):
        text = tag.strip().lower()
        if not text.startswith(PREFIX):
            continue
        read = _read(text.removeprefix(PREFIX).split(":"))
        if read is None:
            bad.append(tag)
        else:
            hints[read[0]] = max(read[1], hints.get(read[0], 0.0))
    of_all = hints.pop(None, None)
    return TagHints(of_all, {key: s for key, s in hints.items() if key is not None}, tuple(bad))


def bad_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags that look like hints but cannot be read."""
    return tag_hints(frozenset(tags)).bad


def request_hints(requests: Iterable[tuple[int, Iterable[str]]]) -> tuple[dict[int, float], tuple[str, ...]]:
    """Return the hints of single requests by request priority, in seconds, and the tags that cannot be read.

    requests: the priority of each, and its tags; of several of a priority the longest hint counts.
    """
    hints: dict[int, float] = {}
    bad: list[str] = []
    for priority, tags in requests:
        like_hints = (tag for tag in tags if tag.strip().lower().startswith(PREFIX))
        known = tag_hints(frozenset(islice(like_hints, MAX_TAGS)))
        bad += known.bad
        named_s = known.of(priority)
        if named_s is not None:
            hints[priority] = max(named_s, hints.get(priority, 0.0))
    return hints, tuple(bad)


def _read(parts: list[str]) -> tuple[int | None, float] | None:
    try:
        seconds = float(parts[-1])
        priority = int(parts[0]) if len(parts) == 2 else None
    except ValueError:
        return None
    if len(parts) > 2 or not 0 < seconds <= MAX_S:
        return None
    return priority, seconds
