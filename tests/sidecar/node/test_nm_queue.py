"""A NodeManager that queues containers instead of launching them."""

from __future__ import annotations

import pytest

from policies.model import Resources
from quicksilver.common.messages import EventKind
from sidecar.node.events import (
    Answered,
    Granted,
    Hold,
    Kill,
    KillOver,
    Localized,
    NodeManagerQueues,
    Outcome,
    Released,
    SessionUp,
    Tick,
    Unwatch,
)
from sidecar.node.nm_queue import QUEUES, QUIET_S
from sidecar.node.nm_reconcile import Listed, NmList, compare, read_queued
from sidecar.node.node import SidecarNode
from sidecar.node.phases import Phase
from sidecar.node.report_view import picture
from tests.playbook import play
from tests.sidecar.words import ATTEMPT, arrived, grant, node, reports


def two_running() -> SidecarNode:
    """Return a node of three places with a queueable and a guaranteed container, both answered at 1 s."""
    one = node(3072, 3)
    one.handle(SessionUp(ATTEMPT, 0))
    one.handle(Granted((grant("q"),), 0))
    one.handle(arrived("q", 0))
    one.handle(arrived("g", 0, q=False))
    for name in ("q", "g"):
        one.handle(Answered(name, Outcome.STARTED, "", 1))
    return one


def listed(asked_s: float, queued: int, state: str = "SCHEDULED", began_s: float = 0.0) -> NmList:
    return NmList((Listed(id="q", state=state), Listed(id="g", state=state)), asked_s, began_s, queued)


@pytest.mark.parametrize(
    ("answer", "pidfds"),
    [
        (listed(5, 0), ()),  # SCHEDULED because its launch is under way
        (listed(3.5, 1), ()),  # it was answered too lately
        (listed(5, 1, "LOCALIZING"), ()),
        (listed(5, 1), ("q", "g")),  # both have processes
    ],
)
def test_what_is_not_taken_for_a_queue(answer: NmList, pidfds: tuple[str, ...]) -> None:
    assert compare(answer, two_running().state.containers, (), pidfds, 5) == []


def test_queueables_in_the_nodemanager_s_queue_are_moved_and_none_is_held_until_it_is_quiet() -> None:
    one = two_running()
    assert compare(listed(5, 2), one.state.containers, (), (), 5) == [NodeManagerQueues(("q", "g"), 5)]
    killed = reports(4, "q", EventKind.KILLED, 5, reason=QUEUES, cause="queued", ran_s=4.0)
    play(
        one,
        (NodeManagerQueues(("q", "g"), 5), [killed, Kill("q", ATTEMPT)]),
        (NodeManagerQueues(("g",), 6), []),  # nothing is killed twice, guaranteed ones stay
        (KillOver("q", True, "", 7), [Unwatch("q"), Released(ATTEMPT)]),
        (Granted((grant("next"),), 8), []),
        (
            arrived("next", 8),
            [Hold("next"), reports(5, "next", EventKind.SHED, 8, reason=QUEUES, cause="drain"), Released(ATTEMPT)],
        ),
    )
    report = picture(one, 9)
    assert (report["draining"], report["drain_reason"]) == (True, QUEUES)
    assert one.deadline_s() == 6 + QUIET_S
    one.handle(Tick(6 + QUIET_S - 1))
    assert one.state.draining == QUEUES
    one.handle(Tick(6 + QUIET_S))
    assert one.state.draining == "" and one.deadline_s() is None


def test_waiting_ones_are_shed_to_go_elsewhere() -> None:
    one = two_running()
    one.handle(Granted((grant("w", memory_mb=3000),), 2))
    one.handle(arrived("w", 2, resources=Resources(3000, 1)))
    commands = one.handle(NodeManagerQueues(("g",), 5))
    assert commands[0] == reports(5, "w", EventKind.SHED, 5, reason=QUEUES, cause="drain", waited_s=3.0)
    assert {c.id: c.phase for c in one.state.containers.values()} == {"q": Phase.RUNNING, "g": Phase.RUNNING}


def test_the_stop_of_a_scheduled_container_waits_for_no_localization() -> None:
    one = two_running()
    one.endings.kill(one.state.containers["q"], "makes room", "room", 2)
    assert one.state.containers["q"].phase is Phase.KILLING
    (event,) = [e for e in compare(listed(3, 0), one.state.containers, (), (), 3) if isinstance(e, Localized)]
    assert event == Localized("q", 3)
    assert one.handle(event) == [] and one.state.containers["q"].localized
    assert compare(listed(4, 0), one.state.containers, (), (), 4) == [], "once"


def test_the_nodemanager_s_metrics() -> None:
    bean = {"name": "Hadoop:service=NodeManager,name=NodeManagerMetrics", "ContainersRunning": 4}
    assert read_queued({"beans": [bean | {"ContainersOpportunisticQueued": 2, "ContainersGuaranteedQueued": 1}]}) == 3
    assert read_queued({"beans": []}) == 0
    for other in (None, {}, {"beans": "none"}, {"beans": [1]}):
        with pytest.raises(ValueError, match="no list of beans"):
            read_queued(other)
