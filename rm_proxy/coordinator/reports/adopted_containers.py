"""Containers that an attempt held before this proxy served it: after a failover, only the nodes know them.

The other ResourceManager's proxy granted it, and may be gone. A container that runs is taken over. One that still waits
was granted by a ResourceManager that is no more, and the NodeManager would reject its token ("allocated by a previous
RM"); a release of it brings no completion, as the new one does not know it (AbstractYarnScheduler.getPendingRelease).
So its node is asked to shed it: that event stays at the sidecar until the application has confirmed the completion
that comes of it, and outlives further failovers. One that is being started is left to the NodeManager's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from policies.model import Kind, Resources
from quicksilver.common.messages import ContainerEvent, ContainerReport, ContainerState, EventKind, Report, Shed
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.domain import ids

WHY: Final = "it was granted by a ResourceManager that is no more"
ENDS: Final = frozenset((EventKind.SHED, EventKind.LOST, EventKind.FAILED, EventKind.STOPPED, EventKind.KILLED))
"""Events that lead to a completion, or explain one."""


class AdoptedContainers:
    """Hands reported containers over to attempts; `shed` is called with the node and the container to give up."""

    def __init__(self, attempts: Mapping[str, Attempt], shed: Callable[[str, Shed], None]) -> None:
        self._attempts, self._shed = attempts, shed

    def of_attempt(self, attempt_id: str, node_id: str, report: Report, now_s: float) -> None:
        """Hand a node's last reported containers over to an attempt that has just registered."""
        attempt = self._attempts[attempt_id]
        for container in report.containers:
            if container.app_id == attempt.app_id:
                self._container(attempt, container, node_id, now_s)
        for event in report.events:
            if ids.app_of_container(event.container_id) == attempt.app_id:
                self.event(attempt, event, node_id, now_s)
                attempt.containers.on_event(event, now_s)

    def of_report(self, node_id: str, report: Report, now_s: float) -> None:
        """Hand a report's unknown containers over to their attempts."""
        for container in report.containers:
            attempt = self._attempts.get(ids.attempt_of_container(container.container_id))
            if attempt is not None and container.container_id not in attempt.live:
                self._container(attempt, container, node_id, now_s)

    def event(self, attempt: Attempt, event: ContainerEvent, node_id: str, now_s: float) -> None:
        """Hand the unknown container of an end over to its attempt, so that the event can be handled."""
        if event.kind in ENDS and attempt.containers.inherits(event.container_id):
            live = _live(event.container_id, node_id, Kind.QUEUEABLE, now_s)
            if event.kind is EventKind.KILLED:
                live.start(None)
                live.killed = event.reason or "room was needed"
            attempt.containers.inherit(live)

    def _container(self, attempt: Attempt, container: ContainerReport, node_id: str, now_s: float) -> None:
        is_task = container.kind in (Kind.QUEUEABLE, Kind.GUARANTEED) and not container.am
        if not is_task or not attempt.containers.inherits(container.container_id):
            return
        live = _live(container.container_id, node_id, Kind(container.kind), now_s - container.since_s)
        live.priority, live.expected_s = container.priority, container.expected_s
        live.resources = Resources(container.memory_mb, container.vcores)
        if container.state in (ContainerState.RUNNING, ContainerState.SHRUNK):
            live.start(now_s - container.since_s)
        attempt.containers.inherit(live)
        if container.state is ContainerState.WAITING:
            live.hold(now_s)
            self._shed(node_id, Shed(container_id=live.id, cause="restart", reason=WHY))


def _live(container_id: str, node_id: str, kind: Kind, granted_s: float) -> HeldContainer:
    proto = ids.container_id_proto(container_id)
    return HeldContainer(container_id, proto, node_id, kind, 0, Resources(), 0.0, granted_s)
