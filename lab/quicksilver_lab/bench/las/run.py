"""`make bench-las`: the workload in every mode, then guaranteed starts on a full node; one JSON result."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import click

from hadoop_rpc.errors import HadoopRpcError
from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.bench import results
from quicksilver_lab.bench.las import figures, gstart, modes, workload
from quicksilver_lab.bench.las.jobs import LOAD, TABLE, LasJob, LasScale, counts, draw, gap_s
from quicksilver_lab.bench.las.modes import Mode, Progress
from quicksilver_lab.bench.page.pages import beside
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.workloads.environment import Progresses, interruptible
from quicksilver_lab.workloads.servers.dockerd import running_dockerd

MODES: Final = ("fifo", "opportunistic", "kill_newest", "las", "quicksilver")
GSTART: Final = "gstart"
DEFAULT: Final = ("fifo", "opportunistic", "las", "quicksilver", GSTART)
"""`kill_newest` is for those who ask what of the gain is not due to least attained service."""
_QUICK_JOBS: Final = 25


@dataclass(frozen=True, slots=True)
class LasPlan:
    """What is run. heartbeat_s: of the masters; MapReduce's is 1 s. limit_s: at most, for one mode's workload."""

    parts: tuple[str, ...] = DEFAULT
    jobs: int = 100
    seed: int = 2018
    load: float = LOAD
    time: float = 0.055
    cores: int = 2
    setup_s: float = 0.5
    overhead_s: float = 1.6
    heartbeat_s: float = 1.0
    alone: int = 2
    g_starts: int = 40
    limit_s: float = 900.0
    docker: bool = False
    """All tasks are Docker containers."""

    @property
    def scale(self) -> LasScale:
        """From the thesis' cluster to this node."""
        return LasScale(self.cores, self.time, self.setup_s, self.overhead_s)


def extra_keys() -> dict[str, Any]:
    """Return keys of the result that are measured elsewhere; none here."""
    return {}


@dataclass(slots=True)
class LasResult:
    """What has been measured so far; what comes later may fail without losing it."""

    jobs: list[LasJob]
    alone: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """By mode and class."""
    runs: dict[str, workload.LasRun] = field(default_factory=dict)
    starts: dict[str, gstart.LasStarts] = field(default_factory=dict)
    broken: str = ""
    """Why not everything was measured, "" when it was."""

    @property
    def alone_s(self) -> dict[str, dict[str, float]]:
        """Mean completion of each class alone, in seconds, by mode."""
        return {
            mode: {kind: round(fmean(samples), 3) for kind, samples in kinds.items()}
            for mode, kinds in self.alone.items()
        }

    def shown(self, mode: str) -> dict[str, Any]:
        """Return a mode's figures. Raises ValueError when no job finished."""
        return figures.mode_figures(self.runs[mode], self.alone_s[mode], self.alone_s["fifo"])

    def result(self) -> dict[str, Any]:
        """Return the figures of all modes side by side. Raises ValueError when no job of a mode finished."""
        by_mode = {name: self.shown(name) for name in self.runs}
        head = figures.compared(by_mode) | gstart.figures(self.starts) | extra_keys()
        about = {"broken": self.broken, "arrivals_s": round(self.jobs[-1].arrives_s, 1), "alone_s": self.alone_s}
        return head | about | {"modes": by_mode, "goals": figures.goals(by_mode)}

    def raw(self) -> dict[str, Any]:
        """Return the samples."""
        runs = {name: asdict(run) for name, run in self.runs.items()}
        return {
            "alone_s": self.alone,
            "modes": runs,
            "g_start": {n: asdict(starts) for n, starts in self.starts.items()},
        }


def measure(plan: LasPlan, findings: LasResult, workdir: Path, base_port: int, progress: Progress) -> None:
    """Run all parts of the plan. Raises QuicksilverError; `findings` have what was measured before."""
    if not plan.docker:
        _measure(plan, findings, workdir, base_port, progress, lambda mode: mode)
        return
    with tempfile.TemporaryDirectory(prefix="qs-") as folder, running_dockerd(Path(folder) / "docker") as dockerd:
        image = dockerd.import_image()
        _measure(plan, findings, workdir, base_port, progress, lambda mode: mode.in_docker(dockerd.url, image))


def _measure(
    plan: LasPlan, findings: LasResult, workdir: Path, base_port: int, progress: Progress, dress: Callable[[Mode], Mode]
) -> None:
    scale = plan.scale
    kinds: dict[str, Mode] = {
        "fifo": modes.fifo(scale),
        "opportunistic": modes.opportunistic(scale),
        "kill_newest": modes.kill_newest(scale),
        "las": modes.las(scale),
        "quicksilver": modes.quicksilver(scale),
    }
    for name in (name for name in MODES if name in plan.parts):
        mode, pace = dress(kinds[name]), workload.Pace(plan.heartbeat_s, plan.setup_s, plan.limit_s)
        with modes.running(mode, workdir, base_port, progress) as cluster:
            findings.alone[name] = workload.measure_alone(cluster, mode, scale, plan.alone, pace, progress)
            run = workload.measure(cluster, mode, findings.jobs, pace, progress)
        if not any(outcome.completion_s is not None for outcome in run.outcomes):
            raise workload.BenchError(f"no job finished: {run.outcomes[0].broken}", place=name)
        findings.runs[name] = run
        progress(line(name, findings.shown(name)))
    if GSTART in plan.parts:
        gstart.measure(scale, plan.g_starts, findings.starts, workdir, base_port, progress)


def line(name: str, shown: Mapping[str, Any]) -> str:
    """Return a mode's figures for people, with what failed."""
    lost = shown["containers"]
    failed = f"{shown['failed_jobs']} of {shown['jobs']} jobs failed"
    containers = ", ".join(f"{count} {kind}" for kind, count in lost.items())
    return (
        f"{name}: completion p50 {shown['completion_p50_s']} s, p99 {shown['completion_p99_s']} s; "
        f"slowdown p50 {shown['slowdown_p50']}; {failed}; containers: {containers}"
    )


def _parts(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in value.split(","))
    unknown = set(parts) - {*MODES, GSTART}
    if unknown:
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: not one of {', '.join((*MODES, GSTART))}")
    if "fifo" not in parts and parts != (GSTART,):
        raise click.BadParameter("fifo is needed: slowdowns are against jobs alone on stock YARN")
    return parts


@click.command()
@click.option("--quick", is_flag=True, help=f"{_QUICK_JOBS} jobs, each class once alone: 5 minutes per mode.")
@click.option("--jobs", default=100, show_default=True, type=click.IntRange(5), help="Jobs of the workload.")
@click.option("--seed", default=2018, show_default=True, help="Of order and arrivals.")
@click.option("--load", default=LOAD, show_default=True, type=click.FloatRange(0.1), help="Offered.")
@click.option("--parts", default=",".join(DEFAULT), show_default=True, callback=_parts, help="What to run.")
@click.option("--alone", type=click.IntRange(1), help="How often each class runs alone.  [default: 2; quick: 1]")
@click.option("--docker", is_flag=True, help="Run all tasks as Docker containers, with a daemon of its own.")
@click.option("--g-starts", default=40, show_default=True, type=click.IntRange(1), help="Guaranteed starts per mode.")
@click.option("--dir", "workdir", default="run/bench-las", show_default=True, type=click.Path(path_type=Path))
@results.folder_option
@click.option("--base-port", default=27000, show_default=True, help="First port of the clusters; 0: any free ones.")
def las(
    quick: bool,
    jobs: int,
    seed: int,
    load: float,
    parts: tuple[str, ...],
    alone: int | None,
    docker: bool,
    g_starts: int,
    workdir: Path,
    folder: Path,
    base_port: int,
) -> None:
    """Least attained service against stock YARN, with real containers on one node.

    The last line is one JSON object (lab/docs/benchmarks.md).
    """
    if docker:
        parts = tuple(part for part in parts if part != GSTART)  # its tasks are no containers of Docker's
    count, alone = (_QUICK_JOBS, alone or 1) if quick else (jobs, alone or 2)
    plan = LasPlan(parts, count, seed, load, alone=alone, g_starts=g_starts, docker=docker)
    progress = Progresses()
    about = {"machine": results.machine(), "commit": results.commit(), "settings": _settings(plan)}
    findings = LasResult(draw(plan.jobs, plan.scale, plan.seed, plan.load))
    progress(f"{len(findings.jobs)} jobs within {findings.jobs[-1].arrives_s:.0f} s")
    with interruptible():
        try:
            measure(plan, findings, workdir.absolute(), base_port or free_base_port(1), progress)
        except (QuicksilverError, HadoopRpcError, OSError, RuntimeError) as error:
            findings.broken = f"{type(error).__name__}: {error}"
            progress(f"error: {error}")
    _write(findings, "las-docker" if docker else "las", about, folder, progress)
    if findings.broken:
        sys.exit(1)


def _write(findings: LasResult, name: str, about: dict[str, Any], folder: Path, progress: Progress) -> None:
    """Write the result and its page; print it as one JSON object."""
    result = {"benchmark": name, **findings.result(), **about}
    path = results.write(name, result, findings.raw(), folder)
    progress(f"written to {path}")
    if findings.runs:
        progress(f"its page is {beside(path)}")
    click.echo(json.dumps(result))


def _settings(plan: LasPlan) -> dict[str, Any]:
    scale = plan.scale
    rows = list(zip(TABLE, counts(plan.jobs), strict=True))
    drawn = [row for row, count in rows for _ in range(count)]
    classes = {
        row.name: {
            "jobs": count,
            "maps": scale.small(row).maps,
            "reduces": scale.small(row).reduces,
            "task_s": round(scale.task_s(row), 3),
            "alone_s": round(scale.small(row).alone_s, 3),
        }
        for row, count in rows
    }
    las = modes.las_policies(scale)["preempt"]["settings"]
    return asdict(plan) | {"las": las, "mean_gap_s": round(gap_s(drawn, scale, plan.load), 3), "classes": classes}
