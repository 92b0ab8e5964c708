"""State of the node machine: its containers, the queue, the announcements, and sums over them."""

from __future__ import annotations

from collections.abc import Iterator

from policies.model import Resources, total
from quicksilver.common.messages import ContainerEvent, ContainerState, EventKind, Grant, Targets
from sidecar.node.container import QUEUEABLE, Container, Rules
from sidecar.node.events import Command, ReportEvent, Warn
from sidecar.node.node_policies import NodePolicies
from sidecar.node.phases import KEPT, KILLED, MOVES, STARTS, USING, WANTING, Phase, UnexpectedMoveError
from sidecar.node.queue.waiting_queue import WaitingQueue
from sidecar.node.sharing import Sharing

_TAKING = USING | WANTING
"""Phases in which a container uses room, or is about to."""
_HELD = STARTS | {Phase.WAITING}
_TIMED = WANTING | {Phase.WAITING, Phase.UNANNOUNCED}


class NodeState:
    """The state of one node. Only the parts of `node.Node` write it, everybody may read it."""

    def __init__(self, rules: Rules, policies: NodePolicies, sharing: Sharing | None = None) -> None:
        self.rules = rules
        self.sharing = sharing or Sharing()
        self.queue = WaitingQueue(
            policies.order_key, rules.queue_max_length, rules.queue_max_bytes, policies.bypass_limit, policies.steady
        )
        self.waits_by_size = policies.waits_by_size
        self.containers: dict[str, Container] = {}
        self._timed: dict[str, Container] = {}
        """Those whose phase must end at a time."""
        self._taken_mb = 0
        self._taken_vcores: float = 0
        """Sums over the containers that use room, or are about to; YARN's vcores are whole numbers."""
        self.announced: dict[str, tuple[Grant, float]] = {}
        self.unwanted: dict[str, tuple[Grant, str, float]] = {}
        """Containers that were announced and dropped before their start arrived, with the reason and the time."""
        self.sessions: set[str] = set()
        """Attempts whose containers can be stopped."""
        self.free_physical_mb: int | None = None
        self.drains: dict[str, str] = {}
        """Why nothing is held, keyed by the party that wants the drain."""
        self.drain_until_s: float | None = None
        """When the containers that still run are killed, where an admin drains the node; None without a time limit."""
        self.nm_down = ""
        """Why the NodeManager takes no starts; "" when it does."""
        self.squeezed = ""
        """Why no container is started although room is free; "" when there is enough physical memory."""
        self.targets: Targets | None = None
        """The proxy's targets for this node; None before the first ones, and when they are too old."""
        self.targets_s = 0.0
        """When the targets arrived."""
        self.last_queueable_s: float | None = None
        """When a queueable container last ran."""
        self.over: dict[str, float] = {}
        """Queueable containers whose end was reported before they ran, with the time: they do not start again."""
        self.seq = 0
        """The number of the last event that was reported."""
        self.out: list[Command] = []
        """The commands of the event that is being handled."""
        self._changed: dict[str, None] = {}

    @property
    def draining(self) -> str:
        """Why nothing is held; "" when not draining."""
        return next(iter(self.drains.values()), "")

    def take_changed(self) -> list[str]:
        """Return the containers that changed for the journal since the last call, in order."""
        changed, self._changed = list(self._changed), {}
        return changed

    def mark(self, container_id: str) -> None:
        """Note that a container changed for the journal."""
        self._changed[container_id] = None

    def move(self, container: Container, phase: Phase, now_s: float | None = None) -> None:
        """Move a container to a phase, which begins at `now_s`; None: its time in the phase before counts too.

        Raises UnexpectedMoveError for a move that `phases.MOVES` does not have, if the rules are strict.
        """
        if (container.phase, phase) not in MOVES:
            self._unexpected(container, phase)
        self._count(container, container.phase, -1)
        self._count(container, phase, 1)
        container.phase = phase
        if phase in KEPT:
            self._changed[container.id] = None
        if now_s is not None:
            container.since_s = now_s

    def add(self, container: Container) -> None:
        """Add a container that was not known."""
        self.containers[container.id] = container
        self._count(container, container.phase, 1)

    def remove(self, container: Container) -> None:
        """Forget a container. Raises UnexpectedMoveError as `move` does."""
        if (container.phase, None) not in MOVES:
            self._unexpected(container, None)
        del self.containers[container.id]
        self._count(container, container.phase, -1)

    def _count(self, container: Container, phase: Phase, sign: int) -> None:
        """Add a container in a phase to the sums, or take it off."""
        if phase in _TAKING:
            resources = container.start.resources
            self._taken_mb += sign * resources.memory_mb
            self._taken_vcores += sign * resources.vcores
        if phase in _TIMED:
            if sign > 0:
                self._timed[container.id] = container
            else:
                del self._timed[container.id]

    def _unexpected(self, container: Container, phase: Phase | None) -> None:
        text = f"unexpected move of a container from {container.phase} to {phase or 'its end'}"
        if self.rules.strict:
            raise UnexpectedMoveError(f"{container.id}: {text}")
        self.out.append(Warn(container.id, text))

    # Sums

    def using(self) -> Iterator[Container]:
        """Yield the containers that use the node."""
        return (c for c in self.containers.values() if c.phase in USING)

    def used(self, *kinds: str) -> Resources:
        """Return the allocation of the containers of these kinds, or of all kinds when none is named."""
        return total([c.start.resources for c in self.using() if not kinds or c.kind in kinds])

    def leaving(self) -> Resources:
        """Return the resources of containers that are being killed, or whose end a start waits for."""
        return total([c.start.resources for c in self.using() if c.phase in KILLED or c.kill_reason or c.awaited_by])

    def free(self) -> Resources:
        """Return the unallocated room; guaranteed starts that are under way count as allocated."""
        capacity = self.rules.capacity
        return Resources(capacity.memory_mb - self._taken_mb, capacity.vcores - self._taken_vcores)

    # Held starts

    def held_state(self, container_id: str) -> ContainerState | None:
        """Return WAITING or STARTING while calls about a held start cannot go to the NodeManager; else None."""
        container = self.containers.get(container_id)
        if container is None or container.kind != QUEUEABLE or container.phase not in _HELD:
            return None
        return container.state

    def was_answered(self, container_id: str) -> bool:
        """Return whether a start was, or may have been, answered before: then "already running" is no failure."""
        container = self.containers.get(container_id)
        return container is not None and (container.taken_over or container.kind == QUEUEABLE)

    def held_by(self, attempt_id: str) -> Iterator[tuple[str, Resources]]:
        """Yield id and size of the attempt's held starts, including those being sent to the NodeManager."""
        for container in self.containers.values():
            if container.start.attempt_id == attempt_id and container.kind == QUEUEABLE and container.phase in _HELD:
                yield container.id, container.start.resources

    def needs_session(self, attempt_id: str) -> bool:
        """Return whether queueable containers of the attempt wait or run here."""
        return any(c.kind == QUEUEABLE and c.start.attempt_id == attempt_id for c in self.containers.values())

    # Times and reports

    def deadline_s(self) -> float | None:
        """Return the earliest time at which the phase of a container must end."""
        return min((c.until_s for c in self._timed.values()), default=None) if self._timed else None

    def targets_until_s(self) -> float | None:
        """Return when the targets expire; None when there are none, or they limit nothing."""
        limits = ("max_wait_s", "max_queue", "limit_q_mb", "limit_q_vcores")
        if self.targets is None or all(getattr(self.targets, name) is None for name in limits):
            return None
        return self.targets_s + self.rules.targets_keep_s

    def to_release(self) -> list[str]:
        """Return the containers that are to be killed but that no session could stop."""
        return [c.id for c in self.containers.values() if c.phase in (Phase.STRANDED, Phase.KILLING_AGAIN)]

    def report(self, container: Container, kind: EventKind, reason: str, now_s: float, cause: str = "") -> None:
        """Report an event of a container to the proxy."""
        self.seq += 1
        begun_s = container.sent_s if container.sent_s is not None else now_s
        over = kind in (EventKind.ENDED, EventKind.KILLED) and container.started_s is not None
        share = self.sharing.share(container.id) if over else None
        self.out.append(
            ReportEvent(
                ContainerEvent(
                    seq=self.seq,
                    container_id=container.id,
                    kind=kind,
                    am=container.start.am,
                    at_s=now_s,
                    reason=reason,
                    cause=cause or (share.last_by if share is not None and kind is EventKind.ENDED else ""),
                    waited_s=max(0.0, begun_s - container.arrived_s),
                    ran_s=max(0.0, now_s - (container.started_s or now_s)) if over else None,
                    attained_s=share.measured_s if share is not None else None,
                    times_shrunk=share.times_shrunk if share is not None else 0,
                    saved_s=round(share.saved_s, 3) if share is not None and kind is EventKind.ENDED else 0.0,
                )
            )
        )
