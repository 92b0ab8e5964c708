"""The words of a page: sections of text, tables and plots, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class ReportEstimate:
    """A value and its interval (95 % unless stated otherwise). Raises ValueError for one without order."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        """Check the order."""
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.low} <= {self.value} <= {self.high} does not hold")


Value: TypeAlias = str | int | float | ReportEstimate | None
"""A cell; None is what was not measured."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis with its title, unit included. A logarithmic one omits values that are not above 0."""

    label: str
    log: bool = False
    most: float | None = None
    """The end of the axis, where the data shall not choose it (1.0 for a share)."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line. x, y: equally many finite numbers; low, high: the interval about each y, or empty.

    name: its entry in the legend, which gives it the same colour all over the page. Raises ValueError for a bad one.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dashed: bool = False

    def __post_init__(self) -> None:
        """Check lengths and numbers."""
        lengths = {len(self.x), len(self.y)} | {len(column) for column in (self.low, self.high) if len(column)}
        if len(lengths) != 1 or bool(len(self.low)) != bool(len(self.high)):
            raise ValueError(f"series {self.name!r}: x, y, low and high have not the same length")
        if not all(isfinite(number) for column in (self.x, self.y, self.low, self.high) for number in column):
            raise ValueError(f"series {self.name!r}: a number is not finite; leave such points out")


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines in one frame: over time, cumulative shares (`step`), growth (`marks`, both axes logarithmic)."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    step: bool = False
    marks: bool = False
    reference: float | None = None
    """A y that is marked across: the slots there are, a goal."""


@dataclass(frozen=True, slots=True)
class Bars:
    """Horizontal bars, one for each label and series, with their intervals. series: (name, one value for each label).

    Raises ValueError when a series has not as many values as there are labels.
    """

    title: str
    x: Axis
    labels: Sequence[str]
    series: Sequence[tuple[str, Sequence[float | ReportEstimate | None]]]
    reference: float | None = None
    """An x that is marked: 1.0 for ratios, a goal."""

    def __post_init__(self) -> None:
        """Check the lengths."""
        for name, values in self.series:
            if len(values) != len(self.labels):
                raise ValueError(f"bars {self.title!r}: {name!r} has {len(values)} values, not {len(self.labels)}")


@dataclass(frozen=True, slots=True)
class ReportSpan:
    """A piece of a row, from one x to another. Raises ValueError when it ends before it begins."""

    row: int
    begin: float
    end: float

    def __post_init__(self) -> None:
        """Check the order."""
        if not self.begin <= self.end:
            raise ValueError(f"{self.begin} <= {self.end} does not hold")


@dataclass(frozen=True, slots=True)
class Spans:
    """Rows, first one on top, with pieces of several kinds: who had which slot when. series: (kind, its spans).

    Raises ValueError for a span of a row that is not there.
    """

    title: str
    x: Axis
    rows: Sequence[str]
    series: Sequence[tuple[str, Sequence[ReportSpan]]]

    def __post_init__(self) -> None:
        """Check the rows."""
        for name, spans in self.series:
            for span in spans:
                if not 0 <= span.row < len(self.rows):
                    raise ValueError(f"spans {self.title!r}: {name!r} has row {span.row} of {len(self.rows)}")


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Rows of cells. Raises ValueError when a row has not as many cells as there are columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    title: str = ""

    def __post_init__(self) -> None:
        """Check the lengths."""
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.title!r}: a row has {len(row)} cells, not {len(self.columns)}")


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph; text between backticks is code."""

    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """Text to be copied as it is: a piece of a settings file, a command. language: of a fenced block in Markdown."""

    text: str
    title: str = ""
    language: str = "yaml"


Plot: TypeAlias = Lines | Bars | Spans
Block: TypeAlias = Prose | ReportTable | Code | Plot


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A heading and what is under it."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page. facts: machine, commit, command, and other conditions of the figures."""

    title: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[ReportSection]

    def plots(self) -> list[Plot]:
        """Return the plots in their order."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Plot)]


def names_of(plot: Plot) -> list[str]:
    """Return what the legend of a plot has: nothing for bars of one kind, whose labels stand beside them."""
    if isinstance(plot, Lines):
        return list(dict.fromkeys(series.name for series in plot.series))
    return [name for name, _ in plot.series] if len(plot.series) > 1 or isinstance(plot, Spans) else []
