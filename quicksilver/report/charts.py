"""A plot as what the page draws: lines by uPlot from their data, bars and spans as elements that need no script."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Final, TypeAlias

from markupsafe import Markup

from quicksilver.report.cells import shown
from quicksilver.report.model import Axis, Bars, Lines, Plot, ReportEstimate, Series, Spans, names_of

COLOURS: Final = 8
"""How many colours the page has (--c0 to --c7); further lines have them again, dashed."""
_DASHES: Final = 3
_TICKS: Final = 6
_STEPS: Final = (1, 2, 2.5, 5, 10)
_DIGITS: Final = 6
"""Significant digits of a point: more than a screen has pixels."""

Legend: TypeAlias = list[tuple[str, int]]
"""Names with the numbers of their colours."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; places are percents of the axis."""

    text: str
    about: str
    colour: int
    begin: float
    width: float
    low: float | None = None
    high: float | None = None

    @property
    def end(self) -> float:
        """Where the bar and its interval end."""
        return max(self.begin + self.width, self.high or 0.0)


@dataclass(frozen=True, slots=True)
class BarRow:
    """The bars of one label."""

    label: str
    bars: Sequence[Bar | None]


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a row; places are percents of the axis."""

    about: str
    colour: int
    begin: float
    width: float


@dataclass(frozen=True, slots=True)
class AxisScale:
    """The axis below bars and spans: its title, and its ticks as (percent, text)."""

    label: str
    ticks: Sequence[tuple[float, str]]
    mark: float | None = None
    """The percent of a reference."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One plot; `kind` says which of the fields the page uses."""

    kind: str
    title: str
    legend: Legend
    data: str = ""
    """lines: Markup of JSON that is safe between script tags."""
    scale: AxisScale | None = None
    bars: Sequence[BarRow] = ()
    spans: Sequence[tuple[str, Sequence[Piece]]] = ()


def dash_of(index: int) -> int:
    """Return how the line of a colour is drawn: 0 for a full one."""
    return min(index // COLOURS, _DASHES - 1)


def colours_of(plots: Sequence[Plot]) -> dict[str, int]:
    """Return a colour for each name on a page, in the order in which they come; bars of one kind have their labels'."""
    colours: dict[str, int] = {}
    for plot in plots:
        single = isinstance(plot, Bars) and len(plot.series) == 1
        for name in plot.labels if single and isinstance(plot, Bars) else _series_of(plot):
            colours.setdefault(name, len(colours))
    return colours


def _series_of(plot: Plot) -> list[str]:
    return [series.name for series in plot.series] if isinstance(plot, Lines) else [name for name, _ in plot.series]


def chart(plot: Plot, colours: Mapping[str, int]) -> Chart:
    """Return what the page draws of a plot. colours: of its names, as `colours_of` gives them."""
    legend = [(name, colours[name]) for name in names_of(plot)]
    if isinstance(plot, Lines):
        return Chart("lines", plot.title, legend, _lines(plot, colours))
    return _bars(plot, colours, legend) if isinstance(plot, Bars) else _spans(plot, colours, legend)


def _lines(plot: Lines, colours: Mapping[str, int]) -> Markup:
    content = {
        "title": plot.title,
        "x": _axis(plot.x),
        "y": _axis(plot.y) | {"grounded": all(value >= 0 for series in plot.series for value in series.y)},
        "step": plot.step,
        "marks": plot.marks,
        "reference": plot.reference,
        "series": [_series(series, plot, colours[series.name]) for series in plot.series],
    }
    return Markup(json.dumps(content, separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026"))


def _axis(axis: Axis) -> dict[str, object]:
    return {"label": axis.label, "log": axis.log, "most": axis.most}


def _series(series: Series, plot: Lines, colour: int) -> dict[str, object]:
    """Return a series' points by x; a logarithmic axis omits those that are not above 0."""
    columns = [column for column in (series.x, series.y, series.low, series.high) if len(column)]
    points = [
        point
        for point in sorted(zip(*columns, strict=True))
        if (point[0] > 0 or not plot.x.log) and (min(point[1:]) > 0 or not plot.y.log)
    ]
    names = ("x", "y", "low", "high")[: len(columns)]
    rounded = [[_rounded(value) for value in column] for column in zip(*points, strict=True)] or [[] for _ in names]
    drawn = {"name": series.name, "colour": colour % COLOURS, "dash": 1 if series.dashed else dash_of(colour)}
    return drawn | {"dashed": series.dashed} | dict(zip(names, rounded, strict=True))


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def ticks(high: float, most: int = _TICKS) -> list[float]:
    """Return round numbers from 0 to `high`, no more than `most`; 0 alone where `high` is not above 0."""
    if high <= 0:
        return [0.0]
    step = 10.0 ** floor(log10(high / most))
    step = next(step * factor * scale for scale in (1, 10) for factor in _STEPS if step * factor * scale * most >= high)
    return [round(at * step, 12) for at in range(floor(high / step + 1e-9) + 1)]


def _scale(axis: Axis, low: float, high: float, mark: float | None) -> AxisScale:
    whole = (high - low) or 1.0
    places = [(100 * (value - low) / whole, f"{value:,g}") for value in _between(low, high)]
    return AxisScale(axis.label, places, None if mark is None else 100 * (mark - low) / whole)


def _between(low: float, high: float) -> list[float]:
    return [*(-value for value in ticks(-low)[:0:-1]), *ticks(high)]


def _bars(plot: Bars, colours: Mapping[str, int], legend: Legend) -> Chart:
    """Return bars from 0 to the right; a negative value lies to the left of 0."""
    edges = [edge for _, values in plot.series for value in values if value is not None for edge in _edges(value)]
    low, high = min([0.0, *edges]), max([0.0, *edges, plot.reference or 0.0])
    high = high if high > low else 1.0  # nothing but zeros
    rows = []
    for at, label in enumerate(plot.labels):
        bars: list[Bar | None] = []
        for name, values in plot.series:
            colour = colours[label if len(plot.series) == 1 else name]
            bars.append(_bar(values[at], f"{label}, {name}" if len(plot.series) > 1 else label, colour, low, high))
        rows.append(BarRow(label, bars))
    return Chart("bars", plot.title, legend, scale=_scale(plot.x, low, high, plot.reference), bars=rows)


def _edges(value: float | ReportEstimate) -> tuple[float, ...]:
    return (value.low, value.value, value.high) if isinstance(value, ReportEstimate) else (value,)


def _bar(value: float | ReportEstimate | None, about: str, colour: int, low: float, high: float) -> Bar | None:
    if value is None:
        return None
    percent = 100 / (high - low)
    middle = value.value if isinstance(value, ReportEstimate) else value
    ends = (
        ((value.low - low) * percent, (value.high - low) * percent)
        if isinstance(value, ReportEstimate)
        else (None, None)
    )
    begin, width = (min(0.0, middle) - low) * percent, abs(middle) * percent
    return Bar(shown(value), f"{about}: {shown(value)}", colour, begin, width, *ends)


def _spans(plot: Spans, colours: Mapping[str, int], legend: Legend) -> Chart:
    last = max((span.end for _, spans in plot.series for span in spans), default=1.0)
    high = plot.x.most if plot.x.most is not None else last or 1.0
    rows: list[tuple[str, list[Piece]]] = [(label, []) for label in plot.rows]
    for name, spans in plot.series:
        for span in spans:
            about = f"{name}: {span.begin:,.1f} to {span.end:,.1f}"
            begin, end = (100 * min(max(0.0, at), high) / high for at in (span.begin, span.end))
            rows[span.row][1].append(Piece(about, colours[name], begin, end - begin))
    return Chart("spans", plot.title, legend, scale=_scale(plot.x, 0.0, high, None), spans=rows)
