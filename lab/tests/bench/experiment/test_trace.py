"""A trace as a mix: what is asked of a run, what is made of it, and errors of usage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from quicksilver.simulator.traces.formats.dynoyarn import read_dynoyarn
from quicksilver_lab.bench.emulator.jobs import WARM, WARM_S
from quicksilver_lab.bench.experiment import trace as module
from quicksilver_lab.bench.experiment.plan import changed, load
from quicksilver_lab.bench.experiment.run import run
from quicksilver_lab.bench.experiment.step import offered, spec

SWIM = "job0\t10\t10\t1\t0\t1\njob1\t40\t30\t900000000\t5\t5\n"
PLAN = """
about: mine
competitors: [only_g_tuned, quicksilver_only_q]
seeds: 1
cluster: {nodes: 3, cores: 2, drain_s: 99}
workloads:
- trace: {speed: 10, most_tasks: 4, most_s: 3}
"""


@pytest.fixture
def swim(tmp_path: Path) -> Path:
    (tmp_path / "plan.yaml").write_text(PLAN)
    file = tmp_path / "swim.tsv"
    file.write_text(SWIM)
    return file


def test_jobs_of_a_trace_come_when_they_arrive_and_all_count(swim: Path) -> None:
    plan = changed(load(str(swim.parent / "plan.yaml")), trace=swim)
    assert plan.settings()["workloads"][0]["trace"]["file"] == "swim.tsv"
    step = plan.steps(1, lambda _: None)[1]
    jobs = offered(step.mix, 1)
    assert isinstance(jobs, list)
    assert jobs == sorted(jobs, key=lambda job: job.arrives_s) and len({job.number for job in jobs}) == len(jobs)
    assert [job.arrives_s for job in jobs if job.klass != WARM] == [WARM_S, WARM_S + 3.0]
    ordered = spec(step, jobs, 22000)
    assert (ordered.concurrent, ordered.warm_s, ordered.window_s, ordered.drain_s) == (None, WARM_S, 4.0, 99.0)
    assert (ordered.count, ordered.slots, ordered.workload, ordered.seed) == (3, 6, "swim.tsv", 1)
    assert ordered.policies is not None and step.expected_s() == WARM_S + 3.0 + 60.0 + 15.0


def test_fitted_jobs_are_written_and_nothing_runs(swim: Path) -> None:
    copy = swim.parent / "jobs.jsonl"
    words = [str(swim.parent / "plan.yaml"), "--trace", str(swim), "--write", str(copy)]
    outcome = CliRunner().invoke(run, words, catch_exceptions=False)
    assert json.loads(outcome.stdout) == {"jobs": 2, "file": str(copy)}
    first, second = read_dynoyarn(copy)
    assert (first.arrives_s, second.arrives_s, len(second.tasks)) == (0.0, 3.0, 4)
    assert max(task.runs_s for task in second.tasks) == 3.0


def test_a_trace_that_is_too_long_is_refused_and_not_cut(swim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_JOBS_LIMIT", 1)
    outcome = CliRunner().invoke(run, ["trace", "--trace", str(swim)])
    assert outcome.exit_code == 2 and "more than 1 jobs; take fewer with `trace.first`" in outcome.output


def test_a_file_that_is_no_trace_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text('{"submitTime": 1}')
    (tmp_path / "broken.tsv").write_text(f"{SWIM}job2\tx\t10\t1\t0\t1\n")
    for name, error in (
        ("missing", "cannot be read"),
        ("empty.json", "no job is left"),
        ("broken.tsv", "leave such jobs out with `skip: true` of the plan's trace"),
    ):
        outcome = CliRunner().invoke(run, ["trace", "--trace", str(tmp_path / name)])
        assert outcome.exit_code == 2 and error in outcome.output
    outcome = CliRunner().invoke(run, ["trace"])
    assert outcome.exit_code == 2 and "the plan names no trace; name one with --trace FILE" in outcome.output
    outcome = CliRunner().invoke(run, ["mixes", "--trace", str(tmp_path / "broken.tsv")])
    assert outcome.exit_code == 2 and "mixes: no workload of the plan is a trace" in outcome.output
