"""bench-scale's result as a page: what heartbeats cost by nodes and application masters, and how costs grow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from quicksilver.report.model import Axis, Block, Lines, Page, ReportEstimate, ReportSection, ReportTable, Series, Value
from quicksilver_lab.bench.page import plain
from quicksilver_lab.bench.page.shapes import growth

_SIZES: Final = {"nodes": "nodes", "masters": "application masters"}
_DRAWN: Final = {
    "added_p50_ms": "Added latency, p50, ms",
    "added_p99_ms": "Added latency, p99, ms",
    "cpu_ms_per_1000_heartbeats": "CPU for 1,000 heartbeats, ms",
}
"""Of each point, over masters."""
_APART: Final = ("points", "growth", "growth_exponents")

Point = Mapping[str, Any]


def _middle(point: Point, figure: str) -> float | None:
    value = plain.value_of(point.get(figure))
    if isinstance(value, ReportEstimate):
        return value.value
    return float(value) if isinstance(value, (int, float)) else None


def _over_masters(points: Iterable[Point], figure: str) -> list[Series]:
    """Return a line for each number of nodes; one of one point is no line."""
    by_nodes: dict[int, list[tuple[float, float]]] = {}
    for point in points:
        value = _middle(point, figure)
        if value is not None:
            by_nodes.setdefault(point["nodes"], []).append((point["masters"], value))
    return [
        Series(f"{nodes:,} nodes", [at for at, _ in sorted(pairs)], [value for _, value in sorted(pairs)])
        for nodes, pairs in sorted(by_nodes.items())
        if len(pairs) > 1
    ]


def _heartbeats(points: Sequence[Point]) -> list[Block]:
    x = Axis(_SIZES["masters"], log=True)
    plots = [
        Lines(title, x, Axis(title), series, marks=True)
        for figure, title in _DRAWN.items()
        if (series := _over_masters(points, figure))
    ]
    return [plain.rows_of(points), *plots]


def _grown(name: str, fitted: Mapping[str, Any]) -> Lines | None:
    """Return what was measured by size and the power law through it; None where there is nothing to draw."""
    figure, _, size = name.rpartition("_by_")
    pairs = sorted((float(at), float(value)) for at, value in fitted["points"].items() if value > 0)
    if len({at for at, _ in pairs}) < 2:
        return None
    x, y = [at for at, _ in pairs], [value for _, value in pairs]
    law = growth(x, y)
    axes = Axis(_SIZES.get(size, size), log=True), Axis(figure, log=True)
    series = [Series(figure, x, y), Series(figure, x, [law.at(at) for at in x], dashed=True)]
    return Lines(f"{figure} by {_SIZES.get(size, size)}", *axes, series, marks=True)


def _growth(fits: Mapping[str, Mapping[str, Any]]) -> list[Block]:
    rows: list[list[Value]] = []
    for name, fitted in fits.items():
        line = fitted.get("line") or {}
        sizes = ", ".join(fitted["points"])
        rows.append([f"`{name}`", fitted["exponent"], line.get("base"), line.get("each"), sizes])
    columns = ["figure", "exponent", "at size 0", "for one more", "measured at"]
    plots = [plot for name, fitted in fits.items() if (plot := _grown(name, fitted)) is not None]
    return [ReportTable(columns, rows, "Fitted: c x size ^ exponent, and a line"), *plots]


def read(result: Mapping[str, Any]) -> Page:
    """Return the page of a result. Raises KeyError when a point has no sizes, or a fit no points."""
    summary = plain.read({name: value for name, value in result.items() if name not in _APART})
    sections = list(summary.sections)
    if result.get("points"):
        sections.append(ReportSection("Heartbeats by size", _heartbeats(result["points"])))
    if result.get("growth"):
        sections.append(ReportSection("Growth", _growth(result["growth"])))
    return Page("bench-scale", summary.facts, sections)
