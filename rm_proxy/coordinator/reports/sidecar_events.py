"""Events of containers as the sidecars report them: each is handled once, and acknowledged when it is settled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from quicksilver.common.messages import ContainerEvent, EventKind, Report
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.coordinator.attempt_index import AttemptIndex
from rm_proxy.coordinator.cluster_state import ClusterState
from rm_proxy.coordinator.moves import Mover
from rm_proxy.coordinator.reports.adopted_containers import ENDS, AdoptedContainers
from rm_proxy.coordinator.reports.event_acks import EventAcks
from rm_proxy.coordinator.task_durations import TaskDurations
from rm_proxy.coordinator.yarn_inventory import YarnInventory
from rm_proxy.domain.ids import attempt_of_container

_MAY_WAIT: Final = (EventKind.HELD, EventKind.STARTED, EventKind.ENDED)
"""Events after which nothing is sent to the application or the ResourceManager: they may be journaled later."""


class SidecarEvents:
    """Gives events to the attempts, and to the parts of the coordinator that learn from them."""

    def __init__(
        self,
        state: ClusterState,
        attempts: AttemptIndex,
        inventory: YarnInventory,
        adopted: AdoptedContainers,
        durations: TaskDurations,
        mover: Mover,
    ) -> None:
        self._state, self._attempts, self._inventory = state, attempts, inventory
        self._adopted, self._durations, self._mover = adopted, durations, mover
        self._acks = EventAcks(self._settled)
        self._handled: dict[str, tuple[str, int]] = {}
        """By node: the boot of its sidecar, and the number of the last event that was handled."""

    def new(self, node_id: str, report: Report) -> Sequence[ContainerEvent]:
        """Return the events of a report that were not handled before."""
        if not report.events:
            return ()
        last = self._last(node_id, report.boot)
        return [event for event in report.events if event.seq > last]

    def handle(self, node_id: str, report: Report, new: Iterable[ContainerEvent], now_s: float) -> None:
        """Handle the new events of a report, and the releases that its sidecar asks for."""
        for event in new:
            self._on_event(node_id, report.boot, event, now_s)
        for container_id in report.release:
            holder = self._attempts.holder(container_id)
            if holder is not None:
                holder.containers.give_up(container_id)
                self._attempts.unjournaled.add(holder)

    def acknowledge(self, node_id: str, report: Report, now_s: float) -> int:
        """Note the events of a report as handled; returns the number up to which its sidecar may forget them."""
        last = self._last(node_id, report.boot)
        if report.events:
            last = max(last, *[event.seq for event in report.events])
        self._handled[node_id] = report.boot, last
        settled = self._acks.up_to(node_id, report.boot, last, now_s)
        return self._attempts.unjournaled.up_to(node_id, settled, now_s)

    def forget_node(self, node_id: str) -> None:
        """Forget a node that left the cluster."""
        self._handled.pop(node_id, None)
        self._acks.forget_node(node_id)

    def clear(self) -> None:
        """Forget all: sidecars report unsettled events again to the proxy that serves next."""
        self._handled.clear()
        self._acks.clear()

    def _last(self, node_id: str, boot: str) -> int:
        known = self._handled.get(node_id)
        return known[1] if known is not None and known[0] == boot else -1

    def _on_event(self, node_id: str, boot: str, event: ContainerEvent, now_s: float) -> None:
        attempts, kind = self._attempts, event.kind
        if kind is EventKind.ENDED or kind in ENDS:
            self._on_end(node_id, boot, event, now_s)
        attempt = attempts.holder(event.container_id)
        if attempt is None:
            return
        live = attempt.live.get(event.container_id)
        app = self._inventory.apps.get(attempt.app_id)
        if live is not None and app is not None and kind is not EventKind.HELD:
            self._durations.learn(event, live, app, node_id, now_s)
            self._mover.on_event(event, live)
        attempt.containers.on_event(event, now_s)
        if kind in _MAY_WAIT:
            attempts.unjournaled.event(attempt, node_id, event.seq, now_s)
        else:
            attempts.unjournaled.add(attempt)

    def _on_end(self, node_id: str, boot: str, event: ContainerEvent, now_s: float) -> None:
        """Handle what an end means beside its container's attempt, and before it."""
        own, kind = self._attempts.get(attempt_of_container(event.container_id)), event.kind
        if event.am and kind is EventKind.ENDED and own is not None:
            self._master_gone(own, now_s)
        if own is not None:
            self._adopted.event(own, event, node_id, now_s)
        if kind in ENDS and not self._settled(event.container_id):
            self._acks.keep(node_id, boot, event.seq, event.container_id, now_s)
        if kind in (EventKind.ENDED, EventKind.LOST):
            self._state.nodes[node_id].ended(kind is EventKind.LOST)

    def _settled(self, container_id: str) -> bool:
        """Return whether a container's end is settled; it is not while its attempt has not come here yet."""
        attempts = self._attempts
        holder = attempts.holder(container_id) or attempts.get(attempt_of_container(container_id))
        return holder is not None and holder.containers.settled(container_id)

    def _master_gone(self, attempt: Attempt, now_s: float) -> None:
        if not attempt.finished:
            attempt.containers.master_gone(now_s)
            attempt.notebook.master_gone(now_s)
            self._attempts.unjournaled.add(attempt)
            self._state.urgent += attempt.take_effects()
