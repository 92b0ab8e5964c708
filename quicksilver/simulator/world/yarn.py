"""A small ResourceManager that speaks to masters: opportunistic containers at once, guaranteed ones on heartbeats.

It does what the proxy depends on (lab/docs/internals.md): absolute rows for guaranteed containers, lowered at host,
rack and ANY by each grant; opportunistic ones on the host of their row, within the allocate call; completions with the
next answer after the node told them. Guaranteed containers are handed out by `quicksilver.simulator.world.scheduler`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Resources
from quicksilver.simulator.world.scheduler import ANY, Key, Rows, Scheduler, SchedulerDemand, SchedulerNode
from rm_proxy.domain.resources import resources_of

RELEASED: Final = -100


@dataclass(slots=True)
class YarnGrant:
    """A container that the ResourceManager counts."""

    proto: y.ContainerProto
    node_id: str
    size: Resources
    opportunistic: bool


class App:
    """One application attempt."""

    def __init__(self, attempt: y.ApplicationAttemptIdProto, queue: str) -> None:
        self.attempt = attempt
        self.demand = SchedulerDemand(attempt.application_id.id, queue)
        self.containers: dict[int, YarnGrant] = {}
        self.granted: list[y.ContainerProto] = []
        self.completed: list[y.ContainerStatusProto] = []
        self.updated: list[y.UpdatedContainerProto] = []
        self.response_id = 0

    @property
    def at_rest(self) -> bool:
        """Whether its next heartbeat brings nothing."""
        return not (self.granted or self.completed or self.updated)

    @property
    def queue(self) -> str:
        """Its queue."""
        return self.demand.queue

    @property
    def rows(self) -> dict[Key, Rows]:
        """What it wants of guaranteed containers."""
        return self.demand.rows


class Yarn:
    """All applications and nodes."""

    def __init__(self, nodes: Iterable[SchedulerNode], off_switch: int = 1) -> None:
        self.scheduler = Scheduler(nodes, off_switch=off_switch)
        self.nodes = self.scheduler.nodes
        self.by_host = {node.host: node for node in self.nodes.values()}
        self.apps: dict[int, App] = {}
        self.freed: Callable[[str], None] = lambda node_id: None
        """Called with a node where less is used."""
        self.news: Callable[[int], None] = lambda number: None
        """Called with an application for which its next heartbeat brings something."""
        self._next = 1

    @property
    def used(self) -> dict[str, Resources]:
        """By queue, of guaranteed containers."""
        return self.scheduler.used

    def register(self, attempt: y.ApplicationAttemptIdProto, queue: str) -> bytes:
        """Register an application master; return the answer."""
        self.apps[attempt.application_id.id] = App(attempt, queue)
        answer = y.RegisterApplicationMasterResponseProto(queue=queue)
        answer.maximumCapability.memory, answer.maximumCapability.virtual_cores = 1 << 20, 1 << 10
        return answer.SerializeToString()

    def place_master(self, number: int, size: Resources, task: Resources, rng: Random) -> y.ContainerProto | None:
        """Give an application the guaranteed container of its master, on any node that has room for it.

        task: what still has to fit on a node beside it; None when there is no such place.
        """
        fit = {node.id for node in self.nodes.values() if task.fits(node.free)}
        roomy = [
            node
            for node in self.nodes.values()
            if size.fits(node.free) and (fit - {node.id} or (size + task).fits(node.free))
        ]
        if not roomy:
            return None
        app, node = self.apps[number], rng.choice(roomy)
        self.scheduler.charge(app.queue, node, size, 1)
        return self._grant(app, node, (0, -1), size, opportunistic=False)

    def unregister(self, number: int) -> None:
        """Forget an application with all its containers."""
        app = self.apps.pop(number)
        self.scheduler.forget(app.demand)
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
                rows = opportunistic.setdefault(key, Rows(resources_of(row.capability)))
                rows.counts[row.resource_name] = row.num_containers
            else:
                size = resources_of(row.capability)
                self.scheduler.row(app.demand, key, size, row.resource_name, row.num_containers)
        self.scheduler.want(app.demand)
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
        return self.scheduler.total - sum(self.used.values(), Resources())

    def _at_once(self, app: App, asks: dict[Key, Rows]) -> list[y.ContainerProto]:
        granted = []
        for key, rows in asks.items():
            remaining = rows.counts.get(ANY, 0)
            for host, count in rows.counts.items():
                node = self.by_host.get(host)
                for _ in range(min(remaining, count) if node is not None else 0):
                    assert node is not None
                    remaining -= 1
                    granted.append(self._grant(app, node, key, rows.size, opportunistic=True))
        return granted

    def _grant(self, app: App, node: SchedulerNode, key: Key, size: Resources, opportunistic: bool) -> y.ContainerProto:
        number, self._next = self._next, self._next + 1
        proto = y.ContainerProto(allocation_request_id=key[1])
        proto.id.id = number
        proto.id.app_attempt_id.CopyFrom(app.attempt)
        host, _, port = node.id.partition(":")
        proto.nodeId.host, proto.nodeId.port = host, int(port)
        proto.resource.memory, proto.resource.virtual_cores = size.memory_mb, int(size.vcores)
        proto.priority.priority = key[0]
        proto.execution_type = y.OPPORTUNISTIC if opportunistic else y.GUARANTEED
        app.containers[number] = YarnGrant(proto, node.id, size, opportunistic)
        return proto

    def _charge(self, app: App, container: YarnGrant, sign: int) -> None:
        if container.opportunistic:
            return
        self.scheduler.charge(app.queue, self.nodes[container.node_id], container.size, sign)
        if sign < 0:
            self.freed(container.node_id)

    def _end(self, app: App, number: int, exit_status: int, text: str) -> None:
        container = app.containers.pop(number, None)
        if container is None:
            return
        self._charge(app, container, -1)
        status = y.ContainerStatusProto(state=y.C_COMPLETE, exit_status=exit_status, diagnostics=text)
        status.container_id.CopyFrom(container.proto.id)
        app.completed.append(status)

    def _promote(self, app: App, requests: Iterable[y.UpdateContainerRequestProto]) -> None:
        """Make running opportunistic containers guaranteed where their node has room by the ResourceManager's count."""
        for request in requests:
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
        """Handle a heartbeat of a node and grant guaranteed containers there. ended: application, container, exit."""
        for number, container, exit_status in ended:
            app = self.apps.get(number)
            if app is not None:
                self._end(app, container, exit_status, "")
                self.news(number)
        node = self.nodes[node_id]
        for assigned in self.scheduler.assign(node):
            app = self.apps[assigned.demand.number]
            app.granted.append(self._grant(app, node, assigned.key, assigned.size, opportunistic=False))
            self.news(assigned.demand.number)
