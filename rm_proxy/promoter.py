"""Which running queueable containers the ResourceManager is asked to make guaranteed (Mercury, ATC '15, §3.3).

The policy chooses. Beside it, nothing is asked for that the ResourceManager has no room for by its own records: it
would not refuse, but reserve the node for it, or count it as demand of the queue, for as long as the container runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from policies.errors import PolicyFaultError
from policies.model import AppView, ContainerView, QueueView, Resources
from policies.settings import Policies
from rm_proxy import frameworks
from rm_proxy.nodes import Node
from rm_proxy.world import Effect, Faulted
from shell.messages import ContainerReport

if TYPE_CHECKING:
    from rm_proxy.attempt import Attempt
    from rm_proxy.live import Live

PER_ROUND: Final = 100
"""Promotions that are asked for in one round, of all applications together."""
MAX_LOOKED: Final = 2_000
"""Containers that are looked at in one round; the next one begins with other applications."""
SHOWN_S: Final = 15.0
"""After so long a promotion shows in what the ResourceManager's REST says."""


class Cluster(Protocol):
    """What the promoter asks of the coordinator."""

    policies: Policies
    nodes: dict[str, Node]

    def queue(self, name: str) -> QueueView | None:
        """Return a YARN queue; None when it is not known."""


@dataclass(slots=True)
class _Taken:
    """Room that promotions take which the ResourceManager's records do not show yet, by node and by queue."""

    of_node: dict[str, Resources] = field(default_factory=dict)
    of_queue: dict[str, Resources] = field(default_factory=dict)

    def add(self, live: Live, queue: str) -> None:
        """Count one."""
        self.of_node[live.node_id] = self.of_node.get(live.node_id, Resources()) + live.resources
        self.of_queue[queue] = self.of_queue.get(queue, Resources()) + live.resources


class Promoter:
    """A machine, once a round; `why_off` says why nothing is ever promoted here, "" where it is."""

    def __init__(self, why_off: str = "") -> None:
        self.why_off = why_off
        self._first = 0

    def round(self, cluster: Cluster, attempts: Iterable[Attempt], now_s: float) -> list[Effect]:
        """Choose, and have the attempts ask; returns faults of the policy."""
        if self.why_off or not wanted(cluster.policies):
            return []
        alive = [attempt for attempt in attempts if not attempt.finished and len(attempt.live)]
        taken = _Taken()
        for attempt in alive:
            _count(attempt, taken, now_s)
        asked, looked, reports = 0, 0, _Reports(cluster.nodes)
        self._first += 1
        for attempt in _from(alive, self._first):
            if asked >= PER_ROUND or looked >= MAX_LOOKED:
                break
            app = attempt.app if attempt.live.count_q else None
            if app is None or cluster.policies.mode(app) != "active":
                continue
            if cluster.policies.for_app(app).chosen("promote") == "none":
                continue
            looked += attempt.live.count_q
            try:
                asked += self._choose(cluster, attempt, app, taken, reports, now_s)
            except PolicyFaultError as error:
                return [Faulted(app.id, str(error))]
        return []

    def _choose(
        self, cluster: Cluster, attempt: Attempt, app: AppView, taken: _Taken, reports: _Reports, now_s: float
    ) -> int:
        """Ask for what the policy chooses of one attempt and there is room for; return how many."""
        known = cluster.queue(app.queue)
        if known is None:
            return 0
        queue = replace(known, used_g=known.used_g + taken.of_queue.get(app.queue, Resources()))
        asked = 0
        for live in attempt.promotion.candidates(now_s):
            view = container_view(live, app, reports.of(live), now_s)
            reason = cluster.policies.promote(view, app, queue, now_s)
            node = cluster.nodes.get(live.node_id)
            if reason is None or node is None or not _has_room(node, queue, taken, live.resources):
                continue
            attempt.promotion.ask(live, reason, now_s)
            taken.add(live, app.queue)
            queue = replace(queue, used_g=queue.used_g + live.resources, used_q=queue.used_q - live.resources)
            asked += 1
        return asked


def wanted(policies: Policies) -> bool:
    """Tell whether any of these policies, or of their alternatives, ever promotes."""
    return any(one.chosen("promote") != "none" for one in (policies, *policies.alternatives.values()))


class _Reports:
    """What the sidecars last said of containers, looked up by node when first needed."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._known: dict[str, dict[str, ContainerReport]] = {}

    def of(self, live: Live) -> ContainerReport | None:
        """Return the report of one container; None when there is none."""
        known = self._known.get(live.node_id)
        if known is None:
            node = self._nodes.get(live.node_id)
            listed = node.report.containers if node is not None and node.report is not None else []
            known = self._known[live.node_id] = {c.container_id: c for c in listed}
        return known.get(live.id)


def container_view(live: Live, app: AppView, report: ContainerReport | None, now_s: float) -> ContainerView:
    """Return a running container as the policies see it; what it attained is the time it ran where nobody measures."""
    attained_s = report.attained_s if report is not None else None
    if attained_s is None and live.started_s is not None:
        attained_s = max(0.0, now_s - live.started_s)
    return ContainerView(
        id=live.id,
        app=app.id,
        kind=live.kind,
        resources=live.resources,
        priority=live.priority,
        app_type=app.type,
        app_priority=app.priority,
        job_submitted_s=app.submitted_s,
        arrived_s=live.granted_s,
        started_s=live.started_s,
        expected_s=live.expected_s,
        attained_s=attained_s,
        precedence=frameworks.precedence(app.type, live.priority),
        queue=app.queue,
        user=app.user,
        sheds=live.retries,
    )


def _count(attempt: Attempt, taken: _Taken, now_s: float) -> None:
    app = attempt.app
    if app is None:
        return
    for live in attempt.promotion.outstanding():
        taken.add(live, app.queue)
    for live in attempt.live:
        if live.promoted_s is not None and now_s - live.promoted_s < SHOWN_S:
            taken.add(live, app.queue)


def _from(attempts: list[Attempt], first: int) -> Iterator[Attempt]:
    """Begin with another one each time, so that bounds do not always hit the same."""
    for at in range(len(attempts)):
        yield attempts[(first + at) % len(attempts)]


def _has_room(node: Node, queue: QueueView, taken: _Taken, size: Resources) -> bool:
    """Tell whether the ResourceManager's records show room for one more guaranteed container: node and queue."""
    if node.yarn is None or not node.yarn.running or node.unusable:
        return False
    used = node.yarn.used + taken.of_node.get(node.id, Resources())
    return _fits(used, size, node.yarn.capacity) and _fits(queue.used_g, size, queue.max_capacity)


def _fits(used: Resources, size: Resources, whole: Resources) -> bool:
    """Tell whether there is room; who uses more vcores than there are plans by memory alone."""
    after = used + size
    by_memory = after.memory_mb <= whole.memory_mb
    return by_memory and (after.vcores <= whole.vcores or used.vcores > whole.vcores)
