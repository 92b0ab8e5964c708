"""`make bench-mixes`: real mixes of jobs, stock YARN in its best settings against quicksilver as it is installed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.bench import results
from quicksilver_lab.bench.emulator.model import RunResult
from quicksilver_lab.bench.emulator.raw import packed
from quicksilver_lab.bench.harm import sentence
from quicksilver_lab.bench.las.run import interruptible
from quicksilver_lab.bench.mercury.competitors import BY_NAME, sections_of
from quicksilver_lab.bench.mercury.lanes import Failed, Lanes
from quicksilver_lab.bench.mixes.plan import MixesPlan, plan
from quicksilver_lab.bench.mixes.result import result, take
from quicksilver_lab.bench.mixes.step import MixStep, carry_out
from quicksilver_lab.bench.page.pages import beside

_PORTS: Final = 23000

Found = dict[tuple[str, str], list[RunResult]]
Progress = Callable[[str], None]


def measure(planned: MixesPlan, lanes: Lanes[MixStep], runs: Found, broken: list[str]) -> None:
    """Run the plan, seed after seed of all mixes: what is broken off has whole seeds of everything.

    Raises KeyboardInterrupt.
    """
    for seed in range(1, planned.seeds + 1):
        for outcome in lanes.run(planned.steps(seed)):
            if isinstance(outcome, Failed):
                broken.append(str(outcome))
            else:
                take(runs, outcome)


def _listed(_context: click.Context, _parameter: click.Parameter, value: str) -> list[str]:
    return list(dict.fromkeys(word.strip() for word in value.split(",") if word.strip()))


@click.command()
@click.option("--quick", is_flag=True, help="Half of one trace's jobs, three competitors, once: within 10 minutes.")
@click.option("--mixes", "names", default="", callback=_listed, help="Only these, with commas.  [default: all]")
@click.option("--competitors", default="", callback=_listed, help="Only these, with commas.  [default: as planned]")
@click.option("--seeds", type=click.IntRange(1, 30), help="Seeds 1 to this one.  [default: 3; 1 with --quick]")
@click.option("--nodes", type=click.IntRange(1, 1000), help="[default: 64, and 30 for Kairos' mixes]")
@click.option("--cores", type=click.IntRange(1, 128), help="Slots of each node.  [default: 4]")
@click.option("--lanes", default=1, show_default=True, type=click.IntRange(1, 8), help="Runs at a time.")
@click.option("--dir", "workdir", default="run/bench-mixes", show_default=True, type=click.Path(path_type=Path))
@click.option("--base-port", default=_PORTS, show_default=True, help="First port of the first lane.")
@click.option(
    "--results", "folder", default=results.RESULTS, type=click.Path(path_type=Path), help="Folder of the result file."
)
def mixes(
    quick: bool,
    names: list[str],
    competitors: list[str],
    seeds: int | None,
    nodes: int | None,
    cores: int | None,
    lanes: int,
    workdir: Path,
    base_port: int,
    folder: Path,
) -> None:
    """Run real mixes of jobs under each competitor on an emulated cluster before a real ResourceManager.

    One run at a time, since a second one would bend the latencies of the first. The last line is one JSON object
    (lab/docs/benchmarks.md).
    """
    start_s = time.monotonic()

    def progress(text: str) -> None:
        click.echo(f"[{time.monotonic() - start_s:6.1f} s] {text}", err=True)

    try:
        planned = plan(quick, names, competitors, seeds, nodes, cores)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    about: dict[str, Any] = {"machine": results.machine(), "commit": results.commit()}
    progress(f"about {planned.expected_s() / lanes / 60:.0f} minutes")
    runs: Found = {}
    broken: list[str] = []
    with interruptible():
        try:
            measure(planned, Lanes(lanes, workdir.absolute(), base_port, progress, carry_out), runs, broken)
        except (QuicksilverError, OSError, KeyboardInterrupt) as error:
            broken.append(f"{type(error).__name__}: {error}")
            progress(f"error: {broken[-1]}")
    about |= {
        "took_s": round(time.monotonic() - start_s),
        "settings": asdict(planned) | {"lanes": lanes},
        "notes": {name: BY_NAME[name].note for name in planned.competitors},
        "policies": sections_of(planned.competitors),
    }
    _finish({"benchmark": "mixes", **result(planned, runs), "broken": broken, **about}, runs, folder, progress)


def _finish(whole: dict[str, Any], runs: Found, folder: Path, progress: Progress) -> None:
    """Write the result and its page, print it; exit with code 1 when a run broke, or tasks were lost or done twice."""
    raw = [packed(run) for same in runs.values() for run in same]
    path = results.write("mixes", whole, {"runs": raw}, folder)
    for name, mix in whole["mixes"].items():
        for competitor, answer in mix.get("compared", {}).items():
            for rival, figures in answer["harm"].items():
                progress(sentence(competitor, rival, figures, f" on {name}"))
    progress(f"written to {path}")
    progress(f"page: {beside(path)}")
    click.echo(json.dumps(whole))
    if whole["broken"] or whole["lost_tasks"] or whole["doubled_tasks"]:
        sys.exit(1)
