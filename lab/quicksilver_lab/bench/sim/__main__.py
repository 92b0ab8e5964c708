"""`python -m quicksilver_lab.bench.sim`: tasks per second of each system on one Yahoo-like trace, in turn.

Systems that run every message of the product report less often than in production (`report_s`), as the settings say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from time import perf_counter, process_time
from typing import Any, Final

import click

from quicksilver.simulator.model import ClusterModel, SimulatedJob
from quicksilver.simulator.systems import SYSTEMS, load
from quicksilver.simulator.traces.generators import generate
from quicksilver_lab.bench.results import commit, machine, write
from quicksilver_lab.bench.stats import percentile

_PRODUCTION: Final[Mapping[str, Any]] = {"report_s": 60.0}
SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "kairos": _PRODUCTION,
    "mercury": _PRODUCTION,
    "opportunistic": _PRODUCTION,
    "quicksilver": _PRODUCTION,
}
"""By system: what is set otherwise than by default."""
LEFT_OUT: Final = frozenset(("zoe",))
"""Applications of components, not jobs of tasks: `python -m quicksilver_lab.bench.sim.zoe`."""


def once(name: str, jobs: list[SimulatedJob], cluster: ClusterModel, seed: int) -> dict[str, float]:
    """Return what one run took, and showed."""
    system = load(name)
    settings = system.Settings(**SETTINGS.get(name, {}))
    wall_s, cpu_s = perf_counter(), process_time()
    result = system.run(iter(jobs), cluster, settings, seed)
    wall_s, cpu_s = perf_counter() - wall_s, process_time() - cpu_s
    completion_s = [job.completion_s for job in result.jobs]
    return {
        "tasks": result.counts["tasks"],
        "tasks_per_cpu_s": round(result.counts["tasks"] / cpu_s, 1),
        "events": result.counts.get("events", 0),
        "cpu_s": round(cpu_s, 2),
        "wall_s": round(wall_s, 2),
        "p50_s": round(percentile(completion_s, 50), 3),
        "p99_s": round(percentile(completion_s, 99), 3),
    }


@click.command()
@click.option("--nodes", default=400, show_default=True, type=click.IntRange(1), help="Of one slot each.")
@click.option("--tasks", default=20_000, show_default=True, type=click.IntRange(1), help="As many jobs as have these.")
@click.option("--load", "busy", default=0.9, show_default=True, type=click.FloatRange(0.01), help="Offered.")
@click.option("--system", "names", multiple=True, type=click.Choice(sorted(SYSTEMS)), help="These alone; all but zoe.")
@click.option("--seed", default=1, show_default=True)
def sim(nodes: int, tasks: int, busy: float, names: tuple[str, ...], seed: int) -> None:
    """Tasks per second of each system; the last line is one JSON object."""
    jobs = trace(tasks, nodes * busy, seed)
    cluster = ClusterModel(nodes)
    figures = {}
    for name in names or sorted(SYSTEMS.keys() - LEFT_OUT):
        figures[name] = once(name, jobs, cluster, seed)
        click.echo(f"{name}: {figures[name]}", err=True)
    about = {"nodes": nodes, "load": busy, "seed": seed, "settings": {n: dict(SETTINGS.get(n, {})) for n in figures}}
    result = {"benchmark": "sim", "systems": figures, **about, "machine": machine(), "commit": commit()}
    click.echo(f"kept in {write('sim', result, {})}", err=True)
    click.echo(json.dumps(result))


def trace(tasks: int, load_slots: float, seed: int) -> list[SimulatedJob]:
    """Return Yahoo-like jobs, as few as have so many tasks, that keep so many slots busy."""
    jobs: list[SimulatedJob] = []
    many = 0
    for job in islice(generate("yahoo", None, seed, load_slots=load_slots), tasks):
        jobs.append(job)
        many += len(job.durations_s)
        if many >= tasks:
            break
    return jobs


if __name__ == "__main__":
    sim()
