"""Handles reports of the sidecars and makes the answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf
from operator import attrgetter
from typing import Final

from policies.model import Kind, NodeView
from quicksilver.common.messages import Ack, ContainerEvent, Report, Targets
from rm_proxy.attempt.effects import DropHeld
from rm_proxy.coordinator.attempt_restore import AttemptRestore
from rm_proxy.coordinator.cluster_state import ClusterState
from rm_proxy.coordinator.moves import Mover
from rm_proxy.coordinator.nodes.nodes import Node
from rm_proxy.coordinator.nodes.targets import TargetSetter
from rm_proxy.coordinator.reports.adopted_containers import AdoptedContainers
from rm_proxy.coordinator.reports.sidecar_events import SidecarEvents
from rm_proxy.coordinator.task_durations import TaskDurations
from rm_proxy.coordinator.yarn_inventory import YarnInventory

_NO_STATE: Final = {
    *("node_id", "seq", "sidecar_url", "free_physical_mb", "version", "settings_version", "limits"),
    *("containers", "events", "release", "waits", "compared"),
}
"""Fields of a report that are read from it when they are asked for, and lists that are looked at by themselves."""
_LASTING: Final = attrgetter(*(name for name in Report.model_fields if name not in _NO_STATE))
MAX_UNLISTED: Final = 1_000
"""Nodes that report and that the ResourceManager does not list (yet)."""


class SidecarReports:
    """Reports in, acknowledgements out: with targets, containers to shed, drops and promotions."""

    def __init__(
        self,
        state: ClusterState,
        inventory: YarnInventory,
        events: SidecarEvents,
        adopted: AdoptedContainers,
        restore: AttemptRestore,
        durations: TaskDurations,
        targets: TargetSetter,
        mover: Mover,
    ) -> None:
        self._state, self._inventory, self._events = state, inventory, events
        self._adopted, self._restore, self._durations = adopted, restore, durations
        self._targets, self._mover = targets, mover
        self.new_events = events.new
        self._drops: dict[str, dict[str, str]] = {}
        """By node: drops that could not be sent, with their reasons."""
        self._known: dict[str, list[str]] = {}
        """By node: containers that the ResourceManager knows by now, of which its sidecar could not be informed."""
        self._promoted: dict[str, set[str]] = {}
        """By node: containers that are guaranteed now, and that its sidecar may still take for queueable."""
        self._emptied: set[str] = set()
        """Nodes that an admin empties, as of their last reports."""

    def disconnected(self, node_id: str, now_s: float) -> None:
        """Note that the connection for a node's reports was cut: its sidecar may be dead."""
        node = self._state.nodes.get(node_id)
        if node is not None:
            node.cut_s = now_s

    def registered(self, attempt_id: str, now_s: float) -> None:
        """Hand the containers that nodes hold for an attempt over to it, as it registered."""
        for node in self._state.nodes.values():
            if node.report is not None:
                self._adopted.of_attempt(attempt_id, node.id, node.report, now_s)

    def takes_report(self, node_id: str) -> bool:
        """Return whether a node's report is handled: of nodes that the ResourceManager does not list only some are."""
        nodes = self._state.nodes
        return node_id in nodes or sum(1 for node in nodes.values() if node.yarn is None) < MAX_UNLISTED

    def report(
        self, node_id: str, report: Report, now_s: float, new_events: Sequence[ContainerEvent] | None = None
    ) -> Ack:
        """Handle a sidecar's report; events that were handled before are not counted again.

        new_events: what the method of this name returns of it, where the caller has that.
        """
        node = self._state.node(node_id)
        if self._says_nothing_new(node, report):
            return self._idle_again(node, report, now_s)
        self._handle(node, report, now_s, new_events)
        drops = self._restore.forgotten(report)
        return self._ack(node, report, now_s, drops, self._targets_of(node_id, report, now_s))

    def report_elsewhere(
        self, node_id: str, report: Report, now_s: float, new_events: Sequence[ContainerEvent], view: NodeView
    ) -> Ack:
        """Handle a report whose answer another worker of the proxy gives; return what has to be in it.

        view: the node as that worker sees it, without own containers.
        """
        self._state.node(node_id)  # it is known from now on
        self._containers(node_id, report, now_s, new_events)
        self.report_of_others(node_id, report, now_s, view)
        self._durations.observe(node_id, report, now_s)
        drops = self._restore.forgotten(report) | self._drops.pop(node_id, {})
        return Ack(
            events_to=self._events.acknowledge(node_id, report, now_s),
            drop=list(drops),
            drop_reason=next(iter(drops.values()), ""),
            known=self._known.pop(node_id, []),
            shed=self._mover.take(node_id),
            promoted=self._still_queueable(node_id, report),
        )

    def report_of_others(self, node_id: str, report: Report, now_s: float, view: NodeView) -> None:
        """Handle such a report that mentions no container of this worker's applications."""
        node = self._state.node(node_id)
        node.confirm(report, now_s)
        node.show(view)
        self._inventory.refresh(node, now_s)
        work_s = self._durations.outlook.work_s
        node.yields(self._state.giving_way.report(report, node.beyond, work_s, now_s))
        self._after(node, report, now_s)

    def order_elsewhere(self, node_id: str, orders: Ack) -> None:
        """Store what another worker wants of a sidecar; it goes as what this one wants."""
        for container_id in orders.drop:
            self.undelivered(DropHeld(node_id, container_id, orders.drop_reason))
        self.confirmed(node_id, orders.known)
        for shed in orders.shed:
            self._mover.shed(node_id, shed)
        for container_id in orders.promoted:
            self.promoted(node_id, container_id)

    def _handle(self, node: Node, report: Report, now_s: float, new_events: Sequence[ContainerEvent] | None) -> None:
        state, node_id = self._state, node.id
        self._containers(node_id, report, now_s, new_events)
        node.confirm(report, now_s)
        self._durations.observe(node_id, report, now_s)
        self._targets.observe(node_id, report, now_s)
        outlook = self._durations.outlook
        full = report.used_g_vcores + report.used_q_vcores >= report.vcores
        node.frees_s = outlook.frees_s(report) if full else inf
        self._inventory.refresh(node, now_s)
        node.yields(state.giving_way.report(report, node.beyond, outlook.work_s, now_s))
        self._after(node, report, now_s)
        node.idle = None if report.containers or report.events else _LASTING(report)

    def _containers(
        self, node_id: str, report: Report, now_s: float, new_events: Sequence[ContainerEvent] | None
    ) -> None:
        """Hand the containers of a report and its new events over to their attempts."""
        if report.containers:
            self._adopted.of_report(node_id, report, now_s)
        news = self._events.new(node_id, report) if new_events is None else new_events
        self._events.handle(node_id, report, news, now_s)
        if self._state.node(node_id).report is None:
            self._state.urgent += self._restore.announce_again(report, now_s)

    def _after(self, node: Node, report: Report, now_s: float) -> None:
        for step in self._state.hooks.reported:
            step(node.id, report, now_s)
        if report.empty_in_s is not None or node.id in self._emptied:
            self._follow_emptying(node.id, report, now_s)

    def _says_nothing_new(self, node: Node, report: Report) -> bool:
        """Return whether a node is as idle as its last report said: nothing there depends on the time."""
        if node.idle is None or node.own or not node.view.usable or node.id in self._emptied:
            return False
        if report.containers or report.events or report.release or report.waits:
            return False
        return node.idle == _LASTING(report)

    def _idle_again(self, node: Node, report: Report, now_s: float) -> Ack:
        """Handle such a report."""
        node.report, node.reported_s = report, now_s
        self._targets.observe(node.id, report, now_s)
        for step in self._state.hooks.reported:
            step(node.id, report, now_s)
        return self._ack(node, report, now_s, {}, self._targets.of(node.id))

    def _ack(self, node: Node, report: Report, now_s: float, drops: dict[str, str], targets: Targets | None) -> Ack:
        """Return the answer to a report that was handled."""
        waiting = self._drops.pop(node.id, None)
        if waiting:
            drops |= waiting
        return Ack(  # with each list: a default is copied by as much work as all the rest
            events_to=self._events.acknowledge(node.id, report, now_s),
            drop=list(drops),
            drop_reason=next(iter(drops.values()), ""),
            known=self._known.pop(node.id, []),
            targets=targets,
            shed=self._mover.take(node.id),
            drain=node.drain(),
            promoted=self._still_queueable(node.id, report),
        )

    def observe(self, node_id: str, report: Report, now_s: float) -> Ack:
        """Handle a report while standby: its events are for the proxy that serves."""
        node = self._state.node(node_id)
        node.confirm(report, now_s)
        self._inventory.refresh(node, now_s)
        return Ack(events_to=-1, active=False)

    def nodes_with_orders(self) -> Collection[str]:
        """Return the nodes whose sidecars have something to do."""
        return {*self._drops, *self._known, *self._promoted, *self._mover.nodes_to_shed}

    def orders(self, node_id: str) -> Ack | None:
        """Return what a sidecar has to do before its next report, None for nothing; it counts as sent."""
        node = self._state.nodes.get(node_id)
        if node is None or node.report is None:
            return None
        drops, shed = self._drops.pop(node_id, {}), self._mover.take(node_id)
        known = self._known.pop(node_id, [])
        promoted = self._still_queueable(node_id, node.report)
        if not (drops or known or shed or promoted):
            return None
        reason = next(iter(drops.values()), "")
        return Ack(events_to=-1, drop=list(drops), drop_reason=reason, known=known, shed=shed, promoted=promoted)

    def undelivered(self, drop: DropHeld) -> None:
        """Store a drop that could not be sent; it goes with the answer to the next report of the sidecar.

        For a node that left the cluster none is stored.
        """
        if drop.node_id not in self._state.nodes:
            return
        self._drops.setdefault(drop.node_id, {})[drop.container_id] = drop.reason

    def confirmed(self, node_id: str, container_ids: Sequence[str]) -> None:
        """Store that the ResourceManager knows containers of which a sidecar could not be informed, like drops."""
        if container_ids and node_id in self._state.nodes:
            self._known.setdefault(node_id, []).extend(container_ids)

    def promoted(self, node_id: str, container_id: str) -> None:
        """Have a sidecar informed that a container of its node is guaranteed now, unless the node left the cluster."""
        if node_id not in self._state.nodes:
            return
        self._promoted.setdefault(node_id, set()).add(container_id)

    def forget_node(self, node_id: str) -> None:
        """Forget a node that left the cluster."""
        self._drops.pop(node_id, None)
        self._known.pop(node_id, None)
        self._promoted.pop(node_id, None)
        self._emptied.discard(node_id)
        self._events.forget_node(node_id)
        self._state.giving_way.forget_node(node_id)

    def clear(self) -> None:
        """Forget all messages to sidecars: another proxy serves now."""
        self._events.clear()
        self._drops.clear()
        self._known.clear()
        self._promoted.clear()
        self._emptied.clear()

    def _follow_emptying(self, node_id: str, report: Report, now_s: float) -> None:
        (self._emptied.discard if report.empty_in_s is None else self._emptied.add)(node_id)
        for step in self._state.hooks.emptied:
            step(node_id, report, now_s)

    def _targets_of(self, node_id: str, report: Report, now_s: float) -> Targets | None:
        """Return the targets of a node, with the outlook of the jobs there.

        None before the first round: the sidecar keeps what it had from an earlier proxy.
        """
        targets = self._targets.of(node_id)
        if targets is None:
            return None
        news = self._durations.news(node_id, targets, report, now_s)
        over = {app_id for over_share in self._state.hooks.over_share for app_id in over_share()}
        there = sorted({c.app_id for c in report.containers} & over) if over else []
        return news.model_copy(update={"over_share": there}) if there else news

    def _still_queueable(self, node_id: str, report: Report) -> list[str]:
        """Return promoted containers that a sidecar still takes for queueable: they are sent until it knows."""
        promoted = self._promoted.pop(node_id, None)
        if promoted is None:
            return []
        still = [c.container_id for c in report.containers if c.kind != Kind.GUARANTEED and c.container_id in promoted]
        if still:
            self._promoted[node_id] = set(still)
        return still
