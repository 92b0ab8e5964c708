"""A bounded series of samples: the last hour finely, the time before it in coarser steps."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

LEVELS: Final = ((5.0, 720), (30.0, 720), (120.0, 720))
"""Seconds of a step, and steps: an hour, six hours, a day."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A part of a series. `values` has a list for each name, as long as `t`."""

    step_s: float
    t: list[float]
    """Beginnings of the steps, Unix seconds."""
    values: dict[str, list[float | None]]


class _Level:
    def __init__(self, step_s: float, steps: int, width: int) -> None:
        self.step_s, self._width = step_s, width
        self.rows: deque[tuple[float, tuple[float | None, ...]]] = deque(maxlen=steps)
        self._begin_s = float("-inf")
        self._sums: list[float] = []
        self._counts: list[int] = []

    def add(self, now_s: float, values: Sequence[float]) -> None:
        begin_s = now_s // self.step_s * self.step_s
        if begin_s > self._begin_s:
            self._end()
            self._begin_s, self._sums, self._counts = begin_s, [0.0] * self._width, [0] * self._width
        for number, value in enumerate(values):
            if not math.isnan(value):
                self._sums[number] += value
                self._counts[number] += 1

    def _end(self) -> None:
        if self._sums:
            means = zip(self._sums, self._counts, strict=True)
            self.rows.append((self._begin_s, tuple(round(sum_ / n, 4) if n else None for sum_, n in means)))


class TimeSeries:
    """A machine: samples in, columns out. A step has the mean of its samples; one without a sample is left out.
    A value that is NaN in all samples of a step is None.

    levels: (seconds of a step, steps) of each level, the finest first. When the clock is set back, samples count in the
    step that was the last.
    """

    def __init__(self, names: Sequence[str], levels: Sequence[tuple[float, int]] = LEVELS) -> None:
        self.names = tuple(names)
        self._levels = [_Level(step_s, steps, len(self.names)) for step_s, steps in levels]
        self._spans_s = [step_s * steps for step_s, steps in levels]
        self.latest: tuple[float, dict[str, float | None]] | None = None
        """The last sample, and its time."""

    @property
    def span_s(self) -> float:
        """How far the series goes back."""
        return max(self._spans_s)

    def add(self, now_s: float, sample: Mapping[str, float]) -> None:
        """Count a sample, which has a value for each name."""
        values = [float(sample[name]) for name in self.names]
        known = [None if math.isnan(value) else value for value in values]
        self.latest = now_s, dict(zip(self.names, known, strict=True))
        for level in self._levels:
            level.add(now_s, values)

    def last(self, last_s: float, now_s: float) -> Columns:
        """Return the steps that began within the last seconds, of the finest level that goes back so far."""
        fits = (level for level, span_s in zip(self._levels, self._spans_s, strict=True) if span_s >= last_s)
        level = next(fits, self._levels[-1])
        rows = [row for row in level.rows if row[0] >= now_s - last_s]
        values = {name: [row[1][number] for row in rows] for number, name in enumerate(self.names)}
        return Columns(level.step_s, [row[0] for row in rows], values)
