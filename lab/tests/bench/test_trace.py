"""bench-trace: what is asked of a run, what is made of it, and errors of usage; running is bench-mercury's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from quicksilver.simulator.traces.formats.dynoyarn import read_dynoyarn
from quicksilver_lab.bench import trace as module
from quicksilver_lab.bench.emulator.jobs import WARM, WARM_S, warmed
from quicksilver_lab.bench.emulator.model import EmulatedSample, JobRecord, JobSpec, RunResult, TaskRecord, TaskSpec
from quicksilver_lab.bench.mercury.plan import ClusterSize
from quicksilver_lab.bench.trace import planned, ratios, summary, trace

SWIM = "job0\t10\t10\t1\t0\t1\njob1\t40\t30\t900000000\t5\t5\n"


def task(index: int, wanted_s: float, started_s: float | None, ended_s: float | None) -> TaskRecord:
    return TaskRecord(1, index, wanted_s, wanted_s, started_s, ended_s, opportunistic=index == 0)


def finished() -> RunResult:
    done = JobRecord(1, "map", 2.0, 3.0, 12.0, [task(0, 3.0, 4.0, 6.0), task(1, 3.0, 9.0, 12.0)])
    cut = JobRecord(2, "map", 5.0, 6.0, None, [task(0, 6.0, None, None)], ["cut off"])
    warm = JobRecord(0, WARM, 0.0, 1.0, 19.0, [task(0, 1.0, 2.0, 19.0)])
    samples = [EmulatedSample(float(n), 1, 0, 2) for n in range(20)]
    counts = {"lost": 1, "doubled": 0, "failed_jobs": 1}
    return RunResult("c", "w", 1, 2, 4, 0.0, 9.0, [warm, done, cut], samples, 3, 1.5, {"rm": 1.0}, {"rm": 2.0}, counts)


def test_a_run_is_summed_up_from_its_first_submission_to_its_last_end() -> None:
    found = summary(finished())
    assert (found["jobs"], found["tasks"], found["lost"], found["failed_jobs"]) == (1, 2, 1, 1)
    assert (found["makespan_s"], found["utilisation"], found["opportunistic_ratio"]) == (10.0, 0.5, 0.5)
    assert (found["latency_p50_s"], found["wait_p50_s"], found["wait_p99_s"]) == (10.0, 3.5, 5.95)
    took = dict.fromkeys(("latency_mean_s", *(f"latency_p{q}_s" for q in (50, 90, 95, 99))), 10.0)
    assert found["classes"] == {"map": took}
    assert (found["latency_mean_s"], found["wait_mean_s"]) == (10.0, 3.5)


def test_jobs_are_in_classes_by_their_tasks_and_by_the_work_that_was_offered() -> None:
    run = finished()
    run.jobs[1].work_s = 20.0
    one = JobRecord(3, "map", 2.0, 3.0, 4.0, [task(0, 3.0, 3.0, 4.0)], work_s=1.0)
    run.jobs.append(one)
    found = summary(run)
    assert {name: (own["jobs"], own["latency_mean_s"]) for name, own in found["sizes"].items()} == {
        "1": (1, 2.0),
        "2-9": (1, 10.0),
    }
    assert {name: own["jobs"] for name, own in found["work"].items()} == {"under 10 s": 1, "10-99 s": 1}
    assert found["work_lost_ratio"] == round(1.5 / 21.0, 4)
    one.ended_s = 3.0
    assert ratios(found, summary(run))["sizes"] == {"1": 0.5, "2-9": 1.0}


def test_what_was_lost_stands_beside_the_ratios() -> None:
    found = summary(finished())
    assert {name: ratios(found, found)[name] for name in ("kills", "work_lost_s")} == {"kills": 3, "work_lost_s": 1.5}


def test_a_run_of_nothing_is_summed_up_too() -> None:
    run = finished()
    run.jobs = run.jobs[2:]
    found = summary(run)
    assert found["jobs"] == 0 and "makespan_s" not in found
    assert ratios(found, summary(finished())).keys() == {"kills", "work_lost_s", "work_lost_ratio"}


def test_ratios_are_by_the_first_competitor() -> None:
    first = {"makespan_s": 10.0, "latency_p50_s": 4.0, "wait_p50_s": 0.0}
    assert ratios(first, {"makespan_s": 5.0, "latency_p50_s": 5.0, "wait_p50_s": 1.0}) == {
        "makespan_ratio": 0.5,
        "latency_p50_ratio": 1.25,
    }


def test_jobs_of_a_trace_come_when_they_arrive_and_all_count() -> None:
    jobs = [JobSpec(1, 0.0, "k", (TaskSpec(1.0),)), JobSpec(2, 70.0, "k", (TaskSpec(1.0),))]
    later = warmed(jobs)
    assert later == sorted(later, key=lambda job: job.arrives_s) and len({job.number for job in later}) == len(later)
    assert [job.arrives_s for job in later if job.klass != WARM] == [WARM_S, 70.0 + WARM_S]
    spec = planned("mine", "quicksilver_only_q", later, ClusterSize(nodes=3, cores=2, drain_s=99.0), 22000)
    assert (spec.concurrent, spec.warm_s, spec.window_s, spec.drain_s) == (None, WARM_S, 71.0, 99.0)
    assert (spec.count, spec.slots, spec.workload) == (3, 6, "mine") and spec.policies is not None


def test_fitted_jobs_are_written_and_nothing_runs(tmp_path: Path) -> None:
    file, copy = tmp_path / "swim.tsv", tmp_path / "jobs.jsonl"
    file.write_text(SWIM)
    words = [str(file), "--speed", "10", "--most-tasks", "4", "--most-s", "3", "--write", str(copy)]
    outcome = CliRunner().invoke(trace, words, catch_exceptions=False)
    assert json.loads(outcome.stdout) == {"jobs": 2, "file": str(copy)}
    first, second = read_dynoyarn(copy)
    assert (first.arrives_s, second.arrives_s, len(second.tasks)) == (0.0, 3.0, 4)
    assert max(one.runs_s for one in second.tasks) == 3.0


@pytest.mark.parametrize(
    ("words", "what"),
    (
        (["--competitors", "nobody"], "nobody: choose from"),
        (["--speed", "0"], "speed=0"),
        (["--most-s", "-1"], "most_s=-1"),
    ),
)
def test_errors_of_usage(tmp_path: Path, words: list[str], what: str) -> None:
    file = tmp_path / "swim.tsv"
    file.write_text(SWIM)
    outcome = CliRunner().invoke(trace, [str(file), *words])
    assert outcome.exit_code == 2 and what in outcome.output


def test_a_trace_that_is_too_long_is_refused_and_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_JOBS_LIMIT", 1)
    file = tmp_path / "swim.tsv"
    file.write_text(SWIM)
    outcome = CliRunner().invoke(trace, [str(file)])
    assert outcome.exit_code == 1 and "more than 1 jobs; take fewer with --first" in outcome.output


def test_a_file_that_is_no_trace_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text('{"submitTime": 1}')
    for name, what in (("missing", "cannot be read"), ("empty.json", "no job is left")):
        outcome = CliRunner().invoke(trace, [str(tmp_path / name)])
        assert outcome.exit_code == 1 and what in outcome.output and outcome.output.count("\n") == 1
