"""`python -m bench.sim.mercury`: Mercury's section 7.2 and 7.3 by the production machines under the virtual clock.

On an eighth of the paper's nodes with a quarter of their slots, and so many fewer tasks; gains are against only-G with
the same jobs and seed. k is scaled as a share of the nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import exp
from random import Random
from statistics import fmean
from typing import Any, Final

import click

from bench.results import commit, machine, write
from bench.stats import spread
from simulator.model import ClusterModel, Job, SimResult
from simulator.systems import load
from simulator.systems.mercury import MERCURY

CLUSTER: Final = ClusterModel(nodes=32, slots=8)
NODES: Final = 256
"""Of the paper, for k."""
JOBS: Final = {100: 13, 150: 19, 200: 25}
"""The paper's concurrent jobs to ours: as many tasks for each slot."""
_TASKS: Final = 50
_ROUNDS: Final = 4
"""Jobs for each that may run at once."""
_SPREAD: Final = 0.5
"""Of task durations, lognormal."""
_SLOW: Final = {"slow_nodes": 0.1, "slow_times": 4.0, "corrected": False}
"""A few nodes where tasks take longer than anybody knows."""
ONLY_G: Final[dict[str, Any]] = {"queues": ["*"], "routes": [{"policy": "only_g"}]}
Run = tuple[str, str, float, dict[str, Any]]
"""Name, that of what it is compared with, mean duration of a task, settings."""


def only_q(**slots: Any) -> dict[str, Any]:
    """Return Mercury's policies with others in some slots."""
    return {**MERCURY, **slots}


def _k(k: int) -> dict[str, Any]:
    return {"policy": "topk_wait", "settings": {"k": NODES, "max_ratio": k / NODES}}


def _sigma(sigma: float) -> dict[str, Any]:
    return {"policy": "mean_sigma", "settings": {"c": sigma}}


def runs() -> list[Run]:
    """Return all that is run."""
    fifo, never = {"policy": "fifo"}, {"policy": "none"}
    slow = "stragglers only-G"
    return [
        ("only-G", "only-G", 1.2, {"policies": ONLY_G}),
        *((f"{jobs} jobs", "only-G", 1.2, {"policies": only_q(place=_k(50)), "max_jobs": JOBS[jobs]}) for jobs in JOBS),
        *((f"k={k}", "only-G", 1.2, {"policies": only_q(place=_k(k))}) for k in (20, 50, 100)),
        *(
            (f"{mean_s} s {name}", f"{mean_s} s only-G", float(mean_s), {"policies": chosen})
            for mean_s in (2, 10, 20)
            for name, chosen in (("only-G", ONLY_G), ("only-Q", only_q(place=_k(50))))
        ),
        (slow, slow, 1.2, {"policies": ONLY_G, **_SLOW}),
        ("stragglers only-Q", slow, 1.2, {"policies": only_q(place=_k(50), order=fifo, shed=never), **_SLOW}),
        ("stragglers 1 sigma", slow, 1.2, {"policies": only_q(place=_k(50), order=fifo, shed=_sigma(1)), **_SLOW}),
        ("stragglers 2 sigma", slow, 1.2, {"policies": only_q(place=_k(50), order=fifo, shed=_sigma(2)), **_SLOW}),
        ("stragglers 2 sigma, reordered", slow, 1.2, {"policies": only_q(place=_k(50), shed=_sigma(2)), **_SLOW}),
    ]


def jobs(mean_s: float, seed: int, many: int) -> list[Job]:
    """Return jobs that all want to run at once, of equal size."""
    rng = Random(f"{mean_s} {seed}")
    found = []
    for number in range(1, many + 1):
        durations_s = tuple(mean_s * exp(rng.gauss(-(_SPREAD**2) / 2, _SPREAD)) for _ in range(_TASKS))
        found.append(Job(number, 0.0, durations_s, estimate_s=mean_s))
    return found


def once(run: Run, seed: int) -> dict[str, float]:
    """Return what one run showed; its settings may set the jobs that run at once."""
    _, _, mean_s, chosen = run
    system = load("mercury")
    at_once = {"max_jobs": JOBS[150], "off_switch": CLUSTER.slots, "sample_s": 10.0}
    settings = system.Settings(**{**at_once, **chosen})
    offered = jobs(mean_s, seed, _ROUNDS * JOBS[150])
    result = system.run(offered, CLUSTER, settings, seed)
    found = figures(result)
    click.echo(f"{run[0]}, seed {seed}: {found}", err=True)
    return found


def figures(result: SimResult) -> dict[str, float]:
    """Return tasks per second over the whole run, and what was lost."""
    ended_s = max(job.ended_s for job in result.jobs)
    tasks = result.counts["tasks"]
    return {
        "tasks_per_s": tasks / ended_s,
        "sheds_ratio": result.counts["sheds"] / tasks,
        "kills_ratio": result.counts["kills"] / tasks,
        "wait_mean_s": fmean(job.wait_s for job in result.jobs),
    }


def measure(wanted: Iterable[Run], seeds: Iterable[int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return gains in tasks per second over what each is compared with, with their spread; and the raw figures."""
    listed = list(wanted)
    raw = {str(seed): {run[0]: once(run, seed) for run in listed} for seed in seeds}
    gains = {
        name: spread([of[name]["tasks_per_s"] / of[against]["tasks_per_s"] - 1 for of in raw.values()])
        for name, against, _, _ in listed
        if name != against
    }
    return {"benchmark": "sim-mercury", "gains": gains}, raw


@click.command()
@click.option("--seeds", default=2, show_default=True, type=click.IntRange(1), help="Runs of each.")
@click.option("--only", default="", help="Only runs whose names begin so, and what they are compared with.")
def main(seeds: int, only: str) -> None:
    """Mercury's gains in task throughput; the last line is one JSON object."""
    listed = runs()
    names = {name for run in listed if run[0].startswith(only) for name in run[:2]}
    chosen = [run for run in listed if run[0] in names]
    result, raw = measure(chosen, range(1, seeds + 1))
    result |= {"machine": machine(), "commit": commit(), "seeds": seeds}
    click.echo(f"kept in {write('sim-mercury', result, raw)}", err=True)
    click.echo(json.dumps(result))


if __name__ == "__main__":
    main()
