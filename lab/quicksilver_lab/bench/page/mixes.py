"""bench-mixes' result as a page: goals, then each mix with its competitors beside the bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quicksilver.report.model import Block, Page, Prose, ReportSection, ReportTable, Value
from quicksilver_lab.bench.emulator.raw import unpacked
from quicksilver_lab.bench.page import plain
from quicksilver_lab.bench.page.mercury import bars, distributions, over_time
from quicksilver_lab.bench.page.verdict import compared, harm_table, harmed, in_short, losses

_TABLE: Final = (
    ("latency_mean_s", "job latency mean, s"),
    ("latency_p50_s", "p50, s"),
    ("latency_p95_s", "p95, s"),
    ("latency_p99_s", "p99, s"),
    ("short_p50_s", "shorter half p50, s"),
    ("short_p95_s", "shorter half p95, s"),
    ("wide_mean_s", "widest tenth mean, s"),
    ("makespan_s", "makespan, s"),
    ("tasks_per_s", "tasks/s"),
    ("utilisation", "utilisation"),
    ("kills", "kills"),
    ("work_lost_s", "work lost, s"),
)
_BARS: Final = (
    ("latency_mean_s", "Job latency, mean", "seconds"),
    ("latency_p95_s", "Job latency, p95", "seconds"),
)
_PROCESSES: Final = ("rm", "proxy", "emulator")


def _goals(result: Mapping[str, Any]) -> ReportSection:
    rows: list[list[Value]] = [
        [f"`{name}`", goal["value"], f"at {'most' if goal['at_most'] else 'least'} {goal['goal']:g}", goal["met"]]
        for name, goal in result.get("goals", {}).items()
    ]
    text = (
        f"Of {result.get('ours')}; {result.get('runs', 0)} runs; lost tasks: {result.get('lost_tasks')}, doubled: "
        f"{result.get('doubled_tasks')}. A gain is the share of what lies between the best stock competitor and the "
        "bound."
    )
    broken = [Prose(f"Not finished: {why}.") for why in result.get("broken", ())]
    return ReportSection("Goals", [Prose(text), *broken, ReportTable(["goal", "value", "aim", "met"], rows)])


def _competitors(figures: Mapping[str, Mapping[str, Any]]) -> list[Block]:
    """Return competitors as rows, their classes, and what they cost."""
    rows: list[list[Value]] = [
        [competitor, *(plain.value_of(row.get(key)) for key, _ in _TABLE)] for competitor, row in figures.items()
    ]
    blocks: list[Block] = [ReportTable(["competitor", *(label for _, label in _TABLE)], rows)]
    for key, title in (("sizes", "By number of tasks"), ("work", "By tasks x duration"), ("classes", "By kind")):
        names = dict.fromkeys(klass for row in figures.values() for klass in row.get(key, {}))
        by_class = [
            {"class": klass, "competitor": competitor, **row[key][klass]}
            for klass in names
            for competitor, row in figures.items()
            if klass in row.get(key, {})
        ]
        blocks += [plain.rows_of(by_class, title)] if by_class else []
    for key, title in (("latency_s", "Completion time by percentile, s"), ("slowdown", "Slowdown by percentile")):
        curves = [
            {"competitor": competitor, **row["cdf"][key]} for competitor, row in figures.items() if row.get("cdf")
        ]
        blocks += [plain.rows_of(curves, title)] if curves else []
    costs: list[list[Value]] = [
        [
            competitor,
            row["heartbeats"],
            *(row.get(kind, {}).get(name) for kind in ("cpu_s", "rss_mb") for name in _PROCESSES),
        ]
        for competitor, row in figures.items()
        if "heartbeats" in row
    ]
    columns = [
        "competitor",
        "masters' heartbeats",
        *(f"{name}, {unit}" for unit in ("CPU s", "MB") for name in _PROCESSES),
    ]
    return [*blocks, ReportTable(columns, costs, "CPU and memory")] if costs else blocks


def _compared(by_competitor: Mapping[str, Mapping[str, Any]]) -> list[Block]:
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
    for key, title in (("sizes", "number of tasks"), ("work", "tasks x duration"), ("classes", "kind")):
        own = [
            {"competitor": competitor, **metrics[key]}
            for competitor, metrics in by_competitor.items()
            if metrics.get(key)
        ]
        blocks += [plain.rows_of(own, f"Ratios of the mean latency to the best stock one, by {title}")] if own else []
    return blocks + harm_table(_harm(by_competitor))


def _harm(by_competitor: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {competitor: metrics.get("harm", {}) for competitor, metrics in by_competitor.items()}


def _mix(name: str, mix: Mapping[str, Any], runs: Mapping[str, list[Any]]) -> ReportSection:
    blocks: list[Block] = [Prose(f"{mix['about'][0].upper()}{mix['about'][1:]}.")]
    figures: Mapping[str, Mapping[str, Any]] = mix.get("competitors", {})
    if figures:
        blocks += [*_competitors(figures), *_compared(mix.get("compared", {})), *bars(figures, _BARS)]
    if mix.get("ceilings"):
        blocks += plain.blocks(mix["ceilings"], "No scheduler exceeds")
    if mix.get("guarantees"):
        blocks += plain.blocks(mix["guarantees"], "Less than on stock YARN, the worst 30 s; longer waits, s")
    blocks += over_time(runs) + distributions(runs, windowed=False) if runs else []
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
    notes: list[list[Value]] = [[name, note] for name, note in result.get("notes", {}).items()]
    sections = [
        *in_short(result, _sentences(result)),
        _goals(result),
        ReportSection("Competitors", [ReportTable(["competitor", "what"], notes)]),
    ]
    for name, mix in result.get("mixes", {}).items():
        by_competitor: dict[str, list[Any]] = {}
        for run in runs:
            if run.workload == name:
                by_competitor.setdefault(run.competitor, []).append(run)
        sections.append(_mix(name, mix, by_competitor))
    return Page("bench-mixes", plain.facts(result), sections)
