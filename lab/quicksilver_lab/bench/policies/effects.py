"""What a policy changes, paired by seed, with confidence intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Final

from quicksilver.report.stats import effect

Sample = Mapping[str, float]
"""Figures of one run by metric."""

DIFFERENCES: Final = frozenset(("kills_per_1000", "lost_ratio", "sheds_per_1000", "again_per_1000"))
"""Metrics that are 0 in some runs: their effects are differences in all."""


def effects(base: Sequence[Sample], changed: Sequence[Sample]) -> dict[str, dict[str, Any]]:
    """Return the effect on each metric; runs of the same seed stand at the same place."""
    return {
        name: effect([sample[name] for sample in base], [sample[name] for sample in changed], name not in DIFFERENCES)
        for name in base[0]
    }


def means(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the mean of each metric."""
    return {name: round(fmean(sample[name] for sample in samples), 4) for name in samples[0]}


def share(part: float, whole: float) -> float:
    """Return part / whole, 0 of nothing."""
    return part / whole if whole else 0.0


def summed(values: Iterable[float]) -> float:
    """Return the sum, rounded so that equal runs are equal on every machine."""
    return round(sum(values), 6)
