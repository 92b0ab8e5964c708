"""Turns samples into the data of plots: rates over time, cumulative shares, fitted growth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, floor, log

from quicksilver.report.model import Series

_POINTS = 200


def cdf(name: str, samples: Sequence[float], points: int = _POINTS) -> Series:
    """Return cumulative shares at no more than `points` samples, the smallest and largest included, from 0 to 1."""
    ordered = sorted(samples)
    count = len(ordered)
    ranks = range(count) if count <= points else sorted({round(n * (count - 1) / (points - 1)) for n in range(points)})
    shares = [0.0, *((at + 1) / count for at in ranks)]
    return Series(name, [ordered[0], *(ordered[at] for at in ranks)], shares)


def per_second(times_s: Iterable[float], until_s: float, step_s: float = 1.0) -> list[float]:
    """Return events per second in each of the steps from 0 until `until_s`; what lies outside of them is left out."""
    bins = [0] * max(1, floor(until_s / step_s))
    for time_s in times_s:
        at = floor(time_s / step_s)
        if 0 <= at < len(bins):
            bins[at] += 1
    return [count / step_s for count in bins]


@dataclass(frozen=True, slots=True)
class Growth:
    """y = factor * x ** exponent."""

    factor: float
    exponent: float

    def at(self, x: float) -> float:
        """Return y."""
        return float(self.factor * x**self.exponent)


def growth(x: Sequence[float], y: Sequence[float]) -> Growth:
    """Return the power law of least squares of the logarithms.

    Raises ValueError for fewer than two different x, or when a number is not above 0.
    """
    if len(set(x)) < 2 or min(*x, *y) <= 0:
        raise ValueError("growth needs two different sizes, and figures above 0")
    points = [(log(size), log(figure)) for size, figure in zip(x, y, strict=True)]
    mean_x, mean_y = (sum(column) / len(points) for column in zip(*points, strict=True))
    exponent = sum((u - mean_x) * (v - mean_y) for u, v in points) / sum((u - mean_x) ** 2 for u, _ in points)
    return Growth(exp(mean_y - exponent * mean_x), exponent)


def smoothed(values: Sequence[float], width: int) -> list[float]:
    """Return means over `width` values about each, fewer at the ends."""
    half = width // 2
    windows = (values[max(0, at - half) : at + half + 1] for at in range(len(values)))
    return [sum(window) / len(window) for window in windows]
