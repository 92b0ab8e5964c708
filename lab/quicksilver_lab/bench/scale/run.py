"""`make bench-scale`: the proxy between a real ResourceManager, emulated nodes with sidecars, and many masters."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import click
import requests

from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.bench import results
from quicksilver_lab.bench.emulator.rm import NodeShape, RmOptions, Running, resource_manager
from quicksilver_lab.bench.load.loadgen import LoadPhase, LoadProcess, Measured
from quicksilver_lab.bench.page.pages import beside
from quicksilver_lab.bench.procstat import cpu_s, machine_cpu_s, rss_mb
from quicksilver_lab.bench.relay import closed_figures, paced_figures
from quicksilver_lab.bench.rig import Progress, submit
from quicksilver_lab.bench.scale import figures
from quicksilver_lab.bench.scale.field import TASK_MB, FieldProcess, Plot
from quicksilver_lab.cluster.local_daemons import ALL_QUEUEABLE, LocalDaemons
from quicksilver_lab.workloads.environment import Progresses

POLICIES: Final = {**ALL_QUEUEABLE, "quota": {"policy": "none"}}
"""Nothing is guaranteed, also what waits beyond the slots: a guaranteed container would kill one of those that fill."""
_NODE_PORT: Final = 500
"""Of the first group of nodes, from the base port on."""
_LEAST_RATE: Final = 100.0
"""Heartbeats a second at least, so that percentiles of few masters mean something."""
_START_S: Final = 60.0
_POLL_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class ScalePlan:
    """What is measured. nodes, masters: sizes, growing. seconds: of one phase, of which each point has 4 * rounds."""

    nodes: tuple[int, ...] = (64, 256, 1000)
    masters: tuple[int, ...] = (10, 100, 1000, 2000)
    slots: int = 4
    waiting_ratio: float = 0.25
    """Containers that wait at nodes, as a part of the slots."""
    rounds: int = 2
    seconds: float = 4.0
    warm_up_s: float = 0.5
    interval_s: float = 1.0
    idle_s: float = 5.0
    churn_rate: float = 40.0
    """Tasks of 2 s that begin each second, while what a task costs is measured."""
    churn_s: float = 10.0
    heating_s: float = 10.0
    saturation_rounds: int = 3


QUICK: Final = ScalePlan(
    nodes=(64,), masters=(10, 100), rounds=1, idle_s=3, churn_s=5, heating_s=5, saturation_rounds=1
)


@dataclass(slots=True)
class Bench:
    """All that runs."""

    plan: ScalePlan
    rm: Running
    stack: LocalDaemons
    field: FieldProcess
    load: LoadProcess
    pids: dict[str, int]
    progress: Progress
    masters: int = 0
    """Connected."""
    nodes: int = 0

    def metric(self, name: str) -> float:
        """Return a metric of the proxy, the sum of its labels."""
        text = requests.get(f"{self.stack.url}/metrics", timeout=30).text
        lines = (line for line in text.splitlines() if line.startswith(f"quicksilver_proxy_{name}"))
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def connect(self, masters: int) -> None:
        """Have so many masters registered, each connected both ways."""
        more = masters - self.masters
        if more > 0:
            tokens = asyncio.run(submit(self.rm.addresses.client, more, self.progress))
            self.load.connect(tokens)
            self.masters = masters

    def grow(self, nodes: int) -> None:
        """Have so many nodes. Raises QuicksilverError when the proxy does not take all of them in."""
        self.progress(f"growing to {nodes} nodes")
        self.field.grow(nodes - self.nodes)
        self.nodes = nodes
        end_s = time.monotonic() + _START_S
        while (usable := self.stack.get("/v1/health")["nodes_usable"]) < nodes:
            if time.monotonic() > end_s:
                raise QuicksilverError(
                    f"{usable} of {nodes} nodes are usable", remedy=f"read {self.stack.log('proxy')}"
                )
            time.sleep(_POLL_S)

    def point(self) -> dict[str, int]:
        """Return the size of all."""
        return {"nodes": self.nodes, "masters_connected": self.masters}


def measure(bench: Bench) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the plan; return the result and the raw samples."""
    plan = bench.plan
    by_nodes: list[dict[str, Any]] = []
    by_masters: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    raw: dict[str, Any] = {}
    bench.connect(plan.masters[0])
    saturation: dict[str, Any] = {}
    for nodes in plan.nodes:
        before = bench.nodes
        bench.grow(nodes)
        churn = _churn(bench)
        bench.field.fill(round((nodes - before) * plan.slots * (1 + plan.waiting_ratio)))
        for masters in plan.masters:
            if masters > bench.masters:
                bench.connect(masters)
                bench.load.run(LoadPhase(masters, 0.0, plan.heating_s, share=2))
                by_masters.append(_idle(bench) | {"masters": masters})
            figure, raw[f"{nodes} nodes, {masters} masters"] = _point(bench, masters)
            points.append(bench.point() | {"masters": masters} | figure)
        by_nodes.append(_idle(bench) | churn)
        if not saturation:
            saturation, raw["saturation"] = _saturation(bench)
    return _result(points, by_nodes, by_masters, saturation, plan), raw


def _result(
    points: list[dict[str, Any]],
    by_nodes: list[dict[str, Any]],
    by_masters: list[dict[str, Any]],
    saturation: dict[str, Any],
    plan: ScalePlan,
) -> dict[str, Any]:
    least, most = plan.nodes[0], plan.masters[-1]
    growing = {
        "heartbeat_cores_by_masters": figures.growth(points, "heartbeat_cores", "masters", nodes=least),
        "heartbeat_cores_by_nodes": figures.growth(points, "heartbeat_cores", "nodes", masters=most),
        "idle_cores_by_nodes": figures.growth(by_nodes, "idle_cores", "nodes"),
        "round_ms_by_nodes": figures.growth(by_nodes, "round_ms", "nodes"),
        "rss_mb_by_nodes": figures.growth(by_nodes, "rss_mb", "nodes"),
        "idle_cores_by_masters": figures.growth(by_masters, "idle_cores", "masters"),
        "round_ms_by_masters": figures.growth(by_masters, "round_ms", "masters"),
        "rss_mb_by_masters": figures.growth(by_masters, "rss_mb", "masters"),
    }
    ratio = saturation["throughput_ratio"]["median"]
    return figures.headline(points, ratio) | {
        "growth_exponents": {name: fit["exponent"] for name, fit in growing.items()},
        "points": points,
        "by_nodes": by_nodes,
        "by_masters": by_masters,
        "growth": growing,
        "saturation": saturation,
    }


def _churn(bench: Bench) -> dict[str, Any]:
    """Return what a short task costs the proxy, from its ask to its end, beyond what it uses without."""
    plan, proxy = bench.plan, bench.pids["proxy"]
    idle = _used(bench, plan.idle_s)
    before, begun_s = cpu_s(proxy), time.monotonic()
    churned = bench.field.churn(plan.churn_rate, plan.churn_s)
    passed_s = time.monotonic() - begun_s
    used_s = cpu_s(proxy) - before - idle * passed_s
    bench.progress(f"{churned.tasks} tasks cost the proxy {used_s * 1e3 / max(1, churned.tasks):.2f} ms each")
    if churned.errors:
        raise QuicksilverError(f"jobs failed: {churned.errors[0]}", remedy=f"read {bench.stack.log('proxy')}")
    return {
        "cpu_ms_per_task": round(used_s * 1e3 / max(1, churned.tasks), 3),
        "tasks": churned.tasks,
        "reports_per_task": round((churned.reports - bench.nodes * passed_s) / max(1, churned.tasks), 2),
        "announcements_per_task": round(churned.announcements / max(1, churned.tasks), 2),
        "lost_tasks": churned.lost,
        "doubled_tasks": churned.doubled,
    }


def _used(bench: Bench, seconds: float) -> float:
    """Return how many cores the proxy uses while no master of the load says anything."""
    before = cpu_s(bench.pids["proxy"])
    time.sleep(seconds)
    return (cpu_s(bench.pids["proxy"]) - before) / seconds


def _idle(bench: Bench) -> dict[str, Any]:
    """Return what reports, rounds and reading of YARN cost, without heartbeats of the load."""
    names = ("round_seconds_sum", "round_seconds_count", "late_seconds_sum", "late_seconds_count", "reports_total")
    before = {name: bench.metric(name) for name in names}
    begun_s, machine_s = time.monotonic(), machine_cpu_s()
    ours_s = {name: cpu_s(pid) for name, pid in bench.pids.items()}
    idle = _used(bench, bench.plan.idle_s)
    passed_s = time.monotonic() - begun_s
    cores = {name: round((cpu_s(pid) - ours_s[name]) / passed_s, 3) for name, pid in bench.pids.items()}
    foreign = (machine_cpu_s() - machine_s) / passed_s - sum(cores.values())
    grown = {name: bench.metric(name) - before[name] for name in names}
    sent, refused = bench.field.sent()
    if refused:
        bench.progress(f"{refused} of {sent} reports were not taken so far")
    figure = bench.point() | {
        "idle_cores": round(idle, 4),
        "cores": cores,
        "foreign_cores": round(max(0.0, foreign), 2),
        "round_ms": round(grown["round_seconds_sum"] * 1e3 / max(1.0, grown["round_seconds_count"]), 3),
        "late_ms": round(grown["late_seconds_sum"] * 1e3 / max(1.0, grown["late_seconds_count"]), 3),
        "reports_per_s": round(grown["reports_total"] / passed_s, 1),
        "reports_refused": refused,
        "rss_mb": rss_mb(bench.pids["proxy"]),
        "rm_rss_mb": rss_mb(bench.pids["rm"]),
    }
    bench.progress(f"without heartbeats: {idle:.3f} cores, a round {figure['round_ms']} ms, {figure['rss_mb']} MB")
    return figure


def _point(bench: Bench, masters: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return latency of both ways side by side, and the CPU of heartbeats by phases with and without them."""
    plan = bench.plan
    interval_s = min(plan.interval_s, masters / _LEAST_RATE)
    halves: list[Measured] = []
    proxied: list[Measured] = []
    direct: list[Measured] = []
    for number in range(plan.rounds):
        for target, share in ((halves, 2 + number % 2), (direct, 0), (proxied, 1), (halves, 3 - number % 2)):
            target.append(bench.load.run(LoadPhase(masters, plan.warm_up_s, plan.seconds, share, interval_s)))
    shown = paced_figures(halves)
    beats = [len(sample.latency_us[1]) for sample in proxied]
    with_s, without_s = ([sample.cpu_s["proxy"] for sample in phases] for phases in (proxied, direct))
    per_1000 = figures.heartbeat_cpu_ms(with_s, without_s, beats)
    figure = {
        "rate_per_s": round(masters / interval_s),
        "added_p50_ms": shown["added_p50_ms"]["median"],
        "added_p99_ms": shown["added_p99_ms"]["median"],
        "cpu_ms_per_1000_heartbeats": round(per_1000, 1),
        "heartbeat_cores": round(per_1000 / 1e6 * masters / plan.interval_s, 4),
        "rm_cores": round(median(sample.cpu_s["rm"] / sample.seconds for sample in halves), 3),
        "nodes_cores": round(median(sample.cpu_s["nodes"] / sample.seconds for sample in halves), 3),
        "machine_cores": round(median(sample.cpu_s["machine"] / sample.seconds for sample in halves), 2),
        "latency": shown,
    }
    added = f"{figure['added_p50_ms']:.3f} ms added at p50, {figure['added_p99_ms']:.3f} at p99"
    bench.progress(f"{bench.nodes} nodes, {masters} masters: {added}, {per_1000:.0f} ms CPU for 1,000 heartbeats")
    phases = (("halves", halves), ("direct", direct), ("proxied", proxied))
    return figure, {name: [asdict(sample) for sample in measured] for name, measured in phases}


def _saturation(bench: Bench) -> tuple[dict[str, Any], list[Any]]:
    """Return the throughput of both ways when each heartbeat follows its answer at once."""
    plan, masters = bench.plan, min(1000, bench.masters)
    rounds = []
    for number in range(plan.saturation_rounds):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        done = {side: bench.load.run(LoadPhase(masters, plan.warm_up_s, plan.seconds, share=side)) for side in order}
        rounds.append((done[0], done[1]))
    closed = closed_figures(rounds)
    bench.progress(f"saturated by {masters} masters: {closed['throughput_ratio']['median']} of the direct throughput")
    return {"masters": masters, "nodes": bench.nodes} | closed, [[asdict(sample) for sample in pair] for pair in rounds]


@contextmanager
def running(plan: ScalePlan, workdir: Path, base_port: int, progress: Progress) -> Iterator[Bench]:
    """Run ResourceManager, proxy, nodes and load for the time of a with block. Raises QuicksilverError."""
    shape = NodeShape(plan.slots, plan.slots * TASK_MB)
    manager = resource_manager(workdir, shape, RmOptions(base_port, behind_proxy=True), progress)
    with asyncio.Runner() as runner, ExitStack() as exits:
        rm = runner.run(manager.__aenter__())
        exits.callback(lambda: runner.run(manager.__aexit__(None, None, None)))
        stack = LocalDaemons(rm.cluster, POLICIES, proxy={"max_connections": 4 * max(plan.masters)}, supervised=False)
        stack.folder.mkdir(parents=True, exist_ok=True)
        exits.callback(stack.stop)
        stack.start_proxy()
        _await(stack)
        proxy = stack.pid("proxy")
        assert proxy is not None, "_await"
        where = rm.addresses
        field = exits.enter_context(
            FieldProcess(
                Plot(
                    client=where.client,
                    scheduler=where.scheduler,
                    tracker=where.tracker,
                    rest=stack.proxy_rest,
                    policies=POLICIES,
                    slots=plan.slots,
                    first_port=base_port + _NODE_PORT,
                )
            )
        )
        pids = {"rm": rm.pid, "proxy": proxy, "nodes": field.pid}
        load = exits.enter_context(LoadProcess(where.moved_scheduler, where.scheduler, pids))
        yield Bench(plan, rm, stack, field, load, pids, progress)


def _await(stack: LocalDaemons) -> None:
    end_s = time.monotonic() + _START_S
    while time.monotonic() < end_s and stack.processes["proxy"].poll() is None:
        try:
            stack.get("/v1/health")
        except requests.RequestException:
            time.sleep(_POLL_S)
        else:
            return
    raise QuicksilverError("the proxy did not come up", place="bench", remedy=f"read {stack.log('proxy')}")


def _sizes(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    try:
        numbers = tuple(int(part) for part in value.split(","))
    except ValueError:
        numbers = ()
    if not numbers or numbers[0] < 2 or list(numbers) != sorted(set(numbers)):
        raise click.BadParameter(f"{value!r} is no growing list of numbers from 2 on, such as 64,256")
    return numbers


@click.command()
@click.option("--quick", is_flag=True, help="Small sizes, in less than three minutes.")
@click.option("--nodes", callback=_sizes, help="Emulated nodes, e.g. 64,256,1000.")
@click.option("--masters", callback=_sizes, help="Application masters, e.g. 10,100,1000,2000.")
@click.option("--rounds", type=click.IntRange(1), help="Rounds of each point.")
@click.option("--dir", "workdir", default="run/bench-scale", show_default=True, type=click.Path(path_type=Path))
@results.folder_option
@click.option("--base-port", default=21000, show_default=True, help="First port of the cluster.")
def scale(
    quick: bool,
    nodes: tuple[int, ...] | None,
    masters: tuple[int, ...] | None,
    rounds: int | None,
    workdir: Path,
    folder: Path,
    base_port: int,
) -> None:
    """What the proxy costs by nodes and application masters.

    The last line is one JSON object (lab/docs/benchmarks.md).
    """
    base = QUICK if quick else ScalePlan()
    options = {"nodes": nodes, "masters": masters, "rounds": rounds}
    plan = ScalePlan(**(asdict(base) | {name: value for name, value in options.items() if value is not None}))
    progress = Progresses()
    about = {"machine": results.machine(), "commit": results.commit(), "settings": asdict(plan)}
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that nothing is left behind
    try:
        with running(plan, workdir, base_port, progress) as bench:
            result, raw = measure(bench)
    except QuicksilverError as error:
        raise click.ClickException(str(error)) from error
    result = {"benchmark": "scale", **result, **about}
    path = results.write("scale", result, raw, folder)
    progress(f"written to {path}")
    click.echo(json.dumps(result))
    progress(f"page: {beside(path)}")


if __name__ == "__main__":
    scale()
