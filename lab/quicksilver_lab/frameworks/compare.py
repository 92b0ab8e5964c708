"""`python -m quicksilver_lab.frameworks.compare`: queries of Hive under the Fair Scheduler and through quicksilver.

Two clusters of the same size run side by side, each with a session of Hive. Each query runs on one, then on the other,
so that both meet the same load of the machine: first alone, then beside a long job that would fill the cluster.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean
from typing import Final

import click

from quicksilver_lab.bench.emulator.rm import FAIR, RmOptions, allocations
from quicksilver_lab.cluster import Cluster, ClusterSpec
from quicksilver_lab.cluster.local_daemons import running
from quicksilver_lab.frameworks import retail
from quicksilver_lab.frameworks.hive import Hive, HiveSession
from quicksilver_lab.frameworks.tez import Tez
from quicksilver_lab.workloads import clients
from quicksilver_lab.workloads.clients import Client, Clients
from quicksilver_lab.workloads.distributed_shell import JAR
from quicksilver_lab.workloads.environment import Progresses, interruptible, one_line_errors
from quicksilver_lab.workloads.errors import JobFailedError

CORES: Final = 4
"""Of each of the three nodes, according to YARN; memory is for twice as many containers."""
_CONTAINER_MB: Final = 512
_QUEUES: Final = {"default": 50, "batch": 50}
_LONG_TASKS: Final = 200
_STEP: Final = "sleep 0.25"
_FULL: Final = 3 * CORES - 2
"""Tasks of the long job that run when it has the cluster: all cores but those of two masters."""
_PORTS: Final = 200
_POLL_S: Final = 0.1


@dataclass
class System:
    """One cluster with its session of Hive."""

    name: str
    cluster: Cluster
    session: HiveSession
    gates: Path
    """A statement of the session waits until the file of its number is in this folder."""
    shells: Path
    """Each task of the long job makes a file here when it starts, and another when it ends."""
    count: int = 0
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """By query: alone, and beside the long job."""

    def query(self, name: str, timeout_s: float) -> float:
        """Let the next statement go; return the seconds that Hive says it took. Raises JobFailedError."""
        (self.gates / str(self.count)).touch()
        self.count += 1
        deadline = time.monotonic() + timeout_s
        while len(times := self.session.times()) < self.count:
            if self.session.client.poll() is not None or time.monotonic() > deadline:
                raise JobFailedError(
                    f"query {self.count} has no result", place=self.name, remedy=f"read {self.session.client.log}"
                )
            time.sleep(_POLL_S)
        self.seconds.setdefault(name, []).append(times[self.count - 1])
        return times[self.count - 1]

    def long_tasks(self, event: str) -> int:
        """Return how many tasks of the long job `started` or `ended`."""
        return len(list(self.shells.glob(f"*.{event}")))

    def start_long(self, task_s: float) -> Client:
        """Start the long job: tasks that work in steps, so that one that is throttled makes less progress."""
        mark = f"touch {self.shells}/$CONTAINER_ID"
        steps = f"i=0; while [ $i -lt {round(task_s / 0.25)} ]; do {_STEP}; i=$((i+1)); done"
        arguments = [
            *("-jar", str(self.cluster.artifact(JAR))),
            *("-appname", "DistributedShell long"),
            *("-queue", "batch"),
            *("-master_memory", str(_CONTAINER_MB)),
            *("-container_memory", str(_CONTAINER_MB)),
            *("-container_vcores", "1"),
            *("-num_containers", str(_LONG_TASKS)),
            *("-timeout", "3600000"),
            *("-shell_command", f"{mark}.started; {steps}; {mark}.ended"),
        ]
        return clients.start(self.cluster, "long", "distributedshell", arguments)


def spec(name: str, workdir: Path, base_port: int) -> ClusterSpec:
    """Return the cluster of a system, `fair` or `quicksilver`: the same nodes, but for what is laid over them."""
    fair = workdir.absolute() / "fair-scheduler.xml"
    scheduler = {
        "yarn.resourcemanager.scheduler.class": FAIR,
        "yarn.scheduler.fair.user-as-default-queue": "false",
        "yarn.scheduler.fair.allocation.file": str(fair),
    }
    yarn = {"yarn.log-aggregation-enable": "false"} | (scheduler if name == "fair" else {})
    return ClusterSpec(
        workdir=workdir / name,
        base_port=base_port,
        overlay=name != "fair",
        sharing=True,
        node_vcores=CORES,
        node_memory_mb=2 * CORES * _CONTAINER_MB,
        min_allocation_mb=_CONTAINER_MB,
        resource_calculator="dominant",
        queues=_QUEUES,
        extra_site={"yarn": yarn},
    )


@contextmanager
def systems(
    workdir: Path,
    base_port: int,
    rows: Mapping[str, Sequence[retail.Row]],
    names: Sequence[str],
    policies: Mapping[str, object],
) -> Iterator[list[System]]:
    """Run both systems, each with tables and a session of the queries `names`, for the time of a with block."""
    workdir.mkdir(parents=True, exist_ok=True)
    (workdir / "fair-scheduler.xml").write_text(allocations(RmOptions(queues=_QUEUES)))
    with ExitStack() as stack:
        clusters = []
        for number, name in enumerate(("fair", "quicksilver")):
            cluster = Cluster(spec(name, workdir, base_port + number * _PORTS))
            cluster.start()
            stack.callback(cluster.stop)
            clusters.append((name, cluster))
            if name != "fair":
                stack.enter_context(running(cluster, policies=policies, sidecar={"vcores": CORES}))
        together = stack.enter_context(Clients())
        with ThreadPoolExecutor(len(clusters)) as pool:
            pair = list(pool.map(lambda item: _session(item[0], item[1], rows, names, together), clusters))
        yield pair


def _session(
    name: str, cluster: Cluster, rows: Mapping[str, Sequence[retail.Row]], names: Sequence[str], together: Clients
) -> System:
    tez = Tez(cluster)
    tez.install()
    hive = Hive(tez)
    hive.install(rows)
    gates, shells = cluster.spec.workdir / "gates", cluster.spec.workdir / "shells"
    for folder in (gates, shells):
        folder.mkdir(exist_ok=True)
        for file in folder.iterdir():
            file.unlink()
    script = cluster.spec.workdir / "gate.sh"
    script.write_text(f'until [ -e "{gates}/$1" ]; do kill -0 $PPID || exit 1; sleep {_POLL_S}; done\n')
    session = hive.session("queries", names, gate=f"!sh {script}")
    together.add(session.client)
    return System(name, cluster, session, gates, shells)


def measure(
    pair: Sequence[System], queries: Sequence[str], task_s: float, progress: Callable[[str], None], limit_s: float
) -> dict[str, object]:
    """Run the queries alone, then beside the long job; return times, ratios, and tasks of the long job per minute.

    The session has to have one query first, which warms both up, then `queries` twice. No query starts after `limit_s`.
    """
    deadline = time.monotonic() + limit_s
    for system in pair:
        system.query("warm-up", limit_s)
    _both(pair, queries, "alone", progress, deadline)
    with Clients() as together:
        for system in pair:
            together.add(system.start_long(task_s))
        while any(system.long_tasks("started") < _FULL for system in pair) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        begin_s, before = time.monotonic(), [system.long_tasks("ended") for system in pair]
        _both(pair, queries, "beside", progress, deadline)
        minutes = (time.monotonic() - begin_s) / 60
        ended = [system.long_tasks("ended") - number for system, number in zip(pair, before, strict=True)]
    result: dict[str, object] = {system.name: dict(system.seconds) for system in pair}
    for position, phase in enumerate(("alone", "beside")):
        times = [[s.seconds[q][position] for q in queries if len(s.seconds.get(q, ())) > position] for s in pair]
        count = min(map(len, times))
        if count:
            means = [geometric_mean(values[:count]) for values in times]
            result[phase] = {"queries": count, **{s.name: round(m, 2) for s, m in zip(pair, means, strict=True)}}
    result["long_tasks_per_minute"] = {s.name: round(n / minutes, 1) for s, n in zip(pair, ended, strict=True)}
    return result


def _both(
    pair: Sequence[System], queries: Sequence[str], phase: str, progress: Callable[[str], None], deadline: float
) -> None:
    for name in queries:
        if time.monotonic() > deadline:
            progress(f"{phase}: no time left for {name}")
            return
        times = {system.name: system.query(name, timeout_s=180) for system in pair}
        progress(f"{phase}: {name}: " + ", ".join(f"{system} {seconds:.1f} s" for system, seconds in times.items()))


@click.command()
@click.option(
    "--workdir", type=click.Path(file_okay=False, path_type=Path), default=Path("run/hive"), show_default=True
)
@click.option("--base-port", default=22000, show_default=True, help="First port of the two clusters.")
@click.option("--sales", default=30_000, show_default=True, help="Rows of the largest table.")
@click.option("--task-s", default=16.0, show_default=True, help="Seconds of each task of the long job.")
@click.option("--limit-s", default=600.0, show_default=True, help="After these seconds no query is started.")
@one_line_errors
def main(workdir: Path, base_port: int, sales: int, task_s: float, limit_s: float) -> None:
    """Compare the times of ten queries of Hive; the last line is the result as JSON."""
    progress, queries = Progresses(), tuple(retail.QUERIES)
    names = (queries[0], *queries, *queries)
    with interruptible(), systems(workdir.absolute(), base_port, retail.tables(sales), names, {}) as pair:
        progress("both sessions are open")
        result = measure(pair, queries, task_s, progress, limit_s)
    click.echo(json.dumps(result))


if __name__ == "__main__":
    main()
