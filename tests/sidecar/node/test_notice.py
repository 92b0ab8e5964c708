"""Containers that will be killed are reported for a while before, so that their application masters hear of it."""

from __future__ import annotations

from quicksilver.common.messages import EventKind
from sidecar.node.events import (
    Answered,
    Command,
    Drain,
    Ended,
    Forward,
    Granted,
    Kill,
    KillOver,
    Outcome,
    ReportSoon,
    SessionUp,
    Tick,
    Unwatch,
    Watch,
    Withdrawn,
)
from sidecar.node.node import SidecarNode
from sidecar.node.report_view import picture
from tests.playbook import play
from tests.sidecar.words import APP, ATTEMPT, arrived, grant, node, reports


def full(*types: str, notice_s: float = 15.0, grace_s: float = 0.0) -> SidecarNode:
    """Return a node without room where q1, q2, .. of applications of these types run from second 1 on."""
    world = node(1024 * len(types), len(types), grace_s=grace_s, notice_s=notice_s)
    world.handle(SessionUp(ATTEMPT, 0))
    for number, app_type in enumerate(types, 1):
        world.handle(Granted((grant(f"q{number}", expected_s=5.0 * number, app_type=app_type),), 0))
        world.handle(arrived(f"q{number}", 0))
        world.handle(Answered(f"q{number}", Outcome.STARTED, "", 1))
    return world


def killed(seq: int, cid: str, at_s: float, reason: str, cause: str = "room") -> list[Command]:
    return [
        reports(seq, cid, EventKind.KILLED, at_s, reason=reason, cause=cause, ran_s=at_s - 1),
        Kill(cid, ATTEMPT),
    ]


def doomed(world: SidecarNode, now_s: float) -> dict[str, float]:
    """Return what the report says of containers that will be killed."""
    return {c.container_id: c.kill_in_s for c in picture(world, now_s)["containers"] if c.kill_in_s is not None}


def test_a_guaranteed_start_waits_until_the_notice_is_over() -> None:
    world = full("MAPREDUCE", "MAPREDUCE")
    assert world.handle(arrived("g", 5, q=False)) == [ReportSoon()]
    assert doomed(world, 9) == {"q2": 11}
    assert world.deadline_s() == 20
    play(
        world,
        (Tick(19.9), []),
        (Tick(20), killed(5, "q2", 20, "makes room for g, and did not end in time")),
        (KillOver("q2", True, "", 20.2), [Unwatch("q2"), Forward("g"), Watch("g", APP)]),
    )


def test_a_container_that_ends_within_the_notice_makes_room_at_once() -> None:
    world = full("MAPREDUCE", "MAPREDUCE")
    world.handle(arrived("g", 5, q=False))
    assert Forward("g") in world.handle(Ended("q2", 7))
    assert doomed(world, 7) == {}


def test_another_one_that_ends_within_the_notice_spares_the_victim() -> None:
    world = full("MAPREDUCE", "MAPREDUCE")
    world.handle(arrived("g", 5, q=False))
    assert Forward("g") in world.handle(Ended("q1", 7))
    assert doomed(world, 7) == {} and world.state.containers["q2"].awaited_by == ""
    assert world.handle(Tick(20)) == []


def test_a_start_that_is_withdrawn_takes_its_notice_back() -> None:
    world = full("MAPREDUCE", "MAPREDUCE")
    world.handle(arrived("g", 5, q=False))
    assert world.handle(Withdrawn("g", 6)) == []
    assert doomed(world, 6) == {} and world.handle(Tick(20)) == []


def test_types_without_notice_are_killed_at_once() -> None:
    play(full("MAPREDUCE", "SPARK"), (arrived("g", 5, q=False), killed(5, "q2", 5, "makes room for g")))


def test_a_container_about_to_end_gets_grace_and_no_notice() -> None:
    world = full("MAPREDUCE", "MAPREDUCE", grace_s=3.0)
    assert world.handle(arrived("g", 4, q=False)) == []
    assert world.state.containers["q1"].awaited_by == "g" and doomed(world, 4) == {}


def drained(world: SidecarNode, now_s: float, timeout_s: float | None) -> list[Command]:
    return world.handle(Drain(True, "new disk", now_s, timeout_s=timeout_s))


def test_a_drain_with_a_time_limit_kills_what_still_runs_at_its_end() -> None:
    world = full("SPARK", "SPARK")
    assert drained(world, 10, 60) == [ReportSoon()]
    assert picture(world, 30)["empty_in_s"] == 40 and doomed(world, 30) == {}
    assert world.deadline_s() == 70
    world.handle(Ended("q1", 40))
    play(
        world,
        (Tick(69), []),
        (Tick(70), killed(6, "q2", 70, "new disk", "drain")),
        (Tick(71), []),
    )
    assert picture(world, 80)["empty_in_s"] == 0 and world.emptying.deadline_s() is None


def test_masters_of_a_drained_node_get_the_notice_too() -> None:
    world = full("MAPREDUCE", "SPARK")
    drained(world, 10, 60)
    assert world.deadline_s() == 55
    assert world.handle(Tick(55)) == [ReportSoon()]
    assert doomed(world, 60) == {"q1": 10}
    assert world.handle(Tick(56)) == []


def test_the_end_of_a_drain_takes_its_time_limit_and_notices_back() -> None:
    world = full("MAPREDUCE", "SPARK")
    drained(world, 10, 12)
    assert doomed(world, 10) == {"q1": 12}
    assert world.handle(Drain(False, "", 11)) == [ReportSoon()]
    assert picture(world, 11)["empty_in_s"] is None and doomed(world, 11) == {}
    assert world.handle(Tick(30)) == []


def test_a_later_order_changes_the_time_limit() -> None:
    world = full("SPARK")
    drained(world, 10, 60)
    drained(world, 20, 600)
    assert world.deadline_s() == 620
    assert drained(world, 30, None) == [ReportSoon()]
    assert world.deadline_s() is None and world.state.draining == "new disk"


def test_other_parties_have_no_time_limit() -> None:
    world = full("SPARK")
    drained(world, 10, 60)
    world.handle(Drain(True, "YARN: its state is DECOMMISSIONING", 20, "yarn"))
    world.handle(Drain(False, "", 21, "yarn"))
    assert world.deadline_s() == 70
