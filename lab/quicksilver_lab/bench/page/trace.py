"""bench-trace's result as a page: a trace's jobs under each competitor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quicksilver.report.model import Block, Page, ReportSection, ReportTable
from quicksilver_lab.bench.emulator.raw import unpacked
from quicksilver_lab.bench.page import plain
from quicksilver_lab.bench.page.mercury import bars, distributions, over_time
from quicksilver_lab.bench.page.verdict import compared, harm_table, harmed, in_short, losses

_BARS: Final = (
    ("makespan_s", "Makespan", "seconds"),
    ("latency_mean_s", "Job latency, mean", "seconds"),
    ("latency_p95_s", "Job latency, p95", "seconds"),
    ("wait_p95_s", "Task wait, p95", "seconds"),
    ("kills", "Kills", "containers"),
)
_APART: Final = ("competitors", "ratios", "harm")


_CLASSES: Final = (
    ("classes", "By class of job"),
    ("sizes", "By number of tasks"),
    ("work", "By tasks x duration"),
)


def _classes(figures: Mapping[str, Mapping[str, Any]]) -> list[Block]:
    """Return a table for each way to sort jobs into classes; each class has its competitors beside each other."""
    blocks: list[Block] = []
    for key, title in _CLASSES:
        names = dict.fromkeys(klass for by in figures.values() for klass in by.get(key, {}))
        rows = [
            {"class": klass, "competitor": competitor, **by[key][klass]}
            for klass in names
            for competitor, by in figures.items()
            if klass in by.get(key, {})
        ]
        blocks += [plain.rows_of(rows, title)] if rows else []
    return blocks


def read(result: Mapping[str, Any]) -> Page:
    """Return the page of a result; plots over time and of distributions are of `raw.runs`, and all jobs count."""
    summary = plain.read({name: value for name, value in result.items() if name not in _APART})
    figures: Mapping[str, Mapping[str, Any]] = result.get("competitors", {})
    blocks: list[Block] = [plain.rows_of([{"competitor": competitor, **row} for competitor, row in figures.items()])]
    ratios = [{"competitor": competitor, **row} for competitor, row in result.get("ratios", {}).items()]
    blocks += [plain.rows_of(ratios, f"Ratios to {next(iter(figures))}")] if ratios else []
    for key, title in _CLASSES[1:]:
        rows = [{"competitor": ratio["competitor"], **ratio[key]} for ratio in ratios if ratio.get(key)]
        blocks += [plain.rows_of(rows, f"Ratios of the mean latency, {title[0].lower()}{title[1:]}")] if rows else []
    blocks += harm_table(result.get("harm", {}))
    runs = {run["competitor"]: [unpacked(run)] for run in result.get("raw", {}).get("runs", [])}
    blocks += _classes(figures) + bars(figures, _BARS)
    blocks += over_time(runs) + distributions(runs, windowed=False) if runs else []
    costs = [
        [
            competitor,
            *(row.get(kind, {}).get(name) for kind in ("cpu_s", "rss_mb") for name in ("rm", "proxy", "emulator")),
        ]
        for competitor, row in figures.items()
    ]
    columns = ["competitor", *(f"{name}, {unit}" for unit in ("CPU s", "MB") for name in ("rm", "proxy", "emulator"))]
    used = ReportSection("CPU and memory", [ReportTable(columns, costs)])
    first = next(iter(figures), "")
    sentences = [compared(competitor, f"`{first}`", row) for competitor, row in result.get("ratios", {}).items()]
    short = in_short(
        result, [sentence for sentence in (*sentences, *harmed(result.get("harm", {})), losses(figures)) if sentence]
    )
    return Page("bench-trace", summary.facts, [*short, *summary.sections, ReportSection("Competitors", blocks), used])
