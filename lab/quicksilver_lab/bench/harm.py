"""Which jobs paid for the mean: each job under quicksilver beside the same job under a stock scheduler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from quicksilver.report.cells import shown
from quicksilver_lab.bench import sizes
from quicksilver_lab.bench.emulator.model import JobRecord, RunResult
from quicksilver_lab.bench.stats import percentile

RATIO: Final = 1.1
LONGER_S: Final = 2.0
"""A job is harmed when it took more than RATIO times as long, and LONGER_S longer: neither noise nor a trifle."""

Counted = Callable[[RunResult], Sequence[JobRecord]]
Harm = Mapping[str, Any]
"""Of one pair of competitors."""


def harm(stock: Sequence[RunResult], runs: Sequence[RunResult], counted: Counted) -> dict[str, Any]:
    """Return how the jobs of a competitor fared against those of a stock one; {} when they have no job in common.

    Jobs are paired by seed and number. `jobs` pairs; `harmed` jobs, among them `unfinished`, which ended under the
    stock one alone; of the ratios of the other ones `ratio_p95` and `ratio_worst`, and the `worst` job.
    counted: the jobs of a run that count.
    """
    base = {(run.seed, job.number): sizes.latency_s(job) for run in stock for job in counted(run) if job.ended_s}
    pairs = [
        (run.seed, base[run.seed, job.number], job)
        for run in runs
        for job in counted(run)
        if (run.seed, job.number) in base
    ]
    if not pairs:
        return {}
    both = [(seed, was_s, job, sizes.latency_s(job)) for seed, was_s, job in pairs if job.ended_s is not None]
    unfinished = len(pairs) - len(both)
    longer = sum(took_s > RATIO * was_s and took_s > was_s + LONGER_S for _, was_s, _, took_s in both)
    result: dict[str, Any] = {"jobs": len(pairs), "harmed": longer + unfinished, "unfinished": unfinished}
    if both:
        seed, was_s, job, took_s = max(both, key=lambda entry: entry[3] / entry[1])
        result["ratio_p95"] = round(percentile([took_s / was_s for _, was_s, _, took_s in both], 95), 3)
        result["ratio_worst"] = round(took_s / was_s, 3)
        worst = {"seed": seed, "job": job.number, "class": job.klass}
        result["worst"] = worst | {"stock_s": round(was_s, 2), "s": round(took_s, 2)}
    return result


def sentence(competitor: str, rival: str, result: Harm, where: str = "") -> str:
    """Return what `harm` found in words. where: on which jobs, such as " on google"."""
    text = (
        f"`{competitor}` against `{rival}`{where}: {result['harmed']} of {result['jobs']} jobs took more than "
        f"{RATIO:g} times as long and {LONGER_S:g} s longer"
    )
    if result["unfinished"]:
        text += f", of which {result['unfinished']} did not end"
    if "worst" in result:
        worst = result["worst"]
        text += (
            f"; p95 of all ratios {shown(result['ratio_p95'])}, the worst {shown(result['ratio_worst'])} (job "
            f"{worst['job']}, {worst['class']}: {shown(worst['stock_s'])} s became {shown(worst['s'])} s)"
        )
    return f"{text}."
