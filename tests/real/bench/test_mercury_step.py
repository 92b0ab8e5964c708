"""From a step to a run, and small runs on a real ResourceManager."""

from functools import partial
from pathlib import Path

import pytest

from quicksilver_lab.bench.emulator.model import RunResult
from quicksilver_lab.bench.emulator.run import RunSpec
from quicksilver_lab.bench.experiment.lanes import Failed, Lanes
from quicksilver_lab.bench.experiment.step import Step, spec
from quicksilver_lab.bench.mercury.figures import figures
from quicksilver_lab.bench.mixes.mixes import Mix, mix_named, resized
from quicksilver_lab.cluster.ports import free_base_port

SMALL = {"nodes": 8, "cores": 2, "warm_s": 3.0, "window_s": 6.0, "drain_s": 60.0}


def small(name: str) -> Mix:
    return resized(mix_named(name), **SMALL)


def spec_of(mix: str, competitor: str) -> RunSpec:
    step = Step(mix, competitor, 1, partial(mix_named, mix))
    return spec(step, step.mix.drawn(1), 20000)


def test_a_step_names_the_settings_of_its_competitor() -> None:
    found = spec_of("fixed_2s", "opportunistic_half")
    assert (found.slots, found.concurrent) == (256, 27)
    assert found.masters.am.opportunistic_percent == 50
    assert found.nodes.max_queue_length == 15
    assert found.rm.yarn["yarn.resourcemanager.nm-container-queuing.load-comparator"] == "QUEUE_LENGTH"
    assert not found.rm.behind_proxy
    assert found.policies is None


def test_masters_may_beat_faster_than_nodes() -> None:
    for name, beat_s in (("only_g_fair", 1.0), ("only_g_fair_fast", 0.2), ("only_g_tuned_fast", 0.2)):
        found = spec_of("fixed_2s", name)
        assert (found.masters.heartbeat_s, found.rm.heartbeat_s) == (beat_s, 1.0)


def test_a_preempting_fair_scheduler_says_who_starves() -> None:
    rm = spec_of("fixed_2s", "only_g_fair_preempt").rm
    assert rm.yarn["yarn.scheduler.fair.preemption"] == "true"
    assert rm.fair_scheduler["defaultFairSharePreemptionTimeout"] == "5"


def test_one_node_of_sixteen_is_a_straggler() -> None:
    nodes = spec_of("stragglers", "only_g_tuned").nodes
    assert [number for number in range(64) if nodes.slow(number)] == [15, 31, 47, 63]
    assert nodes.slow_times == 3.0
    assert not any(spec_of("fixed_2s", "only_g_tuned").nodes.slow(n) for n in range(64))


def test_quicksilver_stands_before_resource_manager_and_nodes() -> None:
    found = spec_of("fixed_2s", "quicksilver_las")
    assert found.rm.behind_proxy
    assert found.nodes.relay.mark_guaranteed
    assert (found.nodes.relay.extra.vcores, found.nodes.relay.extra.memory_mb) == (4, 4096)
    assert found.policies is not None


def step(mix: str, competitor: str) -> Step:
    return Step(mix, competitor, 1, partial(small, mix))


@pytest.mark.long
def test_a_run_that_fails_is_told_and_others_go_on(tmp_path: Path) -> None:
    told: list[str] = []
    steps = [step("fixed_2s", "nobody"), step("no such workload", "only_g_tuned")]
    found = [str(one) for one in Lanes(2, tmp_path, 20000, told.append).run(steps)]
    assert sorted(found) == [
        "fixed_2s, nobody, seed 1: KeyError: 'nobody'",
        "no such workload, only_g_tuned, seed 1: KeyError: 'no such workload'",
    ]
    assert len([text for text in told if text.startswith("error: ")]) == 2


@pytest.mark.hadoop
@pytest.mark.long
@pytest.mark.alone
def test_every_task_runs_once_stock_and_through_quicksilver(tmp_path: Path) -> None:
    steps = [step("fixed_2s", name) for name in ("only_g_tuned", "quicksilver_only_q")]
    for found in Lanes(1, tmp_path, free_base_port(1), lambda _: None).run(steps):
        assert not isinstance(found, Failed), found
        _whole(found)
    assert not any((tmp_path / "lane0").glob("*"))


def _whole(run: RunResult) -> None:
    assert (run.counts["lost"], run.counts["doubled"]) == (0, 0)
    assert all(task.ended_s is not None for job in run.jobs for task in job.tasks)
    found = figures(run)
    assert 0 < found["tasks_per_s"] <= run.slots / 2
    assert 0.2 < found["utilisation"] <= 1
    assert run.cpu_s.keys() == run.rss_mb.keys() >= {"rm", "emulator"}
