"""`make bench-moves`: how soon a task starts elsewhere once its place was stolen or corrected, on real YARN.

From the decision, as the proxy stored it, to the start, as the NodeManager logged it (Hawk, thesis §2.3.6; Apollo
§3.4).
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from quicksilver_lab.bench import results
from quicksilver_lab.bench.sleep_job import SleepTask, job
from quicksilver_lab.bench.stats import percentile
from quicksilver_lab.cluster import Cluster, ClusterSpec
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads.environment import Progresses, interruptible, one_line_errors
from quicksilver_lab.workloads.nm_log import Life, read_lives

NODES: Final = 3
VCORES: Final = 4
_CLOCK_S: Final = 0.01
"""Proxy and NodeManager round to milliseconds."""
_SETTLED_S: Final = 3.0
"""Until the store has all decisions."""
_BASE: Final[Mapping[str, Any]] = {
    "queues": "*",
    "routes": [{"policy": "only_q"}],
    "quota": {"policy": "none"},
    "order": {"policy": "fifo"},
    "retries_to_g": 20,
}


@dataclass(slots=True)
class MoveDelays:
    """What was measured of one way to move. Seconds."""

    delays_s: list[float] = field(default_factory=list)
    """From each decision to the start at the node that it names."""
    unused: int = 0
    """Decisions that no start followed: the place was moved on, or its application had started its tasks by then."""
    attempts_lost: int = 0
    """Containers that did not come to their end."""

    def figures(self) -> dict[str, float | int]:
        """Return count, p50, p95 and the largest, beside what came to nothing."""
        result: dict[str, float | int] = {
            "moves": len(self.delays_s),
            "unused": self.unused,
            "attempts_lost": self.attempts_lost,
        }
        if self.delays_s:
            for name, percent in (("p50_s", 50), ("p95_s", 95), ("max_s", 100)):
                result[name] = round(percentile(self.delays_s, percent), 3)
        return result


@dataclass(frozen=True, slots=True)
class Scene:
    """How places come to be moved by one slot."""

    slot: str
    policies: Mapping[str, Any]
    play: Callable[[Cluster], Coroutine[Any, Any, tuple[str, list[SleepTask]]]]
    """Returns the application whose places move, and all its tasks."""


def _rules(**expected_s: float) -> dict[str, Any]:
    return {"prior_weight": 1000, "rules": [{"match": {"name": n}, "expected_s": s} for n, s in expected_s.items()]}


async def _behind_long(cluster: Cluster) -> tuple[str, list[SleepTask]]:
    """The first node is busy for 4 s, the others for 12 s; each has as many places of a short job."""
    first = (cluster.spec.node_addresses[0].host,)
    async with job(cluster, "busy") as busy, job(cluster, "long") as long:
        await busy.until_granted(busy.ask(VCORES, 4.0, hosts=first, strict=True))
        await long.until_granted(long.ask((NODES - 1) * VCORES, 12.0))
        async with job(cluster, "short") as short:
            tasks = short.ask(NODES * VCORES, 0.5)
            for each in (short, busy, long):
                await each.until_done()
            return short.app_id, tasks


async def _behind_late(cluster: Cluster) -> tuple[str, list[SleepTask]]:
    """Tasks wait at the first node for what was to be over after 3 s, and takes 14; the others come free after 6 s."""
    first = (cluster.spec.node_addresses[0].host,)
    async with job(cluster, "late") as late, job(cluster, "early") as early:
        await late.until_granted(late.ask(VCORES, 14.0, hosts=first, strict=True))
        await early.until_granted(early.ask((NODES - 1) * VCORES, 6.0))
        async with job(cluster, "waits") as waits:
            tasks = waits.ask(VCORES, 2.0)
            for each in (waits, early, late):
                await each.until_done()
            return waits.app_id, tasks


SCENES: Final = (
    Scene(
        "steal",
        {
            "classify": {"policy": "task_time", "settings": {"cutoff_s": 5.0}},
            "probe": {"policy": "batch", "settings": {"ratio": 1.0}},
            "place": {"policy": "late"},
            "steal": {"policy": "hawk", "settings": {"idle_s": 0.0}},
            "estimate": _rules(long=12, busy=4, short=1),
        },
        _behind_long,
    ),
    Scene(
        "correct",
        {
            "probe": {"policy": "completion_time", "settings": {"noise_s": 0.1}},
            "place": {"policy": "completion_time", "settings": {"early": False}},
            "correct": {"policy": "apollo"},
            "estimate": _rules(late=3, early=30, waits=2),
        },
        _behind_late,
    ),
)


def delays(moves: Sequence[tuple[float, str]], lives: Sequence[Life]) -> tuple[list[float], int]:
    """Return the seconds from each move to a start at its node, and how many moves no start followed.

    moves: (when, node) of one application; lives: its containers. Each start belongs to one move, the first before it.
    """
    starts = sorted((life.running_s, life.node) for life in lives if life.running_s is not None)
    pending, delays_s = sorted(moves), []
    for at_s, node in starts:
        before = [move for move in pending if move[1] == node and move[0] <= at_s + _CLOCK_S]
        if before:
            delays_s.append(max(0.0, at_s - before[0][0]))
            pending.remove(before[0])
    return delays_s, len(pending)


def _measure(cluster: Cluster, scene: Scene, rounds: int) -> MoveDelays:
    stack = LocalDaemons(cluster, {**_BASE, **scene.policies})
    stack.folder = cluster.spec.workdir / f"quicksilver-{scene.slot}"
    names = {address.host: address.name for address in cluster.spec.node_addresses}
    result = MoveDelays()
    stack.start()
    try:
        for _ in range(rounds):
            app_id, tasks = asyncio.run(scene.play(cluster))
            time.sleep(_SETTLED_S)
            choices = stack.get(f"/v1/choices?slot={scene.slot}&app={app_id}&limit=1000")["items"]
            moves = [(choice["at_s"], names[choice["node_id"].rpartition(":")[0]]) for choice in choices]
            logs = [(name, cluster.log(f"nodemanager-{name}")) for name in names.values()]
            lives = read_lives(logs)
            ran = [lives[cid] for task in tasks for cid in task.containers if cid in lives]
            delays_s, unused = delays(moves, ran)
            result.delays_s += delays_s
            result.unused += unused
            result.attempts_lost += sum(code != 0 for task in tasks for code in task.exits)
    finally:
        stack.stop()
    return result


def _spec(workdir: Path, base_port: int) -> ClusterSpec:
    return ClusterSpec(
        workdir=workdir / "moves",
        base_port=base_port,
        nodes=NODES,
        yarn_only=True,
        node_vcores=VCORES,
        node_memory_mb=2048 * VCORES,
        min_allocation_mb=256,
        resource_calculator="dominant",
        queues={"default": 100},
        extra_site={"capacity-scheduler": {"yarn.scheduler.capacity.maximum-am-resource-percent": "1000"}},
    )


@click.command()
@click.option("--rounds", type=click.IntRange(1, 50), default=3, show_default=True, help="Of each scene.")
@click.option("--workdir", type=click.Path(path_type=Path), default=Path("run"), show_default=True)
@click.option("--base-port", type=click.IntRange(1024, 31000), default=25500, show_default=True)
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default=results.RESULTS, show_default=True)
@one_line_errors
def moves(rounds: int, workdir: Path, base_port: int, folder: Path) -> None:
    """How soon a task starts elsewhere once its place was stolen or corrected."""
    machine, progress = results.machine(), Progresses()
    by_scene: dict[str, MoveDelays] = {}
    cluster = Cluster(_spec(workdir.resolve(), base_port))
    with interruptible():
        cluster.start()
        try:
            for scene in SCENES:
                progress(f"{scene.slot}: {rounds} rounds")
                by_scene[scene.slot] = _measure(cluster, scene, rounds)
        finally:
            cluster.stop()
    figures = {slot: sample.figures() for slot, sample in by_scene.items()}
    raw = {slot: sample.delays_s for slot, sample in by_scene.items()}
    result = {"bench": "moves", "nodes": NODES, "vcores": VCORES, "rounds": rounds, "machine": machine, **figures}
    progress(f"written to {results.write('moves', result, raw, folder)}")
    click.echo(json.dumps(result))
    if not all(sample.delays_s for sample in by_scene.values()):
        sys.exit(1)


if __name__ == "__main__":
    moves()
