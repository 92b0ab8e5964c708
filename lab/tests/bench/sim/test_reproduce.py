"""Experiments of the papers: they can be run, and what is made of the runs."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from quicksilver.simulator.figures import ALL, LONG, SHORT
from quicksilver.simulator.model import SimulatedJob
from quicksilver.simulator.systems import load
from quicksilver.simulator.traces.generators import generate
from quicksilver_lab.bench.sim import reproduce
from quicksilver_lab.bench.sim.papers import NO_GIANTS, PARTS, YAHOO, PaperVariant
from quicksilver_lab.bench.sim.reproduce import ReproducedRun, beside, jobs_of, main, offered, once


def ran(*completion_s: float) -> ReproducedRun:
    found = {f"{kind}_{klass}": completion_s[0] for klass in (SHORT, LONG) for kind in ("mean", "p50", "p90", "p99")}
    return ReproducedRun(found, {}, dict(enumerate(completion_s)))


@pytest.mark.parametrize("name", PARTS)
def test_all_that_is_set_can_be_set_and_pairs_are_of_runs(name: str) -> None:
    part = PARTS[name]
    for variant in part.variants.values():
        load(variant.system).Settings(**part.workload.settings_of(variant.system, variant.extra))
    assert part.pairs
    assert {label for pair in part.pairs for label in pair} == set(part.variants)


def test_a_load_makes_the_nodes_and_nodes_are_taken_as_they_are() -> None:
    jobs = [SimulatedJob(1, 0.0, (300.0,) * 10, 300.0), SimulatedJob(2, 100.0, (300.0,) * 10, 300.0)]
    assert offered(YAHOO, 0.5, jobs, 1).cluster.nodes == 120
    assert offered(YAHOO, 0.5, jobs, 1).load == pytest.approx(0.5)
    assert offered(YAHOO, 4000, jobs, 1).cluster.nodes == 4000


def test_jobs_of_many_tasks_are_left_out_and_the_others_come_faster() -> None:
    jobs, plain = jobs_of(NO_GIANTS, 1, 400), jobs_of(YAHOO, 1, 400)
    assert [job.durations_s for job in jobs] == [job.durations_s for job in plain if len(job.durations_s) <= 500]
    assert 0 < len(jobs) < len(plain)
    assert offered(NO_GIANTS, 4000, jobs, 1).load == pytest.approx(0.9)


def test_two_runs_beside_each_other() -> None:
    found = beside(ran(10.0, 10.0, 20.0, 1.0), ran(20.0, 10.005, 50.0, 100.0), frozenset((3,)))
    assert found["p50_short"] == 0.5
    assert (found["better_short"], found["better_by_half_short"]) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert (found["no_worse_short"], found["better_long"], found["no_worse_long"]) == (1, 1, 1)


def test_jobs_that_are_all_short_have_no_figures_of_long_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "write", lambda *_: tmp_path)
    assert not any(name.endswith("_long") and "better" in name for name in beside(ran(1.0), ran(2.0), frozenset()))
    result = CliRunner().invoke(main, ["--part", "google-hawk", "--size", "100", "--first", "8", "--seeds", "2"])
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout.splitlines()[-1])["parts"]["google-hawk"]["rows"]
    assert row["pairs"]["hawk / sparrow"]["no_worse_short"]["max"] <= 1
    assert "no_worse_long" not in row["pairs"]["hawk / sparrow"], "a seed has no long jobs"


def test_long_is_what_the_variants_own_cut_off_says() -> None:
    given = offered(YAHOO, 0.7, list(generate("yahoo", 60, 1)), 1)
    all_long = once(PaperVariant("sparrow", {"cutoff_s": 0.0}), given).figures
    assert {name.rpartition("_")[2] for name in all_long if name.startswith("p50_")} == {LONG, ALL}


def test_equal_commands_print_equal_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "write", lambda *_: tmp_path)
    words = ["--part", "yahoo", "--first", "30", "--size", "0.7", "--size", "40", "--seeds", "2"]
    told = []
    for _ in range(2):
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.output
        told.append(json.loads(result.stdout.splitlines()[-1])["parts"]["yahoo"]["rows"])
        for row in told[-1]:
            for run in row["runs"].values():
                assert run.pop("cpu_s")["min"] >= 0
    assert told[0] == told[1]
    assert [row["size"] for row in told[0]] == [0.7, 40.0]
    assert told[0][1]["nodes"] == {"median": 40, "min": 40, "max": 40}
    assert told[0][0]["pairs"]["eagle / hawk"]["p50_short"]["median"] > 0


def test_parts_are_listed() -> None:
    result = CliRunner().invoke(main, ["--list"])
    assert set(PARTS) == {line.partition(":")[0] for line in result.output.splitlines()}
