"""bench-trace's result as a page: a trace's jobs under each competitor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quicksilver.bench.mercury.raw import unpacked
from quicksilver.bench.page import plain
from quicksilver.bench.page.mercury import bars, distributions, over_time
from quicksilver.report.model import Block, Page, Section, Table

_BARS: Final = (
    ("makespan_s", "Makespan", "seconds"),
    ("latency_p95_s", "Job latency, p95", "seconds"),
    ("wait_p95_s", "Task wait, p95", "seconds"),
    ("kills", "Kills", "containers"),
)
_APART: Final = ("competitors", "ratios")


def _classes(figures: Mapping[str, Mapping[str, Any]]) -> list[Block]:
    rows = [
        {"competitor": who, "class": klass, **one}
        for who, by in figures.items()
        for klass, one in by.get("classes", {}).items()
    ]
    return [plain.rows_of(rows, "By class of job")] if rows else []


def read(result: Mapping[str, Any]) -> Page:
    """Return the page of a result; plots over time and of distributions are of `raw.runs`, and all jobs count."""
    summary = plain.read({name: one for name, one in result.items() if name not in _APART})
    figures: Mapping[str, Mapping[str, Any]] = result.get("competitors", {})
    blocks: list[Block] = [plain.rows_of([{"competitor": who, **one} for who, one in figures.items()])]
    ratios = [{"competitor": who, **one} for who, one in result.get("ratios", {}).items()]
    blocks += [plain.rows_of(ratios, f"Ratios to {next(iter(figures))}")] if ratios else []
    runs = {run["competitor"]: [unpacked(run)] for run in result.get("raw", {}).get("runs", [])}
    blocks += _classes(figures) + bars(figures, _BARS)
    blocks += over_time(runs) + distributions(runs, windowed=False) if runs else []
    costs = [
        [who, *(one.get(kind, {}).get(name) for kind in ("cpu_s", "rss_mb") for name in ("rm", "proxy", "emulator"))]
        for who, one in figures.items()
    ]
    columns = ["competitor", *(f"{name}, {unit}" for unit in ("CPU s", "MB") for name in ("rm", "proxy", "emulator"))]
    used = Section("CPU and memory", [Table(columns, costs)])
    return Page("bench-trace", summary.facts, [*summary.sections, Section("Competitors", blocks), used])
