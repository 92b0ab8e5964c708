"""bench-scale's result as a page: each figure over nodes and over application masters, with its fitted growth.

Of the result it reads `points`, one for each size measured: {"nodes", "masters", FIGURE: a number or {"median",
"min", "max"}, ...}. Everything else is shown as tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from bench.page import plain
from bench.page.model import Axis, Block, Estimate, Lines, Page, Section, Series, Table, Value
from bench.page.shapes import Growth, growth

_SIZES: Final = {"nodes": "nodes", "masters": "application masters"}

Point = Mapping[str, Any]


def _middle(point: Point, figure: str) -> float | None:
    value = plain.value_of(point.get(figure))
    if isinstance(value, Estimate):
        return value.value
    return float(value) if isinstance(value, (int, float)) else None


def _figures(points: Sequence[Point]) -> list[str]:
    names = dict.fromkeys(name for point in points for name in point if name not in _SIZES)
    return [name for name in names if any(_middle(point, name) is not None for point in points)]


def _along(points: Iterable[Point], size: str, figure: str) -> dict[int, list[tuple[float, float]]]:
    """Return (size, figure), both above 0 and in order, by the other size; only where there are two of them or more."""
    (other,) = _SIZES.keys() - {size}
    found: dict[int, list[tuple[float, float]]] = {}
    for point in points:
        value = _middle(point, figure)
        if value is not None and value > 0 and point[size] > 0:
            found.setdefault(point[other], []).append((point[size], value))
    return {at: sorted(pairs) for at, pairs in sorted(found.items()) if len({x for x, _ in pairs}) > 1}


def _plot(points: Sequence[Point], size: str, figure: str) -> tuple[Lines, list[list[Value]]] | None:
    """Return a figure over a size, logarithmic, with what was fitted as dashed lines, and the fits as rows."""
    (other,) = _SIZES.keys() - {size}
    series: list[Series] = []
    rows: list[list[Value]] = []
    for at, pairs in _along(points, size, figure).items():
        name = f"{at:,} {_SIZES[other]}"
        x, y = [one for one, _ in pairs], [one for _, one in pairs]
        fit: Growth = growth(x, y)
        ends = [min(x), max(x)]
        series += [Series(name, x, y), Series(name, ends, [fit.at(end) for end in ends], dashed=True)]
        rows.append([f"`{figure}`", _SIZES[size], name, round(fit.exponent, 3), len(pairs)])
    if not series:
        return None
    axes = Axis(_SIZES[size], log=True), Axis(figure, log=True)
    return Lines(f"{figure} by {_SIZES[size]}", *axes, series, marks=True), rows


def _growth(points: Sequence[Point]) -> list[Block]:
    plots: list[Block] = []
    rows: list[list[Value]] = []
    for figure in _figures(points):
        for size in _SIZES:
            found = _plot(points, size, figure)
            if found is not None:
                plots.append(found[0])
                rows += found[1]
    columns = ["figure", "over", "at", "exponent", "sizes"]
    return [Table(columns, rows, "Fitted growth, figure = factor x size ^ exponent"), *plots] if plots else []


def read(result: Mapping[str, Any]) -> Page:
    """Return the page of a result. Raises KeyError when a point has no sizes."""
    points: Sequence[Point] = result.get("points", [])
    columns = [*_SIZES, *_figures(points)]
    rows = [[plain.value_of(point.get(column)) for column in columns] for point in points]
    rest = {name: one for name, one in result.items() if name != "points"}
    summary = plain.read(rest)
    sizes = [Section("By size", [Table(columns, rows), *_growth(points)])] if points else []
    return Page("bench-scale", summary.facts, [*summary.sections, *sizes])
