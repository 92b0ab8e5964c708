"""From runs to the result: figures by mix and competitor, comparisons, goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, Final

from quicksilver.report.stats import interval
from quicksilver.simulator.traces.generators.mercury import WORKLOADS
from quicksilver_lab.bench.emulator.model import RunResult
from quicksilver_lab.bench.harm import harm
from quicksilver_lab.bench.mixes import compare, goals, guarantees, slowdown
from quicksilver_lab.bench.mixes.figures import METRICS, counted, figures
from quicksilver_lab.bench.mixes.mixes import BY_NAME, GUARANTEES
from quicksilver_lab.bench.mixes.plan import MixesPlan
from quicksilver_lab.bench.mixes.step import bound

Runs = Mapping[tuple[str, str], Sequence[RunResult]]
"""By mix and competitor, in the order of their seeds."""
_TOTALS: Final = ("jobs", "unfinished_jobs", "kills")
_MEANS: Final = (*METRICS, "utilisation", "work_lost_s", "work_lost_ratio")


def of_mix(plan: MixesPlan, mix: str, runs: Runs) -> dict[str, Any]:
    """Return what a mix came to: `competitors`, `bounds`, `compared`, `ceilings`, `goals`."""
    if mix == GUARANTEES.name:
        return _guarantees(plan, runs)
    is_open, slots = BY_NAME[mix].open, plan.slots(mix)
    by_competitor: dict[str, list[dict[str, Any]]] = {
        name: [{"seed": run.seed} | figures(run, is_open) for run in runs[mix, name]]
        for name in plan.competitors
        if runs.get((mix, name))
    }
    seeds = {run["seed"] for own in by_competitor.values() for run in own}
    for step in plan.bounds(mix):
        if step.seed in seeds:
            by_competitor.setdefault(step.competitor, []).append({"seed": step.seed} | figures(bound(step), is_open))
    answers = compare.compared(by_competitor, plan.candidates, plan.stock)
    for name, answer in answers.items():
        answer["harm"] = {
            rival: fared
            for rival in plan.stock
            if (fared := harm(runs.get((mix, rival), ()), runs[mix, name], partial(counted, is_open=is_open)))
        }
    first = plan.candidates[0] if plan.candidates else ""
    curves = _cdfs(mix, runs) if BY_NAME[mix].cdf else {}
    return {
        "about": BY_NAME[mix].about,
        "open": is_open,
        "competitors": {
            name: summed(own) | _costs(runs.get((mix, name), ())) | curves.get(name, {})
            for name, own in by_competitor.items()
        },
        "compared": answers,
        "ceilings": goals.ceilings(by_competitor, goals.TUNED, slots, _task_s(mix))
        | goals.least_ratios(mix, by_competitor),
        "goals": goals.goals(mix, by_competitor, first, answers.get(first, {}), slots),
    }


def _cdfs(mix: str, runs: Runs) -> dict[str, dict[str, Any]]:
    """Return `cdf` by competitor: percentiles of completion time and slowdown, means over its runs."""
    alone = slowdown.alone_s(BY_NAME[mix].drawn(1), BY_NAME[mix].slots)
    return {
        name: {
            "cdf": slowdown.mean_cdf(
                [slowdown.cdf([job for job in counted(run, True) if job.ended_s is not None], alone) for run in own]
            )
        }
        for (of, name), own in runs.items()
        if of == mix
    }


def _task_s(mix: str) -> float | None:
    """Return how long each task takes where all are alike, on nodes that are, None else."""
    workload = WORKLOADS[BY_NAME[mix].workload]
    alike = len(workload.kinds) == 1 and not workload.kinds[0].sigma and not workload.slow_nodes
    return workload.mean_s if alike and not BY_NAME[mix].open else None


def _guarantees(plan: MixesPlan, runs: Runs) -> dict[str, Any]:
    mix = GUARANTEES.name
    stock = runs.get((mix, goals.TUNED), ())
    by_competitor = {name: guarantees.compared(stock, runs.get((mix, name), ())) for name in plan.candidates}
    first = plan.candidates[0] if plan.candidates else ""
    return {
        "about": GUARANTEES.about,
        "open": True,
        "guarantees": by_competitor,
        "goals": guarantees.goals(by_competitor.get(first, {})),
    }


def summed(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of a competitor over its seeds: means with intervals, totals, classes."""
    totals: dict[str, Any] = {"runs": len(runs)} | {
        name: sum(run[name] for run in runs if name in run) for name in _TOTALS
    }
    behind = [run["short_behind_long"] for run in runs if "short_behind_long" in run]
    if behind:
        totals["short_behind_long"] = sum(behind)
    for name in _MEANS:
        values = [float(run[name]) for run in runs if run.get(name) is not None]
        if len(values) > 1:
            middle, low, high = interval(values)
            totals[name] = {"value": round(middle, 4), "ci_low": round(low, 4), "ci_high": round(high, 4)}
        elif values:
            totals[name] = {"value": values[0]}
    return totals | {group: _classes(runs, group) for group in ("sizes", "work", "classes")}


def _classes(runs: Sequence[Mapping[str, Any]], group: str) -> dict[str, dict[str, float]]:
    """Return jobs and the mean over seeds of latencies by class."""
    names = dict.fromkeys(klass for run in runs for klass in run.get(group, {}))
    by_class: dict[str, dict[str, float]] = {}
    for klass in names:
        own = [run[group][klass] for run in runs if klass in run.get(group, {})]
        by_class[klass] = {"jobs": sum(row["jobs"] for row in own)} | {
            name: round(fmean(row[name] for row in own), 3)
            for name in ("latency_mean_s", *(f"latency_p{q}_s" for q in (50, 90, 95, 99)))
        }
    return by_class


def _costs(runs: Sequence[RunResult]) -> dict[str, Any]:
    """Return what runs cost: CPU seconds and memory by process, and heartbeats of masters."""
    if not runs:
        return {}
    return {
        "cpu_s": {name: round(fmean(run.cpu_s.get(name, 0.0) for run in runs), 2) for name in runs[0].cpu_s},
        "rss_mb": {name: max(run.rss_mb.get(name, 0.0) for run in runs) for name in runs[0].rss_mb},
        "heartbeats": round(fmean(run.counts.get("heartbeats", 0) for run in runs)),
    }


def result(plan: MixesPlan, runs: Runs) -> dict[str, Any]:
    """Return the keys of the result; `goals` are those of all mixes."""
    every = [run for own in runs.values() for run in own]
    mixes = {mix: of_mix(plan, mix, runs) for mix in plan.mixes if any(of == mix for of, _ in runs)}
    return {
        "mixes": mixes,
        "lost_tasks": sum(run.counts.get("lost", 0) for run in every),
        "doubled_tasks": sum(run.counts.get("doubled", 0) for run in every),
        "runs": len(every),
        "ours": plan.candidates[0] if plan.candidates else None,
        "goals": {name: goal for entry in mixes.values() for name, goal in entry["goals"].items()},
    }


def take(runs: dict[tuple[str, str], list[RunResult]], run: RunResult) -> None:
    """Add a run; those of a mix and competitor stand in the order of their seeds."""
    same = runs.setdefault((run.workload, run.competitor), [])
    same.append(run)
    same.sort(key=lambda entry: entry.seed)
