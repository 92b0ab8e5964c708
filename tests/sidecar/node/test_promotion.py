"""Playbooks of containers that the ResourceManager made guaranteed while they ran."""

from __future__ import annotations

import pytest

from policies.model import Resources, Way
from policies.preempt.las import POLICY
from policies.preempt.las import Las as LasSettings
from quicksilver.common.messages import EventKind, Report
from sidecar.cpu_sharing.events import Pinned, Resized, Restore, SharingTurn, Shrink, Squeezed
from sidecar.memory.memory_guard import HeldMemory
from sidecar.node.container import Rules
from sidecar.node.events import (
    Adopted,
    Answered,
    Drain,
    Ended,
    Forward,
    Granted,
    Kill,
    KillAsked,
    Launch,
    Outcome,
    Released,
    SessionUp,
    Targeted,
    Unwatch,
    Warn,
    Watch,
)
from sidecar.node.node import SidecarNode
from sidecar.node.node_policies import NodePolicies
from sidecar.node.report_view import container, fill_report
from sidecar.node.sharing import Sharing
from tests.playbook import play
from tests.sidecar.cpu_sharing.words import MIN, come, done, full, las, running
from tests.sidecar.words import APP, ATTEMPT, arrived, by_arrival, grant, node, reports

GOOD = (Outcome.STARTED, "")


def promoted(now_s: float, *names: str) -> Targeted:
    return Targeted(None, (), names, now_s)


def runs(*names: str) -> SidecarNode:
    """Return a node of two places on which these queueable containers run."""
    one = node()
    one.handle(SessionUp(ATTEMPT, 0))
    for name in names:
        one.handle(Granted((grant(name),), 0))
        one.handle(arrived(name, 0))
        one.handle(Answered(name, *GOOD, 1))
    return one


def test_it_counts_as_guaranteed_and_its_session_is_given_back() -> None:
    one = runs("a")
    play(
        one,
        (promoted(2, "a", "nobody"), [Released(ATTEMPT)]),
        (promoted(3, "a"), []),
        (Ended("a", 5), [reports(3, "a", EventKind.ENDED, 5, ran_s=4), Unwatch("a")]),
    )


def test_the_report_shows_it_as_guaranteed() -> None:
    one = runs("a", "b")
    one.handle(promoted(2, "a"))
    empty = Report(node_id="n", boot="b", seq=1, sidecar_url="", memory_mb=0, vcores=0)
    report = fill_report(empty, one, 2)
    assert {c.container_id: c.kind for c in report.containers} == {"a": "G", "b": "Q"}
    assert (report.used_g_mb, report.used_q_mb) == (1024, 1024)


def test_a_guaranteed_start_kills_another_one() -> None:
    one = runs("a", "b")
    one.handle(promoted(2, "b"))  # else the newest
    commands = one.handle(arrived("g", 3, q=False))
    assert [c.container_id for c in commands if isinstance(c, Kill)] == ["a"]


def test_where_all_are_promoted_nothing_is_killed() -> None:
    one = runs("a", "b")
    one.handle(promoted(2, "a", "b"))
    commands = one.handle(arrived("g", 3, q=False))
    assert Forward("g") in commands
    assert not [c for c in commands if isinstance(c, Kill)]
    assert [c for c in commands if isinstance(c, Warn)]


def test_the_memory_guard_and_a_drain_leave_it() -> None:
    one = runs("a")
    one.handle(promoted(2, "a"))
    assert one.handle(KillAsked("a", "memory is out", 3)) == []
    assert one.handle(Drain(True, "maintenance", 4)) == []
    entry = one.state.containers["a"]
    assert not one.endings.killable(entry)
    assert HeldMemory("a", entry.kind, 1024, killable=one.endings.killable(entry)).kind == "G"


def test_what_waits_or_is_being_killed_stays_as_it_is() -> None:
    one = runs("a", "b")
    one.handle(Granted((grant("w"),), 2))
    one.handle(arrived("w", 2))
    assert one.handle(promoted(2, "w")) == []
    assert one.state.containers["w"].kind == "Q"
    one.handle(arrived("g", 3, q=False))
    (dying,) = [e for e in one.state.containers.values() if e.kill_reason]
    assert one.handle(promoted(4, dying.id)) == []
    assert dying.kind == "Q"


def test_its_place_stays_taken_until_it_ends() -> None:
    one = runs("a", "b")
    one.handle(promoted(2, "a", "b"))
    one.handle(Granted((grant("c"),), 3))
    one.handle(arrived("c", 3))
    commands = one.handle(Ended("a", 4))
    assert [c for c in commands if isinstance(c, Launch | Watch)] == [
        Launch("c", ATTEMPT, b"launch"),
        Watch("c", APP),
    ]


def test_one_that_was_taken_over_after_a_restart_is_promoted_too() -> None:
    one = node()
    one.handle(Adopted("a", APP, Resources(1024, 1), True, 1))
    assert one.state.containers["a"].kind == "O"
    assert one.handle(promoted(2, "a")) == []
    assert one.state.containers["a"].kind == "G"


# Where containers share the cores


def test_a_shrunk_one_gets_its_full_limits_back_and_others_give_way() -> None:
    las_node = full(1, "a", "b", gap_s=5)  # b runs, a is shrunk
    commands = las_node.handle(Pinned("a", 6))
    assert [(type(c), c.container_id) for c in commands] == [(Shrink, "b"), (Restore, "a")]
    for command in commands:
        las_node.handle(done(command.container_id, 6))
    assert running(las_node) == {"a": 1}
    assert las_node.handle(SharingTurn(100)) == [], "nobody takes its place, however long b stands still"
    assert las_node.shares["a"].times_shrunk == 1


def test_a_running_one_stays_as_it_is() -> None:
    las_node = full(2, "a", "b")
    assert las_node.handle(Pinned("a", 3)) == []
    assert las_node.handle(Pinned("a", 3)) == [] == las_node.handle(Pinned("nobody", 3))
    assert [type(c) for c in come(las_node, "c", 9)] == [Shrink]
    assert las_node.shares["a"].granted.cores is None


def test_a_shrink_on_its_way_is_undone_after_it() -> None:
    las_node = las()
    come(las_node, "a", 0)
    (shrink,) = come(las_node, "b", 5)
    assert shrink == Shrink("a", MIN, "b", shrink.why)
    (away,) = las_node.handle(Pinned("a", 5))
    assert (type(away), away.container_id) == (Shrink, "b")
    (back,) = las_node.handle(done("a", 5))
    assert back == Restore("a", "it is guaranteed now")
    assert las_node.handle(done("a", 5)) == []


def test_a_refused_restore_is_tried_again() -> None:
    las_node = full(1, "a", "b", gap_s=5)
    las_node.handle(Pinned("a", 6))
    las_node.handle(done("b", 6))
    assert las_node.handle(Resized("a", "EBUSY", 6)) == []
    assert las_node.deadline_s() == pytest.approx(7)
    assert las_node.handle(SharingTurn(6.5)) == []
    assert las_node.handle(SharingTurn(7)) == [Restore("a", "it is guaranteed now")]
    assert las_node.handle(done("a", 7)) == []
    assert las_node.shares["a"].granted.cores is None


def test_a_squeeze_does_not_stop_it() -> None:
    las_node = full(2, "a", "b", "c")
    las_node.handle(Squeezed(True, "20 MB free", 4))
    small = next(iter(las_node.shrunk()))
    commands = las_node.handle(Pinned(small, 5))
    assert Restore(small, "it is guaranteed now") in commands


def test_the_node_machine_pins_it_and_says_so() -> None:
    settings = LasSettings(quantum_s=10, extra=2)
    rules = Rules(Resources(8192, 1), shares_cpu=True, extra_vcores=2, reserve_mb=0, settle_s=0.0, nm_vcores=100)
    one = SidecarNode(
        rules,
        NodePolicies(by_arrival, lambda *_: POLICY.decide(*_[:2], settings, _[2])),
        Sharing(settings, rules),
    )
    one.handle(SessionUp(ATTEMPT, 0))
    for name in "ab":
        one.handle(Granted((grant(name),), 0))
        one.handle(arrived(name, 0))
        one.handle(Answered(name, *GOOD, 0))
    commands = one.handle(promoted(1, "a"))
    assert not [c for c in commands if isinstance(c, Released)], "b needs the session"
    share = one.state.sharing.share("a")
    assert share is not None and share.pinned and one.state.sharing.way(one.state.containers["a"]) is Way.NONE
    shown = container(one, "a", 1)
    assert shown is not None and shown.kind == "G" and shown.cores is None
