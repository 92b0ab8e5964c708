"""`quicksilver bench run PLAN`: the runs of a plan on the emulated cluster, their result and its page."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from quicksilver.common.errors import QuicksilverError
from quicksilver.simulator.traces.formats.dynoyarn import write_dynoyarn
from quicksilver.simulator.traces.lines import Mistakes
from quicksilver_lab.bench import results
from quicksilver_lab.bench.emulator.model import RunResult
from quicksilver_lab.bench.emulator.raw import packed
from quicksilver_lab.bench.experiment.goals import best_opportunistic
from quicksilver_lab.bench.experiment.lanes import Failed, Lanes
from quicksilver_lab.bench.experiment.plan import ExperimentPlan, changed, load
from quicksilver_lab.bench.experiment.result import result, take
from quicksilver_lab.bench.harm import sentence
from quicksilver_lab.bench.mercury.competitors import BY_NAME, sections_of
from quicksilver_lab.bench.page.pages import beside
from quicksilver_lab.cluster.runtime.releases import RELEASES
from quicksilver_lab.workloads.environment import interruptible

Runs = dict[tuple[str, str], list[RunResult]]
Progress = Callable[[str], None]


def measure(plan: ExperimentPlan, lanes: Lanes, runs: Runs, broken: list[str]) -> None:
    """Run a plan, seed after seed of all workloads: what is broken off has whole seeds of everything.

    Raises KeyboardInterrupt.
    """
    for seed in range(1, max(map(plan.seeds_of, plan.workloads)) + 1):
        for outcome in lanes.run(plan.steps(seed, lambda workload: best_opportunistic(runs, workload))):
            if isinstance(outcome, Failed):
                broken.append(str(outcome))
            else:
                take(runs, outcome)


def _listed(_context: click.Context, _parameter: click.Parameter, value: str) -> list[str]:
    return list(dict.fromkeys(word.strip() for word in value.split(",") if word.strip()))


def _read_traces(plan: ExperimentPlan, copy: Path | None) -> None:
    """Read the traces of a plan and print what is left out of them; write their jobs. Raises QuicksilverError."""
    for jobs in plan.workloads:
        if jobs.trace:
            mistakes = Mistakes(skip=jobs.trace.skip)
            drawn = jobs.trace.jobs(plan.mix(jobs).size.nodes, mistakes)
            for line in mistakes.words():
                click.echo(line, err=True)
            if copy is not None:
                click.echo(json.dumps({"jobs": write_dynoyarn(drawn, copy), "file": str(copy)}))


@click.command()
@click.argument("plan", metavar="PLAN")
@click.option("--quick", is_flag=True, help="What the plan has below `quick:`, a first look.")
@click.option("--workloads", default="", callback=_listed, help="Only these, with commas; other mixes are added.")
@click.option("--competitors", default="", callback=_listed, help="Only these, with commas.  [default: as planned]")
@click.option("--seeds", type=click.IntRange(1, 30), help="Seeds 1 to this one.  [default: as planned]")
@click.option("--lanes", type=click.IntRange(1, 8), help="Runs at a time.  [default: as planned]")
@click.option(
    "--hadoop", type=click.Choice(list(RELEASES)), help="The ResourceManager's version.  [default: as planned]"
)
@click.option("--trace", "file", type=click.Path(path_type=Path), help="File of the plan's trace.")
@click.option(
    "--write", "copy", type=click.Path(path_type=Path), help="Write the trace's fitted jobs as DynoYARN's; run none."
)
@click.option("--dir", "workdir", default="run/bench", show_default=True, type=click.Path(path_type=Path))
@click.option("--base-port", default=23000, show_default=True, help="First port of the first lane.")
@results.folder_option
def run(
    plan: str,
    quick: bool,
    workloads: list[str],
    competitors: list[str],
    seeds: int | None,
    lanes: int | None,
    hadoop: str | None,
    file: Path | None,
    copy: Path | None,
    workdir: Path,
    base_port: int,
    folder: Path,
) -> None:
    """Run the jobs of PLAN under each competitor on an emulated cluster before a real ResourceManager.

    PLAN is a YAML file or one of `quicksilver bench list`. The last line is one JSON object (lab/docs/benchmarks.md).
    """
    start_s = time.monotonic()

    def progress(text: str) -> None:
        click.echo(f"[{time.monotonic() - start_s:6.1f} s] {text}", err=True)

    try:
        planned = changed(load(plan, quick), workloads, competitors, seeds, file, hadoop)
        if (file or copy) and not any(jobs.trace for jobs in planned.workloads):
            raise QuicksilverError("no workload of the plan is a trace", place=plan, remedy="take the plan `trace`")
        _read_traces(planned, copy)
        if copy is not None:
            return
        count = lanes or planned.lanes
        progress(f"about {planned.expected_s() / count / 60:.0f} minutes")
    except QuicksilverError as error:
        raise click.UsageError(str(error)) from error
    about: dict[str, Any] = {"machine": results.machine(), "commit": results.commit()}
    runs: Runs = {}
    broken: list[str] = []
    with interruptible():
        try:
            measure(planned, Lanes(count, workdir.absolute(), base_port, progress), runs, broken)
        except (QuicksilverError, OSError, KeyboardInterrupt) as error:
            broken.append(f"{type(error).__name__}: {error}")
            progress(f"error: {broken[-1]}")
    about |= {
        "took_s": round(time.monotonic() - start_s),
        "settings": planned.settings() | {"lanes": count},
        "competitors": {name: asdict(BY_NAME[name]) for name in planned.names},
        "policies": sections_of(planned.names),
    }
    name = Path(plan).stem
    whole = {"benchmark": "experiment", "plan": name, **result(planned, runs), "broken": broken, **about}
    _finish(whole, runs, folder, progress)


def _finish(whole: dict[str, Any], runs: Runs, folder: Path, progress: Progress) -> None:
    """Write the result and its page, print it; exit with code 1 when a run broke, or tasks were lost or done twice."""
    raw = [packed(run) for same in runs.values() for run in same]
    path = results.write(whole["plan"], whole, {"runs": raw}, folder)
    for name, mix in whole["mixes"].items():
        for competitor, answer in mix.get("compared", {}).items():
            for rival, figures in answer["harm"].items():
                progress(sentence(competitor, rival, figures, f" on {name}"))
    progress(f"written to {path}")
    progress(f"page: {beside(path)}")
    click.echo(json.dumps(whole))
    if whole["broken"] or whole["lost_tasks"] or whole["doubled_tasks"]:
        sys.exit(1)
