"""The page of a plan's result: goals, then each mix with its competitors beside the bound.

Results of the time before plans, whose `benchmark` is "mixes", have the same keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from quicksilver_lab.bench.page.verdict import compared, harm_table, harmed, in_short, losses

_TABLE: Final = (
    ("latency_mean_s", "job latency mean, s"),
    ("latency_p50_s", "p50, s"),
    ("latency_p95_s", "p95, s"),
    ("latency_p99_s", "p99, s"),
    ("short_p50_s", "shorter half p50, s"),
    ("short_p95_s", "shorter half p95, s"),
    ("wide_mean_s", "widest tenth mean, s"),
    ("wait_mean_s", "task wait mean, s"),
    ("wait_p95_s", "p95, s"),
    ("makespan_s", "makespan, s"),
    ("tasks_per_s", "tasks/s"),
    ("utilisation", "utilisation"),
    ("opportunistic_ratio", "opportunistic"),
    ("kills", "kills"),
    ("work_lost_s", "work lost, s"),
)
_WINDOW: Final = (
    ("tasks_per_s", "tasks/s"),
    ("jobs_per_s", "jobs/s"),
    ("latency_p50_s", "job latency p50, s"),
    ("latency_p95_s", "job latency p95, s"),
    ("wait_p50_s", "task wait p50, s"),
    ("utilisation", "utilisation"),
    ("kills_per_1000_tasks", "kills per 1,000 tasks"),
    ("work_lost_s_per_1000_tasks", "work lost, s per 1,000 tasks"),
    ("late_s", "samples late, s"),
)
_BARS: Final = (
    ("makespan_s", "Makespan", "seconds"),
    ("latency_mean_s", "Job latency, mean", "seconds"),
    ("latency_p95_s", "Job latency, p95", "seconds"),
    ("wait_p95_s", "Task wait, p95", "seconds"),
    ("kills", "Kills", "containers"),
)
_WINDOW_BARS: Final = (
    ("tasks_per_s", "Task throughput", "tasks per second"),
    ("latency_p95_s", "Job latency within the window, p95", "seconds"),
    ("kills_per_1000_tasks", "Kills by tasks", "per 1,000 tasks"),
    ("work_lost_s_per_1000_tasks", "Work lost by kills", "seconds per 1,000 tasks"),
)
_CLASSES: Final = (("sizes", "number of tasks"), ("work", "tasks x duration"), ("classes", "kind"))
_PROCESSES: Final = ("rm", "proxy", "emulator")
_TIME: Final = Axis("seconds of the run")

Figures = Mapping[str, Mapping[str, Any]]
"""By competitor, its figures on one mix."""
Runs = Mapping[str, Sequence[RunResult]]
"""By competitor, its runs of one mix."""


def _goals(result: Mapping[str, Any]) -> ReportSection:
    goals = result.get("goals", {})
    more = [key for key in ("ours", "theirs", "ceiling", "pairs") if any(key in goal for goal in goals.values())]
    rows: list[list[Value]] = [
        [
            f"`{name}`",
            plain.value_of({key: goal[key] for key in ("value", "ci_low", "ci_high") if key in goal}),
            f"at {'most' if goal['at_most'] else 'least'} {goal['goal']:g}",
            goal["met"],
            *(goal.get(key) for key in more),
        ]
        for name, goal in goals.items()
    ]
    text = (
        f"Of {result.get('ours')}; {result.get('runs', 0)} runs; lost tasks: {result.get('lost_tasks')}, doubled: "
        f"{result.get('doubled_tasks')}. Ratios are of runs of the same seed, with the 95 % interval where there are "
        "several. A gain is the share of what lies between the best stock competitor and the bound."
    )
    broken = [Prose(f"Not finished: {why}.") for why in result.get("broken", ())]
    return ReportSection("Goals", [Prose(text), *broken, ReportTable(["goal", "value", "aim", "met", *more], rows)])


def _competitors(result: Mapping[str, Any]) -> ReportSection:
    notes = result.get("notes") or {name: entry["note"] for name, entry in result.get("competitors", {}).items()}
    return ReportSection("Competitors", [ReportTable(["competitor", "what"], [[*row] for row in notes.items()])])


def _table(figures: Figures, columns: Sequence[tuple[str, str]], title: str = "") -> ReportTable:
    """Return competitors as rows; columns that none of them has are left out."""
    own = [(key, label) for key, label in columns if any(row.get(key) is not None for row in figures.values())]
    rows = [[competitor, *(plain.value_of(row.get(key)) for key, _ in own)] for competitor, row in figures.items()]
    return ReportTable(["competitor", *(label for _, label in own)], rows, title)


def _figures(figures: Figures) -> list[Block]:
    """Return competitors as rows, their classes, their windows, and what they cost."""
    blocks: list[Block] = [_table(figures, _TABLE)]
    for key, title in _CLASSES:
        blocks += _by_class(figures, key, f"By {title}")
    for key, title in (("latency_s", "Completion time by percentile, s"), ("slowdown", "Slowdown by percentile")):
        curves = [
            {"competitor": competitor, **row["cdf"][key]} for competitor, row in figures.items() if row.get("cdf")
        ]
        blocks += [plain.rows_of(curves, title)] if curves else []
    return blocks + _windows(_of_window(figures)) + _costs(figures)


def _of_window(figures: Figures) -> Figures:
    return {competitor: row["window"] for competitor, row in figures.items() if "window" in row}


def _by_class(figures: Figures, key: str, title: str) -> list[Block]:
    names = dict.fromkeys(klass for row in figures.values() for klass in row.get(key, {}))
    rows = [
        {"class": klass, "competitor": competitor, **row[key][klass]}
        for klass in names
        for competitor, row in figures.items()
        if klass in row.get(key, {})
    ]
    return [plain.rows_of(rows, title)] if rows else []


def _windows(windows: Figures) -> list[Block]:
    """Return what ended within the window of closed mixes, and where the time goes between two tasks in a slot."""
    if not windows:
        return []
    phases = [{"competitor": competitor, **row["phases"]} for competitor, row in windows.items() if row.get("phases")]
    where = [plain.rows_of(phases, "Where the time goes: means, and shares of the slots")] if phases else []
    title = "What ended within the window"
    return [_table(windows, _WINDOW, title), *_by_class(windows, "classes", f"{title}, by kind"), *where]


def _costs(figures: Figures) -> list[Block]:
    kinds = (("cpu_s", "CPU s"), ("rss_mb", "MB"), ("cpu_ratio", "cores"))
    used = {name: row | row.get("window", {}) for name, row in figures.items() if "heartbeats" in row}
    own = [(kind, unit) for kind, unit in kinds if any(kind in row for row in used.values())]
    rows: list[list[Value]] = [
        [name, row["heartbeats"], *(row.get(kind, {}).get(process) for kind, _ in own for process in _PROCESSES)]
        for name, row in used.items()
    ]
    columns = ["competitor", "masters' heartbeats", *(f"{name}, {unit}" for _, unit in own for name in _PROCESSES)]
    return [ReportTable(columns, rows, "CPU and memory")] if rows else []


def _against_first(ratios: Mapping[str, Mapping[str, Any]], first: str) -> list[Block]:
    """Return the ratios to the first competitor."""
    rows = [{"competitor": competitor, **row} for competitor, row in ratios.items()]
    blocks: list[Block] = [plain.rows_of(rows, f"Ratios to {first}")] if rows else []
    for key, title in _CLASSES[:2]:
        own = [{"competitor": competitor, **row[key]} for competitor, row in ratios.items() if row.get(key)]
        blocks += [plain.rows_of(own, f"Ratios of the mean latency to {first}, by {title}")] if own else []
    return blocks


def _compared(by_competitor: Figures) -> list[Block]:
    """Return, for each competitor of quicksilver, the best stock one, ratio, bound and gain by metric, and classes."""
    rows: list[list[Value]] = [
        [
            competitor,
            metric,
            comparison["best_stock"],
            plain.value_of({key: comparison[key] for key in ("ratio", "ci_low", "ci_high") if key in comparison}),
            comparison["value"],
            comparison["stock"],
            comparison["bound"],
            comparison.get("gain"),
        ]
        for competitor, metrics in by_competitor.items()
        for metric, comparison in metrics.items()
        if "best_stock" in comparison
    ]
    columns = ["competitor", "metric", "best stock", "ratio", "value", "stock", "bound", "gain"]
    blocks: list[Block] = [ReportTable(columns, rows, "Against the best stock competitor")] if rows else []
    each = [
        {"competitor": competitor, "to": rival, **ratios}
        for competitor, metrics in by_competitor.items()
        for rival, ratios in metrics.get("each", {}).items()
    ]
    blocks += [plain.rows_of(each, "Ratios to each of the others")] if each else []
    for key, title in _CLASSES:
        own = [
            {"competitor": competitor, **metrics[key]}
            for competitor, metrics in by_competitor.items()
            if metrics.get(key)
        ]
        blocks += [plain.rows_of(own, f"Ratios of the mean latency to the best stock one, by {title}")] if own else []
    return blocks + harm_table(_harm(by_competitor))


def _harm(by_competitor: Figures) -> dict[str, Mapping[str, Any]]:
    return {competitor: metrics.get("harm", {}) for competitor, metrics in by_competitor.items()}


def _bars(figures: Figures, drawn: Sequence[tuple[str, str, str]]) -> list[Block]:
    """Return one plot of bars for each figure that is there. drawn: key, title and axis of each."""
    blocks: list[Block] = []
    for key, title, axis in drawn:
        values = [plain.value_of(row.get(key)) for row in figures.values()]
        tall = [value if isinstance(value, (int, float, ReportEstimate)) else None for value in values]
        if any(value is not None for value in tall):
            blocks.append(Bars(title, Axis(axis), list(figures), [("", tall)]))
    return blocks


def _over_time(by_competitor: Runs) -> list[Block]:
    """Return throughput, utilisation and queue length over time."""

    def lines(title: str, y: Axis, curve: Callable[[str, Sequence[RunResult]], Series]) -> Lines:
        return Lines(title, _TIME, y, [curve(name, runs) for name, runs in by_competitor.items()])

    return [
        lines("Task throughput over time", Axis("tasks per second"), throughput),
        lines("Utilisation over time", Axis("share of slots", most=1.0), utilisation),
        lines("Containers that wait at nodes", Axis("containers"), queue_length),
    ]


def _distributions(by_competitor: Runs, windowed: bool) -> list[Block]:
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


def _mix(name: str, mix: Mapping[str, Any], runs: Iterable[RunResult]) -> ReportSection:
    blocks: list[Block] = [Prose(f"{mix['about'][0].upper()}{mix['about'][1:]}.")]
    for key, title in (("size", "Cluster"), ("offered", "Offered")):
        blocks += plain.blocks(mix.get(key, {}), title)
    figures: Figures = mix.get("competitors", {})
    if figures:
        blocks += [*_figures(figures), *_against_first(mix.get("ratios", {}), next(iter(figures)))]
        blocks += [*_compared(mix.get("compared", {})), *_bars(figures, _BARS)]
        blocks += _bars(_of_window(figures), _WINDOW_BARS)
    if mix.get("ceilings"):
        blocks += plain.blocks(mix["ceilings"], "No scheduler exceeds")
    if mix.get("guarantees"):
        blocks += plain.blocks(mix["guarantees"], "Less than on stock YARN, the worst 30 s; longer waits, s")
    by_competitor: dict[str, list[RunResult]] = {}
    for run in runs:
        by_competitor.setdefault(run.competitor, []).append(run)
    blocks += _over_time(by_competitor) + _distributions(by_competitor, not mix["open"]) if by_competitor else []
    return ReportSection(f"Mix {name}", blocks)


def _sentences(result: Mapping[str, Any]) -> list[str]:
    """Return how quicksilver did on each mix against the best stock competitor of each metric, and what was killed."""
    sentences = []
    for name, mix in result.get("mixes", {}).items():
        own = [
            compared(competitor, f"the best stock scheduler on {name}", metrics)
            for competitor, metrics in mix.get("compared", {}).items()
        ]
        own += harmed(_harm(mix.get("compared", {})), f" on {name}")
        lost = losses(mix.get("competitors", {}))
        sentences += [
            sentence for sentence in (*own, f"On {name}: {lost[0].lower()}{lost[1:]}" if lost else "") if sentence
        ]
    return sentences


def read(result: Mapping[str, Any]) -> Page:
    """Return the page of a result; plots over time and of distributions are of `raw.runs`."""
    runs = [unpacked(run) for run in result.get("raw", {}).get("runs", [])]
    mixes = [
        _mix(name, mix, [run for run in runs if run.workload == name]) for name, mix in result.get("mixes", {}).items()
    ]
    sections = [*in_short(result, _sentences(result)), _goals(result), _competitors(result), *mixes]
    return Page(f"bench-{result.get('plan', result['benchmark'])}", plain.facts(result), sections)
