"""Has application masters hear of containers that will be killed, and of nodes that are emptied, by YARN's own means.

A container gets into a PreemptionMessage, once: into its strict contract where its node or an admin takes it, into the
negotiable one where its application has more than its share. A node that an admin drains with a time limit is reported
as DECOMMISSIONING to the applications whose queueable containers run there, with the time left, and as RUNNING again
if the drain ends before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Kind
from quicksilver.common.messages import ContainerState, Report
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.attempt.delivery.notices import NodeNotice, Notices
from rm_proxy.attempt.effects import Effect, Noticed
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.domain.hooks import News
from rm_proxy.domain.resources import set_resources
from rm_proxy.yarn.models import YarnNode

WANTED_S: Final = 5.0
"""A notice that its giver has not renewed for this long is void: its container is not to be killed any more."""


@dataclass(frozen=True, slots=True)
class NoticeWorld:
    """Methods of the coordinator that the notifier calls."""

    holder: Callable[[str], Attempt | None]
    """Returns the attempt that holds a container."""
    attempt: Callable[[str], Attempt | None]
    yarn_node: Callable[[str], YarnNode | None]
    """Returns the ResourceManager's record of a node."""
    wait_s: Callable[[str], float]
    """Returns the time between the notice to an application's master and the kill; 0 without notice."""
    emit: Callable[[Effect], None]


@dataclass(slots=True)
class _Due:
    """A container that the proxy itself will take back."""

    due_s: float
    wanted_s: float
    """When its giver last asked."""


@dataclass(slots=True)
class _NodeNotices:
    """Notices about one node that were given."""

    containers: set[str] = field(default_factory=set)
    attempts: set[str] = field(default_factory=set)
    """Those that know that the node is emptied."""


class Notifier:
    """A machine: reports in, news for application masters out."""

    def __init__(self, world: NoticeWorld) -> None:
        self._world = world
        self.news: dict[str, News] = {}
        """By attempt id; the exchange takes them."""
        self._notices: dict[str, Notices] = {}
        """What they write."""
        self._nodes: dict[str, _NodeNotices] = {}
        self._due: dict[str, _Due] = {}

    # Containers

    def report(self, node_id: str, report: Report, now_s: float) -> None:
        """Give notice of containers that their node will kill."""
        doomed = [c.container_id for c in report.containers if c.kill_in_s is not None]
        known = self._nodes.get(node_id)
        if not doomed and known is None:
            return
        known = self._known(node_id)
        for container_id in [each for each in doomed if each not in known.containers]:
            attempt = self._world.holder(container_id)
            if attempt is not None:
                self._notices_of(attempt).strict[container_id] = None
                known.containers.add(container_id)
                self._world.emit(Noticed(attempt.app_id, container_id, node_id))
        for container_id in known.containers.difference(doomed):
            known.containers.discard(container_id)
            for notices in self._notices.values():
                notices.strict.pop(container_id, None)
        self._forget_if_empty(node_id, known)

    def due_s(self, live: HeldContainer, negotiable: bool, now_s: float) -> float:
        """Return when a container may be taken back; the first call gives notice of it.

        negotiable: whether its application may return another one of its size instead.
        """
        due = self._due.get(live.id)
        if due is None:
            attempt = self._world.holder(live.id)
            wait_s = self._world.wait_s(attempt.app_id) if attempt is not None else 0.0
            if attempt is None or wait_s <= 0:
                return now_s
            notices = self._notices_of(attempt)
            (notices.negotiable if negotiable else notices.strict)[live.id] = None
            self._world.emit(Noticed(attempt.app_id, live.id, live.node_id))
            due = self._due[live.id] = _Due(now_s + wait_s, now_s)
        due.wanted_s = now_s
        return due.due_s

    def round(self, now_s: float) -> None:
        """Forget notices that nobody renews, and news for attempts that are over."""
        self._due = {key: due for key, due in self._due.items() if now_s - due.wanted_s < WANTED_S}
        for attempt_id in list(self._notices):
            attempt = self._world.attempt(attempt_id)
            if attempt_id not in self.news or attempt is None or attempt.finished:
                self.news.pop(attempt_id, None)
                del self._notices[attempt_id]

    # Nodes

    def emptied(self, node_id: str, report: Report, now_s: float) -> None:
        """Report a node that is emptied to the masters of its queueable containers, and one that is so no longer."""
        if report.empty_in_s is None:
            self._refilled(node_id)
            return
        known, until_s = self._known(node_id), now_s + report.empty_in_s
        for container in report.containers:
            if container.kind != Kind.QUEUEABLE or container.state is ContainerState.WAITING:
                continue
            attempt = self._world.holder(container.container_id)
            if attempt is not None and attempt.id not in known.attempts:
                known.attempts.add(attempt.id)
                notice = NodeNotice(self._node_report(node_id, y.NS_DECOMMISSIONING, y.NODE_DECOMMISSIONING), until_s)
                self._notices_of(attempt).nodes[node_id] = notice
                self._world.emit(Noticed(attempt.app_id, "", node_id))
        self._forget_if_empty(node_id, known)

    def _refilled(self, node_id: str) -> None:
        known, yarn = self._nodes.get(node_id), self._world.yarn_node(node_id)
        if known is None:
            return
        for attempt_id in known.attempts:
            pending = self._notices.get(attempt_id) if attempt_id in self.news else None
            if pending is not None and pending.nodes.pop(node_id, None) is not None:
                continue
            attempt = self._world.attempt(attempt_id)
            if attempt is not None and not attempt.finished and yarn is not None and yarn.running:
                notice = NodeNotice(self._node_report(node_id, y.NS_RUNNING, y.NODE_USABLE))
                self._notices_of(attempt).nodes[node_id] = notice
        known.attempts.clear()
        self._forget_if_empty(node_id, known)

    def forget_containers(self) -> None:
        """Forget the notices of containers: none is given any more."""
        self._due.clear()
        for node_id, known in list(self._nodes.items()):
            known.containers.clear()
            self._forget_if_empty(node_id, known)

    def forget_node(self, node_id: str) -> None:
        """Forget a node that left the cluster."""
        self._nodes.pop(node_id, None)

    def clear(self) -> None:
        """Forget all: another proxy serves now."""
        self.news.clear()
        self._notices.clear()
        self._nodes.clear()
        self._due.clear()

    def _node_report(
        self, node_id: str, state: y.NodeStateProto.ValueType, update: y.NodeUpdateTypeProto.ValueType
    ) -> y.NodeReportProto:
        """Return a node's report as the ResourceManager makes it."""
        host, _, port = node_id.rpartition(":")
        proto = y.NodeReportProto(node_state=state, node_update_type=update)
        proto.nodeId.host, proto.nodeId.port = host, int(port)
        yarn = self._world.yarn_node(node_id)
        if yarn is not None:
            proto.httpAddress, proto.rackName = yarn.web_address, yarn.rack
            set_resources(proto.used, yarn.used)
            set_resources(proto.capability, yarn.capacity)
            if yarn.label:
                proto.node_labels.append(yarn.label)
        return proto

    def _notices_of(self, attempt: Attempt) -> Notices:
        """Return what an attempt will hear with its next answer."""
        if attempt.id not in self.news:
            notices = self._notices[attempt.id] = Notices(attempt.live)
            self.news[attempt.id] = notices.write
        return self._notices[attempt.id]

    def _known(self, node_id: str) -> _NodeNotices:
        return self._nodes.setdefault(node_id, _NodeNotices())

    def _forget_if_empty(self, node_id: str, known: _NodeNotices) -> None:
        if not known.containers and not known.attempts:
            self._nodes.pop(node_id, None)
