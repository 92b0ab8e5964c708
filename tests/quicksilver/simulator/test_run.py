"""Runs in one process and in several, broken off and gone on with."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from quicksilver.cli import cli
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver.simulator.run import Row, RunError, SystemOffer, run_all
from quicksilver.simulator.source import Trace
from quicksilver.simulator.sweep import Case, SweepChoice, SweepWish, cases, variants
from quicksilver.simulator.traces.source import Source
from tests.quicksilver.simulator.queues import SYSTEM, Settings, register, write_trace


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SystemOffer:
    register(monkeypatch)
    return SystemOffer(Trace(Source(str(write_trace(tmp_path / "trace.jsonl")))), ClusterModel(10), 10.0)


def wanted(*swept: SweepChoice) -> list[Case]:
    return cases(variants(SweepWish(("queues",), (), swept)), (1, 2))


def told(rows: Iterable[tuple[Case, Row]]) -> dict[str, Any]:
    return {case.key: asdict(replace(row, cpu_s=0)) for case, row in rows}


def test_equal_seeds_give_equal_results_on_any_number_of_processes(offer: SystemOffer) -> None:
    some = wanted(SweepChoice("choices", (1, 2, 10)))
    arrived = [0, 0]

    def count(at: int, jobs: int) -> None:
        arrived[at] += jobs

    alone = told(run_all(offer, some, 1, lambda jobs: count(0, jobs)))
    assert told(run_all(offer, some, 2, lambda jobs: count(1, jobs))) == alone
    assert arrived == [6 * 120, 6 * 120]
    assert len({json.dumps(row["figures"]) for row in alone.values()}) == 5  # of ten queues, chance chooses none
    assert next(iter(alone.values()))["figures"]["metrics"]["jobs_long"] == 12


def test_no_runs_need_no_processes(offer: SystemOffer) -> None:
    assert list(run_all(offer, [], 2, lambda _: None)) == []


def test_a_run_that_fails_names_itself_and_ends_the_others(offer: SystemOffer) -> None:
    some = wanted(SweepChoice("fails_at", (0, 5)))
    for processes in (1, 2):
        with pytest.raises(RunError, match=r"queues fails_at=5, seed [12]: job 5 fits nowhere"):
            list(run_all(offer, some, processes, lambda _: None))


def test_a_sampled_trace_differs_by_seed_and_is_the_same_for_all_systems(offer: SystemOffer) -> None:
    part = replace(offer, trace=replace(offer.trace, sample_ratio=0.5))
    rows = [row for _, row in run_all(part, wanted(SweepChoice("choices", (1, 2))), 1, lambda _: None)]
    jobs = [row.figures.metrics["jobs_all"] for row in rows]
    assert jobs[0] == jobs[1] != jobs[2] == jobs[3]
    assert 100 < max(job.arrives_s for job in part.trace.jobs_of(1)) < 120


def test_arrivals_may_be_dates(offer: SystemOffer, tmp_path: Path) -> None:
    dated = tmp_path / "dated.txt"
    dated.write_text("1700000000 1 10 10\n1700000005 1 10 10\n")
    jobs = replace(offer, trace=Trace(Source(str(dated)))).trace.jobs_of(1)
    assert [job.arrives_s for job in jobs] == [0, 5]


def test_wrong_estimates_are_told_and_classes_stay(offer: SystemOffer, monkeypatch: pytest.MonkeyPatch) -> None:
    told_s: list[list[float]] = []

    class Listening:
        name, Settings = "queues", Settings

        def run(self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: Settings, seed: int) -> SimResult:
            kept = list(jobs)
            told_s.append([job.estimate_s for job in kept])
            return SYSTEM.run(kept, cluster, settings, seed)

    monkeypatch.setattr("tests.quicksilver.simulator.queues.SYSTEM", Listening())
    wrong = replace(offer, trace=replace(offer.trace, error=0.9))
    rows = [row for one in (offer, wrong, wrong) for _, row in run_all(one, wanted()[:1], 1, lambda _: None)]
    assert told_s[0] != told_s[1] == told_s[2]
    assert {row.figures.metrics["jobs_long"] for row in rows} == {12}


def test_a_generator_makes_other_jobs_for_each_seed(offer: SystemOffer) -> None:
    made = replace(offer, trace=Trace(Source("gen:yahoo", jobs=20)))
    first, second = ([job.durations_s for job in made.trace.jobs_of(seed)] for seed in (1, 2))
    assert len(first) == len(second) == 20
    assert first != second


def test_lost_jobs_are_no_result(offer: SystemOffer, monkeypatch: pytest.MonkeyPatch) -> None:
    class Losing:
        name, Settings = "queues", Settings

        def run(self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: Settings, seed: int) -> SimResult:
            found = SYSTEM.run(jobs, cluster, settings, seed)
            found.jobs.pop()
            return found

    monkeypatch.setattr("tests.quicksilver.simulator.queues.SYSTEM", Losing())
    with pytest.raises(RunError, match="120 jobs of 336 tasks went in, 119 jobs"):
        list(run_all(offer, wanted()[:1], 1, lambda _: None))


_KILLED = """
import os, signal, sys
from quicksilver.simulator.systems import SYSTEMS
from quicksilver.simulator.study import Runner
import quicksilver.simulator.cli

SYSTEMS["queues"] = "tests.quicksilver.simulator.queues:SYSTEM"
ended, rows = [], Runner.rows

def dying(self, cases, progress, done):
    def count(row):
        ended.append(row)
        if len(ended) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
    return rows(self, cases, progress, count)

if __name__ == "__main__":
    Runner.rows = dying
    quicksilver.simulator.cli.simulate(sys.argv[1:])
"""


@pytest.mark.long
def test_a_killed_sweep_goes_on_and_its_processes_end_with_it(offer: SystemOffer, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_KILLED)
    options = [offer.trace.source.name, "--system=queues", "--sweep=choices=1,2,5", "--seeds=2", "--nodes=10"]
    options += ["--formats=json", f"--out={tmp_path / 'one'}"]
    command = [sys.executable, str(program), *options, "--processes=2"]
    env = {"PYTHONPATH": str(Path.cwd()), "PATH": ""}
    # the pipes end when the last process that has them does
    killed = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    kept = (tmp_path / "one" / "runs.jsonl").read_bytes()
    assert kept.count(b"\n") == 4

    def runs(name: str) -> list[dict[str, Any]]:
        done = CliRunner().invoke(cli, ["simulate", *options, f"--out={tmp_path / name}", "--processes=1"])
        assert done.exit_code == 0, done.output
        found: list[dict[str, Any]] = json.loads((tmp_path / name / "result.json").read_text())["runs"]
        return [run | {"cpu_s": 0} for run in found]

    assert runs("one") == runs("two")
    assert (tmp_path / "one" / "runs.jsonl").read_bytes().startswith(kept)
