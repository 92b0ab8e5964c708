"""Allocated containers of an answer: each is matched with its ask and delivered as the application asked for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Kind, NodeView
from rm_proxy.attempt.asks.ask_table import AskEntry, AskTable, QPlacement, Reason
from rm_proxy.attempt.cluster_view import ClusterView
from rm_proxy.attempt.completions import Completions
from rm_proxy.attempt.delivery.grant_messages import GrantTerms, announcement, grant_terms, granted
from rm_proxy.attempt.effects import Announce, Effect, Granted
from rm_proxy.attempt.held_containers import HeldContainer, HeldContainers
from rm_proxy.attempt.registration.registration import AttemptState, Registration
from rm_proxy.attempt.repeated_requests import RowName
from rm_proxy.attempt.routing.router import Router
from rm_proxy.attempt.routing.steering import Steering
from rm_proxy.domain import ids
from rm_proxy.domain.resources import resources_of
from rm_proxy.estimates.estimator import Expectation

DEFAULT_RACK: Final = "/default-rack"
ASTRAY: Final = "asked for before quicksilver lost sight of the application"


class Allocations:
    """Allocated containers of one application attempt; `delivered` and `container_ids` are those of one answer."""

    def __init__(
        self,
        world: ClusterView,
        registration: Registration,
        router: Router,
        steering: Steering,
        table: AskTable,
        live: HeldContainers,
        ends: Completions,
        emit: Callable[[Effect], None],
    ) -> None:
        self._world, self._router, self._steering, self._table = world, router, steering, table
        self._registration = registration
        self._live, self._ends, self._emit = live, ends, emit
        self._expects: dict[tuple[int, str], Expectation] = {}
        """How long tasks are expected to run: by priority, and the container that was lost before."""
        self._terms: GrantTerms | None = None
        """Terms shared by all grants of one answer; None until one needs them."""
        self.delivered: dict[RowName, int] = {}
        """How much the rows of the application were lowered."""
        self.container_ids: list[str] = []
        """Ids of the containers that the application got."""
        self._early = False
        self.granted: list[int] = []
        """Private request ids that the ResourceManager granted, and thereby forgot."""

    def begin(self, early: bool = False) -> None:
        """Note that a new answer came; early: the ResourceManager does not know its containers yet."""
        self._early = early
        self.delivered, self.container_ids, self.granted = {}, [], []
        self._terms = None
        self._expects.clear()

    def rewrite_updated(self, answer: y.AllocateResponseProto) -> bool:
        """Restore containers that come back changed at the application's wish; returns whether there are any."""
        updates = [updated for updated in answer.updated_containers if self._was_private(updated.container)]
        for updated in updates:
            execution_type = updated.container.execution_type
            self._restore(updated.container)
            if updated.update_type in (y.PROMOTE_EXECUTION_TYPE, y.DEMOTE_EXECUTION_TYPE):
                updated.container.execution_type = execution_type
        return bool(updates)

    def adopt(self, containers: Iterable[y.ContainerProto], now_s: float) -> bool:
        """Take over the containers of earlier attempts; returns whether any of them changes for the application."""
        changed = False
        self._expects.clear()
        for container in containers:
            private = self._was_private(container)
            queueable = private and container.execution_type == y.OPPORTUNISTIC
            kind, node_id = Kind.QUEUEABLE if queueable else Kind.GUARANTEED, ids.node_id_text(container.nodeId)
            live = self._container(container, kind, now_s, node_id, self._world.inventory.node(node_id))
            live.start(now_s)
            self._live.add(live)
            if private:
                self._restore(container)
                changed = True
        return changed

    def _was_private(self, container: y.ContainerProto, container_id: str = "") -> bool:
        """Return whether the proxy once asked for a container; a promoted one is OPPORTUNISTIC no longer.

        container_id: its id, if that is at hand.
        """
        private = container.allocation_request_id
        if not ids.is_private(private):
            return False
        live = self._live.get(container_id or ids.container_id_text(container.id))
        if live is not None:
            return live.private_id == private
        own = self._table.is_own_id(container.priority.priority, private)
        if self._is_private(container) or self._is_instead(container):
            return True
        return container.version > 0 and not own

    def _is_private(self, container: y.ContainerProto) -> bool:
        """Return whether the proxy asked for a container; an application's request ids may resemble private ones."""
        private = container.allocation_request_id
        if not ids.is_private(private):
            return False
        known = private in self._table.by_private
        opportunistic = container.execution_type == y.OPPORTUNISTIC
        return known or (opportunistic and not self._table.is_own_id(container.priority.priority, private))

    def _is_instead(self, container: y.ContainerProto) -> bool:
        """Return whether a guaranteed container was asked for where the application asked for OPPORTUNISTIC."""
        private = container.allocation_request_id
        if container.execution_type != y.GUARANTEED or container.version or not ids.is_instead(private):
            return False
        return not self._table.is_own_id(container.priority.priority, private)

    def _restore(self, container: y.ContainerProto) -> None:
        """Give a container the request id and execution type that the application asked for."""
        container.allocation_request_id, opportunistic = ids.original(container.allocation_request_id)
        container.execution_type = y.OPPORTUNISTIC if opportunistic else y.GUARANTEED

    def rewrite_allocated(self, answer: y.AllocateResponseProto, now_s: float) -> bool:
        """Handle allocated containers; unwanted ones are given back instead. Returns whether the answer changed."""
        changed, unwanted = False, []
        queueables = []
        placements = self._table.by_private
        for at, container in enumerate(answer.allocated_containers):
            if container.allocation_request_id in placements or self._is_private(container):
                queueables.append((at, container))
            else:
                changed = self._guaranteed_arrived(container, now_s) or changed
        for at, container in queueables:  # after the others, which may make some of these superfluous
            changed = True
            refusal = self._queueable_arrived(container, now_s)
            if refusal is None:
                self._restore(container)
            else:
                unwanted.append(at)
                self._ends.give_back(container, refusal)
        for at in reversed(unwanted):
            del answer.allocated_containers[at]
        return changed

    def drop_known(self, answer: y.AllocateResponseProto) -> bool:
        """Take containers out of an answer that the application has, or had; returns whether there are any."""
        fresh = []
        for container in answer.allocated_containers:
            container_id = ids.container_id_text(container.id)
            if container_id not in self._live and container_id not in self._ends:
                fresh.append(container)
        if len(fresh) == len(answer.allocated_containers):
            return False
        rest = y.AllocateResponseProto(allocated_containers=fresh)
        answer.ClearField("allocated_containers")
        answer.allocated_containers.MergeFrom(rest.allocated_containers)
        return True

    def _guaranteed_arrived(self, container: y.ContainerProto, now_s: float) -> bool:
        """Handle a container of a guaranteed share: also of rows that passed as OPPORTUNISTIC. Returns whether the
        application asked for another type.
        """
        instead = self._is_instead(container)
        entry = self._entry_of_guaranteed(container, instead)
        reason = Reason("not asked for through quicksilver", now_s, 1)
        node_id = ids.node_id_text(container.nodeId)
        node = self._world.inventory.node(node_id)
        if entry is not None:
            host, rack = container.nodeId.host, node.rack if node is not None else DEFAULT_RACK
            reason = entry.take_g() or Reason("not wanted any more when the ResourceManager granted it", now_s, 1)
            self._lower(entry, host, rack)
            if instead == entry.rows.as_guaranteed:
                entry.rows.decrement_at_rm(host, rack)
            if entry.undecided < 0:
                self._table.shrink(entry, -entry.undecided)
        self._deliver(container, Kind.GUARANTEED, reason, None, now_s, node_id, node)
        if instead:
            self._restore(container)
        return instead

    def _entry_of_guaranteed(self, container: y.ContainerProto, instead: bool) -> AskEntry | None:
        priority, request_id = container.priority.priority, container.allocation_request_id
        resources = resources_of(container.resource)
        if instead:
            return self._table.entry_of(request_id, priority, resources)
        opportunistic = container.execution_type == y.OPPORTUNISTIC
        return self._table.entry_of_passed(priority, request_id, opportunistic, resources)

    def _queueable_arrived(self, container: y.ContainerProto, now_s: float) -> str | None:
        """Handle a container of a private id; returns None if the application gets it, else the reason against it."""
        private = container.allocation_request_id
        self.granted.append(private)
        q = self._table.by_private.get(private)
        if q is not None:
            entry: AskEntry | None = q.entry
            self._table.granted(q)
        else:
            entry = self._table.entry_of(private, container.priority.priority, resources_of(container.resource))
            self._table.unpark(private)
        node_id = ids.node_id_text(container.nodeId)
        node = self._world.inventory.node(node_id)
        if self._registration.state is AttemptState.UNTRACKED:  # every container is delivered
            self._deliver(container, Kind.QUEUEABLE, Reason(ASTRAY, now_s, 1), None, now_s, node_id, node)
            return None
        if entry is None:
            return "its ask is gone"
        refusal = None if q is not None and node_id == q.node_id else self._elsewhere(entry, q, node_id, node)
        if q is not None:
            reason = q.reason
            if refusal is not None:
                self._steering.back_to_wanted(entry, reason, refusal, now_s)
                return refusal
        elif refusal is not None:
            return refusal
        else:
            taken = entry.take_q() or entry.take_g() or self._give_up_one(entry)
            if taken is None:
                return "it came after its ask was taken back"
            reason = taken
        self._lower(entry, container.nodeId.host, node.rack if node is not None else DEFAULT_RACK)
        self._deliver(container, Kind.QUEUEABLE, reason, q, now_s, node_id, node)
        return None

    def _give_up_one(self, entry: AskEntry) -> Reason | None:
        """Give up the latest placement of a key, as a container of an earlier one came; None when there is none."""
        if not entry.pending:
            return None
        q = next(reversed(entry.pending.values()))
        self._table.park(q)
        return q.reason

    def _lower(self, entry: AskEntry, host: str, rack: str) -> None:
        """Count a delivery in the application's rows."""
        for name in entry.rows.decrement(host, rack):
            row = entry.key, name
            self.delivered[row] = self.delivered.get(row, 0) + 1

    def _elsewhere(self, entry: AskEntry, q: QPlacement | None, node_id: str, node: NodeView | None) -> str | None:
        """Return why a container on a node where it was not asked for does not fit its ask; None if it fits."""
        view = self._router.view()
        if node is not None and view is not None and self._router.ask(entry, view).tier(node) is not None:
            return None
        suffix = f" instead of {q.node_id}" if q is not None else ""
        return f"granted on {node_id}{suffix}, where it may not go"

    def _expected(self, priority: int, follows: str) -> Expectation:
        """Return how long a task is expected to run; looked up once for all of an answer that are alike."""
        name = priority, follows
        expects = self._expects.get(name)
        if expects is None:
            app = self._world.apps.app(self._router.app_id)
            expects = self._world.durations.expected(app, priority, follows) if app else Expectation(0.0)
            self._expects[name] = expects
        return expects

    def _container(
        self,
        container: y.ContainerProto,
        kind: Kind,
        now_s: float,
        node_id: str,
        node: NodeView | None,
        reason: Reason | None = None,
        by_proxy: bool = False,
    ) -> HeldContainer:
        """Return a container as it is held; by_proxy: whether the proxy is known to have asked for it."""
        priority, (retries, follows) = container.priority.priority, (0, "")
        if reason is not None:
            retries, follows = reason.retries, reason.follows
        expects, container_id = self._expected(priority, follows), ids.container_id_text(container.id)
        private = by_proxy or self._was_private(container, container_id)
        if node is not None and node.slow_ratio != 1.0:
            expects = expects.at(node.slow_ratio)
        return HeldContainer(
            container_id,
            ids.copied(container.id),
            node_id,
            kind,
            priority,
            resources_of(container.resource),
            expects.mean_s,
            now_s,
            retries,
            follows,
            expects.spread_s,
            expects.source,
            private_id=container.allocation_request_id if private else None,
            version=container.version,
        )

    def _deliver(
        self,
        container: y.ContainerProto,
        kind: Kind,
        reason: Reason,
        q: QPlacement | None,
        now_s: float,
        node_id: str,
        node: NodeView | None,
    ) -> None:
        by_proxy = q is not None and container.execution_type == y.OPPORTUNISTIC
        live = self._container(container, kind, now_s, node_id, node, reason, by_proxy)
        if q is not None:
            live.either = not q.entry.only_q
            live.ask, live.wait_s, live.ahead = q.ask, q.placement.wait_s, q.placement.ahead
        live.early = self._early
        self._live.add(live)
        self.container_ids.append(live.id)
        self._emit(Granted(granted(live, self._router.app_id, self._router.attempt_id, reason, q)))
        if kind is not Kind.QUEUEABLE:
            return
        self._world.placer.count_granted(live, q)
        if self._terms is None:
            self._terms = grant_terms(self._world, self._router.app_id, now_s)
        if self._terms is not None:
            self._emit(Announce(live.node_id, announcement(live, self._router.attempt_id, self._terms)))
