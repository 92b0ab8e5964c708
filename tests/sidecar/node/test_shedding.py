"""What the proxy's targets do at a node: shedding from the queue's end, the share left to queueables, their age."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.model import ContainerView, Kind, Resources
from quicksilver.common.messages import EventKind, Report, Targets
from sidecar.metrics import SidecarMetrics
from sidecar.node.events import (
    Answered,
    Command,
    Ended,
    Granted,
    Launch,
    Outcome,
    ReportEvent,
    SessionUp,
    Settled,
    Targeted,
    Warn,
)
from sidecar.node.events import Tick as TickEvent
from sidecar.node.node import SidecarNode
from sidecar.node.phases import Phase
from sidecar.node.queue.shedding import excess
from sidecar.node.queue.wait_estimate import LIMITED_S, CoreRoom, WaitingJob, remaining_s, starts_s
from sidecar.node.queue.waiting_queue import WaitingStart
from sidecar.node.report_view import containers, fill_report
from sidecar.node.wait_reason import obstacle
from tests.playbook import play
from tests.sidecar.words import ATTEMPT, arrived, grant, node, reports

GOOD = (Outcome.STARTED, "")


def queue(waiting: int, sheds: tuple[int, ...] = (), **rules: Any) -> SidecarNode:
    """Return a node of one place, on which `r` runs since second 0 and q1 .. wait, all of 10 s."""
    full = node(memory_mb=1024, vcores=1, **rules)
    full.handle(SessionUp(ATTEMPT, 0))
    names = [f"q{number}" for number in range(1, waiting + 1)]
    shed_before = dict(zip(names, sheds, strict=False))
    full.handle(Granted(tuple(grant(name, sheds=shed_before.get(name, 0)) for name in ("r", *names)), 0))
    full.handle(arrived("r", 0))
    full.handle(Answered("r", *GOOD, 0))
    for name in names:
        full.handle(arrived(name, 0))
    return full


def targeted(now_s: float, **fields: Any) -> Targeted:
    return Targeted(Targets(**fields), (), (), now_s)


def shed(commands: list[Command]) -> list[str]:
    events = [c.event for c in commands if isinstance(c, ReportEvent)]
    assert all(e.cause == "shed" for e in events if e.kind is EventKind.SHED)
    return [e.container_id for e in events if e.kind is EventKind.SHED]


def test_what_would_start_too_late_is_shed_from_the_end() -> None:
    """q1 starts in 10 s, q2 in 20 s, q3 in 30 s, q4 in 40 s."""
    why = "it would start in {} s, the limit is 25 s (mean_sigma: mean 20 s)"
    play(
        queue(4),
        (
            targeted(0, max_wait_s=25, shed_reason="mean_sigma: mean 20 s"),
            [
                reports(7, "q4", EventKind.SHED, 0, reason=why.format(40), cause="shed"),
                Settled("q4"),
                reports(8, "q3", EventKind.SHED, 0, reason=why.format(30), cause="shed"),
                Settled("q3"),
            ],
        ),
    )


def test_what_waits_beyond_the_number_is_shed() -> None:
    full = queue(4)
    out = full.handle(targeted(1, max_queue=3, shed_reason="queue_length"))
    assert shed(out) == ["q4"]
    [event_of_q4] = [c.event for c in out if isinstance(c, ReportEvent)]
    assert event_of_q4.reason == "3 before it in the queue, the limit is 3 (queue_length)"


def test_the_head_is_never_shed() -> None:
    assert shed(queue(3).handle(targeted(0, max_wait_s=0, max_queue=0))) == ["q3", "q2"]
    assert shed(queue(1).handle(targeted(0, max_wait_s=0, max_queue=0))) == []


def test_a_task_that_was_shed_too_often_stays_and_others_go() -> None:
    assert shed(queue(4, sheds=(0, 1, 0, 2)).handle(targeted(0, max_wait_s=0, max_sheds=2))) == ["q3", "q2"]
    assert shed(queue(4, sheds=(0, 1, 0, 2)).handle(targeted(0, max_wait_s=0, max_sheds=1))) == ["q3"]


def test_a_share_of_the_queue_a_second_but_always_one() -> None:
    full = queue(8)
    assert shed(full.handle(targeted(0, max_wait_s=0, max_share_ratio=0.25))) == ["q8", "q7"]
    assert shed(full.handle(targeted(0.5, max_wait_s=0, max_share_ratio=0.25))) == []
    assert shed(full.handle(targeted(1, max_wait_s=0, max_share_ratio=0.25))) == ["q6"]
    assert shed(full.handle(targeted(2, max_wait_s=0, max_share_ratio=0.001))) == ["q5"]


def test_newcomers_stay_until_the_targets_know_them() -> None:
    full = queue(3)
    assert shed(full.handle(targeted(2.9, max_wait_s=0, settle_s=3))) == []
    assert shed(full.handle(targeted(3.9, max_wait_s=0, settle_s=3))) == ["q3", "q2"]


def test_no_limits_shed_nothing() -> None:
    assert queue(4).handle(targeted(0)) == []
    assert queue(4).handle(Targeted(None, (), (), 0.0)) == []


def test_limits_hold_as_long_as_the_proxy_is_heard() -> None:
    full = queue(2, targets_keep_s=10.0)
    full.handle(targeted(0, max_wait_s=100))
    assert full.deadline_s() == 10
    full.handle(targeted(5, max_wait_s=100))
    assert full.handle(TickEvent(14.9)) == [] and full.state.targets is not None
    assert full.handle(Targeted(None, (), (), 14.9)) == [] and full.state.targets is not None
    gone = full.handle(TickEvent(15))
    assert gone == [Warn("", "nothing from the proxy for 10 s: its limits hold no more")]
    assert full.state.targets is None and full.deadline_s() == 100


def limited(
    limit_mb: int, now_s: float = 0, vcores: float | None = 9, **rules: Any
) -> tuple[SidecarNode, list[Command]]:
    """Return a node of four places with a limit, and what happened when q1, q2, q3 came."""
    four = node(memory_mb=4096, vcores=4, **rules)
    four.handle(SessionUp(ATTEMPT, 0))
    four.handle(Granted(tuple(grant(f"q{number}") for number in range(1, 4)), 0))
    four.handle(targeted(now_s, limit_q_mb=limit_mb, limit_q_vcores=vcores, limit_reason="memory_limit: 50%"))
    out = [command for number in range(1, 4) for command in four.handle(arrived(f"q{number}", now_s))]
    return four, out


def started(commands: list[Command]) -> list[str]:
    return [c.container_id for c in commands if isinstance(c, Launch)]


def test_queueables_start_only_within_their_share() -> None:
    four, out = limited(2048)
    assert started(out) == ["q1", "q2"]
    assert obstacle(four.room, Resources(1024, 1), 0) == (
        "waits for the share left to queueables: 1024 MB, 1 vcores wanted, 0 MB, 7 vcores left (memory_limit: 50%)"
    )
    four.handle(Answered("q1", *GOOD, 1))
    assert started(four.handle(Ended("q1", 5))) == ["q3"]


def test_a_higher_limit_and_none_at_all_let_them_start() -> None:
    four, _ = limited(2048)
    assert started(four.handle(targeted(1, limit_q_mb=3072, limit_q_vcores=9))) == ["q3"]
    four, _ = limited(1024)
    assert started(four.handle(targeted(1))) == ["q2", "q3"]


def test_a_limit_that_is_too_old_holds_no_more() -> None:
    four, _ = limited(0, targets_keep_s=5.0)
    assert started(four.handle(TickEvent(5))) == ["q1", "q2", "q3"]


def test_vcores_are_limited_too_but_not_where_containers_share_them() -> None:
    assert started(limited(9999, vcores=2)[1]) == ["q1", "q2"]
    assert started(limited(9999, vcores=2, count_vcores=False)[1]) == ["q1", "q2", "q3"]
    assert started(limited(2048, vcores=0, shares_cpu=True, extra_vcores=4, nm_vcores=16)[1]) == ["q1", "q2"]


def test_guaranteed_ones_are_never_limited_and_running_ones_never_killed() -> None:
    four, _ = limited(3072)
    assert four.handle(targeted(1, limit_q_mb=0, limit_q_vcores=0)) == []
    assert [e.phase for e in four.state.containers.values()] == [Phase.STARTING] * 3
    assert [type(c).__name__ for c in four.handle(arrived("g1", 2, q=False))] == ["Forward", "Watch"]


def base() -> Report:
    return Report(node_id="n:1", boot="b", seq=1, sidecar_url="http://n", memory_mb=1, vcores=1)


def test_the_report_tells_when_each_starts_and_the_waits_count_the_limit() -> None:
    four, _ = limited(2048)
    four.handle(Answered("q1", *GOOD, 0))
    four.handle(Answered("q2", *GOOD, 0))
    report = fill_report(base(), four, 4)
    assert (report.queued_s, report.remaining_s) == (6, 6)
    assert [c.starts_in_s for c in report.containers] == [None, None, 6]
    four, _ = limited(1023)
    report = fill_report(base(), four, 4)
    assert (report.queued_s, report.remaining_s) == (LIMITED_S + 20, LIMITED_S)
    assert [c.starts_in_s for c in containers(four, 4)] == [LIMITED_S, LIMITED_S + 10, LIMITED_S + 20]


ONE = Resources(1024, 1)


def test_starts_by_example() -> None:
    running = [WaitingJob(ONE, 10), WaitingJob(ONE, 4)]
    assert starts_s(CoreRoom(Resources()), running, [WaitingJob(ONE, 3), WaitingJob(ONE, 1), WaitingJob(ONE, 1)]) == [
        4,
        7,
        8,
    ]
    assert starts_s(CoreRoom(ONE), running, [WaitingJob(ONE, 3), WaitingJob(Resources(2048, 2), 1)]) == [0, 4]
    assert starts_s(CoreRoom(Resources()), [], [WaitingJob(ONE, 3), WaitingJob(ONE, 3)]) == [LIMITED_S, LIMITED_S + 3]
    guaranteed = [WaitingJob(ONE, 4, queueable=False)]
    assert starts_s(CoreRoom(Resources(), ONE), guaranteed, [WaitingJob(ONE, 3), WaitingJob(ONE, 1)]) == [4, 7]
    assert starts_s(CoreRoom(ONE, Resources(0, 0)), guaranteed, [WaitingJob(ONE, 3)]) == [LIMITED_S]


def test_remaining_by_example() -> None:
    mixed = [WaitingJob(ONE, 4, queueable=False), WaitingJob(ONE, 9)]
    assert remaining_s(CoreRoom(ONE), mixed, ONE) == 0
    assert remaining_s(CoreRoom(Resources()), mixed, ONE) == 4
    assert remaining_s(CoreRoom(ONE, Resources()), mixed, ONE) == 9
    assert remaining_s(CoreRoom(ONE, Resources()), mixed[:1], ONE) == LIMITED_S
    assert remaining_s(CoreRoom(Resources()), [], ONE) == LIMITED_S


sizes = st.builds(Resources, st.integers(1, 4096), st.integers(1, 4))
jobs = st.lists(
    st.builds(WaitingJob, sizes, st.floats(0.1, 100), st.floats(0, 50), queueable=st.booleans()), max_size=10
)


@given(sizes, st.none() | sizes, jobs, st.lists(st.builds(WaitingJob, sizes, st.floats(0.1, 100)), max_size=20))
def test_starts_never_decrease_and_a_limit_makes_none_sooner(
    free: Resources, left_q: Resources | None, running: list[WaitingJob], waiting: list[WaitingJob]
) -> None:
    starts = starts_s(CoreRoom(free, left_q), running, waiting)
    assert len(starts) == len(waiting)
    assert all(math.isfinite(at) and at >= 0 for at in starts)
    assert starts == sorted(starts)
    if left_q is None:
        return
    if starts and starts[0] > 0:
        assert starts[0] >= starts_s(CoreRoom(free), running, waiting)[0]


def waiting(count: int, sheds: list[int]) -> list[WaitingStart]:
    views = [
        ContainerView(f"q{n}", "app", Kind.QUEUEABLE, ONE, arrived_s=float(n), sheds=sheds[n]) for n in range(count)
    ]
    return [WaitingStart(view, ATTEMPT, 1e9, 1) for view in views]


limits = st.builds(
    Targets,
    max_wait_s=st.none() | st.floats(0, 50),
    max_queue=st.none() | st.integers(0, 20),
    max_sheds=st.integers(0, 3),
    max_share_ratio=st.floats(0.01, 1),
    settle_s=st.floats(0, 20),
)


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 4)), max_size=20), limits)
def test_what_is_shed_always(rows: list[tuple[float, int]], targets: Targets) -> None:
    starts = sorted(at for at, _ in rows)
    line = waiting(len(rows), [sheds for _, sheds in rows])
    shed = [container_id for container_id, _ in excess(line, starts, targets, 25.0)]
    places = [int(name[1:]) for name in shed]
    assert places == sorted(places, reverse=True)
    assert 0 not in places
    assert len(places) <= max(1, int(len(rows) * targets.max_share_ratio))
    for place in places:
        too_late = targets.max_wait_s is not None and starts[place] > targets.max_wait_s
        too_many = targets.max_queue is not None and place >= targets.max_queue
        assert too_late or too_many
        assert line[place].view.sheds < targets.max_sheds
        assert 25.0 - place >= targets.settle_s


def test_metrics_of_targets() -> None:
    metrics = SidecarMetrics()
    metrics.set_targets(None)
    assert b"quicksilver_sidecar_limit_q_mb NaN" in metrics.exposition()
    metrics.set_targets(Targets(max_wait_s=25, limit_q_mb=2048))
    metrics.sheds.labels("shed").inc()
    text = metrics.exposition()
    assert b"quicksilver_sidecar_max_wait_seconds 25.0" in text
    assert b"quicksilver_sidecar_max_queue NaN" in text
    assert b"quicksilver_sidecar_limit_q_mb 2048.0" in text
    assert b'quicksilver_sidecar_sheds_total{cause="shed"} 1.0' in text


@pytest.mark.parametrize("limit_mb", [0, 1024, 4096])
def test_a_waiting_one_says_what_it_waits_for(limit_mb: int) -> None:
    four, _ = limited(limit_mb)
    whys = [c.why for c in containers(four, 0) if c.state == "waiting"]
    assert len(whys) == 3 - min(3, limit_mb // 1024)
    assert all("waits for the share left to queueables" in why for why in whys)


def test_what_is_more_than_the_whole_limit_waits_nowhere_else() -> None:
    """`police` leaves less than one of them wants: they would wait for the limit, however empty the node gets."""
    commands = queue(2).handle(targeted(0, limit_q_mb=1023, limit_q_vcores=1.0, limit_reason="history: all used"))
    events = [c.event for c in commands if isinstance(c, ReportEvent)]
    why = "the share left to queueables: 1024 MB, 1 vcores wanted, 1023 MB, 1 vcores left (history: all used)"
    assert [(e.container_id, e.kind, e.cause, e.reason) for e in events] == [
        (name, EventKind.SHED, "police", why) for name in ("q1", "q2")
    ]
    assert queue(2).handle(targeted(0, limit_q_mb=1024, limit_q_vcores=0.5))  # too few vcores
    assert shed(queue(2).handle(targeted(0, limit_q_mb=1024, limit_q_vcores=1.0))) == []  # they wait for each other
