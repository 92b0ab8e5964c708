"""Results of benchmarks, and what their pages have of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lab.tests.bench.experiment.steps import plan_of
from quicksilver.report.model import Bars, Lines, Prose, ReportEstimate, ReportTable
from quicksilver_lab.bench.emulator.model import EmulatedSample, JobRecord, RunResult, TaskRecord
from quicksilver_lab.bench.emulator.raw import packed
from quicksilver_lab.bench.experiment.plan import load
from quicksilver_lab.bench.experiment.result import result
from quicksilver_lab.bench.page import curves, plain
from quicksilver_lab.bench.page.__main__ import main
from quicksilver_lab.bench.page.pages import page_of

FIXED = "fixed_2s"
MACHINE = {"cpu": "AMD", "cores": 2, "memory_mb": 24105, "kernel": "6.18", "python": "3.11.7", "load_at_start": 0.5}


def run_of(competitor: str, seed: int, every_s: float) -> RunResult:
    """Return a run of 30 s with a window from 10 to 20 s, in which a task ends `every_s`; jobs have two of them."""
    jobs = []
    for number in range(int(30 / every_s) // 2):
        ends = [(2 * number + 1) * every_s, (2 * number + 2) * every_s]
        tasks = [TaskRecord(number, at, end - 3, end - 2.5, end - 2, end) for at, end in enumerate(ends)]
        jobs.append(JobRecord(number, "odd" if number % 2 else "even", ends[0] - 3, None, ends[1], tasks))
    samples = [EmulatedSample(float(at), 3, at, 1) for at in range(31)]
    found = RunResult(competitor, FIXED, seed, 2, 4, 10.0, 10.0, jobs, samples, kills=3, work_lost_s=1.5)
    found.cpu_s, found.rss_mb = {"rm": 4.0, "emulator": 2.0}, {"rm": 500.0, "emulator": 90.0}
    return found


def mercury_result() -> dict[str, Any]:
    """Return the result of two competitors with two seeds each: the second ends twice as many tasks."""
    names = {"only_g_tuned": 0.5, "quicksilver_only_q": 0.25}
    runs = {(FIXED, name): [run_of(name, seed, s + seed / 100) for seed in (1, 2)] for name, s in names.items()}
    raw = {"runs": [packed(run) for found in runs.values() for run in found]}
    argv = ["/somewhere/lab/quicksilver_lab/bench/experiment/__main__.py", "mercury", "--quick"]
    about = {"benchmark": "experiment", "plan": "mercury", "machine": MACHINE, "commit": "abc", "argv": argv}
    notes = {"competitors": {"only_g_tuned": {"note": "tuned", "kind": "only_g"}}, "broken": ["hybrid: no room"]}
    plan = plan_of(FIXED, competitors=list(names), goals=load("mercury").goals, cluster={"nodes": 2, "cores": 2})
    return {**about, "settings": {"lanes": 2}, **notes, **result(plan, runs), "raw": raw}


def table(page_section: Any, nth: int = 0) -> ReportTable:
    found = [block for block in page_section.blocks if isinstance(block, ReportTable)]
    return found[nth]


def test_goals_are_rows_with_their_ratio_and_whether_they_are_met() -> None:
    section = page_of(mercury_result()).sections[1]
    assert Prose("Not finished: hybrid: no room.") in section.blocks
    goals = table(section)
    (row,) = [row for row in goals.rows if row[0] == "`tasks_ratio_only_g_tuned`"]
    ratio = row[goals.columns.index("value")]
    assert isinstance(ratio, ReportEstimate)
    assert 1.6 < ratio.low < 1.92 < ratio.value < 1.93 < ratio.high < 2.3
    assert row[goals.columns.index("aim")] == "at least 1.4"
    assert row[goals.columns.index("met")] is True and row[goals.columns.index("theirs")] == "only_g_tuned"
    (latency,) = [row for row in goals.rows if row[0] == "`p95_ratio_only_g_tuned`"]
    assert latency[goals.columns.index("aim")] == "at most 1"


def test_a_mix_has_figures_classes_bars_and_curves() -> None:
    _, _, competitors, section = page_of(mercury_result()).sections
    assert competitors.blocks == [ReportTable(["competitor", "what"], [["only_g_tuned", "tuned"]])]
    assert section.title == "Mix fixed_2s"
    tables = {block.title: block for block in section.blocks if isinstance(block, ReportTable)}
    names = ["only_g_tuned", "quicksilver_only_q"]
    assert [row[0] for row in tables[""].rows[:2]] == names
    assert {row[0] for row in tables["By kind"].rows} >= {"even", "odd"}
    windows = tables["What ended within the window"]
    assert [row[0] for row in windows.rows] == names and {"tasks/s", "samples late, s"} <= set(windows.columns)
    phases = tables["Where the time goes: means, and shares of the slots"]
    assert [row[phases.columns.index("started_to_ended_s")] for row in phases.rows] == [2.0, 2.0]
    assert {"Ratios to only_g_tuned", "Against the best stock competitor"} <= tables.keys()
    costs = tables["CPU and memory"]
    row = dict(zip(costs.columns, costs.rows[0], strict=True))
    assert (row["rm, cores"], row["proxy, MB"], row["emulator, MB"]) == (0.4, None, 90.0)
    bars = [block for block in section.blocks if isinstance(block, Bars)]
    assert [bar.title for bar in bars][-4:] == [
        "Task throughput",
        "Job latency within the window, p95",
        "Kills by tasks",
        "Work lost by kills",
    ]
    assert all(bar.labels == names for bar in bars[-4:])
    lines = [block for block in section.blocks if isinstance(block, Lines)]
    assert [line.title for line in lines] == [
        "Task throughput over time",
        "Utilisation over time",
        "Containers that wait at nodes",
        "Job latency, even",
        "Job latency, odd",
        "Task wait, wanted to started",
    ]
    assert all([one.name for one in line.series] == names for line in lines)


def test_curves_are_means_of_the_runs_and_cdfs_of_the_window() -> None:
    runs = [run_of("a", 1, 0.5), run_of("a", 2, 0.25)]
    rate = curves.throughput("a", runs)
    assert rate.y[15] == pytest.approx(3.0)
    assert curves.utilisation("a", runs).y == [0.25] * 31
    assert curves.queue_length("a", runs).y[10] == 10
    latency = curves.latency("a", runs, "even")
    assert latency is not None
    assert set(latency.x) == {3.25, 3.5}
    wait = curves.wait("a", runs)
    assert wait is not None
    assert (min(wait.x), max(wait.x), wait.y[-1]) == (1.0, 1.0, 1.0)
    assert curves.latency("a", runs, "gone") is None
    assert curves.wait("a", [RunResult("a", FIXED, 1, 2, 4, 10.0, 10.0)]) is None


def test_without_raw_runs_there_are_tables_and_bars() -> None:
    found = mercury_result()
    del found["raw"]
    assert not [plot for plot in page_of(found).plots() if isinstance(plot, Lines)]
    assert page_of({"benchmark": "experiment"}).plots() == []


def test_facts_name_machine_commit_and_command_but_not_where_it_lies() -> None:
    assert plain.facts(mercury_result()) == [
        ("machine", "AMD, 2 cores, 24,105 MB, kernel 6.18, Python 3.11.7, load 0.5 at the start"),
        ("commit", "`abc`"),
        ("command", "`python -m quicksilver_lab.bench.experiment mercury --quick`"),
        ("settings", "lanes 2"),
    ]
    assert plain.command(["/x/.venv/bin/quicksilver", "bench", "las"]) == "quicksilver bench las"
    assert plain.command(["/x/lab/quicksilver_lab/bench/recovery.py"]) == "python -m quicksilver_lab.bench.recovery"


def test_any_result_is_tables() -> None:
    page = page_of(
        {
            "benchmark": "other",
            "rate": {"median": 2.0, "min": 1.0, "max": 3.0},
            "broken": "",
            "by_size": {"64": {"p50": 1, "p99": 2}, "256": {"p50": 3}},
            "modes": {"las": {"cpu": {"rm": 1}}},
            "raw": {"many": 1},
            "nothing": [],
        }
    )
    (section,) = page.sections
    assert section.blocks[0] == ReportTable(
        ["key", "value"], [("rate", ReportEstimate(2.0, 1.0, 3.0)), ("broken", ""), ("nothing", "none")]
    )
    assert section.blocks[1] == ReportTable(["", "p50", "p99"], [["64", 1, 2], ["256", 3, None]], "by_size")
    assert section.blocks[2] == ReportTable(["key", "value"], [("rm", 1)], "modes.las.cpu")


def test_the_program_writes_the_page_and_prints_tables(tmp_path: Path) -> None:
    file = tmp_path / "mercury-1.json"
    file.write_text(json.dumps(mercury_result()))
    done = CliRunner().invoke(main, [str(file), "--markdown"], catch_exceptions=False)
    assert (tmp_path / "mercury-1.html").read_text().count('class="lines"') == 6
    assert "| only_g_tuned |" in done.stdout
    assert done.stdout.startswith("### bench-mercury\n")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[]", "not an object; take a file that a benchmark wrote"),
        ("{", "Expecting property name"),
        ('{"benchmark": "experiment", "raw": {"runs": [{}]}}', "KeyError: 'jobs': not as bench-experiment writes it"),
        ('{"benchmark": "mixes", "goals": {"a": {}}}', "not as bench-mixes writes it"),
    ],
)
def test_what_is_no_result_is_one_clear_error(tmp_path: Path, text: str, error: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text)
    done = CliRunner().invoke(main, [str(file)])
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: {file}: ")
    assert error in done.stderr
