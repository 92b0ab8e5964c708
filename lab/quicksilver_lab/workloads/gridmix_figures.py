"""Figures of GridMix runs: runtime, percentiles of its jobs, containers by type, kills; and goals of two ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from quicksilver.report.model import Axis, Bars, Block, Page, Prose, ReportSection, ReportTable, Value
from quicksilver.report.stats import percentile
from quicksilver_lab.workloads.gridmix_run import GridmixOutcome
from quicksilver_lab.workloads.gridmix_site import GridmixSite
from quicksilver_lab.workloads.history import FinishedJob, parse_job
from quicksilver_lab.workloads.records import RecordTally
from quicksilver_lab.workloads.rest import eventually, get_json

PLAIN, QUICKSILVER = "plain", "quicksilver"
GOALS: Final[Mapping[str, float]] = {"SLEEPJOB": 0.8, "LOADJOB": 1.0}
"""The most that the runtime through quicksilver may be, as a share of plain YARN's, by type of job."""
_ROWS: Final = (
    ("runtime_s", "runtime, s"),
    ("job_p50_s", "job p50, s"),
    ("job_p95_s", "job p95, s"),
    ("job_mean_s", "job mean, s"),
    ("jobs", "jobs"),
    ("failed_jobs", "failed jobs"),
    ("guaranteed", "guaranteed containers"),
    ("queueable", "queueable containers"),
    ("killed_attempts", "killed attempts"),
    ("failed_attempts", "failed attempts"),
)


@dataclass(frozen=True, slots=True)
class GridmixRun:
    """One run of GridMix. runtime_s: from the first job's submission to the last one's end."""

    runtime_s: float
    job_p50_s: float | None
    job_p95_s: float | None
    job_mean_s: float | None
    jobs: int
    failed_jobs: int
    """Jobs of the trace that failed, were lost or not run."""
    guaranteed: int | None
    """Containers beside the masters; None where the daemons' logs are not at hand."""
    queueable: int | None
    killed_attempts: int
    failed_attempts: int
    simulation_s: int
    """By GridMix itself, with the time that it took to notice the end of the last job."""


def finished_jobs(site: GridmixSite, outcome: GridmixOutcome) -> list[FinishedJob]:
    """Return what the JobHistoryServer has of GridMix's jobs. Raises OutputError when it lacks one."""
    jobs = f"{site.history_rest}/ws/v1/history/mapreduce/jobs"

    def finished(job: str) -> FinishedJob:
        return eventually(f"history of {job}", lambda: parse_job(get_json(f"{jobs}/{job}", site.auth).get("job")))

    return [finished(job) for job, _ in outcome.outcomes.values()]


def figures(outcome: GridmixOutcome, jobs: list[FinishedJob], tallies: list[RecordTally] | None) -> GridmixRun:
    """Return the figures of a run; tallies: its containers, None where they are not known."""
    done = [job for job in jobs if job.state == "SUCCEEDED"]
    took_s = [(job.finished_ms - job.submitted_ms) / 1000 for job in done]
    granted = None if tallies is None else sum(tally.granted for tally in tallies)
    queueable = None if tallies is None else sum(tally.rm_opportunistic for tally in tallies)
    first_ms, last_ms = min((j.submitted_ms for j in jobs), default=0), max((j.finished_ms for j in jobs), default=0)
    return GridmixRun(
        runtime_s=round((last_ms - first_ms) / 1000, 2),
        job_p50_s=round(percentile(took_s, 50), 2) if took_s else None,
        job_p95_s=round(percentile(took_s, 95), 2) if took_s else None,
        job_mean_s=round(sum(took_s) / len(took_s), 2) if took_s else None,
        jobs=outcome.summary.in_trace,
        failed_jobs=outcome.summary.in_trace - min(len(done), outcome.summary.successful),
        guaranteed=None if granted is None or queueable is None else granted - queueable,
        queueable=queueable,
        killed_attempts=sum(job.killed_attempts for job in jobs),
        failed_attempts=sum(job.failed_attempts for job in jobs),
        simulation_s=outcome.summary.simulation_s,
    )


Ways = Mapping[str, Mapping[str, GridmixRun]]
"""By way, then by type of job."""


def as_json(ways: Ways) -> dict[str, Any]:
    """Return the runs as JSON knows them."""
    return {way: {kind: asdict(run) for kind, run in runs.items()} for way, runs in ways.items()}


def goals(ways: Ways) -> dict[str, dict[str, Any]]:
    """Return each goal that the runs allow to judge: its value, and whether it is met."""
    result: dict[str, dict[str, Any]] = {}
    plain, through = ways.get(PLAIN, {}), ways.get(QUICKSILVER, {})
    for kind, goal in GOALS.items():
        if kind in plain and kind in through and plain[kind].runtime_s:
            value = through[kind].runtime_s / plain[kind].runtime_s
            result[f"{kind.lower()}_runtime_ratio"] = {"value": round(value, 3), "goal": goal, "met": value <= goal}
    failed = sum(run.failed_jobs for runs in ways.values() for run in runs.values())
    return result | {"failed_jobs": {"value": failed, "goal": 0, "met": failed == 0}}


def table(ways: Ways, kind: str) -> ReportTable:
    """Return one type of job as a table: plain YARN, quicksilver, and their ratio, as far as they were run."""
    runs = {way: asdict(by_kind[kind]) for way, by_kind in ways.items() if kind in by_kind}
    rows: list[list[Value]] = []
    for key, label in _ROWS:
        values = [run[key] for run in runs.values()]
        ratio = round(values[1] / values[0], 3) if key.endswith("_s") and len(values) == 2 and all(values) else None
        rows.append([label, *values, *([ratio] if len(values) == 2 else [])])
    return ReportTable([kind, *runs, *(["ratio"] if len(runs) == 2 else [])], rows)


def page(ways: Ways, facts: list[tuple[str, str]]) -> Page:
    """Return the page: a table and bars for each type of job, and the goals."""
    kinds = list(dict.fromkeys(kind for runs in ways.values() for kind in runs))
    sections = [ReportSection(kind, [table(ways, kind), _bars(ways, kind)]) for kind in kinds]
    judged = [[name, entry["value"], entry["goal"], entry["met"]] for name, entry in goals(ways).items()]
    about = "A ratio is quicksilver's figure divided by plain YARN's; a goal is the most that it may be."
    goal: list[Block] = [Prose(about), ReportTable(["goal", "value", "at most", "met"], judged)]
    return Page("GridMix without and with quicksilver", facts, [ReportSection("Goals", goal), *sections])


def _bars(ways: Ways, kind: str) -> Bars:
    labels = ("runtime", "job p50", "job p95")
    series = [
        (way, [by_kind[kind].runtime_s, by_kind[kind].job_p50_s, by_kind[kind].job_p95_s])
        for way, by_kind in ways.items()
        if kind in by_kind
    ]
    return Bars(kind, Axis("seconds"), labels, series)
