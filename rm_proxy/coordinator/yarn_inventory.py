"""What YARN says of nodes, queues and applications, and what attempts ask of it: the rest of their World."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from policies.config.policy_set import Policies
from policies.config.schema import full_queue
from policies.model import AppView, ParentView, QueueView, Resources
from rm_proxy.attempt import frameworks
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.attempt.cluster_view import Away
from rm_proxy.attempt.effects import BadTags
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.coordinator.attempt_index import AttemptIndex
from rm_proxy.coordinator.error_budget import BudgetLimits
from rm_proxy.coordinator.job_outlook import JobOutlook
from rm_proxy.coordinator.nodes import Node
from rm_proxy.coordinator.placement import Places
from rm_proxy.coordinator.queue_usage import QueueUsage, parents
from rm_proxy.domain.ids import app_of_attempt, app_of_container
from rm_proxy.domain.records import AppRecord
from rm_proxy.estimates.duration_tags import bad_tags
from rm_proxy.estimates.estimator import Estimator, Expectation
from rm_proxy.estimates.node_speeds import Speeds
from rm_proxy.yarn.models import YarnNode, YarnQueue

MAX_APPS: Final = 20_000
"""Applications that are remembered; ended ones are forgotten first, the oldest of them before others."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Settings of the coordinator; seconds."""

    report_fresh_s: float = 5.0
    mapreduce_task_timeout_s: float = 600.0
    hold_by_type_s: dict[str, float] = field(default_factory=dict)
    no_promotion: str = ""
    """Why the ResourceManager promotes nothing; "" when it does."""
    budget: BudgetLimits = field(default_factory=BudgetLimits)


class Inventory(Places):
    """The part of the coordinator that knows what there is: nodes, queues, applications, and their attempts."""

    def __init__(self, policies: Policies, rng: Random, limits: Limits | None = None) -> None:
        super().__init__(policies, rng)
        self.limits = limits or Limits()
        self.estimator = Estimator()
        self.speeds = Speeds()
        self.attempts = AttemptIndex()
        self.records: OrderedDict[str, AppRecord] = OrderedDict()
        self.queues: dict[str, YarnQueue] = {}
        self.outlook = JobOutlook(self._expects, self._living)
        self._apps: dict[str, AppView] = {}
        self._of_app: dict[str, list[Attempt]] = {}
        self._use = QueueUsage()
        self._capacity: Resources | None = None
        self._acked: dict[str, tuple[str, int]] = {}
        """By node: the life of its sidecar, and the last event taken in."""
        self._drops: dict[str, dict[str, str]] = {}
        """By node: drops that could not be sent, with their reasons."""

    # What YARN says

    def yarn_nodes(self, nodes: Iterable[YarnNode], now_s: float) -> None:
        """Take in the ResourceManager's list of nodes; nodes that left it are forgotten."""
        listed, news = {node.id: node for node in nodes}, False
        for gone in [n for n in self.nodes.values() if n.id not in listed]:
            gone.yarn, news = None, True
            self._refresh(gone, now_s)
            if gone.report is None or now_s - gone.reported_s > 10 * self.limits.report_fresh_s:
                del self.nodes[gone.id]
                self.estimator.forget_node(gone.id)
                self.speeds.forget(gone.id)
                self._drops.pop(gone.id, None)
                self._acked.pop(gone.id, None)
        for node_id, yarn in listed.items():
            node = self.nodes.setdefault(node_id, Node(node_id))
            if node.listed(yarn):
                self._refresh(node, now_s)
                news = True
        if news:
            self._shortlist.changed()

    def yarn_queues(self, queues: Iterable[YarnQueue]) -> None:
        """Take in the ResourceManager's queues."""
        self.queues = {queue.path: queue for queue in queues}

    def yarn_app(self, record: AppRecord) -> AppRecord | None:
        """Take in an application's record; returns it with its queue's full path, or None when nothing is new."""
        record = replace(record, queue=full_queue(record.queue, self.queues))
        if self.records.get(record.id) == record:
            return None
        bad = bad_tags(record.tags) if record.id not in self.records else ()
        if bad:
            self._effects.append(BadTags(record.id, bad))
        self.records[record.id] = record
        self._apps[record.id] = AppView(
            id=record.id,
            queue=record.queue,
            user=record.user,
            type=record.type.upper(),
            name=record.name,
            tags=frozenset(record.tags),
            priority=record.priority,
            submitted_s=record.submitted_s,
        )
        for attempt in self._of_app.get(record.id, ()):
            attempt.notebook.app(record)
            if record.finished_s is not None:
                attempt.end("the application ended")
        self._forget_old()
        return record

    def unknown_app(self, app_id: str) -> None:
        """Take in that the ResourceManager does not know an application: it restarted, and recovered nothing."""
        for attempt in self._of_app.get(app_id, ()):
            attempt.end("the ResourceManager does not know the application any more")

    def _forget_old(self) -> None:
        for app_id in list(self.records)[: max(0, len(self.records) - MAX_APPS)]:
            if all(attempt.finished for attempt in self._of_app.get(app_id, ())):
                self._forget(app_id)

    def _forget(self, app_id: str) -> None:
        self.records.pop(app_id)
        self._apps.pop(app_id, None)
        for attempt in self._of_app.pop(app_id, []):
            self.attempts.pop(attempt.id, None)
            self._use.charge(attempt.id, "", "", Resources())

    def _refresh(self, node: Node, now_s: float) -> None:
        node.refresh(now_s, self.limits.report_fresh_s, self._held)

    def _held(self, container_id: str) -> bool:
        return self._holder(container_id) is not None

    # World, beside what `Places` answers

    def app(self, app_id: str) -> AppView | None:
        """Return the application's record, None while it is not known."""
        return self._apps.get(app_id)

    def live(self, container_id: str) -> HeldContainer | None:
        """Return a container that an application holds, None when none does."""
        attempt = self._holder(container_id)
        return attempt.live.get(container_id) if attempt is not None else None

    def away(self, node_id: str, now_s: float) -> Away | None:
        """Return why a node starts nothing now; None while it may, or nothing is known."""
        node = self.nodes.get(node_id)
        return node.away(now_s, self.limits.report_fresh_s) if node is not None else None

    def queue(self, name: str) -> QueueView | None:
        """Return a YARN queue with the queueable use of all its applications; None when it is not known."""
        yarn = self.queues.get(full_queue(name, self.queues))
        if yarn is None:
            return None
        used, by_user = self._use.of(yarn.path)
        return QueueView(
            name=yarn.path,
            max_capacity=yarn.max_capacity,
            used_g=yarn.used,
            used_q=used,
            user_used_q=by_user,
            user_used_g=yarn.user_used,
            user_limit=yarn.user_limit,
            parents=self._parents(yarn.path),
            priority=yarn.priority,
            cluster=self._cluster(),
            cluster_used_q=self._use.all,
            labels=yarn.labels,
            default_label=yarn.default_label,
            capacity=yarn.capacity,
        )

    def _parents(self, path: str) -> tuple[ParentView, ...]:
        known = [self.queues[above] for above in parents(path) if above in self.queues]
        return tuple(ParentView(q.path, q.max_capacity, q.used, self._use.of(q.path)[0]) for q in known)

    def _cluster(self) -> Resources:
        """Return what the usable nodes have together; added up once a round."""
        if self._capacity is None:
            views = (node.view for node in self.nodes.values())
            self._capacity = sum((view.capacity for view in views if view.usable), Resources())
        return self._capacity

    def charge(self, attempt_id: str, used_q: Resources) -> None:
        """Note what the queueable containers of an attempt use, those that wait or are wanted included."""
        app = self._apps.get(app_of_attempt(attempt_id))
        if app is not None:
            self._use.charge(attempt_id, app.queue, app.user, used_q)

    def expected_s(self, app: AppView, priority: int) -> float:
        """Return how long a task is expected to run, in seconds."""
        return self.expected(app, priority).mean_s

    def expected(self, app: AppView, priority: int, follows: str = "") -> Expectation:
        """Return how long a task is expected to run, with spread and source."""
        return self.estimator.expected(app, priority, self.policies, follows)

    def job_remaining_s(self, app_id: str, now_s: float) -> float:
        """Return the task-seconds that an application has left, by estimates; computed once a round."""
        return self.outlook.job_remaining_s(app_id, now_s)

    def _expects(self, app_id: str, priority: int) -> Expectation | None:
        app = self._apps.get(app_id)
        return self.expected(app, priority) if app is not None else None

    def _living(self, app_id: str) -> list[Attempt]:
        return [attempt for attempt in self._of_app.get(app_id, ()) if not attempt.finished]

    def hold_limit_s(self, app: AppView) -> float:
        """Return how long a start of this application may be held, in seconds."""
        set_by_admin = self.limits.hold_by_type_s.get(app.type)
        if set_by_admin is not None:
            return set_by_admin
        return frameworks.hold_limit_s(app.type, self.limits.mapreduce_task_timeout_s)

    def _holder(self, container_id: str) -> Attempt | None:
        """Return the attempt that holds a container: its own one, or a later one that took it over."""
        of_app = self._of_app.get(app_of_container(container_id), ())
        return next((attempt for attempt in reversed(of_app) if attempt.hears_of(container_id)), None)
