"""One NodeManager's conversation with the ResourceManager (ResourceTracker), as a machine: requests out, answers in.

As NodeStatusUpdaterImpl of Hadoop 3.4.2: containers that ended are told once, and again while an answer is missing;
what the ResourceManager acknowledges is forgotten; a node that it does not know registers again, with what it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hadoop_rpc.errors import RemoteProtocolError
from hadoop_rpc.frames import varint
from hadoop_rpc.protos.yarn_pb2 import (
    C_COMPLETE,
    C_RUNNING,
    CSS_DONE,
    CSS_RUNNING,
    CSS_SCHEDULED,
    GUARANTEED,
    OPPORTUNISTIC,
    ContainerStatusProto,
    NodeIdProto,
    ResourceProto,
)
from hadoop_rpc.protos.yarn_server_pb2 import (
    RESYNC,
    SHUTDOWN,
    MasterKeyProto,
    NMContainerStatusProto,
    NodeHealthStatusProto,
    NodeHeartbeatRequestProto,
    NodeHeartbeatResponseProto,
    NodeStatusProto,
    OpportunisticContainersStatusProto,
    RegisterNodeManagerRequestProto,
    RegisterNodeManagerResponseProto,
)
from quicksilver_lab.bench.emulator.nodes.nm import NmContainer, NmPhase, NodeManager
from quicksilver_lab.bench.emulator.nodes.nm_events import (
    BY_RESOURCEMANAGER,
    KILLED_BY_RESOURCEMANAGER,
    AppOver,
    Event,
    Limited,
    NmSize,
    NmStop,
    Retyped,
)
from sidecar.gate.start_messages import application_id, container_id, container_proto

TRACKER_PROTOCOL: Final = "org.apache.hadoop.yarn.server.api.ResourceTrackerPB"
REGISTER: Final = "registerNodeManager"
HEARTBEAT: Final = "nodeHeartbeat"
_VERSION: Final = "3.4.2"
_STATUSES: Final = b"\x1a"
"""Tag of NodeStatusProto.containersStatuses."""
_UTILIZATION: Final = b"\x32\x00\x3a\x00"
"""NodeStatusProto.containers_utilization and node_utilization, both nothing; without them the ResourceManager's REST
cannot list its nodes."""
_NODE_STATUS: Final = b"\x0a"
"""Tag of NodeHeartbeatRequestProto.node_status."""
_SUB_STATES: Final = {
    NmPhase.QUEUED: CSS_SCHEDULED,
    NmPhase.LAUNCHING: CSS_SCHEDULED,
    NmPhase.RUNNING: CSS_RUNNING,
    NmPhase.KILLING: CSS_RUNNING,
    NmPhase.DONE: CSS_DONE,
}
_DEFAULT_INTERVAL_S: Final = 1.0


class TurnedAwayError(RemoteProtocolError):
    """The ResourceManager does not want this node."""


@dataclass(frozen=True, slots=True)
class TrackerAnswer:
    """What an answer comes to: events for the NodeManager, and whether it has to register again."""

    events: Sequence[Event] = ()
    resync: bool = False
    interval_s: float = _DEFAULT_INTERVAL_S


@dataclass(frozen=True, slots=True)
class ReportRelay:
    """What quicksilver's tracker relay changes; as it is here, nothing."""

    extra: NmSize = NmSize(0, 0)  # noqa: RUF009
    """The NodeManager's resources that the ResourceManager does not know."""
    mark_guaranteed: bool = False
    """Running opportunistic containers are reported as guaranteed, see `sidecar.tracker.relay`."""


class Tracker:
    """One node. Calls go `register`, `registered`, then `heartbeat` and `answered` in turn; `missed` for a lost answer.

    node_id: host:port. http_port: what the ResourceManager shows; nothing listens there.
    relay: behind quicksilver's tracker relay (`sidecar.tracker.relay`), which does two things on the way.
    """

    def __init__(self, node_id: str, nm: NodeManager, http_port: int, relay: ReportRelay | None = None) -> None:
        host, _, port = node_id.rpartition(":")
        self.node_id, self.nm, self.http_port = node_id, nm, http_port
        self._relay = ReportRelay() if relay is None else relay
        self.rm_identifier = 0
        self.container_key = MasterKeyProto()
        """What the ResourceManager signs container tokens with."""
        self.nm_token_key = MasterKeyProto()
        self._proto = NodeIdProto(host=host, port=int(port))
        self._health = NodeHealthStatusProto(is_node_healthy=True, health_report="", last_health_report_time=0)
        self._fixed = NodeStatusProto(node_id=self._proto, nodeHealthStatus=self._health).SerializeToString()
        self._fixed += _UTILIZATION
        self._keys = b""
        self._response_id = 0
        self._token_sequence = 0
        self._ended: dict[str, bytes] = {}
        """Statuses of ended containers that no answered heartbeat has carried."""
        self._reported: set[str] = set()
        """Ended containers that were reported."""
        self._unacknowledged: list[str] = []
        """What the ResourceManager does not want to hear of any more, but has not ended."""
        self._missed = False
        self._statuses: dict[str, tuple[NmPhase, bool, bytes]] = {}
        """Of containers that have not ended: the status last reported, with phase and type."""

    # Registration

    def register(self) -> RegisterNodeManagerRequestProto:
        """Return the request that makes the node known, with all containers of applications that it knows."""
        nm, extra = self.nm, self._relay.extra
        seen = NmSize(nm.capacity.memory_mb - extra.memory_mb, nm.capacity.vcores - extra.vcores)
        request = RegisterNodeManagerRequestProto(node_id=self._proto, http_port=self.http_port, nm_version=_VERSION)
        for resource in (request.resource, request.physicalResource):
            _fill(resource, seen)
        for name, container in nm.containers.items():
            if container.spec.app_id in nm.apps:
                request.container_statuses.append(_registered_status(name, container))
        for app in sorted(nm.apps):
            number = app.rpartition("_")
            timestamp = number[0].rpartition("_")[2]
            request.runningApplications.add(id=int(number[2]), cluster_timestamp=int(timestamp))
        request.nodeStatus.ParseFromString(self._status(0))
        return request

    def registered(self, answer: RegisterNodeManagerResponseProto) -> None:
        """Handle the answer. Raises TurnedAwayError when the ResourceManager wants the node to shut down."""
        if answer.nodeAction == SHUTDOWN:
            raise TurnedAwayError(f"{self.node_id} is turned away: {answer.diagnostics_message}")
        self.rm_identifier = answer.rm_identifier
        self._response_id = 0
        self._new_keys(answer)
        if answer.HasField("resource"):
            self._resize(answer.resource)

    # Heartbeats

    def heartbeat(self) -> bytes:
        """Return a serialized NodeHeartbeatRequestProto."""
        status = self._status(self._response_id)
        request = _NODE_STATUS + varint(len(status)) + status + self._keys
        if self._token_sequence:
            request += b"\x40" + varint(self._token_sequence)
        return request

    def missed(self) -> None:
        """Handle a heartbeat without an answer: its content may not have arrived."""
        self._missed = True

    def answered(self, answer: NodeHeartbeatResponseProto, now_s: float) -> TrackerAnswer:
        """Handle the answer to a heartbeat. Raises TurnedAwayError when the node is to shut down."""
        if answer.nodeAction == SHUTDOWN:
            raise TurnedAwayError(f"{self.node_id} is turned away: {answer.diagnostics_message}")
        if answer.HasField("container_token_master_key") or answer.HasField("nm_token_master_key"):
            self._new_keys(answer)
        interval_s = answer.nextHeartBeatInterval / 1000 if answer.nextHeartBeatInterval > 0 else _DEFAULT_INTERVAL_S
        if answer.nodeAction == RESYNC:
            self._ended.clear()
            return TrackerAnswer(resync=True, interval_s=interval_s)
        self._acknowledged(answer)
        self._response_id = answer.response_id
        self._token_sequence = answer.tokenSequenceNo
        if answer.HasField("resource"):
            self._resize(answer.resource)
        return TrackerAnswer(_wishes(answer, now_s), interval_s=interval_s)

    def _acknowledged(self, answer: NodeHeartbeatResponseProto) -> None:
        if answer.containers_to_be_removed_from_nm or self._unacknowledged:
            new = [container_id(proto) for proto in answer.containers_to_be_removed_from_nm]
            for name in new:
                self._ended.pop(name, None)
            names = [*self._unacknowledged, *new]
            self._unacknowledged = self.nm.forget(names)
            for name in names:
                if name not in self.nm.containers:
                    self._reported.discard(name)
                    self._statuses.pop(name, None)
        if not self._missed:
            self._ended.clear()
        self._missed = False

    def _status(self, response_id: int) -> bytes:
        """Return a serialized NodeStatusProto."""
        parts = [self._fixed, b"\x10" + varint(response_id)]
        known = self._statuses
        for name, container in list(self.nm.containers.items()):
            if container.phase is NmPhase.DONE:
                self._take_ended(name, container)
                continue
            seen = known.get(name)
            if seen is None or seen[0] is not container.phase or seen[1] != container.opportunistic:
                seen = known[name] = (container.phase, container.opportunistic, self._live(name, container))
            parts.append(seen[2])
        parts += self._ended.values()
        queue = self._queue().SerializeToString()
        parts.append(b"\x4a" + varint(len(queue)) + queue)
        return b"".join(parts)

    def _live(self, name: str, container: NmContainer) -> bytes:
        """Return the entry of a container that has not ended."""
        status = container_status(name, container)
        if self._relay.mark_guaranteed:
            status.executionType = GUARANTEED
        return _entry(status)

    def _take_ended(self, name: str, container: NmContainer) -> None:
        """Report the end of a container: once, or again until a heartbeat with it is answered."""
        self._statuses.pop(name, None)
        if container.spec.app_id not in self.nm.apps:
            del self.nm.containers[name]
            self._reported.discard(name)
            self._ended[name] = _entry(container_status(name, container))
        elif name not in self._reported:
            self._reported.add(name)
            self._ended[name] = _entry(container_status(name, container))

    def _queue(self) -> OpportunisticContainersStatusProto:
        nm = self.nm
        running = [container for container in nm.running.values() if container.opportunistic]
        return OpportunisticContainersStatusProto(
            running_opport_containers=len(running),
            opport_memory_used=sum(container.spec.size.memory_mb for container in running) // 1024,
            opport_cores_used=sum(container.spec.size.vcores for container in running),
            queued_opport_containers=len(nm.opportunistic),
            wait_queue_length=len(nm.guaranteed) + len(nm.opportunistic),
            opport_queue_capacity=nm.max_queue_length,
        )

    def _new_keys(self, answer: RegisterNodeManagerResponseProto | NodeHeartbeatResponseProto) -> None:
        if answer.HasField("container_token_master_key"):
            self.container_key.CopyFrom(answer.container_token_master_key)
        if answer.HasField("nm_token_master_key"):
            self.nm_token_key.CopyFrom(answer.nm_token_master_key)
        self._keys = NodeHeartbeatRequestProto(
            last_known_container_token_master_key=self.container_key,
            last_known_nm_token_master_key=self.nm_token_key,
        ).SerializeToString()

    def _resize(self, resource: ResourceProto) -> None:
        extra = self._relay.extra
        self.nm.capacity = NmSize(resource.memory + extra.memory_mb, resource.virtual_cores + extra.vcores)


def _wishes(answer: NodeHeartbeatResponseProto, now_s: float) -> list[Event]:
    """Return what the ResourceManager wants of the NodeManager, in Hadoop's order."""
    events: list[Event] = [
        NmStop(container_id(proto), KILLED_BY_RESOURCEMANAGER, BY_RESOURCEMANAGER, now_s)
        for proto in answer.containers_to_cleanup
    ]
    events += [AppOver(application_id(app.cluster_timestamp, app.id), now_s) for app in answer.applications_to_cleanup]
    events += [
        Retyped(container_id(update.id), update.execution_type == OPPORTUNISTIC, now_s)
        for update in answer.containers_to_update
    ]
    if answer.HasField("container_queuing_limit"):
        events.append(Limited(answer.container_queuing_limit.max_queue_length, now_s))
    return events


def container_status(name: str, container: NmContainer) -> ContainerStatusProto:
    """Return a container's status as the ResourceManager and application masters get it."""
    status = ContainerStatusProto(
        container_id=container_proto(name),
        state=C_COMPLETE if container.phase is NmPhase.DONE else C_RUNNING,
        container_sub_state=_SUB_STATES[container.phase],
        diagnostics=container.diagnostics,
        exit_status=container.exit_status,
        executionType=OPPORTUNISTIC if container.opportunistic else GUARANTEED,
    )
    _fill(status.capability, container.spec.size)
    return status


def _entry(status: ContainerStatusProto) -> bytes:
    """Return one entry of NodeStatusProto.containersStatuses."""
    data = status.SerializeToString()
    return _STATUSES + varint(len(data)) + data


def _registered_status(name: str, container: NmContainer) -> NMContainerStatusProto:
    status = NMContainerStatusProto(
        container_id=container_proto(name),
        container_state=C_COMPLETE if container.phase is NmPhase.DONE else C_RUNNING,
        diagnostics=container.diagnostics,
        container_exit_status=container.exit_status,
        executionType=OPPORTUNISTIC if container.opportunistic else GUARANTEED,
    )
    _fill(status.resource, container.spec.size)
    return status


def _fill(resource: ResourceProto, size: NmSize) -> None:
    resource.memory, resource.virtual_cores = size.memory_mb, size.vcores
