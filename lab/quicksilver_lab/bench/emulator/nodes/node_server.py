"""A node's ContainerManagement service: logins checked as a NodeManager checks them, calls handed to the node."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol, cast

from google.protobuf.message import DecodeError, Message

from hadoop_rpc.connection import AUTH_SASL, NM_PROTOCOL, ServerConnection
from hadoop_rpc.errors import RemoteProtocolError
from hadoop_rpc.events import Call, ConnectionContext, Preamble, SaslFrame, ServerEvent
from hadoop_rpc.protos.yarn_pb2 import (
    ContainerIdProto,
    ContainerStatusProto,
    GetContainerStatusesRequestProto,
    GetContainerStatusesResponseProto,
    StartContainerRequestProto,
    StartContainersRequestProto,
    StartContainersResponseProto,
    StopContainersRequestProto,
    StopContainersResponseProto,
)
from quicksilver_lab.bench.emulator.nodes.node_login import BadTokenError, NodeLogin
from sidecar.gate.start_messages import attempt_of_nm_token, container_id

YARN_EXCEPTION: Final = "org.apache.hadoop.yarn.exceptions.YarnException"
_INVALID_TOKEN: Final = "org.apache.hadoop.security.token.SecretManager$InvalidToken"
_NO_METHOD: Final = "org.apache.hadoop.ipc.RpcNoSuchMethodException"
_FATAL_UNAUTHORIZED: Final = 15
"""RpcErrorCodeProto.FATAL_UNAUTHORIZED."""


class NodeService(Protocol):
    """What a node does for a session."""

    @property
    def token_key(self) -> bytes:
        """The NMToken master key."""

    def start_container(self, attempt_id: str, request: StartContainerRequestProto) -> tuple[ContainerIdProto, str]:
        """Start a container; return which one, and why not, or ""."""

    def stop_container(self, attempt_id: str, name: str) -> str:
        """Have a container killed; return why not, or ""."""

    def broken(self, why: str) -> None:
        """Handle the end of a session whose bytes were malformed."""

    def status(self, name: str) -> ContainerStatusProto | None:
        """Return a container's status, None for one that is not known."""


class NodeSession(asyncio.Protocol):
    """One connection of an application master."""

    def __init__(self, service: NodeService, sessions: set[NodeSession]) -> None:
        self._service, self._sessions = service, sessions
        self._connection = ServerConnection()
        self._transport: asyncio.Transport | None = None
        self._login: NodeLogin | None = None
        self._attempt_id = ""
        self._calls = {
            "startContainers": self._start,
            "stopContainers": self._stop,
            "getContainerStatuses": self._statuses,
        }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast(asyncio.Transport, transport)
        self._sessions.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._transport = None
        self._sessions.discard(self)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Answer what came."""
        try:
            for event in self._connection.receive_data(data):
                self._take(event)
        except (RemoteProtocolError, DecodeError, ValueError) as error:
            self._service.broken(str(error))
            self.close()  # as a NodeManager does with one who does not speak Hadoop IPC

    def _take(self, event: ServerEvent) -> None:
        if isinstance(event, Call):
            self._called(event)
        elif isinstance(event, SaslFrame):
            self._log_in(event)
        elif isinstance(event, Preamble):
            if event.auth_protocol != AUTH_SASL:
                raise RemoteProtocolError("a NodeManager wants a token")
            self._login = NodeLogin(self._service.token_key)
        elif isinstance(event, ConnectionContext) and event.protocol != NM_PROTOCOL:
            raise RemoteProtocolError(f"{event.protocol} is not served here")

    def _log_in(self, frame: SaslFrame) -> None:
        if self._login is None:
            raise RemoteProtocolError("a login before the connection began")
        try:
            answer = self._login.handle(frame)
        except BadTokenError as error:
            self._write(self._connection.error(frame, _INVALID_TOKEN, str(error), fatal=True, code=_FATAL_UNAUTHORIZED))
            raise
        self._write(self._connection.sasl(answer))
        if self._login.done:
            self._attempt_id = attempt_of_nm_token(self._login.identifier)

    def _called(self, call: Call) -> None:
        if not self._attempt_id:
            raise RemoteProtocolError("a call before the login")
        serve = self._calls.get(call.method)
        if serve is None:
            self._write(self._connection.error(call, _NO_METHOD, f"{call.method} is not emulated"))
        else:
            serve(call)

    def _start(self, call: Call) -> None:
        answer = StartContainersResponseProto()
        for entry in StartContainersRequestProto.FromString(call.body).start_container_request:
            name, why = self._service.start_container(self._attempt_id, entry)
            if why:
                failed = answer.failed_requests.add(container_id=name)
                failed.exception.class_name, failed.exception.message = YARN_EXCEPTION, why
            else:
                answer.succeeded_requests.append(name)
        self._answer(call, answer)

    def _stop(self, call: Call) -> None:
        answer = StopContainersResponseProto()
        for proto in StopContainersRequestProto.FromString(call.body).container_id:
            why = self._service.stop_container(self._attempt_id, container_id(proto))
            if why:
                failed = answer.failed_requests.add(container_id=proto)
                failed.exception.class_name, failed.exception.message = YARN_EXCEPTION, why
            else:
                answer.succeeded_requests.append(proto)
        self._answer(call, answer)

    def _statuses(self, call: Call) -> None:
        answer = GetContainerStatusesResponseProto()
        for proto in GetContainerStatusesRequestProto.FromString(call.body).container_id:
            name = container_id(proto)
            status = self._service.status(name)
            if status is None:
                failed = answer.failed_requests.add(container_id=proto)
                failed.exception.class_name = YARN_EXCEPTION
                failed.exception.message = f"Container {name} is not handled by this NodeManager"
            else:
                answer.status.append(status)
        self._answer(call, answer)

    def _answer(self, call: Call, answer: Message) -> None:
        self._write(self._connection.response(call, answer))

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)
