"""Empty allocates straight to a real ResourceManager and through the proxy, side by side: throughput, latency, CPU."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import click

from quicksilver_lab.bench import results
from quicksilver_lab.bench.load.haproxy import compare, haproxy
from quicksilver_lab.bench.load.loadgen import LoadPhase, LoadProcess, Measured
from quicksilver_lab.bench.procstat import cpu_s, rss_mb
from quicksilver_lab.bench.rig import RM_OPTIONS, Progress, Rig, running, submit
from quicksilver_lab.bench.stats import percentile, spread
from quicksilver_lab.workloads.environment import Progresses

_HEATING_S: Final = 15.0
"""How long the ResourceManager's JVM is run in before anything is measured."""
_IDLE_S: Final = 5.0
_PROCESSES: Final = ("rm", "proxy", "generator")
_SIDES: Final = ("direct", "proxied")


@dataclass(frozen=True, slots=True)
class RelayPlan:
    """What is measured. seconds: of one round on one side; interval_s: between two heartbeats of a paced master."""

    masters: tuple[int, ...] = (100, 1000)
    rounds: int = 5
    seconds: float = 3.0
    warm_up_s: float = 0.5
    paced_s: float = 5.0
    interval_s: float = 1.0

    def beside_haproxy(self) -> list[LoadPhase]:
        """Return the rounds of the comparison with HAProxy: busy and paced, for each number of masters."""
        busy = [LoadPhase(masters, self.warm_up_s, self.seconds, 0) for masters in self.masters]
        paced = [LoadPhase(masters, 1.0, self.paced_s, 0, self.interval_s) for masters in self.masters]
        return [phase for phase in (*busy, *paced) for _ in range(self.rounds)]


def measure(rig: Rig, plan: RelayPlan, progress: Progress) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the whole plan; return the result and the raw samples."""
    proxy = rig.pids["proxy"]
    memory = {"start": rss_mb(proxy)}
    with LoadProcess(rig.direct, rig.proxied, rig.pids) as load:
        tokens = asyncio.run(submit(rig.rm_client, max(plan.masters), progress))
        progress("connecting each of them twice")
        load.connect(tokens)
        memory["connected"] = rss_mb(proxy)
        progress(f"running the ResourceManager in, {_HEATING_S:.0f} s")
        load.run(LoadPhase(max(plan.masters), 0.0, _HEATING_S, share=2))
        by_masters, raw = {}, {}
        for masters in plan.masters:
            by_masters[str(masters)], raw[str(masters)] = _at(load, masters, plan, progress)
        memory["end"] = rss_mb(proxy)
        idle = cpu_s(proxy)
        time.sleep(_IDLE_S)
        idle_cpu = (cpu_s(proxy) - idle) / _IDLE_S
    return _summary(by_masters) | {
        "idle_proxy_cpu_ratio": round(idle_cpu, 4),
        "proxy_rss_mb": memory,
        "by_masters": by_masters,
    }, raw


def _summary(by_masters: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the headline: of each figure the worse of the numbers of masters."""
    every = by_masters.values()
    return {
        "throughput_ratio": min(row["throughput_ratio"]["median"] for row in every),
        "added_p50_ms": max(row["heartbeat"]["added_p50_ms"]["median"] for row in every),
        "added_p99_ms": max(row["heartbeat"]["added_p99_ms"]["median"] for row in every),
        "cpu_us_per_allocate": max(row["cpu_us_per_allocate"]["median"] for row in every),
    }


def _at(load: LoadProcess, masters: int, plan: RelayPlan, progress: Progress) -> tuple[dict[str, Any], dict[str, Any]]:
    rounds = []
    for number in range(plan.rounds):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        done = {side: load.run(LoadPhase(masters, plan.warm_up_s, plan.seconds, share=side)) for side in order}
        rounds.append((done[0], done[1]))
        rates = [_rate(done[side], side) for side in (0, 1)]
        progress(f"{masters} masters, round {number + 1}: {rates[0]:.0f}/s direct, {rates[1]:.0f}/s proxied")
    closed = closed_figures(rounds)
    half_s = masters / (closed["proxied"]["rate_per_s"]["median"] / 2)
    paced = {}
    for name, interval_s in (("heartbeat", plan.interval_s), ("half_load", half_s)):
        progress(f"{masters} masters, a heartbeat each {interval_s:.3f} s, half of them through the proxy")
        phases = [LoadPhase(masters, 1.0, plan.paced_s, 2 + number % 2, interval_s) for number in range(plan.rounds)]
        paced[name] = [load.run(phase) for phase in phases]
    result = closed | {name: paced_figures(measured) for name, measured in paced.items()}
    result["foreign_cores"] = spread([_foreign_cores(sample) for pair in rounds for sample in pair], 2)
    result["half_load"]["rate_per_s"] = round(masters / half_s)
    result["heartbeat"]["rate_per_s"] = round(masters / plan.interval_s)
    raw = {"closed_loop": [[asdict(sample) for sample in pair] for pair in rounds]}
    return result, raw | {name: [asdict(sample) for sample in measured] for name, measured in paced.items()}


def _foreign_cores(measured: Measured) -> float:
    """Return how many cores were kept busy by what has nothing to do with the measurement."""
    own_s = sum(measured.cpu_s[name] for name in _PROCESSES)
    return max(0.0, measured.cpu_s["machine"] - own_s) / measured.seconds


def _rate(measured: Measured, side: int) -> float:
    return len(measured.latency_us[side]) / measured.seconds


def closed_figures(rounds: list[tuple[Measured, Measured]]) -> dict[str, Any]:
    """Return what the closed loop shows; each ratio is of two neighbouring rounds."""
    sides = {name: _side([pair[side] for pair in rounds], side) for side, name in enumerate(_SIDES)}
    ratios = [_rate(proxied, 1) / _rate(direct, 0) for direct, proxied in rounds]
    return {
        "throughput_ratio": spread(ratios),
        "cpu_us_per_allocate": sides["proxied"]["cpu_us"]["proxy"],
        **sides,
    }


def _side(measured: list[Measured], side: int) -> dict[str, Any]:
    rates = [_rate(sample, side) for sample in measured]
    return {
        "rate_per_s": spread(rates, 0),
        "p50_ms": spread([percentile(sample.latency_us[side], 50) / 1e3 for sample in measured], 3),
        "p99_ms": spread([percentile(sample.latency_us[side], 99) / 1e3 for sample in measured], 3),
        "cpu_us": {
            name: spread([sample.cpu_s[name] * 1e6 / len(sample.latency_us[side]) for sample in measured], 1)
            for name in _PROCESSES
        },
    }


def paced_figures(measured: list[Measured]) -> dict[str, Any]:
    """Return what paced masters see; both sides were measured within the same seconds."""
    figures: dict[str, Any] = {}
    for q in (50, 99):
        both = [[percentile(samples, q) / 1e3 for samples in sample.latency_us] for sample in measured]
        figures[f"direct_p{q}_ms"] = spread([direct for direct, _ in both], 3)
        figures[f"proxied_p{q}_ms"] = spread([proxied for _, proxied in both], 3)
        figures[f"added_p{q}_ms"] = spread([proxied - direct for direct, proxied in both], 3)
    proxied_s = [sample.cpu_s["proxy"] * 1e6 / max(1, len(sample.latency_us[1])) for sample in measured]
    sent = [[len(samples) / sample.seconds for samples in sample.latency_us] for sample in measured]
    return figures | {
        "proxy_cpu_us_per_allocate": spread(proxied_s, 1),
        "throughput_ratio": spread([proxied / direct for direct, proxied in sent]),
        "generator_late_ms": round(median(sample.late_ms for sample in measured), 2),
    }


def _masters(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in value.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 2:
        raise click.BadParameter(f"{value!r} is no list of numbers from 2 on, such as 100,1000")
    return numbers


@click.command()
@click.option("--masters", default="100,1000", show_default=True, callback=_masters, help="Application masters.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Rounds of each measurement.")
@click.option("--seconds", default=3.0, show_default=True, type=click.FloatRange(0.5), help="Of one closed-loop round.")
@click.option(
    "--haproxy",
    "program",
    default=lambda: shutil.which("haproxy") or "",
    show_default="the one that is installed",
    help="Program that is measured beside the proxy; without one that part is left out.",
)
@click.option("--dir", "workdir", default="run/bench-relay", show_default=True, type=click.Path(path_type=Path))
@results.folder_option
@click.option("--base-port", default=26000, show_default=True, help="First port of the cluster.")
def relay(
    masters: tuple[int, ...],
    rounds: int,
    seconds: float,
    program: str,
    workdir: Path,
    folder: Path,
    base_port: int,
) -> None:
    """Empty allocates direct and through the proxy, and through HAProxy where there is one.

    The last line is one JSON object (lab/docs/benchmarks.md).
    """
    plan = RelayPlan(masters, rounds, seconds)
    progress = Progresses()
    about = {"machine": results.machine(), "commit": results.commit()}
    about["settings"] = asdict(plan) | {"rm_java_opts": RM_OPTIONS, "proxy": "active mode, only_q, SQLite store"}
    with running(workdir, base_port, progress) as rig:
        result, raw = measure(rig, plan, progress)
        if program:
            with haproxy(program, workdir, rig.direct) as (address, pid):
                beside = compare(rig, address, pid, masters, plan.beside_haproxy(), progress)
            result["beside_haproxy"], raw["beside_haproxy"] = beside
        else:
            progress("no HAProxy: install it, or name it with --haproxy, to have it measured beside the proxy")
    result = {"benchmark": "relay", **result, **about}
    path = results.write("relay", result, raw, folder)
    progress(f"written to {path}")
    click.echo(json.dumps(result))


if __name__ == "__main__":
    relay()
