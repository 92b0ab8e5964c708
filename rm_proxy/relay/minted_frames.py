"""Frames of allocate calls that carry containers of our own (DistributedSchedulingAMProtocol; Mercury §3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hadoop_rpc.connection import (
    AM_PROTOCOL,
    DISTRIBUTED_SCHEDULING_PROTOCOL,
    renumber,
    replace_body,
    replace_method,
)
from hadoop_rpc.events import Call, Response
from hadoop_rpc.protos.yarn_server_pb2 import (
    DistributedSchedulingAllocateRequestProto,
    DistributedSchedulingAllocateResponseProto,
)
from rm_proxy.attempt.early_answers import EarlyCall
from rm_proxy.minting.tokens import Minted

_PLAIN: Final = "allocate"
METHOD: Final = "allocateForDistributedScheduling"


def with_minted(call: Call, body: bytes, minted: Sequence[Minted]) -> bytes:
    """Return the frame of an allocate call, with the serialised request `body`, and the containers that go with it."""
    request = DistributedSchedulingAllocateRequestProto(
        allocate_request=body, allocated_containers=[grant.report for grant in minted]
    )
    return replace_method(call, DISTRIBUTED_SCHEDULING_PROTOCOL, METHOD, request.SerializeToString())


def early_frame(call: Call, early: EarlyCall, call_id: int) -> bytes:
    """Return the frame of a request that was answered early, under an id of ours, made like one of the application
    master's calls."""
    if early.minted:
        raw = with_minted(call, early.body, early.minted)
    else:
        raw = replace_method(call, AM_PROTOCOL, _PLAIN, early.body)
    return renumber(call._replace(raw=raw), call_id)


def without_minted(response: Response) -> Response:
    """Return the answer to such a call as one to an allocate call. Raises DecodeError when it is none."""
    body = DistributedSchedulingAllocateResponseProto.FromString(response.body).allocate_response
    raw = replace_body(response, body)
    return response._replace(body=body, raw=raw)
