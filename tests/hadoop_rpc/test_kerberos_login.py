"""A login by SASL's GSSAPI, with a handshake and a server that play their parts."""

from __future__ import annotations

import pytest

from hadoop_rpc.connection import (
    CLIENT_PROTOCOL,
    ClientConnection,
    ConnectionContext,
    Preamble,
    SaslFrame,
    ServerConnection,
)
from hadoop_rpc.errors import LocalProtocolError, LoginRefusedError, RemoteProtocolError
from hadoop_rpc.kerberos_login import KerberosLogin
from hadoop_rpc.protos.rpc_pb2 import RpcSaslProto


class Context:
    """A handshake of two steps."""

    def __init__(self, service: str) -> None:
        self.service, self.complete, self.closed = service, False, False
        self.tokens: list[bytes] = []

    def step(self, token: bytes = b"") -> bytes:
        self.tokens.append(token)
        self.complete = bool(token)
        return b"" if self.complete else b"ticket"

    def wrap(self, data: bytes) -> bytes:
        return b"signed:" + data

    def unwrap(self, data: bytes) -> bytes:
        return data.removeprefix(b"signed:")

    def close(self) -> None:
        self.closed = True


class Talk:
    """Both ends of a connection during a login."""

    def __init__(self) -> None:
        self.contexts: list[Context] = []
        self.client, self.server = ClientConnection(client_id=b"c" * 16), ServerConnection()
        self.login = KerberosLogin(self.client, CLIENT_PROTOCOL, self._open)
        preamble, negotiate = self.server.receive_data(self.login.start())
        assert isinstance(preamble, Preamble) and isinstance(negotiate, SaslFrame)

    def _open(self, service: str) -> Context:
        self.contexts.append(Context(service))
        return self.contexts[-1]

    def says(self, message: RpcSaslProto) -> RpcSaslProto | ConnectionContext:
        """Return the client's answer to a message of the server."""
        (event,) = self.client.receive_data(self.server.sasl(message))
        (answer,) = self.server.receive_data(self.login.handle(event))
        if isinstance(answer, SaslFrame):
            return answer.message
        assert isinstance(answer, ConnectionContext)
        return answer

    def offer(self, *methods: tuple[str, str]) -> RpcSaslProto | ConnectionContext:
        message = RpcSaslProto(state=RpcSaslProto.NEGOTIATE)
        for method, mechanism in methods:
            message.auths.add(method=method, mechanism=mechanism, protocol="yarn", serverId="rm.example.com")
        return self.says(message)


def challenge(token: bytes) -> RpcSaslProto:
    return RpcSaslProto(state=RpcSaslProto.CHALLENGE, token=token)


def test_a_login_chooses_authentication_alone() -> None:
    talk = Talk()
    chosen = talk.offer(("TOKEN", "DIGEST-MD5"), ("KERBEROS", "GSSAPI"))
    assert isinstance(chosen, RpcSaslProto)
    assert (chosen.state, chosen.token) == (RpcSaslProto.INITIATE, b"ticket")
    assert [each.method for each in chosen.auths] == ["KERBEROS"]
    assert talk.contexts[0].service == "yarn@rm.example.com"
    proven = talk.says(challenge(b"proof"))
    assert isinstance(proven, RpcSaslProto) and (proven.state, proven.token) == (RpcSaslProto.RESPONSE, b"")
    layer = talk.says(challenge(b"signed:\x07\x00\xff\xff"))
    assert isinstance(layer, RpcSaslProto) and layer.token == b"signed:\x01\x00\x00\x00"
    assert not talk.login.done
    assert isinstance(talk.says(RpcSaslProto(state=RpcSaslProto.SUCCESS)), ConnectionContext)
    assert talk.login.done and talk.contexts[0].tokens == [b"", b"proof"]
    talk.login.close()
    assert talk.contexts[0].closed


def test_a_server_that_wants_encryption() -> None:
    talk = Talk()
    talk.offer(("KERBEROS", "GSSAPI"))
    talk.says(challenge(b"proof"))
    with pytest.raises(LocalProtocolError, match=r"supports only auth: let hadoop.rpc.protection include"):
        talk.says(challenge(b"signed:\x04\x00\xff\xff"))


def test_a_server_without_kerberos() -> None:
    with pytest.raises(LoginRefusedError, match=r"offers TOKEN/DIGEST-MD5, this client KERBEROS/GSSAPI"):
        Talk().offer(("TOKEN", "DIGEST-MD5"))


def test_success_before_the_server_has_proven_itself() -> None:
    talk = Talk()
    talk.offer(("KERBEROS", "GSSAPI"))
    with pytest.raises(RemoteProtocolError, match="out of place in a login: SASL state"):
        talk.says(RpcSaslProto(state=RpcSaslProto.SUCCESS))
    with pytest.raises(RemoteProtocolError, match="out of place"):
        Talk().says(challenge(b"x"))
