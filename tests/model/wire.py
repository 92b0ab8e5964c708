"""One application master's connection through a relay machine, as bytes: client, relay, ResourceManager's end."""

from __future__ import annotations

from google.protobuf.message import Message

from hadoop_rpc.connection import AM_PROTOCOL, Call, ClientConnection, Failure, Response, SaslFrame, ServerConnection
from hadoop_rpc.login import TokenLogin
from hadoop_rpc.protos.rpc_pb2 import RpcSaslProto, TokenProto
from hadoop_rpc.protos.yarn_pb2 import AMRMTokenIdentifierProto
from rm_proxy.attempt.effects import Effect
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.relay.commands import Called, Command, Noted, ToAm, ToRm
from rm_proxy.relay.relay import ALLOCATE, Relay

CHALLENGE = b'realm="default",nonce="n",qop="auth",charset=utf-8,algorithm=md5-sess'


def identifier(attempt: int = 1, timestamp: int = 1_700_000_000_000, app: int = 1) -> bytes:
    """Return what an AMRMToken says."""
    proto = AMRMTokenIdentifierProto(keyId=1)
    proto.appAttemptId.attemptId = attempt
    proto.appAttemptId.application_id.id = app
    proto.appAttemptId.application_id.cluster_timestamp = timestamp
    return proto.SerializeToString()


class Wire:
    """A logged-in connection, unless `log_in` is off."""

    def __init__(self, world: Coordinator, token: bytes | None = None, *, log_in: bool = True) -> None:
        self.relay = Relay(world.attempt)
        self.client = ClientConnection()
        self.server = ServerConnection()
        self.now_s = 0.0
        self.commands: list[Command] = []
        """All that the relay wanted, in order."""
        self.effects: list[Effect] = []
        """Of the last bytes to the application master."""
        self._token = TokenProto(identifier=token or identifier(), password=b"pw", kind="YARN_AM_RM_TOKEN", service="s")
        if log_in:
            self.log_in()

    def log_in(self, success: bool = True) -> None:
        login = TokenLogin(self.client, AM_PROTOCOL, token=self._token, cnonce="c")
        self.up(login.start())
        auth = RpcSaslProto.SaslAuth(method="TOKEN", mechanism="DIGEST-MD5", challenge=CHALLENGE)
        offer = self.server.sasl(RpcSaslProto(state=RpcSaslProto.NEGOTIATE, auths=[auth]))
        (event,) = self.client.receive_data(self.down(offer))
        (initiate,) = self.up(login.handle(event))
        assert isinstance(initiate, SaslFrame)
        if success:
            self.down(self.server.sasl(RpcSaslProto(state=RpcSaslProto.SUCCESS)))
            self.up(self.client.context(AM_PROTOCOL))

    def up(self, data: bytes) -> list[object]:
        """Bytes of the application master; returns what the ResourceManager reads."""
        commands = self._from_am(data)
        self.commands += commands
        raw = b"".join(c.data for c in commands if isinstance(c, ToRm))
        return list(self.server.receive_data(raw)) if raw else []

    def _from_am(self, data: bytes) -> list[Command]:
        """As the proxy's connections do it: a heartbeat passes at once, other bytes are read."""
        if self.relay.beat_up(data):
            return [ToRm(data), Called(ALLOCATE, False)]
        return self.relay.from_am(data, self.now_s)

    def _from_rm(self, data: bytes) -> list[Command]:
        return [ToAm(data)] if self.relay.beat_down(data) else self.relay.from_rm(data, self.now_s)

    def down(self, data: bytes) -> bytes:
        """Bytes of the ResourceManager; returns what the application master gets."""
        commands = self._from_rm(data)
        self.commands += commands
        self.effects = [e for c in commands if isinstance(c, ToAm) for e in c.effects]
        return b"".join(c.data for c in commands if isinstance(c, ToAm))

    def pass_down(self, data: bytes) -> tuple[list[Call], list[Response | Failure]]:
        """Bytes of the ResourceManager; returns the calls that it gets and what the application master gets."""
        return self._both(self._from_rm(data))

    def _both(self, commands: list[Command]) -> tuple[list[Call], list[Response | Failure]]:
        self.commands += commands
        self.effects = [e for c in commands if isinstance(c, ToAm) for e in c.effects]
        up = b"".join(c.data for c in commands if isinstance(c, ToRm))
        down = b"".join(c.data for c in commands if isinstance(c, ToAm))
        calls = list(self.server.receive_data(up)) if up else []
        events = list(self.client.receive_data(down)) if down else []
        assert all(isinstance(one, Call) for one in calls) and all(isinstance(e, Response | Failure) for e in events)
        return calls, events  # type: ignore[return-value]

    def push(self, method: str, body: bytes | Message) -> tuple[list[Call], list[Response | Failure]]:
        """Call; returns the calls that the ResourceManager gets and what the application master gets at once."""
        return self._both(self._from_am(self.client.call(method, AM_PROTOCOL, body)))

    def send(self, method: str, body: bytes | Message) -> Call | Response | Failure:
        """Call; returns the call as the ResourceManager got it, or the answer where the relay gave one itself."""
        commands = self._from_am(self.client.call(method, AM_PROTOCOL, body))
        self.commands += commands
        up = b"".join(c.data for c in commands if isinstance(c, ToRm))
        down = b"".join(c.data for c in commands if isinstance(c, ToAm))
        (event,) = self.server.receive_data(up) if up else self.client.receive_data(down)
        assert isinstance(event, Call | Response | Failure) and not (up and down)
        return event

    def take_notes(self) -> list[Noted]:
        """Return what was to be written down since the last time."""
        notes = [c for c in self.commands if isinstance(c, Noted)]
        self.commands.clear()
        return notes

    def call(self, method: str, body: bytes | Message) -> Call:
        """Call; returns the call as the ResourceManager got it."""
        (call,) = self.up(self.client.call(method, AM_PROTOCOL, body))
        assert isinstance(call, Call)
        return call

    def answer(self, call: Call, body: bytes | Message) -> Response:
        """Answer; returns the answer as the application master got it."""
        (response,) = self.client.receive_data(self.down(self.server.response(call, body)))
        assert isinstance(response, Response)
        return response

    def refuse(self, call: Call, exception_class: str, text: str = "") -> Failure:
        """Answer with an exception; returns it as the application master got it."""
        (failure,) = self.client.receive_data(self.down(self.server.error(call, exception_class, text)))
        assert isinstance(failure, Failure)
        return failure
