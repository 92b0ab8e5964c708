"""Chooses running queueable containers that the ResourceManager is asked to make guaranteed (Mercury, ATC '15, §3.3).

The policy chooses. Beside it, nothing is asked for that the ResourceManager has no room for by its own records: it
would not refuse, but reserve the node for it, or count it as demand of the queue, for as long as the container runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from policies.config.policy_set import Policies
from policies.errors import PolicyFaultError
from policies.model import AppView, ContainerView, QueueView, Resources
from policies.value_types import replace
from quicksilver.common.messages import ContainerReport
from rm_proxy.attempt import frameworks
from rm_proxy.attempt.effects import Effect, Faulted
from rm_proxy.coordinator.nodes.node_queues import Cluster
from rm_proxy.coordinator.nodes.nodes import Node
from rm_proxy.domain.comparison import Question, shadowed

if TYPE_CHECKING:
    from rm_proxy.attempt.attempt import Attempt
    from rm_proxy.attempt.held_containers import HeldContainer

PER_ROUND: Final = 100
"""Promotions that are asked for in one round, of all applications together."""
MAX_OPEN: Final = 500
"""Promotions of all applications that the ResourceManager may have before it, or that do not show yet."""
MAX_LOOKED: Final = 1_000
"""Containers that are checked in one round; the next one begins with other applications."""
SHOWN_S: Final = 15.0
"""Time after which a promotion shows in what the ResourceManager's REST says."""


NOTHING: Final = Resources()


@dataclass(slots=True)
class _Taken:
    """Room that promotions take which the ResourceManager's records do not show yet.

    By node id, by path of the YARN queue and those above it, and by queue and user.
    """

    sums: dict[str | tuple[str, str], Resources] = field(default_factory=dict)
    count: int = 0

    def add(self, live: HeldContainer, app: AppView) -> None:
        """Count one."""
        self.count += 1
        keys: list[str | tuple[str, str]] = [live.node_id, (app.queue, app.user)]
        parts = app.queue.split(".")
        keys += [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
        for key in keys:
            self.sums[key] = self.of(key) + live.resources

    def of(self, key: str | tuple[str, str]) -> Resources:
        """Return the room taken of a node, of a queue, or of a queue by a user."""
        return self.sums.get(key, NOTHING)


class Promoter:
    """A machine, once a round; `why_off` says why nothing is ever promoted here, "" where it is."""

    def __init__(self, why_off: str = "") -> None:
        self.why_off = why_off
        self._first = 0
        self._queues: dict[str, QueueView] = {}
        """The queues as they are in this round."""

    def round(self, cluster: Cluster, attempts: Iterable[Attempt], now_s: float) -> list[Effect]:
        """Choose, and have the attempts ask; returns faults of the policy."""
        if self.why_off or not promotes(cluster.policies):
            return []
        alive = [attempt for attempt in attempts if not attempt.finished and len(attempt.live)]
        taken = _Taken()
        for attempt in alive:
            app = cluster.apps.app(attempt.app_id) if attempt.promotion.busy else None
            if app is not None:
                for live in attempt.promotion.unseen(now_s - SHOWN_S):
                    taken.add(live, app)
        count, looked, reports = 0, 0, _Reports(cluster.nodes)
        limit = min(PER_ROUND, MAX_OPEN - taken.count)
        self._first += 1
        self._queues.clear()
        for attempt in _from(alive, self._first):
            if count >= limit or looked >= MAX_LOOKED:
                break
            app = attempt.app if attempt.live.count_q else None
            if app is None or cluster.modes.mode(app) != "active":
                continue
            asks = cluster.policies.for_app(app).policy_name("promote") != "none" or shadowed(
                cluster.policies, "promote"
            )
            if not asks:
                continue
            looked += attempt.live.count_q
            try:
                count += self._choose(cluster, attempt, app, taken, reports, now_s)
            except PolicyFaultError as error:
                return [Faulted(app.id, str(error))]
        return []

    def _choose(
        self, cluster: Cluster, attempt: Attempt, app: AppView, taken: _Taken, reports: _Reports, now_s: float
    ) -> int:
        """Request promotions that the policy chooses of one attempt and that fit; return their number."""
        known = self._queues.get(app.queue)
        if known is None:
            known = cluster.inventory.queue(app.queue)
            if known is None:
                return 0
            self._queues[app.queue] = known
        count, queue = 0, replace(known, used_g=known.used_g + taken.of(app.queue))
        app = replace(app, asked_g_size=attempt.table.sums.asked_g_size)  # `taken` has that of promotions
        for live in attempt.promotion.candidates(now_s):
            node, size = cluster.nodes.get(live.node_id), live.resources
            if node is None or not (_node_has_room(node, taken, size) and _queue_has_room(queue, app, taken, size)):
                continue
            view = container_view(live, app, reports.of(live), now_s)
            reason = cluster.policies.promote(view, app, queue, now_s)
            cluster.placer.compare(
                Question("promote", app, reason, partial(_promotes, view, app, queue, now_s), _promoted)
            )
            if reason is None:
                continue
            attempt.promotion.ask(live, reason, now_s)
            taken.add(live, app)
            queue = replace(queue, used_g=queue.used_g + size, used_q=queue.used_q - size)
            app = replace(app, asked_g=app.asked_g + 1)
            count += 1
        return count


def promotes(policies: Policies) -> bool:
    """Return whether any of these policies, or of their alternatives, ever promotes."""
    return any(variant.policy_name("promote") != "none" for variant in (policies, *policies.alternatives.values()))


class _Reports:
    """The sidecars' last reports of containers, looked up by node when first needed."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._known: dict[str, dict[str, ContainerReport]] = {}

    def of(self, live: HeldContainer) -> ContainerReport | None:
        """Return the report of one container; None when there is none."""
        known = self._known.get(live.node_id)
        if known is None:
            node = self._nodes.get(live.node_id)
            listed = node.report.containers if node is not None and node.report is not None else []
            known = self._known[live.node_id] = {c.container_id: c for c in listed}
        return known.get(live.id)


def container_view(live: HeldContainer, app: AppView, report: ContainerReport | None, now_s: float) -> ContainerView:
    """Return a running container as the policies see it; attained service is its run time where none is measured."""
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


def _from(attempts: list[Attempt], first: int) -> Iterator[Attempt]:
    """Begin with another one each time, so that bounds do not always hit the same."""
    for at in range(len(attempts)):
        yield attempts[(first + at) % len(attempts)]


def _node_has_room(node: Node, taken: _Taken, size: Resources) -> bool:
    """Return whether the ResourceManager's record of a node shows room for one more guaranteed container."""
    if node.yarn is None or not node.yarn.running or node.unusable:
        return False
    return _fits(node.yarn.used + taken.of(node.id), size, node.yarn.capacity)


def _queue_has_room(queue: QueueView, app: AppView, taken: _Taken, size: Resources) -> bool:
    """Return the same for the queue, the queues above it, and the user's limit."""
    if not _fits(queue.used_g, size, queue.max_capacity):
        return False
    if queue.user_limit is not None:
        used = queue.user_used_g.get(app.user, NOTHING) + taken.of((app.queue, app.user))
        if not _fits(used, size, queue.user_limit):
            return False
    known = (above for above in queue.parents if above.max_capacity.memory_mb)
    return all(_fits(above.used_g + taken.of(above.name), size, above.max_capacity) for above in known)


def _fits(used: Resources, size: Resources, whole: Resources) -> bool:
    """Return whether there is room; who uses more vcores than there are plans by memory alone."""
    after = used + size
    by_memory = after.memory_mb <= whole.memory_mb
    return by_memory and (after.vcores <= whole.vcores or used.vcores > whole.vcores)


def _promotes(view: ContainerView, app: AppView, queue: QueueView, now_s: float, rival: Policies) -> str | None:
    return rival.promote(view, app, queue, now_s)


def _promoted(why: str | None) -> str:
    return "Q" if why is None else "G"
