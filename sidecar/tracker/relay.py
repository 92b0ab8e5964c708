"""One connection between a NodeManager and the ResourceManager's resource tracker, as a machine.

The NodeManager is configured with N + extra (N + Q in the Kairos thesis, ch. 4), the ResourceManager plans with N: what
the NodeManager registers is made smaller by extra, what the ResourceManager answers about the node's size is made
larger by it. It comes from the settings and never from earlier messages, so that another relay can take over between
any two messages.
Messages that need no change leave as the bytes that arrived.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from hadoop_rpc.connection import Call, ClientConnection, ConnectionContext, Opaque, SaslFrame, ServerConnection
from hadoop_rpc.errors import RemoteProtocolError
from hadoop_rpc.events import ClientEvent, Failure, Response, ServerEvent
from hadoop_rpc.frames import DEFAULT_MAX_FRAME_BYTES
from hadoop_rpc.messages import parse_message, replace_body
from hadoop_rpc.protos.rpc_pb2 import RpcSaslProto
from hadoop_rpc.protos.yarn_pb2 import (
    C_RUNNING,
    CSS_SCHEDULED,
    GUARANTEED,
    OPPORTUNISTIC,
    ContainerStatusProto,
    ResourceProto,
)
from hadoop_rpc.protos.yarn_server_pb2 import (
    MasterKeyProto,
    NodeHeartbeatRequestProto,
    NodeHeartbeatResponseProto,
    RegisterNodeManagerRequestProto,
    RegisterNodeManagerResponseProto,
)
from sidecar.gate.events import Garbage, PassesThrough

TRACKER_PROTOCOL: Final = "org.apache.hadoop.yarn.server.api.ResourceTrackerPB"
_REGISTER: Final = "registerNodeManager"
_HEARTBEAT: Final = "nodeHeartbeat"
_MB_UNITS: Final = ("", "Mi")
_LONG_MAX: Final = 2**63 - 1
_INT_MAX: Final = 2**31 - 1
MAX_CALLS: Final = 1000
"""Calls without an answer; a NodeManager has one at a time."""


@dataclass(frozen=True, slots=True)
class ContainerSize:
    """The two resources that are translated; all others pass."""

    memory_mb: int = 0
    vcores: int = 0

    def __add__(self, addend: ContainerSize) -> ContainerSize:
        return ContainerSize(self.memory_mb + addend.memory_mb, self.vcores + addend.vcores)

    def __str__(self) -> str:
        return f"{self.memory_mb} MB, {self.vcores} vcores"


@dataclass(frozen=True, slots=True)
class NodeMasterKey:
    """A master key of the ResourceManager."""

    key_id: int
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class FromNode:
    """Bytes of the NodeManager."""

    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class FromRm:
    """Bytes of the ResourceManager."""

    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ToNode:
    """Send bytes to the NodeManager."""

    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ToResourceTracker:
    """Send bytes to the ResourceManager."""

    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Registered:
    """A NodeManager registers. `clamped`: it has less than is to be hidden, so the ResourceManager sees the least."""

    node_id: str
    nodemanager: ContainerSize
    resourcemanager: ContainerSize
    clamped: bool


@dataclass(frozen=True, slots=True)
class NodeResized:
    """The ResourceManager gave the node another size. `holds_more`: the NodeManager runs more, and keeps it."""

    nodemanager: ContainerSize
    resourcemanager: ContainerSize
    holds_more: bool


@dataclass(frozen=True, slots=True)
class NodeKeysSeen:
    """The NodeManager has these master keys now."""

    node_id: str
    container: NodeMasterKey
    nm: NodeMasterKey
    rm_identifier: int
    """Start time (ms) of the ResourceManager at which it registered; 0 where that was not seen."""


TrackerEvent = FromNode | FromRm
TrackerCommand = ToNode | ToResourceTracker | Registered | NodeResized | NodeKeysSeen | PassesThrough | Garbage


class RelayState(Enum):
    """State of a connection."""

    LOGIN = "login"
    """The handshake passes unchanged."""
    REWRITING = "rewriting"
    """Sizes and types of containers are rewritten."""
    PASSING = "passing"
    """Bytes pass unread: another protocol, or signed or encrypted."""
    BROKEN = "broken"
    """A side broke the protocol; both sides are to be closed."""


TRANSITIONS: Final = {
    RelayState.LOGIN: {RelayState.REWRITING, RelayState.PASSING, RelayState.BROKEN},
    RelayState.REWRITING: {RelayState.PASSING, RelayState.BROKEN},
    RelayState.PASSING: {RelayState.BROKEN},
    RelayState.BROKEN: set[RelayState](),
}


class TrackerRelay:
    """One connection; `handle(event)` is the only way in. After `Garbage` both sides are to be closed.

    extra: Q, what the NodeManager has beyond what the ResourceManager sees. mark_guaranteed: running OPPORTUNISTIC
    containers are reported as GUARANTEED, see `_marked`. keys: whether master keys are watched.
    """

    def __init__(
        self,
        extra: ContainerSize,
        mark_guaranteed: bool = True,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        keys: bool = False,
    ) -> None:
        self.state = RelayState.LOGIN
        self._extra, self._mark, self._watches_keys = extra, mark_guaranteed, keys
        self._node_id, self._rm_identifier = "", 0
        self._seen: NodeKeysSeen | None = None
        """The keys that were reported last."""
        self._server = ServerConnection(max_frame_bytes)
        self._client = ClientConnection(max_frame_bytes)
        self._calls: dict[int, tuple[str, ContainerSize]] = {}
        """Calls whose answers may contain the node's size: their method, and the resources in use on the node."""
        self._reported: ContainerSize | None = None
        """The last size that was reported; an equal one is not reported again."""
        self._out: list[TrackerCommand] = []

    @property
    def opened(self) -> bool:
        """Whether the handshake is over."""
        return self.state is not RelayState.LOGIN

    def handle(self, event: TrackerEvent) -> list[TrackerCommand]:
        """Handle bytes of one side; return the commands, in order."""
        self._out = []
        if self.state is RelayState.BROKEN:
            return self._out
        side = "NodeManager" if isinstance(event, FromNode) else "ResourceManager"
        try:
            if isinstance(event, FromNode):
                for message in self._server.receive_data(event.data):
                    self._node_said(message)
            else:
                for answered in self._client.receive_data(event.data):
                    self._rm_said(answered)
        except RemoteProtocolError as error:
            self._enter(RelayState.BROKEN)
            self._out.append(Garbage(side, str(error)))
        return self._out

    # Messages of the NodeManager

    def _node_said(self, event: ServerEvent) -> None:
        if isinstance(event, Opaque):
            self._out.append(ToResourceTracker(event.data))
            return
        raw = event.raw
        if isinstance(event, ConnectionContext):
            if event.protocol != TRACKER_PROTOCOL:
                self._pass_through(f"the protocol is {event.protocol or 'not named'}", encrypted=False)
            elif self.state is RelayState.LOGIN:
                self._enter(RelayState.REWRITING)
        elif isinstance(event, SaslFrame):
            self._watch(event)
        elif isinstance(event, Call) and self.state is not RelayState.PASSING:
            raw = self._called(event)
        self._out.append(ToResourceTracker(raw))

    def _called(self, call: Call) -> bytes:
        if call.method == _REGISTER:
            return self._register(call)
        if call.method == _HEARTBEAT:
            return self._heartbeat(call)
        return call.raw

    def _register(self, call: Call) -> bytes:
        request = parse_message(RegisterNodeManagerRequestProto.FromString, call.body, _REGISTER)
        self._expect(call, request.nodeStatus.containersStatuses)
        node_id = self._node_id = f"{request.node_id.host}:{request.node_id.port}"
        believed = _size(request.resource)
        least = ContainerSize(min(1, believed.memory_mb), min(1, believed.vcores))
        seen = ContainerSize(believed.memory_mb - self._extra.memory_mb, believed.vcores - self._extra.vcores)
        bounded = _larger(seen, least)
        self._out.append(Registered(node_id, believed, bounded, clamped=bounded != seen))
        if bounded == believed:
            return call.raw
        _resize(request.resource, bounded)
        return replace_body(call, request)

    def _heartbeat(self, call: Call) -> bytes:
        if not (self._mark or self._watches_keys) and self._extra == ContainerSize():
            return call.raw
        request = parse_message(NodeHeartbeatRequestProto.FromString, call.body, _HEARTBEAT)
        if self._watches_keys:
            node = request.node_status.node_id
            keys = request.last_known_container_token_master_key, request.last_known_nm_token_master_key
            self._watch_keys(f"{node.host}:{node.port}", *keys)
        statuses = request.node_status.containersStatuses
        self._expect(call, statuses)
        return replace_body(call, request) if self._mark and _marked(statuses) else call.raw

    def _watch_keys(self, node_id: str, container: MasterKeyProto, nm: MasterKeyProto) -> None:
        """Report the keys of a heartbeat, or of an answer to a registration, where they are news."""
        if not (container.bytes and nm.bytes):
            return
        seen = NodeKeysSeen(node_id, key_of(container), key_of(nm), self._rm_identifier)
        if seen != self._seen:
            self._seen = seen
            self._out.append(seen)

    def _expect(self, call: Call, statuses: Iterable[ContainerStatusProto]) -> None:
        if self._extra == ContainerSize() and not (self._watches_keys and call.method == _REGISTER):
            return
        if len(self._calls) >= MAX_CALLS:
            raise RemoteProtocolError(f"more than {MAX_CALLS} calls without an answer")
        if call.call_id in self._calls:
            raise RemoteProtocolError(f"call id {call.call_id} comes again before its call is answered")
        self._calls[call.call_id] = (call.method, _running(statuses))

    # Answers of the ResourceManager

    def _rm_said(self, event: ClientEvent) -> None:
        if isinstance(event, Opaque):
            self._out.append(ToNode(event.data))
            return
        raw = event.raw
        if isinstance(event, SaslFrame):
            self._watch(event)
        elif isinstance(event, Failure):
            self._calls.pop(event.call_id, None)
        elif isinstance(event, Response) and event.call_id in self._calls:
            raw = self._answered(event, *self._calls.pop(event.call_id))
        self._out.append(ToNode(raw))

    def _answered(self, event: Response, method: str, running: ContainerSize) -> bytes:
        answer: RegisterNodeManagerResponseProto | NodeHeartbeatResponseProto
        if method == _REGISTER:
            answer = parse_message(RegisterNodeManagerResponseProto.FromString, event.body, f"answer to {method}")
            if self._watches_keys:
                self._rm_identifier = answer.rm_identifier
                self._watch_keys(self._node_id, answer.container_token_master_key, answer.nm_token_master_key)
        else:
            answer = parse_message(NodeHeartbeatResponseProto.FromString, event.body, f"answer to {method}")
        if self._extra == ContainerSize() or not answer.HasField("resource"):
            return event.raw
        size = _size(answer.resource)
        goal = size + self._extra
        result = _larger(goal, running)
        if self._reported != result:
            self._reported = result
            self._out.append(NodeResized(result, size, holds_more=result != goal))
        _resize(answer.resource, result)
        return replace_body(event, answer)

    def _enter(self, state: RelayState) -> None:
        if state is not self.state:
            assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
            self.state = state

    # Connections that cannot be read

    def _watch(self, event: SaslFrame) -> None:
        """A login passes as it is; a signed or encrypted connection shows by its first frame."""
        if event.state == RpcSaslProto.WRAP and self.state is not RelayState.PASSING:
            self._pass_through("the connection is signed or encrypted", encrypted=True)

    def _pass_through(self, reason: str, *, encrypted: bool) -> None:
        self._enter(RelayState.PASSING)
        self._server.pass_through()
        self._client.pass_through()
        self._calls.clear()
        self._out.append(PassesThrough(reason, encrypted))


def key_of(key: MasterKeyProto) -> NodeMasterKey:
    """Return a key as this package has it."""
    return NodeMasterKey(key.key_id, key.bytes)


def _marked(statuses: Iterable[ContainerStatusProto]) -> bool:
    """Report running OPPORTUNISTIC containers as GUARANTEED; return whether there were any.

    `RMNodeImpl.findLostContainers` (Hadoop 3.3 to 3.5) iterates over all launched containers but takes only GUARANTEED
    ones as reported: with one container missing it declares every running OPPORTUNISTIC one of the node lost. Nothing
    else of the ResourceManager reads the type of a running container here; an ended one's reaches the application.
    """
    running = [s for s in statuses if s.state == C_RUNNING and s.executionType == OPPORTUNISTIC]
    for status in running:
        status.executionType = GUARANTEED
    return bool(running)


def _running(statuses: Iterable[ContainerStatusProto]) -> ContainerSize:
    """Return the resources that the NodeManager's containers hold; those that wait in it hold nothing yet."""
    total = ContainerSize()
    for status in statuses:
        if status.state == C_RUNNING and status.container_sub_state != CSS_SCHEDULED:
            total += _size(status.capability)
    return total


def _larger(a: ContainerSize, b: ContainerSize) -> ContainerSize:
    return ContainerSize(max(a.memory_mb, b.memory_mb), max(a.vcores, b.vcores))


def _size(resource: ResourceProto) -> ContainerSize:
    return ContainerSize(resource.memory, resource.virtual_cores)


def _resize(resource: ResourceProto, size: ContainerSize) -> None:
    """Write a size, also into the list of all resources, where Hadoop 3 repeats the two."""
    resource.memory, resource.virtual_cores = min(size.memory_mb, _LONG_MAX), min(size.vcores, _INT_MAX)
    for entry in resource.resource_value_map:
        if entry.key == "memory-mb" and entry.units in _MB_UNITS:
            entry.value = resource.memory
        elif entry.key == "vcores":
            entry.value = resource.virtual_cores
