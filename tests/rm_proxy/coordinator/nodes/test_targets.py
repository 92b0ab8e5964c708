"""Targets by example: limits of shedding and policing as they follow the policies, and what is written down of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.base import Policy, PolicyConfig
from policies.config.cluster_slots import ClusterSlots
from policies.config.policy_set import Policies
from policies.config.registry import BoundPolicy
from policies.model import AppView, Ask, Limit, NodeUse, Resources, ShedTarget
from quicksilver.common.messages import Targets
from rm_proxy.attempt.effects import Decided, Faulted
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.domain.records import DecisionRecord
from tests.rm_proxy.yarn_messages import ALL_Q, coordinator, node_id, report, yarn_node

FAST = {"round_to": 1.0, "round_up": True}


def world(nodes: int = 6, **policies: Any) -> Coordinator:
    return coordinator(nodes=nodes, policies=ALL_Q | policies)


def shedding(**settings: Any) -> dict[str, Any]:
    return {"policy": "mean_sigma", "settings": {"min_wait_s": 0, "damping": FAST} | settings}


def waits(world: Coordinator, now_s: float, *queued_s: float, **fields: Any) -> None:
    for number, wait_s in enumerate(queued_s, 1):
        world.reports.report(node_id(number), report(number, queued_s=wait_s, **fields), now_s)


def targets(world: Coordinator, number: int = 1) -> Targets:
    target = world.targets.of(node_id(number))
    assert target is not None
    return target


def decided(world: Coordinator) -> list[DecisionRecord]:
    return [effect.record for effect in world.take_effects() if isinstance(effect, Decided)]


def test_no_policies_no_targets_and_nothing_to_write_down() -> None:
    alone = world()
    alone.rounds.all_parts(1.0)
    assert targets(alone) == Targets()
    assert decided(alone) == []


def test_every_node_gets_the_limit_and_the_ack_carries_it() -> None:
    busy = world(shed=shedding())
    waits(busy, 1.0, 0, 0, 0, 0, 0, 60)  # mean 10, sigma 22.36
    busy.rounds.all_parts(1.0)
    assert {targets(busy, number).max_wait_s for number in range(1, 7)} == {55.0}
    ack = busy.reports.report(node_id(6), report(6, queued_s=60), 1.1)
    assert ack.targets is not None
    assert (ack.targets.max_wait_s, ack.targets.max_sheds, ack.targets.max_share_ratio) == (55.0, 2, 0.25)
    assert "mean 10.0 s + 2 sigma of 22.4 s over 6 nodes" in ack.targets.shed_reason


def test_one_record_for_a_change_with_the_longest_waits() -> None:
    busy = world(shed=shedding())
    waits(busy, 1.0, 0, 0, 0, 0, 0, 60)
    busy.rounds.all_parts(1.0)
    [record] = decided(busy)
    assert (record.slot, record.policy, record.node_id) == ("shed", "mean_sigma", "")
    assert record.chosen == "at most 55 s of waiting, 6 nodes"
    assert record.scores[0] == (node_id(6), 60.0)
    busy.rounds.all_parts(2.0)
    assert decided(busy) == []


def test_the_limit_rises_at_once_and_falls_slowly() -> None:
    slow = FAST | {"fall_part_ratio": 0.5, "fall_every_s": 2.0, "fall_beyond_ratio": 0.1}
    busy = world(shed=shedding(c=0, damping=slow))
    found = []
    for now_s, wait_s in enumerate((100, 20, 20, 20, 20, 20, 90), 1):
        waits(busy, now_s, *[wait_s] * 6)
        busy.rounds.all_parts(float(now_s))
        found.append(targets(busy).max_wait_s)
    assert found == [100, 100, 60, 60, 40, 40, 90]


def test_queue_length_limits_numbers() -> None:
    busy = world(nodes=4, shed={"policy": "queue_length", "settings": {"min_length": 0}})
    for number, length in enumerate((0, 1, 4, 9), 1):
        busy.reports.report(node_id(number), report(number, queue_length=length), 1.0)
    busy.rounds.all_parts(1.0)
    assert (targets(busy).max_queue, targets(busy).max_wait_s) == (7, None)
    assert [record.chosen for record in decided(busy)] == ["at most 7 waiting, 4 nodes"]


def test_a_steady_policy_is_asked_again_only_of_other_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    busy, asked = world(shed=shedding()), []
    ask = ClusterSlots.shed
    monkeypatch.setattr(ClusterSlots, "shed", lambda s, nodes, now_s: asked.append(now_s) or ask(s, nodes, now_s))
    waits(busy, 1.0, 0, 0, 0, 0, 0, 60)
    busy.rounds.all_parts(1.0)
    busy.rounds.all_parts(2.0)
    waits(busy, 2.5, 0, 0, 0, 0, 0, 60)
    busy.rounds.all_parts(3.0)
    assert asked == [1.0]
    waits(busy, 3.5, 0, 0, 0, 0, 0, 90)
    busy.rounds.all_parts(4.0)
    assert asked == [1.0, 4.0] and targets(busy).max_wait_s == 83.0  # mean 15, sigma 33.54


def test_another_policy_begins_anew_and_none_lifts_the_limit() -> None:
    busy = world(shed=shedding(c=0))
    waits(busy, 1.0, *[50] * 6)
    busy.rounds.all_parts(1.0)
    busy.use(Policies.load(ALL_Q), 2.0)
    busy.rounds.all_parts(2.0)
    assert targets(busy).max_wait_s is None
    assert [record.chosen for record in decided(busy)] == ["at most 50 s of waiting, 6 nodes", "no limit, 6 nodes"]


def test_an_unusable_node_counts_for_nothing_and_has_no_limit() -> None:
    busy = world(shed=shedding(c=0))
    waits(busy, 1.0, *[50] * 6)
    busy.reports.report(node_id(6), report(6, queued_s=900, draining=True), 1.0)
    busy.rounds.all_parts(1.0)
    assert targets(busy, 1).max_wait_s == 50
    assert targets(busy, 6).max_wait_s is None


def limited(nodes: int = 1, **settings: Any) -> Coordinator:
    return world(nodes=nodes, police={"policy": "memory_limit", "settings": settings})


def test_policing_limits_targets_placements_and_room() -> None:
    few = limited(max_ratio=0.25)
    few.reports.report(node_id(1), report(1, memory_mb=8192, vcores=8, used_q_mb=1024, used_q_vcores=1), 1.0)
    assert few.placer.has_room(Resources(2048, 1))
    few.rounds.all_parts(1.0)
    assert (targets(few).limit_q_mb, targets(few).limit_q_vcores) == (2048, 8)
    assert targets(few).limit_reason == "memory_limit: 25% of 8192 MB"
    assert few.placer.has_room(Resources(1024, 1))
    assert not few.placer.has_room(Resources(2048, 1))
    few.reports.report(node_id(1), report(1, memory_mb=8192, vcores=8, used_q_mb=2048, used_q_vcores=2), 1.1)
    assert not few.placer.has_room(Resources(1024, 1))
    [record] = decided(few)
    assert (record.slot, record.node_id, record.chosen) == ("police", node_id(1), "2048 MB, 8 vcores for queueables")


def test_a_node_whose_limit_is_smaller_than_the_container_is_no_candidate() -> None:
    few = limited(nodes=2, max_ratio=0.25)
    for number, memory_mb in ((1, 2048), (2, 8192)):
        few.reports.report(
            node_id(number), report(number, memory_mb=memory_mb, vcores=8, used_q_mb=2048, queue_length=9), 1.0
        )
    few.rounds.all_parts(1.0)
    ask = Ask(AppView("a"), 20, Resources(1024, 1))
    assert few.placer.place(ask, frozenset()).node == node_id(2)
    assert few.placer.place(replace(ask, resources=Resources(4096, 1)), frozenset()).node is None


def test_a_node_that_yarn_has_not_told_about_has_no_limit() -> None:
    new = coordinator(nodes=0, policies=ALL_Q | {"police": {"policy": "history"}})
    new.reports.report(node_id(1), report(1, memory_mb=1000), 1.0)
    new.rounds.all_parts(1.0)
    assert targets(new).limit_q_mb is None
    new.yarn_nodes([yarn_node(1)], 2.0)
    new.rounds.all_parts(2.0)
    assert targets(new).limit_q_mb == 950


def test_history_falls_at_once_and_rises_slowly() -> None:
    busy = world(nodes=1, police={"policy": "history", "settings": {"margin_ratio": 0, "recent_s": 0}})
    found = []
    for now_s, used_mb in ((0, 0), (1, 5000), (20, 0), (31, 0), (40, 0), (61, 0)):
        busy.reports.report(node_id(1), report(1, memory_mb=10_000, vcores=10, used_g_mb=used_mb), float(now_s))
        busy.rounds.all_parts(float(now_s))
        found.append(targets(busy).limit_q_mb)
    assert found == [10_000, 5000, 5000, 6200, 6200, 7100]


def test_a_peak_of_last_week_is_kept_free() -> None:
    busy = world(nodes=1, police={"policy": "history", "settings": {"margin_ratio": 0, "recent_s": 0}})
    week_s, used = 604_800.0, {1: 6000}
    for second in range(0, 2700, 30):
        busy.reports.report(
            node_id(1), report(1, memory_mb=10_000, used_g_mb=used.get(second // 900, 1000)), float(second)
        )
    found = {}
    for at_s in (-1000, -899, 1000, 1900):
        busy.reports.report(node_id(1), report(1, memory_mb=10_000, used_g_mb=1000), week_s + 900 + at_s)
        busy.rounds.all_parts(week_s + 900 + at_s)
        found[at_s] = targets(busy).limit_q_mb
    assert found[-1000] == 9000
    assert found[-899] == 4000
    assert found[1900] is not None and found[1900] > 4000


class Bad(PolicyConfig):
    """Settings of a policy that answers nonsense."""


@pytest.mark.parametrize(
    "answer",
    [
        {"n1:8041": ShedTarget(max_wait_s=float("nan"))},
        {"n1:8041": ShedTarget(max_wait_s=1.0, max_share_ratio=0.0)},
        {"n1:8041": ShedTarget(max_queue=-1)},
        {"n1:8041": "not a target"},
        ["not a mapping"],
    ],
)
def test_a_shedding_policy_that_answers_nonsense_sets_no_limit(answer: Any) -> None:
    busy = world(shed=shedding(c=0))
    waits(busy, 1.0, *[50] * 6)
    if isinstance(answer, dict):
        answer = {node_id(1): next(iter(answer.values()))}
    policy = Policy("bad", Bad, lambda nodes, cfg, now_s: answer)
    busy.policies.choices["shed"] = BoundPolicy("shed", "bad", "tests 1", Bad(), policy.decide)
    busy.rounds.all_parts(1.0)
    assert targets(busy) == Targets()
    assert len([effect for effect in busy.take_effects() if isinstance(effect, Faulted)]) == 1


@pytest.mark.parametrize(
    "answer", [Limit(Resources(0, float("inf")), ""), "nonsense", Limit("x", ""), Limit(Resources(-5, -1), "")]
)
def test_a_policing_policy_that_answers_nonsense_sets_no_harmful_limit(answer: Any) -> None:
    def police(use: NodeUse, cfg: Bad, now_s: float) -> Any:
        return answer

    busy = limited(nodes=2)
    busy.policies.choices["police"] = BoundPolicy("police", "bad", "tests 1", Bad(), police)
    busy.rounds.all_parts(1.0)
    faults = [effect for effect in busy.take_effects() if isinstance(effect, Faulted)]
    if isinstance(answer, Limit) and answer.resources == Resources(-5, -1):
        assert (targets(busy).limit_q_mb, targets(busy).limit_q_vcores, faults) == (0, 0, [])
    else:
        assert targets(busy) == Targets()
        assert len(faults) == 1


def test_what_is_in_force_in_figures() -> None:
    busy = world(shed=shedding(c=0), police={"policy": "memory_limit", "settings": {"max_ratio": 0.5}})
    for number in range(1, 7):
        busy.reports.report(node_id(number), report(number, queued_s=50, memory_mb=1000), 1.0)
    busy.rounds.all_parts(1.0)
    summary = busy.targets.summary()
    assert (summary.shedding, summary.min_wait_s, summary.policed, summary.left_mb) == (6, 50, 6, 3000)


def test_a_node_that_is_gone_is_forgotten() -> None:
    busy = world(shed=shedding(c=0))
    busy.rounds.all_parts(1.0)
    busy.yarn_nodes([], 1000.0)
    busy.rounds.all_parts(1000.0)
    assert busy.targets.of(node_id(1)) is None
    assert busy.targets.history.recent(node_id(1)) == ()


def test_rounds_that_change_nothing_make_nothing() -> None:
    busy = world(shed=shedding(c=0), police={"policy": "history"})
    waits(busy, 1.0, *[50] * 6)
    busy.rounds.all_parts(1.0)
    before = [targets(busy, number) for number in range(1, 7)]
    busy.take_effects()
    busy.rounds.all_parts(2.0)
    assert all(targets(busy, number) is old for number, old in enumerate(before, 1))
    assert busy.take_effects() == []
