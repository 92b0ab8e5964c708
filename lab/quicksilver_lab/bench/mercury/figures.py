"""The figures of runs: what ended within the window counts, which leaves out warm-up and drain alike for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from statistics import fmean
from typing import Any, Final

from quicksilver_lab.bench.emulator.model import EmulatedSample, JobRecord, RunResult, TaskRecord
from quicksilver_lab.bench.policies.effects import share
from quicksilver_lab.bench.stats import percentile

BLOCK_S: Final = 5.0
"""Throughput and utilisation are drawn again in blocks of this length: neighbouring seconds are alike."""
DRAWS: Final = 1000
HIGHER: Final = ("tasks_per_s", "jobs_per_s", "utilisation")
LOWER: Final = ("latency_p50_s", "latency_p95_s", "latency_mean_s", "wait_p50_s")
METRICS: Final = (*HIGHER, *LOWER)
"""Of each competitor and workload, with an interval; kills and work lost come as totals beside them."""


@dataclass(frozen=True, slots=True)
class MeasuredWindow:
    """What of a run counts: ends within [from_s, to_s) of the run's clock."""

    from_s: float
    to_s: float

    @classmethod
    def of(cls, run: RunResult) -> MeasuredWindow:
        """Return a run's window. Raises ValueError when it has no length."""
        if run.window_s <= 0:
            raise ValueError(f"{run.competitor}, {run.workload}, seed {run.seed}: a window of {run.window_s:g} s")
        return cls(run.began_s, run.began_s + run.window_s)

    @property
    def length_s(self) -> float:
        """How long it is."""
        return self.to_s - self.from_s

    def has(self, at_s: float | None) -> bool:
        """Return whether a moment lies in it; None does not."""
        return at_s is not None and self.from_s <= at_s < self.to_s

    def blocks(self) -> list[MeasuredWindow]:
        """Return it in equal parts of about BLOCK_S."""
        count = max(1, round(self.length_s / BLOCK_S))
        step_s = self.length_s / count
        return [MeasuredWindow(self.from_s + n * step_s, self.from_s + (n + 1) * step_s) for n in range(count)]


def tasks_in(run: RunResult, window: MeasuredWindow) -> list[TaskRecord]:
    """Return the tasks that ended in a window."""
    return [task for job in run.jobs for task in job.tasks if window.has(task.ended_s)]


def jobs_in(run: RunResult, window: MeasuredWindow) -> list[JobRecord]:
    """Return the jobs that ended in a window."""
    return [job for job in run.jobs if window.has(job.ended_s)]


def latencies_s(jobs: Sequence[JobRecord]) -> list[float]:
    """Return from submission to end of each job that came to its end, in seconds."""
    return [job.ended_s - job.submitted_s for job in jobs if job.ended_s is not None]


def waits_s(tasks: Sequence[TaskRecord]) -> list[float]:
    """Return from when a task was wanted to its (last) start, in seconds."""
    return [task.started_s - task.wanted_s for task in tasks if task.started_s is not None]


def used_ratio(samples: Sequence[EmulatedSample], slots: int) -> float:
    """Return the share of the slots that running containers held, 0 without samples."""
    return share(fmean(sample.used_slots for sample in samples), slots) if samples else 0.0


def figures(run: RunResult) -> dict[str, float]:
    """Return the METRICS of one run; latencies and waits are left out where nothing ended."""
    window = MeasuredWindow.of(run)
    tasks, jobs = tasks_in(run, window), jobs_in(run, window)
    result = {
        "tasks_per_s": len(tasks) / window.length_s,
        "jobs_per_s": len(jobs) / window.length_s,
        "utilisation": used_ratio([sample for sample in run.samples if window.has(sample.at_s)], run.slots),
    }
    if jobs:
        took = latencies_s(jobs)
        result |= {
            "latency_p50_s": percentile(took, 50),
            "latency_p95_s": percentile(took, 95),
            "latency_mean_s": fmean(took),
        }
    if tasks:
        result["wait_p50_s"] = percentile(waits_s(tasks), 50)
    return result


def by_class(runs: Sequence[RunResult]) -> dict[str, dict[str, float]]:
    """Return jobs, p50 and p95 of latency (s) by class of job, over all runs."""
    took: dict[str, list[float]] = {}
    for run in runs:
        for job in jobs_in(run, MeasuredWindow.of(run)):
            took.setdefault(job.klass, []).extend(latencies_s([job]))
    return {
        klass: {
            "jobs": len(values),
            "latency_p50_s": round(percentile(values, 50), 3),
            "latency_p95_s": round(percentile(values, 95), 3),
        }
        for klass, values in sorted(took.items())
    }


# Intervals


def _blocks(run: RunResult) -> Iterator[dict[str, float]]:
    """Yield what happened in each block of a run's window, as rates and shares."""
    for block in MeasuredWindow.of(run).blocks():
        yield {
            "tasks_per_s": len(tasks_in(run, block)) / block.length_s,
            "jobs_per_s": len(jobs_in(run, block)) / block.length_s,
            "utilisation": used_ratio([sample for sample in run.samples if block.has(sample.at_s)], run.slots),
        }


def _drawn(
    values: Sequence[float], measure: Callable[[Sequence[float]], float], rng: Random, draws: int
) -> tuple[float, float]:
    """Return the 95 % bootstrap interval (percentile method) of a measure of the values."""
    results = [measure(rng.choices(values, k=len(values))) for _ in range(draws)]
    return percentile(results, 2.5), percentile(results, 97.5)


def summary(runs: Sequence[RunResult], draws: int = DRAWS) -> dict[str, Any]:
    """Return a competitor's figures on a workload over its repetitions, each with its 95 % interval.

    Rates: the mean over the runs, drawn again in blocks; latencies and waits: of all jobs or tasks together, drawn
    again by job or task. With few repetitions the intervals say how much a run's own figures vary, not how much runs
    differ; for the ratios, which pair the seeds, see `quicksilver_lab.bench.experiment.goals`. Raises ValueError of no
    runs.
    """
    if not runs:
        raise ValueError("no runs")
    rng = Random(f"{runs[0].competitor} {runs[0].workload}")
    values: dict[str, list[float]] = {}
    for run in runs:
        for block in _blocks(run):
            for name, value in block.items():
                values.setdefault(name, []).append(value)
    measures: dict[str, Callable[[Sequence[float]], float]] = dict.fromkeys(HIGHER, fmean)
    took = [value for run in runs for value in latencies_s(jobs_in(run, MeasuredWindow.of(run)))]
    waited = [value for run in runs for value in waits_s(tasks_in(run, MeasuredWindow.of(run)))]
    if took:
        values |= dict.fromkeys(("latency_p50_s", "latency_p95_s", "latency_mean_s"), took)
        measures |= {
            "latency_p50_s": lambda sample: percentile(sample, 50),
            "latency_p95_s": lambda sample: percentile(sample, 95),
            "latency_mean_s": fmean,
        }
    result: dict[str, Any] = {"runs": len(runs)}
    for name, measure in measures.items():
        low, high = _drawn(values[name], measure, rng, draws)
        result[name] = {"value": round(measure(values[name]), 4), "ci_low": round(low, 4), "ci_high": round(high, 4)}
    if waited:
        result["wait_p50_s"] = {"value": round(percentile(waited, 50), 4)}
    return result | _totals(runs) | {"classes": by_class(runs)}


def _totals(runs: Sequence[RunResult]) -> dict[str, Any]:
    """Return kills and work lost per 1000 ended tasks over whole runs, CPU within the window, memory, counts."""
    ended = sum(task.ended_s is not None for run in runs for job in run.jobs for task in job.tasks)
    window_s = sum(run.window_s for run in runs)
    return {
        "late_s": round(max(_late_s(run) for run in runs), 3),
        "kills": sum(run.kills for run in runs),
        "kills_per_1000_tasks": round(1000 * share(sum(run.kills for run in runs), ended), 2),
        "work_lost_s": round(sum(run.work_lost_s for run in runs), 2),
        "work_lost_s_per_1000_tasks": round(1000 * share(sum(run.work_lost_s for run in runs), ended), 3),
        "cpu_ratio": {name: round(_sum(runs, "cpu_s", name) / window_s, 3) for name in runs[0].cpu_s},
        "rss_mb": {name: max(run.rss_mb.get(name, 0.0) for run in runs) for name in runs[0].rss_mb},
        "counts": {name: int(_sum(runs, "counts", name)) for name in sorted({n for run in runs for n in run.counts})},
    }


def _late_s(run: RunResult) -> float:
    """Return by how much the emulator took its samples late, 95th percentile: a busy machine shows here first."""
    window = MeasuredWindow.of(run)
    moments = [sample.at_s for sample in run.samples if window.has(sample.at_s)]
    gaps = [abs(after - before - 1.0) for before, after in pairwise(moments)]
    return percentile(gaps, 95) if gaps else 0.0


def _sum(runs: Sequence[RunResult], field: str, name: str) -> float:
    mappings: list[Mapping[str, float]] = [getattr(run, field) for run in runs]
    return sum(values.get(name, 0) for values in mappings)
