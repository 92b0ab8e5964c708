"""bench-emulator's result as a page: the real and the emulated cluster beside each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from quicksilver.report.model import Axis, Block, Lines, Page, ReportSection, ReportTable, Value
from quicksilver_lab.bench.page import plain
from quicksilver_lab.bench.page.shapes import cdf

_MODES: Final = {"stock": False, "quicksilver": True}
_PLACES: Final = ("real", "emulated")

Job = Mapping[str, Any]


def _waits_s(jobs: Iterable[Job]) -> list[float]:
    """Return from when a task was wanted to its start, in seconds, of the tasks that started."""
    tasks = [task for job in jobs for task in job["tasks"]]
    return [task["started_s"] - task["wanted_s"] for task in tasks if task["started_s"] is not None]


def _latencies_s(jobs: Iterable[Job]) -> list[float]:
    """Return from submission to end, in seconds, of the jobs that ended."""
    return [job["ended_s"] - job["submitted_s"] for job in jobs if job["ended_s"] is not None]


def _plots(mode: str, runs: Iterable[Mapping[str, Any]]) -> list[Block]:
    jobs: dict[str, list[Job]] = {place: [] for place in _PLACES}
    for run in runs:
        if run["quicksilver"] == _MODES[mode]:
            jobs[run["place"]] += run["jobs"]

    def lines(title: str, samples: Callable[[Iterable[Job]], list[float]]) -> Lines:
        series = [cdf(place, values) for place in _PLACES if (values := samples(jobs[place]))]
        return Lines(f"{title}, {mode}", Axis("seconds"), Axis("share", most=1.0), series, step=True)

    plots = lines("Queueing, wanted to started", _waits_s), lines("Job latency", _latencies_s)
    return [plot for plot in plots if plot.series]


def read(result: Mapping[str, Any]) -> Page:
    """Return the page of a result; distributions are of `raw.runs`."""
    summary = plain.read({name: value for name, value in result.items() if name not in _MODES})
    rows: list[list[Value]] = []
    plots: list[Block] = []
    for mode in _MODES:
        for name, figure in result.get(mode, {}).items():
            if isinstance(figure, Mapping):
                rows.append([mode, name, figure["real"], figure["emulated"], figure["ratio"]])
        plots += _plots(mode, result.get("raw", {}).get("runs", []))
    table = ReportTable(["mode", "figure", "real", "emulated", "emulated / real"], rows)
    sections = [ReportSection("Real and emulated", [table, *plots]), *summary.sections]
    return Page("bench-emulator", summary.facts, sections)
