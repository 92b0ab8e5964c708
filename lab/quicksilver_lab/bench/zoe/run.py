"""`make bench-zoe`: Zoe's experiment on ten servers (§6), flexible against rigid admission and against stock YARN."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click
import uvloop

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.logs import configure_logs
from quicksilver_lab.bench import results
from quicksilver_lab.bench.emulator.masters.application import ApplicationSpec
from quicksilver_lab.bench.page.pages import beside
from quicksilver_lab.bench.stats import spread
from quicksilver_lab.bench.zoe.figures import Figures, ratios, simulated_summary, summary
from quicksilver_lab.bench.zoe.live import LiveResult, LiveSettings, run
from quicksilver_lab.bench.zoe.systems import ADMISSIONS, NAMES, ORDERS, SIZES, Order, Size, ZoeSystem, system
from quicksilver_lab.bench.zoe.workload import CLUSTER, ZoeWorkload, applications, simulated
from quicksilver_lab.papers.systems.zoe import SYSTEM, ZoeSettings
from quicksilver_lab.workloads.environment import interruptible

_PORTS: Final = 24000
_DEFAULT: Final = "stock,rigid,flexible"
_BESIDE_S: Final = 30.0
"""Starting and stopping a run."""
PAPER: Final[Mapping[str, float]] = {"turnaround_p50_B-E": 0.63, "turnaround_p50_B-R": 0.78, "allocation": 1.2}
"""Flexible to rigid in the paper (§6, Figure 10); its allocation is that of its figure's distribution."""

Progress = Callable[[str], None]


def compared(by_system: Mapping[str, Figures]) -> dict[str, Figures]:
    """Return the ratios of each system to each one listed before it; "flexible/rigid" and so on.

    A later system is what is compared, as in the default `stock,rigid,flexible`.
    """
    names = list(by_system)
    return {
        f"{name}/{base}": ratios(by_system[name], by_system[base])
        for number, name in enumerate(names)
        for base in names[:number]
    }


def over_seeds(by_seed: Mapping[str, Mapping[str, Any]], key: str) -> dict[str, dict[str, Any]]:
    """Return the ratios below `key` as median, smallest and largest over the seeds; those that each seed has."""
    first, *others = (row[key] for row in by_seed.values())
    return {
        pair: {
            name: spread([row[pair][name] for row in (first, *others)])
            for name in figures
            if all(name in row[pair] for row in others)
        }
        for pair, figures in first.items()
    }


def ideal(specs: Sequence[ApplicationSpec], disciplines: Sequence[str], order: Order, size: Size) -> dict[str, Figures]:
    """Return the figures of the same applications in the simulator: no delays, and the servers are one room."""
    apps = simulated(specs)
    return {
        name: simulated_summary(
            SYSTEM.run(
                apps, CLUSTER, ZoeSettings.model_validate({"discipline": name, "order": order, "size": size}), 0
            ),
            apps,
        )
        for name in disciplines
    }


def _listed(_context: click.Context, _parameter: click.Parameter, value: str) -> list[str]:
    names = list(dict.fromkeys(word.strip() for word in value.split(",") if word.strip()))
    unknown = [name for name in names if name not in NAMES]
    if unknown or not names:
        raise click.BadParameter(f"{', '.join(unknown) or 'none'}: choose from {', '.join(NAMES)}")
    return names


@click.command()
@click.option("--systems", default=_DEFAULT, show_default=True, callback=_listed, help="With commas, one by one.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=1), help="First seed.")
@click.option("--seeds", default=1, show_default=True, type=click.IntRange(min=1), help="So many seeds.")
@click.option("--applications", "many", default=100, show_default=True, type=click.IntRange(min=2))
@click.option("--scale", default=20.0, show_default=True, help="The paper's times by ours.")
@click.option("--load", default=1.0, show_default=True, help="Memory that is wanted, by what there is.")
@click.option("--order", default="fifo", show_default=True, type=click.Choice(ORDERS))
@click.option("--size", default="1d", show_default=True, type=click.Choice(SIZES))
@click.option("--heartbeat", "heartbeat_s", default=1.0, show_default=True, help="Of masters and nodes, seconds.")
@click.option("--drain", "drain_s", default=1200.0, show_default=True, help="All end so long after the last arrival.")
@click.option("--dir", "workdir", default="run/bench-zoe", show_default=True, type=click.Path(path_type=Path))
@click.option("--base-port", default=_PORTS, show_default=True, help="First port.")
@results.folder_option
def zoe(
    systems: list[str],
    seed: int,
    seeds: int,
    many: int,
    scale: float,
    load: float,
    order: Order,
    size: Size,
    heartbeat_s: float,
    drain_s: float,
    workdir: Path,
    base_port: int,
    folder: Path,
) -> None:
    """Run Zoe's applications (§6) on ten emulated servers before a real ResourceManager, once under each system.

    The last line is one JSON object (lab/docs/benchmarks.md).
    """
    try:
        workloads = [ZoeWorkload(each, many, scale, load) for each in range(seed, seed + seeds)]
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    competitors = [system(name, order, size) for name in systems]
    start_s = time.monotonic()

    def progress(text: str) -> None:
        click.echo(f"[{time.monotonic() - start_s:6.1f} s] {text}", err=True)

    settings = LiveSettings(base_port, heartbeat_s, drain_s)
    about = {"machine": results.machine(), "commit": results.commit()}
    by_seed: dict[str, Any] = {}
    raw: dict[str, Any] = {}
    try:
        with interruptible():
            for workload in workloads:
                key = str(workload.seed)
                by_seed[key], raw[key] = measure(
                    workload, competitors, order, size, settings, workdir.absolute(), progress
                )
    except QuicksilverError as error:
        raise click.ClickException(str(error)) from error
    options = {"seed": seed, "seeds": seeds, "applications": many, "scale": scale, "load": load, "order": order}
    result: dict[str, Any] = {
        "benchmark": "zoe",
        "ratios": over_seeds(by_seed, "ratios"),
        "simulated_ratios": over_seeds(by_seed, "simulated_ratios"),
        "seeds": by_seed,
        "paper": {"flexible/rigid": dict(PAPER)},
        "settings": options | {"size": size, "heartbeat_s": heartbeat_s, "systems": systems},
        "notes": {competitor.name: competitor.note for competitor in competitors},
        "policies": {
            competitor.name: competitor.policies for competitor in competitors if competitor.policies is not None
        },
        "took_s": round(time.monotonic() - start_s),
    }
    _finish(result | about, raw, folder)


def measure(
    workload: ZoeWorkload,
    competitors: Sequence[ZoeSystem],
    order: Order,
    size: Size,
    settings: LiveSettings,
    workdir: Path,
    progress: Progress,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run one draw under all systems, one after the other; return its figures, and what became of each application.

    Raises QuicksilverError, OSError, RuntimeError.
    """
    configure_logs(level="warning")  # a sidecar reports each container
    specs = applications(workload)
    offered = {
        "applications": len(specs),
        "rigid": sum(not spec.elastic for spec in specs),
        "arriving_s": specs[-1].arrives_s,
        "components": sum(spec.core + spec.elastic for spec in specs),
        "runtime_mean_s": round(sum(spec.runtime_s for spec in specs) / len(specs), 3),
    }
    disciplines = [competitor.admission for competitor in competitors if competitor.admission] or list(ADMISSIONS[:2])
    in_theory = ideal(specs, disciplines, order, size)
    longest_s = max(row["makespan_s"] for row in in_theory.values())
    progress(f"seed {workload.seed}: {json.dumps(offered)}; about {longest_s + _BESIDE_S:.0f} s for each system")
    by_system: dict[str, Figures] = {}
    runs: dict[str, Any] = {}
    for competitor in competitors:
        live = _live(competitor, specs, settings, workdir / competitor.name, progress)
        by_system[competitor.name] = summary(live)
        progress(f"{competitor.name}: {json.dumps(by_system[competitor.name])}")
        runs[competitor.name] = {"records": [_packed(asdict(record)) for record in live.records], "counts": live.counts}
    figures = {
        "offered": offered,
        "systems": by_system,
        "ratios": compared(by_system),
        "simulated": in_theory,
        "simulated_ratios": compared(in_theory),
    }
    return figures, runs


def _live(
    competitor: ZoeSystem, specs: Sequence[ApplicationSpec], settings: LiveSettings, workdir: Path, progress: Progress
) -> LiveResult:
    """Run one system; its folder is empty at the begin and gone at the end, unless it fails."""
    shutil.rmtree(workdir, ignore_errors=True)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(run(competitor, specs, settings, workdir))
    shutil.rmtree(workdir, ignore_errors=True)
    return result


def _packed(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with its containers as rows: core, MB, granted, began, ended."""
    rows = [[_short(value) for value in span.values()] for span in record["spans"]]
    return {name: _short(value) for name, value in record.items()} | {"spans": rows}


def _short(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value


def _finish(result: dict[str, Any], raw: dict[str, Any], folder: Path) -> None:
    """Write the result and its page, print it; exit with code 1 when applications were lost or containers doubled."""
    path = results.write("zoe", result, raw, folder)
    click.echo(f"written to {path}", err=True)
    click.echo(f"page: {beside(path)}", err=True)
    click.echo(json.dumps(result))
    every = [figures for seed in result["seeds"].values() for figures in seed["systems"].values()]
    if any(row["lost"] or row["doubled"] or row["strays"] for row in every):
        sys.exit(1)


if __name__ == "__main__":
    zoe()
