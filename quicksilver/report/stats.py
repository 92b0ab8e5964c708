"""Figures of samples: percentiles, means and effects with their confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp, log, sqrt
from statistics import fmean, stdev
from typing import Any, Final

# fmt: off
_T95: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)
# fmt: on
"""Student's t, two-sided 95 %, for 1 to 30 degrees of freedom."""


def percentile(samples: Sequence[float], q: float) -> float:
    """Return the q-th percentile (0..100), interpolated between two samples. Raises ValueError without samples."""
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    at = (len(ordered) - 1) * q / 100
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def nearest_rank(samples: Sequence[float], q: float) -> float:
    """Return the lowest sample that q percent of all do not exceed. Raises ValueError without samples."""
    if not samples:
        raise ValueError("no samples")
    return sorted(samples)[max(0, ceil(len(samples) * q / 100) - 1)]


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return mean and 95 % confidence interval by Student's t. Raises ValueError for fewer than two values."""
    if len(values) < 2:
        raise ValueError(f"{len(values)} values have no confidence interval; use at least two seeds")
    half = _T95[min(len(values) - 1, len(_T95)) - 1] * stdev(values) / sqrt(len(values))
    mean = fmean(values)
    return mean, mean - half, mean + half


def effect(base: Sequence[float], changed: Sequence[float], as_ratio: bool = True) -> dict[str, Any]:
    """Return what changed, pair by pair, with the interval in which it lies by 95 %.

    as_ratio: the geometric mean of the pairs' ratios, where all figures are above 0; else the mean difference. Raises
    ValueError for fewer than two pairs, or when some have no partner.
    """
    pairs = list(zip(base, changed, strict=True))
    ratio = as_ratio and all(before > 0 and after > 0 for before, after in pairs)
    if ratio:
        values = [exp(x) for x in interval([log(after / before) for before, after in pairs])]
    else:
        values = list(interval([after - before for before, after in pairs]))
    names = ("effect", "ci_low", "ci_high")
    return {"kind": "ratio" if ratio else "difference"} | {
        name: round(x, 4) for name, x in zip(names, values, strict=True)
    }
