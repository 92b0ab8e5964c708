"""Playbooks of least attained service: resizes in flight and refused, short memory, new rules."""

from __future__ import annotations

import dataclasses

import pytest

from policies.model import Way
from sidecar.cpu_sharing.events import (
    Joined,
    LasRules,
    Left,
    ReadyContainer,
    Resized,
    Restore,
    Ruled,
    Served,
    SharingTurn,
    Shrink,
    Squeezed,
)
from sidecar.cpu_sharing.plan import Plan
from tests.playbook import play
from tests.sidecar.cpu_sharing.words import MIN, come, done, full, las, running, settle


def test_one_command_at_a_time_then_the_difference() -> None:
    node = full(1, "a")
    come(node, "b", 1)
    play(
        node,
        (Left("b", 2), []),  # a is being shrunk still
        (done("a", 3), [Restore("a", "its turn: attained 2.0 s")]),
        (done("a", 4), []),
    )


def test_refused_shrink_keeps_its_room_and_is_tried_again_later_and_later() -> None:
    node = full(1, "a")
    assert len(come(node, "b", 5)) == 1
    play(node, (Resized("a", "EBUSY", 5), [Shrink("b", MIN, "", "others go first")]), (done("b", 5), []))
    assert (node.shares["a"].stuck, running(node), node.deadline_s()) == ("EBUSY", {"a": 1}, 6)
    assert node.shares["a"].times_shrunk == 0
    again = Shrink("a", MIN, "b", "attained 5.0 s, b only 0.0 s")
    play(node, (SharingTurn(6), [again]), (SharingTurn(6.5), []), (Resized("a", "EBUSY", 7), []))
    assert node.deadline_s() == 9
    for wait_s in (2, 4, 8, 16, 32, 60, 60):
        at_s = node.shares["a"].retry_at_s
        play(node, (SharingTurn(at_s), [again]), (Resized("a", "EBUSY", at_s), []))
        assert node.shares["a"].retry_at_s == at_s + min(60, wait_s * 2)
    at_s = node.shares["a"].retry_at_s
    play(node, (SharingTurn(at_s), [again]))
    assert node.handle(done("a", at_s)) == [Restore("b", f"stood still for {at_s - 5:.0f} s")]
    assert (node.shares["a"].stuck, node.shares["a"].times_shrunk, running(node)) == ("", 1, {"b": 1})


def test_refused_shrink_that_nobody_wants_any_more_is_forgotten() -> None:
    node = full(1, "a")
    come(node, "b", 5)
    settle(node, node.handle(Resized("a", "EBUSY", 5)), 5)
    play(node, (Left("b", 5.5), []), (SharingTurn(6), []))
    assert node.shares["a"].stuck == ""


def test_two_refusals_are_retried_each_with_the_other_in_its_place() -> None:
    node = full(2, "a", "b")
    for name in ("g", "h"):
        node.handle(Joined(name, 1, Way.NONE, 5))
    node.handle(Served({"a": 1.0}, 5))  # b has 4 s
    node.handle(Resized("a", "EBUSY", 5))
    node.handle(Resized("b", "EBUSY", 5.5))
    node.handle(Left("h", 5.5))
    assert [type(c) for c in node.handle(SharingTurn(6))] == [Shrink]  # b has the one core, though a attained less
    node.handle(Resized("a", "EBUSY", 6))
    assert (node.shares["a"].tries, node.shares["a"].retry_at_s, node.shares["b"].retry_at_s) == (2, 8, 6.5)
    settle(node, node.handle(SharingTurn(6.5)), 6.5)
    assert node.shrunk() == {"b"}


def test_refused_restore_stands_still_and_another_takes_its_turn() -> None:
    node = full(1, "a", "b", "c", gap_s=4)
    node.handle(Left("c", 9))  # a has 4 s, b 4 s: a
    assert node.shares["a"].flight is not None
    play(
        node,
        (Resized("a", "EIO", 9.5), [Restore("b", "its turn: attained 4.0 s")]),
        (done("b", 9.5), []),
        (SharingTurn(10.5), []),
    )
    assert node.shares["a"].stuck == ""
    assert (running(node), node.shares["a"].idle_since_s) == ({"b": 1}, 4)
    assert settle(node, node.handle(Left("b", 11)), 11) == [Restore("a", "its turn: attained 4.0 s")]


def test_memory_is_short_swaps_are_allowed_more_are_not() -> None:
    node = full(2, "a")
    play(
        node,
        (Squeezed(True, "some 12 %", 1), []),
        (Joined("b", 1, Way.SHRINK, 2), []),
        (ReadyContainer("b", 2), [Shrink("b", MIN, "", "memory is short: some 12 %")]),
        (done("b", 2), []),
        (Squeezed(True, "some 15 %", 3), []),
        (
            SharingTurn(10),
            [Shrink("a", MIN, "b", "attained 10.0 s, b only 0.0 s"), Restore("b", "its turn: attained 0.0 s")],
        ),
        (done("a", 10), []),
        (done("b", 10), []),
        (Squeezed(False, "", 11), [Restore("a", "its turn: attained 10.0 s")]),
    )
    assert running(node) == {"a": 1, "b": 1}


def test_memory_is_short_but_one_runs() -> None:
    node = las(2)
    node.handle(Squeezed(True, "full", 0))
    assert come(node, "a", 1) == []
    assert [type(c) for c in come(node, "b", 2)] == [Shrink]
    assert running(node) == {"a": 1}


def test_newcomers_that_had_to_wait_go_when_memory_is_there_again() -> None:
    node = full(1, "a")
    node.handle(Squeezed(True, "full", 1))
    settle(node, come(node, "b", 2), 2)
    assert running(node) == {"a": 1}
    node.handle(Squeezed(False, "", 3))
    assert running(node) == {"b": 1}


def test_new_rules_act_at_once() -> None:
    node = full(1, "a", "b", gap_s=4)
    assert node.handle(Ruled(LasRules(2, 10, min_cores=MIN), 5)) == [Restore("a", "its turn: attained 4.0 s")]
    node.handle(done("a", 5))
    rules = LasRules(1, 3, min_cores=0.2)
    assert settle(node, node.handle(Ruled(rules, 6)), 6) == [Shrink("a", 0.2, "", "others go first")]
    assert node.handle(Ruled(dataclasses.replace(rules, min_cores=0.1), 6.5)) == [
        Shrink("a", 0.1, "", "others go first")
    ]
    assert node.deadline_s() == 7  # b runs since 4


def test_doubles_and_strangers_are_ignored() -> None:
    node = full(1, "a", "b", gap_s=4)
    before = dataclasses.replace(node.shares["b"])
    play(
        node,
        (Joined("b", 9, Way.NONE, 4), []),
        (ReadyContainer("b", 4), []),
        (ReadyContainer("x", 4), []),
        (Left("x", 4), []),
        (Resized("x", "", 4), []),
        (Resized("b", "no", 4), []),
        (Served({"x": 1}, 4), []),
    )
    assert dataclasses.asdict(before) == dataclasses.asdict(node.shares["b"]) and set(node.shares) == {"a", "b"}


def test_who_leaves_while_it_is_resized_is_gone() -> None:
    node = full(1, "a")
    come(node, "b", 1)
    play(node, (Left("a", 1), []), (done("a", 2), []), (Left("b", 3), []))
    assert node.shares == {} and node.deadline_s() is None


def test_a_resize_that_went_as_planned_makes_no_new_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    node = full(1, "a")
    commands = come(node, "b", 1)
    assert [command.container_id for command in commands] == ["a"]

    def no_plan(*_: object) -> Plan:
        raise AssertionError("planned anew")

    monkeypatch.setattr("sidecar.cpu_sharing.las.plan", no_plan)
    play(node, (done("a", 1), []))
    assert (node.shares["a"].times_shrunk, node.shares["a"].flight) == (1, None)
