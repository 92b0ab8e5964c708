"""Login at a Hadoop server over a ClientConnection: by user name alone, or with a token."""

from hadoop_rpc.connection import AUTH_NONE, AUTH_SASL, ClientConnection, ClientEvent, Failure, SaslFrame
from hadoop_rpc.errors import LocalProtocolError, LoginRefusedError, RemoteProtocolError
from hadoop_rpc.protos.rpc_pb2 import RpcSaslProto, TokenProto
from hadoop_rpc.sasl import DigestMd5Client

__all__ = ["TokenLogin"]


class TokenLogin:
    """Drives one login: send what `start` returns, then what `handle` returns for each event, until `done`.

    protocol: the name of the protocol to speak afterwards. With `token` the login is TOKEN / DIGEST-MD5. Without one it
    is simple: the server believes `user` and answers nothing, so `done` is true after `start`.
    """

    def __init__(
        self,
        connection: ClientConnection,
        protocol: str,
        *,
        user: str | None = None,
        token: TokenProto | None = None,
        cnonce: str | None = None,
    ) -> None:
        if (user is None) == (token is None):
            raise LocalProtocolError("a login needs either a user or a token")
        self.done = False
        self._connection = connection
        self._protocol = protocol
        self._user = user
        self._digest: DigestMd5Client | None = None
        if token is not None:
            self._digest = DigestMd5Client(token.identifier, token.password, cnonce=cnonce)

    def start(self) -> bytes:
        """Return the first bytes to send."""
        if self._digest is None:
            self.done = True
            return self._connection.preamble(AUTH_NONE) + self._connection.context(self._protocol, self._user)
        negotiate = RpcSaslProto(state=RpcSaslProto.NEGOTIATE)
        return self._connection.preamble(AUTH_SASL) + self._connection.sasl(negotiate)

    def handle(self, event: ClientEvent) -> bytes:
        """Handle an event of the server; return the bytes to send next, which may be none.

        Raises LoginRefusedError when the server refuses, RemoteProtocolError for an event that no login has.
        """
        if isinstance(event, Failure):
            raise LoginRefusedError(event.exception_class, event.text)
        if not isinstance(event, SaslFrame) or self._digest is None or self.done:
            raise RemoteProtocolError(f"out of place in a login: {type(event).__name__}")
        if event.state == RpcSaslProto.NEGOTIATE:
            return self._choose(event.message, self._digest)
        if event.state == RpcSaslProto.CHALLENGE:
            token = self._digest.respond(event.message.token)
            return self._connection.sasl(RpcSaslProto(state=RpcSaslProto.RESPONSE, token=token))
        if event.state == RpcSaslProto.SUCCESS:
            self._digest.check(event.message.token)
            self.done = True
            return self._connection.context(self._protocol)
        raise RemoteProtocolError(f"out of place in a login: SASL state {event.state} from the server")

    def _choose(self, offer: RpcSaslProto, digest: DigestMd5Client) -> bytes:
        for auth in offer.auths:
            if auth.method == "TOKEN" and auth.mechanism == "DIGEST-MD5":
                choice = RpcSaslProto(state=RpcSaslProto.INITIATE)
                entry = choice.auths.add()
                entry.CopyFrom(auth)
                entry.ClearField("challenge")
                choice.token = digest.respond(auth.challenge) if auth.HasField("challenge") else b""
                return self._connection.sasl(choice)
        offered = ", ".join(f"{auth.method}/{auth.mechanism}" for auth in offer.auths) or "nothing"
        raise LoginRefusedError("no common method", f"the server offers {offered}, this client TOKEN/DIGEST-MD5")
