"""Checks of invalid messages that protobuf reads: strings that are not UTF-8, which it returns as bytes, and
messages without required fields, which cannot be written again."""

from __future__ import annotations

from google.protobuf.message import DecodeError, Message

from hadoop_rpc.protos import yarn_pb2 as y


def check_request(request: y.AllocateRequestProto) -> None:
    """Check the names in a request that the proxy uses. Raises DecodeError."""
    _check_whole(request)
    for row in request.ask:
        _check(row.resource_name, "a resource name")
        _check(row.node_label_expression, "a node label")
    blacklist = request.blacklist_request
    if not blacklist.ByteSize():  # AMRMClient sends an empty one with each request
        return
    for name in (*blacklist.blacklist_additions, *blacklist.blacklist_removals):
        _check(name, "a name on the blacklist")


def check_answer(answer: y.AllocateResponseProto) -> None:
    """Check the names in an answer that the proxy uses. Raises DecodeError."""
    _check_whole(answer)
    for container in answer.allocated_containers:
        _check(container.nodeId.host, "a host")
    for report in answer.updated_nodes:
        _check(report.nodeId.host, "a host")


def _check_whole(message: Message) -> None:
    if not message.IsInitialized():
        raise DecodeError("it lacks required fields")


def _check(text: object, name: str) -> None:
    if not isinstance(text, str):
        raise DecodeError(f"{name} is not UTF-8")
