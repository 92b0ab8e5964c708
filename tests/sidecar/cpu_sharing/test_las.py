"""Playbooks of least attained service: one per rule of who runs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.common.shrinking import Shrinking
from policies.model import Way
from sidecar.cpu_sharing.events import (
    Freeze,
    Joined,
    LasRules,
    Left,
    ReadyContainer,
    Restore,
    Served,
    SharingTurn,
    Shrink,
)
from sidecar.cpu_sharing.plan import Need, plan
from sidecar.cpu_sharing.share import FULL, CoreGrant, CoreShare
from tests.playbook import play
from tests.sidecar.cpu_sharing.words import MIN, come, done, full, las, running, running_vcores, settle


def test_defaults_are_those_of_the_policy() -> None:
    rules, settings = LasRules(2), Shrinking()
    for name in ("quantum_s", "starve_quanta", "protect_quanta", "min_cores"):
        assert getattr(rules, name) == getattr(settings, name)


def test_newcomer_displaces_who_attained_most_and_the_least_attained_resumes() -> None:
    play(
        las(),
        (Joined("a", 1, Way.SHRINK, 0), []),
        (ReadyContainer("a", 0), []),
        (Joined("b", 1, Way.SHRINK, 4), []),
        (ReadyContainer("b", 5), [Shrink("a", MIN, "b", "attained 5.0 s, b only 0.0 s")]),
        (done("a", 5), []),
        (Joined("c", 1, Way.SHRINK, 6), []),
        (ReadyContainer("c", 7), [Shrink("b", MIN, "c", "attained 2.0 s, c only 0.0 s")]),
        (done("b", 7), []),
        (Left("c", 9), [Restore("b", "its turn: attained 2.0 s")]),
    )


def test_what_others_read() -> None:
    node = full(1, "a", "b", gap_s=4)
    assert node.shrunk() == {"a"}
    assert running_vcores(node) == 1
    assert node.spread_s() == 2.0  # 4 s and 0 s
    assert node.attained_s() == 4.0
    a = node.shares["a"]
    assert (a.attained_s, a.times_shrunk, a.last_by, a.last_why) == (4.0, 1, "b", "attained 4.0 s, b only 0.0 s")
    assert (a.ready, a.running, a.cores, a.applied.cores, a.since_s) == (True, False, MIN, MIN, 4.0)
    b = node.shares["b"]
    assert (b.running, b.cores, b.times_shrunk, b.stuck) == (True, None, 0, "")


def test_quantum_ends_who_attained_no_more_takes_over_and_the_timer_starts_again() -> None:
    node = full(1, "a", "b", gap_s=4)  # a has 4 s, b runs since 4
    assert node.deadline_s() == 14
    play(
        node,
        (SharingTurn(13.9), []),
        (
            SharingTurn(14),
            [Shrink("b", MIN, "a", "attained 10.0 s, a only 4.0 s"), Restore("a", "its turn: attained 4.0 s")],
        ),
        (done("b", 14), []),
        (done("a", 14), []),
        (
            SharingTurn(24),
            [Shrink("a", MIN, "b", "attained 14.0 s, b only 10.0 s"), Restore("b", "its turn: attained 10.0 s")],
        ),
    )


def test_quantum_ends_and_the_least_attained_runs_on() -> None:
    node = full(1, "a", "b", gap_s=40, starve_quanta=9)
    play(node, (SharingTurn(50), []))  # b has 10 s, a 40 s
    assert node.deadline_s() == 60
    play(node, (SharingTurn(60), []), (SharingTurn(70), []))
    play(
        node,
        (
            SharingTurn(80),
            [Shrink("b", MIN, "a", "attained 40.0 s, a 40.0 s"), Restore("a", "its turn: attained 40.0 s")],
        ),
    )


def test_nothing_but_time_passes_before_ready() -> None:
    node = las(ready_wait_s=30)
    play(node, (Joined("a", 1, Way.SHRINK, 5), []), (SharingTurn(20), []))
    assert running_vcores(node) == 0
    assert node.deadline_s() == 35


def test_who_is_not_ready_in_time_counts_in_full_until_it_is() -> None:
    node = las(ready_wait_s=30)
    settle(node, come(node, "a", 0), 0)
    play(
        node,
        (Joined("b", 1, Way.SHRINK, 5), []),
        (SharingTurn(35), [Shrink("a", MIN, "b", "b needs 1 vcores and is never resized")]),
        (done("a", 35), []),
    )
    assert node.shares["b"].running and running_vcores(node) == 1
    play(node, (ReadyContainer("b", 40), []))
    assert node.shares["b"].running and not node.shares["a"].running
    assert node.deadline_s() == 50


@pytest.mark.parametrize("way", [Way.NONE, Way.KILL])
def test_what_is_never_resized_takes_its_cores_from_the_start(way: Way) -> None:
    node = las(2)
    come(node, "a", 0)
    come(node, "b", 1)
    play(
        node,
        (Joined("g", 1, way, 3), [Shrink("a", MIN, "g", "g needs 1 vcores and is never resized")]),
        (ReadyContainer("g", 4), []),
        (done("a", 4), []),
    )
    assert running_vcores(node) == 2 and node.shares["g"].running and "g" not in node.shrunk()
    play(node, (Left("g", 5), [Restore("a", "its turn: attained 4.0 s")]))


def test_more_guaranteed_than_cores_leave_nothing() -> None:
    node = las(2)
    come(node, "a", 0)
    play(node, (Joined("g", 3, Way.NONE, 1), [Shrink("a", MIN, "g", "g needs 3 vcores and is never resized")]))
    assert running_vcores(node) == 3
    play(node, (done("a", 1), []), (SharingTurn(500), []))
    assert node.deadline_s() is None  # it starves, but no time will help it


def test_frozen_instead_of_shrunk_but_a_part_is_a_part() -> None:
    node = las(1.5)
    come(node, "f", 0, way=Way.FREEZE)
    why = "attained 1.0 s, b only 0.0 s"
    play(
        node,
        (Joined("b", 1, Way.FREEZE, 1), []),
        (ReadyContainer("b", 1), [Shrink("f", 0.5, "b", "0.5 cores are left for it")]),
        (done("f", 1), []),
        (Joined("c", 1.5, Way.SHRINK, 1), []),
        (
            ReadyContainer("c", 1),
            [Freeze("b", "c", "attained 0.0 s, c 0.0 s"), Freeze("f", "c", why.replace("b", "c"))],
        ),
    )


def test_cores_are_never_left_alone() -> None:
    node = las(2.5)
    come(node, "a", 0)
    come(node, "b", 1)
    assert settle(node, come(node, "c", 2), 2) == [Shrink("a", 0.5, "c", "0.5 cores are left for it")]
    assert running(node) == {"a": 0.5, "b": 1, "c": 1}
    assert settle(node, node.handle(Left("b", 3)), 3) == [Restore("a", "its turn: attained 2.5 s")]


def test_a_sliver_is_no_part() -> None:
    node = las(2.09)
    come(node, "a", 0)
    come(node, "b", 1)
    assert come(node, "c", 2) == [Shrink("a", MIN, "c", "attained 2.0 s, c only 0.0 s")]


def test_a_sliver_is_better_than_nothing_runs() -> None:
    node = las(2)
    come(node, "a", 0)
    settle(node, come(node, "b", 1), 1)
    commands = node.handle(Joined("g", 1.92, Way.NONE, 2))
    assert [c for c in commands if isinstance(c, Shrink)] == [
        Shrink("a", MIN, "g", "g needs 1.92 vcores and is never resized"),
        Shrink("b", 0.08, "g", "0.08 cores are left for it"),
    ]
    settle(node, commands, 2)
    assert settle(node, node.handle(Left("g", 3)), 3) == [
        Restore("a", "its turn: attained 2.0 s"),
        Restore("b", "its turn: attained 1.1 s"),
    ]


def test_a_part_grows_only_when_the_quantum_of_others_is_over() -> None:
    node = las(2)
    settle(node, come(node, "big", 0, 2), 0)
    settle(node, come(node, "small", 5), 5)
    assert running(node) == {"big": 1, "small": 1}
    node.handle(Served({"big": 1.0}, 6))
    for at_s in (10, 11, 14.9):
        assert node.handle(SharingTurn(at_s)) == []
    assert settle(node, node.handle(SharingTurn(15)), 15) == [
        Shrink("small", MIN, "big", "attained 10.0 s, big only 1.0 s"),
        Restore("big", "its turn: attained 1.0 s"),
    ]


def test_a_part_grows_before_who_attained_more_runs() -> None:
    node = full(2, "a", "b")  # 1 s apart
    settle(node, come(node, "big", 8, 2), 8)
    assert running(node) == {"big": 2}
    settle(node, node.handle(Joined("g", 1, Way.NONE, 9)), 9)
    assert running(node) == {"g": 1, "big": 1}
    settle(node, node.handle(Left("g", 9.5)), 9.5)
    assert running(node) == {"big": 2}  # 2.5 s, b has 7 s


def test_who_runs_all_or_nothing_is_given_no_part() -> None:
    node = las(1.5)
    settle(node, come(node, "w", 0, 1, Way.FREEZE, whole=True), 0)
    assert settle(node, come(node, "b", 1), 1) == [Freeze("w", "b", "attained 1.0 s, b only 0.0 s")]
    node.handle(Left("b", 2))
    assert running(node) == {"w": 1}
    node.handle(done("w", 2))
    node.handle(Joined("g", 1, Way.NONE, 3))
    assert running(node) == {"w": 1, "g": 1}  # nothing else could run on the half core


def test_starving_one_runs_and_is_protected_from_newcomers() -> None:
    node = full(1, "a", "b", gap_s=40, starve_quanta=2)  # a stands still since 40
    settle(node, node.handle(SharingTurn(50)), 50)
    assert node.deadline_s() == 60
    play(
        node,
        (SharingTurn(60), [Shrink("b", MIN, "a", "a stood still for 20 s"), Restore("a", "stood still for 20 s")]),
        (done("b", 60), []),
        (done("a", 60), []),
        (Joined("c", 1, Way.SHRINK, 61), []),
        (ReadyContainer("c", 61), [Shrink("c", MIN, "", "others go first")]),
        (done("c", 61), []),
        (SharingTurn(69.9), []),
        (
            SharingTurn(70),
            [Shrink("a", MIN, "c", "attained 50.0 s, c only 0.0 s"), Restore("c", "its turn: attained 0.0 s")],
        ),
    )


def test_starving_one_wants_a_turn_of_its_own() -> None:
    node = full(1, "a", "b", gap_s=44, starve_quanta=2)
    node.handle(SharingTurn(54.5))  # late: the next quantum ends at 64.5
    assert node.deadline_s() == 64
    settle(node, node.handle(SharingTurn(64)), 64)
    assert running(node) == {"a": 1}


def test_guaranteed_ones_displace_even_the_protected_which_is_next_then() -> None:
    node = full(1, "a", "b", gap_s=40, starve_quanta=2)
    settle(node, node.handle(SharingTurn(60)), 60)
    assert running(node) == {"a": 1}
    settle(node, node.handle(Joined("g", 1, Way.NONE, 61)), 61)
    assert running(node) == {"g": 1}
    settle(node, node.handle(Left("g", 62)), 62)
    assert running(node) == {"a": 1}
    assert node.shares["a"].protected_until_s == 72


def test_who_starves_longest_goes_first() -> None:
    node = full(1, "a", "b", "c", gap_s=30, starve_quanta=4)  # a stands still since 30, b since 60
    settle(node, node.handle(Joined("g", 1, Way.NONE, 61)), 61)
    for at_s in (70, 100, 101):
        assert node.handle(SharingTurn(at_s)) == []
    for at_s, event, name in ((105, Left("g", 105), "a"), (115, SharingTurn(115), "b"), (125, SharingTurn(125), "c")):
        settle(node, node.handle(event), at_s)
        assert running(node) == {name: 1}
    settle(node, node.handle(SharingTurn(135)), 135)
    assert running(node) == {"c": 1}  # nobody starves any more, and c attained least


def test_starving_one_goes_before_a_newcomer() -> None:
    node = full(1, "a", "b", gap_s=40, starve_quanta=2)
    node.handle(Joined("c", 1, Way.SHRINK, 59))
    commands = node.handle(ReadyContainer("c", 60))
    assert [(type(c), c.container_id) for c in commands] == [(Shrink, "b"), (Shrink, "c"), (Restore, "a")]
    assert running(node) == {"a": 1}


def test_protection_ends_in_time_even_when_a_turn_was_late() -> None:
    node = full(1, "a", "b", gap_s=40, starve_quanta=3, protect_quanta=2)
    for at_s, name in ((60, "b"), (70, "a"), (80.5, "a")):
        settle(node, node.handle(SharingTurn(at_s)), at_s)
        assert running(node) == {name: 1}
    assert node.deadline_s() == 90
    settle(node, node.handle(SharingTurn(90)), 90)
    assert running(node) == {"b": 1}


def test_what_does_not_suffice_for_a_starving_one_is_kept_for_it() -> None:
    def share(name: str, vcores: float, **more: Any) -> CoreShare:
        return CoreShare(name, vcores, Way.SHRINK, 0, 0, ready=True, is_new=False, **more)

    still = CoreGrant(MIN, False)
    protected = share("p", 1, protected_until_s=100)
    starving = share("w", 2, whole=True, granted=still)
    idle = share("i", 1, granted=still, idle_since_s=45)
    rules = LasRules(2, 10, min_cores=MIN)
    assert plan([protected, starving, idle], Need(2, rules, 50)).grants == {"p": FULL, "w": still, "i": still}
    assert plan([starving, idle], Need(2, rules, 50)).grants == {"w": FULL, "i": still}
    assert plan([protected, idle], Need(2, rules, 50)).grants == {"p": FULL, "i": FULL}


def test_a_protected_one_does_not_grow_into_the_place_of_another() -> None:
    first = CoreShare(
        "a", 2, Way.SHRINK, 0, 0, ready=True, is_new=False, granted=CoreGrant(1, True), protected_until_s=60
    )
    second = CoreShare("b", 1, Way.SHRINK, 0, 0, ready=True, is_new=False, protected_until_s=70)
    rules = LasRules(2, 10, min_cores=MIN)
    assert plan([first, second], Need(2, rules, 50)).grants == {"a": CoreGrant(1, True), "b": FULL}
    assert plan([first, second], Need(3, rules, 50)).grants == {"a": FULL, "b": FULL}


def test_accounting_wins_and_never_falls() -> None:
    node = full(1, "a", gap_s=1)
    node.handle(SharingTurn(8))
    assert node.shares["a"].attained_s == 8
    node.handle(Served({"a": 3.0, "gone": 4.0}, 9))
    assert node.shares["a"].attained_s == 3
    node.handle(SharingTurn(12))
    assert node.shares["a"].attained_s == 3  # wall time counts no more
    node.handle(Served({"a": 1.0}, 13))
    node.handle(Served({"a": 1.5}, 14))
    assert node.shares["a"].attained_s == 3.5


def test_wall_time_counts_as_carried_out_times_cores() -> None:
    node = las(2)
    come(node, "a", 0, 2)
    come(node, "b", 3)  # a is to have 1 core, but still has 2
    node.handle(SharingTurn(5))
    assert node.shares["a"].attained_s == 10
    node.handle(done("a", 6))
    node.handle(SharingTurn(8))
    assert node.shares["a"].attained_s == 14
    assert node.shares["b"].attained_s == 5


def test_time_never_goes_back() -> None:
    node = full(1, "a")
    node.handle(SharingTurn(5))
    node.handle(SharingTurn(2))
    node.handle(SharingTurn(6))
    assert node.shares["a"].attained_s == 6


def test_what_kills_in_place_of_the_shrinks_would_have_lost() -> None:
    node = full(1, "a", "b", gap_s=4)
    a, b = node.shares["a"], node.shares["b"]
    assert (a.saved_s, b.saved_s) == (4.0, 0.0), "a kill for b would have lost the 4 s of a"
    settle(node, node.handle(SharingTurn(14)), 14)  # b has 10 s and gives way to a
    assert (a.saved_s, b.saved_s) == (4.0, 10.0)
    settle(node, node.handle(SharingTurn(24)), 24)  # a has 14 s: a kill would have lost the 10 s since its first one
    assert (a.attained_s, a.saved_s, a.times_shrunk) == (14.0, 14.0, 2)


@pytest.mark.parametrize(("taker", "saved_s"), [("app1", 0.0), ("app2", 4.0)])
def test_a_shrink_for_a_container_of_the_same_job_saves_nothing(taker: str, saved_s: float) -> None:
    node = full(1)
    settle(node, come(node, "a", 0, app_id="app1"), 0)
    settle(node, come(node, "b", 4, app_id=taker), 4)
    a = node.shares["a"]
    assert (a.times_shrunk, a.saved_s) == (1, saved_s)


@given(st.lists(st.floats(0.1, 30), min_size=1, max_size=12))
def test_saved_is_what_each_kill_would_have_lost_since_the_one_before(turns: list[float]) -> None:
    share = CoreShare("a", 1, Way.SHRINK, 0, 0, ready=True)
    since_s = lost_s = 0.0
    for seconds in turns:
        share.serve(seconds)
        since_s += seconds
        share.flight = CoreGrant(0.0, False)
        share.done(seconds)
        lost_s, since_s = lost_s + since_s, 0.0
        share.flight = FULL
        share.done(seconds)
    assert share.saved_s == pytest.approx(lost_s)
    share.serve(5.0)
    assert share.saved_s == pytest.approx(lost_s), "what it attained since is not saved by any shrink"
