"""`make bench-emulator`: the same jobs on a real local cluster and on the emulated one, stock and not."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal

import click

from hadoop_rpc.errors import HadoopRpcError
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.logs import configure_logs
from quicksilver_lab.bench import results
from quicksilver_lab.bench.emulator.nodes.node import NodeDelays
from quicksilver_lab.bench.emulator_validation.figures import WITHIN, compared, figures
from quicksilver_lab.bench.emulator_validation.places import PlacesRun, Progress, on_emulated, on_real
from quicksilver_lab.bench.emulator_validation.plan import ValidationPlan
from quicksilver_lab.bench.emulator_validation.probe import ProbeDelays as Probed
from quicksilver_lab.bench.las.run import interruptible
from quicksilver_lab.bench.page.pages import beside
from quicksilver_lab.workloads.environment import Progresses

_PORTS: Final = 23000
_MODES: Final = {"stock": False, "quicksilver": True}
Block = tuple[Literal["real", "emulated"], bool]
_BLOCKS: Final[tuple[Block, ...]] = (("real", False), ("emulated", True), ("real", True), ("emulated", False))
"""Where, and whether through quicksilver; the first one measures the delays."""


@dataclass(slots=True)
class ValidationResult:
    """What was measured; what comes later may fail without losing it."""

    runs: list[PlacesRun] = field(default_factory=list)
    probes: list[Probed] = field(default_factory=list)
    """Of each real cluster; the emulated nodes get the first one's."""
    broken: str = ""


def order(rounds: int, modes: Collection[str] = tuple(_MODES)) -> list[tuple[int, Block]]:
    """Return rounds and blocks in the order in which they are run: each round begins with another block."""
    flags = {_MODES[mode] for mode in modes}
    blocks = [block for block in _BLOCKS if block[1] in flags]
    if blocks[0][0] != "real":
        blocks.reverse()  # the delays come first
    return [(r, blocks[(r + n) % len(blocks)]) for r in range(rounds) for n in range(len(blocks))]


def delays(probed: Probed) -> NodeDelays:
    """Return the emulated nodes' delays: the means of the real ones'."""
    return NodeDelays(fmean(probed.launch_s), fmean(probed.kill_s), fmean(probed.exit_s))


def measure(
    plan: ValidationPlan,
    blocks: Iterable[tuple[int, Block]],
    workdir: Path,
    base_port: int,
    progress: Progress,
    findings: ValidationResult,
) -> None:
    """Run all. Raises what the clusters, the proxy and the masters raise."""
    for number, (place, through) in blocks:
        name = f"{place}, {'quicksilver' if through else 'stock'}, round {number + 1}"
        progress(name)
        seeds, folder = (number + 1,), workdir / name.replace(", ", "-").replace(" ", "")
        if place == "real":
            runs, probed = on_real(plan, seeds, through, folder, base_port, progress)
            findings.probes.append(probed)
            progress(f"delays: {delays(probed)}")
        else:
            probed_delays = delays(findings.probes[0])
            runs = asyncio.run(on_emulated(plan, seeds, through, probed_delays, folder, base_port, progress))
        findings.runs += runs
        progress(f"{name}: {figures(runs[0].jobs)}")


def summed_up(findings: ValidationResult) -> dict[str, Any]:
    """Return the comparison of each mode of which both places have runs, and what must not happen."""
    result: dict[str, Any] = {}
    for mode, through in _MODES.items():
        by_place: dict[str, list[PlacesRun]] = {"real": [], "emulated": []}
        for run in findings.runs:
            if run.quicksilver == through:
                by_place[run.place].append(run)
        pairs = min(map(len, by_place.values()))
        if pairs:
            result[mode] = compared(*(_of(runs[:pairs]) for runs in by_place.values()))
    for name in ("lost", "doubled"):
        result[f"{name}_tasks"] = sum(run.counts.get(name, 0) for run in findings.runs)
    if findings.probes:
        result["delays"] = asdict(delays(findings.probes[0]))
    return result


def _of(runs: Sequence[PlacesRun]) -> list[Mapping[str, float]]:
    return [figures(run.jobs) for run in sorted(runs, key=lambda run: run.seed)]


def _modes(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    modes = tuple(mode.strip() for mode in value.split(","))
    unknown = set(modes) - _MODES.keys()
    if unknown:
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: not one of {', '.join(_MODES)}")
    return modes


@click.command()
@click.option("--rounds", default=2, show_default=True, type=click.IntRange(1), help="Runs of each, in turns.")
@click.option("--modes", default=",".join(_MODES), show_default=True, callback=_modes, help="What to compare.")
@click.option("--dir", "workdir", default="run/emulator-validation", show_default=True, type=click.Path(path_type=Path))
@click.option("--base-port", default=_PORTS, show_default=True, help="First port of the clusters.")
@click.option(
    "--results", "folder", default=results.RESULTS, type=click.Path(path_type=Path), help="Folder of the result file."
)
def emulator_validation(rounds: int, modes: tuple[str, ...], workdir: Path, base_port: int, folder: Path) -> None:
    """Whether the emulated cluster agrees with a real one: makespan and queueing time of the same jobs.

    The last line is one JSON object (lab/docs/benchmarks.md).
    """
    progress = Progresses()
    configure_logs(level="warning")
    plan, findings = ValidationPlan(), ValidationResult()
    about = {"within": WITHIN, "settings": asdict(plan), "machine": results.machine(), "commit": results.commit()}
    with interruptible():
        try:
            measure(plan, order(rounds, modes), workdir.absolute(), base_port, progress, findings)
        except (QuicksilverError, HadoopRpcError, OSError, RuntimeError, ValueError, KeyboardInterrupt) as error:
            findings.broken = f"{type(error).__name__}: {error}"
            progress(f"error: {findings.broken}")
    result = {"benchmark": "emulator", **summed_up(findings), "broken": findings.broken, **about}
    raw = {"runs": [asdict(r) for r in findings.runs], "probes": [asdict(p) for p in findings.probes]}
    path = results.write("emulator", result, raw, folder)
    progress(f"written to {path}")
    click.echo(json.dumps(result))
    progress(f"page: {beside(path)}")
    if findings.broken or result["lost_tasks"] or result["doubled_tasks"]:
        sys.exit(1)
