"""YARN's identifiers as text, and quicksilver's private allocation request ids."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y

MAX_REMEMBERED: Final = 65_536
"""Container ids whose application and attempt are remembered: each report names all of its node again."""
_LOW_BITS: Final = 32
_AS_OPPORTUNISTIC: Final = 1 << _LOW_BITS
_SERIAL_SHIFT: Final = _LOW_BITS + 1
MAX_REQUEST_ID: Final = (1 << 31) - 2
"""The largest request id of an application that fits into a private one; larger ones go guaranteed."""
REQUEST_IDS: Final = "-1..2^31-2"
"""The request ids that `fits` allows, in words."""
MAX_SERIAL: Final = (1 << 30) - 1


def attempt_id_text(attempt: y.ApplicationAttemptIdProto) -> str:
    """Return `appattempt_TIMESTAMP_NNNN_NNNNNN`."""
    app = attempt.application_id
    return f"appattempt_{app.cluster_timestamp}_{app.id:04d}_{attempt.attemptId:06d}"


def attempt_id_proto(attempt_id: str) -> y.ApplicationAttemptIdProto:
    """Return the message of `appattempt_T_N_A`."""
    _, timestamp, number, attempt = attempt_id.split("_")
    proto = y.ApplicationAttemptIdProto(attemptId=int(attempt))
    proto.application_id.id, proto.application_id.cluster_timestamp = int(number), int(timestamp)
    return proto


def container_id_text(container: y.ContainerIdProto) -> str:
    """Return `container_[eNN_]TIMESTAMP_NNNN_NN_NNNNNN`; the epoch is in the id's upper bits (ContainerId)."""
    attempt = container.app_attempt_id
    app = attempt.application_id
    epoch, number = container.id >> 40, container.id & 0xFFFFFFFFFF
    prefix = f"e{epoch:02d}_" if epoch > 0 else ""
    return f"container_{prefix}{app.cluster_timestamp}_{app.id:04d}_{attempt.attemptId:02d}_{number:06d}"


@lru_cache(MAX_REMEMBERED)
def app_of_attempt(attempt_id: str) -> str:
    """Return the application's id of `appattempt_T_N_A`."""
    _, timestamp, number, _ = attempt_id.split("_")
    return f"application_{timestamp}_{number}"


@lru_cache(MAX_REMEMBERED)
def app_of_container(container_id: str) -> str:
    """Return the application's id of `container_[eNN_]T_N_A_C`; "" when it is not a container id."""
    parts = container_id.split("_")
    return f"application_{parts[-4]}_{parts[-3]}" if len(parts) in (5, 6) and parts[0] == "container" else ""


@lru_cache(MAX_REMEMBERED)
def attempt_of_container(container_id: str) -> str:
    """Return the attempt's id of `container_[eNN_]T_N_A_C`; "" when it is not a container id."""
    parts = container_id.split("_")
    if len(parts) not in (5, 6) or parts[0] != "container" or not parts[-2].isdigit():
        return ""
    return f"appattempt_{parts[-4]}_{parts[-3]}_{int(parts[-2]):06d}"


def is_earlier(attempt_id: str, other_id: str) -> bool:
    """Return whether an attempt comes before another one of the same application."""
    return int(attempt_id.rpartition("_")[2]) < int(other_id.rpartition("_")[2])


def container_id_proto(container_id: str) -> y.ContainerIdProto:
    """Return the message of `container_[eNN_]T_N_A_C`; raises ValueError when it is not a container id."""
    parts = container_id.split("_")
    if len(parts) not in (5, 6) or parts[0] != "container":
        raise ValueError(f"{container_id!r} is not a container id")
    epoch = int(parts[1].removeprefix("e")) if len(parts) == 6 else 0
    timestamp, app, attempt, number = (int(part) for part in parts[-4:])
    proto = y.ContainerIdProto(id=epoch << 40 | number)
    proto.app_attempt_id.attemptId = attempt
    proto.app_attempt_id.application_id.id = app
    proto.app_attempt_id.application_id.cluster_timestamp = timestamp
    return proto


def node_id_text(node: y.NodeIdProto) -> str:
    """Return `host:port`."""
    return f"{node.host}:{node.port}"


def copied(container: y.ContainerIdProto) -> y.ContainerIdProto:
    """Return a copy that outlives the message it stands in."""
    out = y.ContainerIdProto()
    out.CopyFrom(container)
    return out


def private_id(serial: int, request_id: int, as_opportunistic: bool) -> int:
    """Return the private request id of a queueable container.

    The application's own id and whether it asked for OPPORTUNISTIC itself can be read back without any state.
    """
    return (serial << _SERIAL_SHIFT) | (_AS_OPPORTUNISTIC if as_opportunistic else 0) | (request_id + 1)


def is_private(request_id: int) -> bool:
    """Return whether a request id may be one of ours (serials start at 1)."""
    return request_id >> _SERIAL_SHIFT > 0


def is_instead(request_id: int) -> bool:
    """Return whether a guaranteed container of this request id may be one in place of an OPPORTUNISTIC one."""
    return is_private(request_id) and asked_opportunistic(request_id)


def serial_of(private: int) -> int:
    """Return the number that a private request id was made of."""
    return private >> _SERIAL_SHIFT


def original_id(private: int) -> int:
    """Return the application's request id; -1 when it had set none."""
    return (private & ((1 << _LOW_BITS) - 1)) - 1


def original(private: int) -> tuple[int, bool]:
    """Return the application's request id, and whether it had asked for an OPPORTUNISTIC container itself."""
    return (private & ((1 << _LOW_BITS) - 1)) - 1, bool(private & _AS_OPPORTUNISTIC)


def asked_opportunistic(private: int) -> bool:
    """Return whether the application itself had asked for an OPPORTUNISTIC container."""
    return bool(private & _AS_OPPORTUNISTIC)
