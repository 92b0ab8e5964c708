"""Distributions of durations, drawn one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import exp, expm1, log
from random import Random

Draw = Callable[[Random], float]
"""One task's duration, in seconds."""


def fixed(seconds: float) -> Draw:
    """Return the distribution that always gives the same. Raises ValueError below 0."""
    if not seconds >= 0:
        raise ValueError(f"a task of {seconds} s: give 0 or more")
    return lambda _: seconds


def lognormal(mean_s: float, sigma: float) -> Draw:
    """Return the lognormal distribution with this mean; sigma: of the logarithm. Raises ValueError."""
    if not (mean_s > 0 and sigma >= 0):
        raise ValueError(f"mean_s={mean_s}, sigma={sigma}: the mean must be above 0, sigma not below")
    return lambda rng: mean_s * exp(rng.gauss(-(sigma**2) / 2, sigma))


def empirical(durations_s: Sequence[float]) -> Draw:
    """Return the distribution that draws one of these. Raises ValueError without any."""
    if not durations_s:
        raise ValueError("no durations to draw from")
    return lambda rng: rng.choice(durations_s)


def below(mean_s: float, most_s: float) -> Draw:
    """Return the exponential distribution without what is above `most_s`, with this mean.

    Raises ValueError for a mean that it cannot have: half of `most_s` or more.
    """
    if not 0 < mean_s < most_s / 2:
        raise ValueError(f"mean_s={mean_s}: it must be above 0 and below half of {most_s}")
    low, high = mean_s, 1e4 * most_s
    for _ in range(200):
        scale = (low + high) / 2
        mean = scale - most_s / expm1(most_s / scale) if most_s / scale < 700 else scale
        low, high = (scale, high) if mean < mean_s else (low, scale)
    scale, mass = low, 1 - exp(-most_s / low)
    return lambda rng: -scale * log(1 - rng.random() * mass)


def tasks_of(rng: Random, count: int, mean_s: float, deviation_s: float) -> Iterator[float]:
    """Yield the durations of a job's tasks: normal, none below a millisecond, in whole milliseconds."""
    mean_s = max(mean_s, 0.001)
    for _ in range(count):
        seconds = 0.0
        while seconds < 0.001:
            seconds = round(rng.gauss(mean_s, deviation_s), 3)
        yield seconds
