"""Alternatives are asked in each slot that the proxy decides in."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from policies.config.registry import BoundPolicy
from policies.model import JobClass
from quicksilver.common.messages import Comparison
from rm_proxy.attempt.effects import Decided, Faulted, ShadowFaulted
from rm_proxy.domain.comparison import Question
from rm_proxy.probes.order_shadow import OrderShadow
from rm_proxy.probes.thief import Thief
from tests.rm_proxy.attempt.test_promotion_requests import Site
from tests.rm_proxy.coordinator.test_moves import HAWK
from tests.rm_proxy.coordinator.test_moves import Stage as Moves
from tests.rm_proxy.coordinator.test_shadow import decided
from tests.rm_proxy.probes.stage import Stage as Probes
from tests.rm_proxy.probes.test_prober import BATCH
from tests.rm_proxy.probes.test_prober import HAWK as PROBE_HAWK
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    APP,
    Am,
    capability,
    cid,
    container_report,
    coordinator,
    node_id,
    report,
    row,
)


def fails(*_: object) -> Any:
    raise ValueError("no")


LONG = {"estimate": {"rules": [{"expected_s": 100}]}}
CLASSES: dict[str, Any] = {
    **LONG,
    "classify": {"policy": "task_time", "settings": {"cutoff_s": 30.0}},
    "partition": {"policy": "short_only", "settings": {"ratio": 0.5}},
    "place": {"policy": "late"},
}


def compared(base: dict[str, Any], other: dict[str, Any]) -> set[tuple[str, str, str]]:
    """Run a request on four nodes, of which one is full, with an alternative; return slot, choice, and its choice."""
    named = {"alternatives": {"other": other}, "shadow": ["other"]}
    am = Am(coordinator({**ALL_Q, **base, **named}, nodes=4))
    full = {"used_q_mb": 8192, "used_q_vcores": 8}
    running = container_report(
        container_id=f"container_{APP[12:]}_01_000099",
        memory_mb=8192,
        vcores=8,
        priority=20,
        since_s=1.0,
        expected_s=100.0,
    )
    am.world.reports.report(node_id(1), report(1, containers=[running], **full), 0.0)
    am.world.rounds.all_parts(0.0)
    am.asks(row("*", 40), row("*", 2, 21))
    am.gets()
    am.now_s = 2.0
    am.world.rounds.all_parts(2.0)
    am.asks(row("*", 40), row("*", 2, 21))
    am.gets(limit=capability(4096, 4))
    am.world.rounds.all_parts(3.0)
    return {(slot, chosen, its) for _, slot, chosen, its in decided(am.world.take_effects())}


@pytest.mark.parametrize(
    ("slot", "base", "other", "expected"),
    [
        (
            "classify",
            CLASSES,
            {"classify": {"policy": "task_time", "settings": {"cutoff_s": 300.0}}},
            ("long", "short"),
        ),
        ("partition", CLASSES, {"partition": {"policy": "none"}}, ("2 nodes", "0 nodes")),
        (
            "probe",
            {"probe": {"policy": "batch"}, "place": {"policy": "late"}},
            {"probe": {"policy": "batch", "settings": {"ratio": 3.0}}},
            ("84 places at 4 nodes", "126 places at 4 nodes"),
        ),
        (
            "dispatch",
            {"dispatch": {"policy": "fifo"}, "place": {"policy": "late"}},
            {"dispatch": {"policy": "srpt"}},
            (APP, APP),
        ),
        (
            "police",
            {"police": {"policy": "memory_limit", "settings": {"max_ratio": 0.5}}},
            {"police": {"policy": "none"}},
            ("4096 MB", "no limit"),
        ),
        (
            "headroom",
            {"headroom": {"policy": "as_is"}},
            {"headroom": {"policy": "by_framework"}},
            ("Resources(memory_mb=4096", "Resources(memory_mb="),
        ),
        (
            "match",
            {"place": {"policy": "least_queue"}, "match": {"policy": "stable"}},
            {"match": {"policy": "none"}},
            ("host", "none"),
        ),
    ],
)
def test_the_decision_of_a_slot_is_compared(
    slot: str, base: dict[str, Any], other: dict[str, Any], expected: tuple[str, str]
) -> None:
    found = [(chosen, its) for of, chosen, its in compared(base, other) if of == slot]
    assert found, "nothing was compared"
    assert any(chosen.startswith(expected[0]) and its.startswith(expected[1]) for chosen, its in found), found


@pytest.mark.parametrize(
    ("slot", "base", "other", "expected"),
    [
        ("classify", LONG, CLASSES, ("none", "long")),
        ("partition", CLASSES | {"partition": {"policy": "none"}}, CLASSES, ("0 nodes", "2 nodes")),
        ("probe", {"place": {"policy": "late"}}, {"probe": {"policy": "batch"}}, ("0 places", "84 places")),
        ("dispatch", {"place": {"policy": "late"}}, {"dispatch": {"policy": "fifo"}}, ("the first that asks", APP)),
        (
            "police",
            {},
            {"police": {"policy": "memory_limit", "settings": {"max_ratio": 0.5}}},
            ("no limit", "4096 MB"),
        ),
        ("match", {"place": {"policy": "least_queue"}}, {"match": {"policy": "stable"}}, ("none, none", "host")),
    ],
)
def test_an_alternative_is_asked_where_the_policy_in_force_is_none(
    slot: str, base: dict[str, Any], other: dict[str, Any], expected: tuple[str, str]
) -> None:
    found = [(chosen, its) for of, chosen, its in compared({slot: {"policy": "none"}, **base}, other) if of == slot]
    assert any(chosen.startswith(expected[0]) and its.startswith(expected[1]) for chosen, its in found), found


@pytest.mark.parametrize(
    ("slot", "policy", "expected"),
    [
        ("steal", HAWK, ("takes none", f"takes {cid(1)}, {cid(2)}, {cid(3)}")),
        ("correct", {"policy": "apollo"}, ("stays", "moves")),
    ],
)
def test_moves_that_alternatives_alone_would_make(slot: str, policy: dict[str, Any], expected: tuple[str, str]) -> None:
    """Node 2 is idle while containers wait at node 1; nothing moves, and chance is as it was."""
    other = {"alternatives": {"other": {slot: policy}}, "shadow": ["other"]}
    stages = [Moves(**settings) for settings in (other, {})]
    for stage in stages:
        for _ in range(3):
            assert stage.reports() == []
            stage.round()
        assert stage.outcomes() == []
    found = [(chosen, its) for _, of, chosen, its in decided(stages[0].effects) if of == slot]
    assert expected in found
    assert stages[0].world.rng.random() == stages[1].world.rng.random()


def test_places_in_queues_that_alternatives_alone_would_take_over() -> None:
    found: list[Question[Any]] = []
    probed = Probes({**BATCH, "alternatives": {"other": {"steal": PROBE_HAWK["steal"]}}, "shadow": ["other"]}, nodes=3)
    probed.thief = Thief(probed.prober, lambda: probed.policies, Random(3), probed.effects.append, found.append)
    probed.classes = {"l": JobClass.LONG, "s": JobClass.SHORT}
    probed.to("n1", free=False, usable=False)
    probed.to("n2", free=False, usable=False)
    probed.runs("n0", "l", expected_s=50.0, ran_s=10.0)
    probed.waits("s", 1)
    probed.to("n1", free=True)
    assert not probed.thief.look("n1", 0.0)
    (question,) = found
    assert (question.slot, question.decision) == ("steal", [])
    assert len(question.decide(probed.policies.alternatives["other"])) == 2, "it would take both over"
    assert (probed.at("n0"), probed.effects) == (["s", "s"], [])


def test_the_order_of_probes_is_compared_and_stays() -> None:
    found: list[Question[Any]] = []
    faults: list[str] = []
    probed = Probes({**BATCH, "alternatives": {"other": {"order": {"policy": "srpt"}}}, "shadow": ["other"]})
    compares = OrderShadow(probed.prober, lambda: probed.policies, found.append, faults.append)
    probed.left_s = {"big": 100.0, "small": 1.0}
    probed.waits("big", 1)
    compares.round(0.0)
    assert not found, "one alone has no order"
    probed.waits("small", 1)
    compares.round(1.0)
    assert [(one.slot, one.decision) for one in found] == [("order", "big, probe 1"), ("order", "big, probe 2")]
    assert found[0].decide(probed.policies.alternatives["other"]).startswith("small")
    assert probed.at("n0") == ["big", "small"]
    own = probed.policies.choices
    own["order"] = BoundPolicy("order", "bad", "x", own["order"].cfg, fails)
    probed.policies._enter(probed.policies.hours)
    compares.round(2.0)
    assert len(found) == 2 and "bad" in faults[0]


EVERYTHING: dict[str, Any] = {
    **CLASSES,
    "steal": HAWK,
    "correct": {"policy": "apollo"},
    "probe": {"policy": "batch"},
    "match": {"policy": "stable"},
    "police": {"policy": "memory_limit"},
    "promote": {"policy": "on_start"},
    "dispatch": {"policy": "srpt"},
    "shed": {"policy": "queue_length"},
    "headroom": {"policy": "by_framework"},
    "admit": {"policy": "tokens"},
}


def test_nothing_depends_on_alternatives_in_any_slot() -> None:
    """Two clusters see the same; one has an alternative in each slot in which nothing is in force."""
    shadow = {"alternatives": {"all": EVERYTHING}, "shadow": ["all"]}
    stages = [Moves(6, place={"policy": "late"}, **settings) for settings in (shadow, {})]
    told: list[list[Any]] = [[], []]
    for stage, seen in zip(stages, told, strict=True):
        for _ in range(4):
            seen.append(stage.reports())
            seen.append([e for e in stage.round() if not (isinstance(e, Decided) and e.record.alternative)])
            seen.append(stage.am.asks(row("*", 5), row("*", 3, 21)))
            stage.am.gets(limit=capability(4096, 4))
        seen.append(stage.world.rng.random())
        seen.append([node.view for node in stage.world.nodes.values()])
    assert told[0] == told[1]
    asked = {slot for _, slot in stages[0].world.shadow.tallies}
    assert EVERYTHING.keys() - asked == {"estimate", "place", "headroom", "promote"}, "nothing runs, place is the same"


def test_promotions_that_alternatives_alone_would_ask_for() -> None:
    promotes = {"alternatives": {"other": {"promote": {"policy": "on_start"}}}, "shadow": ["other"]}
    site = Site(policies={**ALL_Q, "estimate": {"default_s": 60}, **promotes})
    site.world.rounds.all_parts(site.now_s)
    assert decided(site.world.take_effects()) == [("other", "promote", "Q", "G")]
    assert site.send() == []


def test_a_fault_of_the_order_in_force_is_reported_while_orders_are_compared() -> None:
    named = {"alternatives": {"other": {"dispatch": {"policy": "srpt"}}}, "shadow": ["other"]}
    am = Am(coordinator({**ALL_Q, "dispatch": {"policy": "fifo"}, "place": {"policy": "late"}, **named}))
    am.asks(row("*", 400))
    am.gets()
    own = am.world.policies.choices
    own["dispatch"] = BoundPolicy("dispatch", "bad", "x", own["dispatch"].cfg, fails)
    am.world.policies._enter(am.world.policies.hours)
    am.world.take_effects()
    am.world.rounds.all_parts(1.0)
    assert [effect for effect in am.world.take_effects() if isinstance(effect, Faulted) and "bad" in effect.fault]


AT_NODES = {"alternatives": {"other": {"order": {"policy": "sjf"}}}, "shadow": ["other"]}


def counts(decisions: int, differ: int, since_s: float = 1.0, **more: Any) -> list[Comparison]:
    """Return what a sidecar reports of the order of its queue."""
    fields = {"chosen": "a", "other": "b"} | more
    return [
        Comparison(alternative="other", slot="order", since_s=since_s, decisions=decisions, differ=differ, **fields)
    ]


def test_what_sidecars_count_is_added_up() -> None:
    world = coordinator({**ALL_Q, "order": {"policy": "fifo"}, **AT_NODES}, nodes=2)

    def reported(number: int, compared: list[Comparison]) -> None:
        world.reports.report(node_id(number), report(number, compared=compared), 1.0)

    reported(1, counts(3, 1))
    reported(2, counts(0, 0))
    reported(2, counts(4, 4, faults=2, fault="order other failed"))
    reported(2, counts(4, 4, faults=2, fault="order other failed"))
    world.take_effects()
    world.rounds.all_parts(2.0)
    tally = world.shadow.tallies["other", "order"]
    assert (tally.decisions, tally.differ, tally.faults) == (7, 5, 2)
    assert (tally.policy, tally.active) == ("sjf", "fifo")
    effects = world.take_effects()
    records = [one.record for one in effects if isinstance(one, Decided)]
    assert [(one.slot, one.chosen, one.other, one.weight) for one in records] == [
        ("order", "the same", "the same", 2),
        ("order", "a", "b", 5),
    ]
    assert records[1].reason == f"at {node_id(2)}; 5 of 7 at 2 nodes"
    assert [one for one in effects if isinstance(one, ShadowFaulted)] == [
        ShadowFaulted("other", "order", "order other failed", 2)
    ]
    reported(1, counts(3, 0, since_s=9.0))
    world.rounds.all_parts(3.0)
    assert (tally.decisions, tally.differ) == (10, 5), "its sidecar began to count anew"


def test_counts_of_alternatives_that_are_not_in_shadow_here_are_ignored() -> None:
    world = coordinator({**ALL_Q, "order": {"policy": "sjf"}, **AT_NODES}, nodes=1)
    odd = [*counts(4, 4), Comparison(alternative="x", slot="order", decisions=1)]
    odd.append(Comparison(alternative="other", slot="of a later version", decisions=1))
    for compared in ([], odd):
        world.reports.report(node_id(1), report(1, compared=compared), 1.0)
    world.rounds.all_parts(1.0)
    assert not world.shadow.tallies, "the alternative orders by the policy in force"
    assert not world.shadow.nodes.take()


def test_nothing_is_compared_where_the_policies_are_the_same() -> None:
    assert compared(CLASSES, {}) == set()
