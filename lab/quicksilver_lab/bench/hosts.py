"""`quicksilver bench hosts`: jobs of the mixes on twelve real hosts in three racks, default against stock Fair.

Each pair has the same jobs, one competitor after the other on the same network; which comes first changes with the
pair. Tasks sleep, so that two cores carry twelve nodes; nothing is shrunk.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import click

from quicksilver.simulator.traces.spec import JobSpec
from quicksilver_lab.bench import results
from quicksilver_lab.bench.mercury.competitors import FAIR
from quicksilver_lab.bench.mixes.figures import geometric
from quicksilver_lab.bench.mixes.mixes import mix_named, resized
from quicksilver_lab.bench.sleep_job import job
from quicksilver_lab.bench.stats import percentile
from quicksilver_lab.cluster.hosts.cli import INSECURE
from quicksilver_lab.cluster.hosts.host_cluster import HostCluster, HostDaemons, Hosts, on_hosts
from quicksilver_lab.cluster.hosts.host_spec import HostSpec
from quicksilver_lab.cluster.hosts.network_spec import NetworkSpec
from quicksilver_lab.workloads.environment import Progresses, interruptible, one_line_errors

STOCK, OWN = "only_g_fair", "quicksilver"
CORES: Final = 2
METRICS: Final = ("latency_mean_s", "latency_p50_s", "latency_p95_s", "makespan_s")
_MEMORY_MB: Final = 1024
_LIMIT_S: Final = 300.0
_SCHEDULER: Final = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.FairScheduler"
_STOCK_SITE: Final[Mapping[str, str]] = {
    **FAIR,
    "yarn.resourcemanager.scheduler.class": _SCHEDULER,
    "yarn.scheduler.fair.user-as-default-queue": "false",
}


@dataclass(frozen=True, slots=True)
class HostedJob:
    """One job that ran; seconds from the begin of the run."""

    number: int
    tasks: int
    arrived_s: float
    ended_s: float
    repeats: int
    """Containers beyond one for each task."""


def host_spec(workdir: Path, competitor: str, network: NetworkSpec) -> HostSpec:
    """Return the cluster of a competitor."""
    return HostSpec(
        workdir=workdir,
        base_port=8000,
        network=network,
        nodes=len(network.nodes),
        overlay=competitor == OWN,
        node_vcores=CORES,
        node_memory_mb=CORES * _MEMORY_MB,
        min_allocation_mb=_MEMORY_MB,
        resource_calculator="dominant",
        queues={"default": 100},
        extra_site={
            "yarn": {} if competitor == OWN else dict(_STOCK_SITE),
            "capacity-scheduler": {"yarn.scheduler.capacity.maximum-am-resource-percent": "1"},
        },
    )


def drawn(mix: str, nodes: int, jobs_ratio: float, seed: int) -> list[JobSpec]:
    """Return the jobs of a mix on so many nodes; `jobs_ratio` of them, the first ones."""
    jobs = list(resized(mix_named(mix), nodes=nodes, cores=CORES).drawn(seed))
    return jobs[: max(2, round(len(jobs) * jobs_ratio))]


async def _live(cluster: HostCluster, spec: JobSpec, begin_s: float) -> HostedJob:
    await asyncio.sleep(max(0.0, begin_s + spec.arrives_s - time.monotonic()))
    arrived_s = time.monotonic() - begin_s
    async with job(cluster, f"mix-{spec.number}") as master:
        for task in spec.tasks:
            master.ask(1, task.runs_s, memory_mb=_MEMORY_MB)
        await master.until_done(within_s=_LIMIT_S)
        ended_s = time.monotonic() - begin_s
        repeats = sum(len(task.containers) - 1 for task in master.tasks)
    return HostedJob(spec.number, len(spec.tasks), arrived_s, ended_s, repeats)


def play(cluster: HostCluster, jobs: Sequence[JobSpec]) -> list[HostedJob]:
    """Run all jobs as they arrive."""

    async def work() -> list[HostedJob]:
        begin_s = time.monotonic()
        return await asyncio.gather(*(_live(cluster, spec, begin_s) for spec in jobs))

    return asyncio.run(work())


def figures(jobs: Sequence[HostedJob]) -> dict[str, float]:
    """Return latencies of the jobs, from arrival to the end of the last task, and the makespan."""
    took = [life.ended_s - life.arrived_s for life in jobs]
    values = {
        "latency_mean_s": fmean(took),
        "latency_p50_s": percentile(took, 50),
        "latency_p95_s": percentile(took, 95),
        "makespan_s": max(life.ended_s for life in jobs),
    }
    return {name: round(value, 3) for name, value in values.items()} | {"repeats": sum(life.repeats for life in jobs)}


def ratios(pairs: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, float]:
    """Return own / stock of each metric, the geometric mean over pairs."""
    return {name: round(geometric([pair[OWN][name] / pair[STOCK][name] for pair in pairs]), 4) for name in METRICS}


def run_once(hosts: Hosts, spec: HostSpec, jobs: Sequence[JobSpec]) -> list[HostedJob]:
    """Run the jobs on a cluster that is started for them."""
    cluster = HostCluster(spec, hosts)
    cluster.start()
    stack = HostDaemons(cluster, policies={}, sidecar={"resizer": "none"}, sections=INSECURE, supervised=False)
    try:
        if spec.overlay:
            stack.start()
        return play(cluster, jobs)
    finally:
        stack.stop()
        cluster.stop()


@click.command()
@click.option("--mix", default="facebook_77", show_default=True, help="Whose jobs are run.")
@click.option("--pairs", type=click.IntRange(1, 50), default=3, show_default=True, help="Seeds.")
@click.option("--first-seed", type=click.IntRange(1), default=1, show_default=True)
@click.option("--jobs-ratio", type=click.FloatRange(0.05, 1), default=1.0, show_default=True, help="Of the mix' jobs.")
@click.option("--delay-ms", default=20.0, show_default=True, help="From one rack to another, each way.")
@click.option("--loss-ratio", default=0.01, show_default=True, help="Part of the packets between racks that is lost.")
@click.option("--workdir", type=click.Path(path_type=Path), default=Path("run/bench-hosts"), show_default=True)
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default=results.RESULTS, show_default=True)
@one_line_errors
def hosts(
    mix: str,
    pairs: int,
    first_seed: int,
    jobs_ratio: float,
    delay_ms: float,
    loss_ratio: float,
    workdir: Path,
    folder: Path,
) -> None:
    """Run jobs on hosts in racks: the default preset against the Fair Scheduler under the same network. Needs root."""
    network = NetworkSpec(delay_ms=delay_ms, loss_ratio=loss_ratio)
    machine, progress = results.machine(), Progresses()
    runs: list[dict[str, dict[str, float]]] = []
    raw: list[dict[str, Any]] = []
    with interruptible():
        for seed in range(first_seed, first_seed + pairs):
            jobs = drawn(mix, len(network.nodes), jobs_ratio, seed)
            pair, order = {}, (STOCK, OWN) if seed % 2 else (OWN, STOCK)
            for competitor in order:
                spec = host_spec(workdir.absolute() / competitor, competitor, network)
                with on_hosts(spec) as there:
                    lives = run_once(there, spec, jobs)
                pair[competitor] = figures(lives)
                raw.append({"seed": seed, "competitor": competitor, "jobs": [asdict(life) for life in lives]})
                progress(f"{mix}, seed {seed}, {competitor}: {pair[competitor]}")
            runs.append(pair)
    size = {"racks": network.racks, "nodes": len(network.nodes), "cores": CORES}
    result = {
        "bench": "hosts",
        "mix": mix,
        "jobs_ratio": jobs_ratio,
        "network": {"delay_ms": delay_ms, "loss_ratio": loss_ratio},
        "size": size,
        "commit": results.commit(),
        "machine": machine,
        "runs": runs,
        "ratios": ratios(runs),
    }
    progress(f"written to {results.write('hosts', result, {'runs': raw}, folder)}")
    click.echo(json.dumps(result))


if __name__ == "__main__":
    hosts()
