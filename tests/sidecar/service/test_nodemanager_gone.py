"""The NodeManager dies, stands still, comes back; nodes are drained; an application's next attempt begins."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Resources
from quicksilver.common.messages import EventKind, Report
from sidecar.gate.start_messages import container_proto
from sidecar.node import recovery
from sidecar.node.container import is_earlier
from sidecar.node.events import (
    Answered,
    Drain,
    Dropped,
    Dying,
    Ended,
    Forward,
    Granted,
    Hold,
    Kill,
    KillOver,
    Launch,
    NodeManagerState,
    Outcome,
    Released,
    SessionLost,
    SessionUp,
    Settled,
    Tick,
    Unfinished,
    Unlaunched,
    Unwatch,
    Watch,
)
from sidecar.node.nm_reconcile import Listed, NmList, compare
from sidecar.node.node import SidecarNode
from sidecar.node.recovery import UNFINISHED, UNLAUNCHED
from sidecar.node.report_view import fill_report
from sidecar.node.wait_reason import obstacle
from tests.playbook import play
from tests.sidecar.fakes import FakeAm, cid, start_request
from tests.sidecar.node.test_node import LAUNCH, busy
from tests.sidecar.service.test_server import until, world
from tests.sidecar.words import APP, ATTEMPT, arrived, grant, node, reports

NEXT = "appattempt_1_0001_000002"
DOWN = "nobody answers at 127.0.0.1:8041: connection refused"


def test_nothing_is_launched_while_the_nodemanager_stands_still() -> None:
    one = node()
    one.handle(SessionUp(ATTEMPT, 0))
    one.handle(Granted((grant("a"),), 0))
    play(
        one,
        (NodeManagerState(DOWN, 1), []),
        (arrived("a", 2), [Hold("a"), reports(1, "a", EventKind.HELD, 2)]),
    )
    assert obstacle(one.room, Resources(1, 1), 2) == f"waits for the NodeManager: {DOWN}"
    report = fill_report(Report(node_id="n", boot="b", seq=1, sidecar_url="", memory_mb=1, vcores=1), one, 3)
    assert report.nm_down == DOWN
    play(
        one,
        (NodeManagerState("", 4), [Launch("a", ATTEMPT, LAUNCH), Watch("a", APP)]),
        (
            Answered("a", Outcome.LOST, "the connection to the NodeManager was lost", 5),
            [
                reports(2, "a", EventKind.LOST, 5, reason="the connection to the NodeManager was lost", waited_s=2),
                Unwatch("a"),
                Settled("a"),
                Released(ATTEMPT),
            ],
        ),
    )
    assert one.state.used() == Resources()


def test_a_kill_that_found_no_session_is_tried_again_with_the_next_one() -> None:
    full = busy()
    full.handle(arrived("g", 5, q=False))
    full.handle(SessionLost(ATTEMPT, 5.1))
    full.handle(KillOver("q2", False, "there is no session with the NodeManager", 5.2))
    play(
        full,
        (SessionUp(ATTEMPT, 9), [Kill("q2", ATTEMPT)]),
        (SessionUp(ATTEMPT, 9.1), []),  # one kill at a time
        (KillOver("q2", True, "", 9.5), [Unwatch("q2")]),
    )
    assert full.state.used() == Resources(2048, 2)


def test_what_runs_goes_on_without_its_session_and_is_counted_until_it_ends() -> None:
    full = busy()
    full.handle(SessionLost(ATTEMPT, 5))
    full.handle(NodeManagerState(DOWN, 5))
    assert full.state.used() == Resources(2048, 2)
    assert full.handle(Ended("q1", 7))[0] == reports(5, "q1", EventKind.ENDED, 7, ran_s=6)
    full.handle(NodeManagerState("", 8))
    assert full.state.used() == Resources(1024, 1)


def launching() -> SidecarNode:
    """An application master, a guaranteed one, a queueable one and Hadoop's own, all sent and answered before 2."""
    one = node(memory_mb=4096, vcores=4, announce_wait_s=0)
    one.handle(SessionUp(ATTEMPT, 0))
    one.handle(Granted((grant("q"),), 0))
    for event in (
        arrived("am", 1, q=False, am=True),
        arrived("g", 1, q=False),
        arrived("q", 1),
        arrived("o", 1),
        Tick(1),
    ):
        one.handle(event)
    for container_id in ("am", "g", "q", "o"):
        one.handle(Answered(container_id, Outcome.STARTED, "", 1.5))
    return one


def listed(state: str, began_s: float) -> NmList:
    return NmList(tuple(Listed(id=i, state=state) for i in ("am", "g", "q", "o")), 20.0, began_s)


def test_what_a_restarted_nodemanager_lists_and_does_not_launch_is_lost() -> None:
    one = launching()
    seen = compare(listed("SCHEDULED", 10.0), one.state.containers, (), (), 20)
    assert seen == [Unlaunched(each, 20) for each in ("am", "g", "q", "o")]
    for event in seen:
        assert one.handle(event) == []  # it may be about to be launched
    assert one.handle(Unlaunched("g", 29.9)) == []
    lost = {"reason": UNLAUNCHED, "waited_s": 0}
    play(
        one,
        (Unlaunched("g", 30), [reports(6, "g", EventKind.LOST, 30, **lost), Unwatch("g"), Watch("g", APP)]),
        (
            Unlaunched("q", 30),
            [reports(7, "q", EventKind.LOST, 30, **lost), Unwatch("q"), Released(ATTEMPT), Watch("q", APP)],
        ),
        (Unlaunched("o", 60), []),  # it may wait for its turn in the NodeManager's own queue
        (Unlaunched("am", 60), []),  # nobody could release it
    )
    assert compare(listed("KILLING", 10.0), one.state.containers, (), (), 61) == [
        Dying(i, 61) for i in ("am", "o", "g", "q")
    ]
    assert compare(listed("SCHEDULED", 10.0), one.state.containers, (), ("am", "o"), 61) == []  # told once
    assert one.state.used() == Resources(4096, 4)  # as the NodeManager counts
    assert not any(one.endings.killable(entry) for entry in one.state.using())
    one.handle(Ended("q", 62))
    assert one.handle(arrived("q", 63)) == [Hold("q")]  # its end was told
    assert one.state.used() == Resources(3072, 3)


def test_ends_that_a_restarted_nodemanager_does_not_see_are_lost_one_by_one() -> None:
    one, gone = node(), (cid(2), cid(3))
    rows = tuple(Listed(id=i, state="SCHEDULED") for i in gone)
    (seen,) = compare(NmList(rows, 20.0, 10.0), {}, gone, (), 20)
    assert isinstance(seen, Unfinished)
    lost = {"reason": UNFINISHED, "waited_s": 0}
    play(
        one,
        (seen, []),  # it may be about to see them
        (replace(seen, now_s=29.9), []),
        (replace(seen, now_s=30), [reports(1, cid(2), EventKind.LOST, 30, **lost)]),
        (replace(seen, now_s=39.9), []),  # the first one gives room to the others
        (replace(seen, now_s=40), [reports(2, cid(3), EventKind.LOST, 40, **lost)]),
        (replace(seen, now_s=60), []),  # each once
        (replace(seen, containers=seen.containers[1:], now_s=61), []),
        (replace(seen, now_s=62), []),
        (replace(seen, now_s=72), [reports(3, cid(2), EventKind.LOST, 72, **lost)]),
    )
    rows = tuple(Listed(id=i, state="DONE") for i in gone)
    assert compare(NmList(rows, 80.0, 10.0), {}, gone, (), 80) == []


def test_a_victim_that_is_never_launched_is_not_waited_for() -> None:
    full = busy()
    full.handle(arrived("g", 5, q=False))
    victim = next(entry for entry in full.state.using() if entry.kill_reason)
    assert full.handle(Unlaunched(victim.id, 5)) == []
    commands = full.handle(Unlaunched(victim.id, 15))
    assert reports(6, victim.id, EventKind.LOST, 15, reason=UNLAUNCHED) in commands
    assert Forward("g") in commands
    assert full.handle(KillOver(victim.id, False, "it is not gone after 10 s", 75)) == []
    assert not list(full.state.to_release())


@pytest.mark.parametrize(
    ("state", "began_s", "pidfds"),
    [
        ("RUNNING", 10.0, ()),
        ("LOCALIZING", 10.0, ()),
        ("SCHEDULED", 0.5, ()),  # it was started when the NodeManager was there
        ("SCHEDULED", 0.0, ()),  # it is not known since when that is there
        ("SCHEDULED", 10.0, ("am", "g", "q", "o")),  # it runs, and the NodeManager is to find it again
    ],
)
def test_what_runs_or_may_run_is_not_taken_for_lost(state: str, began_s: float, pidfds: tuple[str, ...]) -> None:
    assert compare(listed(state, began_s), launching().state.containers, (), pidfds, 20) == []


def test_a_newer_attempt_ends_what_its_predecessor_waits_for() -> None:
    full = busy()
    full.handle(arrived("q9", 2))
    why = f"{NEXT} has begun meanwhile"
    play(
        full,
        (SessionUp("appattempt_1_0002_000002", 3), []),
        (SessionUp(NEXT, 3), [reports(6, "q9", EventKind.LOST, 3, reason=why, waited_s=1), Settled("q9")]),
        (Ended("q1", 4), [reports(7, "q1", EventKind.ENDED, 4, ran_s=3), Unwatch("q1")]),
    )


def test_a_start_that_comes_after_its_container_was_dropped_never_starts() -> None:
    one = node(announce_keep_s=100)
    one.handle(SessionUp(ATTEMPT, 0))
    one.handle(Granted((grant("a"), grant("b")), 1))
    one.handle(Dropped(("a", "b", "c"), "its application master is gone", 2))
    gone = reports(1, "a", EventKind.STOPPED, 3, reason="its application master is gone")
    play(
        one,
        (arrived("a", 3), [Hold("a"), gone, Released(ATTEMPT)]),
        (arrived("c", 3), []),  # never announced: Hadoop's own, or of a later announcement
        (Tick(102), [Forward("c"), Watch("c", APP)]),
        (arrived("b", 103), []),
    )
    assert not one.state.unwanted


def test_the_room_of_a_dead_master_goes_to_none_of_its_own_starts() -> None:
    one = node()
    one.handle(SessionUp(ATTEMPT, 0))
    one.handle(arrived("am", 0, q=False, am=True))
    one.handle(Answered("am", Outcome.STARTED, "", 1))
    one.handle(Granted((grant("a"), grant("b")), 1))
    one.handle(arrived("a", 1))
    one.handle(Answered("a", Outcome.STARTED, "", 1))
    one.handle(arrived("b", 1))
    why = "its application master is gone"
    play(
        one,
        (
            Ended("am", 5),
            [
                reports(5, "b", EventKind.LOST, 5, reason=why, waited_s=4),
                Settled("b"),
                reports(6, "am", EventKind.ENDED, 5, ran_s=4, am=True),
                Unwatch("am"),
            ],
        ),
    )
    assert [entry.id for entry in one.state.containers.values()] == ["a"]  # it may outlive its master


@pytest.mark.parametrize(
    ("one", "other", "earlier"),
    [
        (ATTEMPT, NEXT, True),
        (NEXT, ATTEMPT, False),
        (ATTEMPT, ATTEMPT, False),
        ("appattempt_1_0002_000001", NEXT, False),
        ("", NEXT, False),
    ],
)
def test_earlier_attempts(one: str, other: str, earlier: bool) -> None:
    assert is_earlier(one, other) is earlier


def test_a_node_holds_again_when_nobody_wants_it_drained_any_more() -> None:
    drained = busy()
    drained.handle(Drain(True, "disks are changed", 2))
    drained.handle(Drain(True, "YARN: its state is DECOMMISSIONING", 3, "yarn"))
    assert drained.state.draining == "disks are changed"
    drained.handle(Drain(False, "", 4))
    shed = reports(5, "q9", EventKind.SHED, 5, reason="YARN: its state is DECOMMISSIONING", cause="drain")
    play(
        drained,
        (arrived("q9", 5), [Hold("q9"), shed]),
        (Drain(False, "", 6, "yarn"), []),
        (arrived("q8", 7), [Hold("q8"), reports(6, "q8", EventKind.HELD, 7)]),
    )
    assert [entry.id for entry in drained.state.using()] == ["q1", "q2"]  # what ran goes on


async def test_a_nodemanager_that_dies_is_reported_at_once_and_loses_what_waits(tmp_path: Path) -> None:
    async with world(tmp_path, report_s=0.2, reconcile_s=60.0) as w:
        await w.grant(2, 3, 4)
        am = await FakeAm.connect(w.port)
        for serial in (2, 3, 4):
            await am.start(start_request(cid(serial), opportunistic=True))
        await until(lambda: w.nm.running == {cid(2), cid(3)})
        reporter = w.sidecar.dispatcher.reporter
        reporter.settings = reporter.settings.model_copy(update={"report_s": 60.0})
        seen = len(w.proxy.reports)
        await until(lambda: len(w.proxy.reports) > seen)  # the next one in order is due after 60 s
        await w.nm.stop()
        await until(lambda: w.proxy.reports[-1].nm_down, 30)
        await until(lambda: w.proxy.kinds(cid(4)) == ["held", "lost"])
        assert w.nm.started() == [cid(2), cid(3)]
        assert w.sidecar.node.state.used() == Resources(2048, 2)  # they run on
        waiting = asyncio.create_task(FakeAm.connect(w.port))
        assert w.sidecar.health().status == "degraded"
        await w.nm.start()
        await until(lambda: not w.proxy.reports[-1].nm_down)
        w.nm.running.clear()  # it came back without recovery
        again = await waiting
        stop = y.StopContainersRequestProto(container_id=[container_proto(cid(2))])
        await again.call("stopContainers", stop)
        await until(lambda: not list(w.sidecar.node.state.using()))
        await again.close()
        await am.close()


async def test_the_proxy_hears_of_what_a_nodemanager_lost_in_its_own_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "UNLAUNCHED_S", 0.5)

    async with world(tmp_path, reconcile_s=0.1) as w:
        await w.grant(2)
        am = await FakeAm.connect(w.port)
        await am.start(start_request(cid(2), opportunistic=True), start_request(cid(3), opportunistic=False))
        await until(lambda: w.proxy.kinds(cid(2)) == ["held", "started"])
        w.nm.sick = True  # its REST is away as well
        await w.nm.stop()
        await until(lambda: w.sidecar.nm_rest.answers is False)
        w.nm.sick, w.nm.began_s = False, time.time()
        w.nm.unlaunched = {cid(2), cid(3)}
        await w.nm.start()
        await until(lambda: w.proxy.kinds(cid(2)) == ["held", "started", "lost"])
        await until(lambda: w.proxy.kinds(cid(3)) == ["started", "lost"])
        assert w.sidecar.node.state.used() == Resources(2048, 2)
        w.nm.running.clear()  # the ResourceManager had them ended
        await until(lambda: not list(w.sidecar.node.state.using()))
        await am.close()


async def test_a_start_that_the_nodemanager_did_not_answer_is_no_success(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        am = await FakeAm.connect(w.port)
        await w.nm.stop()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await am.start(start_request(cid(9), opportunistic=False))
        await until(lambda: not w.sidecar.node.state.containers)
        assert w.proxy.kinds(cid(9)) == []
        await w.nm.start()
        am.writer.close()


async def test_yarn_and_an_admin_drain_a_node(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.proxy.drain = "YARN: its state is UNHEALTHY"
        await until(lambda: w.proxy.reports[-1].drain_reason == "YARN: its state is UNHEALTHY")
        w.proxy.drain = None  # a new proxy, which has not read the nodes yet
        before = len(w.proxy.reports)
        await until(lambda: len(w.proxy.reports) > before + 2)
        assert w.proxy.reports[-1].draining
        w.proxy.drain = ""
        await until(lambda: not w.proxy.reports[-1].draining)


@pytest.mark.parametrize("words", ["NMNotYetReadyException: not yet connected with ResourceManager", "no such service"])
async def test_a_nodemanager_that_is_not_ready_refuses_and_nothing_is_counted(tmp_path: Path, words: str) -> None:
    async with world(tmp_path) as w:
        w.nm.refuse[cid(9)] = words
        am = await FakeAm.connect(w.port)
        answer = await am.start(start_request(cid(9), opportunistic=False))
        assert [failed.exception.message for failed in answer.failed_requests] == [words]
        assert not w.sidecar.node.state.containers
        del w.nm.refuse[cid(9)]
        await am.start(start_request(cid(9), opportunistic=False))
        await until(lambda: w.nm.running == {cid(9)})
        await am.close()


async def test_a_late_start_that_comes_before_the_nodemanager_is_ready_is_lost(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.nm.refuse[cid(2)] = "NMNotYetReadyException: not yet connected with ResourceManager"
        await w.grant(2)
        am = await FakeAm.connect(w.port)
        await am.start(start_request(cid(2), opportunistic=True))
        await until(lambda: w.proxy.kinds(cid(2)) == ["held", "lost"])
        await am.close()


@pytest.mark.long
async def test_a_nodemanager_whose_rest_stands_still_is_taken_for_dead_and_one_that_never_answered_is_not(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, reconcile_s=0.1) as w:
        await until(lambda: w.sidecar.nm_rest.answers)
        w.nm.sick = True
        await until(lambda: "the NodeManager's REST does not answer" in w.proxy.reports[-1].nm_down, 8)
        assert w.sidecar.health().nodemanager is False
        w.nm.sick = False
        await until(lambda: not w.proxy.reports[-1].nm_down)
    async with world(tmp_path, web=False) as w:
        failures = w.sidecar.metrics.nm_errors._value.get
        await until(lambda: failures() > 4, 10)
        assert not w.sidecar.node.state.nm_down
