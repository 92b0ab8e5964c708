"""Another ResourceManager takes over, and with it another proxy: it knows of containers what their nodes tell."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver.common.messages import Ack, ContainerReport, ContainerState, EventKind
from rm_proxy.attempt.effects import DropHeld
from rm_proxy.coordinator.reports.event_acks import KEPT_S, EventAcks
from rm_proxy.domain import exit_codes, ids
from tests.rm_proxy.yarn_messages import APP, ATTEMPT, Am, cid, coordinator, ended, event, node_id, report, row


def there(number: int, state: ContainerState, **fields: Any) -> ContainerReport:
    base = {"kind": "Q", "memory_mb": 1024, "vcores": 1.0, "priority": 20}
    return ContainerReport(container_id=cid(number), app_id=APP, state=state, **(base | fields))


def tells(am: Am, now_s: float, *containers: ContainerReport, **fields: Any) -> Ack:
    return am.world.reports.report(node_id(1), report(1, containers=list(containers), **fields), now_s)


def successor() -> Am:
    """The attempt at the proxy of the ResourceManager that took over: it has just registered there."""
    am = Am(coordinator(nodes=1))
    am.attempt.on_registered(y.RegisterApplicationMasterResponseProto().SerializeToString(), 1.0)
    return am


def statuses(answer: y.AllocateResponseProto) -> dict[str, int]:
    return {ids.container_id_text(s.container_id): s.exit_status for s in answer.completed_container_statuses}


def test_running_ones_are_taken_over_and_waiting_ones_shed_so_that_the_application_asks_again() -> None:
    am = successor()
    ack = tells(am, 2.0, there(1, ContainerState.RUNNING), there(2, ContainerState.WAITING))
    assert [(shed.container_id, shed.cause) for shed in ack.shed] == [(cid(2), "restart")]
    assert {live.id: live.is_started for live in am.attempt.live} == {cid(1): True, cid(2): False}
    assert tells(am, 3.0, there(1, ContainerState.RUNNING), there(2, ContainerState.WAITING)).shed == []
    tells(am, 4.0, there(1, ContainerState.RUNNING), events=[event(2, EventKind.SHED, seq=1)])
    am.asks(row("*", 1))
    assert statuses(am.gets()) == {cid(2): exit_codes.PREEMPTED}
    am.asks()
    assert statuses(am.gets(completed=[ended(1)])) == {cid(1): 0}
    assert len(am.attempt.live) == 0


def test_what_nodes_told_a_standby_counts_from_the_registration_on() -> None:
    world = coordinator(nodes=1)
    world.stand_by()
    events = [event(3, EventKind.KILLED, seq=1), event(4, EventKind.LOST, seq=2)]
    for _ in range(2):
        ack = world.reports.observe(
            node_id(1), report(1, containers=[there(1, ContainerState.RUNNING)], events=events), 1.0
        )
        assert (ack.active, ack.events_to) == (False, -1)
    world.serve()
    am = Am(world)
    am.attempt.on_registered(y.RegisterApplicationMasterResponseProto().SerializeToString(), 2.0)
    assert [live.id for live in am.attempt.live] == [cid(1)]
    am.asks()
    reported = statuses(am.gets(completed=[ended(3, exit_codes.KILLED_BY_APPMASTER)]))
    assert reported == {cid(3): exit_codes.PREEMPTED, cid(4): exit_codes.PREEMPTED}
    am.asks()
    assert tells(am, 3.0, events=events).events_to == 2
    am.asks()
    assert statuses(am.gets()) == {}


def test_an_event_waits_for_an_attempt_that_has_not_come_yet() -> None:
    world = coordinator(nodes=1)
    events = [event(1, EventKind.SHED, seq=5)]
    assert world.reports.report(node_id(1), report(1, events=events), 1.0).events_to == 4
    am = Am(world)
    assert tells(am, 1.5, events=events).events_to == 4
    am.attempt.on_registered(y.RegisterApplicationMasterResponseProto().SerializeToString(), 2.0)
    am.asks()
    assert statuses(am.gets()) == {cid(1): exit_codes.PREEMPTED}
    am.asks()
    assert tells(am, 3.0, events=events).events_to == 5


def test_one_that_is_being_started_is_left_to_the_nodemanagers_answer() -> None:
    am = successor()
    assert tells(am, 2.0, there(1, ContainerState.STARTING)).shed == []
    tells(am, 3.0, events=[event(1, EventKind.LOST, seq=1)])
    am.asks()
    assert statuses(am.gets()) == {cid(1): exit_codes.PREEMPTED}


def test_masters_foreign_ones_other_attempts_and_what_is_over_are_not_taken_over() -> None:
    am = successor()
    tells(am, 2.0, there(1, ContainerState.RUNNING))
    am.asks()
    am.gets(completed=[ended(1)])
    other = there(9, ContainerState.RUNNING).model_copy(update={"container_id": cid(9).replace("_01_", "_02_")})
    strange = (there(7, ContainerState.RUNNING, am=True, kind="G"), there(8, ContainerState.RUNNING, kind="O"), other)
    assert tells(am, 3.0, there(1, ContainerState.RUNNING), *strange).shed == []
    assert len(am.attempt.live) == 0


def test_an_application_that_yarn_knows_no_longer_holds_nothing() -> None:
    am = successor()
    tells(am, 2.0, there(1, ContainerState.STARTING), there(2, ContainerState.RUNNING))
    am.world.inventory.unknown_app(APP)
    drops = [effect.container_id for effect in am.world.take_effects() if isinstance(effect, DropHeld)]
    assert drops == [cid(1)]
    assert am.attempt.finished and len(am.attempt.live) == 0


def test_a_standby_forgets_its_attempts_and_drops_nothing() -> None:
    am = successor()
    world = am.world
    tells(am, 2.0, there(1, ContainerState.WAITING), there(2, ContainerState.RUNNING))
    world.stand_by()
    world.rounds.all_parts(3.0)
    assert not [effect for effect in world.take_effects() if isinstance(effect, DropHeld)]
    assert not world.attempts
    assert world.attempt(ATTEMPT) is not am.attempt


@given(st.lists(st.tuples(st.integers(1, 30), st.booleans()), max_size=30), st.floats(0, 2 * KEPT_S))
def test_nothing_that_is_open_is_acknowledged_and_nothing_for_ever_open(
    events: list[tuple[int, bool]], later_s: float
) -> None:
    settled = {f"c{seq}" for seq, over in events if over}
    receipts = EventAcks(settled.__contains__)
    for seq, _ in events:
        receipts.keep("n", "b", seq, f"c{seq}", 0.0)
    open_ = [seq for seq, _ in events if f"c{seq}" not in settled] if later_s < KEPT_S else []
    assert receipts.up_to("n", "b", 30, later_s) == min(open_, default=31) - 1
    assert receipts.up_to("n", "another boot", 30, later_s) == 30


def test_container_ids_are_read_as_they_are_written() -> None:
    for text in ("container_1700000000000_0007_01_000012", "container_e17_1700000000000_12345_03_1000000"):
        assert ids.container_id_text(ids.container_id_proto(text)) == text
