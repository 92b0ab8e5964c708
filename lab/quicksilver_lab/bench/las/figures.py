"""What runs show: completion times and slowdowns, together and by class, and LAS against the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final

from quicksilver_lab.bench.las.workload import LasOutcome, LasRun
from quicksilver_lab.bench.stats import percentile

_RATIOS: Final = {
    "median_ratio": "completion_p50_s",
    "p99_ratio": "completion_p99_s",
    "slowdown_median_ratio": "slowdown_stock_p50",
}

GOALS: Final = {"median_ratio": 0.35, "p99_ratio": 1.0}
"""At most, of quicksilver's presets against FIFO."""

Alone = Mapping[str, float]
"""Mean completion of each class alone on the idle node, in seconds."""


def slowdowns(outcomes: Sequence[LasOutcome], alone_s: Alone) -> list[float]:
    """Return completion / completion of the class alone, of the jobs that finished."""
    return [outcome.completion_s / alone_s[outcome.kind] for outcome in outcomes if outcome.completion_s is not None]


def mode_figures(run: LasRun, alone_s: Alone, stock_s: Alone) -> dict[str, Any]:
    """Return the figures of one mode; a job that did not finish is counted and otherwise left out.

    alone_s: of the mode itself; stock_s: of stock YARN, against which slowdowns of several modes compare.
    Raises ValueError when no job finished.
    """
    kinds = list(dict.fromkeys(outcome.kind for outcome in run.outcomes))
    by_class = {
        kind: _group([outcome for outcome in run.outcomes if outcome.kind == kind], alone_s, stock_s)
        for kind in alone_s
    }
    result = _group(run.outcomes, alone_s, stock_s)
    if not result["finished"]:
        raise ValueError("no job finished")
    done = [by_class[kind] for kind in kinds if by_class[kind]["finished"]]

    def worst(key: str) -> float:
        return round(max(group[key] for group in done) / result[key], 3)  # type: ignore[no-any-return]

    return result | {
        "worst_class_slowdown_ratio": worst("slowdown_mean"),
        "worst_class_slowdown_ratio_stock": worst("slowdown_stock_mean"),
        "wall_s": round(run.wall_s, 1),
        "busy_cores": round(run.busy_cores, 2),
        "task_cores": round(run.task_cores, 2),
        "by_class": by_class,
    }


def _group(outcomes: Sequence[LasOutcome], alone_s: Alone, stock_s: Alone) -> dict[str, Any]:
    completion = [outcome.completion_s for outcome in outcomes if outcome.completion_s is not None]
    own, stock = slowdowns(outcomes, alone_s), slowdowns(outcomes, stock_s)
    result: dict[str, Any] = {
        "jobs": len(outcomes),
        "finished": len(completion),
        "failed_jobs": sum(bool(outcome.broken) for outcome in outcomes),
        "containers": {
            key: sum(outcome.counts[key] for outcome in outcomes)
            for key in ("granted", "opportunistic", "killed", "failed", "refused", "released")
        },
    }
    if not completion:
        return result
    for name, samples, digits in (("completion", completion, 2), ("slowdown", own, 3), ("slowdown_stock", stock, 3)):
        unit = "_s" if name == "completion" else ""
        result[f"{name}_p50{unit}"] = round(percentile(samples, 50), digits)
        result[f"{name}_p99{unit}"] = round(percentile(samples, 99), digits)
        result[f"{name}_mean{unit}"] = round(fmean(samples), digits)
    return result


def compared(modes: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return LAS / FIFO and LAS / opportunistic of what both have, and LAS' worst class; without LAS nothing."""
    las = modes.get("las")
    if las is None:
        return {}
    result = {key: las[key] for key in ("worst_class_slowdown_ratio", "worst_class_slowdown_ratio_stock")}
    for mode, ending in (("fifo", ""), ("opportunistic", "_opportunistic")):
        if mode in modes:
            for name, key in _RATIOS.items():
                result[f"{name}{ending}"] = round(las[key] / modes[mode][key], 3)
    return result


def goals(modes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the goals of LAS and of the default preset (`quicksilver.NAME`), as far as there are FIFO and they."""
    result: dict[str, dict[str, Any]] = {}
    for mode, prefix in (("las", ""), ("quicksilver", "quicksilver.")):
        if mode in modes and "fifo" in modes:
            for name, limit in GOALS.items():
                key = _RATIOS[name]
                value = round(modes[mode][key] / modes["fifo"][key], 3)
                result[f"{prefix}{name}"] = {"value": value, "goal": limit, "at_most": True, "met": value <= limit}
    return result
