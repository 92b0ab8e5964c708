"""Places that move to another node when their wait grew beyond what was expected."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from policies.model import NodeView, Resources
from rm_proxy.attempt.effects import Decided, Faulted, Moved
from rm_proxy.domain.comparison import Question
from rm_proxy.probes import corrector
from tests.rm_proxy.probes.stage import Stage

APOLLO: Mapping[str, Any] = {
    "probe": {"policy": "completion_time", "settings": {"noise_s": 0}},
    "order": {"policy": "fifo"},
    "correct": {"policy": "apollo"},
}
OVERRUN_S = 200.0
"""A task that ran this long was expected to run for 20 s, and is expected to run on as long as it is late."""


def late(stage: Stage, apps: Sequence[str] = ("a",)) -> Stage:
    """Have applications wait at n0 for what should be over in 10 s, and then is not; n1 is free in 20 s."""
    stage.runs("n0", "before", 20.0, 10.0)
    stage.runs("n1", "other", 35.0, 5.0)
    for app in apps:
        stage.waits(app, 1, expected_s=1.0)
    assert not stage.corrector.round(0.0), "all is as it was expected"
    assert stage.at("n0") == list(apps)
    stage.runs("n0", "before", 20.0, OVERRUN_S)
    stage.runs("n1", "other", 35.0, 30.0)
    for node_id in ("n0", "n1"):
        stage.to(node_id, free=False)
    return stage


def test_a_place_moves_where_it_starts_earlier() -> None:
    stage = late(Stage(APOLLO))
    assert stage.corrector.round(1.0)
    assert (stage.at("n0"), stage.at("n1")) == ([], ["a"])
    (record,) = [effect.record for effect in stage.effects if isinstance(effect, Decided)]
    assert (record.slot, record.policy, record.app_id, record.node_id) == ("correct", "apollo", "a", "n1")
    assert record.chosen == "its place in the queue of n0 moves to n1"
    assert record.reason.startswith("its wait grew from 10.0 s, as expected when placed, to ")
    assert Moved("correct", "there") in stage.effects
    stage.to("n1", free=True)
    assert stage.where("a") == ["n1"]


def test_nothing_moves_without_a_policy_or_a_node_that_it_may_use() -> None:
    stage = late(Stage({**APOLLO, "correct": {"policy": "none"}}))
    assert not stage.corrector.round(1.0)
    small = late(Stage(APOLLO))
    small.nodes["n1"].view = NodeView("n1", "n1", capacity=Resources(512, 1), used_q=Resources(512, 1))
    assert not small.corrector.round(1.0)
    assert small.at("n0") == ["a"]


def test_places_that_are_spare_stay() -> None:
    """With two places for its task the job has both nodes to choose from."""
    stage = late(Stage({**APOLLO, "probe": {"policy": "completion_time"}}))
    stage.prober.add(stage.prober.jobs["a"], "n0", 0.0)
    assert not stage.corrector.round(1.0)


def test_bounds_of_a_round_of_a_node_and_of_moves() -> None:
    for bound in ("max_per_node", "max_per_round"):
        stage = late(Stage({**APOLLO, "correct": {"policy": "apollo", "settings": {bound: 1}}}), ("a", "b"))
        assert stage.corrector.round(1.0)
        assert (stage.at("n0"), stage.at("n1")) == (["a"], ["b"]), "the last one first"
    stage = late(Stage({**APOLLO, "correct": {"policy": "apollo", "settings": {"max_moves": 1}}}))
    assert stage.corrector.round(1.0)
    stage.runs("n0", "before", 1.0, 0.5)
    stage.runs("n1", "other", 20.0, OVERRUN_S)
    for node_id in ("n0", "n1"):
        stage.to(node_id, free=False)
    assert not stage.corrector.round(2.0), "it moved before"


def test_few_places_are_looked_at_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrector, "MAX_LOOKED", 1)
    stage = late(Stage(APOLLO), ("a", "b"))
    assert stage.corrector.round(1.0)
    assert len(stage.at("n0")) == 1


def test_a_broken_policy_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise ZeroDivisionError("broken")

    monkeypatch.setattr("policies.correct.apollo.slowness", broken)
    stage = Stage(APOLLO)
    stage.runs("n0", "before", 20.0, 10.0)
    stage.runs("n1", "other", 35.0, 5.0)
    stage.waits("a", 1, expected_s=1.0)
    assert not stage.corrector.round(0.0)
    assert [type(effect) for effect in stage.effects] == [Faulted]
    assert stage.at("n0") == ["a"]


def test_alternatives_are_asked_though_nothing_is_in_force() -> None:
    other = {"alternatives": {"other": {"correct": {"policy": "apollo"}}}, "shadow": ["other"]}
    stage = late(Stage({**APOLLO, "correct": {"policy": "none"}, **other}))
    questions: list[Question[str | None]] = []
    shadow = corrector.Corrector(
        stage.prober, lambda: stage.policies, stage.rng, stage.effects.append, questions.append
    )
    before = stage.rng.getstate()
    assert not shadow.round(1.0)
    assert stage.rng.getstate() == before
    (question,) = questions
    assert (question.slot, question.app, question.decision) == ("correct", None, None)
    assert question.show(question.decide(stage.policies.alternatives["other"])) == "moves"
    assert stage.at("n0") == ["a"]


def test_the_better_node_is_one_of_a_few_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrector, "MAX_NODES", 1)
    stage = late(Stage(APOLLO))
    rounds = [stage.corrector.round(1.0 + number) for number in range(20)]
    assert sum(rounds) == 1, "once, in the first round in which n1 is drawn"
    assert stage.at("n1") == ["a"]
