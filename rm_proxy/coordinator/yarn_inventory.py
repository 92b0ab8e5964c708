"""Nodes, queues and applications as YARN reports them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Final

from policies.config.schema import full_queue
from policies.model import AppView, NodeView, ParentView, QueueView, Resources
from policies.requests import Room
from policies.value_types import replace
from rm_proxy.admission import request_tags
from rm_proxy.admission.governed_apps import user_limit
from rm_proxy.attempt import frameworks
from rm_proxy.attempt.cluster_view import Away
from rm_proxy.attempt.effects import BadTags
from rm_proxy.coordinator.attempt_index import AttemptIndex
from rm_proxy.coordinator.cluster_state import ClusterState
from rm_proxy.coordinator.nodes.nodes import Node
from rm_proxy.coordinator.queue_usage import AllUsage, parents, right_of
from rm_proxy.dispatch.shares import Shares
from rm_proxy.domain.ids import app_of_attempt
from rm_proxy.domain.records import AppRecord
from rm_proxy.estimates.duration_tags import bad_tags
from rm_proxy.yarn.models import YarnNode, YarnQueue

_NOTHING: Final = Resources()
_NEW: Final = AppView("")
MAX_CROWDED: Final = 500
"""Hosts that an application is kept off at most while its core containers are asked for."""
MAX_APPS: Final = 20_000
"""Applications that are remembered; ended ones are forgotten first, the oldest of them before others."""


class YarnInventory:
    """Records of YARN in, views for policies and attempts out; queues with their queueable use on top."""

    def __init__(self, state: ClusterState, attempts: AttemptIndex, usage: AllUsage | None = None) -> None:
        self._state, self._attempts = state, attempts
        self.records: OrderedDict[str, AppRecord] = OrderedDict()
        self.queues: dict[str, YarnQueue] = {}
        self.apps: dict[str, AppView] = {}
        self.node_expiry_s = state.limits.node_expiry_s
        """How long the ResourceManager waits for a node that is silent."""
        self._usage = usage or AllUsage()
        self.shares = Shares(self._usage)
        self._capacity: Resources | None = None
        self._capacity_kept = False
        """Whether the last answer had no capacities, so that those before hold on."""

    # YARN's records

    def update_nodes(self, nodes: Iterable[YarnNode], now_s: float) -> tuple[list[str], bool]:
        """Handle the ResourceManager's list of nodes; returns the nodes now forgotten, and whether anything changed.

        A node that left the list is forgotten as soon as its sidecar has been silent for long.
        """
        known, fresh_s = self._state.nodes, self._state.limits.report_fresh_s
        listed, forgotten, changed = {node.id: node for node in nodes}, [], False
        for gone in [n for n in known.values() if n.id not in listed]:
            gone.yarn, changed = None, True
            self.refresh(gone, now_s)
            if gone.report is None or now_s - gone.reported_s > 10 * fresh_s:
                del known[gone.id]
                gone.note_change()
                forgotten.append(gone.id)
        for node_id, yarn in listed.items():
            node = self._state.node(node_id)
            if node.listed(yarn):
                self.refresh(node, now_s)
                changed = True
        return forgotten, changed

    def update_queues(self, queues: Iterable[YarnQueue]) -> None:
        """Replace the ResourceManager's queues; capacities of which it knows none yet hold on.

        One that was started anew answers before any node has registered again.
        """
        by_path = {queue.path: queue for queue in queues}
        self._capacity_kept = _without_capacity(by_path) and not _without_capacity(self.queues)
        if self._capacity_kept:
            by_path = {path: _as_before(queue, self.queues.get(path)) for path, queue in by_path.items()}
        self.queues = by_path
        self._usage.report(self.queues.values())
        self.shares.update(right_of(queue) for queue in self.queues.values())

    @property
    def lacks_capacity(self) -> bool:
        """Whether nodes are there, and no queue's capacity is known now: it was read before they registered."""
        unknown = self._capacity_kept or _without_capacity(self.queues)
        return unknown and any(node.report is not None for node in self._state.nodes.values())

    def update_app(self, record: AppRecord) -> AppRecord | None:
        """Handle an application's record; returns it with its queue's full path, or None when nothing is new."""
        record = replace(record, queue=full_queue(record.queue, self.queues))
        if self.records.get(record.id) == record:
            return None
        new = record.id not in self.records
        bad = (*bad_tags(record.tags), *request_tags.bad_tags(record.tags)) if new else ()
        if bad:
            self._state.effects.append(BadTags(record.id, bad))
        self.records[record.id] = record
        before = self.apps.get(record.id, _NEW)
        self.apps[record.id] = AppView(
            id=record.id,
            queue=record.queue,
            user=record.user,
            type=record.type.upper(),
            name=record.name,
            tags=frozenset(record.tags),
            priority=record.priority,
            submitted_s=record.submitted_s,
            job_class=before.job_class,
            kept_off=before.kept_off,
        )
        for attempt in self._attempts.by_app.get(record.id, ()):
            attempt.notebook.app(record)
            if record.finished_s is not None:
                attempt.end("the application ended")
        self.forget_old_apps()
        return record

    def unknown_app(self, app_id: str) -> None:
        """End an application that the ResourceManager does not know: it restarted, and recovered nothing."""
        for attempt in self._attempts.by_app.get(app_id, ()):
            attempt.end("the ResourceManager does not know the application any more")

    def forget_old_apps(self) -> None:
        """Forget ended applications beyond the limit, whether YARN's records or their masters told of them."""
        for known in (self.records, self._attempts.by_app):
            for app_id in list(islice(known, max(0, len(known) - MAX_APPS))):
                if all(attempt.finished for attempt in self._attempts.by_app.get(app_id, ())):
                    self._forget_app(app_id)

    def _forget_app(self, app_id: str) -> None:
        self.records.pop(app_id, None)
        self.apps.pop(app_id, None)
        for attempt in self._attempts.forget_app(app_id):
            self.discharge(attempt.id)

    # Nodes

    def refresh(self, node: Node, now_s: float) -> None:
        """Compute the view of a node anew."""
        node.refresh(now_s, self._state.limits.report_fresh_s, self._attempts.is_held)

    def node(self, node_id: str) -> NodeView | None:
        """Return a node, None when it is not known."""
        node = self._state.nodes.get(node_id)
        return node.view if node is not None else None

    def node_changed(self, node_id: str, usable: bool) -> None:
        """Handle a node's state as an answer of the ResourceManager reported it."""
        node = self._state.nodes.get(node_id)
        if node is not None:
            node.answered(usable)

    def is_lost(self, node_id: str) -> bool | None:
        """Return whether the ResourceManager's scheduler has removed a node; None if it does not list it."""
        node = self._state.nodes.get(node_id)
        return None if node is None or node.yarn is None else node.yarn.lost

    def away(self, node_id: str, now_s: float) -> Away | None:
        """Return why a node starts nothing now; None if it may start containers, or is not known."""
        node = self._state.nodes.get(node_id)
        return node.away(now_s, self._state.limits.report_fresh_s) if node is not None else None

    # Applications

    def app(self, app_id: str) -> AppView | None:
        """Return the application's record, None while it is not known."""
        return self.apps.get(app_id)

    def hold_limit_s(self, app: AppView) -> float:
        """Return how long a start of this application may be held, in seconds."""
        limits = self._state.limits
        set_by_admin = limits.hold_by_type_s.get(app.type)
        if set_by_admin is not None:
            return set_by_admin
        return frameworks.hold_limit_s(app.type, limits.mapreduce_task_timeout_s)

    # Queues

    def _queue(self, name: str) -> YarnQueue | None:
        return self.queues.get(name) or self.queues.get(full_queue(name, self.queues))

    def queue_priority(self, name: str) -> int:
        """Return YARN's priority of a queue; 0 when it is not known."""
        yarn = self._queue(name)
        return yarn.priority if yarn is not None else 0

    def queue(self, name: str) -> QueueView | None:
        """Return a YARN queue with the queueable use of all its applications; None when it is not known."""
        yarn = self._queue(name)
        if yarn is None:
            return None
        usage = self._usage
        used, by_user = usage.queueable.of(yarn.path)
        used_g, used_g_by = usage.of_guaranteed(yarn.path)
        return QueueView(
            name=yarn.path,
            max_capacity=yarn.max_capacity,
            used_g=used_g,
            used_q=used,
            user_used_q=by_user,
            user_used_g=used_g_by,
            user_limit=yarn.user_limit,
            parents=self._parents(yarn.path),
            priority=yarn.priority,
            cluster=self._capacity or self._cluster_capacity(),
            cluster_used_q=usage.queueable.all,
            labels=yarn.labels,
            default_label=yarn.default_label,
            capacity=yarn.capacity,
            places_ratio=self.shares.places_ratio,
        )

    def room(self, by_queue: Mapping[str, Resources], by_user: Mapping[tuple[str, str], Resources]) -> Room:
        """Return the room of applications that are admitted as a whole, in the default partition.

        by_queue, by_user: what they have as guaranteed, by YARN queue, and by queue and user; all other guaranteed use,
        that of application masters too, is taken off.
        """
        capacity = sum((_capacity(node) for node in self._state.nodes.values()), Resources())
        used = self._usage.used_g("root") - sum(by_queue.values(), Resources())
        limits = {}
        for path, queue in self.queues.items():
            below = (size for name, size in by_queue.items() if name == path or name.startswith(f"{path}."))
            if queue.max_capacity.memory_mb:
                limits[f"queue {path}"] = queue.max_capacity - self._usage.used_g(path) + sum(below, Resources())
        for (path, user), size in by_user.items():
            limit = self.queues[path].user_limit if path in self.queues else None
            if limit is not None:
                used_by = self._usage.used_g_by(path).get(user, _NOTHING)
                limits[user_limit(path, user)] = limit - used_by + size
        return Room(capacity - used, limits)

    def crowded(self, size: Resources) -> frozenset[str]:
        """Return the hosts of the default partition where a container of this size would take from others.

        Those without a free place; where no host has one, those without memory for it, on which another container would
        be killed and not shrunk. None where all are alike, or too many are to be named.
        """
        views = {node.id: node.view for node in self._state.nodes.values() if not node.view.label}
        roomy: Collection[str] = self._state.free.by_node("", size)
        if not roomy:
            roomy = {node_id for node_id, view in views.items() if view.usable and view.has_memory(size)}
        if not roomy or len(views) - len(roomy) > MAX_CROWDED:
            return frozenset()
        return frozenset(view.host for node_id, view in views.items() if node_id not in roomy)

    def charge(
        self, attempt_id: str, used_q: Resources, used_g: Resources = _NOTHING, over_q: Resources = _NOTHING
    ) -> None:
        """Note what an attempt's containers use: those that it holds, or has asked for at nodes."""
        app = self.apps.get(app_of_attempt(attempt_id))
        if app is not None:
            self._usage.charge(attempt_id, app.queue, app.user, used_q, used_g, over_q)

    def discharge(self, attempt_id: str) -> None:
        """Note that an attempt uses nothing any more."""
        self._usage.discharge(attempt_id)

    def round(self) -> None:
        """Have the capacity of the cluster added up anew when it is needed next."""
        self._capacity = None

    def _parents(self, path: str) -> tuple[ParentView, ...]:
        known, usage = [self.queues[above] for above in parents(path) if above in self.queues], self._usage
        if not known:
            return ()
        return tuple([ParentView(q.path, q.max_capacity, usage.used_g(q.path), usage.used_q(q.path)) for q in known])

    def _cluster_capacity(self) -> Resources:
        """Return what the usable nodes have together; added up once a round, with the ratio of places to cores."""
        if self._capacity is None:
            usable = [node for node in self._state.nodes.values() if node.view.usable]
            self._capacity = sum((node.view.capacity for node in usable), Resources())
            listed = [(node.view.slots, node.yarn.capacity.vcores) for node in usable if node.yarn is not None]
            cores = sum(vcores for _, vcores in listed)
            ratio = sum(max(slots, vcores) for slots, vcores in listed) / cores if cores else 1.0
            self.shares.places_ratio = ratio
        return self._capacity


def _capacity(node: Node) -> Resources:
    """Return what a node offers to admitted applications: nothing off the default partition, or while it is down.

    Vcores as the ResourceManager counts them: it grants the core by these, even where a node has fewer cores.
    """
    yarn, view = node.yarn, node.view
    if yarn is None or not yarn.running or yarn.label:
        return _NOTHING
    memory_mb = yarn.capacity.memory_mb
    return Resources(min(view.capacity.memory_mb, memory_mb) if view.usable else memory_mb, yarn.capacity.vcores)


def _without_capacity(queues: Mapping[str, YarnQueue]) -> bool:
    """Return whether the ResourceManager knew no capacity: none of its nodes had registered."""
    return not any(queue.max_capacity.memory_mb for queue in queues.values())


def _as_before(queue: YarnQueue, known: YarnQueue | None) -> YarnQueue:
    """Return a queue with the capacities that it had when they were known."""
    if known is None:
        return queue
    return replace(queue, max_capacity=known.max_capacity, capacity=known.capacity, user_limit=known.user_limit)
