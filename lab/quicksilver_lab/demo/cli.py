"""`quicksilver demo`: short jobs beside a long one, on plain YARN and through quicksilver, on a real local cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from quicksilver.report import files
from quicksilver_lab.bench.results import machine
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.spec import ClusterSpec
from quicksilver_lab.demo.figures import DemoError, as_json, check_results
from quicksilver_lab.demo.jobs import CONTAINER_MB, LONG, SHORT, DemoJobRun, run_jobs
from quicksilver_lab.demo.page import page
from quicksilver_lab.demo.report import links, show
from quicksilver_lab.demo.shrinks import ShrinkIntervals, sidecars
from quicksilver_lab.demo.timeline import WayRun, registered, way_run
from quicksilver_lab.workloads.environment import interruptible
from quicksilver_lab.workloads.errors import WorkloadError
from quicksilver_lab.workloads.nm_log import read_lives

JOBS: Final = (LONG, *SHORT)
CORES: Final = 4
NODE_MEMORY_MB: Final = 2 * CORES * CONTAINER_MB
"""Of each node, both ways: memory is never the limit, cores are."""
_SMALL_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.net.preferIPv4Stack=true"
_SITE: Final = {
    "yarn": {
        "yarn.nodemanager.admin-env": f"MALLOC_ARENA_MAX=$MALLOC_ARENA_MAX,JAVA_TOOL_OPTIONS={_SMALL_JVM}",
        "yarn.log-aggregation-enable": "false",
    },
    "capacity-scheduler": {"yarn.scheduler.capacity.per-node-heartbeat.maximum-offswitch-assignments": "100"},
}
"""Of both ways: masters that start quickly on a small machine, and no limit of one container for each heartbeat."""


class Steps:
    """Prints the steps of the demo, with the seconds since the start."""

    def __init__(self, console: Console) -> None:
        self._console, self._start_s = console, time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start_s

    def say(self, text: str) -> None:
        """Print one step."""
        self._console.print(f"[dim]{self.elapsed_s:6.1f} s[/dim]  {text}")


def spec_of(workdir: Path, base_port: int) -> ClusterSpec:
    """Return the demo's cluster, plain at first."""
    return ClusterSpec(
        workdir=workdir,
        base_port=base_port,
        overlay=False,
        sharing=True,
        yarn_only=True,
        node_vcores=CORES,
        node_memory_mb=NODE_MEMORY_MB,
        min_allocation_mb=CONTAINER_MB,
        resource_calculator="dominant",
        extra_site=_SITE,
    )


def run_demo(workdir: Path, base_port: int, steps: Steps) -> tuple[WayRun, WayRun]:
    """Run the whole demo and leave nothing running; files stay in `workdir`."""
    cluster = Cluster(spec_of(workdir, base_port))
    stack: LocalDaemons | None = None
    steps.say("starting a plain YARN cluster: ResourceManager and 3 NodeManagers")
    cluster.start()
    try:
        steps.say(f"plain YARN: a long job of {LONG.tasks} tasks, and {len(SHORT)} short jobs one after the other")
        plain = measured(cluster, "plain YARN", run_jobs(cluster, "plain", JOBS, steps.say), None)
        steps.say("dropping quicksilver in: restarting YARN with the overlays of hadoop-conf/")
        cluster.restart_yarn(overlay=True)
        stack = LocalDaemons(cluster, {}, sidecar={"vcores": CORES, "resizer": "signals"})
        stack.start(steps.say)
        steps.say("quicksilver: the same jobs at the same times")
        with ShrinkIntervals(sidecars(stack)) as shrinks:
            jobs = run_jobs(cluster, "quicksilver", JOBS, steps.say)
        return plain, measured(cluster, "quicksilver", jobs, shrinks)
    finally:
        steps.say("stopping everything")
        if stack is not None:
            stack.stop()
        cluster.stop()


def measured(cluster: Cluster, way: str, jobs: Sequence[DemoJobRun], shrinks: ShrinkIntervals | None) -> WayRun:
    """Return what YARN's logs show of the jobs of one way."""
    logs = [(node.name, cluster.log(f"nodemanager-{node.name}")) for node in cluster.spec.node_addresses]
    masters = registered(cluster.log("resourcemanager").read_text(errors="replace"))
    return way_run(way, jobs, read_lives(logs), masters, shrinks.intervals if shrinks else {})


@click.command()
@click.option("--dir", "workdir", type=click.Path(path_type=Path), default=Path("run/demo"), show_default=True)
@click.option("--base-port", type=int, default=19000, show_default=True, help="The first of the ports that are used.")
@click.option("--json", "print_json", is_flag=True, help="Print the report as JSON; the table goes to stderr.")
def demo(workdir: Path, base_port: int, print_json: bool) -> None:
    """Run short jobs beside a long one, on plain YARN and through quicksilver, and compare."""
    console = Console(width=max(100, Console().width), highlight=False, stderr=print_json)
    steps = Steps(console)
    workdir, on = workdir.absolute(), machine()
    try:
        with interruptible():
            plain, through = run_demo(workdir, base_port, steps)
    except WorkloadError as error:
        raise DemoError(str(error), remedy=f"logs are in {workdir}/logs and {workdir}/quicksilver") from error
    tasks = check_results(plain, through, {job.name: [f"{job.steps} steps"] * job.tasks for job in JOBS})
    nodes = [node.name for node in spec_of(workdir, base_port).node_addresses]
    drawn = files.write(page(plain, through, nodes, CORES, on), workdir / "demo.html")
    report = workdir / "report.json"
    report.write_text(json.dumps(as_json(plain, through, tasks, steps.elapsed_s), indent=1))
    show(console, plain, through, tasks)
    links(console, drawn, [report])
    if print_json:
        click.echo(report.read_text())
