"""A model of the ResourceManager, faithful where the proxy depends on it (Hadoop 3.4.2).

Guaranteed rows: AppSchedulingInfo and LocalityAppPlacementAllocator (absolute rows; decremented at host, rack and ANY
on each grant; grants on node heartbeats, delivered with the next allocate). Opportunistic rows:
OpportunisticContainerContext and CentralizedOpportunisticContainerAllocator with nodes-used=0 (grants on host rows,
within the allocate call). Promotions: RMServerUtils.validateAndSplitUpdateResourceRequests and ContainerUpdateContext
(planned as a guaranteed container on the node, told with the next allocate). Response ids: ApplicationMasterService
(one step old: the last answer again).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from hadoop_rpc.protos import yarn_pb2 as y

ANY = "*"
NOT_REGISTERED = "org.apache.hadoop.yarn.exceptions.ApplicationMasterNotRegisteredException"
INVALID = "org.apache.hadoop.yarn.exceptions.InvalidApplicationMasterRequestException"
Key = tuple[int, int]


class Refused(Exception):
    """An exception of the ResourceManager, by its Java class."""


@dataclass
class RmContainer:
    number: int
    node: str
    opportunistic: bool
    memory_mb: int
    running: bool = False
    version: int = 0
    priority: int = 0
    request_id: int = -1


@dataclass
class GRow:
    count: int
    memory_mb: int
    relax: bool


@dataclass
class Outstanding:
    """EnrichedResourceRequest."""

    count: int
    hosts: dict[str, int] = field(default_factory=dict)


@dataclass
class RmNode:
    host: str
    rack: str
    memory_mb: int
    up: bool = True
    takes_o: bool = True
    """Whether it has a place in its queue; off: the allocator finds no node for its host row."""
    to_clean: list[int] = field(default_factory=list)


class App:
    """What the ResourceManager knows of one application attempt."""

    def __init__(self, timestamp: int, number: int) -> None:
        self.timestamp, self.number = timestamp, number
        self.containers: dict[int, RmContainer] = {}
        self.ran: set[int] = set()
        self.attempt = 1
        self.attempt_of: dict[int, int] = {}
        """Of the containers that are not of the first attempt."""
        self.keys: dict[int, Key] = {}
        """Priority and request id of each container: its token has them, and NodeManagers report them."""
        self.start_over()

    def start_over(self) -> None:
        self.registered = False
        self.g: dict[Key, dict[str, GRow]] = {}
        self.o: dict[Key, dict[int, Outstanding]] = {}
        self.capability_of: dict[Key, int] = {}
        self.blacklist: set[str] = set()
        self.response_id = -1
        self.last: bytes = b""
        self.granted: list[y.ContainerProto] = []
        self.completed: list[y.ContainerStatusProto] = []
        self.acknowledged_next: list[y.ContainerStatusProto] = []
        """Told with the last answer; the NodeManagers report them again until the next allocate."""
        self.promoting: dict[int, str] = {}
        """Containers whose promotion waits for room on their node, and the node; it is not taken back when they end."""
        self.room: dict[int, tuple[str, int]] = {}
        """Containers for whose promotion there is room: node and MB of what is granted for it until it is told."""

    def id_proto(self, number: int) -> y.ContainerIdProto:
        proto = y.ContainerIdProto(id=number)
        proto.app_attempt_id.attemptId = self.attempt_of.get(number, 1)
        proto.app_attempt_id.application_id.id = self.number
        proto.app_attempt_id.application_id.cluster_timestamp = self.timestamp
        return proto


class ResourceManager:
    """All applications and nodes."""

    def __init__(self, nodes: dict[str, RmNode], timestamp: int) -> None:
        self.nodes = nodes
        self.timestamp = timestamp
        self.apps: dict[int, App] = {}
        self.next_container = 1
        self.forgotten: set[int] = set()
        """Containers whose tokens are of an earlier ResourceManager."""
        self.excess: Counter[int] = Counter()
        """By application: grants that stock YARN makes too many, because a row overwrote grants on their way."""
        self.accepted: Callable[[str, int], bool] = lambda node, number: False
        """Tells whether a NodeManager has taken a start that it has not told of yet."""

    def app(self, number: int) -> App:
        return self.apps.setdefault(number, App(self.timestamp, number))

    def recover(self, app: App, container: RmContainer) -> None:
        """Take a container that a NodeManager reports after a restart; it stops one of an attempt before, not kept.

        (AbstractYarnScheduler.recoverContainersOnNode)
        """
        number = container.number
        if number not in app.containers and app.attempt_of.get(number, 1) < app.attempt:
            self.nodes[container.node].to_clean.append(number)
            return
        container.priority, container.request_id = app.keys[number]
        app.containers[number] = container
        app.ran.add(number)

    def restart(self) -> None:
        """Work-preserving restart: asks are forgotten, and so are containers that never ran."""
        for app in self.apps.values():
            self.forgotten |= {n for n, c in app.containers.items() if not c.running}
            app.containers = {n: c for n, c in app.containers.items() if c.running}
            untold_ids = {s.container_id.id for s in (*app.acknowledged_next, *app.completed)} - app.containers.keys()
            untold = [*app.acknowledged_next, *app.completed]
            app.start_over()
            app.completed = [s for s in untold if s.container_id.id in app.ran & untold_ids]

    def register(self, number: int) -> y.RegisterApplicationMasterResponseProto:
        app = self.app(number)
        app.registered, app.response_id = True, 0
        answer = y.RegisterApplicationMasterResponseProto(queue="default")
        answer.maximumCapability.memory, answer.maximumCapability.virtual_cores = 8192, 8
        return answer

    # allocate

    def allocate(self, number: int, body: bytes) -> bytes:
        app = self.app(number)
        request = y.AllocateRequestProto.FromString(body)
        if not app.registered:
            raise Refused(NOT_REGISTERED)
        if request.response_id + 1 == app.response_id:
            return app.last
        if request.response_id != app.response_id:
            raise Refused(f"{INVALID}: expect responseId to be {app.response_id} but get {request.response_id}")
        if request.HasField("blacklist_request"):
            app.blacklist -= set(request.blacklist_request.blacklist_removals)
            app.blacklist |= set(request.blacklist_request.blacklist_additions)
        answer = y.AllocateResponseProto(response_id=app.response_id + 1, num_cluster_nodes=len(self.nodes))
        opportunistic = [r for r in request.ask if r.execution_type_request.execution_type == y.OPPORTUNISTIC]
        self._take_o(app, opportunistic)
        answer.allocated_containers.extend(self._allocate_o(app))
        answer.update_errors.extend(self._take_updates(app, request.update_requests))
        for each in request.release:
            self.release(app, each.id)
        self._take_g(app, [r for r in request.ask if r.execution_type_request.execution_type == y.GUARANTEED])
        answer.allocated_containers.extend(app.granted)
        answer.completed_container_statuses.extend(app.completed)
        answer.updated_containers.extend(self._promoted(app))
        answer.limit.memory = self.free_mb()
        answer.limit.virtual_cores = 8
        app.granted, app.completed, app.acknowledged_next = [], [], app.completed
        app.response_id += 1
        app.last = answer.SerializeToString()
        return app.last

    def _take_updates(
        self, app: App, updates: Iterable[y.UpdateContainerRequestProto]
    ) -> Iterator[y.UpdateContainerErrorProto]:
        seen: set[int] = set()
        for update in updates:
            assert (update.update_type, update.execution_type) == (y.PROMOTE_EXECUTION_TYPE, y.GUARANTEED)
            number, reason = update.container_id.id, ""
            container = app.containers.get(number)
            if container is None:
                reason = "INVALID_CONTAINER_ID"
            elif update.container_version != container.version:
                reason = "INCORRECT_CONTAINER_VERSION_ERROR"
            elif number in seen or number in app.promoting or number in app.room:
                reason = "UPDATE_OUTSTANDING_ERROR"
            elif container.opportunistic:
                at_node = container.running or self.accepted(container.node, number)
                assert at_node, "the NodeManager would not know it"
                app.promoting[number] = container.node
            seen.add(number)
            if reason:
                version = container.version if container is not None else -1
                yield y.UpdateContainerErrorProto(
                    reason=reason, update_request=update, current_container_version=version
                )

    def _promoted(self, app: App) -> Iterator[y.UpdatedContainerProto]:
        room, app.room = app.room, {}
        for number in room:
            container = app.containers.get(number)
            if container is None:
                continue  # it ended: what was granted for it is dropped
            container.opportunistic = False
            container.version += 1
            told = y.UpdatedContainerProto(update_type=y.PROMOTE_EXECUTION_TYPE)
            told.container.id.CopyFrom(app.id_proto(number))
            told.container.execution_type, told.container.version = y.GUARANTEED, container.version
            yield told

    def used_mb(self, node_id: str) -> int:
        """Return what guaranteed containers use of a node, what is granted for promotions included."""
        apps = self.apps.values()
        given = sum(
            c.memory_mb for a in apps for c in a.containers.values() if c.node == node_id and not c.opportunistic
        )
        return given + sum(memory_mb for a in apps for node, memory_mb in a.room.values() if node == node_id)

    def free_mb(self) -> int:
        return sum(n.memory_mb - self.used_mb(node_id) for node_id, n in self.nodes.items() if n.up)

    def _take_o(self, app: App, rows: list[y.ResourceRequestProto]) -> None:
        for row in rows:
            key = (row.priority.priority, row.allocation_request_id)
            capability = row.capability.memory
            assert app.capability_of.setdefault(key, capability) == capability, "one capability per private id for ever"
            by_size = app.o.setdefault(key, {})
            ask = by_size.setdefault(capability, Outstanding(row.num_containers))
            if row.resource_name == ANY:
                ask.count = row.num_containers
            elif row.num_containers == 0:
                ask.hosts.pop(row.resource_name, None)
            else:
                ask.hosts[row.resource_name] = row.num_containers

    def _allocate_o(self, app: App) -> list[y.ContainerProto]:
        out = []
        for key in sorted(app.o):
            by_size = app.o[key]
            assert len(by_size) == 1, "a second capability under one key makes the allocator throw"
            ((memory_mb, ask),) = by_size.items()
            for host, most in list(ask.hosts.items()):
                node = next((n for n, v in self.nodes.items() if v.host == host and v.up and v.takes_o), None)
                while node is not None and most > 0 and ask.count > 0 and host not in app.blacklist:
                    most -= 1
                    ask.count -= 1
                    out.append(self._container(app, node, key, memory_mb, opportunistic=True))
                if ask.count == 0:
                    break
            if ask.count == 0 and any(c.allocation_request_id == key[1] for c in out):
                del app.o[key]
        return out

    def _take_g(self, app: App, rows: list[y.ResourceRequestProto]) -> None:
        for row in rows:
            key = (row.priority.priority, row.allocation_request_id)
            assert row.num_containers >= 0
            known = app.g.setdefault(key, {})
            if row.resource_name == ANY and row.num_containers:
                on_their_way = [c for c in app.granted if (c.priority.priority, c.allocation_request_id) == key]
                self.excess[app.number] += len(on_their_way)
            if row.num_containers:
                known[row.resource_name] = GRow(row.num_containers, row.capability.memory, row.relax_locality)
            else:
                known.pop(row.resource_name, None)
            if not known:
                del app.g[key]

    def next_attempt(self, number: int, keeps: bool) -> list[y.ContainerProto]:
        """The attempt is over: what runs is stopped or kept, what does not is forgotten; its tokens stay good.

        Returns what the next one's registration tells of. (RMAppAttemptImpl)
        """
        app = self.app(number)
        for gone in [c for c in app.containers.values() if not (c.running and keeps)]:
            del app.containers[gone.number]
            if gone.running:
                self.nodes[gone.node].to_clean.append(gone.number)
        app.start_over()
        app.attempt += 1
        return [self._kept(app, c) for c in app.containers.values()]

    def _kept(self, app: App, container: RmContainer) -> y.ContainerProto:
        proto = y.ContainerProto(allocation_request_id=container.request_id, version=container.version)
        proto.id.CopyFrom(app.id_proto(container.number))
        proto.nodeId.host, proto.nodeId.port = container.node.split(":")[0], int(container.node.split(":")[1])
        proto.resource.memory, proto.resource.virtual_cores = container.memory_mb, 1
        proto.priority.priority = container.priority
        proto.execution_type = y.OPPORTUNISTIC if container.opportunistic else y.GUARANTEED
        return proto

    def lose(self, node_id: str) -> None:
        """Take a node for lost: all its containers end (CapacityScheduler.removeNode, LOST_CONTAINER)."""
        for app in self.apps.values():
            for number in [n for n, c in app.containers.items() if c.node == node_id]:
                app.containers[number].running = False
                self._end(app, number, -100, "Container released on a *lost* node")

    def release(self, app: App, number: int) -> None:
        """Take a container back; an unknown one is ignored."""
        self._end(app, number, -100, "Container released by application")

    def _end(self, app: App, number: int, exit_status: int, text: str) -> None:
        container = app.containers.pop(number, None)
        if container is None:
            return
        status = y.ContainerStatusProto(state=y.C_COMPLETE, exit_status=exit_status, diagnostics=text)
        status.container_id.CopyFrom(app.id_proto(number))
        app.completed.append(status)
        if container.running:
            self.nodes[container.node].to_clean.append(number)

    def _container(self, app: App, node: str, key: Key, memory_mb: int, opportunistic: bool) -> y.ContainerProto:
        number, self.next_container = self.next_container, self.next_container + 1
        app.containers[number] = RmContainer(number, node, opportunistic, memory_mb)
        app.containers[number].priority, app.containers[number].request_id = key
        app.attempt_of[number], app.keys[number] = app.attempt, key
        proto = y.ContainerProto(allocation_request_id=key[1])
        proto.id.CopyFrom(app.id_proto(number))
        proto.nodeId.host, proto.nodeId.port = node.split(":")[0], int(node.split(":")[1])
        proto.resource.memory, proto.resource.virtual_cores = memory_mb, 1
        proto.priority.priority = key[0]
        proto.execution_type = y.OPPORTUNISTIC if opportunistic else y.GUARANTEED
        return proto

    # nodes

    def heartbeat(self, node_id: str, started: list[int], ended: dict[int, int]) -> list[int]:
        """Handle what a NodeManager tells, and grant up to two containers there; returns what it has to stop."""
        node = self.nodes[node_id]
        for app in self.apps.values():
            for number in started:
                app.ran.add(number)
                if number in app.containers:
                    app.containers[number].running = True
            for number, exit_status in ended.items():
                if number in app.containers:
                    app.containers[number].running = False
                    self._end(app, number, exit_status, "ended")
        known = {number for app in self.apps.values() for number in app.containers}
        node.to_clean.extend(number for number in started if number not in known)
        for _ in range(2):
            if node.up:
                self._schedule(node_id, node)
        stop, node.to_clean = node.to_clean, []
        return stop

    def _schedule(self, node_id: str, node: RmNode) -> bool:
        apps, used = self.apps.values(), self.used_mb(node_id)
        for app in apps:
            for number in [number for number, at in app.promoting.items() if at == node_id]:
                memory_mb = app.containers[number].memory_mb if number in app.containers else 0
                if used + memory_mb <= node.memory_mb:
                    del app.promoting[number]
                    app.room[number] = (node_id, memory_mb)
                    return True
            if node.host in app.blacklist or not app.registered:
                continue
            for key in sorted(app.g):
                names = self._local(app.g[key], node)
                if not names or used + app.g[key][ANY].memory_mb > node.memory_mb:
                    continue
                app.granted.append(self._container(app, node_id, key, app.g[key][ANY].memory_mb, opportunistic=False))
                for name in names:
                    row = app.g[key][name]
                    row.count -= 1
                    if row.count == 0:
                        del app.g[key][name]
                if not app.g[key]:
                    del app.g[key]
                return True
        return False

    def _local(self, rows: dict[str, GRow], node: RmNode) -> list[str]:
        """Return the rows that a grant on this node decrements; none when it may not be made."""
        if ANY not in rows:
            return []
        if node.rack in rows:
            if node.host in rows:
                return [node.host, node.rack, ANY]
            if rows[node.rack].relax:
                return [node.rack, ANY]
        return [ANY] if rows[ANY].relax else []
