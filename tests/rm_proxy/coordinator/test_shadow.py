"""Alternatives beside the real decisions: agreement is told, nothing depends on them, faults are counted."""

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.config.policy_set import Policies
from policies.config.registry import BoundPolicy
from policies.model import AppView, Ask, Kind, NodeView, Placement, QueueView, Resources, Route
from rm_proxy.attempt.effects import Decided, ShadowFaulted
from rm_proxy.coordinator import shadow as shadow_module
from rm_proxy.coordinator.shadow import Shadow
from tests.rm_proxy.yarn_messages import ALL_Q, APP, Am, coordinator, node_id, row

TIGHT: dict[str, Any] = {"quota": {"policy": "absolute", "settings": {"max_q": 2}}}
WITH: dict[str, Any] = ALL_Q | {
    "alternatives": {"g": {"routes": [{"policy": "only_g"}]}, "any": {"place": {"policy": "random"}}, "same": {}},
    "shadow": ["g", "any", "same"],
}
ASK = Ask(AppView(APP), 20, Resources(1024, 1))
QUEUE = QueueView("root.default", Resources(99999, 99))


def decided(effects: list[Any]) -> list[tuple[str, str, str, str]]:
    records = [e.record for e in effects if isinstance(e, Decided) and e.record.alternative]
    return [(r.alternative, r.slot, r.chosen, r.other) for r in records]


def test_what_differs_is_told_and_the_container_goes_as_decided() -> None:
    am = Am(coordinator(WITH))
    sent = am.asks(row("*", 2))
    plain = Am(coordinator())
    assert sent == plain.asks(row("*", 2)), "the request is the one that goes out without alternatives"
    decisions = decided(am.world.take_effects())
    assert decisions.count(("g", "route", "Q", "G")) == 2
    assert [(a, slot) for a, slot, _, _ in decisions if a == "any"] == [("any", "place")] * 2
    assert not [one for one in decisions if one[0] == "same"], "what is the same in all slots is not asked"
    tally = am.world.shadow.tallies["g", "route"]
    assert (tally.decisions, tally.differ, tally.examples[0].app_id) == (2, 2, APP)


@settings(deadline=None)
@given(seed=st.integers(0, 999), counts=st.lists(st.integers(0, 6), min_size=1, max_size=5))
def test_nothing_depends_on_alternatives(seed: int, counts: list[int]) -> None:
    routes = [{"policy": "hybrid_gq", "settings": {"td_s": 1000.0, "pq": 50.0}}]
    with_them, without = Am(coordinator(WITH | {"routes": routes})), Am(coordinator(ALL_Q | {"routes": routes}))
    for am in (with_them, without):
        am.world.rng.seed(seed)
    for count in counts:
        assert with_them.asks(row("*", count)) == without.asks(row("*", count))
        with_them.gets(), without.gets()
    assert with_them.world.rng.random() == without.world.rng.random()


def test_how_much_less_a_container_would_have_waited() -> None:
    policies = Policies.load(
        ALL_Q | {"alternatives": {"k1": {"place": {"policy": "topk_wait", "settings": {"k": 1}}}}, "shadow": ["k1"]}
    )
    nodes = [NodeView(f"n{n}", capacity=Resources(8192, 8), queued_s=10.0 * n) for n in range(3)]
    shadow = Shadow()
    for chosen in ("n0", "n2", None):
        shadow.placed(policies, ASK, nodes, Placement(chosen), 5.0)
    tally = shadow.tallies["k1", "place"]
    assert (tally.decisions, tally.differ, tally.compared, tally.wait_less_s) == (3, 2, 2, 20.0)
    assert [(e.chosen, e.other) for e in tally.examples] == [("n2", "n0"), ("none", "n0")]


def test_quotas_are_compared_by_what_comes_of_them() -> None:
    policies = Policies.load(ALL_Q | {"alternatives": {"t": TIGHT}, "shadow": ["t"]})
    shadow, full = Shadow(), replace(ASK, app=AppView(APP, live_q=2))
    decisions = [decided(shadow.routed(policies, ask, QUEUE, Route(Kind.QUEUEABLE, ""), 0.0)) for ask in (ASK, full)]
    assert decisions == [[("t", "quota", "Q", "Q")], [("t", "quota", "Q", "G")]]


def test_a_fault_is_counted_and_nothing_else() -> None:
    def fails(*_: object) -> Placement:
        raise ValueError("no")

    policies = Policies.load(WITH)
    other = policies.alternatives["any"]
    other.choices["place"] = BoundPolicy("place", "bad", "x", other.choices["place"].cfg, fails)
    shadow = Shadow()
    effects = shadow.placed(policies, ASK, [NodeView("n1", capacity=Resources(9999, 9))], Placement("n1"), 0.0)
    assert [type(effect) for effect in effects] == [ShadowFaulted]
    assert (shadow.tallies["any", "place"].faults, shadow.tallies["any", "place"].decisions) == (1, 0)


def test_few_are_asked_when_there_are_many() -> None:
    policies, shadow = Policies.load(WITH), Shadow(Random(1))
    for number in range(1000):
        shadow.routed(policies, ASK, QUEUE, Route(Kind.QUEUEABLE, ""), number / 500)
    assert shadow.tallies["g", "route"].decisions == 2 * shadow_module.PER_S
    assert shadow.left_out == {"route": 1000 - 2 * shadow_module.PER_S}
    assert len(shadow.tallies["g", "route"].examples) == shadow_module.EXAMPLES


def test_other_settings_begin_anew() -> None:
    shadow = Shadow()
    shadow.routed(Policies.load(WITH), ASK, QUEUE, Route(Kind.QUEUEABLE, ""), 0.0)
    shadow.routed(Policies.load(WITH | {"retries_to_g": 9}), ASK, QUEUE, Route(Kind.QUEUEABLE, ""), 1.0)
    assert shadow.tallies["g", "route"].decisions == 1


def test_targets_of_shedding_are_compared_each_round() -> None:
    world = coordinator(ALL_Q | {"alternatives": {"short": {"shed": {"policy": "queue_length"}}}, "shadow": ["short"]})
    for number in (1, 2, 3):
        world.nodes[node_id(number)].view = replace(world.nodes[node_id(number)].view, queue_length=5 * number)
    views = [node.view for node in world.nodes.values()]
    decisions = world.shadow.shed(world.policies, views, 1.0)
    tally = world.shadow.tallies["short", "shed"]
    assert (tally.decisions, tally.active, tally.policy) == (3, "none", "queue_length")
    assert tally.differ > 0 and len(decided(decisions)) == 1


def test_a_fault_of_the_targets_in_force_is_none_of_an_alternative() -> None:
    def fails(*_: object) -> None:
        raise ValueError("no")

    world = coordinator(ALL_Q | {"alternatives": {"short": {"shed": {"policy": "queue_length"}}}, "shadow": ["short"]})
    own = world.policies.choices
    own["shed"] = BoundPolicy("shed", "bad", "x", own["shed"].cfg, fails)
    world.policies._enter(world.policies.hours)
    assert world.shadow.shed(world.policies, [node.view for node in world.nodes.values()], 1.0) == []
    assert world.shadow.tallies["short", "shed"].faults == 0
