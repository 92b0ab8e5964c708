"""The demo's figures and pictures, from logs as Hadoop 3.4.2 writes them; its jobs' tasks as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from rich.console import Console

from quicksilver.report.html import html
from quicksilver.report.model import Spans
from quicksilver_lab.demo.cli import spec_of
from quicksilver_lab.demo.figures import DemoError, as_json, check_results, figures, goals
from quicksilver_lab.demo.jobs import LONG, SHORT, STEP_S, DemoJobRun, write_task
from quicksilver_lab.demo.page import STOPPED, page
from quicksilver_lab.demo.report import show
from quicksilver_lab.demo.shrinks import ShrinkIntervals, total_s
from quicksilver_lab.demo.timeline import PHASES, WayRun, registered, rows_of, way_run
from quicksilver_lab.workloads.nm_log import Life

EPOCH = 1000.0
RM_LOG = """\
2026-01-01 10:00:04,250 INFO org...RMAppAttemptImpl: appattempt_1_0002_000001 State change from LAUNCHED to RUNNING on event = REGISTERED
2026-01-01 10:00:05,000 INFO org...RMAppAttemptImpl: appattempt_1_0002_000001 State change from RUNNING to FINISHED on event = UNREGISTERED
"""  # noqa: E501


def container(app: int, number: int) -> str:
    return f"container_1_000{app}_01_00000{number}"


def life(node: str, begin_s: float, end_s: float | None, killed: bool = False) -> Life:
    return Life(node, EPOCH + begin_s, None if end_s is None else EPOCH + end_s, killed)


def one_run(way: str, wait_s: float, long_s: float = 100.0, killed: bool = False) -> WayRun:
    """Return a long job of one task, and a short one, submitted after 10 s, whose master waits for `wait_s`."""
    at_s = 10 + wait_s
    jobs = [
        DemoJobRun("long", "application_1_0001", EPOCH, EPOCH + long_s, ("80 steps",)),
        DemoJobRun("short0", "application_1_0002", EPOCH + 10, EPOCH + at_s + 7, ("8 steps",)),
    ]
    lives = {
        container(1, 1): life("node1", 0.5, None),
        container(1, 2): life("node1", 2, long_s - 2, killed),
        container(2, 1): life("node1", at_s, at_s + 6),
        container(2, 2): life("node2", at_s + 4, at_s + 6),
        "container_9_0001_01_000001": life("node2", 1, 2),
    }
    shrunk = {container(1, 2): [(EPOCH + at_s, EPOCH + at_s + 6)]} if way == "quicksilver" else {}
    return way_run(way, jobs, lives, {"application_1_0002": EPOCH + at_s + 3}, shrunk)


def test_a_job_is_cut_into_phases() -> None:
    _, short = one_run("plain YARN", 20).jobs
    assert short.submitted_s == 10
    assert dict(zip(PHASES, short.phases_s, strict=True)) == {
        "waits for its master's slot": 20,
        "master starts": 3,
        "tasks wait for slots": 1,
        "tasks run": 2,
        "ends": 1,
    }
    assert sum(short.phases_s) == short.job_s == 27


def test_masters_register_where_the_resource_manager_says_so() -> None:
    (application, at_s), *others = registered(RM_LOG).items()
    assert (application, at_s % 60, others) == ("application_1_0002", 4.25, [])


def test_foreign_containers_are_left_out_and_each_has_a_row_of_its_own() -> None:
    run = one_run("quicksilver", 1)
    assert {use.container for use in run.uses} == {container(1, 1), container(1, 2), container(2, 1), container(2, 2)}
    names, row = rows_of(run.uses, ["node1", "node2"], 2)
    assert names == ["node1 1", "node1 2", "node1 3", "node2 1", "node2 2"]
    assert [row[one] for one in (container(1, 1), container(1, 2), container(2, 1), container(2, 2))] == [0, 1, 2, 3]


def test_figures_and_goals() -> None:
    plain, through = figures(one_run("plain YARN", 20)), figures(one_run("quicksilver", 1, 111, killed=True))
    assert (plain.short_p50_s, plain.long_s, plain.kills, plain.stopped_s) == (27, 100, 0, 0)
    assert (through.short_p50_s, through.kills, through.stopped_s) == (8, 1, 6)
    found = goals(plain, through)
    assert found["short_p50_ratio"] == {"value": round(8 / 27, 3), "goal": 0.5, "met": True}
    assert found["long_ratio"] == {"value": 1.11, "goal": 1.1, "met": False}


def test_results_have_to_be_there_in_both_ways() -> None:
    plain, through = one_run("plain YARN", 20), one_run("quicksilver", 1)
    assert check_results(plain, through, {"long": ["80 steps"], "short0": ["8 steps"]}) == 2
    with pytest.raises(DemoError, match=r"plain YARN, short0: its tasks left 1 results, such as '8 steps'; expected"):
        check_results(plain, through, {"long": ["80 steps"], "short0": ["8 steps"] * 2})


def test_page_and_table_show_both_ways() -> None:
    plain, through = one_run("plain YARN", 20), one_run("quicksilver", 1)
    made = page(plain, through, ["node1", "node2"], 2, {"cores": 2})
    slots = [plot for plot in made.plots() if isinstance(plot, Spans) and plot.rows[0] == "node1 1"]
    assert [len(dict(plot.series)[STOPPED]) for plot in slots] == [0, 1]
    assert {plot.x.most for plot in slots} == {100}
    text = html(made)
    assert "27.0 s" in text and "at most 0.5: met" in text
    console = Console(width=120)
    with console.capture() as printed:
        show(console, plain, through, 2)
    assert "27.0 s" in printed.get() and "all 2 tasks" in printed.get()
    written = json.loads(json.dumps(as_json(plain, through, 2, 5.0)))
    assert written["quicksilver"]["short_p50_s"] == 8 and len(written["runs"][0]["uses"]) == 4


def test_an_interval_goes_on_while_each_look_finds_it() -> None:
    found = ShrinkIntervals([])
    for at_s, shrunk in ((1.0, ["a"]), (1.3, ["a"]), (1.6, []), (1.9, ["a"]), (2.2, ["a"])):
        found.look("node1", shrunk, at_s)
        found.look("node2", [], at_s + 0.1)
    assert found.intervals == {"a": [(1.0, 1.3), (1.9, 2.2)]}
    assert total_s(found.intervals["a"]) == pytest.approx(0.6)


def test_a_stopped_task_makes_no_progress(tmp_path: Path) -> None:
    command = ["sh", str(write_task(tmp_path)), "4", str(tmp_path)]
    process = subprocess.Popen(command, env={**os.environ, "CONTAINER_ID": "c1"}, start_new_session=True)
    os.killpg(process.pid, signal.SIGSTOP)
    time.sleep(8 * STEP_S)
    assert not (tmp_path / "c1").exists()
    os.killpg(process.pid, signal.SIGCONT)
    resumed_s = time.monotonic()
    assert process.wait(60) == 0
    assert time.monotonic() - resumed_s >= 2 * STEP_S, "its steps were still to be done"
    assert (tmp_path / "c1").read_text() == "4 steps\n"


def test_the_long_job_fills_the_cluster_several_times(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, 19000)
    slots = spec.nodes * spec.node_vcores
    assert LONG.tasks > 2 * slots
    assert SHORT[0].at_s > 0 and len(SHORT) >= 5
