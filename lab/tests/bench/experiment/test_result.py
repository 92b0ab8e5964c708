"""Figures of a mix, comparisons with the best stock competitor and the bound, goals, and the page of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lab.tests.bench.experiment import steps
from quicksilver_lab.bench.emulator.jobs import WARM
from quicksilver_lab.bench.emulator.model import EmulatedSample, JobRecord, RunResult, TaskRecord
from quicksilver_lab.bench.emulator.raw import packed
from quicksilver_lab.bench.experiment import run as module
from quicksilver_lab.bench.experiment.lanes import Failed, Lanes
from quicksilver_lab.bench.experiment.plan import ExperimentPlan
from quicksilver_lab.bench.experiment.result import result, summed, take
from quicksilver_lab.bench.experiment.step import Step
from quicksilver_lab.bench.mixes.compare import against, best, by_class, gain
from quicksilver_lab.bench.mixes.figures import figures
from quicksilver_lab.bench.mixes.goals import LAS, ceilings, goals, least_ratios
from quicksilver_lab.bench.page.pages import page_of

OURS = "quicksilver_late"


def run_of(competitor: str, took_s: float, mix: str = "facebook_77", seed: int = 1, kills: int = 0) -> RunResult:
    """Return a run of 20 jobs, one each second from 10 s on; job n has n tasks, and takes took_s + n / 10."""
    jobs = []
    for number in range(1, 21):
        at_s, end_s = 9.0 + number, 9.0 + number + took_s + number / 10
        tasks = [TaskRecord(number, n, at_s, at_s, at_s + 1, end_s) for n in range(number)]
        jobs.append(JobRecord(number, "k", at_s, at_s, end_s, tasks, work_s=2.0 * number))
    jobs.append(JobRecord(0, WARM, 0.0, 0.0, 100.0, []))
    samples = [EmulatedSample(float(at), 3, 0, 2) for at in range(60)]
    found = RunResult(competitor, mix, seed, 2, 4, 10.0, 20.0, jobs, samples, kills=kills, work_lost_s=kills * 1.0)
    found.cpu_s, found.rss_mb, found.counts = {"rm": 4.0}, {"rm": 500.0}, {"heartbeats": 30}
    return found


def test_figures_of_an_open_mix_are_of_all_its_jobs() -> None:
    found = figures(run_of("x", 5.0, kills=42), is_open=True)
    assert found["jobs"] == 20 and found["latency_mean_s"] == pytest.approx(6.05)
    assert found["short_p50_s"] == pytest.approx(5.55), "jobs 1 to 10"
    assert found["wide_mean_s"] == pytest.approx(6.95), "jobs 19 and 20"
    assert found["makespan_s"] == pytest.approx(19.0 + 7.0)
    assert found["work_lost_ratio"] == round(42 / 420, 5)
    assert "tasks_per_s" not in found and {"1", "2-9", "10-99"} == found["sizes"].keys()


def test_figures_of_a_closed_mix_are_of_jobs_submitted_and_tasks_ended_in_the_window() -> None:
    run = run_of("x", 5.0)
    run.window_s = 10.0
    run.jobs[1].ended_s = None
    found = figures(run, is_open=False)
    assert (found["jobs"], found["unfinished_jobs"]) == (9, 1)
    assert found["tasks_per_s"] == pytest.approx((1 + 2 + 3 + 4 + 5) / 10), "ends of jobs 1 to 5, at 15.1 to 19.5 s"
    assert "makespan_s" not in found


def runs(**by_name: float) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [{"seed": seed} | figures(run_of(name, took_s * (1 + seed / 100)), True) for seed in (1, 2)]
        for name, took_s in by_name.items()
    }


def test_the_best_stock_competitor_is_taken_for_each_metric() -> None:
    found = runs(only_g_tuned=9.0, only_g_fair=8.0)
    assert best(found, ("only_g_tuned", "only_g_fair"), "latency_mean_s") == "only_g_fair"
    found["only_g_fair"][0]["unfinished_jobs"] = 1
    assert best(found, ("only_g_tuned", "only_g_fair"), "latency_mean_s") == "only_g_tuned"
    rates = {name: [{"seed": 1, "unfinished_jobs": 0, "tasks_per_s": rate}] for name, rate in (("a", 3.0), ("b", 4.0))}
    assert best(rates, ("a", "b"), "tasks_per_s") == "b"


def test_a_gain_is_the_share_of_what_lies_between_stock_and_bound() -> None:
    assert gain(8.5, 10.0, 8.0) == 0.75
    assert gain(11.0, 10.0, 8.0) == -0.5
    assert gain(9.9, 10.0, 9.9) is None and gain(9.0, 10.0, 12.0) is None


def test_ratios_are_paired_by_seed_and_have_an_interval() -> None:
    found = runs(only_g_tuned=9.0, quicksilver_late=4.0, bound=3.0)
    one = against(found, OURS, ("only_g_tuned",), "latency_mean_s")
    assert one is not None and one["best_stock"] == "only_g_tuned" and one["pairs"] == 2
    assert one["ci_low"] < one["ratio"] < one["ci_high"] < 0.55
    assert one["gain"] == pytest.approx((10.18 - 5.11) / (10.18 - 4.1), abs=0.01)
    assert by_class(found, OURS, ("only_g_tuned",))["sizes"]["1"] == pytest.approx(4.16 / 9.235, abs=0.01)
    assert against(found, OURS, (), "latency_mean_s") is None


def made(plan: ExperimentPlan, *every: RunResult) -> dict[str, Any]:
    found: dict[tuple[str, str], list[RunResult]] = {}
    for run in every:
        take(found, run)
    return result(plan, found) | {"raw": {"runs": [packed(run) for run in every]}, "benchmark": "experiment"}


def plan_of(*mixes: str) -> ExperimentPlan:
    cluster = {"nodes": 4, "cores": 2}
    names = ["only_g_tuned", "only_g_fair", OURS]
    return steps.plan_of(*mixes, competitors=names, seeds=1, cluster=cluster, halved=True, promises=True)


def test_a_result_has_its_goals_on_top_and_their_bounds() -> None:
    every = [run_of("only_g_tuned", 60.0), run_of("only_g_fair", 50.0), run_of(OURS, 30.0, kills=30)]
    found = made(plan_of("facebook_77"), *every)
    mean = found["goals"]["facebook_77.latency_mean_s_ratio"]
    assert mean == {"value": round(31.05 / 51.05, 4), "goal": 0.87, "at_most": True, "met": True}
    assert found["goals"]["facebook_77.latency_mean_s_ratio_tuned"]["goal"] == 0.7
    assert found["goals"]["facebook_77.latency_mean_s_gain"]["at_most"] is False
    each = found["mixes"]["facebook_77"]["compared"][OURS]["each"]
    assert each["only_g_tuned"]["latency_mean_s"]["ratio"] == round(31.05 / 61.05, 4) and "bound" in each
    harm = found["mixes"]["facebook_77"]["compared"][OURS]["harm"]
    assert list(harm) == ["only_g_tuned", "only_g_fair"] and harm["only_g_fair"]["jobs"] == 20
    assert harm["only_g_fair"]["harmed"] == 0 and harm["only_g_fair"]["ratio_worst"] == round(32.0 / 52.0, 3)
    lost = found["goals"]["facebook_77.work_lost_ratio"]
    assert (lost["goal"], lost["met"]) == (0.01, False)
    mix = found["mixes"]["facebook_77"]
    assert {"bound", "bound_preemptive", "bound_endless"} < mix["competitors"].keys()
    assert mix["competitors"]["only_g_tuned"]["heartbeats"] == 30 and "heartbeats" not in mix["competitors"]["bound"]
    page = page_of(json.loads(json.dumps(found)))
    assert [section.title for section in page.sections] == ["In short", "Goals", "Competitors", "Mix facebook_77"]


def test_closed_mixes_have_goals_of_throughput() -> None:
    fixed = {name: [{"seed": 1, "unfinished_jobs": 0, "work_lost_ratio": 0.0, "tasks_per_s": rate, "utilisation": 0.5}]
             for name, rate in (("only_g_tuned", 50.0), (OURS, 96.0))}  # fmt: skip
    own = goals("fixed_2s", fixed, OURS, {}, 200)["fixed_2s.ceiling_share"]
    assert own == {"value": 0.96, "goal": 0.95, "at_most": False, "met": True}
    assert goals("microsoft", fixed, OURS, {}, 200)["microsoft.tasks_ratio_tuned"]["value"] == 1.92
    assert ceilings(fixed, "only_g_tuned", 200, 2.0) == {"tasks_per_s": 100.0, "throughput_ratio": 2.0}


def test_kairos_goals_are_against_fifo_and_for_the_worst_class() -> None:
    found = {}
    for name, took_s, worst_s in (("only_g_tuned", 20.0, 30.0), (OURS, 5.0, 45.0)):
        classes = {"1": {"latency_mean_s": took_s}, "5": {"latency_mean_s": worst_s}}
        one = {"latency_p50_s": took_s, "latency_p99_s": worst_s, "classes": classes}
        found[name] = [{"seed": 1, "unfinished_jobs": 0, "work_lost_ratio": 0.0} | one]
    own = goals("kairos", found, OURS, {}, 120)
    assert {name: (goal["value"], goal["met"]) for name, goal in own.items() if name.endswith("fifo")} == {
        "kairos.latency_p50_s_ratio_fifo": (0.25, True),
        "kairos.latency_p99_s_ratio_fifo": (1.5, False),
        "kairos.worst_class_ratio_fifo": (1.5, False),
    }


def test_the_preset_after_the_paper_has_kairos_goals_too() -> None:
    def one(took_s: float) -> list[dict[str, Any]]:
        figures = {"latency_p50_s": took_s, "latency_p99_s": took_s, "classes": {"1": {"latency_mean_s": took_s}}}
        return [{"seed": 1, "unfinished_jobs": 0, "work_lost_ratio": 0.0} | figures]

    found = {"only_g_tuned": one(20.0), OURS: one(10.0), LAS: one(5.0), "bound_endless": one(4.0)}
    own = goals("kairos", found, OURS, {}, 120)
    assert own["kairos.latency_p50_s_ratio_fifo"]["value"] == 0.5
    assert own[f"kairos.{LAS}.latency_p50_s_ratio_fifo"]["value"] == 0.25
    assert own[f"kairos.{LAS}.worst_class_ratio_fifo"] == {"value": 0.25, "goal": 1.2, "at_most": True, "met": True}
    assert goals("kairos", found, LAS, {}, 120).keys() == {name for name in own if LAS not in name}
    assert least_ratios("kairos", found) == {"latency_p50_s_ratio_fifo": 0.2, "latency_p99_s_ratio_fifo": 0.2}
    assert least_ratios("yahoo", found) == {}


def test_means_over_seeds_have_intervals() -> None:
    found = summed(runs(x=5.0)["x"])
    assert found["runs"] == 2 and found["jobs"] == 40
    assert found["latency_mean_s"]["ci_low"] < found["latency_mean_s"]["value"] < found["latency_mean_s"]["ci_high"]
    assert found["sizes"]["1"]["jobs"] == 2


def test_a_closed_mix_has_its_window_too_and_a_plan_its_own_goals() -> None:
    names = {"workload": "fixed_2s", "candidate": OURS, "base": "only_g_tuned", "metric": "tasks_per_s"}
    goal = {"key": "more", "target": 1.1, "source": "own"} | names
    cluster = {"nodes": 4, "cores": 2}
    plan = steps.plan_of("fixed_2s", competitors=["only_g_tuned", OURS], goals=[goal], cluster=cluster)
    every = [run_of(name, took_s, "fixed_2s") for name, took_s in (("only_g_tuned", 9.0), (OURS, 4.0))]
    found = made(plan, *every)
    assert (
        list(found["goals"]) == ["more"] and found["goals"]["more"]["value"] > 1 and found["goals"]["more"]["ceiling"]
    )
    window = found["mixes"]["fixed_2s"]["competitors"][OURS]["window"]
    assert {"tasks_per_s", "jobs_per_s", "wait_p50_s", "cpu_ratio", "late_s", "phases", "classes"} <= window.keys()


def test_lost_and_doubled_tasks_are_summed_over_all_runs() -> None:
    every = [run_of("only_g_tuned", 60.0, seed=seed) for seed in (1, 2)]
    every[0].counts |= {"lost": 1}
    every[1].counts |= {"lost": 2, "doubled": 3}
    found = made(plan_of("facebook_77"), *every)
    assert (found["lost_tasks"], found["doubled_tasks"]) == (3, 3)
    assert found["mixes"]["facebook_77"]["competitors"]["only_g_tuned"]["doubled"] == 3


def test_the_command_prints_its_goals_and_fails_when_a_run_broke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def carried(_lanes: Lanes, steps: list[Step]) -> list[RunResult | Failed]:
        return [
            Failed(step, "no room") if step.competitor == "only_g_fair" else run_of(step.competitor, 30.0)
            for step in steps
        ]

    monkeypatch.setattr(Lanes, "run", carried)
    words = ["mixes", "--workloads", "facebook_77", "--competitors", f"only_g_tuned,only_g_fair,{OURS}", "--seeds", "1"]
    words += ["--results", str(tmp_path), "--dir", str(tmp_path / "run")]
    outcome = CliRunner().invoke(module.run, words)
    found = json.loads(outcome.stdout.splitlines()[-1])
    assert outcome.exit_code == 1 and found["broken"] == ["facebook_77, only_g_fair, seed 1: no room"]
    assert all({"value", "goal", "met"} <= goal.keys() for goal in found["goals"].values()) and found["goals"]
    (file,) = tmp_path.glob("mixes-*.json")
    assert len(json.loads(file.read_text())["raw"]["runs"]) == 2 and len([*tmp_path.glob("mixes-*.html")]) == 1


def test_an_unknown_mix_is_an_error_of_usage() -> None:
    outcome = CliRunner().invoke(module.run, ["mixes", "--workloads", "nothing"])
    assert outcome.exit_code == 2 and "no mix is named nothing" in outcome.output
