"""Events that a connection makes of received bytes; each but `Opaque` has the bytes that it came as (`raw`).

Call and Response come with every heartbeat: they are named tuples, which are made three times as fast as frozen
dataclasses.
"""

from dataclasses import dataclass
from typing import NamedTuple

from hadoop_rpc.protos.rpc_pb2 import RpcSaslProto

__all__ = [
    "CONTEXT_CALL_ID",
    "PING_CALL_ID",
    "SASL_CALL_ID",
    "Call",
    "ClientEvent",
    "ConnectionContext",
    "Failure",
    "Opaque",
    "Ping",
    "Preamble",
    "Response",
    "SaslFrame",
    "ServerEvent",
]

CONTEXT_CALL_ID = -3
PING_CALL_ID = -4
SASL_CALL_ID = -33


@dataclass(frozen=True, slots=True)
class Preamble:
    """The 7 bytes that open a connection. `auth_protocol`: AUTH_NONE (0) or AUTH_SASL (0xDF)."""

    service_class: int
    auth_protocol: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class SaslFrame:
    """One step of a SASL handshake, from either side. `state`: a value of RpcSaslProto.SaslState."""

    call_id: int
    state: int
    message: RpcSaslProto
    raw: bytes


@dataclass(frozen=True, slots=True)
class ConnectionContext:
    """The protocol that the client will speak, and its user: "" when the token or ticket names it."""

    protocol: str
    user: str
    raw: bytes


class Call(NamedTuple):
    """One request. `body`: the serialized parameter message; `raw`: the whole frame as it came."""

    call_id: int
    client_id: bytes
    retry_count: int
    protocol: str
    method: str
    body: bytes
    raw: bytes
    head_end: int = 0
    """Index in `raw` of the first byte after the two headers, where the length of the body starts."""


@dataclass(frozen=True, slots=True)
class Ping:
    """A client's ping; it has no answer."""

    raw: bytes


class Response(NamedTuple):
    """The answer to a call. `body`: the serialized result; `raw`: the whole frame as it came."""

    call_id: int
    body: bytes
    raw: bytes
    head_end: int = 0
    """Index in `raw` of the first byte after the header, where the length of the body starts."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A call (or with call id -33 a login) that ended in a Java exception; `fatal`: the server closes the connection.

    `code`: a value of RpcResponseHeaderProto.RpcErrorCodeProto, 0 when the server gave none.
    """

    call_id: int
    exception_class: str
    text: str
    fatal: bool
    code: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class Opaque:
    """Bytes of a connection that is passed through unread."""

    data: bytes


ServerEvent = Preamble | SaslFrame | ConnectionContext | Call | Ping | Opaque
"""Events that the accepting side may receive."""

ClientEvent = SaslFrame | Response | Failure | Opaque
"""Events that the dialing side may receive."""
