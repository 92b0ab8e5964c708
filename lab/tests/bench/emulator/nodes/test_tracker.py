"""What an emulated NodeManager tells the ResourceManager, and what it makes of the answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos import yarn_server_pb2 as s
from quicksilver_lab.bench.emulator.nodes.nm import NodeManager
from quicksilver_lab.bench.emulator.nodes.nm_events import (
    KILLED_BY_RESOURCEMANAGER,
    AppOver,
    Exited,
    Launched,
    Limited,
    NmAsked,
    NmKillOver,
    NmSize,
    NmStart,
    NmStop,
    Retyped,
)
from quicksilver_lab.bench.emulator.nodes.tracker import ReportRelay, Tracker, TurnedAwayError
from sidecar.gate.start_messages import application_id, container_id, container_proto

APP = application_id(1700000000000, 7)
A, B, C = (f"container_1700000000000_0007_01_00000{number}" for number in (1, 2, 3))


def tracker(slots: int = 2, queue: int = 5) -> Tracker:
    made = Tracker("127.64.0.1:19100", NodeManager(NmSize(1024 * slots, slots), queue), 8042)
    answer = s.RegisterNodeManagerResponseProto(nodeAction=s.NORMAL, rm_identifier=42)
    answer.container_token_master_key.key_id, answer.container_token_master_key.bytes = 5, b"key"
    answer.nm_token_master_key.key_id, answer.nm_token_master_key.bytes = 6, b"nmkey"
    made.registered(answer)
    return made


def start(made: Tracker, name: str, opportunistic: bool = False) -> None:
    made.nm.handle(NmStart(NmAsked(name, APP, NmSize(1024, 1), opportunistic, 2.0), 0))


def beat(made: Tracker) -> s.NodeHeartbeatRequestProto:
    return s.NodeHeartbeatRequestProto.FromString(made.heartbeat())


def statuses(made: Tracker) -> dict[str, y.ContainerStatusProto]:
    return {container_id(one.container_id): one for one in beat(made).node_status.containersStatuses}


def ok(made: Tracker, response_id: int = 1) -> None:
    made.answered(s.NodeHeartbeatResponseProto(response_id=response_id, nodeAction=s.NORMAL), 1)


def test_a_node_registers_with_its_size() -> None:
    request = Tracker("127.64.0.1:19100", NodeManager(NmSize(4096, 4)), 8042).register()
    assert (request.node_id.host, request.node_id.port, request.http_port) == ("127.64.0.1", 19100, 8042)
    assert (request.resource.memory, request.resource.virtual_cores, request.nm_version) == (4096, 4, "3.4.2")
    assert request.nodeStatus.nodeHealthStatus.is_node_healthy and not request.container_statuses


def test_heartbeats_count_up_and_carry_the_keys() -> None:
    made = tracker()
    first = beat(made)
    assert first.node_status.response_id == 0
    assert first.last_known_container_token_master_key.bytes == b"key"
    assert first.last_known_nm_token_master_key.key_id == 6
    made.answered(s.NodeHeartbeatResponseProto(response_id=1, nodeAction=s.NORMAL, tokenSequenceNo=300), 1)
    second = beat(made)
    assert (second.node_status.response_id, second.tokenSequenceNo) == (1, 300)
    assert made.answered(s.NodeHeartbeatResponseProto(response_id=2, nextHeartBeatInterval=3000), 1).interval_s == 3


def test_the_queue_is_told_as_it_is() -> None:
    made = tracker(slots=2)
    start(made, A, opportunistic=True)
    start(made, B, opportunistic=True)
    start(made, C, opportunistic=True)
    status = beat(made).node_status.opportunistic_containers_status
    assert (status.running_opport_containers, status.opport_memory_used, status.opport_cores_used) == (2, 2, 2)
    assert (status.queued_opport_containers, status.wait_queue_length, status.opport_queue_capacity) == (1, 1, 5)
    assert not status.HasField("estimated_queue_wait_time")
    told = statuses(made)
    assert {name: told[name].container_sub_state for name in (A, B, C)} == dict.fromkeys((A, B, C), y.CSS_SCHEDULED)
    made.nm.handle(Launched(A, 1))
    assert statuses(made)[A].container_sub_state == y.CSS_RUNNING
    assert all(one.state == y.C_RUNNING and one.executionType == y.OPPORTUNISTIC for one in told.values())


def test_an_end_is_told_once_and_forgotten_when_it_is_acknowledged() -> None:
    made = tracker()
    start(made, A)
    made.nm.handle(Launched(A, 0))
    made.nm.handle(Exited(A, 2))
    told = statuses(made)[A]
    assert (told.state, told.exit_status, told.capability.memory) == (y.C_COMPLETE, 0, 1024)
    ok(made)
    assert A not in statuses(made) and A in made.nm.containers
    answer = s.NodeHeartbeatResponseProto(response_id=2, containers_to_be_removed_from_nm=[container_proto(A)])
    made.answered(answer, 1)
    assert A not in made.nm.containers


def test_an_end_is_told_again_when_an_answer_was_lost() -> None:
    made = tracker()
    start(made, A)
    made.nm.handle(Launched(A, 0))
    made.nm.handle(Exited(A, 2))
    assert A in statuses(made)
    made.missed()
    assert A in statuses(made)
    ok(made)
    assert A in statuses(made)  # the answered one may have been taken for a repetition of the lost one
    ok(made, 2)
    assert A not in statuses(made)


def test_what_is_acknowledged_before_its_end_goes_when_it_has_ended() -> None:
    made = tracker()
    start(made, A)
    made.answered(s.NodeHeartbeatResponseProto(response_id=1, containers_to_be_removed_from_nm=[container_proto(A)]), 1)
    assert A in made.nm.containers
    made.nm.handle(Launched(A, 0))
    made.nm.handle(Exited(A, 2))
    ok(made, 2)
    assert A not in made.nm.containers


def test_what_the_resource_manager_wants_becomes_events() -> None:
    answer = s.NodeHeartbeatResponseProto(response_id=1, containers_to_cleanup=[container_proto(A)])
    answer.applications_to_cleanup.add(id=7, cluster_timestamp=1700000000000)
    answer.containers_to_update.add(id=container_proto(B), execution_type=y.GUARANTEED)
    answer.container_queuing_limit.max_queue_length = 3
    assert tracker().answered(answer, 9).events == [
        NmStop(A, KILLED_BY_RESOURCEMANAGER, "Container Killed by ResourceManager", 9),
        AppOver(APP, 9),
        Retyped(B, False, 9),
        Limited(3, 9),
    ]


def test_a_node_that_is_not_known_registers_again_with_what_it_runs() -> None:
    made = tracker()
    start(made, A)
    ok(made, 4)
    assert made.answered(s.NodeHeartbeatResponseProto(nodeAction=s.RESYNC), 1).resync
    request = made.register()
    assert [container_id(one.container_id) for one in request.container_statuses] == [A]
    assert [(app.id, app.cluster_timestamp) for app in request.runningApplications] == [(7, 1700000000000)]
    made.registered(s.RegisterNodeManagerResponseProto(nodeAction=s.NORMAL, rm_identifier=43))
    assert beat(made).node_status.response_id == 0 and made.rm_identifier == 43


def test_an_ended_container_of_an_application_that_is_over_is_told_and_forgotten() -> None:
    made = tracker()
    start(made, A)
    made.nm.handle(Launched(A, 0))
    made.nm.handle(Exited(A, 2))
    made.nm.handle(AppOver(APP, 2))
    assert A in statuses(made) and A not in made.nm.containers
    ok(made)
    assert not statuses(made)


def test_another_size_is_taken_over() -> None:
    made = tracker()
    answer = s.NodeHeartbeatResponseProto(response_id=1)
    answer.resource.memory, answer.resource.virtual_cores = 512, 1
    made.answered(answer, 1)
    assert made.nm.capacity == NmSize(512, 1)


def test_a_node_that_is_turned_away_says_so() -> None:
    with pytest.raises(TurnedAwayError, match=r"127\.64\.0\.1:19100 is turned away: too small"):
        tracker().registered(s.RegisterNodeManagerResponseProto(nodeAction=s.SHUTDOWN, diagnostics_message="too small"))
    with pytest.raises(TurnedAwayError, match="excluded"):
        tracker().answered(s.NodeHeartbeatResponseProto(nodeAction=s.SHUTDOWN, diagnostics_message="excluded"), 1)


def test_behind_the_relay_the_resource_manager_sees_less_and_guaranteed_containers() -> None:
    relay = ReportRelay(extra=NmSize(1024, 2), mark_guaranteed=True)
    made = Tracker("127.64.0.1:19100", NodeManager(NmSize(3072, 4), 5), 8042, relay)
    resource = made.register().resource
    assert (resource.memory, resource.virtual_cores) == (2048, 2)
    start(made, A, opportunistic=True)
    made.nm.handle(Launched(A, 0))
    assert statuses(made)[A].executionType == y.GUARANTEED
    made.nm.handle(Exited(A, 2))
    assert statuses(made)[A].executionType == y.OPPORTUNISTIC  # its master is told this one
    answer = s.NodeHeartbeatResponseProto(response_id=1)
    answer.resource.memory, answer.resource.virtual_cores = 512, 1
    made.answered(answer, 1)
    assert made.nm.capacity == NmSize(1536, 3)


@given(st.lists(st.sampled_from(["start", "end", "answered", "lost", "acknowledged"]), max_size=40))
def test_every_end_arrives_whatever_answers_are_lost_and_nothing_is_kept(steps: list[str]) -> None:
    made, number, at = tracker(slots=100), 0, 0
    running: list[str] = []
    ended: set[str] = set()
    arrived: set[str] = set()

    def beat_once(heard: bool, acks: frozenset[str] = frozenset()) -> None:
        nonlocal at
        told = statuses(made)
        assert set(running) <= told.keys()
        if not heard:
            made.missed()
            return
        arrived.update(name for name, one in told.items() if one.state == y.C_COMPLETE)
        at += 1
        gone = [container_proto(name) for name in acks]
        made.answered(s.NodeHeartbeatResponseProto(response_id=at, containers_to_be_removed_from_nm=gone), 1)

    for step in steps:
        if step == "start":
            number += 1
            running.append(f"container_1700000000000_0007_01_{number:06d}")
            start(made, running[-1])
        elif step == "end" and running:
            name = running.pop(0)
            made.nm.handle(Launched(name, 0))
            made.nm.handle(Exited(name, 2))
            ended.add(name)
        elif step == "acknowledged":
            beat_once(True, frozenset(arrived))
        else:
            beat_once(step == "answered")
    beat_once(True)
    beat_once(True)
    assert arrived == ended
    beat_once(True, frozenset(ended))
    assert set(made.nm.containers) == set(running)
    made.nm.handle(AppOver(APP, 3))
    for name in running:
        made.nm.handle(NmKillOver(name, 3))
    running.clear()
    beat_once(True)
    assert not made.nm.containers and not statuses(made)
