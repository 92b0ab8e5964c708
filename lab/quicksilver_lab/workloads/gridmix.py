"""GridMix on the same trace without and with quicksilver, compared.

`python -m quicksilver_lab.workloads.gridmix` makes a history and a Rumen trace of it on a local cluster, then runs
GridMix's sleep jobs and load jobs on plain YARN and through proxy and sidecars. `--conf-dir` uses a running cluster.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from quicksilver.report import files
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.markdown import table as as_text
from quicksilver_lab.workloads.clients import Progress
from quicksilver_lab.workloads.environment import (
    PRESET,
    Environment,
    Progresses,
    Where,
    finish,
    interruptible,
    one_line_errors,
    policies_of,
    running,
    where_options,
)
from quicksilver_lab.workloads.errors import OutputError, WorkloadError
from quicksilver_lab.workloads.gridmix_figures import (
    PLAIN,
    QUICKSILVER,
    GridmixRun,
    as_json,
    figures,
    finished_jobs,
    goals,
    page,
    table,
)
from quicksilver_lab.workloads.gridmix_run import JOB_TYPES, MOST_JOBS, POLICIES, GridmixPlan, make_history, run_at
from quicksilver_lab.workloads.gridmix_site import LocalSite, RunningSite
from quicksilver_lab.workloads.records import RecordsWatch
from quicksilver_lab.workloads.rumen import make_trace, read_trace

Runs = dict[str, dict[str, GridmixRun]]
RESULT: Final = "result.json"


@dataclass(frozen=True, slots=True)
class GridmixRequest:
    """What to run. trace: None for one of a history of its own."""

    plan: GridmixPlan
    kinds: tuple[str, ...]
    trace: Path | None


def local(where: Where, request: GridmixRequest) -> tuple[Runs, Path]:
    """Run everything on a local cluster: plain YARN first, then, unless `where.plain`, with quicksilver dropped in."""
    plain = replace(where, plain=True, keep=where.keep and where.plain)
    runs: Runs = {}
    with running(plain) as env:
        trace = request.trace or _own_trace(env, request.plan.jobs)
        plan = replace(request.plan, trace_queues=_has_queues(trace, env.cluster.spec.queues))
        runs[PLAIN] = _each_kind(env, plan, request.kinds, trace)
        if not where.plain:
            env.progress("dropping quicksilver in: restarting YARN with the overlays of hadoop-conf/")
            env.cluster.restart_yarn(overlay=True)
            vcores = {"vcores": env.cluster.spec.node_vcores}  # as many as YARN counts, whatever this machine has
            stack = LocalDaemons(env.cluster, policies_of(where.route), sidecar=vcores)
            stack.start(env.progress)
            try:
                runs[QUICKSILVER] = _each_kind(replace(env, stack=stack), plan, request.kinds, trace)
                if where.keep:
                    _keep(env)
            finally:
                stack.stop()
    return runs, trace


def _keep(env: Environment) -> None:
    env.progress(f"left running; RM {env.cluster.rm_rest}, HADOOP_CONF_DIR={env.cluster.conf_dir}; Ctrl-C ends it")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        return


def _own_trace(env: Environment, jobs: int) -> Path:
    return make_trace(env.cluster, [job.job_id for job in make_history(env, jobs)], env.progress)


def _has_queues(trace: Path, queues: Mapping[str, int]) -> bool:
    return {job.queue for job in read_trace(trace)} <= queues.keys()


def _each_kind(env: Environment, plan: GridmixPlan, kinds: Sequence[str], trace: Path) -> dict[str, GridmixRun]:
    site, runs = LocalSite(env.cluster), {}
    for kind in kinds:
        with RecordsWatch(env.cluster) as watch:
            outcome = run_at(site, replace(plan, job_type=kind), trace, env.progress)
            jobs = finished_jobs(site, outcome)
            tallies = [watch.tally(job.id.replace("job_", "application_")) for job in jobs]
        runs[kind] = figures(outcome, jobs, tallies)
        env.progress(f"{env.how}, {kind}: {runs[kind].runtime_s:.1f} s")
    return runs


def on_running(site: RunningSite, request: GridmixRequest, trace: Path, before: Runs, progress: Progress) -> Runs:
    """Run GridMix on a cluster that runs, as it is; before: the runs of an earlier result, to compare with.

    What runs now counts as quicksilver where there is something before, otherwise as plain YARN.
    """
    runs = {}
    for kind in request.kinds:
        plan = replace(request.plan, job_type=kind, trace_queues=False)
        outcome = run_at(site, plan, trace, progress)
        runs[kind] = figures(outcome, finished_jobs(site, outcome), None)
        progress(f"{kind}: {runs[kind].runtime_s:.1f} s")
    return {**before, QUICKSILVER if before else PLAIN: runs}


def read_before(file: Path) -> Runs:
    """Return the runs on plain YARN of an earlier result. Raises WorkloadError for a file that has none."""
    try:
        runs = json.loads(file.read_text())["ways"][PLAIN]
        return {PLAIN: {kind: GridmixRun(**run) for kind, run in runs.items()}}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WorkloadError(
            f"no result of GridMix on plain YARN: {error!r}",
            place=str(file),
            remedy=f"name the {RESULT} of a run before quicksilver was installed",
        ) from error


def checked(trace: Path | None, conf_dir: Path | None, against: Path | None, plain: bool) -> int | None:
    """Return how many jobs a given trace has, None without one. Raises WorkloadError for options that do not fit."""
    if conf_dir is not None and trace is None:
        raise WorkloadError(
            "a running cluster needs a trace",
            place="--conf-dir",
            remedy="give --trace FILE, of Rumen's TraceBuilder; `make gridmix` leaves one in run/gridmix/rumen",
        )
    if conf_dir is None and against is not None:
        raise WorkloadError(
            "only runs of one cluster compare", place="--against", remedy="give --conf-dir, too, or leave it out"
        )
    if conf_dir is not None and plain:
        raise WorkloadError(
            "a running cluster is used as it is", place="--plain", remedy="leave it out: without --against it is plain"
        )
    if trace is None:
        return None
    try:
        jobs = len(read_trace(trace))
    except UnicodeDecodeError as error:
        raise OutputError("it is no text", place=str(trace), remedy="unpack the trace") from error
    if not jobs:
        raise OutputError("no job is in it", place=str(trace), remedy="give a trace of Rumen's TraceBuilder")
    return jobs


def _facts(request: GridmixRequest, trace: Path, conf_dir: Path | None) -> list[tuple[str, str]]:
    cluster = "a local cluster of 3 nodes" if conf_dir is None else f"the cluster of `{conf_dir}`"
    return [("cluster", cluster), ("trace", f"`{trace.name}`"), ("GridMix", f"policy {request.plan.policy}")]


@click.command()
@where_options("gridmix", route=PRESET)
@click.option("--jobs", type=click.IntRange(1, MOST_JOBS), default=6, show_default=True, help="Of the own history.")
@click.option("--policy", type=click.Choice(POLICIES), default="STRESS", show_default=True, help="When jobs come.")
@click.option("--job-type", type=click.Choice([*JOB_TYPES, "both"]), default="both", show_default=True)
@click.option("--data-mb", type=click.IntRange(0), default=2, show_default=True, help="Input that GridMix makes.")
@click.option("--trace", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A trace of Rumen's.")
@click.option("--conf-dir", type=click.Path(file_okay=False, path_type=Path), help="Use the cluster that runs there.")
@click.option("--against", type=click.Path(path_type=Path), help="With --conf-dir: an earlier result on plain YARN.")
@one_line_errors
def main(
    where: Where,
    jobs: int,
    policy: str,
    job_type: str,
    data_mb: int,
    trace: Path | None,
    conf_dir: Path | None,
    against: Path | None,
) -> None:
    """Run GridMix on one trace without and with quicksilver; exit code 1 unless all jobs succeed."""
    started_s = time.monotonic()
    job_count = checked(trace, conf_dir, against, where.plain)
    kinds = ("SLEEPJOB", "LOADJOB") if job_type == "both" else (job_type,)
    request = GridmixRequest(GridmixPlan(job_count or jobs, policy, kinds[0], data_mb), kinds, trace)
    if conf_dir is not None and trace is not None:
        site = RunningSite(conf_dir, where.workdir.absolute())
        with interruptible():
            runs = on_running(site, request, trace, read_before(against) if against else {}, Progresses())
        used = trace
    else:
        runs, used = local(where, request)
    facts = _facts(request, used, conf_dir)
    _report(where.workdir, runs, facts, {"policy": policy, "wall_s": round(time.monotonic() - started_s, 1)})


def _report(workdir: Path, runs: Runs, facts: list[tuple[str, str]], more: Mapping[str, Any]) -> None:
    workdir.mkdir(parents=True, exist_ok=True)
    result = {"workload": "gridmix", **more, "ways": as_json(runs), "goals": goals(runs)}
    (workdir / RESULT).write_text(json.dumps(result, indent=1))
    drawn = files.write(page(runs, facts), workdir / "gridmix.html")
    for kind in dict.fromkeys(kind for by_kind in runs.values() for kind in by_kind):
        click.echo(as_text(table(runs, kind)) + "\n")
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"page: {drawn.absolute().as_uri()}")
    finish(result, result["goals"]["failed_jobs"]["met"])


if __name__ == "__main__":
    main()
