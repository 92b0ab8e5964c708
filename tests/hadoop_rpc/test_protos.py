"""The messages, read from recorded bytes, and Hadoop's numbers where a wrong one would go unnoticed."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.unknown_fields import UnknownFieldSet

from hadoop_rpc.connection import NM_PROTOCOL, Call, ClientConnection, Response, ServerConnection
from hadoop_rpc.protos import rpc_pb2, yarn_client_pb2, yarn_pb2, yarn_server_pb2

Bodies = dict[str, list[tuple[bytes, bytes]]]


def bodies(chunks: list[tuple[str, bytes]]) -> Bodies:
    """Return what was asked and answered, by method."""
    calls: dict[int, Call] = {}
    found: Bodies = {}
    server, client = ServerConnection(), ClientConnection()
    for who, data in chunks:
        for event in (server if who == "client" else client).receive_data(data):
            if isinstance(event, Call):
                calls[event.call_id] = event
            if isinstance(event, Response):
                call = calls[event.call_id]
                found.setdefault(call.method, []).append((call.body, event.body))
    return found


@pytest.fixture
def said(recorded: Callable[[str], Any]) -> Callable[[str], Bodies]:
    return lambda name: bodies(recorded(name).chunks)


def test_grants_of_both_execution_types(said: Callable[[str], Bodies]) -> None:
    conversation = said("am_grants")["allocate"]
    ask = yarn_pb2.AllocateRequestProto.FromString(conversation[0][0]).ask
    assert [(row.priority.priority, row.num_containers, row.resource_name) for row in ask] == [
        (20, 1, "*"),
        (30, 1, "*"),
    ]
    assert ask[1].execution_type_request.execution_type == yarn_pb2.OPPORTUNISTIC
    assert ask[1].execution_type_request.enforce_execution_type
    assert [row.allocation_request_id for row in ask] == [-1, 7]
    answers = [yarn_pb2.AllocateResponseProto.FromString(answer) for _, answer in conversation]
    granted = [container for answer in answers for container in answer.allocated_containers]
    by_type = {container.execution_type: container for container in granted}
    assert sorted(by_type) == [yarn_pb2.GUARANTEED, yarn_pb2.OPPORTUNISTIC]
    queued = by_type[yarn_pb2.OPPORTUNISTIC]
    assert (queued.allocation_request_id, queued.priority.priority, queued.resource.memory) == (7, 30, 256)
    identifier = yarn_pb2.ContainerTokenIdentifierProto.FromString(queued.container_token.identifier)
    assert identifier.containerId == queued.id
    assert identifier.executionType == yarn_pb2.OPPORTUNISTIC
    assert identifier.nmHostAddr == f"{queued.nodeId.host}:{queued.nodeId.port}"
    assert identifier.resource.virtual_cores == 1
    assert 600_000 <= identifier.expiryTimeStamp - identifier.creationTime < 601_000
    tokens = [token for answer in answers for token in answer.nm_tokens]
    named = yarn_pb2.NMTokenIdentifierProto.FromString(tokens[0].token.identifier)
    assert (named.nodeId, named.appAttemptId) == (tokens[0].nodeId, queued.id.app_attempt_id)
    ended = [status for answer in answers for status in answer.completed_container_statuses]
    assert {status.container_id.id for status in ended} == {container.id.id for container in granted}
    assert [answer.response_id for answer in answers] == list(range(1, len(answers) + 1))


def test_starts_status_and_stops(said: Callable[[str], Bodies]) -> None:
    conversation = said("nm_containers")
    (start, started), (again, refused) = conversation["startContainers"]
    requests = yarn_pb2.StartContainersRequestProto.FromString(start).start_container_request
    assert [list(request.container_launch_context.command) for request in requests] == [["sleep 30"]] * 2
    assert requests[0].container_launch_context.service_data[0].key == "mapreduce_shuffle"
    assert requests[0].container_token.kind == "ContainerToken"
    assert again == start
    answer = yarn_pb2.StartContainersResponseProto.FromString(started)
    assert [item.key for item in answer.services_meta_data] == ["mapreduce_shuffle"]
    assert len(answer.succeeded_requests) == 2 and not answer.failed_requests
    failed = yarn_pb2.StartContainersResponseProto.FromString(refused).failed_requests
    assert len(failed) == 2
    assert "Attempt to relaunch the same container" in failed[0].exception.message
    assert failed[0].exception.class_name == "org.apache.hadoop.yarn.exceptions.YarnException"
    [(_, statuses)] = conversation["getContainerStatuses"]
    for status in yarn_pb2.GetContainerStatusesResponseProto.FromString(statuses).status:
        assert (status.state, status.container_sub_state) == (yarn_pb2.C_RUNNING, yarn_pb2.CSS_RUNNING)
        assert status.exit_status == -1000
    [(_, stopped)] = conversation["stopContainers"]
    assert len(yarn_pb2.StopContainersResponseProto.FromString(stopped).succeeded_requests) == 2


@pytest.mark.parametrize("name", ["am_auth", "am_grants", "nm_containers"])
def test_recorded_messages_survive_a_round_trip(said: Callable[[str], Bodies], name: str) -> None:
    """Fields that the subset leaves out are still there after reading and writing."""
    for method, exchanges in said(name).items():
        title = method[0].upper() + method[1:]
        request, response = getattr(yarn_pb2, f"{title}RequestProto"), getattr(yarn_pb2, f"{title}ResponseProto")
        for asked, answered in exchanges:
            for kind, body in ((request, asked), (response, answered)):
                written = kind.FromString(body).SerializeToString()
                assert len(written) == len(body)
                assert kind.FromString(written) == kind.FromString(body)


def test_left_out_fields_are_kept_as_unknown() -> None:
    collector = b"\x72\x06\x0a\x04host"  # AllocateResponseProto.collector_info = 14, which is not declared
    message = yarn_pb2.AllocateResponseProto.FromString(b"\x10\x05" + collector)
    fields = UnknownFieldSet(message)
    assert (len(fields), fields[0].field_number) == (1, 14)
    message.response_id = 6
    assert message.SerializeToString() == b"\x10\x06" + collector


def test_node_manager_protocol_is_what_nodes_are_told(recorded: Callable[[str], Any]) -> None:
    server = ServerConnection()
    events = [e for who, data in recorded("nm_containers").chunks if who == "client" for e in server.receive_data(data)]
    assert {event.protocol for event in events if isinstance(event, Call)} == {NM_PROTOCOL}


@pytest.mark.parametrize(
    ("message", "numbers"),
    [
        (yarn_pb2.ResourceRequestProto, [1, 2, 3, 4, 5, 6, 7, 8]),
        (yarn_pb2.AllocateRequestProto, [1, 2, 3, 4, 5, 7, 10, 11]),
        (yarn_pb2.AllocateResponseProto, [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 18]),
        (yarn_pb2.ContainerProto, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
        (yarn_pb2.ContainerTokenIdentifierProto, [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16]),
        (yarn_client_pb2.ApplicationSubmissionContextProto, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 19]),
        (yarn_server_pb2.NodeStatusProto, [1, 2, 3, 4, 9]),
        (yarn_server_pb2.RegisterNodeManagerRequestProto, [1, 3, 4, 5, 6, 7, 9, 12]),
        (yarn_server_pb2.RegisterNodeManagerResponseProto, [1, 2, 3, 4, 5, 6, 8]),
        (yarn_server_pb2.NodeHeartbeatRequestProto, [1, 2, 3, 8]),
        (yarn_server_pb2.NodeHeartbeatResponseProto, [1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 15, 17, 19]),
    ],
)
def test_field_numbers(message: Any, numbers: list[int]) -> None:
    descriptor: Descriptor = message.DESCRIPTOR
    assert sorted(field.number for field in descriptor.fields) == numbers
    assert descriptor.full_name.startswith("hadoop.yarn.")


def test_generated_code_is_in_step(tmp_path: Path) -> None:
    root = Path(yarn_pb2.__file__).parent.parent.parent
    files = [f"hadoop_rpc/protos/{name}.proto" for name in ("rpc", "yarn", "yarn_client", "yarn_server")]
    modules = (rpc_pb2, yarn_pb2, yarn_client_pb2, yarn_server_pb2)
    out = tmp_path / "set"
    argv = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--descriptor_set_out={out}", *files]
    subprocess.run(argv, cwd=root, check=True, capture_output=True)
    compiled = {file.name: file for file in FileDescriptorSet.FromString(out.read_bytes()).file}
    for name, module in zip(files, modules, strict=True):
        committed = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        compiled[name].ClearField("source_code_info")
        for field in (*compiled[name].message_type, *committed.message_type):
            _without_json_names(field)
        assert committed == compiled[name], f"{name} was changed: run `make protos`"


def _without_json_names(message: DescriptorProto) -> None:
    for field in message.field:
        field.ClearField("json_name")
    for nested in message.nested_type:
        _without_json_names(nested)


def test_defaults_are_hadoops() -> None:
    assert yarn_pb2.ResourceRequestProto().allocation_request_id == -1
    assert yarn_pb2.ResourceRequestProto().relax_locality is True
    assert yarn_pb2.ContainerProto().execution_type == yarn_pb2.GUARANTEED
    assert yarn_pb2.ContainerStatusProto().exit_status == -1000
