"""A small YARN in the test's own loop: client service, scheduler and nodes over real RPC; it grants what there is."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from google.protobuf.message import Message

from hadoop_rpc.connection import Call, SaslFrame, ServerConnection
from hadoop_rpc.protos import yarn_client_pb2 as c
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import RpcSaslProto, TokenProto
from hadoop_rpc.sasl import DigestMd5Client, parse_directives
from quicksilver_lab.bench.emulator.masters.links import Address
from quicksilver_lab.bench.emulator.model import Umbilical
from rm_proxy.domain.ids import container_id_text

CHALLENGE = b'realm="default",nonce="n",qop="auth",charset=utf-8,algorithm=md5-sess'
PASSWORD = b"pw"
Answer = Message | tuple[str, str] | None
"""A result, an exception's class and text, or None: hang up."""


def token(identifier: Message, kind: str) -> TokenProto:
    return TokenProto(identifier=identifier.SerializeToString(), password=PASSWORD, kind=kind, service="s")


class Server(asyncio.Protocol):
    """One accepted connection; `answer(call, identifier)` does the work."""

    def __init__(self, answer: Callable[[Call, bytes], Answer]) -> None:
        self.rpc, self.answer, self.identifier = ServerConnection(), answer, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for event in self.rpc.receive_data(data):
            if isinstance(event, SaslFrame):
                self.transport.write(self.rpc.sasl(self._sasl(event)))
            elif isinstance(event, Call):
                outcome = self.answer(event, self.identifier)
                if outcome is None:
                    self.transport.close()
                    return
                if isinstance(outcome, tuple):
                    self.transport.write(self.rpc.error(event, *outcome))
                else:
                    self.transport.write(self.rpc.response(event, outcome))

    def _sasl(self, frame: SaslFrame) -> RpcSaslProto:
        if frame.state == RpcSaslProto.NEGOTIATE:
            auth = RpcSaslProto.SaslAuth(method="TOKEN", mechanism="DIGEST-MD5", challenge=CHALLENGE)
            return RpcSaslProto(state=RpcSaslProto.NEGOTIATE, auths=[auth])
        said = parse_directives(frame.message.token)
        self.identifier = base64.b64decode(said["username"])
        twin = DigestMd5Client(self.identifier, PASSWORD, cnonce=said["cnonce"])
        assert parse_directives(twin.respond(CHALLENGE))["response"] == said["response"]
        return RpcSaslProto(state=RpcSaslProto.SUCCESS, token=f"rspauth={twin._expected}".encode())


@dataclass
class App:
    tags: tuple[str, ...]
    queue: str
    registered: bool = False
    response_id: int = 0
    asked: Counter[tuple[int, bool]] = field(default_factory=Counter)
    """Of the ANY rows, by priority and whether OPPORTUNISTIC."""
    tokens_for: set[str] = field(default_factory=set)
    ends: list[tuple[y.ContainerIdProto, int]] = field(default_factory=list)
    finished: str = ""


@dataclass
class FakeYarn:
    """What tests look at and turn."""

    slots: int
    umbilical: Umbilical | None = None
    rm: Address = ("", 0)
    scheduler: Address = ("", 0)
    nodes: list[Address] = field(default_factory=list)
    apps: dict[int, App] = field(default_factory=dict)
    running: dict[str, tuple[int, y.ContainerIdProto, asyncio.TimerHandle | None]] = field(default_factory=dict)
    kills: dict[int, int] = field(default_factory=dict)
    """Container number: exit status it ends with as soon as it was started."""
    forgets: set[int] = field(default_factory=set)
    """Response ids at which an application is forgotten, once each."""
    hang_ups: set[int] = field(default_factory=set)
    """Response ids at which the scheduler hangs up, after it has worked, once each."""
    refuse: dict[int, str] = field(default_factory=dict)
    hang_up_starts: set[int] = field(default_factory=set)
    """Containers at whose start the node hangs up, once each, after it has started them."""
    calls: Counter[str] = field(default_factory=Counter)
    starts: Counter[int] = field(default_factory=Counter)
    released: list[int] = field(default_factory=list)
    last: dict[int, y.AllocateResponseProto] = field(default_factory=dict)
    serial: int = 0

    # Client service

    def client(self, call: Call, _identifier: bytes) -> Answer:
        self.calls[call.method] += 1
        if call.method == "getNewApplication":
            return c.GetNewApplicationResponseProto(application_id=self.app_id(self.calls[call.method]))
        if call.method == "submitApplication":
            context = c.SubmitApplicationRequestProto.FromString(call.body).application_submission_context
            self.apps[context.application_id.id] = App(tuple(context.applicationTags), context.queue)
            return c.SubmitApplicationResponseProto()
        if call.method == "forceKillApplication":
            number = c.KillApplicationRequestProto.FromString(call.body).application_id.id
            self.apps[number].finished = "killed"
            return c.KillApplicationResponseProto(is_kill_completed=True)
        number = c.GetApplicationReportRequestProto.FromString(call.body).application_id.id
        identifier = y.AMRMTokenIdentifierProto(keyId=1)
        identifier.appAttemptId.attemptId = 1
        identifier.appAttemptId.application_id.CopyFrom(self.app_id(number))
        report = c.ApplicationReportProto(yarn_application_state=c.ACCEPTED, am_rm_token=token(identifier, "AMRM"))
        if self.apps[number].queue == "closed":
            report = c.ApplicationReportProto(yarn_application_state=c.FAILED, diagnostics="queue is closed")
        return c.GetApplicationReportResponseProto(application_report=report)

    @staticmethod
    def app_id(number: int) -> y.ApplicationIdProto:
        return y.ApplicationIdProto(id=number, cluster_timestamp=7)

    # Scheduler

    def schedule(self, call: Call, identifier: bytes) -> Answer:
        self.calls[call.method] += 1
        number = y.AMRMTokenIdentifierProto.FromString(identifier).appAttemptId.application_id.id
        app = self.apps[number]
        if call.method == "registerApplicationMaster":
            app.registered, app.response_id = True, 0
            return y.RegisterApplicationMasterResponseProto(queue=app.queue)
        if call.method == "finishApplicationMaster":
            app.finished = app.finished or "finished"
            return y.FinishApplicationMasterResponseProto(isUnregistered=self.calls["finishApplicationMaster"] > 1)
        request = y.AllocateRequestProto.FromString(call.body)
        if request.response_id in self.forgets:
            self.forgets.discard(request.response_id)
            app.registered = False
            app.asked.clear()
        if not app.registered:
            return ("org.apache.hadoop.yarn.exceptions.ApplicationMasterNotRegisteredException", "who are you?")
        if request.response_id == app.response_id - 1:
            return self.last[number]
        assert request.response_id == app.response_id
        app.response_id += 1
        answer = self.last[number] = self._allocate(number, app, request)
        if request.response_id in self.hang_ups:
            self.hang_ups.discard(request.response_id)
            return None
        return answer

    def _allocate(self, number: int, app: App, request: y.AllocateRequestProto) -> y.AllocateResponseProto:
        for row in request.ask:
            if row.resource_name == "*":
                kind = row.execution_type_request.execution_type == y.OPPORTUNISTIC
                app.asked[row.priority.priority, kind] = row.num_containers
        for released in request.release:
            self.released.append(released.id)
            self.end(container_id_text(released), -100)
        answer = y.AllocateResponseProto(response_id=app.response_id)
        answer.limit.memory = 1024 * max(0, self.slots - len(self.running))
        for (priority, kind), count in sorted(app.asked.items()):
            room = count if kind else min(count, max(0, self.slots - len(self.running)))
            for _ in range(room):
                answer.allocated_containers.append(self._grant(number, app, priority, kind, answer))
            app.asked[priority, kind] -= room
        for container_id, status in app.ends:
            answer.completed_container_statuses.add(container_id=container_id, exit_status=status, diagnostics="so")
        app.ends = []
        return answer

    def _grant(
        self, number: int, app: App, priority: int, kind: bool, answer: y.AllocateResponseProto
    ) -> y.ContainerProto:
        self.serial += 1
        container = y.ContainerProto(allocation_request_id=-1)
        container.id.id = self.serial
        container.id.app_attempt_id.attemptId = 1
        container.id.app_attempt_id.application_id.CopyFrom(self.app_id(number))
        host, port = self.nodes[self.serial % len(self.nodes)]
        container.nodeId.host, container.nodeId.port = host, port
        container.priority.priority = priority
        identifier = y.ContainerTokenIdentifierProto(containerId=container.id)
        identifier.executionType = y.OPPORTUNISTIC if kind else y.GUARANTEED
        container.container_token.CopyFrom(token(identifier, "ContainerToken"))
        self.running[container_id_text(container.id)] = (number, container.id, None)
        if host not in app.tokens_for:
            app.tokens_for.add(host)
            nm = y.NMTokenIdentifierProto(nodeId=container.nodeId)
            answer.nm_tokens.add(nodeId=container.nodeId, token=token(nm, "NMToken"))
        return container

    def end(self, container_id: str, status: int) -> None:
        known = self.running.pop(container_id, None)
        if known is not None:
            if known[2] is not None:
                known[2].cancel()
            self.apps[known[0]].ends.append((known[1], status))

    # Nodes

    def node(self, call: Call, _identifier: bytes) -> Answer:
        self.calls[call.method] += 1
        if call.method == "stopContainers":
            for one in y.StopContainersRequestProto.FromString(call.body).container_id:
                self.end(container_id_text(one), -105)
            return y.StopContainersResponseProto()
        answer = y.StartContainersResponseProto()
        for request in y.StartContainersRequestProto.FromString(call.body).start_container_request:
            container = y.ContainerTokenIdentifierProto.FromString(request.container_token.identifier).containerId
            why = self._start(container, request.container_launch_context.command[0])
            if why:
                failed = answer.failed_requests.add(container_id=container)
                failed.exception.message = why
            elif container.id in self.hang_up_starts:
                self.hang_up_starts.discard(container.id)
                return None
        return answer

    def _start(self, container: y.ContainerIdProto, command: str) -> str:
        program, seconds = command.split()
        assert program == "emulated"
        self.starts[container.id] += 1
        name = container_id_text(container)
        if self.starts[container.id] > 1:
            return f"Container {name} already is running on this node!!"
        if container.id in self.refuse:
            return self.refuse[container.id]
        loop = asyncio.get_running_loop()
        assert self.umbilical is not None
        self.umbilical(name, "began", loop.time())
        if container.id in self.kills:
            loop.call_soon(self.end, name, self.kills[container.id])
            return ""
        number, proto, _ = self.running[name]
        self.running[name] = (number, proto, loop.call_later(float(seconds), self._done, name))
        return ""

    def _done(self, name: str) -> None:
        assert self.umbilical is not None
        self.umbilical(name, "done", asyncio.get_running_loop().time())
        self.end(name, 0)


@asynccontextmanager
async def fake_yarn(nodes: int = 2, slots: int = 4) -> AsyncIterator[FakeYarn]:
    loop = asyncio.get_running_loop()
    fake = FakeYarn(slots)
    servers: list[asyncio.Server] = []

    async def listen(host: str, answer: Callable[[Call, bytes], Answer]) -> Address:
        server = await loop.create_server(lambda: Server(answer), host, 0)
        servers.append(server)
        found: Any = server.sockets[0].getsockname()
        return found[0], found[1]

    try:
        fake.rm = await listen("127.0.0.1", fake.client)
        fake.scheduler = await listen("127.0.0.1", fake.schedule)
        fake.nodes = [await listen(f"127.0.1.{n + 1}", fake.node) for n in range(nodes)]
        yield fake
    finally:
        for server in servers:
            server.close()
            await server.wait_closed()
