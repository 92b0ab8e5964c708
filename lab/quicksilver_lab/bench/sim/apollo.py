"""`python -m quicksilver_lab.bench.sim.apollo`: figures of Apollo's evaluation (OSDI '14, §5), simulated.

Jobs are Yahoo-like, other ones for each seed; ratios compare two settings on the same jobs, spreads are over seeds.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from time import process_time
from typing import Any, Final

import click

from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver_lab.bench.results import commit, machine, write
from quicksilver_lab.bench.sim.__main__ import trace
from quicksilver_lab.bench.sim.matching import compare
from quicksilver_lab.bench.stats import percentile, spread
from quicksilver_lab.papers.systems.apollo import SYSTEM

NODES: Final = 100
SLOTS: Final = 4
TOKENS: Final = 50
"""Of a job; of all jobs together as many as there are slots, so that regular tasks have room."""
_BASE: Final[Mapping[str, Any]] = {"tokens": TOKENS, "cluster_tokens": NODES * SLOTS}
_SLOW: Final[Mapping[str, Any]] = {"slow_tries": 0.05, "slow_times": 5.0}
RUNS: Final[Mapping[str, Mapping[str, Any]]] = {
    "apollo": {},
    "no opportunistic": {"opportunistic": {"allowance_ratio": 0.0}},
    "twice the allowance": {"opportunistic": {"allowance_ratio": 2.0}},
    "not corrected": {"corrected": False},
    "no limit of tokens": {"cluster_tokens": 0},
    "stragglers": _SLOW,
    "stragglers, no copies": {**_SLOW, "reruns": False},
}
PAIRS: Final = (
    ("apollo", "no opportunistic"),
    ("twice the allowance", "no opportunistic"),
    ("apollo", "not corrected"),
    ("stragglers", "stragglers, no copies"),
)
MATCHING: Final = tuple((tasks, faster) for faster in (2.0, 10.0) for tasks in (20, 50, 100))


def oracle_s(job: SimulatedJob, tokens: int) -> float:
    """Return how long a job takes that never waits for a slot, its tasks in their order, so many at a time (§5.2)."""
    free = [0.0] * max(1, min(tokens, len(job.durations_s)))
    for seconds in job.durations_s:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


def figures(result: SimResult, jobs: Sequence[SimulatedJob]) -> dict[str, float]:
    """Return what one run showed. Shares are of the tasks, but for those that name another whole."""
    counts, tasks = result.counts, result.counts["tasks"]
    until_s = jobs[-1].arrives_s
    completion_s = [job.completion_s for job in result.jobs]
    best_s = {job.number: oracle_s(job, TOKENS) for job in jobs}
    values = {
        "completion_mean_s": fmean(completion_s),
        "completion_p50_s": percentile(completion_s, 50),
        "completion_p99_s": percentile(completion_s, 99),
        "by_oracle": sum(completion_s) / sum(best_s.values()),
        "busy": fmean(share for at_s, share in result.busy if at_s <= until_s),
        **result.extra,
        "killed": counts.get("kills", 0) / tasks,
        "duplicates": counts.get("duplicates", 0) / tasks,
        "reruns": counts.get("reruns", 0) / tasks,
    }
    for name, part, whole in (("duplicates", "duplicates_won", "duplicates"), ("reruns", "reruns_won", "reruns")):
        if counts.get(whole):
            values[f"{name}_won"] = counts.get(part, 0) / counts[whole]
    if counts.get("stragglers"):
        values["stragglers_caught"] = counts.get("reruns", 0) / counts["stragglers"]
    return values


def measure(loads: Sequence[float], tasks: int, seeds: Sequence[int]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a row for each load, and the figures of each run."""
    rows, raw = [], {}
    for load in loads:
        by_seed = [_one_seed(load, tasks, seed) for seed in seeds]
        raw[str(load)] = by_seed
        rows.append(
            {
                "load": load,
                "runs": {name: _spreads([of[name] for of in by_seed]) for name in RUNS},
                "ratios": {f"{a} / {b}": _spreads([_ratios(of[a], of[b]) for of in by_seed]) for a, b in PAIRS},
            }
        )
    return rows, raw


def _one_seed(load: float, tasks: int, seed: int) -> dict[str, dict[str, float]]:
    jobs, by_run = trace(tasks, NODES * SLOTS * load, seed), {}
    for name, changed in RUNS.items():
        begun_s = process_time()
        settings = SYSTEM.Settings.model_validate({**_BASE, **changed})
        result = SYSTEM.run(iter(jobs), ClusterModel(NODES, SLOTS), settings, seed)
        by_run[name] = figures(result, jobs) | {"tasks_per_cpu_s": _tasks_of(jobs) / (process_time() - begun_s)}
        click.echo(f"load {load}, seed {seed}, {name}: {by_run[name]['completion_mean_s']:.4g} s", err=True)
    return by_run


def _tasks_of(jobs: Sequence[SimulatedJob]) -> int:
    """Return how many tasks the jobs have together."""
    return sum(len(job.durations_s) for job in jobs)


def _ratios(values: Mapping[str, float], base: Mapping[str, float]) -> dict[str, float]:
    names = ("completion_mean_s", "completion_p50_s", "completion_p99_s", "busy")
    return {name.removesuffix("_s"): values[name] / base[name] for name in names if base[name]}


def _spreads(of: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    return {name: spread([row[name] for row in of]) for name in of[0] if all(name in row for row in of)}


@click.command()
@click.option("--part", "parts", multiple=True, type=click.Choice(["matching", "evaluation"]), help="One alone.")
@click.option("--load", "loads", multiple=True, type=click.FloatRange(0.01), default=(0.5, 0.8), show_default=True)
@click.option("--tasks", default=20_000, show_default=True, type=click.IntRange(2), help="As many jobs as have these.")
@click.option("--seeds", default=5, show_default=True, type=click.IntRange(1))
@click.option("--draws", default=40, show_default=True, type=click.IntRange(1), help="Of each matching.")
def apollo(parts: tuple[str, ...], loads: tuple[float, ...], tasks: int, seeds: int, draws: int) -> None:
    """Apollo's matching, opportunistic tasks, corrections and stragglers; the last line is one JSON object."""
    result: dict[str, Any] = {"benchmark": "sim-apollo", "machine": machine(), "commit": commit()}
    raw: dict[str, Any] = {}
    if not parts or "matching" in parts:
        rows = [{"tasks": n, "faster": f, "draws": draws, **compare(n, f, draws)} for n, f in MATCHING]
        result["matching"] = rows
    if not parts or "evaluation" in parts:
        result["seeds"] = seeds
        result["evaluation"], raw = measure(loads, tasks, range(1, seeds + 1))
    click.echo(f"kept in {write('sim-apollo', result, raw)}", err=True)
    click.echo(json.dumps(result))


if __name__ == "__main__":
    apollo()
