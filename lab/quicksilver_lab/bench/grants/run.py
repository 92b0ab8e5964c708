"""`quicksilver bench grants`: from an ask for a queueable container to its grant, over the load of other masters."""

from __future__ import annotations

import asyncio
import shutil
from collections import defaultdict
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import click
import uvloop

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.logs import configure_logs
from quicksilver_lab.bench import results
from quicksilver_lab.bench.emulator.rm import RM_OPTIONS
from quicksilver_lab.bench.emulator.run import EmulatedCluster, emulated_cluster
from quicksilver_lab.bench.grants.figures import figures, goals
from quicksilver_lab.bench.grants.probes import ProbePhase, ProbeResult, ProbesProcess
from quicksilver_lab.bench.grants.systems import SYSTEMS, node_settings, node_shape, priority, rm_options
from quicksilver_lab.bench.load.loadgen import LoadPhase, LoadProcess, Measured
from quicksilver_lab.bench.page.pages import beside
from quicksilver_lab.bench.rig import Progress, submit
from quicksilver_lab.cluster import ClusterError
from quicksilver_lab.workloads.environment import Progresses, finish, interruptible, one_line_errors

LOAD_TYPE: Final = "BUSY"
"""Type of the applications of the load: no preset makes their containers queueable."""
_MARGIN_S: Final = 0.5
"""By which the load outlasts the probes."""
_CONNECTIONS: Final = 4
"""That the proxy may have for each master: two of the load's, and its own to the ResourceManager."""

Samples = dict[tuple[str, int], list[tuple[ProbeResult, Measured | None]]]
"""By system and load, of each round."""


@dataclass(frozen=True, slots=True)
class GrantsPlan:
    """What is measured. loads: calls a second of all `masters` together. rate: asks a second of all `probes`."""

    systems: tuple[str, ...] = tuple(SYSTEMS)
    loads: tuple[int, ...] = (0, 250, 500, 1000, 2000)
    masters: int = 2000
    asks_ratio: float = 0.25
    """Of the calls of the load those that ask for a guaranteed container."""
    past_proxy: bool = False
    """Whether the load goes straight to the ResourceManager, and the proxy has the probes alone."""
    probes: int = 50
    """At `rate` each asks once a second, as MapReduce's masters do."""
    rate: float = 50.0
    beat_s: float = 0.1
    """From an answer without the container to the probe's next call."""
    nodes: int = 64
    slots: int = 64
    """Of a node."""
    seconds: float = 20.0
    warm_up_s: float = 2.0
    heating_s: float = 15.0
    """At the highest load, of each new ResourceManager and proxy."""
    rounds: int = 1


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Where each cluster is run. java: options of the ResourceManager's JVM."""

    workdir: Path
    base_port: int
    java: tuple[str, ...]
    progress: Progress


class _Steps:
    """The steps of one system on its running cluster."""

    def __init__(self, plan: GrantsPlan, load: LoadProcess, probes: ProbesProcess, straight: bool) -> None:
        self._plan, self._load, self._probes, self._straight = plan, load, probes, straight

    async def run(self, load_per_s: int, seconds: float) -> tuple[ProbeResult, Measured | None]:
        """Have the probes ask for `seconds` under a load. Raises ChildError."""
        plan = self._plan
        phase = ProbePhase(plan.warm_up_s, seconds, plan.rate, plan.beat_s)
        if not load_per_s:
            return await asyncio.to_thread(self._probes.run, phase), None
        interval_s = plan.masters / load_per_s
        busy = LoadPhase(
            plan.masters,
            plan.warm_up_s,
            seconds + _MARGIN_S,
            share=0 if self._straight else 1,
            interval_s=interval_s,
            asks_ratio=plan.asks_ratio,
        )
        probe, measured = await asyncio.gather(
            asyncio.to_thread(self._probes.run, phase), asyncio.to_thread(self._load.run, busy)
        )
        return probe, measured


async def measure(plan: GrantsPlan, cluster: ClusterPlan, samples: Samples, broken: list[str]) -> None:
    """Run the plan, each system of a round before a new ResourceManager; every other round in reverse.

    broken: gets why a system could not be measured to its end; the next one follows.
    """
    for number in range(plan.rounds):
        for name in plan.systems if number % 2 == 0 else reversed(plan.systems):
            cluster.progress(f"{name}, round {number + 1}: starting")
            try:
                async with _cluster(plan, name, cluster) as running:
                    await steps_of(plan, name, running, samples, cluster.progress)
                shutil.rmtree(cluster.workdir / name)  # the ResourceManager's log has some MB a minute
            except (QuicksilverError, ClusterError, OSError, RuntimeError) as error:
                broken.append(f"{name}: {type(error).__name__}: {error}")
                cluster.progress(f"error: {broken[-1]}")


def _cluster(plan: GrantsPlan, name: str, cluster: ClusterPlan) -> AbstractAsyncContextManager[EmulatedCluster]:
    """Return the cluster of a system, not started, with an empty folder."""
    system, folder = SYSTEMS[name], cluster.workdir / name
    shutil.rmtree(folder, ignore_errors=True)
    proxy: dict[str, Any] = {"max_connections": _CONNECTIONS * (plan.masters + plan.probes)}
    if system.own_grants:
        proxy |= {"own_grants": system.own_grants}
    return emulated_cluster(
        folder,
        plan.nodes,
        node_shape(plan.slots),
        rm_options(system, cluster.base_port, cluster.java),
        node_settings(system, plan.slots, cluster.base_port),
        system.policies,
        proxy,
        cluster.progress,
    )


async def steps_of(plan: GrantsPlan, name: str, cluster: EmulatedCluster, samples: Samples, progress: Progress) -> None:
    """Run a system's steps on its cluster, which runs. Raises ChildError, RuntimeError of a node that ended."""
    where = cluster.rm.addresses
    direct = where.moved_scheduler if cluster.through else where.scheduler
    pids = {"nodes" if key == "emulator" else key: pid for key, pid in cluster.pids.items()}
    with LoadProcess(direct, where.scheduler, {}) as load:
        pids |= {"load": load.pid}
        with ProbesProcess(where.scheduler, priority(SYSTEMS[name]), pids) as probes:
            busy = await submit(where.client, plan.masters, progress, LOAD_TYPE, "of bench grants, load")
            asking = await submit(where.client, plan.probes, progress, name="of bench grants, probe")
            progress("connecting them")
            await asyncio.to_thread(load.connect, busy)
            await asyncio.to_thread(probes.connect, asking)
            steps = _Steps(plan, load, probes, plan.past_proxy)
            progress(f"running it in for {plan.heating_s:g} s")
            await steps.run(max(plan.loads), plan.heating_s)
            for load_per_s in plan.loads:
                step = await steps.run(load_per_s, plan.seconds)
                samples[name, load_per_s].append(step)
                cluster.nodes.check()
                progress(_line(name, load_per_s, *step))


def _line(name: str, load_per_s: int, probe: ProbeResult, load: Measured | None) -> str:
    step = figures([probe], [load])
    p50, p99 = ("-" if step[key] is None else f"{step[key]['median']:.2f}" for key in ("p50_ms", "p99_ms"))
    kinds = f"own {step['own_ratio']}, ahead {step['ahead_ratio']}"
    cores = ", ".join(f"{process} {used_s / probe.seconds:.2f}" for process, used_s in probe.cpu_s.items())
    return (
        f"{name} at {load_per_s}/s (reached {step['reached_per_s']['median']:.0f}): p50 {p50}, p99 {p99} ms of "
        f"{step['grants']} grants in {step['calls']} calls, {kinds}; cores: {cores}"
    )


def result_of(samples: Samples) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the result and the raw samples."""
    steps = [
        {"system": name, "load_per_s": load, **figures([p for p, _ in rounds], [m for _, m in rounds])}
        for (name, load), rounds in samples.items()
    ]
    raw = {
        f"{name} at {load}": [{"probes": asdict(p), "load": m and asdict(m)} for p, m in rounds]
        for (name, load), rounds in samples.items()
    }
    return {"goals": goals(steps), "steps": steps}, raw


def _numbers(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in value.split(","))
    except ValueError:
        numbers = ()
    if not numbers or numbers[0] < 0 or list(numbers) != sorted(set(numbers)):
        raise click.BadParameter(f"{value!r} is no growing list of numbers from 0 on, such as 0,500,2000")
    return numbers


def _names(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in value.split(",")))
    unknown = [name for name in names if name not in SYSTEMS]
    if unknown:
        raise click.BadParameter(f"no system {unknown[0]!r}; there are {', '.join(SYSTEMS)}")
    return names


_PLAN: Final = GrantsPlan()


@click.command()
@click.option("--systems", default=",".join(SYSTEMS), show_default=True, callback=_names, help="What is compared.")
@click.option("--loads", default="0,250,500,1000,2000", show_default=True, callback=_numbers, help="Calls a second.")
@click.option("--masters", default=_PLAN.masters, show_default=True, type=click.IntRange(1), help="Of the load.")
@click.option(
    "--asks-ratio",
    default=_PLAN.asks_ratio,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="Part of the load's calls that ask for a guaranteed container.",
)
@click.option("--past-proxy", is_flag=True, help="The load goes straight to the ResourceManager.")
@click.option("--probes", default=_PLAN.probes, show_default=True, type=click.IntRange(1), help="Masters that measure.")
@click.option(
    "--rate", default=_PLAN.rate, show_default=True, type=click.FloatRange(0.1), help="Asks a second of all probes."
)
@click.option("--nodes", default=_PLAN.nodes, show_default=True, type=click.IntRange(1, 1000), help="Emulated nodes.")
@click.option("--slots", default=_PLAN.slots, show_default=True, type=click.IntRange(1), help="Vcores of a node.")
@click.option(
    "--seconds", default=_PLAN.seconds, show_default=True, type=click.FloatRange(0.5), help="Of a step: system, load."
)
@click.option(
    "--heating", default=_PLAN.heating_s, show_default=True, type=click.FloatRange(0.5), help="Seconds before steps."
)
@click.option("--rounds", default=_PLAN.rounds, show_default=True, type=click.IntRange(1), help="Of all systems.")
@click.option("--java", default=" ".join(RM_OPTIONS), show_default=True, help="Options of the ResourceManager's JVM.")
@click.option("--dir", "workdir", default="run/bench-grants", show_default=True, type=click.Path(path_type=Path))
@results.folder_option
@click.option("--base-port", default=26000, show_default=True, help="First port of the cluster.")
@one_line_errors
def grants(
    systems: tuple[str, ...],
    loads: tuple[int, ...],
    masters: int,
    asks_ratio: float,
    past_proxy: bool,
    probes: int,
    rate: float,
    nodes: int,
    slots: int,
    seconds: float,
    heating: float,
    rounds: int,
    java: str,
    workdir: Path,
    folder: Path,
    base_port: int,
) -> None:
    """Time from an ask for a queueable container to its grant, while other masters keep the ResourceManager busy.

    The last line is one JSON object (lab/docs/benchmarks.md).
    """
    plan = GrantsPlan(
        systems,
        loads,
        masters,
        asks_ratio,
        past_proxy,
        probes,
        rate,
        nodes=nodes,
        slots=slots,
        seconds=seconds,
        heating_s=heating,
        rounds=rounds,
    )
    configure_logs(level="warning")  # a sidecar logs each container
    progress = Progresses()
    about = {"machine": results.machine(), "commit": results.commit(), "settings": asdict(plan) | {"java": java}}
    samples: Samples = defaultdict(list)
    broken: list[str] = []
    cluster = ClusterPlan(workdir.absolute(), base_port, tuple(java.split()), progress)
    with interruptible(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(measure(plan, cluster, samples, broken))
        except (KeyboardInterrupt, asyncio.CancelledError):
            broken.append("interrupted")
    summary, raw = result_of(samples)
    result = {"benchmark": "grants", **summary, "broken": broken, **about}
    path = results.write("grants", result, raw, folder)
    progress(f"written to {path}")
    progress(f"page: {beside(path)}")
    finish(result, ok=not broken)


if __name__ == "__main__":
    grants()
