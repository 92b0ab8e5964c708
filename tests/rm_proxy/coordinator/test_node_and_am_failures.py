"""Nodes that die, are emptied, or fall silent; application masters that die: what the proxy makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Kind, Resources
from quicksilver.common.messages import ContainerEvent, EventKind
from rm_proxy.attempt.delivery.container_events import AWAY_S
from rm_proxy.attempt.effects import DropHeld, Effect
from rm_proxy.attempt.snapshot import Snapshot
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.domain import ids
from rm_proxy.domain.exit_codes import by_the_system, translate
from tests.rm_proxy.yarn_messages import (
    APP,
    ATTEMPT,
    TIMESTAMP,
    Am,
    cid,
    container,
    coordinator,
    ended,
    event,
    granted_rows,
    node_id,
    report,
    row,
    yarn_node,
)

SECOND = f"appattempt_{TIMESTAMP}_0001_000002"
MASTER = f"container_{TIMESTAMP}_0001_01_000099"


def holding(app_type: str = "TEZ", nodes: int = 1) -> tuple[Coordinator, Am]:
    """Two queueable containers of one application on node 1: 1 is held, 2 runs."""
    world = coordinator(nodes=nodes, app_type=app_type)
    am = Am(world)
    am.asks(row("host1", 2), row("/r1", 2), row("*", 2))
    rows = granted_rows(am.sent.ask).values()
    am.gets(*(container(number, 1, asked) for number, asked in enumerate(rows, 1)))
    says(world, event(1, EventKind.HELD), event(2, EventKind.STARTED, 2))
    assert am.attempt.live.count_q == 2
    return world, am


def says(world: Coordinator, *events: ContainerEvent, now_s: float = 0.0, **fields: Any) -> None:
    world.reports.report(node_id(1), report(1, events=list(events), **fields), now_s)


def drops(effects: list[Effect]) -> list[tuple[str, str]]:
    return [(e.container_id, e.reason) for e in effects if isinstance(e, DropHeld)]


def ends(answer: y.AllocateResponseProto) -> list[tuple[str, int]]:
    return [(ids.container_id_text(s.container_id), s.exit_status) for s in answer.completed_container_statuses]


def charged(world: Coordinator) -> Resources:
    queue = world.inventory.queue("root.default")
    assert queue is not None
    return queue.used_q


def passing(world: Coordinator, until_s: float, **fields: Any) -> list[tuple[str, str]]:
    """Let rounds go by each second, with a report each where fields are given; return what was dropped."""
    found: list[tuple[str, str]] = []
    for second in range(1, int(until_s) + 1):
        if fields:
            says(world, now_s=float(second), **fields)
        world.rounds.all_parts(float(second))
        found += drops(world.take_effects())
    return found


# Nodes


@pytest.mark.parametrize(("app_type", "told"), [("MAPREDUCE", -102), ("TEZ", -102), ("YARN", -100)])
@pytest.mark.parametrize("status", [-100, -106, -107, -108])
def test_a_lost_node_ends_each_container_once_with_the_frameworks_own_word(
    app_type: str, told: int, status: int
) -> None:
    world, am = holding(app_type)
    am.asks()
    got = am.gets(completed=[ended(1, status, "Container released on a *lost* node"), ended(2, status)])
    assert ends(got) == [(cid(1), told), (cid(2), told)]
    assert drops(am.effects) == [(cid(1), "YARN ended it before it started")]
    says(world, event(1, EventKind.LOST, 3), event(2, EventKind.ENDED, 4))
    am.asks()
    assert ends(am.gets()) == []
    assert am.attempt.live.used_q == Resources()


def test_what_the_sidecar_lost_is_completed_before_the_resourcemanager_notices() -> None:
    world, am = holding()
    says(world, event(1, EventKind.LOST, 3, reason="the session with the NodeManager was lost"), nm_down="dead")
    am.asks()
    assert [r.id for r in am.sent.release] == [1]
    assert ends(am.gets()) == [(cid(1), -102)]
    am.asks()
    assert ends(am.gets(completed=[ended(1, -100), ended(2, -100)])) == [(cid(2), -102)]


def test_a_guaranteed_one_that_its_nodemanager_never_launches_is_completed_once_and_released() -> None:
    world = coordinator(nodes=1, app_type="MAPREDUCE")
    am = Am(world)
    am.asks(row("*", 1))
    am.gets(container(3, 1, row("*", 1)))
    says(world, event(3, EventKind.STARTED))
    assert am.attempt.live.get(cid(3)).kind is Kind.GUARANTEED  # type: ignore[union-attr]
    says(world, event(3, EventKind.LOST, 2, reason="never launched"))
    am.asks()
    assert [r.id for r in am.sent.release] == [3]
    assert ends(am.gets()) == [(cid(3), -102)]
    am.asks()
    assert ends(am.gets(completed=[ended(3, -100, "Container released by application")])) == []
    assert am.attempt.live.used_g == Resources()


def test_nothing_is_placed_where_the_nodemanager_is_down() -> None:
    world = coordinator(nodes=2)
    says(world, nm_down="nobody answers at 127.0.0.1:8041")
    am = Am(world)
    am.asks(row("host1", 2), row("/r1", 2), row("*", 2))
    assert {r.resource_name for r in granted_rows(am.sent.ask).values()} == {"host2"}
    assert world.nodes[node_id(1)].why_not(0.0, 5.0) == (
        "its NodeManager takes no starts: nobody answers at 127.0.0.1:8041"
    )
    says(world)
    assert world.nodes[node_id(1)].why_not(0.0, 5.0) is None


def test_starts_that_a_dead_nodemanager_never_got_are_asked_for_again() -> None:
    world, am = holding()
    says(world, event(1, EventKind.LOST, 3), nm_down="dead")
    am.asks()
    am.gets()
    am.asks(row("host1", 1), row("/r1", 1), row("*", 1))
    assert granted_rows(am.sent.ask) == {}
    world, am = holding()
    am.attempt.live.get(cid(1)).held_s = None  # type: ignore[union-attr]
    why = f"{node_id(1)} starts nothing: its NodeManager is down: dead"
    assert passing(world, AWAY_S + 1, nm_down="dead") == []
    assert passing(world, AWAY_S + 3, nm_down="dead") == [(cid(1), why)]
    am.asks()
    assert ends(am.gets()) == [(cid(1), -102)]
    assert am.attempt.live.get(cid(2)) is not None  # it runs, as far as anybody knows
    assert charged(world) == Resources(1024, 1)


def test_a_short_restart_of_the_nodemanager_takes_nothing_away() -> None:
    world, am = holding()
    says(world, now_s=1.0, nm_down="dead")
    assert passing(world, 10, nm_down="dead") == []
    assert passing(world, 60, nm_down="") == []
    assert am.attempt.live.count_q == 2


def test_a_silent_sidecar_is_waited_for_until_it_has_given_up_itself() -> None:
    world, am = holding()
    hold_s = world.inventory.hold_limit_s(world.apps.app(APP))  # type: ignore[arg-type]
    assert passing(world, hold_s + AWAY_S) == []
    (found,) = passing(world, hold_s + AWAY_S + 2)
    assert found[0] == cid(1)
    am.asks()
    assert ends(am.gets()) == [(cid(1), -102)]
    says(world, event(1, EventKind.SHED, 3), now_s=hold_s + AWAY_S + 3)
    am.asks()
    assert ends(am.gets()) == []


@pytest.mark.parametrize(
    ("state", "state_sent"),
    [
        ("RUNNING", ""),
        ("NEW", ""),
        ("DECOMMISSIONING", "YARN: its state is DECOMMISSIONING"),
        ("UNHEALTHY", "YARN: its state is UNHEALTHY"),
        ("LOST", "YARN: its state is LOST"),
    ],
)
def test_sidecars_hear_which_nodes_yarn_empties(state: str, state_sent: str) -> None:
    world = coordinator(nodes=1)
    world.yarn_nodes([yarn_node(1, state=state)], 0.0)
    assert world.reports.report(node_id(1), report(1), 0.0).drain == state_sent
    world.inventory.node_changed(node_id(1), usable=False)
    assert world.reports.report(node_id(1), report(1), 0.0).drain == "YARN: the ResourceManager reported it as unusable"
    world.yarn_nodes([yarn_node(1, state=state)], 1.0)
    assert world.reports.report(node_id(1), report(1), 1.0).drain == state_sent
    world.yarn_nodes([], 2.0)
    assert world.reports.report(node_id(1), report(1), 2.0).drain is None


def test_exit_codes_of_a_nodemanager_that_ends() -> None:
    assert [code for code in range(-110, 1) if by_the_system(code)] == [-108, -107, -106, -100]
    assert translate("SPARK", -107, False, False) == -102
    assert translate("SPARK", -107, False, True) == -107  # the application gave it back itself
    assert translate("SPARK", -105, False, False) == -105


# Application masters


def test_the_end_of_the_masters_container_drops_what_waits_and_leaves_what_runs() -> None:
    world, am = holding()
    over = ContainerEvent(seq=3, container_id=MASTER, kind=EventKind.ENDED, at_s=1.0, am=True)
    says(world, over, now_s=1.0)
    assert drops(world.take_urgent()) == [(cid(1), "its application master is gone")]
    assert world.take_urgent() == []
    assert [c.id for c in am.attempt.live] == [cid(2)]
    am.asks()  # it lives after all: nothing is lost
    assert [r.id for r in am.sent.release] == [1]
    assert ends(am.gets()) == [(cid(1), -102)]


def test_the_end_of_a_task_is_not_the_masters() -> None:
    world, am = holding()
    says(world, ContainerEvent(seq=3, container_id=MASTER, kind=EventKind.ENDED, at_s=1.0), now_s=1.0)
    assert world.take_urgent() == []
    assert am.attempt.live.count_q == 2


def test_a_second_attempt_drops_what_the_first_one_waits_for_at_once() -> None:
    world, am = holding()
    second = world.attempt(SECOND)
    assert drops(world.take_urgent()) == [(cid(1), "a newer attempt of the application started")]
    assert am.attempt.finished
    assert not second.finished
    assert charged(world) == Resources()


def test_an_attempt_that_comes_after_its_successor_holds_nothing() -> None:
    world = coordinator()
    second = world.attempt(SECOND)
    first = world.attempt(ATTEMPT)
    assert first.finished
    assert not second.finished


@pytest.mark.parametrize("order", [(ATTEMPT, SECOND), (SECOND, ATTEMPT)])
def test_of_two_attempts_that_a_proxy_restores_the_newer_one_lives(order: tuple[str, str]) -> None:
    """It died after the second attempt had come, and before it wrote down that the first one was over."""
    world, am = holding()
    am.attempt.registration.answer = y.RegisterApplicationMasterResponseProto(queue="default").SerializeToString()
    notes = dict(world.takeover.whole_notes())
    world.attempt(SECOND).on_registered(am.attempt.registration.answer or b"", 1.0)
    notes[SECOND] = dict(world.takeover.whole_notes())[SECOND]
    again = coordinator(nodes=1)
    for attempt_id in order:
        kept = Snapshot()
        kept.take(notes[attempt_id])
        again.takeover.restore(attempt_id, kept)
    assert again.attempts[ATTEMPT].finished
    assert not again.attempts[SECOND].finished
    assert charged(again) == Resources()
    assert drops(again.take_effects()) == [(cid(1), "a newer attempt of the application started")]


def test_containers_that_outlive_their_master_are_the_next_ones_and_are_charged() -> None:
    world, am = holding()
    private = am.attempt.live.get(cid(2)).private_id  # type: ignore[union-attr]
    second = world.attempt(SECOND)
    kept = container(2, 1, row("*"))
    kept.execution_type, kept.allocation_request_id = y.OPPORTUNISTIC, private or 0
    answer = y.RegisterApplicationMasterResponseProto(containers_from_previous_attempts=[kept])
    told = second.on_registered(answer.SerializeToString(), 5.0)
    assert told is not None
    (seen,) = y.RegisterApplicationMasterResponseProto.FromString(told).containers_from_previous_attempts
    assert (seen.execution_type, seen.allocation_request_id) == (y.GUARANTEED, -1)
    (live,) = second.live
    assert (live.kind, live.is_started) == (Kind.QUEUEABLE, True)
    assert charged(world) == Resources(1024, 1)
    says(world, event(2, EventKind.KILLED, 3, reason="makes room for g"))
    assert live.killed == "makes room for g"


def test_guaranteed_containers_that_outlive_their_master_are_the_next_ones_until_they_end() -> None:
    """Of a YARN service: its next master takes over what runs, and asks for nothing."""
    world = coordinator()
    second = world.attempt(SECOND)
    kept = [container(number, 1, row("*", priority=3)) for number in (2, 3)]
    answer = y.RegisterApplicationMasterResponseProto(containers_from_previous_attempts=kept)
    assert second.on_registered(answer.SerializeToString(), 5.0) is None, "nothing of it changes"
    assert [(live.kind, live.priority, live.is_started) for live in second.live] == [(Kind.GUARANTEED, 3, True)] * 2
    assert second.live.used_g == Resources(2048, 2)
    assert charged(world) == Resources()
    second.exchange.on_allocate(y.AllocateRequestProto(response_id=0).SerializeToString(), 6.0)
    over = y.AllocateResponseProto(response_id=1, completed_container_statuses=[ended(2, 137)])
    second.exchange.on_answer(over.SerializeToString(), 6.0)
    assert second.live.used_g == Resources(1024, 1)


def test_the_next_attempt_hears_why_a_container_of_the_first_one_was_killed() -> None:
    """It made room for the next attempt's own master, and its end is told to that one."""
    world, _ = holding()
    says(world, event(2, EventKind.KILLED, 3, reason="makes room for its next master"))
    second = world.attempt(SECOND)
    second.on_registered(y.RegisterApplicationMasterResponseProto(queue="default").SerializeToString(), 5.0)
    second.exchange.on_allocate(y.AllocateRequestProto(response_id=0).SerializeToString(), 6.0)
    answer = y.AllocateResponseProto(response_id=1, completed_container_statuses=[ended(2, -105)])
    told = second.exchange.on_answer(answer.SerializeToString(), 6.0)
    assert told is not None
    (end,) = y.AllocateResponseProto.FromString(told).completed_container_statuses
    assert end.exit_status == -102
    assert "makes room for its next master" in end.diagnostics


def test_attempts_of_containers() -> None:
    assert ids.attempt_of_container(MASTER) == ATTEMPT
    assert ids.attempt_of_container(f"container_e07_{TIMESTAMP}_0001_02_000001") == SECOND
    assert ids.attempt_of_container("container_x") == ""
    assert ids.attempt_of_container("nonsense_1_2_3_4") == ""
    assert ids.is_earlier(ATTEMPT, SECOND)
    assert not ids.is_earlier(SECOND, SECOND)
