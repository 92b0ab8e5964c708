"""bench-grants' result as a page: from ask to grant over the load of other masters, a line for each system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quicksilver.report.model import Axis, Lines, Page, ReportSection, Series
from quicksilver_lab.bench.page import plain

_DRAWN: Final = {"p50_ms": "Grant, p50, ms", "p99_ms": "Grant, p99, ms"}
_LOAD: Final = "calls a second of other application masters"


def _over_load(steps: Sequence[Mapping[str, Any]], figure: str) -> list[Series]:
    """Return a line for each system; one of one point is no line."""
    lines: dict[str, dict[float, float]] = {}
    for step in steps:
        if step[figure] is not None:
            lines.setdefault(step["system"], {})[step["load_per_s"]] = step[figure]["median"]
    return [
        Series(system, sorted(points), [points[at] for at in sorted(points)])
        for system, points in lines.items()
        if len(points) > 1
    ]


def read(result: Mapping[str, Any]) -> Page:
    """Return the page of a result. Raises KeyError when a step lacks a figure."""
    summary = plain.read(result)
    plots = [
        Lines(title, Axis(_LOAD), Axis(title, log=True), series, marks=True)
        for figure, title in _DRAWN.items()
        if (series := _over_load(result.get("steps", ()), figure))
    ]
    return Page("bench-grants", summary.facts, [*summary.sections, ReportSection("Over the load", plots)])
