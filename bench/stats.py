"""Figures of samples."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median


def percentile(samples: Sequence[float], q: float) -> float:
    """Return the q-th percentile (0..100), between two samples in proportion. Raises ValueError without samples."""
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    at = (len(ordered) - 1) * q / 100
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def spread(values: Sequence[float], digits: int = 4) -> dict[str, float]:
    """Return median, smallest and largest of the values of several rounds."""
    return {
        "median": round(median(values), digits),
        "min": round(min(values), digits),
        "max": round(max(values), digits),
    }
