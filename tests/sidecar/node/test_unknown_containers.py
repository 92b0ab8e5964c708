"""Playbooks of starts of containers that the ResourceManager may not know: none reaches the NodeManager before."""

from __future__ import annotations

from quicksilver.common.messages import EventKind
from quicksilver.common.own_numbers import FIRST_NUMBER, may_be_ahead
from sidecar.node.container import may_be_unknown
from sidecar.node.events import (
    Dropped,
    Forced,
    Forward,
    Granted,
    Hold,
    Launch,
    NowKnown,
    Released,
    SessionUp,
    Settled,
    Tick,
    Watch,
)
from sidecar.node.journal_records import line_of
from sidecar.node.node import SidecarNode
from sidecar.node.report_view import containers, picture
from tests.playbook import play
from tests.sidecar.words import APP, ATTEMPT, arrived, grant, node, reports

OWN = f"container_e03_1_0001_01_{FIRST_NUMBER + 7}"
LAUNCH = b"launch"
LATE = "the proxy granted it itself and did not announce it: the ResourceManager may not know it"


def fenced(*others: str, **rules: float) -> SidecarNode:
    """Return a node with two places that has the announcement of a container which the ResourceManager may not know."""
    own = node(**rules)
    own.handle(SessionUp(ATTEMPT, 0))
    own.handle(Granted((grant(OWN, known=False), *(grant(name) for name in others)), 0))
    return own


def test_its_start_waits_until_the_resource_manager_knows_it() -> None:
    play(
        fenced(),
        (arrived(OWN, 1), [Hold(OWN), reports(1, OWN, EventKind.HELD, 1)]),
        (Tick(30), []),
        (NowKnown((OWN,), 31), [Launch(OWN, ATTEMPT, LAUNCH), Watch(OWN, APP)]),
    )


def test_a_start_that_comes_after_that_goes_at_once() -> None:
    play(
        fenced(),
        (NowKnown((OWN, "container_1_0001_01_000009"), 1), []),
        (
            arrived(OWN, 2),
            [Hold(OWN), reports(1, OWN, EventKind.HELD, 2), Launch(OWN, ATTEMPT, LAUNCH), Watch(OWN, APP)],
        ),
        (NowKnown((OWN,), 3), []),
    )


def test_others_overtake_it() -> None:
    play(
        fenced("a", vcores=1),
        (arrived(OWN, 1), [Hold(OWN), reports(1, OWN, EventKind.HELD, 1)]),
        (
            arrived("a", 2),
            [Hold("a"), reports(2, "a", EventKind.HELD, 2), Launch("a", ATTEMPT, LAUNCH), Watch("a", APP)],
        ),
        (NowKnown((OWN,), 3), []),  # the place is taken
    )


def test_a_second_announcement_says_that_it_is_known() -> None:
    play(
        fenced(),
        (arrived(OWN, 1), [Hold(OWN), reports(1, OWN, EventKind.HELD, 1)]),
        (Granted((grant(OWN),), 2), [Launch(OWN, ATTEMPT, LAUNCH), Watch(OWN, APP)]),
    )


def test_a_call_that_only_the_nodemanager_can_answer_waits_too() -> None:
    full = fenced("a", "b")
    for name in ("a", "b"):
        full.handle(arrived(name, 0))
    play(
        full,
        (arrived(OWN, 1), [Hold(OWN), reports(3, OWN, EventKind.HELD, 1)]),
        (Forced(OWN, 2), []),
        (NowKnown((OWN,), 3), [Launch(OWN, ATTEMPT, LAUNCH), Watch(OWN, APP)]),
    )


def test_it_is_given_up_like_any_other() -> None:
    play(
        fenced(),
        (arrived(OWN, 1), [Hold(OWN), reports(1, OWN, EventKind.HELD, 1)]),
        (
            Dropped((OWN,), "nobody knows it", 2),
            [
                reports(2, OWN, EventKind.STOPPED, 2, reason="nobody knows it", waited_s=1),
                Settled(OWN),
                Released(ATTEMPT),
            ],
        ),
        (NowKnown((OWN,), 3), []),
    )
    held = fenced()
    held.handle(arrived(OWN, 1))
    why = "hold limit reached after 101.0 s"
    assert reports(2, OWN, EventKind.SHED, 102, reason=why, cause="hold", waited_s=101) in held.handle(Tick(102))


def test_without_an_announcement_it_never_passes() -> None:
    own = node(announce_wait_s=1.0)
    own.handle(SessionUp(ATTEMPT, 0))
    play(
        own,
        (arrived(OWN, 1), []),
        (
            Tick(2),
            [Hold(OWN), reports(1, OWN, EventKind.SHED, 2, reason=LATE, cause="late", waited_s=1), Released(ATTEMPT)],
        ),
        (arrived(OWN, 3), [Hold(OWN)]),
    )


def test_what_the_resource_manager_granted_passes_as_before() -> None:
    other = f"container_e03_1_0001_01_{FIRST_NUMBER + 8}"
    for container_id in (other, "container_1_0001_01_000009"):
        own = node(announce_wait_s=1.0)
        play(own, (arrived(container_id, 1), []), (Tick(2), [Forward(container_id), Watch(container_id, APP)]))
    assert [may_be_unknown(name) for name in (OWN, other, "q")] == [True, False, False]
    assert [may_be_ahead(n) for n in (1, FIRST_NUMBER + 1, (1 << 31) - 1, (1 << 31) + 1)] == [False, True, True, False]


def test_journal_report_and_reason_say_it() -> None:
    own = fenced()
    assert '"known":false' in line_of(own.state, OWN)
    own.handle(arrived(OWN, 1))
    assert picture(own, 2)["fences"] is True
    assert containers(own, 2)[0].why == "waits until the ResourceManager knows it; shed in 99 s"
    assert '"known":false' in line_of(own.state, OWN)
    own.handle(NowKnown((OWN,), 3))
    assert own.state.containers[OWN].grant == grant(OWN)
