"""`quicksilver demo`: the same MapReduce job on plain YARN and through quicksilver, on a real local cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from quicksilver.cluster.cluster import Cluster
from quicksilver.cluster.local_daemons import LocalDaemons
from quicksilver.cluster.spec import ClusterSpec
from quicksilver.common.errors import QuicksilverError
from quicksilver.demo.report import show
from quicksilver.workloads.errors import WorkloadError
from quicksilver.workloads.mapreduce import (
    JobOptions,
    count_words,
    differences,
    make_text,
    put_text,
    read_counts,
    start_wordcount,
)
from quicksilver.workloads.records import Watch
from quicksilver.workloads.run_records import HeldStarts, Way, held_starts, measure

INPUT: Final = "/demo/input.txt"
MAPS: Final = 16
REDUCES: Final = 2
LINES: Final = 40_000
OPTIONS: Final = JobOptions(
    properties={"mapreduce.job.reduce.slowstart.completedmaps": "0.7", "mapreduce.map.speculative": "false"}
)
POLICIES: Final = {
    "queues": "*",
    "routes": [{"match": {"type": "MAPREDUCE", "priority": 10}, "policy": "only_g"}, {"policy": "only_q"}],
    "quota": {"policy": "none"},
}
"""Reduces (MapReduce's priority 10) guaranteed, maps queueable."""
NODE_MEMORY_MB: Final = 2048
"""Four containers of 512 MB on each of the 3 nodes: the 19 containers of the job have to wait for each other."""


class DemoError(QuicksilverError):
    """The two runs differ in what should be equal."""


class Steps:
    """Prints the steps of the demo, with the seconds since the start."""

    def __init__(self, console: Console) -> None:
        self._console, self._start_s = console, time.monotonic()
        self._last = ""

    def say(self, text: str) -> None:
        """Print one step; the same one again is not repeated."""
        if text == self._last:
            return
        self._last = text
        self._console.print(f"[dim]{time.monotonic() - self._start_s:6.1f} s[/dim]  {text}")

    @contextmanager
    def waiting(self, text: str) -> Iterator[Callable[[], None]]:
        """Show progress during a long step; yields a function for polling loops."""
        self.say(text)
        with self._console.status(text):
            yield lambda: None


def run_job(cluster: Cluster, way: str, steps: Steps) -> Way:
    """Run the job once and measure it by what YARN and the job's history recorded."""
    target = f"/demo/out-{way}-{int(time.time())}"
    with Watch(cluster) as watch, steps.waiting(f"{way}: wordcount with {MAPS} maps and {REDUCES} reduces") as tick:
        job = start_wordcount(cluster, INPUT, target, maps=MAPS, reduces=REDUCES, options=OPTIONS).wait(each=tick)
        steps.say(f"{way}: {job.job_id} succeeded in {job.job_s:.1f} s")
    return measure(cluster, way, job, watch, target)


def compare_outputs(cluster: Cluster, plain: Way, through: Way, text: str) -> int:
    """Return how many words both outputs agree on. Raises DemoError when they differ from each other or the input."""
    one, other = read_counts(cluster, plain.output), read_counts(cluster, through.output)
    wrong = differences(one, other) or differences(count_words(text), one)
    if wrong:
        word, counts = next(iter(wrong.items()))
        raise DemoError(
            f"{len(wrong)} words differ, such as {word!r}: {counts[0]} and {counts[1]}",
            place=f"{plain.output} and {through.output}",
            remedy="report this with the logs of the cluster's folder",
        )
    return len(one)


def run_demo(workdir: Path, base_port: int, steps: Steps) -> tuple[Way, Way, HeldStarts, int]:
    """Run the whole demo and leave nothing running; files stay in `workdir`."""
    cluster = Cluster(
        ClusterSpec(workdir=workdir, base_port=base_port, overlay=False, node_memory_mb=NODE_MEMORY_MB, node_vcores=4)
    )
    text = make_text(LINES)
    stack: LocalDaemons | None = None
    steps.say("starting a plain YARN cluster: ResourceManager, 3 NodeManagers, HDFS, JobHistoryServer")
    cluster.start(steps.say)
    try:
        put_text(cluster, INPUT, text)
        plain = run_job(cluster, "plain", steps)
        steps.say("dropping quicksilver in: restarting YARN with the overlays of hadoop-conf/")
        cluster.restart_yarn(overlay=True, progress=lambda _: None)
        stack = LocalDaemons(cluster, POLICIES)
        stack.start(steps.say)
        through = run_job(cluster, "quicksilver", steps)
        held = held_starts(stack, through)
        words = compare_outputs(cluster, plain, through, text)
        return plain, through, held, words
    finally:
        steps.say("stopping everything")
        if stack is not None:
            stack.stop()
        cluster.stop()


@click.command()
@click.option("--dir", "workdir", type=click.Path(path_type=Path), default=Path("run/demo"), show_default=True)
@click.option("--base-port", type=int, default=19000, show_default=True, help="The first of the ports that are used.")
def demo(workdir: Path, base_port: int) -> None:
    """Run the same MapReduce job on plain YARN and through quicksilver, and compare."""
    console = Console(width=max(100, Console().width), highlight=False)
    try:
        plain, through, held, words = run_demo(workdir.absolute(), base_port, Steps(console))
    except WorkloadError as error:
        raise DemoError(str(error), remedy=f"logs are in {workdir}/logs and {workdir}/quicksilver") from error
    show(console, plain, through, held, words)
    report = {"plain": asdict(plain), "quicksilver": asdict(through), "held": asdict(held), "words": words}
    path = workdir / "report.json"
    path.write_text(json.dumps(report, indent=1, default=str))
    console.print(f"[dim]all figures: {path}; logs: {workdir}/logs, {workdir}/quicksilver[/dim]")
