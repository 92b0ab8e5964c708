"""What an application says of itself as a whole in its YARN tags.

`core:PRIORITY=COUNT/PRIORITY=COUNT`: core containers by YARN request priority, without the master's own.
`runtime_s:SECONDS`: how long it runs with everything that it asks for. `class:interactive`: a person waits.
`idle_s:SECONDS`: its elastic containers are given back after using next to no CPU for this time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

MAX_S: Final = 1e8
"""A longer time is a mistake: three years."""
MAX_COUNT: Final = 1_000_000
_CORE, _RUNTIME, _IDLE, _CLASS = "core:", "runtime_s:", "idle_s:", "class:"
_CLASSES: Final = {"interactive", "batch"}


@dataclass(frozen=True, slots=True)
class RequestTags:
    """What the tags of an application say, and those that cannot be read."""

    core: Mapping[int, int] = field(default_factory=dict)
    """Core containers by request priority; empty if no tag names any."""
    runtime_s: float | None = None
    idle_s: float | None = None
    interactive: bool = False
    bad: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def request_tags(tags: frozenset[str]) -> RequestTags:
    """Return what an application's tags say; of several for the same the last one in the alphabet counts."""
    core: dict[int, int] = {}
    seconds: dict[str, float] = {}
    interactive, bad = False, []
    for tag in sorted(tags):
        text = tag.strip().lower()
        prefix = next((p for p in (_CORE, _RUNTIME, _IDLE, _CLASS) if text.startswith(p)), "")
        value = text.removeprefix(prefix)
        try:
            if prefix == _CORE:
                core |= _counts(value)
            elif prefix in (_RUNTIME, _IDLE):
                seconds[prefix] = _seconds(value)
            elif prefix == _CLASS:
                interactive = _class(value) == "interactive"
        except ValueError:
            bad.append(tag)
    return RequestTags(core, seconds.get(_RUNTIME), seconds.get(_IDLE), interactive, tuple(bad))


def bad_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags that look as if they were meant here but cannot be read."""
    return request_tags(frozenset(tags)).bad


def _counts(text: str) -> dict[int, int]:
    counts = {}
    for part in text.split("/"):
        priority, _, count = part.partition("=")
        counts[int(priority)] = int(count)
    if any(not 0 <= count <= MAX_COUNT for count in counts.values()):
        raise ValueError(text)
    return counts


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= MAX_S:
        raise ValueError(text)
    return seconds


def _class(text: str) -> str:
    if text not in _CLASSES:
        raise ValueError(text)
    return text
