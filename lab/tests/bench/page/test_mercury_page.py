"""Results of benchmarks, and what their pages have of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from quicksilver.report.model import Bars, Lines, Prose, ReportEstimate, ReportTable
from quicksilver_lab.bench.emulator.model import EmulatedSample, JobRecord, RunResult, TaskRecord
from quicksilver_lab.bench.emulator.raw import packed
from quicksilver_lab.bench.mercury.compare import FIXED, result
from quicksilver_lab.bench.page import curves, mercury, plain
from quicksilver_lab.bench.page.__main__ import main
from quicksilver_lab.bench.page.pages import page_of

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
    runs = {
        (FIXED, name): [run_of(name, seed, every_s + seed / 100) for seed in (1, 2)]
        for name, every_s in (("only_g_tuned", 0.5), ("quicksilver_only_q", 0.25))
    }
    raw = {"runs": [packed(run) for found in runs.values() for run in found]}
    argv = ["/somewhere/lab/quicksilver_lab/bench/mercury/__main__.py", "--quick"]
    about = {"benchmark": "mercury", "machine": MACHINE, "commit": "abc", "argv": argv}
    parts = [{"workload": FIXED, "rounds": 2, "size": {"nodes": 2, "warm_s": 10.0}}]
    notes = {"competitors": {"only_g_tuned": {"note": "tuned", "kind": "only_g"}}, "broken": ["hybrid: no room"]}
    return {**about, "settings": {"lanes": 2, "parts": parts}, **notes, **result(runs), "raw": raw}


def table(page_section: Any, nth: int = 0) -> ReportTable:
    found = [block for block in page_section.blocks if isinstance(block, ReportTable)]
    return found[nth]


def test_goals_are_rows_with_their_ratio_and_whether_they_are_met() -> None:
    goals = table(page_of(mercury_result()).sections[1])
    (row,) = [row for row in goals.rows if row[0] == "`tasks_ratio_only_g_tuned`"]
    ratio = row[goals.columns.index("ours / theirs")]
    assert isinstance(ratio, ReportEstimate)
    assert 1.6 < ratio.low < 1.92 < ratio.value < 1.93 < ratio.high < 2.3
    assert row[goals.columns.index("goal")] == "at least 1.4"
    assert row[goals.columns.index("met")] is True
    (latency,) = [row for row in goals.rows if row[0] == "`p95_ratio_only_g_tuned`"]
    assert latency[goals.columns.index("goal")] == "at most 1"


def test_a_workload_has_figures_classes_bars_and_curves() -> None:
    section = page_of(mercury_result()).sections[3]
    assert section.title == "Workload fixed_2s"
    assert [row[0] for row in table(section).rows] == ["only_g_tuned", "quicksilver_only_q"]
    assert {row[1] for row in table(section, 1).rows} == {"even", "odd"}
    phases = table(section, 2)
    assert [row[phases.columns.index("started_to_ended_s")] for row in phases.rows] == [2.0, 2.0]
    bars = [block for block in section.blocks if isinstance(block, Bars)]
    assert [bar.title for bar in bars] == ["Task throughput", "Job latency, p95", "Kills", "Work lost by kills"]
    assert all(bar.labels == ["only_g_tuned", "quicksilver_only_q"] for bar in bars)
    lines = [block for block in section.blocks if isinstance(block, Lines)]
    assert [line.title for line in lines] == [
        "Task throughput over time",
        "Utilisation over time",
        "Containers that wait at nodes",
        "Job latency, even",
        "Job latency, odd",
        "Task wait, wanted to started",
    ]
    assert all([one.name for one in line.series] == ["only_g_tuned", "quicksilver_only_q"] for line in lines)


def test_the_set_up_has_the_plan_the_competitors_and_what_was_not_finished() -> None:
    section = page_of(mercury_result()).sections[2]
    assert section.blocks == [
        Prose("Not finished: hybrid: no room."),
        ReportTable(["workload", "rounds", "nodes", "warm_s"], [["fixed_2s", 2, 2, 10.0]], "Plan"),
        ReportTable(["competitor", "what"], [["only_g_tuned", "tuned"]], "Competitors"),
    ]


def test_costs_are_by_process_and_a_process_that_was_not_there_is_missing() -> None:
    costs = table(page_of(mercury_result()).sections[-1])
    row = dict(zip(costs.columns, costs.rows[0], strict=True))
    assert (row["rm, cores"], row["proxy, cores"], row["emulator, MB"]) == (0.4, None, 90.0)


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
    assert mercury.read({"benchmark": "mercury"}).plots() == []


def test_facts_name_machine_commit_and_command_but_not_where_it_lies() -> None:
    assert plain.facts(mercury_result()) == [
        ("machine", "AMD, 2 cores, 24,105 MB, kernel 6.18, Python 3.11.7, load 0.5 at the start"),
        ("commit", "`abc`"),
        ("command", "`python -m quicksilver_lab.bench.mercury --quick`"),
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
        ('{"benchmark": "mercury", "raw": {"runs": [{}]}}', "KeyError: 'jobs': not as bench-mercury writes it"),
        ('{"benchmark": "mercury", "goals": {"a": {}}}', "not as bench-mercury writes it"),
    ],
)
def test_what_is_no_result_is_one_clear_error(tmp_path: Path, text: str, error: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text)
    done = CliRunner().invoke(main, [str(file)])
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: {file}: ")
    assert error in done.stderr
