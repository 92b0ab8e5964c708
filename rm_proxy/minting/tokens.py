"""Container tokens and NMTokens, made as the ResourceManager makes them.

The NodeManager computes the password over the identifier as it would write it: fields in the order of their numbers,
as protobuf's serialiser writes them (BaseContainerTokenSecretManager, BaseNMTokenSecretManager: HMAC-SHA1).
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import TokenProto

CONTAINER_TOKEN: Final = "ContainerToken"
NM_TOKEN: Final = "NMToken"


@dataclass(frozen=True, slots=True)
class MasterKey:
    """One master key of the ResourceManager, the same for all nodes; its secret has 8 bytes in Hadoop."""

    key_id: int
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class NodeKeys:
    """The keys that a NodeManager accepts now, and what else the tokens for it name."""

    container: MasterKey
    nm: MasterKey
    rm_identifier: int
    """The start time of the ResourceManager at which it registered, in milliseconds; 0 where that is not known."""
    service: str = ""
    """`ip:port`, as clients dial it; "" where the node's id serves."""


@dataclass(frozen=True, slots=True)
class Minted:
    """A container of our own with its tokens."""

    container: y.ContainerProto
    nm_token: y.NMTokenProto
    nm_key_id: int

    @property
    def report(self) -> bytes:
        """The container as the ResourceManager gets to know it: without its token, which nobody reads there."""
        known = y.ContainerProto()
        known.CopyFrom(self.container)
        known.ClearField("container_token")
        return known.SerializeToString()


def add_container_token(
    container: y.ContainerProto, user: str, label: str, keys: NodeKeys, now_s: float, expiry_s: float
) -> None:
    """Give an OPPORTUNISTIC container its token.

    user: who submitted the application; label: the node's partition; expiry_s: how long after `now_s` it may start.
    """
    node = f"{container.nodeId.host}:{container.nodeId.port}"
    identifier = y.ContainerTokenIdentifierProto(
        containerId=container.id,
        nmHostAddr=node,
        appSubmitter=user,
        resource=container.resource,
        expiryTimeStamp=round((now_s + expiry_s) * 1000),
        masterKeyId=keys.container.key_id,
        rmIdentifier=keys.rm_identifier,
        priority=container.priority,
        creationTime=round(now_s * 1000),
        nodeLabelExpression=label,
        containerType=y.TASK,
        executionType=y.OPPORTUNISTIC,
        version=0,
        allocation_request_id=container.allocation_request_id,
    ).SerializeToString()
    _sign(container.container_token, identifier, keys.container, CONTAINER_TOKEN, keys.service or node)


def nm_token(attempt: y.ApplicationAttemptIdProto, node: y.NodeIdProto, user: str, keys: NodeKeys) -> y.NMTokenProto:
    """Return the token with which an application attempt logs in at a NodeManager."""
    identifier = y.NMTokenIdentifierProto(
        appAttemptId=attempt, nodeId=node, appSubmitter=user, keyId=keys.nm.key_id
    ).SerializeToString()
    out = y.NMTokenProto(nodeId=node)
    _sign(out.token, identifier, keys.nm, NM_TOKEN, keys.service or f"{node.host}:{node.port}")
    return out


def _sign(token: TokenProto, identifier: bytes, key: MasterKey, kind: str, service: str) -> None:
    token.identifier, token.kind, token.service = identifier, kind, service
    token.password = hmac.digest(key.secret, identifier, "sha1")
