"""A NodeManager, an application master and a proxy that are none, for tests of the sidecar's sockets."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, HTTPException
from google.protobuf.message import Message

from hadoop_rpc.connection import (
    NM_PROTOCOL,
    Call,
    ClientConnection,
    Failure,
    Ping,
    Response,
    SaslFrame,
    ServerConnection,
)
from hadoop_rpc.login import TokenLogin
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import RpcSaslProto, TokenProto
from hadoop_rpc.sasl import parse_directives
from quicksilver.common.messages import Ack, ContainerEvent, Report
from sidecar.gate.start_messages import container_id, container_proto

TIMESTAMP = 1_700_000_000_000
APP = f"application_{TIMESTAMP}_0001"
ATTEMPT = f"appattempt_{TIMESTAMP}_0001_000001"
PASSWORD = b"secret"
_NONCE = "abcdefgh"


def cid(serial: int, app: int = 1) -> str:
    """Return a container id."""
    return f"container_{TIMESTAMP}_{app:04d}_01_{serial:06d}"


def nm_token(app: int = 1) -> TokenProto:
    """Return the NMToken of an application's first attempt."""
    identifier = y.NMTokenIdentifierProto(appSubmitter="u", keyId=1)
    identifier.appAttemptId.attemptId = 1
    identifier.appAttemptId.application_id.id = app
    identifier.appAttemptId.application_id.cluster_timestamp = TIMESTAMP
    return TokenProto(identifier=identifier.SerializeToString(), password=PASSWORD, kind="NMToken", service="")


def start_request(
    container: str, *, opportunistic: bool, memory_mb: int = 1024, expires_s: float = 4e9, command: str = "run"
) -> y.StartContainerRequestProto:
    """Return one start, as an application master asks for it."""
    identifier = y.ContainerTokenIdentifierProto(
        containerId=container_proto(container),
        appSubmitter="u",
        expiryTimeStamp=int(expires_s * 1000),
        executionType=y.OPPORTUNISTIC if opportunistic else y.GUARANTEED,
        rmIdentifier=1,
        containerType=y.TASK,
    )
    identifier.resource.memory = memory_mb
    identifier.resource.virtual_cores = 1
    identifier.priority.priority = 20
    request = y.StartContainerRequestProto()
    request.container_launch_context.command.append(command)
    token = TokenProto(identifier=identifier.SerializeToString(), password=b"p", kind="ContainerToken", service="")
    request.container_token.CopyFrom(token)
    return request


def starts(*requests: y.StartContainerRequestProto) -> y.StartContainersRequestProto:
    """Return a startContainers."""
    return y.StartContainersRequestProto(start_container_request=requests)


class FakeNm:
    """Accepts any token login, runs what it is told to start, and remembers what it was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self.running: set[str] = set()
        self.over: set[str] = set()
        self.refuse: dict[str, str] = {}
        """Container to the words of the exception that its start ends in."""
        self.unlaunched: set[str] = set()
        """Containers that it lists as not launched."""
        self.began_s = 1.0
        """When its process began, Unix time."""
        self.node_id = "node1:8041"
        self.shuffle_port = 13562
        """What its aux service tells with each answer to a start."""
        self.stop_takes_s = 0.0
        self.pings = 0
        self.sick = False
        """Whether its REST answers with errors."""
        self.connections: set[asyncio.StreamWriter] = set()
        """That said something."""
        self._sockets: set[asyncio.StreamWriter] = set()
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close all connections and stop listening."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._sockets):
            writer.close()
        await asyncio.sleep(0.02)

    def started(self) -> list[str]:
        """Return the containers whose starts came, in order."""
        return [container for method, ids in self.calls if method == "startContainers" for container in ids]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = ServerConnection()
        self._sockets.add(writer)
        try:
            while data := await reader.read(1 << 16):
                self.connections.add(writer)
                for event in connection.receive_data(data):
                    if isinstance(event, SaslFrame):
                        writer.write(connection.sasl(verdict(event)))
                    elif isinstance(event, Ping):
                        self.pings += 1
                    elif isinstance(event, Call):
                        writer.write(await self._answer(connection, event))
        except ConnectionError:
            return
        finally:
            self.connections.discard(writer)
            self._sockets.discard(writer)
            writer.close()

    async def _answer(self, connection: ServerConnection, call: Call) -> bytes:
        if call.method == "startContainers":
            return connection.response(call, self._start(y.StartContainersRequestProto.FromString(call.body)))
        if call.method == "stopContainers":
            request = y.StopContainersRequestProto.FromString(call.body)
            self.calls.append((call.method, tuple(map(container_id, request.container_id))))
            for proto in request.container_id:
                asyncio.get_running_loop().call_later(self.stop_takes_s, self.end, container_id(proto))
            return connection.response(call, y.StopContainersResponseProto(succeeded_requests=request.container_id))
        if call.method == "getContainerStatuses":
            request = y.GetContainerStatusesRequestProto.FromString(call.body)
            self.calls.append((call.method, tuple(map(container_id, request.container_id))))
            return connection.response(call, self._statuses(request))
        self.calls.append((call.method, ()))
        return connection.error(call, "java.lang.UnsupportedOperationException", f"no {call.method} here")

    def end(self, container: str) -> None:
        """Let a container end."""
        self.running.discard(container)
        self.over.add(container)

    def _start(self, request: y.StartContainersRequestProto) -> y.StartContainersResponseProto:
        answer = y.StartContainersResponseProto()
        answer.services_meta_data.add(key="mapreduce_shuffle", value=self.shuffle_port.to_bytes(4, "big"))
        ids = []
        for one in request.start_container_request:
            token = y.ContainerTokenIdentifierProto.FromString(one.container_token.identifier)
            container = container_id(token.containerId)
            ids.append(container)
            if container in self.refuse:
                failed = answer.failed_requests.add(container_id=token.containerId)
                failed.exception.message = self.refuse[container]
                failed.exception.class_name = "org.apache.hadoop.yarn.exceptions.YarnException"
                continue
            self.running.add(container)
            answer.succeeded_requests.append(token.containerId)
        self.calls.append(("startContainers", tuple(ids)))
        return answer

    def _statuses(self, request: y.GetContainerStatusesRequestProto) -> y.GetContainerStatusesResponseProto:
        answer = y.GetContainerStatusesResponseProto()
        for proto in request.container_id:
            container = container_id(proto)
            if container in self.running or container in self.over:
                state = y.C_RUNNING if container in self.running else y.C_COMPLETE
                answer.status.add(container_id=proto, state=state)
            else:
                failed = answer.failed_requests.add(container_id=proto)
                failed.exception.message = f"Container {container} is not handled by this NodeManager"
        return answer


def verdict(step: SaslFrame) -> RpcSaslProto:
    """Return the server's next word in a DIGEST-MD5 login: an offer, then success for whoever comes."""
    if step.state == RpcSaslProto.NEGOTIATE:
        offer = RpcSaslProto(state=RpcSaslProto.NEGOTIATE)
        challenge = f'realm="default",nonce="{_NONCE}",qop="auth",charset=utf-8,algorithm=md5-sess'
        offer.auths.add(
            method="TOKEN", mechanism="DIGEST-MD5", protocol="", serverId="default", challenge=challenge.encode()
        )
        return offer
    said = parse_directives(step.message.token)
    assert base64.b64decode(said["username"])
    word = base64.b64encode(PASSWORD).decode()
    secret = hashlib.md5(f"{said['username']}:{said['realm']}:{word}".encode()).digest()
    a1 = hashlib.md5(secret + f":{_NONCE}:{said['cnonce']}".encode()).hexdigest()
    a2 = hashlib.md5(f":{said['digest-uri']}".encode()).hexdigest()
    proof = hashlib.md5(f"{a1}:{_NONCE}:00000001:{said['cnonce']}:auth:{a2}".encode()).hexdigest()
    return RpcSaslProto(state=RpcSaslProto.SUCCESS, token=f"rspauth={proof}".encode())


class FakeAm:
    """One connection of an application master."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.connection = ClientConnection()

    @classmethod
    async def connect(cls, port: int, token: TokenProto | None = None) -> FakeAm:
        """Connect and log in."""
        am = cls(*await asyncio.open_connection("127.0.0.1", port))
        login = TokenLogin(am.connection, NM_PROTOCOL, token=token or nm_token())
        am.writer.write(login.start())
        try:
            while not login.done:
                for event in am.connection.receive_data(await am.read()):
                    am.writer.write(login.handle(event))
        except ConnectionError:
            am.writer.close()
            raise
        return am

    async def read(self) -> bytes:
        """Return some bytes; fail when the other side closed."""
        data = await asyncio.wait_for(self.reader.read(1 << 16), 60)
        if not data:
            raise ConnectionError("closed by the other side")
        return data

    async def call(self, method: str, parameter: Message) -> Response | Failure:
        """Call and wait for the answer."""
        self.writer.write(self.connection.call(method, NM_PROTOCOL, parameter))
        while True:
            for event in self.connection.receive_data(await self.read()):
                assert isinstance(event, Response | Failure)
                return event

    async def start(self, *requests: y.StartContainerRequestProto) -> y.StartContainersResponseProto:
        """Call startContainers."""
        answer = await self.call("startContainers", starts(*requests))
        assert isinstance(answer, Response), answer
        return y.StartContainersResponseProto.FromString(answer.body)

    async def close(self) -> None:
        """Close the connection."""
        self.writer.close()
        await self.writer.wait_closed()


class FakeProxy:
    """Takes reports."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.events: list[ContainerEvent] = []
        self.away = self.standby = False
        self.drain: str | None = None
        self.app = FastAPI()
        self.app.post("/v1/nodes/{node_id}/report")(self._report)

    async def _report(self, node_id: str, report: Report) -> Ack:
        assert node_id == report.node_id
        if self.away:
            raise HTTPException(503)
        self.reports.append(report)
        if self.standby:
            return Ack(events_to=-1, active=False, drop=["never"])
        known = {event.seq for event in self.events}
        self.events += [event for event in report.events if event.seq not in known]
        return Ack(events_to=max((event.seq for event in report.events), default=0), drain=self.drain)

    def kinds(self, container: str) -> list[str]:
        """Return what happened to a container."""
        return [str(event.kind) for event in self.events if event.container_id == container]


def nm_web(nm: FakeNm, extra: Sequence[dict[str, Any]] = ()) -> FastAPI:
    """Return the NodeManager's REST; `extra`: containers that nobody started through the sidecar."""
    app = FastAPI()

    @app.get("/ws/v1/node/info")
    async def info() -> dict[str, Any]:
        return {"nodeInfo": {"id": nm.node_id, "nmStartupTime": int(nm.began_s * 1000)}}

    @app.get("/ws/v1/node/containers")
    async def containers() -> dict[str, Any]:
        if nm.sick:
            raise HTTPException(503)
        states = {one: "SCHEDULED" if one in nm.unlaunched else "RUNNING" for one in sorted(nm.running)}
        rows = [{"id": one, "state": state, "totalMemoryNeededMB": 1024} for one, state in states.items()]
        rows += [{"id": one, "state": "DONE", "totalMemoryNeededMB": 1024} for one in sorted(nm.over)]
        return {"containers": {"container": [*rows, *extra]} if rows or extra else None}

    return app
