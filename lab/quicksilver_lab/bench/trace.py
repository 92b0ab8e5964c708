"""`quicksilver bench trace`: a trace of one's own jobs on the emulated cluster, under several competitors."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import click
import uvloop

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.logs import configure_logs
from quicksilver.simulator.traces.formats.dynoyarn import write_dynoyarn
from quicksilver.simulator.traces.formats.registry import read_specs
from quicksilver.simulator.traces.lines import Mistakes, TraceError
from quicksilver_lab.bench import results, sizes
from quicksilver_lab.bench.emulator.jobs import WARM, WARM_S, Scaling, scaled, warmed
from quicksilver_lab.bench.emulator.model import JobRecord, JobSpec, RunResult, TaskRecord
from quicksilver_lab.bench.emulator.nodes.nodes import host_of
from quicksilver_lab.bench.emulator.raw import packed
from quicksilver_lab.bench.emulator.run import RunSpec, run
from quicksilver_lab.bench.harm import harm, sentence
from quicksilver_lab.bench.las.run import interruptible
from quicksilver_lab.bench.mercury.competitors import BY_NAME, sections_of
from quicksilver_lab.bench.mercury.plan import ClusterSize, Step
from quicksilver_lab.bench.mercury.step import TASK_MB, spec
from quicksilver_lab.bench.page.pages import beside
from quicksilver_lab.bench.policies.effects import share
from quicksilver_lab.bench.stats import percentile

_PORTS: Final = 22000
_JOBS_LIMIT: Final = 100_000
_DEFAULT: Final = "only_g_tuned,quicksilver_only_q"
_COMPARED: Final = (
    "makespan_s",
    "latency_mean_s",
    "latency_p50_s",
    "latency_p95_s",
    "latency_p99_s",
    "wait_mean_s",
    "wait_p50_s",
    "wait_p95_s",
)
_LOSSES: Final = ("kills", "work_lost_s", "work_lost_ratio")


def planned(name: str, competitor: str, jobs: Sequence[JobSpec], size: ClusterSize, base_port: int) -> RunSpec:
    """Return how one competitor runs jobs that were warmed, each of which comes when it arrives."""
    base = spec(Step("micro", competitor, 1, size), base_port)  # whose nodes are alike
    return replace(
        base,
        workload=name,
        concurrent=None,
        warm_s=WARM_S,
        window_s=jobs[-1].arrives_s - WARM_S + 1.0,
        drain_s=size.drain_s,
    )


def counted(run: RunResult) -> list[JobRecord]:
    """Return the jobs that count: all but the first ones of class WARM."""
    return [job for job in run.jobs if job.klass != WARM]


def summary(result: RunResult) -> dict[str, Any]:
    """Return one run's figures, times in seconds: all jobs but the first ones of class WARM count."""
    jobs = counted(result)
    ended = [job for job in jobs if job.ended_s is not None]
    tasks = [task for job in jobs for task in job.tasks if task.ended_s is not None]
    figures: dict[str, Any] = {
        "jobs": len(ended),
        "tasks": len(tasks),
        **{name: result.counts.get(name, 0) for name in ("lost", "doubled", "failed_jobs")},
        "kills": result.kills,
        "work_lost_s": result.work_lost_s,
        "work_lost_ratio": round(share(result.work_lost_s, sum(job.work_s for job in result.jobs)), 4),
        "opportunistic_ratio": round(share(sum(task.opportunistic for task in tasks), len(tasks)), 4),
        "cpu_s": result.cpu_s,
        "rss_mb": result.rss_mb,
    }
    if ended:
        from_s = min(job.submitted_s for job in jobs)
        to_s = max(job.ended_s or 0.0 for job in ended)
        used = [sample.used_slots for sample in result.samples if from_s <= sample.at_s <= to_s]
        figures["makespan_s"] = round(to_s - from_s, 3)
        figures["utilisation"] = round(fmean(used) / result.slots, 4) if used else 0.0
        figures |= sizes.latencies(ended) | sizes.classes(ended)
        figures["classes"] = {
            klass: sizes.latencies([job for job in ended if job.klass == klass])
            for klass in sorted({job.klass for job in ended})
        }
    return figures | _waits([_wait_s(task) for task in tasks if task.started_s is not None])


def _wait_s(task: TaskRecord) -> float:
    return (task.started_s or 0.0) - task.wanted_s


def _waits(waits_s: Sequence[float]) -> dict[str, float]:
    if not waits_s:
        return {}
    spread = {f"wait_p{q}_s": round(percentile(waits_s, q), 3) for q in (50, 95, 99)}
    return {"wait_mean_s": round(fmean(waits_s), 3)} | spread


def ratios(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return another competitor's times by those of the first one, where both have them.

    `sizes` and `work` have the ratios of the mean latency by class; beside them stands what the other one lost.
    """
    result: dict[str, Any] = {
        name.replace("_s", "_ratio"): round(second[name] / first[name], 4)
        for name in _COMPARED
        if first.get(name) and name in second
    }
    for group in ("sizes", "work"):
        if group in first and group in second:
            result[group] = sizes.mean_ratios(first[group], second[group])
    return result | {name: second[name] for name in _LOSSES if name in second}


def harms(runs: Sequence[RunResult]) -> dict[str, dict[str, Any]]:
    """Return, by competitor of quicksilver and by stock competitor, how single jobs fared (`harm.harm`)."""
    candidates, stock = ([run for run in runs if BY_NAME[run.competitor].quicksilver == own] for own in (True, False))
    return {
        run.competitor: {rival.competitor: figures for rival in stock if (figures := harm([rival], [run], counted))}
        for run in candidates
    }


def _listed(_context: click.Context, _parameter: click.Parameter, value: str) -> list[str]:
    names = list(dict.fromkeys(word.strip() for word in value.split(",") if word.strip()))
    unknown = [name for name in names if name not in BY_NAME]
    if unknown or not names:
        raise click.BadParameter(f"{', '.join(unknown) or 'none'}: choose from {', '.join(BY_NAME)}")
    return names


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--competitors", default=_DEFAULT, show_default=True, callback=_listed, help="With commas, one by one.")
@click.option("--nodes", default=64, show_default=True, type=click.IntRange(1, 1000))
@click.option("--cores", default=4, show_default=True, type=click.IntRange(1, 128), help="Slots of each node.")
@click.option("--skip", is_flag=True, help="Leave broken jobs out and count them, instead of stopping.")
@click.option("--first", type=click.IntRange(1), help="So many jobs.  [default: all]")
@click.option("--speed", default=1.0, show_default=True, help="Arrivals come so many times as fast.")
@click.option("--times", default=1.0, show_default=True, help="Tasks take so many times as long.")
@click.option("--most-tasks", type=click.IntRange(1), help="Of a job; a wider one keeps so many.  [default: all]")
@click.option("--most-s", type=float, help="A task takes so long at most.")
@click.option("--memory-mb", default=TASK_MB, show_default=True, help=f"Of each container; a slot has {TASK_MB} MB.")
@click.option("--local", is_flag=True, help="Input lies on hosts, where the trace names any.")
@click.option(
    "--drain", "drain_s", default=600.0, show_default=True, help="After the last arrival all must end within."
)
@click.option(
    "--write", "copy", type=click.Path(path_type=Path), help="Write the fitted jobs as DynoYARN's lines; run none."
)
@click.option("--dir", "workdir", default="run/bench-trace", show_default=True, type=click.Path(path_type=Path))
@click.option("--base-port", default=_PORTS, show_default=True, help="First port.")
@click.option(
    "--results", "folder", default=results.RESULTS, type=click.Path(path_type=Path), help="Folder of the result file."
)
def trace(
    file: Path,
    competitors: list[str],
    nodes: int,
    cores: int,
    skip: bool,
    first: int | None,
    speed: float,
    times: float,
    most_tasks: int | None,
    most_s: float | None,
    memory_mb: int,
    local: bool,
    drain_s: float,
    copy: Path | None,
    workdir: Path,
    base_port: int,
    folder: Path,
) -> None:
    """Run the jobs of a trace (lab/docs/traces.md) on an emulated cluster, once under each competitor.

    The last line is one JSON object (lab/docs/benchmarks.md).
    """
    hosts = tuple(host_of(number) for number in range(nodes)) if local else ()
    try:
        fit = Scaling(first, speed, times, most_tasks, most_s, memory_mb, "default", hosts)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    jobs = _jobs(file, fit, Mistakes(skip=skip))
    if copy is not None:
        click.echo(json.dumps({"jobs": write_dynoyarn(jobs, copy), "file": str(copy)}))
        return
    size = replace(ClusterSize(), nodes=nodes, cores=cores, drain_s=drain_s)
    try:
        with interruptible():
            result, runs = _compared(file.name, competitors, jobs, size, workdir.absolute(), base_port)
    except QuicksilverError as error:
        raise click.ClickException(str(error)) from error
    settings = {"file": file.name, "nodes": nodes, "cores": cores, "first": first, "speed": speed, "times": times}
    result["settings"] = settings | {"most_tasks": most_tasks, "most_s": most_s, "memory_mb": memory_mb}
    _finish(result, runs, folder)


def _finish(result: Mapping[str, Any], runs: Sequence[RunResult], folder: Path) -> None:
    """Write the result and its page, print it; exit with code 1 when tasks were lost or done twice."""
    path = results.write("trace", result, {"runs": [packed(run) for run in runs]}, folder)
    for competitor, others in result["harm"].items():
        for rival, figures in others.items():
            click.echo(sentence(competitor, rival, figures), err=True)
    click.echo(f"written to {path}", err=True)
    click.echo(json.dumps(result))
    click.echo(f"page: {beside(path)}", err=True)
    if any(row["lost"] or row["doubled"] for row in result["competitors"].values()):
        sys.exit(1)


def _jobs(file: Path, fit: Scaling, mistakes: Mistakes) -> list[JobSpec]:
    """Return the jobs of a trace as fitted, by arrival. Raises ClickException."""
    try:
        jobs = list(islice(scaled(read_specs(file, mistakes=mistakes), fit), _JOBS_LIMIT + 1))
    except TraceError as error:
        raise click.ClickException(str(error)) from error
    for line in mistakes.words():
        click.echo(line, err=True)
    if len(jobs) > _JOBS_LIMIT:
        raise click.ClickException(f"{file}: more than {_JOBS_LIMIT} jobs; take fewer with --first")
    return jobs


def _compared(
    name: str, competitors: Sequence[str], jobs: Sequence[JobSpec], size: ClusterSize, workdir: Path, base_port: int
) -> tuple[dict[str, Any], list[RunResult]]:
    """Run all competitors one after the other; return result and runs.

    Raises QuicksilverError, OSError, RuntimeError.
    """
    began_s = time.monotonic()
    configure_logs(level="warning")  # a sidecar tells of each container
    tasks = [task for job in jobs for task in job.tasks]
    offered = {"jobs": len(jobs), "tasks": len(tasks), "work_s": round(sum(task.runs_s for task in tasks), 1)}
    summaries: dict[str, dict[str, Any]] = {}
    runs: list[RunResult] = []
    for competitor in competitors:
        click.echo(f"[{time.monotonic() - began_s:6.1f} s] {competitor}: {json.dumps(offered)}", err=True)
        later = warmed(jobs)
        planning = planned(name, competitor, later, size, base_port)
        shutil.rmtree(workdir / competitor, ignore_errors=True)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runs.append(runner.run(run(planning, later, workdir / competitor)))
        summaries[competitor] = summary(runs[-1])
        shutil.rmtree(workdir / competitor, ignore_errors=True)
    base = summaries[competitors[0]]
    result = {
        "benchmark": "trace",
        "offered": offered | {"window_s": round(jobs[-1].arrives_s, 1)},
        "competitors": summaries,
        "ratios": {rival: ratios(base, summaries[rival]) for rival in competitors[1:]},
        "harm": harms(runs),
        "policies": sections_of(competitors),
        "machine": results.machine(),
        "commit": results.commit(),
    }
    return result, runs


if __name__ == "__main__":
    trace()
