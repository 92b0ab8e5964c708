"""A stand-in for the ResourceManager's scheduler, which takes any token and grants nothing; masters that log in."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

from hadoop_rpc.connection import AM_PROTOCOL, Call, ClientConnection, Response, SaslFrame, ServerConnection
from hadoop_rpc.login import TokenLogin
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import RpcSaslProto, TokenProto

_CHALLENGE = b'realm="default",nonce="n",qop="auth",charset=utf-8,algorithm=md5-sess'
TIMESTAMP = 1_700_000_000_000


class StandIn(asyncio.Protocol):
    """One connection; answers allocate calls with `padding` bytes more than needed."""

    opened = 0
    padding = 0

    def __init__(self) -> None:
        self.rpc = ServerConnection()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it."""
        self.transport = cast(asyncio.Transport, transport)
        type(self).opened += 1

    def data_received(self, data: bytes) -> None:
        """Answer logins and calls."""
        assert self.transport is not None
        for event in self.rpc.receive_data(data):
            if isinstance(event, SaslFrame):
                self.transport.write(self.rpc.sasl(_sasl_answer(event)))
            elif isinstance(event, Call):
                self.transport.write(self.rpc.response(event, self._answer(event)))

    def _answer(self, call: Call) -> y.AllocateResponseProto | y.RegisterApplicationMasterResponseProto:
        if call.method != "allocate":
            return y.RegisterApplicationMasterResponseProto(queue="default")
        request = y.AllocateRequestProto.FromString(call.body)
        answer = y.AllocateResponseProto(response_id=request.response_id + 1)
        if self.padding:
            token = answer.am_rm_token
            token.identifier, token.password, token.kind, token.service = b"x" * self.padding, b"", "", ""
        return answer


def _sasl_answer(frame: SaslFrame) -> RpcSaslProto:
    if frame.state == RpcSaslProto.NEGOTIATE:
        auth = RpcSaslProto.SaslAuth(method="TOKEN", mechanism="DIGEST-MD5", challenge=_CHALLENGE)
        return RpcSaslProto(state=RpcSaslProto.NEGOTIATE, auths=[auth])
    return RpcSaslProto(state=RpcSaslProto.SUCCESS)


class RegisteredMaster:
    """An application master that logs in, and heartbeats on request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.rpc = ClientConnection()
        self.response_id = 0

    @classmethod
    async def connect(cls, host: str, port: int, app: int = 1, source: str = "127.0.0.1") -> RegisteredMaster:
        """Connect and log in as the first attempt of an application."""
        connection = socket.create_connection((host, port), 10, (source, 0))
        master = cls(*await asyncio.open_connection(sock=connection))
        identifier = y.AMRMTokenIdentifierProto(keyId=1)
        identifier.appAttemptId.attemptId = 1
        identifier.appAttemptId.application_id.id = app
        identifier.appAttemptId.application_id.cluster_timestamp = TIMESTAMP
        token = TokenProto(
            identifier=identifier.SerializeToString(), password=b"pw", kind="YARN_AM_RM_TOKEN", service="s"
        )
        login = TokenLogin(master.rpc, AM_PROTOCOL, token=token, cnonce="c")
        master.writer.write(login.start())
        offer = await master.event()
        assert isinstance(offer, SaslFrame)
        master.writer.write(login.handle(offer))
        await master.event()
        master.writer.write(master.rpc.context(AM_PROTOCOL))
        return master

    async def event(self) -> object:
        """Return the next event. Raises ConnectionError when the connection ends before."""
        while True:
            data = await self.reader.read(2**18)
            if not data:
                raise ConnectionError("closed")
            events = self.rpc.receive_data(data)
            if events:
                return events[0]

    def ask(self) -> None:
        """Send a heartbeat."""
        request = y.AllocateRequestProto(response_id=self.response_id, progress=0.5)
        self.writer.write(self.rpc.call("allocate", AM_PROTOCOL, request))

    async def beat(self) -> int:
        """Heartbeat once; return the answer's id."""
        self.ask()
        answer = await self.event()
        assert isinstance(answer, Response), answer
        self.response_id = y.AllocateResponseProto.FromString(answer.body).response_id
        return self.response_id

    async def register(self) -> None:
        """Register, as every master does first."""
        request = y.RegisterApplicationMasterRequestProto(host="h", rpc_port=1)
        self.writer.write(self.rpc.call("registerApplicationMaster", AM_PROTOCOL, request))
        assert isinstance(await self.event(), Response)

    def close(self) -> None:
        """Hang up."""
        self.writer.close()
