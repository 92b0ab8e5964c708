"""The runs on a real local cluster, proxy and sidecars included: many small sleeping containers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from time import process_time
from typing import Any, Final

from hadoop_rpc.errors import HadoopRpcError
from policies.config.registry import Registry
from quicksilver_lab.bench.las.jobs import JobStage
from quicksilver_lab.bench.las.master import MEMORY_MB, Counts, LasMaster, LasSite
from quicksilver_lab.bench.las.umbilical import opened
from quicksilver_lab.bench.las.workload import BenchError
from quicksilver_lab.bench.policies.effects import share, summed
from quicksilver_lab.bench.policies.jobs import BATCH, PRODUCTION
from quicksilver_lab.bench.policies.variants import TOGETHER, PolicyVariant, available
from quicksilver_lab.bench.policies.virtual import VirtualOutcome
from quicksilver_lab.bench.stats import percentile
from quicksilver_lab.cluster import Cluster, ClusterSpec
from quicksilver_lab.cluster.local_daemons import LocalDaemons

Progress = Callable[[str], None]

PRIORITY: Final = 15
"""Not that of maps, which would name hosts."""
_SCRIPT: Final = Path(__file__).with_name("sleeper.sh")
_SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "shed_mean_sigma": {"shed": {"policy": "mean_sigma", "settings": {"c": 0.7, "min_wait_s": 2.0}}},
    "steal_hawk": {"steal": {"policy": "hawk", "settings": {"short_s": 4.0, "min_wait_s": 2.0}}},
    "quota_absolute": {"quota": {"policy": "absolute", "settings": {"max_q": 5}}},
}
"""Of so small a cluster: of three nodes none is farther than 1.15 standard deviations from their mean."""
NAMES: Final = (
    "baseline",
    "place_topk_wait",
    "order_srpt",
    "shed_mean_sigma",
    "steal_hawk",
    "correct_apollo",
    "quota_absolute",
    "police_memory_limit",
    "promote_on_start",
    "mercury",
)


@dataclass(frozen=True, slots=True)
class RealPlan:
    """What is offered to how many nodes. Times in seconds."""

    nodes: int = 3
    vcores: int = 4
    """Of each node; a container takes one, and 256 MB of 512 for each vcore."""
    jobs: int = 8
    arrivals_s: float = 12.0
    tasks: tuple[int, int] = (4, 10)
    """Fewest and most of a job."""
    short_s: float = 1.5
    long_s: float = 6.0
    """Means of a job's tasks; two of three jobs are short."""
    g_at_s: tuple[float, ...] = (4.0, 12.0)
    """When guaranteed tasks are wanted."""
    g_tasks: int = 4
    g_task_s: float = 3.0
    limit_s: float = 120.0
    """A run is given up after so long."""


@dataclass(frozen=True, slots=True)
class RealJob:
    """One application."""

    queue: str
    arrives_s: float
    tasks_s: tuple[float, ...]


@dataclass(slots=True)
class RealLife:
    """What became of a job. Times in Unix seconds."""

    job: RealJob
    submitted_s: float
    began_s: list[float | None]
    ended_s: list[float | None]
    counts: Counts
    broken: str = ""


def draw(plan: RealPlan, seed: int) -> list[RealJob]:
    """Return the jobs; equal arguments give equal jobs."""
    rng = Random(seed)
    jobs = []
    for number in range(plan.jobs):
        mean_s = plan.long_s if number % 3 == 2 else plan.short_s
        tasks = tuple(mean_s * rng.uniform(0.5, 1.5) for _ in range(rng.randint(*plan.tasks)))
        jobs.append(RealJob(BATCH, rng.uniform(0, plan.arrivals_s), tasks))
    jobs += [RealJob(PRODUCTION, at_s, (plan.g_task_s,) * plan.g_tasks) for at_s in plan.g_at_s]
    return sorted(jobs, key=lambda job: job.arrives_s)


def variants(names: Sequence[str] = NAMES) -> tuple[list[PolicyVariant], list[str]]:
    """Return what is run, all against the baseline, and the names of what is not installed."""
    there = {variant.name: variant for variant in available(Registry())[0]}
    result, absent = [], []
    for name in names:
        if name not in there:
            absent.append(name)
            continue
        section = dict(there[name].section) | _SETTINGS.get(name, {})
        if name == "mercury":
            for part in TOGETHER:
                section |= _SETTINGS.get(part, {})
        result.append(replace(there[name], section=section, against="baseline", plan={}))
    return result, absent


def spec(plan: RealPlan, workdir: Path, base_port: int) -> ClusterSpec:
    """Return the cluster."""
    leaf = {name.rpartition(".")[2]: capacity for name, capacity in ((BATCH, 60), (PRODUCTION, 40))}
    return ClusterSpec(
        workdir=workdir / "policies",
        base_port=base_port,
        nodes=plan.nodes,
        yarn_only=True,
        node_vcores=plan.vcores,
        node_memory_mb=2 * MEMORY_MB * plan.vcores,
        min_allocation_mb=MEMORY_MB,
        resource_calculator="dominant",
        queues=leaf,
        extra_site={
            "yarn": {"yarn.log-aggregation-enable": "false"},
            "capacity-scheduler": {"yarn.scheduler.capacity.maximum-am-resource-percent": "1000"},
        },
    )


def sleeping(container: str, task: Sequence[str]) -> Sequence[str]:
    """Return words that sleep for as long as the task's words would burn, and tell begin and end as it does."""
    pipe, seconds = task[-3], task[-1]
    return ["/bin/sh", str(_SCRIPT), pipe, container, seconds]


def section(plan: RealPlan, variant: PolicyVariant) -> dict[str, Any]:
    """Return the `policies:` section of a run; what is told of the tasks is their class' mean."""
    rules = [{"match": {"name": "long *"}, "expected_s": plan.long_s}]
    return variant.policies | {"estimate": {"default_s": plan.short_s, "rules": rules}}


@contextmanager
def stack(cluster: Cluster, policies: dict[str, Any], name: str) -> Iterator[LocalDaemons]:
    """Run proxy and sidecars of one run, with a store of their own."""
    daemons = LocalDaemons(cluster, policies)
    daemons.folder = cluster.spec.workdir / f"quicksilver-{name}"
    daemons.start()
    try:
        yield daemons
    finally:
        daemons.stop()


async def _live(where: LasSite, plan: RealPlan, job: RealJob, begin_s: float, life: RealLife) -> None:
    await asyncio.sleep(max(0.0, begin_s + job.arrives_s - time.time()))
    long = sum(job.tasks_s) / len(job.tasks_s) > (plan.short_s + plan.long_s) / 2
    name = f"{'long' if long else 'short'} at {job.arrives_s:.1f}"
    master = LasMaster(
        where, [JobStage(PRIORITY, len(job.tasks_s), 0.0)], name=name, queue=job.queue.rpartition(".")[2]
    )
    for task, seconds in zip(master.tasks, job.tasks_s, strict=True):
        task.cpu_s = seconds
    life.submitted_s = time.time()
    try:
        await master.run()
        life.broken = master.broken
    except (HadoopRpcError, OSError, RuntimeError, TimeoutError) as error:
        life.broken = f"{type(error).__name__}: {error}"
    finally:
        life.began_s = [task.began_s for task in master.tasks]
        life.ended_s = [task.ended_s for task in master.tasks]
        life.counts = master.counts


def run_once(cluster: Cluster, plan: RealPlan, seed: int) -> list[RealLife]:
    """Run the workload once on a cluster with proxy and sidecars; jobs that take too long are broken off."""

    async def work() -> list[RealLife]:
        with opened(cluster.spec.workdir / "tasks.pipe", sleeping) as umbilical:
            at = cluster.spec
            where = LasSite(at.rm_client, at.scheduler, umbilical, heartbeat_s=1.0, setup_s=1.0)
            jobs, begin_s = draw(plan, seed), time.time()
            lives = [RealLife(job, begin_s + job.arrives_s, [], [], Counts(), "not over in time") for job in jobs]
            tasks = [asyncio.create_task(_live(where, plan, life.job, begin_s, life)) for life in lives]
            _, late = await asyncio.wait(tasks, timeout=plan.limit_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
            return lives

    return asyncio.run(work())


def measure(
    plan: RealPlan,
    names: Sequence[PolicyVariant],
    seeds: Sequence[int],
    workdir: Path,
    base_port: int,
    progress: Progress,
) -> Iterator[VirtualOutcome]:
    """Run all variants with all seeds on one cluster, and yield each when it is over.

    Raises ClusterError, LocalDaemonsError, BenchError.
    """
    cluster = Cluster(spec(plan, workdir, base_port))
    progress(f"starting a cluster of {plan.nodes} nodes")
    cluster.start()
    try:
        for seed in seeds:
            for variant in names:
                used_s = process_time()
                with stack(cluster, section(plan, variant), f"{variant.name}-{seed}"):
                    lives = run_once(cluster, plan, seed)
                counts = {
                    key: sum(getattr(life.counts, key) for life in lives)
                    for key in ("granted", "opportunistic", "killed", "failed", "refused", "released")
                }
                if not any(end for life in lives for end in life.ended_s):
                    raise BenchError(f"no task ended: {wrong(lives)[:1]}", place=f"bench-policies, {variant.name}")
                figures = metrics(lives)
                cpu_s = round(process_time() - used_s, 2)
                progress(f"{variant.name}, seed {seed}: {figures}, {counts}; wrong: {wrong(lives)}")
                yield VirtualOutcome(variant.name, seed, figures, counts, wrong(lives), cpu_s)
    finally:
        progress("stopping the cluster")
        cluster.stop()


def wrong(lives: Sequence[RealLife]) -> list[str]:
    """Return what must not happen in a run, in words."""
    faults = [life.broken for life in lives if life.broken]
    return faults + [f"a task failed: {life.counts.reasons[-1]}" for life in lives if life.counts.failed]


def metrics(lives: Sequence[RealLife]) -> dict[str, float]:
    """Return the figures of a run; batch jobs' unless they begin with g_. Raises ValueError when nothing ended."""
    batch = [life for life in lives if life.job.queue == BATCH]
    waits, ends = _waits(batch), [end for life in batch for end in life.ended_s if end is not None]
    completion = [max(end for end in life.ended_s if end) - life.submitted_s for life in batch if all(life.ended_s)]
    granted = sum(life.counts.granted for life in batch)
    return {
        "tasks_per_s": len(ends) / (max(ends) - min(life.submitted_s for life in batch)),
        "wait_mean_s": summed(waits) / len(waits),
        "wait_p50_s": percentile(waits, 50),
        "wait_p95_s": percentile(waits, 95),
        "completion_mean_s": summed(completion) / len(completion) if completion else 0.0,
        "completion_p95_s": percentile(completion, 95),
        "g_wait_p95_s": percentile(_waits([life for life in lives if life.job.queue == PRODUCTION]), 95),
        "again_per_1000": 1000 * share(sum(life.counts.killed for life in batch), len(waits)),
        "queueable_ratio": share(sum(life.counts.opportunistic for life in batch), granted),
    }


def _waits(lives: Sequence[RealLife]) -> list[float]:
    """Return for each task that ended the time from its job's submission to its begin, in seconds."""
    return [
        began - life.submitted_s
        for life in lives
        for began, ended in zip(life.began_s, life.ended_s, strict=True)
        if began is not None and ended is not None
    ]
