"""Tokens of our own against the way in which Hadoop checks them."""

from __future__ import annotations

import hashlib
import hmac

from hadoop_rpc.protos import yarn_pb2 as y
from rm_proxy.minting.tokens import MasterKey, NodeKeys, add_container_token, nm_token
from tests.rm_proxy.yarn_messages import container_proto

KEYS = NodeKeys(MasterKey(-7, b"12345678"), MasterKey(9, b"abcdefgh"), 1_700_000_000_000, "127.0.0.5:8041")


def container() -> y.ContainerProto:
    proto = y.ContainerProto(id=container_proto(5), execution_type=y.OPPORTUNISTIC, allocation_request_id=77)
    proto.nodeId.host, proto.nodeId.port = "host1", 8041
    proto.priority.priority = 20
    proto.resource.memory, proto.resource.virtual_cores = 1024, 1
    return proto


def test_a_container_token_is_signed_and_names_all_that_the_nodemanager_checks() -> None:
    grant = container()
    add_container_token(grant, "alice", "gpu", KEYS, 1_700_000_100.5, 600.0)
    token = grant.container_token
    assert token.password == hmac.new(b"12345678", token.identifier, hashlib.sha1).digest()
    assert (token.kind, token.service) == ("ContainerToken", "127.0.0.5:8041")
    known = y.ContainerTokenIdentifierProto.FromString(token.identifier)
    assert known.containerId == grant.id and known.nmHostAddr == "host1:8041"
    assert (known.appSubmitter, known.nodeLabelExpression) == ("alice", "gpu")
    assert (known.masterKeyId, known.rmIdentifier) == (-7, 1_700_000_000_000)
    assert (known.creationTime, known.expiryTimeStamp) == (1_700_000_100_500, 1_700_000_700_500)
    assert (known.executionType, known.allocation_request_id, known.version) == (y.OPPORTUNISTIC, 77, 0)
    assert known.resource == grant.resource and known.priority.priority == 20


def test_an_nm_token_logs_the_attempt_in_at_its_node() -> None:
    grant = container()
    token = nm_token(grant.id.app_attempt_id, grant.nodeId, "alice", KEYS)
    known = y.NMTokenIdentifierProto.FromString(token.token.identifier)
    assert token.token.password == hmac.new(b"abcdefgh", token.token.identifier, hashlib.sha1).digest()
    assert (known.keyId, known.appSubmitter, known.nodeId) == (9, "alice", grant.nodeId)
    assert (token.nodeId, token.token.kind) == (grant.nodeId, "NMToken")


def test_no_secret_shows_in_text() -> None:
    assert "12345678" not in repr(KEYS) and "abcdefgh" not in str(KEYS)
