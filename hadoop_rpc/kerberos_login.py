"""Login at a Hadoop server by Kerberos: SASL with the mechanism GSSAPI (RFC 4752), for authentication alone."""

from collections.abc import Callable
from typing import Protocol

from hadoop_rpc.connection import AUTH_SASL, ClientConnection, ClientEvent, Failure, SaslFrame
from hadoop_rpc.errors import LocalProtocolError, LoginRefusedError, RemoteProtocolError
from hadoop_rpc.protos.rpc_pb2 import RpcSaslProto

__all__ = ["GssContext", "KerberosLogin"]

_AUTH_ONLY = 1
_CHOICE = bytes((_AUTH_ONLY, 0, 0, 0))
"""No security layer, so that no size of a buffer is needed (RFC 4752, 3.1)."""


class GssContext(Protocol):
    """A handshake of GSSAPI with one service."""

    complete: bool
    """Whether the server has proven itself."""

    def step(self, token: bytes = b"") -> bytes:
        """Return our next token, which answers the server's."""

    def wrap(self, data: bytes) -> bytes:
        """Return data signed."""

    def unwrap(self, data: bytes) -> bytes:
        """Return what the server signed."""

    def close(self) -> None:
        """Free what the handshake holds."""


class KerberosLogin:
    """Drives one login: send what `start` returns, then what `handle` returns for each event, until `done`.

    protocol: the name of the protocol to speak afterwards. open_context: begins a handshake with a service, which is
    named as `yarn@host`.
    """

    def __init__(self, connection: ClientConnection, protocol: str, open_context: Callable[[str], GssContext]) -> None:
        self.done = False
        self._connection = connection
        self._protocol = protocol
        self._open_context = open_context
        self._context: GssContext | None = None

    def start(self) -> bytes:
        """Return the first bytes to send."""
        negotiate = RpcSaslProto(state=RpcSaslProto.NEGOTIATE)
        return self._connection.preamble(AUTH_SASL) + self._connection.sasl(negotiate)

    def handle(self, event: ClientEvent) -> bytes:
        """Handle an event of the server; return the bytes to send next, which may be none.

        Raises LoginRefusedError when the server refuses, RemoteProtocolError for an event that no login has, and what
        the handshake raises.
        """
        if isinstance(event, Failure):
            raise LoginRefusedError(event.exception_class, event.text)
        if not isinstance(event, SaslFrame) or self.done:
            raise RemoteProtocolError(f"out of place in a login: {type(event).__name__}")
        if event.state == RpcSaslProto.NEGOTIATE and self._context is None:
            return self._choose(event.message)
        if event.state == RpcSaslProto.CHALLENGE and self._context is not None:
            token = self._answer(self._context, event.message.token)
            return self._connection.sasl(RpcSaslProto(state=RpcSaslProto.RESPONSE, token=token))
        if event.state == RpcSaslProto.SUCCESS and self._context is not None and self._context.complete:
            self.done = True
            return self._connection.context(self._protocol)
        raise RemoteProtocolError(f"out of place in a login: SASL state {event.state} from the server")

    def close(self) -> None:
        """Free what the handshake holds; the connection goes on without it."""
        if self._context is not None:
            self._context.close()

    def _choose(self, offer: RpcSaslProto) -> bytes:
        for auth in offer.auths:
            if auth.method == "KERBEROS" and auth.mechanism == "GSSAPI":
                self._context = self._open_context(f"{auth.protocol}@{auth.serverId}")
                choice = RpcSaslProto(state=RpcSaslProto.INITIATE, token=self._context.step())
                choice.auths.add().CopyFrom(auth)
                return self._connection.sasl(choice)
        offered = ", ".join(f"{auth.method}/{auth.mechanism}" for auth in offer.auths) or "nothing"
        raise LoginRefusedError("no common method", f"the server offers {offered}, this client KERBEROS/GSSAPI")

    def _answer(self, context: GssContext, token: bytes) -> bytes:
        if not context.complete:
            return context.step(token)
        offer = context.unwrap(token)
        if not offer or not offer[0] & _AUTH_ONLY:
            raise LocalProtocolError(
                "the server wants each message signed or encrypted, this client supports only auth: "
                "let hadoop.rpc.protection include authentication"
            )
        return context.wrap(_CHOICE)
