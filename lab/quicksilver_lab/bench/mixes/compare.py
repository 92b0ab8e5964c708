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


def best(figures: Figures, stock: Sequence[str], metric: str) -> str | None:
    """Return the stock competitor with the best mean of a metric, None when none has it.

    One that left jobs unfinished is none: its latencies are those of the others.
    """
    means = {
        name: value
        for name in stock
        if not any(run["unfinished_jobs"] for run in figures.get(name, ()))
        and (value := mean(figures.get(name, ()), metric)) is not None
    }
    if not means:
        return None
    return (max if rises(metric) else min)(means, key=lambda name: means[name])


def ratio(
    own_runs: Sequence[Mapping[str, Any]], other_runs: Sequence[Mapping[str, Any]], metric: str
) -> dict[str, Any] | None:
    """Return own / other of a metric over the seeds both have, with its interval where there are two or more."""
    other_values = {run["seed"]: run.get(metric) for run in other_runs}
    pairs = [
        (float(base), float(run[metric]))
        for run in own_runs
        if run.get(metric) and (base := other_values.get(run["seed"]))
    ]
    if not pairs:
        return None
    if len(pairs) == 1:
        return {"ratio": round(pairs[0][1] / pairs[0][0], 4), "pairs": 1}
    result = effect([base for base, _ in pairs], [changed for _, changed in pairs])
    return {"ratio": result["effect"], "ci_low": result["ci_low"], "ci_high": result["ci_high"], "pairs": len(pairs)}


def gain(own: float, stock: float, bound: float) -> float | None:
    """Return which share of what lies between a stock competitor and the bound is won, 1 for all; None of nothing."""
    if stock - bound <= NEGLIGIBLE * stock:
        return None
    return round((stock - own) / (stock - bound), 4)


def against(figures: Figures, competitor: str, stock: Sequence[str], metric: str) -> dict[str, Any] | None:
    """Return how a competitor does by a metric: the best stock one, the ratio to it, the bound, and the gain."""
    best_stock = best(figures, stock, metric)
    answer = ratio(figures.get(competitor, ()), figures.get(best_stock, ()), metric) if best_stock else None
    if best_stock is None or answer is None:
        return None
    own, stock_value = mean(figures[competitor], metric), mean(figures[best_stock], metric)
    lowest = mean(figures.get("bound", ()), metric)
    row: dict[str, Any] = {"best_stock": best_stock, **answer, "value": own, "stock": stock_value, "bound": lowest}
    if own and stock_value and lowest:
        row["gain"] = None if rises(metric) else gain(own, stock_value, lowest)
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}


def by_class(figures: Figures, competitor: str, stock: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return, by class of size, work and kind, the ratio of the mean latency to that of the best stock competitor."""
    ratios: dict[str, dict[str, float]] = {}
    for group in ("sizes", "work", "classes"):
        means = {name: class_means(figures.get(name, ()), group) for name in (competitor, *stock)}
        for klass, own in means[competitor].items():
            others = [means[name][klass] for name in stock if klass in means[name]]
            if others:
                ratios.setdefault(group, {})[klass] = round(own / min(others), 4)
    return ratios


def class_means(runs: Sequence[Mapping[str, Any]], group: str) -> dict[str, float]:
    """Return the geometric mean over runs of the mean latency by class, of the classes that all runs have."""
    by_name: dict[str, list[float]] = {}
    for run in runs:
        for klass, row in run.get(group, {}).items():
            by_name.setdefault(klass, []).append(row["latency_mean_s"])
    return {klass: geometric(values) for klass, values in by_name.items() if len(values) == len(runs)}


def compared(figures: Figures, competitors: Sequence[str], stock: Sequence[str]) -> dict[str, Any]:
    """Return, by competitor of quicksilver, how it does by each metric and class."""
    result: dict[str, Any] = {}
    for name in competitors:
        if figures.get(name):
            by_metric = {
                metric: comparison for metric in METRICS if (comparison := against(figures, name, stock, metric))
            }
            result[name] = by_metric | by_class(figures, name, stock) | {"each": to_each(figures, name)}
    return result


def to_each(figures: Figures, competitor: str) -> dict[str, dict[str, Any]]:
    """Return, by other competitor, the ratio to it by metric; the bound is among them."""
    ratios = {rival: _ratios(figures[competitor], runs) for rival, runs in figures.items() if rival != competitor}
    return {rival: comparison for rival, comparison in ratios.items() if comparison}


def to_first(figures: Figures) -> dict[str, dict[str, Any]]:
    """Return, by competitor but the first, the ratio to the first one by metric, and of the mean latency by class."""
    base = next(iter(figures.values()), ())
    ratios: dict[str, dict[str, Any]] = {}
    for name, runs in list(figures.items())[1:]:
        ratios[name] = _ratios(runs, base)
        for group in ("sizes", "work"):
            own, first = class_means(runs, group), class_means(base, group)
            ratios[name][group] = {klass: round(own[klass] / first[klass], 4) for klass in own if first.get(klass)}
    return ratios


def _ratios(own: Sequence[Mapping[str, Any]], rival: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {metric: comparison for metric in METRICS if (comparison := ratio(own, rival, metric))}
