"""Container ids as text, and grants as the machine has them."""

from __future__ import annotations

from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver_apps.master.machine.events import ContainerGrant

_EPOCH_BITS: Final = 40


def container_id_text(container_id: y.ContainerIdProto) -> str:
    """Return an id as YARN writes it: `container_e17_1410901177871_0001_01_000005`; e17: the epoch, if any."""
    attempt = container_id.app_attempt_id
    epoch = container_id.id >> _EPOCH_BITS
    number = container_id.id & ((1 << _EPOCH_BITS) - 1)
    start = f"container_e{epoch:02d}" if epoch else "container"
    application = attempt.application_id
    return f"{start}_{application.cluster_timestamp}_{application.id:04d}_{attempt.attemptId:02d}_{number:06d}"


def grant_of(container: y.ContainerProto) -> ContainerGrant:
    """Return a granted container as the machine has it."""
    return ContainerGrant(
        container_id_text(container.id),
        container.priority.priority,
        container.nodeId.host,
        container.nodeId.port,
        container.node_http_address,
    )
