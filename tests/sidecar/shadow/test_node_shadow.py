"""What alternatives would decide at a node is counted, and nothing else comes of it."""

from __future__ import annotations

from typing import Any

import pytest

from policies.config.policy_set import Policies
from policies.config.registry import BoundPolicy
from policies.model import ContainerView, Kind, Resources
from sidecar.metrics import SidecarMetrics
from sidecar.node.container import Rules
from sidecar.node.events import Answered, Granted, Kill, Launch, Outcome, SessionUp
from sidecar.node.node import SidecarNode
from sidecar.node.node_policies import NodePolicies
from sidecar.service.guarded_policies import GuardedPolicies
from sidecar.shadow import node_shadow
from tests.sidecar.words import ATTEMPT, arrived, grant

FIFO: dict[str, Any] = {"order": {"policy": "fifo"}, "preempt": {"policy": "kill_newest"}}


class Stage:
    """A node of 4 GB and 4 cores, with the policies of a sidecar."""

    def __init__(self, other: dict[str, Any], base: dict[str, Any] | None = None) -> None:
        named = {"alternatives": {"other": other}, "shadow": ["other"]} if other else {}
        self.now_s = 0.0
        self.policies = GuardedPolicies(
            Policies.load({**FIFO, **(base or {}), **named}), SidecarMetrics(), lambda: self.now_s
        )
        p = self.policies
        asked = NodePolicies(
            p.order_key,
            p.victims,
            p.bypass_limit_s,
            p.order_steady,
            p.grace_s,
            p.notice_s,
            p.waits_by_size,
            p.fills,
            p.fill,
        )
        self.node = SidecarNode(Rules(Resources(4096, 4), reserve_mb=0, settle_s=0.0), asked)
        self.node.handle(SessionUp(ATTEMPT, 0))

    def comes(self, name: str, now_s: float, memory_mb: int, expected_s: float = 10.0) -> list[str]:
        """Bring a queueable container; return which ones start."""
        self.now_s = now_s
        self.node.handle(Granted((grant(name, expected_s=expected_s),), now_s))
        commands = self.node.handle(arrived(name, now_s, resources=Resources(memory_mb, 1)))
        started = [one.container_id for one in commands if isinstance(one, Launch)]
        for one in started:
            self.node.handle(Answered(one, Outcome.STARTED, "", now_s))
        return started

    def looks(self, now_s: float) -> list[tuple[str, int, int, str, str]]:
        """Report, and return the counts: slot, decisions, how many differ, and the last ones that do."""
        self.policies.shadow.order(self.node.state.queue, now_s)
        counts = self.policies.shadow.counts()
        return [(one.slot, one.decisions, one.differ, one.chosen, one.other) for one in counts]


def test_the_first_of_the_queue_is_compared_each_second() -> None:
    stage = Stage({"order": {"policy": "sjf"}})
    assert stage.comes("r", 0, 4096) == ["r"]
    assert stage.comes("long", 1, 1024, expected_s=50.0) == []
    assert stage.looks(1.0) == [], "one alone has no order"
    assert stage.comes("short", 2, 1024, expected_s=1.0) == []
    assert stage.looks(2.0) == [("order", 1, 1, "long", "short")]
    assert stage.looks(2.5) == [("order", 1, 1, "long", "short")]
    assert stage.looks(3.0) == [("order", 2, 2, "long", "short")]


def test_a_long_queue_is_compared_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage({"order": {"policy": "sjf"}})
    monkeypatch.setattr(node_shadow, "CONTAINERS_PER_S", 10)
    stage.comes("r", 0, 4096)
    for number in range(40):
        stage.comes(f"c{number}", 1, 1024)
    assert [stage.looks(now_s)[0][1] for now_s in (1.0, 2.0, 4.9, 5.0)] == [1, 1, 1, 2]


def test_gaps_are_looked_at_for_an_alternative_alone_once_a_second() -> None:
    stage = Stage({"fill": {"policy": "backfill"}})
    assert stage.comes("r", 0, 3072) == ["r"]
    assert stage.comes("big", 1, 2048) == []
    assert stage.comes("small", 3, 1024) == [], "nothing fills a gap in force"
    assert stage.looks(3.0) == [("fill", 1, 1, "small waits", "small starts")]
    assert stage.comes("late", 3.5, 1024, expected_s=500.0) == []
    assert stage.comes("later", 4.5, 1024, expected_s=500.0) == []
    (count,) = stage.looks(4.5)
    assert count[:3] == ("fill", 2, 1), "late is a new question, which both answer with no; small is none"


def test_an_alternative_that_fills_no_gaps_is_compared_where_one_is_filled() -> None:
    stage = Stage({"fill": {"policy": "none"}}, {"fill": {"policy": "backfill"}})
    stage.comes("r", 0, 3072)
    stage.comes("big", 1, 2048)
    assert stage.comes("small", 3, 1024) == ["small"]
    assert stage.looks(3.0) == [("fill", 1, 1, "small starts", "small waits")]


def test_victims_are_compared_when_a_guaranteed_container_lacks_room() -> None:
    stage = Stage({"preempt": {"policy": "none"}})
    for number in range(4):
        stage.comes(f"q{number}", number, 1024)
    killed = stage.node.handle(arrived("g", 9, q=False))
    assert [one.container_id for one in killed if isinstance(one, Kill)] == ["q3"]
    assert stage.looks(9.0) == [("preempt", 1, 1, "kills q3", "kills none")]


def test_a_fault_of_an_alternative_is_counted_and_the_node_goes_on() -> None:
    def fails(*_: object) -> Any:
        raise ValueError("no")

    stage = Stage({"order": {"policy": "sjf"}})
    others = stage.policies.current.alternatives["other"]
    others.node._choices["order"] = BoundPolicy("order", "bad", "x", others.choices["order"].cfg, fails)  # type: ignore[index]
    stage.comes("r", 0, 4096)
    stage.comes("a", 1, 1024)
    stage.comes("b", 2, 1024)
    assert stage.looks(2.0) == [("order", 0, 0, "", "")]
    (count,) = stage.policies.shadow.counts()
    assert count.faults == 1 and "ValueError: no" in count.fault


def test_keys_that_cannot_be_compared_are_a_fault() -> None:
    def odd(waiting: ContainerView, *_: object) -> tuple[object, ...]:
        return (waiting.id,) if waiting.id == "a" else (1.0,)

    stage = Stage({"order": {"policy": "sjf"}})
    others = stage.policies.current.alternatives["other"]
    others.node._choices["order"] = BoundPolicy("order", "odd", "x", others.choices["order"].cfg, odd)  # type: ignore[index]
    stage.comes("r", 0, 4096)
    stage.comes("a", 1, 1024)
    stage.comes("b", 2, 1024)
    stage.looks(2.0)
    assert [one.faults for one in stage.policies.shadow.counts()] == [1]


def test_other_settings_begin_new_counts() -> None:
    stage = Stage({"order": {"policy": "sjf"}})
    stage.comes("r", 0, 4096)
    stage.comes("long", 1, 1024, expected_s=50.0)
    stage.comes("short", 2, 1024, expected_s=1.0)
    assert stage.looks(2.0)
    (before,) = stage.policies.shadow.counts()
    stage.policies.current = Policies.load(
        {**FIFO, "retries_to_g": 9, "alternatives": {"new": {"order": {"policy": "srpt"}}}, "shadow": ["new"]}
    )
    stage.looks(5.0)
    (after,) = stage.policies.shadow.counts()
    assert (before.alternative, after.alternative, after.decisions) == ("other", "new", 1)
    assert before.since_s != after.since_s


def test_nothing_is_done_without_a_shadow() -> None:
    stage = Stage({})
    stage.comes("r", 0, 3072)
    stage.comes("big", 1, 2048)
    stage.comes("small", 3, 1024)
    assert not stage.policies.fills()
    assert stage.policies.victims(Resources(1, 0), [ContainerView("r", "a", Kind.QUEUEABLE, Resources(1, 1))], 3.0)
    assert stage.looks(3.0) == []


def test_a_shadow_with_the_same_policies_costs_no_forecast() -> None:
    stage = Stage({"order": {"policy": "sjf"}})
    assert not stage.policies.fills()
