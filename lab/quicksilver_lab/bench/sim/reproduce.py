"""`python -m quicksilver_lab.bench.sim.reproduce --part NAME`: figures of Hawk, Eagle and Kairos, beside those of
lab/docs/reproduction.md.

Percentiles are of job completion times, s; `busy` is the mean share of busy slots while jobs arrive. Pairs divide one
system's figure by another's with the same jobs: their spread is over seeds, each with other jobs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from statistics import fmean
from time import process_time
from typing import Any, Final, NamedTuple

import click

from quicksilver.simulator.errors import SimulatorError
from quicksilver.simulator.figures import ALL, LONG, SHORT, figures
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver.simulator.systems import load
from quicksilver.simulator.traces.generators import generate
from quicksilver_lab.bench.results import commit, machine, write
from quicksilver_lab.bench.sim.papers import PARTS, PaperPart, PaperVariant, PaperWorkload
from quicksilver_lab.bench.stats import spread

_KEPT: Final = tuple(f"{kind}_{name}" for name in (SHORT, LONG, ALL) for kind in ("mean", "p50", "p90", "p99", "wait"))
_EQUAL_S: Final = 0.01
"""Completions that differ by less count as equal: messages alone take some milliseconds."""
_LEAST_NODES: Final = 3
"""From here on a size is nodes, not load."""


class ReproducedRun(NamedTuple):
    """What is kept of a run."""

    figures: dict[str, float]
    counts: dict[str, int]
    completion_s: dict[int, float]
    """By job."""


class Offered(NamedTuple):
    """The jobs of one seed on one cluster."""

    workload: PaperWorkload
    jobs: Sequence[SimulatedJob]
    cluster: ClusterModel
    seed: int

    @property
    def load(self) -> float:
        """Work by what the slots could do while jobs arrive."""
        return _slots(self.jobs) / self.cluster.total_slots


def _slots(jobs: Sequence[SimulatedJob]) -> float:
    return sum(job.work_s for job in jobs) / (jobs[-1].arrives_s - jobs[0].arrives_s)


def jobs_of(workload: PaperWorkload, seed: int, first: int | None = None) -> list[SimulatedJob]:
    """Return the jobs of a seed. first: so many are drawn, in place of the workload's number."""
    jobs = list(generate(workload.name, first or workload.jobs, seed))
    if workload.most_tasks is not None:
        jobs = [job for job in jobs if len(job.durations_s) <= workload.most_tasks]
    if workload.slots is None:
        return jobs
    times = workload.slots / _slots(jobs)
    return [replace(job, arrives_s=job.arrives_s / times) for job in jobs]


def offered(workload: PaperWorkload, size: float, jobs: Sequence[SimulatedJob], seed: int) -> Offered:
    """Return jobs on the cluster of a size."""
    slots = workload.node_slots
    nodes = ceil(_slots(jobs) / size / slots) if size < _LEAST_NODES else int(size)
    return Offered(workload, jobs, ClusterModel(nodes, slots), seed)


def once(variant: PaperVariant, offer: Offered) -> ReproducedRun:
    """Run one system. Raises SimulatorError when tasks were lost or doubled."""
    system, begun_s = load(variant.system), process_time()
    settings = offer.workload.settings_of(variant.system, variant.extra)
    result = system.run(iter(offer.jobs), offer.cluster, system.Settings.model_validate(settings), offer.seed)
    if len(result.jobs) != len(offer.jobs) or result.counts["lost"] or result.counts["doubled"]:
        raise SimulatorError(f"{variant.system}: jobs or tasks were lost or doubled: {result.counts}")
    cutoff_s = variant.extra.get("cutoff_s", offer.workload.cutoff_s)
    metrics = figures(result, offer.cluster, {job.number for job in offer.jobs if job.estimate_s > cutoff_s}).metrics
    values = {name: metrics[name] for name in _KEPT if name in metrics}
    values |= {"busy": _busy(result, offer.jobs[-1].arrives_s), "utilisation_p50": metrics["utilisation_p50"]}
    values |= {"utilisation_max": metrics["utilisation_max"], "cpu_s": round(process_time() - begun_s, 2)}
    return ReproducedRun(values, result.counts, {job.number: job.completion_s for job in result.jobs})


def _busy(result: SimResult, until_s: float) -> float:
    return fmean(share for at_s, share in result.busy if at_s <= until_s)


def beside(own: ReproducedRun, base: ReproducedRun, long_jobs: frozenset[int]) -> dict[str, float]:
    """Return own by base: figures, and the shares of jobs that are better, better by half, and no worse.

    A class without jobs has none.
    """
    result = {name: own.figures[name] / base.figures[name] for name in (*_KEPT, "busy") if base.figures.get(name)}
    for klass, is_long in ((SHORT, False), (LONG, True)):
        both = [
            (took_s, base.completion_s[number])
            for number, took_s in own.completion_s.items()
            if (number in long_jobs) is is_long
        ]
        if not both:
            continue
        for name, share in (("better", 1.0), ("better_by_half", 0.5)):
            result[f"{name}_{klass}"] = fmean(one_s < share * other_s - _EQUAL_S for one_s, other_s in both)
        result[f"no_worse_{klass}"] = fmean(one_s <= other_s + _EQUAL_S for one_s, other_s in both)
    return result


def measure(part: PaperPart, sizes: Iterable[float], seeds: int, first: int | None) -> tuple[list[dict[str, Any]], Any]:
    """Return a row for each size, and the figures of each run."""
    rows: dict[float, list[dict[str, Any]]] = {size: [] for size in sizes}
    for seed in range(1, seeds + 1):
        jobs = jobs_of(part.workload, seed, first)
        for size, by_seed in rows.items():
            by_seed.append(_by_label(part, offered(part.workload, size, jobs, seed)))
    return [{"size": size, **_merged(by_seed)} for size, by_seed in rows.items()], {
        str(size): by_seed for size, by_seed in rows.items()
    }


def _by_label(part: PaperPart, offer: Offered) -> dict[str, Any]:
    """Return all runs of a size and seed."""
    ran = {}
    for label, variant in part.variants.items():
        ran[label] = once(variant, offer)
        shown = {name: round(value, 3) for name, value in ran[label].figures.items()}
        click.echo(f"{offer.cluster.nodes} nodes, seed {offer.seed}, {label}: {json.dumps(shown)}", err=True)
    long_jobs = frozenset(job.number for job in offer.jobs if job.estimate_s > offer.workload.cutoff_s)
    return {
        "nodes": offer.cluster.nodes,
        "load": offer.load,
        "runs": {label: run.figures for label, run in ran.items()},
        "counts": {label: run.counts for label, run in ran.items()},
        "pairs": {f"{a} / {b}": beside(ran[a], ran[b], long_jobs) for a, b in part.pairs},
    }


def _merged(by_seed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return medians and ranges over seeds, of what each seed has: one may have no long jobs."""
    result: dict[str, Any] = {name: spread([row[name] for row in by_seed]) for name in ("nodes", "load")}
    for kind in ("runs", "pairs", "counts"):
        result[kind] = {
            label: {
                name: spread([row[kind][label][name] for row in by_seed])
                for name in of
                if all(name in row[kind][label] for row in by_seed)
            }
            for label, of in by_seed[0][kind].items()
        }
    return result


@click.command()
@click.option("--part", "names", multiple=True, type=click.Choice([*PARTS]), help="An experiment; --list shows them.")
@click.option("--list", "listed", is_flag=True, help="Show the experiments.")
@click.option("--seeds", type=click.IntRange(1), help="Of the jobs and of the runs.  [default: the part's]")
@click.option("--size", "sizes", multiple=True, type=float, help="Nodes, or a load below 3.  [default: the part's]")
@click.option("--first", type=click.IntRange(2), help="So many jobs.  [default: the part's]")
def main(names: tuple[str, ...], listed: bool, seeds: int | None, sizes: tuple[float, ...], first: int | None) -> None:
    """Run experiments of Hawk, Eagle and Kairos; the last line is one JSON object."""
    if listed or not names:
        for name, part in PARTS.items():
            click.echo(f"{name}: {part.about}")
        return
    result: dict[str, Any] = {"benchmark": "sim-reproduce", "machine": machine(), "commit": commit(), "parts": {}}
    raw = {}
    for name in names:
        part = PARTS[name]
        rows, raw[name] = measure(part, sizes or part.sizes, seeds or part.seeds, first)
        result["parts"][name] = {"about": part.about, "seeds": seeds or part.seeds, "rows": rows}
    click.echo(f"kept in {write('sim-reproduce-' + names[0], result, raw)}", err=True)
    click.echo(json.dumps(result))


if __name__ == "__main__":
    main()
