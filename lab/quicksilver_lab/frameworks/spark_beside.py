"""Spark that grows and shrinks beside a long job that could fill the cluster: Fair Scheduler, `default`, Spark as Qs.

Three nodes have room for four containers each; under quicksilver they have the memory of one container more, as
`quicksilver install` has it, and what is shrunk stays there. The long job is one application (a distributed shell's)
with more tasks than ever run at once; Spark is submitted when it holds the cluster, runs rounds over the same shuffle
with pauses between them, and gives idle executors back. The Fair Scheduler assigns several containers at a time and
preempts for a queue below half of its share. Tasks of both sleep: what is measured is who gets a place when, and what
has to be done again.

`python -m quicksilver_lab.frameworks.spark_beside` runs all systems in turn, as often as --rounds says, and prints one
line of JSON at its end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import click

from quicksilver_lab.bench.emulator.rm import FAIR
from quicksilver_lab.bench.mercury.competitors import FAIR as SEVERAL
from quicksilver_lab.bench.mercury.competitors import PREEMPTING, STARVED
from quicksilver_lab.bench.sleep_job import all_lives, job
from quicksilver_lab.cluster import Cluster, ClusterSpec
from quicksilver_lab.cluster.local_daemons import running
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.frameworks import spark_jobs
from quicksilver_lab.frameworks.spark_jobs import EXECUTOR_MB, SparkRounds
from quicksilver_lab.workloads import spark
from quicksilver_lab.workloads.clients import Progress
from quicksilver_lab.workloads.environment import Progresses, finish, interruptible, one_line_errors
from quicksilver_lab.workloads.records import application_of, is_master
from quicksilver_lab.workloads.spark import DEFAULT_PYTHON, Installation

FAIR_SCHEDULER, GUARANTEED, QUEUEABLE = "fair", "default", "default_spark_q"
SYSTEMS: Final = (FAIR_SCHEDULER, GUARANTEED, QUEUEABLE)
"""The Fair Scheduler; preset `default` with Spark guaranteed; the same with Spark's executors queueable."""
NODES, PLACES = 3, 4
_POLICIES: Final[Mapping[str, Mapping[str, Any]]] = {
    GUARANTEED: {"preset": "default"},
    QUEUEABLE: {"preset": "default", "routes": [{"match": {"type": ["YARN", "SPARK"]}, "policy": "only_q"}]},
}
_YARN: Final = {"yarn.nodemanager.pmem-check-enabled": "false", "yarn.log-aggregation-enable": "false"}
_STEP: Final = {"yarn.scheduler.increment-allocation-mb": "256"}
"""The Fair Scheduler's step, by default 1024: as the Capacity Scheduler's, which is the smallest container."""
_LONG_TASK_S: Final = 8.0
_LONG_TASKS: Final = 600
_FIRST_S: Final = 20.0
"""The long job is that long alone."""
_WITHIN_S: Final = 400.0


@dataclass(frozen=True, slots=True)
class BesideRun:
    """One run of one system."""

    system: str
    spark_s: float
    """From the begin of the Spark application to its end."""
    first_place_s: float
    """From the begin of its first job, which wants the executors, until a container of one ran, by the NodeManagers."""
    last_place_s: float
    """Until the containers of as many ran as it may have at once."""
    tasks: int
    repeated: int
    """Spark's tasks that were done again, or killed."""
    repeated_s: float
    executors: int
    most_at_once: int
    long_tasks: int
    """Tasks of the long job that ended while Spark ran."""
    long_repeated: int
    """Tasks of the long job that were killed and asked for again."""


def spec(system: str, workdir: Path) -> ClusterSpec:
    """Return the cluster of a system."""
    stock = system == FAIR_SCHEDULER
    fair = {"yarn.resourcemanager.scheduler.class": FAIR, **SEVERAL, **PREEMPTING, **_STEP}
    fair["yarn.scheduler.fair.allocation.file"] = str(allocation_file(workdir / system))
    return ClusterSpec(
        workdir=workdir / system,
        base_port=free_base_port(NODES),
        nodes=NODES,
        yarn_only=True,
        overlay=not stock,
        sharing=not stock,
        node_vcores=PLACES,
        node_memory_mb=(PLACES if stock else PLACES + 1) * EXECUTOR_MB,
        min_allocation_mb=256,
        queues={"spark": 50, "long": 50},
        extra_site={
            "yarn": {**_YARN, **(fair if stock else {})},
            "capacity-scheduler": {"yarn.scheduler.capacity.maximum-am-resource-percent": "1"},
        },
    )


def allocation_file(workdir: Path) -> Path:
    """Return the path of fair-scheduler.xml."""
    return workdir.absolute() / "fair-scheduler.xml"


def allocations() -> str:
    """Return fair-scheduler.xml: two queues of the same weight, which preempt below half of their share."""
    starved = "".join(f"<{name}>{value}</{name}>" for name, value in STARVED.items())
    return f'<allocations><queue name="spark"/><queue name="long"/>{starved}</allocations>'


@contextmanager
def system_up(system: str, workdir: Path, progress: Progress) -> Iterator[Cluster]:
    """Run a system's cluster for the time of a with block. Raises ClusterError, LocalDaemonsError."""
    cluster = Cluster(spec(system, workdir))
    cluster.spec.workdir.mkdir(parents=True, exist_ok=True)
    allocation_file(cluster.spec.workdir).write_text(allocations())
    cluster.start(progress)
    try:
        policies = _POLICIES.get(system)
        with running(cluster, policies=policies, sidecar={"vcores": PLACES}) if policies else nullcontext():
            yield cluster
    finally:
        cluster.stop(progress)


def measure(system: str, round_number: int, installation: Installation, workdir: Path, progress: Progress) -> BesideRun:
    """Run a system once. Raises QuicksilverError, ClusterError, BenchError."""
    rounds = SparkRounds(tasks=18, task_s=1.5, rounds=2, pause_s=6.0)
    with system_up(system, workdir, progress) as cluster:
        return asyncio.run(_beside(cluster, system, f"spark-{system}-{round_number}", installation, rounds))


async def _beside(
    cluster: Cluster, system: str, name: str, installation: Installation, rounds: SparkRounds
) -> BesideRun:
    async with job(cluster, "long", queue="long") as long:
        tasks = long.ask(_LONG_TASKS, _LONG_TASK_S, memory_mb=EXECUTOR_MB)
        await long.until(lambda: sum(bool(task.containers) for task in tasks) >= NODES * PLACES, within_s=60.0)
        await asyncio.sleep(_FIRST_S - _LONG_TASK_S)
        before = sum(task.done for task in tasks)
        submitted = await asyncio.to_thread(
            spark_jobs.submit, cluster, installation, name, rounds, "client", {"spark.yarn.queue": "spark"}
        )
        application, history = await asyncio.to_thread(submitted.wait, _WITHIN_S)
        done = sum(task.done for task in tasks) - before
        long.tasks = []  # the rest is given up
    lives = all_lives(cluster).items()
    ran = [life.running_s for name, life in lives if application_of(name) == application and not is_master(name)]
    places_s = sorted(at_s - history.jobs_s[0] for at_s in ran if at_s is not None)
    return BesideRun(
        system=system,
        spark_s=round(history.wall_s, 1),
        first_place_s=round(places_s[0], 1),
        last_place_s=round(places_s[: rounds.most_executors][-1], 1),
        tasks=history.tasks,
        repeated=history.repeated + history.lost,
        repeated_s=round(history.repeated_s, 1),
        executors=len(history.added),
        most_at_once=history.at_once,
        long_tasks=done,
        long_repeated=sum(len(task.exits) - task.done for task in tasks),
    )


@click.command()
@click.option("--workdir", type=click.Path(file_okay=False, path_type=Path), default=Path("run/spark-beside"))
@click.option(
    "--python", type=click.Path(path_type=Path), default=DEFAULT_PYTHON, show_default=True, help="With pyspark."
)
@click.option("--system", "systems", type=click.Choice(SYSTEMS), multiple=True, default=SYSTEMS, show_default=True)
@click.option(
    "--rounds", type=click.IntRange(1, 20), default=2, show_default=True, help="Runs of each system, in turn."
)
@one_line_errors
def main(workdir: Path, python: Path, systems: tuple[str, ...], rounds: int) -> None:
    """Measure Spark beside a long job under each system; systems take turns."""
    progress, installation, outcomes = Progresses(), spark.find_spark(python), []
    with interruptible():
        for number in range(rounds):
            for system in systems:
                outcomes.append(measure(system, number, installation, workdir.absolute(), progress))
                progress(json.dumps(asdict(outcomes[-1])))
    finish({"benchmark": "spark-beside", "spark": installation.version, "runs": [asdict(o) for o in outcomes]}, True)


if __name__ == "__main__":
    main()
