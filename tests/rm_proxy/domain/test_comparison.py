"""Bounds of the work that is done for alternatives alone."""

from __future__ import annotations

from policies.config.policy_set import Policies
from rm_proxy.domain.comparison import InTurn, PerSecond, shadowed


def test_so_many_in_a_second() -> None:
    bound = PerSecond(2)
    assert [bound.take(now_s) for now_s in (1.0, 1.5, 1.9, 2.0)] == [True, True, False, True]


def test_all_have_their_turn() -> None:
    turn = InTurn(2)
    assert [turn.of(["a", "b", "c"]) for _ in range(3)] == [["a", "b"], ["c", "a"], ["b", "c"]]
    assert turn.of(["d"]) == ["d"]
    assert turn.of([]) == []


def test_a_slot_is_shadowed_where_an_alternative_in_shadow_has_a_policy() -> None:
    alternatives = {"new": {"steal": {"policy": "hawk"}}, "idle": {"correct": {"policy": "apollo"}}}
    policies = Policies.load({"alternatives": alternatives, "shadow": ["new"]})
    assert [shadowed(policies, slot) for slot in ("steal", "correct")] == [True, False]
    assert not shadowed(Policies.load({"alternatives": alternatives}), "steal")
