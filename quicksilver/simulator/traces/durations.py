"""Lists of durations, one a line."""

from __future__ import annotations

import math
from pathlib import Path

from quicksilver.simulator.traces.lines import TraceError, lines


def read_durations(path: Path) -> list[float]:
    """Return a list of durations in seconds, one a line; `#` begins a comment. Raises TraceError."""
    found = []
    for line, text in lines(path):
        words = text.partition("#")[0].strip()
        if not words:
            continue
        try:
            seconds = float(words)
        except ValueError:
            seconds = math.nan
        if not 0 <= seconds < math.inf:
            raise TraceError(
                f"{words[:40]!r} is no duration", place=f"{path}:{line}", remedy="write seconds from 0 up, one a line"
            )
        found.append(seconds)
    if not found:
        raise TraceError("no durations", place=str(path), remedy="write one a line, in seconds")
    return found
