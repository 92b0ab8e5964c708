"""What Spark, Tez and distributed shell send through AMRMClient, and what they must see."""

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver.common.messages import EventKind
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    Am,
    capability,
    cid,
    container,
    coordinator,
    ended,
    event,
    granted_rows,
    node_id,
    report,
    row,
    shown,
)


def lose(am: Am, number: int, kind: EventKind, reason: str = "why") -> list[y.ContainerStatusProto]:
    """A sidecar says that a container is lost; returns what the application master is told with the next answer."""
    am.attempt.containers.on_event(event(number, kind, reason=reason), am.now_s)
    am.asks()
    return list(am.gets().completed_container_statuses)


# Spark: priority = ResourceProfile id, request id 0 (AMRMClient's default), several sizes


def test_spark_profiles_keep_priority_and_request_id() -> None:
    am = Am(coordinator(app_type="SPARK"))
    sizes = {0: capability(1408), 1: capability(4096, 2)}
    am.asks(*(row("*", 2, priority, request_id=0, size=size) for priority, size in sizes.items()))
    seen = am.gets(*am.granted()).allocated_containers
    assert sorted((c.priority.priority, c.allocation_request_id, c.resource.memory) for c in seen) == [
        (0, 0, 1408),
        (0, 0, 1408),
        (1, 0, 4096),
        (1, 0, 4096),
    ]
    assert {c.execution_type for c in seen} == {y.GUARANTEED}


def test_spark_cancels_and_releases() -> None:
    am = Am(coordinator(app_type="SPARK"))
    am.asks(row("*", 3, 0, request_id=0))
    first, second, third = am.granted()
    am.gets(first)  # two were not granted yet, and Spark wants one fewer
    assert len(granted_rows(am.asks(row("*", 1, 0, request_id=0)))) == 1
    assert am.attempt.table.sums.open_q == 1
    pending = next(iter(am.attempt.table.by_private))
    assert pending in (second.allocation_request_id, third.allocation_request_id)
    assert list(am.asks(release=[1])) is not None
    assert [c.id for c in am.sent.release] == [1], "Spark's release goes through"
    am.gets()
    assert any(type(e).__name__ == "DropHeld" and e.container_id == cid(1) for e in am.effects)
    am.asks()
    status = am.gets(completed=[ended(1, -100, "Container released by application")]).completed_container_statuses
    assert [s.exit_status for s in status] == [-100], "its own release keeps YARN's status"


@pytest.mark.parametrize(
    ("app_type", "expected"), [("SPARK", -102), ("TEZ", -102), ("MAPREDUCE", -102), ("YARN", -100), ("FLINK", -102)]
)
@pytest.mark.parametrize("kind", [EventKind.SHED, EventKind.LOST])
def test_lost_before_its_start_is_told_once_in_the_frameworks_words(
    app_type: str, expected: int, kind: EventKind
) -> None:
    am = Am(coordinator(app_type=app_type))
    am.asks(row("*", 1, 0, request_id=0))
    am.gets(*am.granted())
    am.asks(row("*", 0, 0, request_id=0))
    am.gets()
    am.attempt.containers.on_event(event(1, kind, reason="the queue is full"), 1.0)
    am.asks()
    assert [c.id for c in am.sent.release] == [1], "released at the ResourceManager with the next request"
    (status,) = am.gets().completed_container_statuses
    assert (status.container_id.id, status.exit_status, status.state) == (1, expected, y.C_COMPLETE)
    assert status.diagnostics == "Not started by quicksilver: the queue is full\n", (
        "frameworks put them one after another"
    )
    am.asks(release=[1])
    assert not am.sent.release, "the application's own release of it is not repeated to the ResourceManager"
    assert not am.gets(completed=[ended(1, -100)]).completed_container_statuses, "and YARN's own status is not told"


@pytest.mark.parametrize(
    ("app_type", "expected"), [("SPARK", -102), ("TEZ", -102), ("MAPREDUCE", -102), ("YARN", -100)]
)
@pytest.mark.parametrize("yarn_says", [-105, 143, 137])
def test_killed_for_room_is_not_the_tasks_fault(app_type: str, expected: int, yarn_says: int) -> None:
    am = Am(coordinator(app_type=app_type))
    am.asks(row("*", 1, 0, request_id=0))
    am.gets(*am.granted())
    am.attempt.containers.on_event(event(1, EventKind.STARTED), 1.0)
    am.attempt.containers.on_event(event(1, EventKind.KILLED, reason="makes room for x"), 2.0)
    am.asks(row("*", 0, 0, request_id=0))
    (status,) = am.gets(completed=[ended(1, yarn_says, "Killed")]).completed_container_statuses
    assert status.exit_status == expected
    assert status.diagnostics == f"Preempted by quicksilver on {node_id(1)}: makes room for x. Killed"


def test_yarn_s_word_of_a_kill_may_come_before_the_sidecar_s() -> None:
    world = coordinator(app_type="SPARK")
    am = Am(world)
    am.asks(row("*", 1, 0, request_id=0))
    am.gets(*am.granted())
    am.attempt.containers.on_event(event(1, EventKind.STARTED), 1.0)
    am.asks(row("*", 0, 0, request_id=0))
    assert not am.gets(completed=[ended(1, -105, "Killed")]).completed_container_statuses
    world.reports.report(node_id(1), report(1, events=[event(1, EventKind.KILLED, reason="makes room for x")]), 2.0)
    am.asks(row("*", 1, 0, request_id=0))
    (status,) = am.gets(*am.granted(first=2)).completed_container_statuses
    assert (status.exit_status, status.container_id.id) == (-102, 1)
    assert status.diagnostics == f"Preempted by quicksilver on {node_id(1)}: makes room for x. Killed"
    live = am.attempt.live.get(cid(2))
    assert live is not None and live.retries == 1
    am.asks()
    assert not am.gets(completed=[ended(1, -105)]).completed_container_statuses, "it is told once"


@pytest.mark.parametrize("said", [None, EventKind.ENDED])
def test_what_the_application_stopped_itself_keeps_its_status(said: EventKind | None) -> None:
    world = coordinator(app_type="SPARK")
    am = Am(world)
    am.asks(row("*", 1, 0, request_id=0))
    am.gets(*am.granted())
    am.attempt.containers.on_event(event(1, EventKind.STARTED), 1.0)
    am.asks(row("*", 0, 0, request_id=0))
    assert not am.gets(completed=[ended(1, -105, "stopped")]).completed_container_statuses
    if said is not None:
        world.reports.report(node_id(1), report(1, events=[event(1, said)]), 2.0)
    else:
        world.rounds.all_parts(2.0)
        am.asks()
        assert not am.gets().completed_container_statuses
        world.rounds.all_parts(10.0)
    am.asks()
    (status,) = am.gets().completed_container_statuses
    assert (status.exit_status, status.diagnostics) == (-105, "stopped")


@pytest.mark.parametrize("exit_status", [0, 1, 137, -104])
def test_own_ends_of_queueables_keep_their_status(exit_status: int) -> None:
    am = Am(coordinator(app_type="TEZ"))
    am.asks(row("*", 1, 0, request_id=0))
    am.gets(*am.granted())
    am.asks(row("*", 0, 0, request_id=0))
    (status,) = am.gets(completed=[ended(1, exit_status, "said")]).completed_container_statuses
    assert (status.exit_status, status.diagnostics) == (exit_status, "said")


def test_guaranteed_ends_are_never_touched() -> None:
    am = Am(coordinator({**ALL_Q, "routes": [{"policy": "only_g"}]}, app_type="TEZ"))
    asked = row("*", 1, 2, request_id=0)
    am.asks(asked)
    am.gets(container(1, 1, asked))
    am.asks(row("*", 0, 2, request_id=0))
    answer = y.AllocateResponseProto(response_id=9, completed_container_statuses=[ended(1, -100, "lost node")])
    assert am.attempt.exchange.on_answer(answer.SerializeToString(), 3.0) is None


def test_refused_by_the_node_manager_is_a_failure_with_its_text() -> None:
    am = Am(coordinator(app_type="SPARK"))
    am.asks(row("*", 1, 0, request_id=0))
    am.gets(*am.granted())
    (status,) = lose(am, 1, EventKind.FAILED, "The auxService:nope does not exist")
    assert status.exit_status == 1
    assert "nope does not exist" in status.diagnostics


def test_stopped_while_it_waited_completes_once_as_stopped() -> None:
    am = Am(coordinator(app_type="TEZ"))
    am.asks(row("*", 1, 0, request_id=0))
    am.gets(*am.granted())
    am.asks(row("*", 0, 0, request_id=0), release=[1])
    am.gets()
    (status,) = lose(am, 1, EventKind.STOPPED)
    assert status.exit_status == -105
    assert not am.sent.release, "Tez released it itself already"
    am.asks()
    assert not am.gets(completed=[ended(1, -100)]).completed_container_statuses


# Tez: headroom


def test_tez_sees_room_for_its_next_ask_while_a_node_has_it() -> None:
    am = Am(coordinator(app_type="TEZ"))
    am.asks()
    am.gets(limit=capability(8192, 8))
    am.asks(row("*", 2, 3, size=capability(2048, 2)))  # no grant comes: it stays asked for
    assert am.gets(limit=capability(0, 0)).limit == capability(2048, 2)
    for number in (1, 2, 3):
        am.world.reports.report(node_id(number), report(number, used_g_mb=8000, used_g_vcores=8), am.now_s)
    am.asks()
    assert am.gets(limit=capability(0, 0)).limit == capability(0, 0)


def test_tez_headroom_is_left_alone_without_queueable_asks() -> None:
    am = Am(coordinator(app_type="TEZ"))
    am.asks(row("*", 1, 3, request_id=0))
    am.gets(*am.granted())
    am.asks(row("*", 0, 3, request_id=0))
    assert am.gets(limit=capability(0, 0)).limit.memory == 0


# Distributed shell: a request id for each container, guaranteed and opportunistic ones mixed


def test_shell_every_container_has_its_own_request_id() -> None:
    am = Am(coordinator(app_type="YARN"))
    asked = [row("*", 1, 0, request_id=n, opportunistic=n % 2 == 1) for n in range(4)]
    am.asks(*asked)
    seen = am.gets(*am.granted()).allocated_containers
    assert [(c.allocation_request_id, c.execution_type) for c in seen] == [(0, 1), (1, 2), (2, 1), (3, 2)]
    assert am.asks(*(row("*", 0, 0, request_id=n, opportunistic=n % 2 == 1) for n in range(4))) == []
    assert am.attempt.entries == []


def test_shell_guaranteed_and_opportunistic_of_one_id_are_different_asks() -> None:
    am = Am(coordinator({**ALL_Q, "routes": [{"policy": "only_g"}]}, app_type="YARN"))
    asked = [row("*", 1, 0, request_id=7), row("*", 1, 0, request_id=7, opportunistic=True)]
    sent = am.asks(*asked)
    assert shown(sent)[0] == ("*", 1, "G", 7)
    assert [s[2] for s in shown(sent)[1:]] == ["Q", "Q"]
    (queueable,) = am.granted()
    seen = am.gets(container(9, 2, asked[0]), queueable).allocated_containers
    assert [(c.allocation_request_id, c.execution_type) for c in seen] == [(7, 1), (7, 2)]


def test_shell_retries_after_minus_100() -> None:
    am = Am(coordinator(app_type="YARN"))
    am.asks(row("*", 1, 0, request_id=0))
    am.gets(*am.granted())
    am.asks(row("*", 0, 0, request_id=0))
    am.gets()
    assert [s.exit_status for s in lose(am, 1, EventKind.SHED)] == [-100]
    assert len(granted_rows(am.asks(row("*", 1, 0, request_id=0)))) == 1
