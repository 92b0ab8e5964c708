"""A plot as SVG whose colours are the page's: readable on light and on dark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Final

from quicksilver.report.model import Axis, Bars, Estimate, Lines, Plot, Spans

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS: Final = 8
"""How many colours the page has (--c0 to --c7); further lines have them again, dashed."""

_INK, _GRID = "#0b0b01", "#0b0b02"
_WIDTH_IN, _LINES_IN, _BAR_IN = 6.6, 3.2, 0.2
_FEW: Final = 8.0
_MANY: Final = 2000.0
_DASHES: Final = ("-", (0, (5, 2)), (0, (1, 1.5)))


def _colour(index: int) -> str:
    """Return what stands for a colour of the page until `themed` puts it there."""
    return f"#0c0c{index % COLOURS:02x}"


def dash_of(index: int) -> int:
    """Return how the line of a colour is drawn: 0 for a full one."""
    return min(index // COLOURS, len(_DASHES) - 1)


def themed(svg: str, prefix: str) -> str:
    """Return matplotlib's SVG without its head, with the page's colours and ids of its own."""
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor").replace(_GRID, "var(--grid)")
    svg = re.sub(r"#0c0c(0[0-7])\b", lambda found: f"var(--c{int(found[1], 16)})", svg)
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    return re.sub(r"(font: [\d.]+px )[^;\"]+", r"\1sans-serif", svg)


def _axis(axes: Axes, which: str, axis: Axis) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    found = axes.xaxis if which == "x" else axes.yaxis
    found.set_label_text(axis.label, color=_INK)
    if axis.log:
        axes.set(**{f"{which}scale": "log"})
        found.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
        found.set_minor_formatter(NullFormatter())
    found.set_major_formatter(FuncFormatter(lambda value, _: f"{round(value, 12):,g}"))


def _limits(axes: Axes, which: str, axis: Axis, grounded: bool) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    if axis.log:
        low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
        found = axes.xaxis if which == "x" else axes.yaxis
        if high / low > _MANY:  # the labels of 1, 2, 5, 10 would overlap
            found.set_major_locator(LogLocator(numticks=12))
        if high / low < _FEW:  # 1, 2, 5, 10 would be one label or two
            found.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
            found.set_minor_locator(NullLocator())
        return
    limits = axes.set_xlim if which == "x" else axes.set_ylim
    if grounded:
        _, high = axes.get_xlim() if which == "x" else axes.get_ylim()
        most = axes.dataLim.x1 if which == "x" else axes.dataLim.y1
        limits(0, max(high, most * 1.05))  # a line that is nearly level would lie on the border
    if axis.most is not None:
        limits(None, axis.most)


def _lines(axes: Axes, plot: Lines, colours: Mapping[str, int]) -> None:
    for series in plot.series:
        colour = _colour(colours[series.name])
        dash = 1 if series.dashed else dash_of(colours[series.name])
        axes.plot(
            series.x,
            series.y,
            color=colour,
            linestyle=_DASHES[dash],
            linewidth=1.4,
            drawstyle="steps-post" if plot.step else "default",
            marker="o" if plot.marks and not series.dashed else "",
            markersize=4,
        )
        if len(series.low):
            axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.15, linewidth=0)
    if plot.reference is not None:
        axes.axhline(plot.reference, color=_INK, linewidth=0.8, linestyle=(0, (4, 3)))
    _limits(axes, "x", plot.x, False)
    _limits(axes, "y", plot.y, all(one >= 0 for series in plot.series for one in series.y))


def _bars(axes: Axes, plot: Bars, colours: Mapping[str, int]) -> None:
    from matplotlib.patches import Rectangle

    height = 0.8 / max(1, len(plot.series))
    for nth, (name, values) in enumerate(plot.series):
        for at, value in enumerate(values):
            if value is None:
                continue
            tall = value.value if isinstance(value, Estimate) else value
            index = colours[plot.labels[at] if len(plot.series) == 1 else name]
            y = at + (nth - (len(plot.series) - 1) / 2) * height
            axes.barh(y, tall, height=height * 0.9, color=_colour(index), alpha=0.85)
            if isinstance(value, Estimate):
                axes.plot([value.low, value.high], [y, y], color=_INK, linewidth=1.2)
    if not any(patch.get_width() for patch in axes.patches if isinstance(patch, Rectangle)):
        axes.set_xlim(0, 1)  # nothing but zeros
    axes.set_yticks(range(len(plot.labels)), plot.labels)
    axes.set_ylim(len(plot.labels) - 0.5, -0.5)
    if plot.reference is not None:
        axes.axvline(plot.reference, color=_INK, linewidth=0.8, linestyle=(0, (4, 3)))


def _spans(axes: Axes, plot: Spans, colours: Mapping[str, int]) -> None:
    for name, spans in plot.series:
        for span in spans:
            piece = [(span.begin, span.end - span.begin)]
            axes.broken_barh(piece, (span.row - 0.4, 0.8), facecolor=_colour(colours[name]), linewidth=0)
    axes.set_yticks(range(len(plot.rows)), plot.rows)
    axes.set_ylim(len(plot.rows) - 0.5, -0.5)
    axes.set_xlim(0, plot.x.most)


def _height_in(plot: Plot) -> float:
    if isinstance(plot, Lines):
        return _LINES_IN
    rows = len(plot.rows) if isinstance(plot, Spans) else len(plot.labels) * max(1, len(plot.series))
    return 0.8 + _BAR_IN * rows


def draw(plot: Plot, colours: Mapping[str, int], prefix: str) -> str:
    """Return a plot as an `<svg>` element.

    colours: by name of a series, or by label of bars of one kind, which colour of the page; prefix: what makes ids
    different from those of other plots of the page.
    """
    import matplotlib  # only this needs it, and it takes its time
    from matplotlib.figure import Figure

    text = StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "page", "font.size": 9.0}):
        figure = Figure(figsize=(_WIDTH_IN, _height_in(plot)), layout="constrained", facecolor="none")
        axes = figure.add_subplot(facecolor="none")
        if isinstance(plot, Lines):
            _axis(axes, "x", plot.x)
            _axis(axes, "y", plot.y)
            _lines(axes, plot, colours)
        elif isinstance(plot, Spans):
            _axis(axes, "x", plot.x)
            _spans(axes, plot, colours)
        else:
            _axis(axes, "x", plot.x)
            _bars(axes, plot, colours)
        axes.grid(color=_GRID, linewidth=0.6, axis="both" if isinstance(plot, Lines) else "x")
        axes.set_axisbelow(True)
        axes.tick_params(colors=_INK, which="both", length=2)
        for side, spine in axes.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set_color(_GRID)
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return themed(text.getvalue(), prefix)


def colours_of(plots: Sequence[Plot]) -> dict[str, int]:
    """Return a colour for each name on a page, in the order in which they come; bars of one kind have their labels'."""
    found: dict[str, int] = {}
    for plot in plots:
        if isinstance(plot, Lines):
            names = [series.name for series in plot.series]
        elif isinstance(plot, Spans):
            names = [name for name, _ in plot.series]
        else:
            names = [name for name, _ in plot.series] if len(plot.series) > 1 else list(plot.labels)
        for name in names:
            found.setdefault(name, len(found))
    return found
