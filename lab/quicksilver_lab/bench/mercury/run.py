"""`make bench-mercury`: Mercury's experiments for stock YARN, tuned YARN, Hadoop's own opportunistic, quicksilver."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.bench import results
from quicksilver_lab.bench.emulator.model import RunResult
from quicksilver_lab.bench.emulator.raw import packed
from quicksilver_lab.bench.las.run import interruptible
from quicksilver_lab.bench.mercury import compare, plan
from quicksilver_lab.bench.mercury.competitors import ALL
from quicksilver_lab.bench.mercury.lanes import Failed, Lanes
from quicksilver_lab.bench.mercury.step import carry_out
from quicksilver_lab.bench.page.pages import beside

_PORTS: Final = 20000


@dataclass(slots=True)
class Found:
    """The runs that came to their end, and why others did not."""

    runs: dict[tuple[str, str], list[RunResult]] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def take(self, run: RunResult) -> None:
        """Handle a run; those of a competitor and workload stand in the order of their seeds."""
        same = self.runs.setdefault((run.workload, run.competitor), [])
        same.append(run)
        same.sort(key=lambda entry: entry.seed)


def measure(parts: Sequence[plan.PlanPart], lanes: Lanes[plan.Step], findings: Found) -> None:
    """Run the plan, round after round of all parts: what is broken off has whole rounds of everything.

    Raises KeyboardInterrupt.
    """
    for number in range(1, max(part.rounds for part in parts) + 1):
        steps = []
        for part in parts:
            best = compare.best_opportunistic(findings.runs, part.workload)
            steps += plan.steps(part, number, best)
        for outcome in lanes.run(steps):
            if isinstance(outcome, Failed):
                findings.broken.append(str(outcome))
            else:
                findings.take(outcome)


def _listed(_context: click.Context, _parameter: click.Parameter, value: str) -> list[str]:
    return [word.strip() for word in value.split(",") if word.strip()]


def _parts(quick: bool, workloads: list[str], competitors: list[str], rounds: int | None) -> tuple[plan.PlanPart, ...]:
    try:
        return plan.selection(plan.QUICK if quick else plan.DEFAULT, workloads, competitors, rounds)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@click.option("--quick", is_flag=True, help="2-second tasks and three competitors, once each: under 5 minutes.")
@click.option("--workloads", default="", callback=_listed, help="Only these, with commas.  [default: all of the plan]")
@click.option(
    "--competitors", default="", callback=_listed, help="Only these, with commas.  [default: all of the plan]"
)
@click.option("--rounds", type=click.IntRange(1), help="Repetitions of what is repeated.  [default: as planned]")
@click.option("--lanes", default=2, show_default=True, type=click.IntRange(1, 8), help="Runs at a time.")
@click.option("--dir", "workdir", default="run/bench-mercury", show_default=True, type=click.Path(path_type=Path))
@click.option("--base-port", default=_PORTS, show_default=True, help="First port of the first lane.")
@click.option(
    "--results", "folder", default=results.RESULTS, type=click.Path(path_type=Path), help="Folder of the result file."
)
def mercury(
    quick: bool,
    workloads: list[str],
    competitors: list[str],
    rounds: int | None,
    lanes: int,
    workdir: Path,
    base_port: int,
    folder: Path,
) -> None:
    """Run Mercury's workloads under each competitor on an emulated cluster before a real ResourceManager.

    The last line is one JSON object (lab/docs/benchmarks.md).
    """
    start_s = time.monotonic()

    def progress(text: str) -> None:
        click.echo(f"[{time.monotonic() - start_s:6.1f} s] {text}", err=True)

    parts = _parts(quick, workloads, competitors, rounds)
    about: dict[str, Any] = {"machine": results.machine(), "commit": results.commit()}
    progress(f"about {plan.expected_s(parts) / lanes / 60:.0f} minutes")
    findings = Found()
    with interruptible():
        try:
            measure(parts, Lanes(lanes, workdir.absolute(), base_port, progress, carry_out), findings)
        except (QuicksilverError, OSError, KeyboardInterrupt) as error:
            findings.broken.append(f"{type(error).__name__}: {error}")
            progress(f"error: {findings.broken[-1]}")
    about |= {
        "took_s": round(time.monotonic() - start_s),
        "settings": {"lanes": lanes, "parts": [asdict(part) for part in parts]},
        "competitors": {competitor.name: asdict(competitor) for competitor in ALL},
    }
    result = {"benchmark": "mercury", **compare.result(findings.runs), "broken": findings.broken, **about}
    _finish(result, findings, folder, progress)


def _finish(result: dict[str, Any], findings: Found, folder: Path, progress: Callable[[str], None]) -> None:
    """Write the result and its page, print it; exit with code 1 when a run broke, or tasks were lost or done twice."""
    raw = [packed(run) for same in findings.runs.values() for run in same]
    path = results.write("mercury", result, {"runs": raw}, folder)
    progress(f"written to {path}")
    click.echo(json.dumps(result))
    progress(f"page: {beside(path)}")
    if findings.broken or result["lost_tasks"] or result["doubled_tasks"]:
        sys.exit(1)
