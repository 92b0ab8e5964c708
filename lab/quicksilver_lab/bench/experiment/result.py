"""From runs to the result of a plan: figures by mix and competitor, comparisons, goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from statistics import fmean
from typing import Any, Final

from quicksilver.report.stats import interval
from quicksilver_lab.bench.emulator.model import RunResult
from quicksilver_lab.bench.experiment.goals import Runs, answers
from quicksilver_lab.bench.experiment.plan import ExperimentPlan, PlannedJobs
from quicksilver_lab.bench.experiment.step import bound
from quicksilver_lab.bench.harm import harm
from quicksilver_lab.bench.mercury.figures import summary
from quicksilver_lab.bench.mercury.phases import phases
from quicksilver_lab.bench.mixes import compare, goals, guarantees, slowdown
from quicksilver_lab.bench.mixes.figures import METRICS, counted, figures
from quicksilver_lab.bench.mixes.mixes import GUARANTEES, Mix
from quicksilver_lab.papers.workloads.mercury import WORKLOADS

_TOTALS: Final = ("jobs", "unfinished_jobs", "tasks", "kills", "lost", "doubled", "failed_jobs")
_MEANS: Final = (*METRICS, "latency_p90_s", "utilisation", "work_lost_s", "work_lost_ratio", "opportunistic_ratio")


def of_mix(plan: ExperimentPlan, jobs: PlannedJobs, runs: Runs) -> dict[str, Any]:
    """Return what a mix came to: `size`, `offered`, `competitors`, `ratios`, `compared`, `ceilings`, `goals`."""
    if jobs.name == GUARANTEES.name:
        return _guarantees(plan, jobs, runs)
    mix, name, candidates = plan.mix(jobs), jobs.name, plan.candidates(jobs)
    by_competitor: dict[str, list[dict[str, Any]]] = {
        runner: [{"seed": run.seed} | figures(run, mix.open) for run in runs[name, runner]]
        for runner in plan.runners(jobs)
        if runs.get((name, runner))
    }
    ratios = compare.to_first(by_competitor)
    seeds = {run["seed"] for own in by_competitor.values() for run in own}
    for step in plan.bounds(jobs):
        if step.seed in seeds:
            by_competitor.setdefault(step.competitor, []).append({"seed": step.seed} | figures(bound(step), mix.open))
    answered = compare.compared(by_competitor, candidates, plan.stock(jobs))
    for candidate, answer in answered.items():
        answer["harm"] = {
            rival: fared
            for rival in plan.stock(jobs)
            if (fared := harm(runs.get((name, rival), ()), runs[name, candidate], partial(counted, is_open=mix.open)))
        }
    first = next(iter(candidates), "")
    curves = _cdfs(mix, runs) if mix.cdf else {}
    return {
        "about": mix.about,
        "open": mix.open,
        "size": asdict(mix.size),
        **_offered(mix),
        "competitors": {
            runner: summed(own) | _of_runs(mix, runs.get((name, runner), ())) | curves.get(runner, {})
            for runner, own in by_competitor.items()
        },
        "ratios": ratios,
        "compared": answered,
        "ceilings": goals.ceilings(by_competitor, goals.TUNED, mix.size.slots, _task_s(mix))
        | goals.least_ratios(name, by_competitor),
        "goals": goals.goals(name, by_competitor, first, answered.get(first, {}), mix.size.slots)
        if plan.promises
        else {},
    }


def _offered(mix: Mix) -> dict[str, Any]:
    """Return the jobs of an open mix in numbers; work in slot seconds, `window_s` until the last arrival."""
    jobs = list(mix.drawn(1)) if mix.open else []
    tasks = [task for job in jobs for task in job.tasks]
    row = {"jobs": len(jobs), "tasks": len(tasks), "work_s": round(sum(task.runs_s for task in tasks), 1)}
    return {"offered": row | {"window_s": round(jobs[-1].arrives_s, 1)}} if jobs else {}


def _cdfs(mix: Mix, runs: Runs) -> dict[str, dict[str, Any]]:
    """Return `cdf` by competitor: percentiles of completion time and slowdown, means over its runs."""
    alone = slowdown.alone_s(mix.drawn(1), mix.slots)
    return {
        name: {
            "cdf": slowdown.mean_cdf(
                [slowdown.cdf([job for job in counted(run, True) if job.ended_s is not None], alone) for run in own]
            )
        }
        for (of, name), own in runs.items()
        if of == mix.name
    }


def _task_s(mix: Mix) -> float | None:
    """Return how long each task takes where all are alike, on nodes that are, None else."""
    workload = WORKLOADS[mix.workload]
    alike = len(workload.kinds) == 1 and not workload.kinds[0].sigma and not workload.slow_nodes
    return workload.mean_s if alike and not mix.open else None


def _guarantees(plan: ExperimentPlan, jobs: PlannedJobs, runs: Runs) -> dict[str, Any]:
    mix = GUARANTEES.name
    stock, candidates = runs.get((mix, goals.TUNED), ()), plan.candidates(jobs)
    by_competitor = {name: guarantees.compared(stock, runs.get((mix, name), ())) for name in candidates}
    first = next(iter(candidates), "")
    return {
        "about": GUARANTEES.about,
        "open": True,
        "guarantees": by_competitor,
        "goals": guarantees.goals(by_competitor.get(first, {})) if plan.promises else {},
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


def _of_runs(mix: Mix, runs: Sequence[RunResult]) -> dict[str, Any]:
    """Return what runs cost: CPU seconds and memory by process, heartbeats of masters; of closed mixes their window."""
    if not runs:
        return {}
    return {
        "cpu_s": {name: round(fmean(run.cpu_s.get(name, 0.0) for run in runs), 2) for name in runs[0].cpu_s},
        "rss_mb": {name: max(run.rss_mb.get(name, 0.0) for run in runs) for name in runs[0].rss_mb},
        "heartbeats": round(fmean(run.counts.get("heartbeats", 0) for run in runs)),
    } | ({} if mix.open else {"window": summary(runs) | {"phases": phases(runs)}})


def result(plan: ExperimentPlan, runs: Runs) -> dict[str, Any]:
    """Return the keys of the result; `goals` are those of all mixes, and the plan's own."""
    every = [run for own in runs.values() for run in own]
    ran = [jobs for jobs in plan.workloads if any(of == jobs.name for of, _ in runs)]
    mixes = {jobs.name: of_mix(plan, jobs, runs) for jobs in ran}
    alike = {jobs.name for jobs in ran if _task_s(plan.mix(jobs)) is not None}
    candidates = [name for jobs in plan.workloads for name in plan.candidates(jobs)]
    return {
        "mixes": mixes,
        "lost_tasks": sum(run.counts.get("lost", 0) for run in every),
        "doubled_tasks": sum(run.counts.get("doubled", 0) for run in every),
        "runs": len(every),
        "ours": plan.candidate if plan.candidate in candidates else next(iter(candidates), None),
        "goals": answers(plan.goals, runs, alike.__contains__)
        | {name: goal for entry in mixes.values() for name, goal in entry["goals"].items()},
    }


def take(runs: dict[tuple[str, str], list[RunResult]], run: RunResult) -> None:
    """Add a run; those of a mix and competitor stand in the order of their seeds."""
    same = runs.setdefault((run.workload, run.competitor), [])
    same.append(run)
    same.sort(key=lambda entry: entry.seed)
