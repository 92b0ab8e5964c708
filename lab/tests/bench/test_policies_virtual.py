"""The machines together under the virtual clock: nothing is lost or doubled, capacity holds, equal seeds are equal."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hadoop_rpc.protos import yarn_pb2 as y
from policies.config.policy_set import Policies
from policies.config.registry import Registry
from policies.model import Resources
from quicksilver.simulator.world.master import PRIORITY
from quicksilver.simulator.world.scheduler import ANY, SchedulerNode
from quicksilver.simulator.world.yarn import Yarn
from quicksilver_lab.bench.policies import virtual
from quicksilver_lab.bench.policies.jobs import BATCH, PRODUCTION, JobsPlan, draw
from quicksilver_lab.bench.policies.run import policies
from quicksilver_lab.bench.policies.variants import PolicyVariant, available
from quicksilver_lab.bench.policies.virtual import VirtualOutcome
from quicksilver_lab.bench.policies.world import world
from rm_proxy.domain import ids
from tests.examples import others_long

SMALL = JobsPlan(nodes=6, arrivals_s=15.0)
NODES = 10
"""Of variants with a plan of their own, which has 50: ten decide the same kinds of things in a fifth of the time."""
VARIANTS = [
    replace(variant, plan={**variant.plan, "nodes": NODES}) if variant.plan else variant
    for variant in available(Registry())[0]
]


@pytest.mark.parametrize("seed", (1, 2))
def test_jobs_offer_the_load_and_are_the_same_for_equal_seeds(seed: int) -> None:
    plan = JobsPlan()
    jobs = draw(plan, seed)
    assert jobs == draw(plan, seed) != draw(plan, seed + 1)
    offered = sum(job.work_s for job in jobs) / (plan.slots * plan.arrivals_s)
    assert plan.load <= offered < plan.load + 0.1
    assert [job.arrives_s for job in jobs] == sorted(job.arrives_s for job in jobs)
    production = [job for job in jobs if job.queue == PRODUCTION]
    assert [job.arrives_s for job in production] == [5.0, 15.0, 25.0, 35.0]
    assert all(len(job.tasks) == round(plan.g_share * plan.slots) for job in production)


def test_what_is_told_errs_as_much_as_it_may() -> None:
    wrong = draw(replace(SMALL, error=0.9), 1)
    right = draw(replace(SMALL, error=0.0), 1)
    ratios = [one.told_s / other.told_s for one, other in zip(wrong, right, strict=True) if one.queue == BATCH]
    assert 0.1 <= min(ratios) < 0.9 and 1.1 < max(ratios) <= 1.9
    assert [job.tasks for job in wrong] == [job.tasks for job in right]


@pytest.mark.parametrize("variant", others_long(VARIANTS, 4), ids=lambda variant: variant.name)
def test_every_task_is_done_once_within_capacity(variant: PolicyVariant) -> None:
    outcome = virtual.simulate(SMALL, variant, 3)
    assert outcome.wrong == []
    assert outcome.metrics["utilisation"] <= 1.0
    assert outcome.metrics["wait_p50_s"] > 0.0999
    assert outcome.counts["granted G"] > 0


@pytest.mark.long
@given(
    variant=st.sampled_from(VARIANTS),
    nodes=st.integers(1, 8),
    cores=st.integers(1, 4),
    load=st.floats(0.3, 2.0),
    g_share=st.floats(0.0, 1.0),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_is_offered_is_done_once(
    variant: PolicyVariant, nodes: int, cores: int, load: float, g_share: float, seed: int
) -> None:
    plan = JobsPlan(nodes=nodes, cores=cores, load=load, g_share=g_share, arrivals_s=5.0, g_period_s=2.0, g_task_s=1.0)
    made = world(plan, Policies.load(variant.policies), seed, variant.corrected)
    run = made.go()
    assert virtual.wrong(run) == []
    for master in run.masters:
        assert all(task.ended_s is not None for task in master.tasks)
    assert not any(site.running for site in made.sites.values())
    assert all(not app.containers for app in made.yarn.apps.values())
    assert made.yarn.free() == Resources(nodes * cores * 1024, nodes * cores)


@pytest.mark.long
def test_equal_seeds_are_equal_in_another_process_too() -> None:
    variants = [variant for variant in VARIANTS if variant.name in ("baseline", "all")]
    here = [virtual.simulate(SMALL, variant, 5) for variant in variants]
    there = list(virtual.measure(SMALL, variants, [5], 1, lambda _: None))
    for one, other in zip(here, there, strict=True):
        assert (one.metrics, one.counts) == (other.metrics, other.counts)


@pytest.mark.long
def test_effects_are_paired_by_seed() -> None:
    variants = [variant for variant in VARIANTS if variant.name in ("baseline", "place_topk_wait")]
    outcomes = [virtual.simulate(SMALL, variant, seed) for seed in (2, 1) for variant in variants]
    found = virtual.compared(outcomes, variants)
    assert found["against"] == {"place_topk_wait": "baseline"} and found["wrong"] == {}
    effect = found["effects"]["place_topk_wait"]["completion_mean_s"]
    assert effect["ci_low"] < effect["effect"] < effect["ci_high"]
    base, topk = (found["means"][name]["tasks_per_s"] for name in ("baseline", "place_topk_wait"))
    assert base > 0 and topk > 0
    unfinished = virtual.compared([replace(o, wrong=["1 of 9 jobs did not finish"]) for o in outcomes], variants)
    assert unfinished["wrong"]["baseline"] == ["1 of 9 jobs did not finish"]


def test_what_was_told_stays_where_nothing_corrects_it() -> None:
    learnt = []
    for corrected in (True, False):
        made = world(replace(SMALL, error=0.9), Policies.load(VARIANTS[0].policies), 1, corrected)
        made.go()
        sources = set()
        for master in made.masters.values():
            app = made.coordinator.apps.app(ids.app_of_attempt(master.attempt_id))
            assert app is not None
            sources.add(made.coordinator.durations.expected(app, PRIORITY).source)
        learnt.append(sources)
    assert learnt[1] == {"tag"} and "stage" in learnt[0]


def test_seeds_that_not_all_were_run_with_do_not_count() -> None:
    variants = VARIANTS[:2]
    one = VirtualOutcome(variants[0].name, 1, {}, {}, [], 0.0)
    found = [one, replace(one, variant=variants[1].name), replace(one, seed=2)]
    assert virtual.whole(found, variants) == found[:2]


@pytest.mark.long
def test_the_command_ends_with_one_json_object_and_keeps_it(tmp_path: Path) -> None:
    words = ["--nodes", "4", "--arrivals", "15", "--seeds", "2", "--policies", "place_topk_wait"]
    result = CliRunner().invoke(policies, [*words, "--results", str(tmp_path)])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout.splitlines()[-1])
    one = told["virtual"]["effects"]["place_topk_wait"]["tasks_per_s"]
    assert set(one) == {"kind", "effect", "ci_low", "ci_high"}
    (kept,) = tmp_path.glob("policies-*.json")
    assert len(json.loads(kept.read_text())["raw"]["virtual"]) == 4
    assert len(list(tmp_path.glob("*.html"))) == 1


# The ResourceManager of the runs


def yarn(nodes: int = 2) -> Yarn:
    made = Yarn(SchedulerNode(f"h{n}:1", f"h{n}", "/r", Resources(2048, 2)) for n in range(nodes))
    attempt = y.ApplicationAttemptIdProto(attemptId=1)
    attempt.application_id.id = 1
    made.register(attempt, "root.q")
    return made


def ask(made: Yarn, response_id: int, rows: dict[str, int], opportunistic: bool = False) -> y.AllocateResponseProto:
    request = y.AllocateRequestProto(response_id=response_id)
    for name, count in rows.items():
        row = request.ask.add(resource_name=name, num_containers=count)
        row.priority.priority = 1
        row.capability.memory, row.capability.virtual_cores = 1024, 1
        row.execution_type_request.execution_type = y.OPPORTUNISTIC if opportunistic else y.GUARANTEED
    return y.AllocateResponseProto.FromString(made.allocate(1, request.SerializeToString()))


def hosts(answer: y.AllocateResponseProto) -> list[str]:
    return [container.nodeId.host for container in answer.allocated_containers]


def test_opportunistic_ones_come_at_once_on_their_host_and_are_not_counted() -> None:
    made = yarn()
    assert hosts(ask(made, 0, {"h1": 3, ANY: 3}, opportunistic=True)) == ["h1"] * 3
    assert made.free() == Resources(4096, 4)


def test_guaranteed_ones_come_on_heartbeats_one_off_switch_at_a_time_within_the_node() -> None:
    made = yarn()
    assert hosts(ask(made, 0, {ANY: 5})) == []
    for _ in range(4):
        made.heartbeat("h0:1", [])
    assert hosts(ask(made, 1, {})) == ["h0", "h0"]
    made.heartbeat("h0:1", [(1, 1, 0)])
    answer = ask(made, 2, {})
    assert [status.exit_status for status in answer.completed_container_statuses] == [0]
    assert hosts(answer) == ["h0"]


def test_local_ones_come_with_one_heartbeat() -> None:
    made = yarn()
    ask(made, 0, {"h1": 2, "/r": 2, ANY: 2})
    made.heartbeat("h1:1", [])
    assert hosts(ask(made, 1, {})) == ["h1", "h1"]
    assert made.free() == Resources(2048, 2)


def test_a_promotion_needs_room() -> None:
    made = yarn(1)
    given = ask(made, 0, {"h0": 3, ANY: 3}, opportunistic=True).allocated_containers
    request = y.AllocateRequestProto(response_id=1)
    for container in given:
        request.update_requests.add(
            container_version=0, container_id=container.id, update_type=y.PROMOTE_EXECUTION_TYPE
        )
    answer = y.AllocateResponseProto.FromString(made.allocate(1, request.SerializeToString()))
    assert [u.container.execution_type for u in answer.updated_containers] == [y.GUARANTEED] * 2
    assert made.free() == Resources(0, 0)
