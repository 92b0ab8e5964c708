"""Figures of samples."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from quicksilver.report.stats import percentile

__all__ = ["percentile", "spread"]


def spread(values: Sequence[float], digits: int = 4) -> dict[str, float]:
    """Return median, smallest and largest of the values of several rounds."""
    return {
        "median": round(median(values), digits),
        "min": round(min(values), digits),
        "max": round(max(values), digits),
    }
