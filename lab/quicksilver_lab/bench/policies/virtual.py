"""The runs under the virtual clock: each variant with each seed, in several processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from signal import SIG_IGN, SIGINT, signal
from time import process_time
from typing import Any

from policies.config.policy_set import Policies
from quicksilver.simulator.world.master import Master
from quicksilver.simulator.world.setup import Run
from quicksilver_lab.bench.policies.effects import effects, means, share, summed
from quicksilver_lab.bench.policies.jobs import BATCH, PRODUCTION, JobsPlan
from quicksilver_lab.bench.policies.variants import PolicyVariant
from quicksilver_lab.bench.policies.world import world
from quicksilver_lab.bench.stats import percentile

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class VirtualOutcome:
    """One run: its figures, and what must not happen."""

    variant: str
    seed: int
    metrics: dict[str, float]
    counts: dict[str, int]
    wrong: list[str]
    """What went wrong: policy faults, unfinished jobs, nodes over their capacity."""
    cpu_s: float
    """Of this process."""


def simulate(plan: JobsPlan, variant: PolicyVariant, seed: int) -> VirtualOutcome:
    """Run one variant once."""
    begun_s = process_time()
    run = world(replace(plan, **variant.plan), Policies.load(variant.policies), seed, variant.corrected).go()
    counts = dict(sorted((run.counts + run.sheds).items()))
    return VirtualOutcome(variant.name, seed, metrics(run), counts, wrong(run), round(process_time() - begun_s, 2))


def wrong(run: Run) -> list[str]:
    """Return what must not happen in a run, in words."""
    faults = sorted(set(run.faults))[:5]
    unfinished = sum(not master.done for master in run.masters)
    if unfinished:
        faults.append(f"{unfinished} of {len(run.masters)} jobs did not finish")
    if run.over_capacity:
        faults.append(f"{run.over_capacity} nodes ran more at once than they have")
    return faults


def metrics(run: Run) -> dict[str, float]:
    """Return the figures of a run; batch jobs' unless they begin with g_. A job that did not finish is left out."""
    batch = [m for m in run.masters if m.job.queue == BATCH]
    waits = _waits(batch)
    completion = [max(t.ended_s for t in m.tasks if t.ended_s is not None) - m.job.arrives_s for m in batch if m.done]
    in_time = sum(t.ended_s is not None and t.ended_s <= run.window_s for m in batch for t in m.tasks)
    tasks, work_s = len(waits), summed(m.job.work_s for m in run.masters)
    return {
        "tasks_per_s": in_time / run.window_s,
        "wait_mean_s": summed(waits) / max(1, tasks),
        "wait_p50_s": percentile(waits, 50),
        "wait_p95_s": percentile(waits, 95),
        "completion_mean_s": summed(completion) / max(1, len(completion)),
        "completion_p95_s": percentile(completion, 95),
        "utilisation": share(run.busy_s, run.slots * run.window_s),
        "g_wait_p95_s": percentile(_waits([m for m in run.masters if m.job.queue == PRODUCTION]), 95),
        "kills_per_1000": 1000 * share(len(run.lost_s), tasks),
        "lost_ratio": share(summed(run.lost_s), work_s),
        "sheds_per_1000": 1000 * share(sum(run.sheds.values()), tasks),
    }


def _waits(masters: Sequence[Master]) -> list[float]:
    """Return for each task that ended the time from its first ask to the begin of the try that did it, in seconds."""
    return [
        task.began_s - task.wanted_s
        for master in masters
        for task in master.tasks
        if task.began_s is not None and task.ended_s is not None
    ]


def measure(
    plan: JobsPlan, variants: Sequence[PolicyVariant], seeds: Sequence[int], processes: int, progress: Progress
) -> Iterator[VirtualOutcome]:
    """Run all variants with one seed after the other; what is yielded, and in which order, is the same with any number
    of processes.
    """
    jobs = [(plan, variant, seed) for seed in seeds for variant in variants]
    quiet = (SIGINT, SIG_IGN)  # Ctrl-C is for this process, which then cancels what has not begun
    pool = ProcessPoolExecutor(processes, get_context("spawn"), signal, quiet)
    try:
        for number, outcome in enumerate(pool.map(simulate, *zip(*jobs, strict=True)), start=1):
            note = f"; wrong: {outcome.wrong}" if outcome.wrong else ""
            progress(f"{number} of {len(jobs)}: {outcome.variant}, seed {outcome.seed}, {outcome.cpu_s} s{note}")
            yield outcome
    finally:
        pool.shutdown(cancel_futures=True)


def whole(outcomes: Sequence[VirtualOutcome], variants: Sequence[PolicyVariant]) -> list[VirtualOutcome]:
    """Return the outcomes of those seeds with which all variants were run."""
    runs = Counter(outcome.seed for outcome in outcomes)
    return [outcome for outcome in outcomes if runs[outcome.seed] == len(variants)]


def compared(outcomes: Sequence[VirtualOutcome], variants: Sequence[PolicyVariant]) -> dict[str, Any]:
    """Return figures and effects by variant. Raises ValueError with fewer than two seeds."""
    by_name: dict[str, list[VirtualOutcome]] = {variant.name: [] for variant in variants}
    for outcome in sorted(outcomes, key=lambda entry: entry.seed):
        by_name[outcome.variant].append(outcome)
    samples = {name: [result.metrics for result in results] for name, results in by_name.items()}
    against = {variant.name: variant.against for variant in variants if _is_compared(variant)}
    return {
        "effects": {name: effects(samples[base], samples[name]) for name, base in against.items()},
        "against": against,
        "means": {name: means(values) for name, values in samples.items()},
        "counts": {name: _counts(results) for name, results in by_name.items()},
        "wrong": {
            name: sorted({text for result in results for text in result.wrong})
            for name, results in by_name.items()
            if any(result.wrong for result in results)
        },
    }


def _is_compared(variant: PolicyVariant) -> bool:
    return variant.against != variant.name


def _counts(outcomes: Sequence[VirtualOutcome]) -> dict[str, int]:
    names = sorted({name for outcome in outcomes for name in outcome.counts})
    return {name: sum(outcome.counts.get(name, 0) for outcome in outcomes) for name in names}
