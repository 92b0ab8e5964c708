"""`bench task`: CPU time of the proxy for a short task by part, and what crosses its sockets; no cluster is needed."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import click
import uvloop

from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.bench import results
from quicksilver_lab.bench.rig import Progress
from quicksilver_lab.bench.task.cluster import AskingMaster, Load, SidecarStandIn
from quicksilver_lab.bench.task.keys import await_keys, report_keys
from quicksilver_lab.bench.task.proxy_process import CpuReading, ProxyPlot, ProxyProcess
from quicksilver_lab.bench.task.rates import memory_mb, rates, read
from quicksilver_lab.bench.task.workers_process import WorkersProcess, worker_name
from quicksilver_lab.bench.task.yarn import ClusterLog, RestStandIn, SchedulerStandIn, TaskCluster, node_id
from quicksilver_lab.cluster.ports import free_port
from quicksilver_lab.workloads.environment import Progresses, interruptible, one_line_errors

LEAST_RATIO: Final = 0.5
"""Part of the tasks offered that has to come through in a round, or it counts for nothing."""
_MOST_FAULTS: Final = 5
_SETTLE_S: Final = 2.0
_PATIENCE_S: Final = 120.0
_POLL_S: Final = 0.2
OwnGrants = bool | Literal["ahead"]
_OWN_GRANTS: Final[dict[str, OwnGrants]] = {"false": False, "true": True, "ahead": "ahead"}
_SCALE: Final = ("cores", "per_s", "bytes_per_s", "memory_mb")
"""What docs/sizing.md is made of."""


class TaskError(QuicksilverError):
    """No figures came of a run."""


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What is measured, and for how long; warm_up_s: before it.

    On a machine without CPU time left it goes on until `least_tasks` ended.
    """

    size: TaskCluster
    load: Load
    seconds: float
    warm_up_s: float
    preset: str = "default"
    timers: bool = True
    least_tasks: int = 1
    workers: int = 1
    own_grants: OwnGrants = False


async def measure(plan: TaskPlan, folder: Path) -> dict[str, Any]:
    """Run one proxy before the stand-ins; return the figures. Raises TaskError, ChildError."""
    log, loop = ClusterLog(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: SchedulerStandIn(log, plan.size.nodes), "127.0.0.1", 0)
    upstream = server.sockets[0].getsockname()[1]
    with RestStandIn(plan.size) as rm_web:
        addresses = free_port(), free_port(), upstream, rm_web
        plot = ProxyPlot(folder, *addresses, {"preset": plan.preset}, plan.timers, plan.workers, plan.own_grants)
        try:
            with ProxyProcess(plot) if plan.workers == 1 else WorkersProcess(plot) as proxy:
                await loop.run_in_executor(None, proxy.start)
                return await _under_load(plan, plot, proxy, log)
        finally:
            server.close()


async def _under_load(
    plan: TaskPlan, plot: ProxyPlot, proxy: ProxyProcess | WorkersProcess, log: ClusterLog
) -> dict[str, Any]:
    loop, size = asyncio.get_running_loop(), plan.size
    url = f"http://127.0.0.1:{plot.rest}"
    fences = bool(plan.own_grants)
    nodes = {node_id(number): SidecarStandIn(number, size.slots, url, log, fences) for number in range(size.nodes)}
    masters = [AskingMaster(app, size, plan.load, log) for app in range(1, size.masters + 1)]
    running = [asyncio.create_task(node.report_on()) for node in nodes.values()]
    try:
        await asyncio.sleep(_SETTLE_S)
        if plan.own_grants:
            running.append(asyncio.create_task(report_keys(size.nodes, url, log), name="keys"))
            await _until_keys(plan, url)
        running += [asyncio.create_task(master.live(plot.listen, nodes), name=master.name) for master in masters]
        await asyncio.sleep(plan.warm_up_s)
        before = await read(proxy, log)
        await asyncio.sleep(plan.seconds)
        await _until_ended(plan.least_tasks + before.counts["completed"], log)
        after = await read(proxy, log)
        memory = await loop.run_in_executor(None, memory_mb, proxy)
        log.faults += [f"{task.get_name()}: {task.exception()}" for task in running if task.done()]
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for node in nodes.values():
            await node.close()
    counts = after.counts - before.counts
    check(plan, counts, log)
    ratio = counts["completed"] / ((after.at_s - before.at_s) * plan.load.rate)
    peers = {plot.rest: "nodes", plot.listen: "masters", plot.upstream: "rm"}
    per_second = rates(before, after, peers, memory) | {"memory_mb": memory}
    return figures(before.cpu, after.cpu, counts) | per_second | {"completed_ratio": round(ratio, 3)}


async def _until_keys(plan: TaskPlan, url: str) -> None:
    """Wait until the proxy may grant on all nodes itself. Raises TaskError."""
    count = await asyncio.get_running_loop().run_in_executor(None, await_keys, plan.size.nodes, url, plan.workers)
    if count < plan.size.nodes:
        raise TaskError(f"the proxy has the master keys of {count} nodes, not of {plan.size.nodes}")


def check(plan: TaskPlan, counts: Counter[str], log: ClusterLog) -> None:
    """Raise TaskError where a run did not do what was to be measured."""
    if log.faults:
        raise TaskError("; ".join(log.faults[:_MOST_FAULTS]))
    if not counts["completed"]:
        raise TaskError(f"no task ended within {_PATIENCE_S:g} s")
    if plan.own_grants and not counts["own_granted"]:
        raise TaskError("the proxy granted no container itself", remedy="look for own_grants in docs/own-grants.md")
    if plan.own_grants == "ahead" and not counts["known"]:
        raise TaskError("the proxy granted no container ahead of the ResourceManager")


async def _until_ended(tasks: int, log: ClusterLog) -> None:
    """Wait until the masters know so many ends, for _PATIENCE_S at most."""
    end_s = time.monotonic() + _PATIENCE_S
    while log.counts["completed"] < tasks and time.monotonic() < end_s:  # noqa: ASYNC110 masters count it
        await asyncio.sleep(_POLL_S)


def figures(before: CpuReading, after: CpuReading, counts: Counter[str]) -> dict[str, Any]:
    """Return microseconds of CPU time for each completed task, and how many messages there were for one."""
    tasks = counts["completed"]

    def each_us(total_s: float) -> float:
        return round(total_s * 1e6 / tasks, 1)

    parts = {part: each_us(spent_s - before.parts_s.get(part, 0.0)) for part, spent_s in after.parts_s.items()}
    threads = {name: each_us(spent_s - before.threads_s.get(name, 0.0)) for name, spent_s in after.threads_s.items()}
    return {
        "cpu_us_per_task": each_us(after.process_s - before.process_s),
        "parts_us_per_task": parts,
        "threads_us_per_task": {name: spent for name, spent in threads.items() if spent >= 1},
        "tasks": tasks,
        "per_task": {name: round(count / tasks, 2) for name, count in sorted(counts.items()) if name != "completed"},
    }


def median_round(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the round with the median cost, of those in which most tasks came through.

    In others heartbeats and reports of nodes without news are most of what was measured. Raises TaskError.
    """
    sound = [each for each in rounds if each["completed_ratio"] >= LEAST_RATIO]
    if not sound:
        raise TaskError(
            f"in no round {LEAST_RATIO:.0%} of the tasks came through: the machine has no CPU time left",
            remedy="lower --rate, or end other programs",
        )
    return sorted(sound, key=lambda each: float(each["cpu_us_per_task"]))[(len(sound) - 1) // 2]


def speed_up(several: dict[str, Any], single: dict[str, Any], workers: int) -> float:
    """Return how many times as many tasks several workers can carry as one process, where each has a core.

    That is the CPU time of a task in the one process over that in the busiest of them.
    """
    by_process = several["threads_us_per_task"]
    busiest: float = max(by_process.get(worker_name(number), 0.0) for number in range(workers))
    return round(float(single["cpu_us_per_task"]) / busiest, 2)


def _beside_one(plan: TaskPlan, progress: Progress) -> dict[str, Any]:
    """Measure a proxy of one process, then the plan's; return the figures of the latter with the comparison."""
    single = _once(replace(plan, workers=1), progress)
    several = _once(plan, progress)
    ratio = min(single["completed_ratio"], several["completed_ratio"])
    comparison = {"one_us_per_task": single["cpu_us_per_task"], "speed_up": speed_up(several, single, plan.workers)}
    scale = {name: single[name] for name in _SCALE}
    return several | comparison | {"completed_ratio": ratio, "one": scale}


def _once(plan: TaskPlan, progress: Progress) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bench-task-") as folder:
        result = uvloop.run(measure(plan, Path(folder)))
    progress(f"{result['cpu_us_per_task']:.0f} us of CPU time for each of {result['tasks']} tasks")
    return result


@click.command()
@click.option("--nodes", default=64, show_default=True, type=click.IntRange(1, 10_000), help="Nodes that report.")
@click.option("--slots", default=4, show_default=True, type=click.IntRange(1), help="Tasks that a node runs at once.")
@click.option("--masters", default=40, show_default=True, type=click.IntRange(1), help="Application masters.")
@click.option("--rate", default=60.0, show_default=True, type=click.FloatRange(0.1), help="Tasks begun a second.")
@click.option("--task-s", default=1.2, show_default=True, type=click.FloatRange(0.01), help="How long a task runs.")
@click.option("--beat-s", default=1.0, show_default=True, type=click.FloatRange(0.01), help="Between heartbeats.")
@click.option("--seconds", default=20.0, show_default=True, type=click.FloatRange(0.5), help="Of one round.")
@click.option("--warm-up", default=8.0, show_default=True, type=click.FloatRange(0), help="Seconds before it.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Rounds, each of a new proxy.")
@click.option("--preset", default="default", show_default=True, help="Policies of the proxy.")
@click.option("--timers/--no-timers", default=True, show_default=True, help="Whether each part has a clock.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 16), help="More: beside one process.")
@click.option(
    "--own-grants",
    default="false",
    show_default=True,
    type=click.Choice(list(_OWN_GRANTS)),
    help="Whether the proxy grants the containers itself; ahead: before the ResourceManager knows them.",
)
@results.folder_option
@one_line_errors
def task(
    nodes: int,
    slots: int,
    masters: int,
    rate: float,
    task_s: float,
    beat_s: float,
    seconds: float,
    warm_up: float,
    rounds: int,
    preset: str,
    timers: bool,
    workers: int,
    own_grants: str,
    folder: Path,
) -> None:
    """CPU time of the proxy for a short task, from its ask to its end, by part: without a cluster.

    The last line is one JSON object (lab/docs/benchmarks.md).
    """
    progress = Progresses()
    size, load = TaskCluster(nodes, slots, masters), Load(rate, task_s, beat_s)
    plan = TaskPlan(size, load, seconds, warm_up, preset, timers and workers == 1)
    plan = replace(plan, workers=workers, own_grants=_OWN_GRANTS[own_grants])
    about = {"machine": results.machine(), "commit": results.commit(), "settings": asdict(plan)}
    with interruptible():
        raw = [(_once if workers == 1 else _beside_one)(plan, progress) for _ in range(rounds)]
    result = {"benchmark": "task", **median_round(raw), **about}
    path = results.write("task", result, {"rounds": raw}, folder)
    progress(f"written to {path}")
    click.echo(json.dumps(result))


if __name__ == "__main__":
    task()
