"""The real and the emulated cluster beside each other."""

from __future__ import annotations

from dataclasses import asdict

from quicksilver.report.model import Lines, ReportTable
from quicksilver_lab.bench.emulator.model import JobRecord, TaskRecord
from quicksilver_lab.bench.page.pages import page_of


def run(place: str, through: bool, wait_s: float) -> dict[str, object]:
    task = TaskRecord(0, 0, 1.0, started_s=1.0 + wait_s, ended_s=5.0)
    jobs = [JobRecord(0, "small", 0.5, ended_s=6.0, tasks=[task, TaskRecord(0, 1, 1.0)]), JobRecord(1, "small", 1.0)]
    return {"place": place, "quicksilver": through, "seed": 1, "jobs": [asdict(job) for job in jobs]}


def test_each_mode_has_its_figures_and_both_distributions() -> None:
    makespan = {"real": 10.0, "emulated": 9.5, "ratio": 0.95}
    page = page_of(
        {
            "benchmark": "emulator",
            "stock": {"runs": 2, "makespan_s": makespan, "goal_met": True},
            "lost_tasks": 0,
            "raw": {"runs": [run("real", False, 2.0), run("emulated", False, 1.0), run("real", True, 0.5)]},
        }
    )
    table = page.sections[0].blocks[0]
    assert isinstance(table, ReportTable)
    assert table.rows == [["stock", "makespan_s", 10.0, 9.5, 0.95]]
    drawn = {
        plot.title: {one.name: list(one.x) for one in plot.series} for plot in page.plots() if isinstance(plot, Lines)
    }
    assert drawn == {
        "Queueing, wanted to started, stock": {"real": [2.0, 2.0], "emulated": [1.0, 1.0]},
        "Job latency, stock": {"real": [5.5, 5.5], "emulated": [5.5, 5.5]},
        "Queueing, wanted to started, quicksilver": {"real": [0.5, 0.5]},
        "Job latency, quicksilver": {"real": [5.5, 5.5]},
    }
    assert page.sections[1].blocks == [ReportTable(["key", "value"], [("lost_tasks", 0)])]


def test_without_runs_there_is_the_table_alone() -> None:
    assert page_of({"benchmark": "emulator"}).plots() == []
