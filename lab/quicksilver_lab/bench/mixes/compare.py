"""Competitors of a mix against each other and against the bound, paired by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quicksilver.report.stats import effect
from quicksilver_lab.bench.mixes.figures import METRICS, geometric

NEGLIGIBLE: Final = 0.02
"""Where less than this share of the best stock figure lies between it and the bound, there is nothing to gain."""

Figures = Mapping[str, Sequence[Mapping[str, Any]]]
"""By competitor, its figures in the order of the seeds."""


def rises(metric: str) -> bool:
    """Return whether more is better."""
    return metric == "tasks_per_s"


def mean(runs: Sequence[Mapping[str, Any]], metric: str) -> float | None:
    """Return the geometric mean of a metric over runs, None where one does not have it."""
    values = [float(run[metric]) for run in runs if run.get(metric)]
    return geometric(values) if values and len(values) == len(runs) else None


def best(found: Figures, stock: Sequence[str], metric: str) -> str | None:
    """Return the stock competitor with the best mean of a metric, None when none has it.

    One that left jobs unfinished is none: its latencies are those of the others.
    """
    means = {
        name: value
        for name in stock
        if not any(run["unfinished_jobs"] for run in found.get(name, ()))
        and (value := mean(found.get(name, ()), metric)) is not None
    }
    if not means:
        return None
    return (max if rises(metric) else min)(means, key=lambda name: means[name])


def ratio(ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]], metric: str) -> dict[str, Any] | None:
    """Return ours / theirs of a metric over the seeds both have, with its interval where there are two or more."""
    other = {run["seed"]: run.get(metric) for run in theirs}
    pairs = [(float(base), float(run[metric])) for run in ours if run.get(metric) and (base := other.get(run["seed"]))]
    if not pairs:
        return None
    if len(pairs) == 1:
        return {"ratio": round(pairs[0][1] / pairs[0][0], 4), "pairs": 1}
    found = effect([base for base, _ in pairs], [changed for _, changed in pairs])
    return {"ratio": found["effect"], "ci_low": found["ci_low"], "ci_high": found["ci_high"], "pairs": len(pairs)}


def gain(ours: float, theirs: float, bound: float) -> float | None:
    """Return which share of what lies between a stock competitor and the bound is won, 1 for all; None of nothing."""
    if theirs - bound <= NEGLIGIBLE * theirs:
        return None
    return round((theirs - ours) / (theirs - bound), 4)


def against(found: Figures, ours: str, stock: Sequence[str], metric: str) -> dict[str, Any] | None:
    """Return how a competitor does by a metric: the best stock one, the ratio to it, the bound, and the gain."""
    other = best(found, stock, metric)
    answer = ratio(found.get(ours, ()), found.get(other, ()), metric) if other else None
    if other is None or answer is None:
        return None
    own, theirs = mean(found[ours], metric), mean(found[other], metric)
    lowest = mean(found.get("bound", ()), metric)
    row: dict[str, Any] = {"best_stock": other, **answer, "value": own, "stock": theirs, "bound": lowest}
    if own and theirs and lowest:
        row["gain"] = None if rises(metric) else gain(own, theirs, lowest)
    return {name: round(one, 4) if isinstance(one, float) else one for name, one in row.items()}


def by_class(found: Figures, ours: str, stock: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return, by class of size, work and kind, the ratio of the mean latency to that of the best stock competitor."""
    ratios: dict[str, dict[str, float]] = {}
    for group in ("sizes", "work", "classes"):
        means = {name: class_means(found.get(name, ()), group) for name in (ours, *stock)}
        for klass, own in means[ours].items():
            others = [means[name][klass] for name in stock if klass in means[name]]
            if others:
                ratios.setdefault(group, {})[klass] = round(own / min(others), 4)
    return ratios


def class_means(runs: Sequence[Mapping[str, Any]], group: str) -> dict[str, float]:
    """Return the geometric mean over runs of the mean latency by class, of the classes that all runs have."""
    by_name: dict[str, list[float]] = {}
    for run in runs:
        for klass, one in run.get(group, {}).items():
            by_name.setdefault(klass, []).append(one["latency_mean_s"])
    return {klass: geometric(values) for klass, values in by_name.items() if len(values) == len(runs)}


def compared(found: Figures, ours: Sequence[str], stock: Sequence[str]) -> dict[str, Any]:
    """Return, by competitor of quicksilver, how it does by each metric and class."""
    result: dict[str, Any] = {}
    for name in ours:
        if found.get(name):
            by_metric = {metric: one for metric in METRICS if (one := against(found, name, stock, metric))}
            result[name] = by_metric | by_class(found, name, stock) | {"each": to_each(found, name)}
    return result


def to_each(found: Figures, ours: str) -> dict[str, dict[str, Any]]:
    """Return, by other competitor, the ratio to it by metric; the bound is among them."""
    ratios = {
        other: {metric: one for metric in METRICS if (one := ratio(found[ours], runs, metric))}
        for other, runs in found.items()
        if other != ours
    }
    return {other: one for other, one in ratios.items() if one}
