"""A small ResourceManager for the virtual clock: opportunistic containers at once, guaranteed ones on heartbeats.

It does what the proxy depends on (docs/architecture.md): absolute rows for guaranteed containers, lowered at host, rack
and ANY by each grant; opportunistic ones on the host of their row, within the allocate call; completions with the next
answer after the node told them. Guaranteed containers go by application, the oldest first, one off-switch container
for each heartbeat of a node, as stock YARN has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Resources
from rm_proxy.sizes import resources_of

ANY: Final = "*"
RELEASED: Final = -100
Key = tuple[int, int]
"""Priority and allocation request id."""


@dataclass(slots=True)
class Granted:
    """A container that the ResourceManager counts."""

    proto: y.ContainerProto
    node_id: str
    size: Resources
    opportunistic: bool


@dataclass(slots=True)
class Rows:
    """What an application wants of one key."""

    size: Resources
    counts: dict[str, int] = field(default_factory=dict)


class App:
    """One application attempt."""

    def __init__(self, attempt: y.ApplicationAttemptIdProto, queue: str) -> None:
        self.attempt, self.queue = attempt, queue
        self.rows: dict[Key, Rows] = {}
        self.containers: dict[int, Granted] = {}
        self.granted: list[y.ContainerProto] = []
        self.completed: list[y.ContainerStatusProto] = []
        self.updated: list[y.UpdatedContainerProto] = []
        self.response_id = 0


@dataclass(slots=True)
class YarnNode:
    """A node; `used` is what guaranteed containers hold."""

    id: str
    host: str
    rack: str
    capacity: Resources
    used: Resources = field(default_factory=Resources)


class Yarn:
    """All applications and nodes."""

    def __init__(self, nodes: Iterable[YarnNode]) -> None:
        self.nodes = {node.id: node for node in nodes}
        self.by_host = {node.host: node for node in self.nodes.values()}
        self.apps: dict[int, App] = {}
        self._total = sum((node.capacity for node in self.nodes.values()), Resources())
        self.used: dict[str, Resources] = {}
        """By queue, of guaranteed containers."""
        self._wanting: dict[int, App] = {}
        self._next = 1

    def register(self, attempt: y.ApplicationAttemptIdProto, queue: str) -> bytes:
        """Take in an application master; return the answer."""
        self.apps[attempt.application_id.id] = App(attempt, queue)
        answer = y.RegisterApplicationMasterResponseProto(queue=queue)
        answer.maximumCapability.memory, answer.maximumCapability.virtual_cores = 1 << 20, 1 << 10
        return answer.SerializeToString()

    def unregister(self, number: int) -> None:
        """Forget an application with all its containers."""
        app = self.apps.pop(number)
        self._wanting.pop(number, None)
        for container in list(app.containers.values()):
            self._charge(app, container, -1)

    def allocate(self, number: int, body: bytes) -> bytes:
        """Answer one heartbeat of an application master."""
        app, request = self.apps[number], y.AllocateRequestProto.FromString(body)
        assert request.response_id == app.response_id, "the virtual network loses nothing"
        app.response_id += 1
        answer = y.AllocateResponseProto(response_id=app.response_id, num_cluster_nodes=len(self.nodes))
        opportunistic: dict[Key, Rows] = {}
        for row in request.ask:
            key = row.priority.priority, row.allocation_request_id
            if row.execution_type_request.execution_type == y.OPPORTUNISTIC:
                wanted = opportunistic.setdefault(key, Rows(resources_of(row.capability)))
                wanted.counts[row.resource_name] = row.num_containers
            else:
                self._take(app, key, row)
        if app.rows:
            self._wanting[number] = app
        answer.allocated_containers.extend(self._at_once(app, opportunistic))
        for released in request.release:
            self._end(app, released.id, RELEASED, "released by the application")
        self._promote(app, request.update_requests)
        answer.allocated_containers.extend(app.granted)
        answer.completed_container_statuses.extend(app.completed)
        answer.updated_containers.extend(app.updated)
        app.granted, app.completed, app.updated = [], [], []
        free = self.free()
        answer.limit.memory, answer.limit.virtual_cores = free.memory_mb, int(free.vcores)
        return answer.SerializeToString()

    def free(self) -> Resources:
        """Return what guaranteed containers leave of all nodes."""
        return self._total - sum(self.used.values(), Resources())

    def _take(self, app: App, key: Key, row: y.ResourceRequestProto) -> None:
        rows = app.rows.setdefault(key, Rows(resources_of(row.capability)))
        if row.num_containers:
            rows.counts[row.resource_name] = row.num_containers
        else:
            rows.counts.pop(row.resource_name, None)
        if not rows.counts:
            del app.rows[key]

    def _at_once(self, app: App, wanted: dict[Key, Rows]) -> list[y.ContainerProto]:
        found = []
        for key, rows in wanted.items():
            left = rows.counts.get(ANY, 0)
            for host, count in rows.counts.items():
                node = self.by_host.get(host)
                for _ in range(min(left, count) if node is not None else 0):
                    assert node is not None
                    left -= 1
                    found.append(self._grant(app, node, key, rows.size, opportunistic=True))
        return found

    def _grant(self, app: App, node: YarnNode, key: Key, size: Resources, opportunistic: bool) -> y.ContainerProto:
        number, self._next = self._next, self._next + 1
        proto = y.ContainerProto(allocation_request_id=key[1])
        proto.id.id = number
        proto.id.app_attempt_id.CopyFrom(app.attempt)
        host, _, port = node.id.partition(":")
        proto.nodeId.host, proto.nodeId.port = host, int(port)
        proto.resource.memory, proto.resource.virtual_cores = size.memory_mb, int(size.vcores)
        proto.priority.priority = key[0]
        proto.execution_type = y.OPPORTUNISTIC if opportunistic else y.GUARANTEED
        granted = app.containers[number] = Granted(proto, node.id, size, opportunistic)
        self._charge(app, granted, 1)
        return proto

    def _charge(self, app: App, container: Granted, sign: int) -> None:
        if container.opportunistic:
            return
        node, used = self.nodes[container.node_id], self.used.get(app.queue, Resources())
        if sign > 0:
            node.used, self.used[app.queue] = node.used + container.size, used + container.size
        else:
            node.used, self.used[app.queue] = node.used - container.size, used - container.size

    def _end(self, app: App, number: int, exit_status: int, text: str) -> None:
        container = app.containers.pop(number, None)
        if container is None:
            return
        self._charge(app, container, -1)
        status = y.ContainerStatusProto(state=y.C_COMPLETE, exit_status=exit_status, diagnostics=text)
        status.container_id.CopyFrom(container.proto.id)
        app.completed.append(status)

    def _promote(self, app: App, wanted: Iterable[y.UpdateContainerRequestProto]) -> None:
        """Make running opportunistic containers guaranteed where their node has room by the ResourceManager's count."""
        for request in wanted:
            container = app.containers.get(request.container_id.id)
            if container is None or not container.opportunistic or request.update_type != y.PROMOTE_EXECUTION_TYPE:
                continue
            node = self.nodes[container.node_id]
            if container.size.fits(node.capacity - node.used):
                container.opportunistic = False
                self._charge(app, container, 1)
                container.proto.execution_type = y.GUARANTEED
                container.proto.version += 1
                updated = y.UpdatedContainerProto(update_type=request.update_type)
                updated.container.CopyFrom(container.proto)
                app.updated.append(updated)

    def heartbeat(self, node_id: str, ended: Iterable[tuple[int, int, int]]) -> None:
        """Take in what a node tells and grant guaranteed containers there. ended: application, container, exit."""
        for number, container, exit_status in ended:
            app = self.apps.get(number)
            if app is not None:
                self._end(app, container, exit_status, "")
        node, off_switch = self.nodes[node_id], 1
        for number in sorted(self._wanting):
            app = self._wanting[number]
            for key in sorted(app.rows):
                off_switch = self._assign(app, key, node, off_switch)
            if not app.rows:
                del self._wanting[number]

    def _assign(self, app: App, key: Key, node: YarnNode, off_switch: int) -> int:
        """Grant containers of one key on a node; return how many off-switch ones it may still get."""
        rows = app.rows[key]
        while ANY in rows.counts and rows.size.fits(node.capacity - node.used):
            local = node.host in rows.counts
            if not local and off_switch == 0:
                break
            off_switch -= not local
            for name in (node.host, node.rack, ANY):
                if name in rows.counts:
                    rows.counts[name] -= 1
                    if rows.counts[name] == 0:
                        del rows.counts[name]
            app.granted.append(self._grant(app, node, key, rows.size, opportunistic=False))
        if ANY not in rows.counts:
            del app.rows[key]
        return off_switch
