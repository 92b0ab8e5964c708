"""bench-mercury's result as a page: goals, then each workload with its competitors, then what it cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from quicksilver.report.model import (
    Axis,
    Bars,
    Block,
    Lines,
    Page,
    Prose,
    ReportEstimate,
    ReportSection,
    ReportTable,
    Series,
    Value,
)
from quicksilver_lab.bench.emulator.model import RunResult
from quicksilver_lab.bench.emulator.raw import unpacked
from quicksilver_lab.bench.page import plain
from quicksilver_lab.bench.page.curves import classes, latency, queue_length, throughput, utilisation, wait
from quicksilver_lab.bench.page.verdict import in_short

_TABLE: Final = (
    ("tasks_per_s", "tasks/s"),
    ("jobs_per_s", "jobs/s"),
    ("latency_p50_s", "job latency p50, s"),
    ("latency_p95_s", "job latency p95, s"),
    ("wait_p50_s", "task wait p50, s"),
    ("utilisation", "utilisation"),
    ("kills", "kills"),
    ("kills_per_1000_tasks", "kills per 1,000 tasks"),
    ("work_lost_s", "work lost, s"),
)
_BARS: Final = (
    ("tasks_per_s", "Task throughput", "tasks per second"),
    ("latency_p95_s", "Job latency, p95", "seconds"),
    ("kills_per_1000_tasks", "Kills", "per 1,000 tasks"),
    ("work_lost_s_per_1000_tasks", "Work lost by kills", "seconds per 1,000 tasks"),
)
_TIME: Final = Axis("seconds of the run")

Figures = Mapping[str, Mapping[str, Any]]
"""By competitor, its figures on one workload."""
Runs = Mapping[str, Sequence[RunResult]]
"""By competitor, its runs of one workload."""


def _goals(result: Mapping[str, Any]) -> ReportSection:
    rows: list[list[Value]] = []
    for key, goal in result.get("goals", {}).items():
        rows.append(
            [
                f"`{key}`",
                goal["workload"],
                goal["ours"],
                goal["theirs"],
                goal["metric"],
                plain.value_of(goal),
                f"{'at most' if 'latency' in goal['metric'] else 'at least'} {goal['target']:g}",
                goal["met"],
                goal.get("ceiling"),
                goal.get("pairs"),
            ]
        )
    columns = ["key", "workload", "ours", "theirs", "metric", "ours / theirs", "goal", "met", "ceiling", "pairs"]
    counts = (
        f"{result.get('runs', 0)} runs; lost tasks: {result.get('lost_tasks')}, doubled: {result.get('doubled_tasks')}."
    )
    ratios = "Ratios are of runs of the same seed, with the 95 % interval where there are several."
    return ReportSection("Goals", [Prose(f"{counts} {ratios}"), ReportTable(columns, rows)])


def _set_up(result: Mapping[str, Any]) -> ReportSection:
    """Return what was run how often on which cluster, and what the competitors' names stand for."""
    blocks: list[Block] = [Prose(f"Not finished: {why}.") for why in result.get("broken", ())]
    parts = result.get("settings", {}).get("parts", [])
    sizes = list(dict.fromkeys(name for part in parts for name in part["size"]))
    rows = [[part["workload"], part["rounds"], *(part["size"].get(name) for name in sizes)] for part in parts]
    if rows:
        blocks.append(ReportTable(["workload", "rounds", *sizes], rows, "Plan"))
    notes = [[name, competitor["note"]] for name, competitor in result.get("competitors", {}).items()]
    return ReportSection(
        "Set-up", [*blocks, ReportTable(["competitor", "what"], notes, "Competitors")] if notes else blocks
    )


def _classes(figures: Figures) -> list[Block]:
    """Return jobs and latencies by class, where there is more than one."""
    entries = [
        (competitor, klass, entry)
        for competitor, by in figures.items()
        for klass, entry in by.get("classes", {}).items()
    ]
    if len({klass for _, klass, _ in entries}) < 2:
        return []
    rows = [
        [competitor, klass, entry["jobs"], entry["latency_p50_s"], entry["latency_p95_s"]]
        for competitor, klass, entry in entries
    ]
    return [ReportTable(["competitor", "class", "jobs", "latency p50, s", "latency p95, s"], rows, "By class of job")]


def _phases(figures: Figures) -> list[Block]:
    """Return where the time goes between two tasks in a slot."""
    rows = [{"competitor": competitor, **row["phases"]} for competitor, row in figures.items() if row.get("phases")]
    return [plain.rows_of(rows, "Where the time goes: means, and shares of the slots")] if rows else []


def bars(figures: Figures, drawn: Sequence[tuple[str, str, str]] = _BARS) -> list[Block]:
    """Return one plot of bars for each figure that is there. drawn: key, title and axis of each."""
    blocks: list[Block] = []
    for key, title, axis in drawn:
        values = [plain.value_of(row.get(key)) for row in figures.values()]
        tall = [value if isinstance(value, (int, float, ReportEstimate)) else None for value in values]
        if any(value is not None for value in tall):
            blocks.append(Bars(title, Axis(axis), list(figures), [("", tall)]))
    return blocks


def over_time(by_competitor: Runs) -> list[Block]:
    """Return throughput, utilisation and queue length over time."""

    def lines(title: str, y: Axis, curve: Callable[[str, Sequence[RunResult]], Series]) -> Lines:
        return Lines(title, _TIME, y, [curve(name, runs) for name, runs in by_competitor.items()])

    return [
        lines("Task throughput over time", Axis("tasks per second"), throughput),
        lines("Utilisation over time", Axis("share of slots", most=1.0), utilisation),
        lines("Containers that wait at nodes", Axis("containers"), queue_length),
    ]


def distributions(by_competitor: Runs, windowed: bool = True) -> list[Block]:
    """Return one plot of job latencies for each class, and one of the waits of tasks; see `curves.latency`."""
    share = Axis("share", most=1.0)
    blocks: list[Block] = []
    for klass in classes([run for runs in by_competitor.values() for run in runs]):
        lines = [line for name, runs in by_competitor.items() if (line := latency(name, runs, klass, windowed))]
        if lines:
            blocks.append(Lines(f"Job latency, {klass}", Axis("seconds", log=True), share, lines, step=True))
    waits = [line for name, runs in by_competitor.items() if (line := wait(name, runs, windowed))]
    return (
        [*blocks, Lines("Task wait, wanted to started", Axis("seconds"), share, waits, step=True)] if waits else blocks
    )


def _workload(name: str, figures: Figures, runs: Sequence[RunResult]) -> ReportSection:
    rows = [[competitor, *(plain.value_of(row.get(key)) for key, _ in _TABLE)] for competitor, row in figures.items()]
    blocks: list[Block] = [ReportTable(["competitor", *(label for _, label in _TABLE)], rows), *_classes(figures)]
    blocks += _phases(figures) + bars(figures)
    mine = [run for run in runs if run.workload == name]
    by_competitor = {
        competitor: repeated
        for competitor in figures
        if (repeated := [run for run in mine if run.competitor == competitor])
    }
    if by_competitor:
        blocks += over_time(by_competitor) + distributions(by_competitor)
    return ReportSection(f"Workload {name}", blocks)


def costs(workloads: Mapping[str, Figures]) -> list[ReportSection]:
    """Return a table of CPU in cores and memory in MB by process, by workload and competitor."""
    rows: list[list[Value]] = []
    names = ("rm", "proxy", "emulator")
    for workload, figures in workloads.items():
        for competitor, row in figures.items():
            costs = [row.get(kind, {}).get(name) for kind in ("cpu_ratio", "rss_mb") for name in names]
            rows.append([workload, competitor, *costs])
    columns = ["workload", "competitor", *(f"{name}, cores" for name in names), *(f"{name}, MB" for name in names)]
    return [ReportSection("CPU and memory", [ReportTable(columns, rows)])] if rows else []


def read(result: Mapping[str, Any]) -> Page:
    """Return the page of a result; plots over time and of distributions are of `raw.runs`."""
    runs = [unpacked(run) for run in result.get("raw", {}).get("runs", [])]
    workloads: Mapping[str, Figures] = result.get("workloads", {})
    sections = [_workload(name, figures, runs) for name, figures in workloads.items()]
    return Page(
        "bench-mercury",
        plain.facts(result),
        [*in_short(result), _goals(result), _set_up(result), *sections, *costs(workloads)],
    )
