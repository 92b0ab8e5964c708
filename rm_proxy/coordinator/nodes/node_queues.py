"""The queues of the nodes as policies see them, built from the sidecars' last reports on demand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from policies.model import AppView, ContainerView, Kind, NodeQueue, NodeView, Resources
from policies.value_types import replace
from quicksilver.common.messages import ContainerReport, ContainerState
from rm_proxy.attempt import frameworks
from rm_proxy.attempt.cluster_view import ClusterView
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.coordinator.attempt_index import AttemptIndex
from rm_proxy.coordinator.nodes.nodes import Node
from rm_proxy.domain.lazy_sequence import LazySequence

MAX_STAGES: Final = 20_000
"""Stages whose waits are remembered; those with the least recent start are forgotten."""
_Stage = tuple[str, int]


class Cluster(ClusterView, Protocol):
    """The coordinator's knowledge of nodes, containers and applications."""

    nodes: dict[str, Node]
    attempts: AttemptIndex


@dataclass(slots=True)
class Waits:
    """Count and sum of waits, in seconds."""

    count: int = 0
    sum_s: float = 0.0

    def add(self, wait_s: float) -> None:
        """Add one wait."""
        self.count += 1
        self.sum_s += wait_s


class StageWaits:
    """How long the containers of each stage (application and request priority) waited that have started."""

    def __init__(self) -> None:
        self._started: OrderedDict[_Stage, Waits] = OrderedDict()

    def started(self, app_id: str, priority: int, waited_s: float) -> None:
        """Note that a container started after this wait."""
        stage = app_id, priority
        self._started.setdefault(stage, Waits()).add(waited_s)
        self._started.move_to_end(stage)
        if len(self._started) > MAX_STAGES:
            self._started.popitem(last=False)

    def with_waiting(self, nodes: Mapping[str, Node], now_s: float) -> Callable[[str, int], float | None]:
        """Return the average wait by application and priority, those that wait now counted with what they expect."""
        waiting: dict[_Stage, Waits] = {}
        for node in nodes.values():
            age_s = now_s - node.reported_s
            for at, container in waiting_at(node):
                waits = waiting.get((container.app_id, container.priority))
                if waits is None:
                    waits = waiting[container.app_id, container.priority] = Waits()
                left_s = container.starts_in_s
                waits.count += 1
                waits.sum_s += (
                    container.since_s + age_s + (starts_in_s(node, at, container) if left_s is None else left_s)
                )

        def average_s(app_id: str, priority: int) -> float | None:
            both = [w for w in (self._started.get((app_id, priority)), waiting.get((app_id, priority))) if w]
            count = sum(waits.count for waits in both)
            return sum(waits.sum_s for waits in both) / count if count else None

        return average_s


def waiting_at(node: Node) -> Iterable[tuple[int, ContainerReport]]:
    """Return a node's waiting containers with their places, 1 for the next one to start."""
    if node.report is None or not node.report.queue_length:
        return ()
    return enumerate([c for c in node.report.containers if c.state is ContainerState.WAITING and c.kind == "Q"], 1)


def starts_in_s(node: Node, place: int, container: ContainerReport) -> float:
    """Return when a waiting container will start: by the sidecar, else by its place in a queue that moves evenly."""
    if container.starts_in_s is not None:
        return container.starts_in_s
    assert node.report is not None
    return node.report.queued_s * place / max(place, node.report.queue_length)


class NodeQueues:
    """All queues of one round; each is made once, when it is looked at."""

    def __init__(
        self,
        cluster: Cluster,
        movable: Callable[[HeldContainer, AppView], bool],
        stage_wait_s: Callable[[str, int], float | None],
        now_s: float,
    ) -> None:
        self._cluster, self._movable, self._stage_wait_s, self._now_s = cluster, movable, stage_wait_s, now_s
        self._queues: dict[str, NodeQueue] = {}
        self.ids = sorted(n.id for n in cluster.nodes.values() if n.report is not None and n.report.queue_length)
        """Nodes where something waits."""

    def of(self, node_id: str) -> NodeQueue:
        """Return a node with its queueable containers."""
        queue = self._queues.get(node_id)
        if queue is None:
            queue = self._queues[node_id] = self._make(self._cluster.nodes[node_id])
        return queue

    def seen_by(self, thief: NodeView) -> Sequence[NodeQueue]:
        """Return the queues from which a node may take; a container may move that may go to this very node."""
        nodes = self._cluster.nodes

        def offered(node_id: str) -> NodeQueue:
            queue = self.of(node_id)
            return replace(queue, waiting=tuple(self._for(thief, view) for view in queue.waiting))

        return LazySequence([i for i in self.ids if i != thief.id and nodes[i].view.label == thief.label], offered)

    def _for(self, thief: NodeView, view: ContainerView) -> ContainerView:
        if not view.movable:
            return view
        live = self._cluster.attempts.live(view.id)
        goes = live is not None and live.ask is not None and live.ask.tier(thief) is not None
        return view if goes else replace(view, movable=False)

    def _make(self, node: Node) -> NodeQueue:
        assert node.report is not None
        busy = (ContainerState.RUNNING, ContainerState.SHRUNK, ContainerState.STARTING)
        running = [c for c in node.report.containers if c.kind == "Q" and not c.am and c.state in busy]
        return NodeQueue(
            node.view,
            tuple(self._view(node, c, None) for c in running),
            tuple(self._view(node, c, starts_in_s(node, place, c)) for place, c in waiting_at(node)),
        )

    def _view(self, node: Node, container: ContainerReport, starts_in_s: float | None) -> ContainerView:
        app = self._cluster.apps.app(container.app_id) or AppView(container.app_id)
        live = self._cluster.attempts.live(container.container_id)
        since_s = node.reported_s - container.since_s
        waits = starts_in_s is not None
        return ContainerView(
            id=container.container_id,
            app=container.app_id,
            kind=Kind.QUEUEABLE,
            resources=Resources(container.memory_mb, container.vcores),
            priority=container.priority,
            app_type=app.type,
            app_priority=app.priority,
            job_submitted_s=app.submitted_s,
            arrived_s=since_s,
            started_s=None if waits else self._begun_s(container, since_s),
            expected_s=container.expected_s,
            attained_s=container.attained_s,
            precedence=frameworks.precedence(app.type, container.priority),
            queue=app.queue,
            user=app.user,
            bypassed_s=container.bypassed_s,
            starts_in_s=starts_in_s,
            sheds=live.retries if live is not None else 0,
            placed_wait_s=live.wait_s if live is not None else None,
            stage_wait_s=self._stage_wait_s(container.app_id, container.priority) if waits else None,
            movable=waits and live is not None and self._movable(live, app),
            job_class=app.job_class,
        )

    def _begun_s(self, container: ContainerReport, since_s: float) -> float | None:
        """Return when a container would have begun, had it never stood still; None while it is being started."""
        if container.state is ContainerState.STARTING:
            return None
        if container.times_shrunk and container.attained_s is not None:
            return self._now_s - container.attained_s
        return since_s
