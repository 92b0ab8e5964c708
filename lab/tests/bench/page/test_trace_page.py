"""A trace's jobs under each competitor."""

from __future__ import annotations

from lab.tests.bench.page.test_mercury_page import run_of
from quicksilver.report.model import Bars, Lines, Prose, ReportTable
from quicksilver_lab.bench.emulator.raw import packed
from quicksilver_lab.bench.page.pages import page_of
from quicksilver_lab.bench.trace import ratios, summary


def test_all_jobs_count_and_competitors_stand_beside_each_other() -> None:
    runs = [run_of("only_g_tuned", 1, 1.0), run_of("quicksilver_only_q", 1, 0.5)]
    figures = {run.competitor: summary(run) for run in runs}
    page = page_of(
        {
            "benchmark": "trace",
            "offered": {"jobs": 15},
            "competitors": figures,
            "ratios": {"quicksilver_only_q": ratios(*figures.values())},
            "raw": {"runs": [packed(run) for run in runs]},
        }
    )
    short, offered, competitors, used = page.sections
    assert short.blocks == [
        Prose(
            "`quicksilver_only_q` against `only_g_tuned`: the mean job took 0.875 of the time (12 % faster); "
            "the median job took 0.875 of the time (12 % faster); the p95 of jobs took 0.875 of the time "
            "(12 % faster); all jobs together took 1.02 of the time (2 % slower)."
        ),
        Prose(
            "Containers killed: `only_g_tuned` 3 (1.50 s of work lost), `quicksilver_only_q` 3 (1.50 s of work lost)."
        ),
    ]
    assert offered.blocks == [ReportTable(["key", "value"], [("jobs", 15)], "offered")]
    tables = [block for block in competitors.blocks if isinstance(block, ReportTable)]
    assert [table.title for table in tables] == [
        "",
        "Ratios to only_g_tuned",
        "Ratios of the mean latency, by number of tasks",
        "Ratios of the mean latency, by tasks x duration",
        "By class of job",
        "By number of tasks",
        "By tasks x duration",
    ]
    assert [row[:2] for row in tables[5].rows] == [["2-9", "only_g_tuned"], ["2-9", "quicksilver_only_q"]]
    assert [row[0] for row in tables[0].rows] == ["only_g_tuned", "quicksilver_only_q"]
    assert [bar.title for bar in page.plots() if isinstance(bar, Bars)] == [
        "Makespan",
        "Job latency, mean",
        "Job latency, p95",
        "Task wait, p95",
        "Kills",
    ]
    latency = next(plot for plot in page.plots() if isinstance(plot, Lines) and plot.title == "Job latency, even")
    assert [len(line.x) for line in latency.series] == [1 + 8, 1 + 15]  # of 15 and 30 jobs: outside of the window, too
    (costs,) = used.blocks
    assert isinstance(costs, ReportTable)
    assert costs.rows[0] == ["only_g_tuned", 4.0, None, 2.0, 500.0, None, 90.0]


def test_without_runs_there_are_tables_and_bars() -> None:
    figures = {"only_g_tuned": summary(run_of("only_g_tuned", 1, 1.0))}
    page = page_of({"benchmark": "trace", "competitors": figures, "ratios": {}})
    assert all(isinstance(plot, Bars) for plot in page.plots())
