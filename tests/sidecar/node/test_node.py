"""Playbooks of the node machine: one per transition."""

from __future__ import annotations

import dataclasses

import pytest

from policies.config.policy_set import Policies
from policies.model import Resources
from quicksilver.common.messages import ContainerState, EventKind, Shed, Targets
from sidecar.node.container import Rules
from sidecar.node.events import (
    Adopted,
    Answered,
    Arrived,
    Drain,
    Dropped,
    Ended,
    Forced,
    Forward,
    Granted,
    Hold,
    Kill,
    KillOver,
    Launch,
    Outcome,
    Physical,
    Released,
    SessionLost,
    SessionUp,
    Settled,
    StopAsked,
    Targeted,
    Tick,
    Unwatch,
    Warn,
    Watch,
    Withdrawn,
)
from sidecar.node.node import SidecarNode
from sidecar.node.node_policies import NodePolicies
from sidecar.node.report_view import containers
from sidecar.node.wait_reason import obstacle
from tests.playbook import play
from tests.sidecar.words import APP, ATTEMPT, arrived, grant, node, reports, start

GOOD = (Outcome.STARTED, "")
LAUNCH = b"launch"


def busy(count: int = 2, **rules: int | float | bool) -> SidecarNode:
    """Return a node of two places on which q1 .. q`count` run since second 1, and q8, q9 are announced."""
    full = node(**rules)
    names = [f"q{number}" for number in range(1, count + 1)]
    full.handle(SessionUp(ATTEMPT, 0))
    full.handle(Granted(tuple(grant(name) for name in (*names, "q8", "q9")), 0))
    for name in names:
        full.handle(arrived(name, 0))
        full.handle(Answered(name, *GOOD, 1))
    return full


def test_queueable_starts_when_there_is_room_and_ends() -> None:
    play(
        node(),
        (SessionUp(ATTEMPT, 0), []),
        (Granted((grant("a"),), 0), []),
        (
            arrived("a", 1),
            [Hold("a"), reports(1, "a", EventKind.HELD, 1), Launch("a", ATTEMPT, LAUNCH), Watch("a", APP)],
        ),
        (Answered("a", *GOOD, 1.5), [reports(2, "a", EventKind.STARTED, 1.5), Settled("a")]),
        (Ended("a", 4.5), [reports(3, "a", EventKind.ENDED, 4.5, ran_s=3), Unwatch("a"), Released(ATTEMPT)]),
    )


def test_waits_until_a_place_is_free() -> None:
    play(
        busy(),
        (arrived("q9", 2), [Hold("q9"), reports(5, "q9", EventKind.HELD, 2)]),
        (
            Ended("q1", 6),
            [
                reports(6, "q1", EventKind.ENDED, 6, ran_s=5),
                Unwatch("q1"),
                Launch("q9", ATTEMPT, LAUNCH),
                Watch("q9", APP),
            ],
        ),
        (Answered("q9", *GOOD, 7), [reports(7, "q9", EventKind.STARTED, 7, waited_s=4), Settled("q9")]),
    )


def test_guaranteed_passes_at_once_when_there_is_room() -> None:
    play(
        node(),
        (arrived("g", 1, q=False), [Forward("g"), Watch("g", APP)]),
        (Answered("g", *GOOD, 2), [reports(1, "g", EventKind.STARTED, 2)]),
        (Ended("g", 3), [reports(2, "g", EventKind.ENDED, 3, ran_s=1), Unwatch("g")]),
    )


def test_guaranteed_waits_until_the_newest_queueable_is_gone() -> None:
    reason = "makes room for g"
    play(
        busy(),
        (
            arrived("g", 5, q=False),
            [reports(5, "q2", EventKind.KILLED, 5, reason=reason, cause="room", ran_s=4), Kill("q2", ATTEMPT)],
        ),
        (Ended("q2", 5.1), []),  # its process is gone, the NodeManager has not said so
        (KillOver("q2", True, "", 5.2), [Unwatch("q2"), Forward("g"), Watch("g", APP)]),
    )


def test_two_guaranteed_kill_two_and_go_in_order() -> None:
    play(
        busy(),
        (
            arrived("g1", 5, q=False),
            [
                reports(5, "q2", EventKind.KILLED, 5, reason="makes room for g1", cause="room", ran_s=4),
                Kill("q2", ATTEMPT),
            ],
        ),
        (
            arrived("g2", 5, q=False),
            [
                reports(6, "q1", EventKind.KILLED, 5, reason="makes room for g2", cause="room", ran_s=4),
                Kill("q1", ATTEMPT),
            ],
        ),
        (KillOver("q1", True, "", 6), [Unwatch("q1"), Forward("g1"), Watch("g1", APP)]),
        (KillOver("q2", True, "", 7), [Unwatch("q2"), Released(ATTEMPT), Forward("g2"), Watch("g2", APP)]),
    )


def test_room_that_is_not_made_in_time_delays_no_guaranteed_for_ever() -> None:
    late = busy(kill_wait_s=10)
    late.handle(arrived("g", 5, q=False))
    assert late.deadline_s() == 15
    play(
        late,
        (Tick(14.9), []),
        (
            Tick(15),
            [Warn("g", "no room within 10.0 s: forwarded regardless"), Forward("g"), Watch("g", APP)],
        ),
        (KillOver("q2", True, "", 20), [Unwatch("q2")]),
    )


def test_a_kill_that_fails_lets_the_guaranteed_through_and_still_counts_the_victim() -> None:
    failed = busy()
    failed.handle(arrived("g", 5, q=False))
    commands = failed.handle(KillOver("q2", False, "no session", 6))
    assert Forward("g") in commands
    assert failed.state.used() == Resources(3072, 3)
    assert failed.handle(Ended("q2", 9)) == [Unwatch("q2")]
    assert failed.state.used() == Resources(2048, 2)


def test_guaranteed_passes_when_killing_cannot_help() -> None:
    play(
        node(),
        (arrived("g1", 1, q=False), [Forward("g1"), Watch("g1", APP)]),
        (arrived("g2", 1, q=False), [Forward("g2"), Watch("g2", APP)]),
        (
            arrived("g3", 1, q=False),
            [
                Warn("g3", "no queueable container can make room for it (1024 MB, 1 vcores short): passed on"),
                Forward("g3"),
                Watch("g3", APP),
            ],
        ),
    )


def test_without_vcores_only_memory_counts() -> None:
    roomy = node(4096, 1, count_vcores=False)
    for name in ("g1", "g2", "g3"):
        assert Forward(name) in roomy.handle(arrived(name, 1, q=False))
    assert obstacle(roomy.room, Resources(1024, 4), 1) == ""
    assert obstacle(roomy.room, Resources(2048, 1), 1) == "waits for memory: 2048 MB wanted, 1024 MB free"


def test_kill_while_starting_waits_for_the_answer() -> None:
    play(
        busy(1),
        (
            arrived("q8", 4),
            [Hold("q8"), reports(3, "q8", EventKind.HELD, 4), Launch("q8", ATTEMPT, LAUNCH), Watch("q8", APP)],
        ),
        (arrived("g", 5, q=False), []),  # q8 is the newest, but the NodeManager does not know it yet
        (
            Answered("q8", *GOOD, 6),
            [
                reports(4, "q8", EventKind.STARTED, 6),
                Settled("q8"),
                reports(5, "q8", EventKind.KILLED, 6, reason="makes room for g", cause="room", ran_s=0),
                Kill("q8", ATTEMPT),
            ],
        ),
        (KillOver("q8", True, "", 7), [Unwatch("q8"), Forward("g"), Watch("g", APP)]),
    )


def test_a_victim_whose_start_fails_makes_room_too() -> None:
    failing = busy(1)
    failing.handle(arrived("q8", 4))
    failing.handle(arrived("g", 5, q=False))
    commands = failing.handle(Answered("q8", Outcome.REFUSED, "no such aux service", 6))
    assert commands == [
        reports(4, "q8", EventKind.FAILED, 6, reason="no such aux service"),
        Unwatch("q8"),
        Settled("q8"),
        Forward("g"),
        Watch("g", APP),
    ]


def test_drop_while_waiting_and_while_starting() -> None:
    play(
        busy(),
        (arrived("q8", 2), [Hold("q8"), reports(5, "q8", EventKind.HELD, 2)]),
        (
            Dropped(("q8", "unknown"), "released", 3),
            [reports(6, "q8", EventKind.STOPPED, 3, reason="released", waited_s=1), Settled("q8")],
        ),
    )
    play(
        busy(1),
        (
            arrived("q8", 2),
            [Hold("q8"), reports(3, "q8", EventKind.HELD, 2), Launch("q8", ATTEMPT, LAUNCH), Watch("q8", APP)],
        ),
        (Dropped(("q8",), "released", 3), []),
        (
            Answered("q8", *GOOD, 4),
            [
                reports(4, "q8", EventKind.STARTED, 4),
                Settled("q8"),
                reports(5, "q8", EventKind.KILLED, 4, reason="released", cause="proxy", ran_s=0),
                Kill("q8", ATTEMPT),
            ],
        ),
    )


def test_a_dropped_announcement_is_not_held() -> None:
    dropped = busy(1)
    dropped.handle(Dropped(("q8",), "released", 2))
    told_off = reports(3, "q8", EventKind.STOPPED, 3, reason="released")
    assert dropped.handle(arrived("q8", 3)) == [Hold("q8"), told_off]
    assert "q8" not in dropped.state.containers
    assert dropped.handle(Tick(4)) == []


def test_unannounced_opportunistic_waits_for_its_grant_then_passes() -> None:
    play(
        node(announce_wait_s=1),
        (SessionUp(ATTEMPT, 0), []),
        (arrived("o1", 0), []),
        (arrived("o2", 0.5), []),
        (
            Granted((grant("o2"),), 0.9),
            [
                Hold("o2"),
                reports(1, "o2", EventKind.HELD, 0.9, waited_s=0.4),
                Launch("o2", ATTEMPT, LAUNCH),
                Watch("o2", APP),
            ],
        ),
        (Tick(1), [Forward("o1"), Watch("o1", APP)]),
    )


def test_a_grant_is_believed_only_for_its_own_application() -> None:
    forged = node()
    forged.handle(Granted((grant("a"),), 0))
    commands = forged.handle(arrived("a", 1, q=True))
    assert Hold("a") in commands
    forged.handle(Granted((grant("b"),), 0))
    stranger = dataclasses.replace(start("b"), attempt_id="appattempt_1_0007_000001")
    commands = forged.handle(Arrived(stranger, 2))
    assert commands == [
        Warn("b", "its start came on a session of appattempt_1_0007_000001: not held"),
        Forward("b"),
        Watch("b", APP),
    ]


def test_hold_limit_and_token_expiry_shed() -> None:
    limited = busy(expiry_margin_s=30)
    limited.handle(Granted((grant("q8", max_hold_s=50), grant("q9", max_hold_s=1000)), 1))
    limited.handle(arrived("q8", 10))
    limited.handle(arrived("q9", 10, expires_s=100.0))
    assert limited.deadline_s() == 60
    play(
        limited,
        (
            Tick(60),
            [
                reports(
                    7, "q8", EventKind.SHED, 60, reason="hold limit reached after 50.0 s", cause="hold", waited_s=50
                ),
                Settled("q8"),
            ],
        ),
        (
            Tick(70),
            [
                reports(
                    8, "q9", EventKind.SHED, 70, reason="hold limit reached after 60.0 s", cause="hold", waited_s=60
                ),
                Settled("q9"),
            ],
        ),
    )


def test_full_queue_sheds_at_once_and_never_refuses_the_master() -> None:
    for rules, words in (
        ({"queue_max_length": 0}, "the queue is full: 0 containers wait (limit 0)"),
        ({"queue_max_bytes": 5}, "the queue is full: 0 bytes wait, 6 more exceed the limit of 5"),
    ):
        full = node(**rules)
        full.handle(Granted((grant("a"),), 0))
        assert full.handle(arrived("a", 1)) == [
            Hold("a"),
            reports(1, "a", EventKind.SHED, 1, reason=words, cause="full"),
            Released(ATTEMPT),
        ]


def test_what_never_fits_is_shed() -> None:
    small = node()
    small.handle(Granted((grant("a", memory_mb=4096),), 0))
    commands = small.handle(arrived("a", 1, resources=Resources(4096, 1)))
    assert commands[1] == reports(
        1,
        "a",
        EventKind.SHED,
        1,
        reason="it never fits: 4096 MB, 1 vcores wanted, the node has 2048 MB, 2 vcores",
        cause="full",
    )


def test_draining_sheds_what_waits_and_what_comes() -> None:
    play(
        busy(),
        (arrived("q8", 2), [Hold("q8"), reports(5, "q8", EventKind.HELD, 2)]),
        (
            Drain(True, "node is decommissioned", 3),
            [
                reports(6, "q8", EventKind.SHED, 3, reason="node is decommissioned", cause="drain", waited_s=1),
                Settled("q8"),
            ],
        ),
        (
            arrived("q9", 4),
            [Hold("q9"), reports(7, "q9", EventKind.SHED, 4, reason="node is decommissioned", cause="drain")],
        ),
        (Drain(False, "", 5), []),
    )


def test_physical_memory_holds_back_what_allocation_would_allow() -> None:
    play(
        node(reserve_mb=500, settle_s=2.0),
        (SessionUp(ATTEMPT, 0), []),
        (Physical(1400, 0), []),
        (Granted((grant("a"), grant("b")), 0), []),
        (arrived("a", 0), [Hold("a"), reports(1, "a", EventKind.HELD, 0)]),
        (Physical(1600, 1), [Launch("a", ATTEMPT, LAUNCH), Watch("a", APP)]),
        (Answered("a", *GOOD, 1), [reports(2, "a", EventKind.STARTED, 1, waited_s=1), Settled("a")]),
        (Physical(1600, 2), []),
        (arrived("b", 2), [Hold("b"), reports(3, "b", EventKind.HELD, 2)]),  # a does not show in the figure yet
        (Physical(1600, 3), [Launch("b", ATTEMPT, LAUNCH), Watch("b", APP)]),
    )


def test_master_stops_and_forces_waiting_containers() -> None:
    play(
        busy(),
        (arrived("q8", 2), [Hold("q8"), reports(5, "q8", EventKind.HELD, 2)]),
        (arrived("q9", 2), [Hold("q9"), reports(6, "q9", EventKind.HELD, 2)]),
        (
            StopAsked("q8", 3),
            [
                reports(7, "q8", EventKind.STOPPED, 3, reason="stopped by the application master", waited_s=1),
                Settled("q8"),
            ],
        ),
        (Forced("q9", 4), [Launch("q9", ATTEMPT, LAUNCH), Watch("q9", APP)]),
        (StopAsked("q1", 5), []),
        (Forced("q1", 5), []),
    )


def test_a_repeated_start_is_answered_as_the_first() -> None:
    again = busy()
    again.handle(arrived("q8", 2))
    assert again.handle(arrived("q8", 3)) == [Hold("q8")]
    assert again.handle(arrived("q1", 3)) == [Forward("q1")]  # the NodeManager says that it runs
    assert again.handle(Answered("q1", *GOOD, 4)) == []
    assert again.state.used() == Resources(2048, 2)


def test_master_that_closes_before_its_start_was_decided() -> None:
    gone = busy()
    gone.handle(arrived("g", 5, q=False))
    gone.handle(arrived("o", 5))
    assert gone.handle(Withdrawn("g", 5.1)) == []
    assert gone.handle(Withdrawn("o", 5.1)) == []
    assert gone.handle(Tick(30)) == []
    assert gone.handle(KillOver("q2", True, "", 31)) == [Unwatch("q2")]


def test_session_lost_loses_what_waits_and_not_what_runs() -> None:
    play(
        busy(),
        (arrived("q8", 2), [Hold("q8"), reports(5, "q8", EventKind.HELD, 2)]),
        (
            SessionLost(ATTEMPT, 3),
            [
                reports(6, "q8", EventKind.LOST, 3, reason="the session with the NodeManager was lost", waited_s=1),
                Settled("q8"),
            ],
        ),
        (Ended("q1", 9), [reports(7, "q1", EventKind.ENDED, 9, ran_s=8), Unwatch("q1")]),
    )


def test_an_end_before_the_answer_counts_when_the_answer_comes() -> None:
    play(
        node(),
        (arrived("g", 1, q=False), [Forward("g"), Watch("g", APP)]),
        (Ended("g", 1.5), []),
        (
            Answered("g", *GOOD, 2),
            [reports(1, "g", EventKind.STARTED, 2), reports(2, "g", EventKind.ENDED, 2, ran_s=0), Unwatch("g")],
        ),
    )


def test_refused_and_unanswered_guaranteed_starts() -> None:
    play(
        node(),
        (arrived("g", 1, q=False), [Forward("g"), Watch("g", APP)]),
        (Answered("g", Outcome.REFUSED, "no", 2), [Unwatch("g")]),
        (arrived("h", 3, q=False), [Forward("h"), Watch("h", APP)]),
        (
            Answered("h", Outcome.LOST, "lost", 4),
            [Warn("h", "lost: counted as started until the NodeManager says otherwise")],
        ),
        (Ended("h", 8), [reports(1, "h", EventKind.ENDED, 8, ran_s=4), Unwatch("h")]),
    )


def test_nothing_is_killed_for_what_a_forger_claims() -> None:
    large = arrived("g1", 3, q=False, resources=Resources(2048, 1))
    assert Forward("g1") not in busy().handle(large)  # two queueable ones are killed first
    machine = busy()
    machine.handle(arrived("g0", 1, q=False, resources=Resources(0, 0)))
    machine.handle(Answered("g0", Outcome.REFUSED, "Invalid container token used for starting container", 2))
    assert machine.handle(large) == [Forward("g1"), Watch("g1", APP)]


def test_adopted_containers_count() -> None:
    before = node()
    assert before.handle(Adopted("x", APP, Resources(512, 1), False, 1)) == [Watch("x", APP)]
    assert before.handle(Adopted("x", APP, Resources(512, 1), False, 2)) == []
    assert before.state.used() == Resources(512, 1)


def test_announcements_are_bounded_and_forgotten() -> None:
    many = node(announced_max=2, announce_keep_s=10)
    commands = many.handle(Granted((grant("a"), grant("b"), grant("c")), 0))
    assert commands == [Warn("a", "more than 2 announced: the oldest is forgotten")]
    many.handle(Tick(10))
    assert not many.state.announced


@pytest.mark.parametrize(("phase", "expected"), [("waiting", ContainerState.WAITING), ("running", None)])
def test_state_for_the_gate(phase: str, expected: ContainerState | None) -> None:
    shown = busy()
    shown.handle(arrived("q8", 2))
    assert shown.state.held_state("q8" if phase == "waiting" else "q1") is expected
    assert [name for name, _ in shown.state.held_by(ATTEMPT)] == ["q8"]


def test_what_jobs_have_left_is_renewed_while_they_wait() -> None:
    """Under srpt: job b has less left than a by the time that a place is free, though its grant said more."""
    srpt = Policies.load({"order": {"policy": "srpt"}}).node
    full = SidecarNode(
        Rules(Resources(1024, 1), reserve_mb=0, settle_s=0.0),
        NodePolicies(srpt.order_key, lambda *_: [], srpt.bypass_limit_s),
    )
    other = "application_1_0002", "appattempt_1_0002_000001"
    full.handle(SessionUp(ATTEMPT, 0))
    full.handle(SessionUp(other[1], 0))
    of_b = grant("b", app_id=other[0], attempt_id=other[1], job_remaining_s=900)
    full.handle(Granted((grant("r"), grant("a", job_remaining_s=500), of_b), 0))
    full.handle(arrived("r", 0))
    full.handle(Answered("r", *GOOD, 0))
    full.handle(arrived("a", 1))
    full.handle(Arrived(dataclasses.replace(start("b"), app_id=other[0], attempt_id=other[1]), 2))
    assert [c.container_id for c in containers(full, 3)] == ["r", "a", "b"]
    full.handle(Targeted(Targets(job_remaining_s={APP: 500, other[0]: 100}), (), (), 3))
    assert [c.container_id for c in containers(full, 3)] == ["r", "b", "a"]
    launched = full.handle(Ended("r", 4))
    assert Launch("b", other[1], LAUNCH) in launched
    (_, waiting) = containers(full, 5)
    assert (waiting.container_id, waiting.bypassed_s) == ("a", 10), "b came later"


def test_what_is_over_a_quota_is_shed_as_the_proxy_says_and_what_runs_is_not() -> None:
    play(
        busy(),
        (arrived("q9", 2), [Hold("q9"), reports(5, "q9", EventKind.HELD, 2)]),
        (
            Targeted(
                None,
                (
                    Shed(container_id="q1", cause="quota", reason="absolute: 3"),
                    Shed(container_id="q9", cause="quota", reason="absolute: 2"),
                ),
                (),
                3,
            ),
            [reports(6, "q9", EventKind.SHED, 3, reason="absolute: 2", cause="quota", waited_s=1), Settled("q9")],
        ),
    )
