"""Plans: those that come along, the order of their runs, their errors, and what the command lays over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.tests.bench.experiment.steps import jobs_of, plan_of
from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.bench.experiment.plan import BEST, ExperimentPlan, changed, load, plans
from quicksilver_lab.bench.experiment.step import spec
from quicksilver_lab.bench.mercury.competitors import BY_NAME, OWN_OPPORTUNISTIC
from quicksilver_lab.bench.mixes.mixes import ALL, GUARANTEES

OURS = "quicksilver"
GOAL = """about: x
workloads: [google]
competitors: [quicksilver]
goals:
- {{key: k, workload: {workload}, candidate: quicksilver, base: {base}, metric: tasks_per_s, target: 1, source: x}}
"""


def order(plan: ExperimentPlan, seed: int) -> list[str]:
    return [step.competitor for step in plan.steps(seed, lambda _: "opportunistic_deep")]


@pytest.mark.parametrize("name", plans())
@pytest.mark.parametrize("quick", (False, True))
def test_a_plan_that_comes_along_names_runs(name: str, quick: bool) -> None:
    plan = load(name, quick)
    for seed in range(1, max(map(plan.seeds_of, plan.workloads)) + 1):
        assert set(order(plan, seed)) <= BY_NAME.keys()
    assert plan.about and plan.steps(1, lambda _: None)


def test_the_mixes() -> None:
    plan = load("mixes")
    assert [jobs.name for jobs in plan.workloads] == [mix.name for mix in (*ALL, GUARANTEES)]
    assert plan.seeds == 3 and set(plan.beside) < set(plan.competitors)
    yahoo = plan.workloads[3]
    assert plan.mix(yahoo).size.slots == 256 and plan.candidates(yahoo) == (OURS,)
    assert set(plan.stock(yahoo)) == set(plan.competitors) - {*plan.beside, OURS}
    quick = load("mixes", quick=True)
    assert (quick.workloads[0].name, quick.seeds, quick.mix(quick.workloads[0]).jobs) == ("facebook_77", 1, 150)
    assert quick.expected_s() <= 600


def test_the_order_of_competitors_rotates_with_the_seeds() -> None:
    plan = plan_of("yahoo", "guarantees", competitors=["only_g_tuned", "only_g_fair", OURS], seeds=2)
    assert order(plan, 1) == ["only_g_tuned", "only_g_fair", OURS, "only_g_tuned", OURS]
    assert order(plan, 2) == ["only_g_fair", OURS, "only_g_tuned", OURS, "only_g_tuned"]
    yahoo, guarantees = plan.workloads
    assert [step.competitor for step in plan.bounds(yahoo)] == ["bound", "bound_preemptive", "bound_endless"] * 2
    assert plan.bounds(guarantees) == []


def test_only_the_best_of_hadoops_own_goes_on() -> None:
    jobs = {"mix": "fixed_2s", "competitors": ["only_g_tuned", BEST, "quicksilver_only_q"], "once": ["only_g_fair"]}
    plan = plan_of(workloads=[jobs | {"seeds": 2}, {"mix": "hybrid", "seeds": 1}])
    assert order(plan, 1) == ["only_g_tuned", *OWN_OPPORTUNISTIC, "quicksilver_only_q", "only_g_fair", "only_g_tuned"]
    assert order(plan, 2) == ["opportunistic_deep", "quicksilver_only_q", "only_g_tuned"]
    assert order(plan, 3) == []


def test_a_workload_of_mercury_is_a_mix_and_a_cluster_may_be_another() -> None:
    plan = plan_of(
        workloads=[{"mix": "straggler_tasks", "cluster": {"window_s": 30}}, {"mix": "yahoo"}], cluster={"nodes": 32}
    )
    stragglers, yahoo = (plan.mix(jobs) for jobs in plan.workloads)
    assert (stragglers.workload, stragglers.open, stragglers.size.window_s) == ("straggler_tasks", False, 30)
    assert (stragglers.size.nodes, yahoo.size.nodes, yahoo.jobs) == (32, 32, 75)


@pytest.mark.parametrize(
    ("text", "error"),
    (
        ("about: x\nworkloads: [googel]\n", ":2: workloads[0].mix: no mix is named googel; did you mean google"),
        ("about: x\nworkloads: [google]\n", ":1: description: nobody runs google: name competitors"),
        ("about: x\nworkloads: [{}]\ncompetitors: [quicksilver]\n", ":2: workloads[0]: needs either `mix` or `trace`"),
        ("about: x\nworkloads: [google]\ncompetitors: [quicksilvr]\n", ":3: competitors[0]: no competitor is named"),
        (
            "about: x\nworkloads:\n- mix: google\n  seed: 3\n",
            ":4: workloads[0].seed: unknown setting; did you mean",
        ),
        ("about: x\nworkloads: [google, google]\ncompetitors: [quicksilver]\n", "google stands twice"),
        ("about: x\nworkloads: [google]\ncluster: {nodes: 0}\n", ":3: cluster.nodes: must be >= 1, got 0"),
        (
            "about: x\nworkloads: [google]\ncompetitors: [quicksilver]\nquick:\n  seeds: no\n",
            ":5: quick.seeds: must",
        ),
        (GOAL.format(workload="googel", base="only_g_fair"), "the goal k is on googel: name one of google"),
        (GOAL.format(workload="google", base="only_g"), ":5: goals[0].base: no competitor is named only_g"),
        ("about: x\nworkloads: [{trace: {format: x}}]\n", ":2: workloads[0].trace.format: no format is named x"),
        ("workloads: [google]\n", ":1: about: is missing"),
        ("- 1\n", ":1: description: must be a mapping"),
        ("a: [\n", "is no YAML"),
    ),
)
def test_a_mistake_names_file_key_and_remedy(tmp_path: Path, text: str, error: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(QuicksilverError) as raised:
        load(str(file))
    assert str(raised.value).startswith(f"{file}:") and error in str(raised.value)


def test_a_plan_that_is_not_there_is_an_error_with_those_that_are() -> None:
    with pytest.raises(
        QuicksilverError, match="no plan is named mine; name a file, or one of mercury, mixes, swim, trace"
    ):
        load("mine")
    with pytest.raises(QuicksilverError, match=r"mine\.yaml: cannot be read"):
        load("mine.yaml")


def ran(plan: ExperimentPlan) -> dict[str, tuple[str, ...]]:
    return {jobs.name: plan.listed(jobs) for jobs in plan.workloads}


def test_workloads_and_competitors_are_chosen_and_others_are_added() -> None:
    plan = changed(load("mixes"), ["yahoo", "same_name"], ["quicksilver_late"], 2)
    assert ran(plan) == {"yahoo": ("quicksilver_late",), "same_name": ("quicksilver_late",)} and plan.seeds == 2
    plan = changed(load("mercury"), competitors=["quicksilver_hybrid", "quicksilver_las"], seeds=4)
    assert {name: set(names) for name, names in ran(plan).items()} == {
        "fixed_2s": {"quicksilver_hybrid", "quicksilver_las"},
        "hybrid": {"quicksilver_hybrid"},
        "microsoft": {"quicksilver_hybrid"},
    }
    assert {plan.seeds_of(jobs) for jobs in plan.workloads} == {4}


@pytest.mark.parametrize(
    ("options", "error"),
    (
        ({"workloads": ["x"]}, "no mix is named x"),
        ({"competitors": ["y"]}, "no competitor is named y"),
        ({"workloads": ["hybrid"], "competitors": ["only_g_fair"]}, "workloads: tuple should have at least 1 item"),
    ),
)
def test_options_that_fit_no_plan_are_refused(options: dict[str, Any], error: str) -> None:
    with pytest.raises(QuicksilverError, match=error):
        changed(load("mercury"), **options)


def test_a_plan_names_the_version_of_hadoop() -> None:
    plan = changed(plan_of("facebook_77", competitors=["quicksilver_own_grants", "quicksilver"]), hadoop="3.1.1")
    own, usual = (spec(step, jobs_of(step), 23000) for step in plan.steps(1, lambda _: None))
    assert (own.rm.hadoop, own.rm.own_grants, own.proxy) == ("3.1.1", True, {"own_grants": True})
    assert (usual.rm.hadoop, usual.rm.own_grants, usual.proxy) == ("3.1.1", False, {})
    assert own.policies == usual.policies
    with pytest.raises(QuicksilverError, match=r"no version of Hadoop is named 2\.7"):
        changed(plan, hadoop="2.7")
