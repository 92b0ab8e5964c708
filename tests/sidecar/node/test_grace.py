"""A guaranteed start waits a little for queueable containers that are about to end."""

from __future__ import annotations

from policies.model import Resources
from quicksilver.common.messages import EventKind
from sidecar.node.events import (
    Answered,
    Command,
    Ended,
    Forward,
    Granted,
    Kill,
    KillOver,
    Outcome,
    SessionUp,
    Tick,
    Unwatch,
    Watch,
    Withdrawn,
)
from sidecar.node.node import SidecarNode
from tests.playbook import play
from tests.sidecar.words import APP, ATTEMPT, arrived, grant, node, reports


def busy(*ends_s: float, grace_s: float = 2.0) -> SidecarNode:
    """Return a node without room where q1, q2, .. run from second 1 on, and are expected to end then."""
    full = node(1024 * len(ends_s), len(ends_s), grace_s=grace_s)
    full.handle(SessionUp(ATTEMPT, 0))
    for number, seconds in enumerate(ends_s, 1):
        full.handle(Granted((grant(f"q{number}", expected_s=seconds - 1),), 0))
        full.handle(arrived(f"q{number}", 0))
        full.handle(Answered(f"q{number}", Outcome.STARTED, "", 1))
    return full


def killed(seq: int, cid: str, at_s: float, reason: str) -> list[Command]:
    return [
        reports(seq, cid, EventKind.KILLED, at_s, reason=reason, cause="room", ran_s=at_s - 1),
        Kill(cid, ATTEMPT),
    ]


def test_who_is_about_to_end_is_waited_for_and_nothing_is_lost() -> None:
    full = busy(6.0, 20.0)
    assert full.handle(arrived("g", 5, q=False)) == []
    assert full.deadline_s() == 7
    ends = full.handle(Ended("q1", 6.2))
    assert ends[1:] == [Unwatch("q1"), Forward("g"), Watch("g", APP)]


def test_the_next_to_end_is_waited_for_once() -> None:
    full = busy(6.5, 6.0)
    full.handle(arrived("g1", 5, q=False))
    full.handle(arrived("g2", 5.1, q=False))
    assert {cid: full.state.containers[cid].awaited_by for cid in ("q1", "q2")} == {"q1": "g2", "q2": "g1"}
    assert Forward("g1") in full.handle(Ended("q2", 6))
    assert Forward("g2") in full.handle(Ended("q1", 6.4))


def test_who_does_not_end_in_time_is_killed() -> None:
    play(
        busy(6.0, 20.0),
        (arrived("g", 5, q=False), []),
        (Tick(6.9), []),
        (Tick(7), killed(5, "q1", 7, "makes room for g, and did not end in time")),
        (KillOver("q1", True, "", 7.2), [Unwatch("q1"), Forward("g"), Watch("g", APP)]),
    )


def test_the_others_are_killed_at_once() -> None:
    play(busy(20.0, 30.0), (arrived("g", 5, q=False), killed(5, "q2", 5, "makes room for g")))
    big = busy(6.0, 20.0, 30.0)
    assert big.handle(arrived("g", 5, q=False, resources=Resources(2048, 2))) == killed(7, "q3", 5, "makes room for g")
    assert big.state.containers["q1"].awaited_by == "g"
    assert Forward("g") not in big.handle(KillOver("q3", True, "", 5.2))
    assert Forward("g") in big.handle(Ended("q1", 6))


def test_nobody_waits_without_grace() -> None:
    play(busy(6.0, 20.0, grace_s=0.0), (arrived("g", 5, q=False), killed(5, "q2", 5, "makes room for g")))


def test_who_is_not_waited_for_any_more_runs_on() -> None:
    full = busy(6.0, 20.0)
    full.handle(arrived("g", 5, q=False))
    assert full.handle(Withdrawn("g", 5.5)) == []
    assert full.state.containers["q1"].awaited_by == ""
    assert full.handle(Tick(7)) == []


def test_the_room_of_who_ends_is_not_given_to_a_queueable() -> None:
    full = busy(6.0, 20.0)
    full.handle(Granted((grant("q9"),), 0))
    full.handle(arrived("q9", 4))
    full.handle(arrived("g", 5, q=False))
    assert [type(c).__name__ for c in full.handle(Ended("q1", 6))] == ["ReportEvent", "Unwatch", "Forward", "Watch"]
