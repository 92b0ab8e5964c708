"""Turns of probes: who may place containers where, what passes a turn on, and what idle nodes take over."""

from collections.abc import Mapping
from typing import Any

import pytest

from policies.model import JobClass
from rm_proxy.attempt.effects import Decided
from rm_proxy.dispatch.heartbeats import LEAST_S
from rm_proxy.probes.prober import MAX_PASSES, PASSED_S
from tests.rm_proxy.probes.stage import Stage

BATCH: Mapping[str, Any] = {"probe": {"policy": "batch"}, "order": {"policy": "fifo"}}
HAWK: Mapping[str, Any] = {**BATCH, "steal": {"policy": "hawk", "settings": {"idle_s": 0.0}}}
EAGLE: Mapping[str, Any] = {"probe": {"policy": "succinct"}, "order": {"policy": "srpt"}}


def test_the_first_probe_of_a_node_has_the_turn() -> None:
    stage = Stage(BATCH)
    stage.waits("a", 1)
    stage.waits("b", 1)
    assert stage.at("n0") == stage.at("n1") == ["a", "b"], "two probes for each task"
    assert (stage.may("a"), stage.may("b")) == (0, 0), "no place is free"
    stage.to("n1", free=True)
    assert (stage.may("a"), stage.may("b")) == (1, 0)
    assert (stage.where("a"), stage.where("b")) == (["n1"], [])
    stage.starts("a", "n1")
    stage.waits("a", 0)
    assert stage.at("n0") == ["b"], "a waits for nothing any more: its other probe is gone"


def test_without_probes_a_job_may_go_anywhere() -> None:
    stage = Stage({})
    stage.waits("a", 1)
    stage.to("n1", free=True)
    assert stage.may("a") > 0
    assert stage.where("a") is None
    assert not stage.prober.queues


def test_more_tasks_get_probes_of_their_own() -> None:
    stage = Stage(BATCH, nodes=8)
    stage.waits("a", 1)
    assert stage.prober.jobs["a"].count == 2
    stage.waits("a", 3, 1.0)
    assert stage.prober.jobs["a"].count == 6
    stage.waits("a", 2, 2.0)
    assert stage.prober.jobs["a"].count == 6, "fewer tasks need no new ones"
    stage.waits("a", 3, 3.0)
    assert stage.prober.jobs["a"].count == 8


@pytest.mark.parametrize("interval_s", [0.5, 1.0, 3.0])
def test_a_silent_application_loses_its_turn(interval_s: float) -> None:
    """Not before its next heartbeat is long due, by its own interval."""
    stage = Stage(BATCH)
    for number in range(3):
        stage.waits("a", 1, (number - 2) * interval_s)
    stage.waits("b", 1)
    stage.to("n0", free=True)
    later_s = max(LEAST_S, 2 * interval_s)
    stage.waits("b", 1, later_s)
    assert stage.may("b", later_s) == 0
    later_s += 0.1
    stage.waits("b", 1, later_s)
    assert stage.may("b", later_s) == 1


def test_a_place_that_is_left_unused_goes_to_the_next() -> None:
    stage = Stage(BATCH)
    stage.waits("a", 1)
    stage.waits("b", 1)
    stage.to("n0", free=True)
    assert stage.may("a") == 1
    stage.waits("a", 1)  # at the end of the same request: a quota forbade it
    assert (stage.may("a"), stage.may("b")) == (0, 1)
    again_s = PASSED_S + 0.1
    stage.waits("a", 1, again_s)
    stage.waits("b", 1, again_s)
    assert (stage.may("a", again_s), stage.may("b", again_s)) == (1, 0), "its place in the queue is as before"


def test_a_place_that_is_never_used_is_given_up_for_another() -> None:
    """As where the application has the node on its blacklist."""
    stage = Stage(BATCH, nodes=6)
    stage.waits("a", 1)
    never = set(stage.prober.jobs["a"].probes)
    for node_id in never:
        stage.to(node_id, free=True)
    for beat in range(MAX_PASSES):
        now_s = beat * (PASSED_S + 0.1)
        stage.waits("a", 1, now_s)
        assert stage.may("a", now_s) == 2
        stage.waits("a", 1, now_s)
    probes = [probe for of_node in stage.prober.jobs["a"].probes.values() for probe in of_node]
    assert [probe.passes for probe in probes] == [0, 0], "new ones"


def test_probes_of_a_node_that_left_are_drawn_anew() -> None:
    stage = Stage(BATCH, nodes=3)
    stage.waits("a", 1)
    for node_id in list(stage.prober.queues):
        stage.to(node_id, free=False, usable=False)
    stage.prober.round(frozenset(), 1.0)
    assert not stage.prober.queues
    stage.waits("a", 1, 1.0)
    assert stage.prober.jobs["a"].count == 2
    assert all(stage.nodes[node_id].view.usable for node_id in stage.prober.queues)


def test_a_sticky_probe_is_served_until_no_task_is_left() -> None:
    stage = Stage(EAGLE, nodes=1)
    stage.waits("a", 3)
    stage.waits("b", 3)
    for left in (2, 1, 0):
        stage.to("n0", free=True)
        assert (stage.may("a"), stage.may("b")) == (1, 0)
        stage.starts("a", "n0")
        stage.waits("a", left) if left else stage.prober.waits_no_more("a")
    stage.to("n0", free=True)
    assert stage.may("b") == 1


def test_the_job_with_the_least_work_left_overtakes_up_to_the_limit() -> None:
    """A task of a that waits may be overtaken by five times its 10 s."""
    stage = Stage(EAGLE, nodes=1)
    stage.left_s = {"a": 500.0, **{f"b{number}": 20.0 for number in range(4)}}
    stage.waits("a", 1)
    for number in range(4):
        name = f"b{number}"
        stage.waits(name, 1, expected_s=20.0)
        assert stage.at("n0")[0] == (name if number < 2 else "a")
        stage.to("n0", free=True)
        if number < 2:
            stage.starts(name, "n0")
            stage.prober.waits_no_more(name)


def test_a_long_job_waits_where_it_waits_least() -> None:
    stage = Stage(BATCH)
    stage.classes["l"] = JobClass.LONG
    stage.runs("n0", "x", expected_s=50.0, ran_s=10.0)
    stage.runs("n1", "x", expected_s=50.0, ran_s=40.0)
    stage.waits("l", 1)
    assert (stage.at("n0"), stage.at("n1")) == ([], ["l"])


def test_no_short_task_waits_behind_a_long_one() -> None:
    stage = Stage(EAGLE, nodes=3)
    stage.classes = {"l": JobClass.LONG, "s": JobClass.SHORT}
    stage.runs("n0", "l", expected_s=50.0, ran_s=10.0)
    stage.runs("n1", "x", expected_s=1.0, ran_s=0.5)
    stage.runs("n2", "x", expected_s=50.0, ran_s=0.5)
    stage.waits("l", 1, expected_s=50.0)
    assert stage.at("n1") == ["l"], "it waits least there"
    stage.waits("s", 1)
    assert (stage.at("n0"), stage.at("n1"), set(stage.at("n2"))) == ([], ["l"], {"s"})


@pytest.mark.parametrize(("behind_long", "places"), [(True, 1), (False, 0)])
def test_no_short_task_is_bound_ahead_of_the_end_of_a_long_one(behind_long: bool, places: int) -> None:
    probe = {"policy": "succinct", "settings": {"behind_long": behind_long}}
    stage = Stage({**EAGLE, "probe": probe}, nodes=1)
    stage.classes = {"short": JobClass.SHORT, "long": JobClass.LONG}
    stage.waits("short", 1)
    stage.runs("n0", "long", 20.0, 19.0)
    stage.free.bind_ahead(1.5)
    stage.to("n0", free=False, frees_s=1.0)
    assert stage.may("short") == places
    stage.nodes["n0"].report = None
    stage.to("n0", free=True)
    assert stage.may("short") == 1


def test_an_idle_node_takes_over_short_tasks_behind_a_long_one() -> None:
    stage = Stage(HAWK, nodes=3)
    stage.classes = {"l": JobClass.LONG, "s": JobClass.SHORT}
    stage.to("n1", free=False, usable=False)
    stage.to("n2", free=False, usable=False)
    stage.runs("n0", "l", expected_s=50.0, ran_s=10.0)
    stage.waits("s", 1)
    assert stage.at("n0") == ["s", "s"]
    stage.to("n1", free=True)
    assert stage.thief.look("n1", 0.0)
    assert (stage.at("n0"), stage.at("n1")) == ([], ["s", "s"])
    assert stage.where("s") == ["n1"]
    moved = [effect.record for effect in stage.effects if isinstance(effect, Decided)]
    assert {(one.slot, one.app_id, one.node_id) for one in moved} == {("steal", "s", "n1")}


def test_a_busy_node_or_one_with_a_turn_takes_nothing_over() -> None:
    stage = Stage(HAWK)
    stage.classes = {"l": JobClass.LONG, "s": JobClass.SHORT}
    stage.runs("n0", "l", expected_s=50.0, ran_s=10.0)
    stage.waits("s", 1)
    assert stage.at("n0") == stage.at("n1") == ["s"]
    assert not stage.thief.look("n1", 0.0), "it is busy"
    stage.to("n1", free=True)
    assert not stage.thief.look("n1", 0.0), "somebody has the turn there"


def test_a_broken_policy_sends_no_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(BATCH)
    monkeypatch.setattr("policies.probe.batch.draw", lambda *given, **more: 1 / 0)
    stage.waits("a", 1)
    assert "ZeroDivisionError" in stage.faults[0]
    assert stage.where("a") is None, "it may go anywhere"


def test_all_is_forgotten() -> None:
    stage = Stage(EAGLE, nodes=3)
    for number in range(10):
        stage.waits(f"a{number}", number + 1)
    stage.prober.clear()
    assert not stage.prober.queues
    assert not stage.prober.jobs
    assert stage.prober.why("a0", 0.0), "the central queue knows them still"
