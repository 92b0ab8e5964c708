"""The containers that an application attempt holds, as the proxy delivered them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import AppView, Ask, Kind, Resources
from policies.value_types import changer
from rm_proxy.attempt import frameworks
from rm_proxy.domain import ids
from rm_proxy.estimates.estimator import EstimateSource


class Stage(StrEnum):
    """Progress of a container's start, as its sidecar reported it."""

    DELIVERED = "delivered"
    """The application master has it; its start has not reached the node."""
    HELD = "held"
    """The sidecar holds its start."""
    STARTED = "started"
    """It runs, or it ran until it was killed."""


STAGES: Final[dict[tuple[Stage | None, Stage | None], str]] = {
    (None, Stage.DELIVERED): "delivered to the application master",
    (None, Stage.HELD): "restored, or adopted from a report",
    (None, Stage.STARTED): "restored, or adopted from a report",
    (Stage.DELIVERED, Stage.HELD): "its sidecar holds the start",
    (Stage.DELIVERED, Stage.STARTED): "started at once",
    (Stage.HELD, Stage.STARTED): "its held start was released",
    (Stage.DELIVERED, None): "its completion is made or delivered",
    (Stage.HELD, None): "shed, stopped or lost: its completion is made",
    (Stage.STARTED, None): "its completion is delivered",
}
"""From, to and the reason; None: not held by the attempt."""


_app_with: Final = changer(AppView, "live_g", "live_q", "used_g", "used_q", "progress")


@dataclass(slots=True)
class HeldContainer:
    """One container between its delivery and its completion."""

    id: str
    proto: y.ContainerIdProto
    node_id: str
    kind: Kind
    priority: int
    resources: Resources
    expected_s: float
    granted_s: float
    retries: int = 0
    follows: str = ""
    """The container of its task that was shed or killed before; "" for none."""
    spread_s: float = 0.0
    """Standard deviation of similar tasks' durations; 0 when not known."""
    source: EstimateSource = EstimateSource.DEFAULT
    """Source of the estimate."""
    stage: Stage = Stage.DELIVERED
    started_s: float | None = None
    """When its sidecar reported that it started; None while it has not, and for one that was killed before."""
    worked_s: float | None = None
    """How long it ran; None while it runs, or is not known."""
    is_over: bool = False
    """Its sidecar reported its end: it uses nothing any more."""
    held_s: float | None = None
    """Since when its sidecar holds its start, or held it."""
    released: bool = False
    """The application master gave it back."""
    killed: str | None = None
    """The sidecar's reason for stopping it."""
    given_up: bool = False
    """The proxy releases it, because its sidecar killed it and has no session to stop it."""
    private_id: int | None = None
    """The request id under which the proxy asked for it; None when the application itself did."""
    either: bool = False
    """Whether the application takes a guaranteed container in its place: it asked for one, or does not enforce
    OPPORTUNISTIC."""
    version: int = 0
    """How often the ResourceManager updated it."""
    promoted_s: float | None = None
    """When the ResourceManager made it guaranteed."""
    ask: Ask | None = None
    """Placement of a queueable one; None if it was not placed."""
    wait_s: float | None = None
    """Estimated wait of the queue behind which it was placed, at that time."""
    ahead: bool = False
    """Whether it was placed to wait for a core that comes free in a moment."""
    early: bool = False
    """Whether the ResourceManager has not confirmed it yet: it may not start before."""
    silent_s: float | None = None
    """Since when the ResourceManager owes news of it: it lists its node no more, or it is over there."""

    def hold(self, now_s: float) -> None:
        """Note that its sidecar holds its start; a repeated report changes no stage."""
        self.held_s = now_s
        if self.stage is Stage.DELIVERED:
            self.stage = Stage.HELD

    def start(self, started_s: float | None) -> None:
        """Note that it started; None: the time is not known."""
        self.stage = Stage.STARTED
        if started_s is not None:
            self.started_s = started_s

    @property
    def is_started(self) -> bool:
        """Whether it runs, or ran."""
        return self.stage is Stage.STARTED

    @property
    def may_be_held(self) -> bool:
        """Whether its sidecar may hold its start, or may still get it."""
        return self.kind is Kind.QUEUEABLE and not self.is_started and not self.released

    @property
    def promotable(self) -> bool:
        """Whether it may become guaranteed without the application: it runs, and may be of either type."""
        quiet = self.is_started and not self.released and self.killed is None
        return self.kind is Kind.QUEUEABLE and quiet and self.may_be_guaranteed

    @property
    def may_be_guaranteed(self) -> bool:
        """Whether the proxy asked for it, and the application takes a guaranteed one in its place."""
        return self.private_id is not None and (self.either or not ids.asked_opportunistic(self.private_id))


@dataclass(slots=True)
class AtPriority:
    """How many containers of one request priority are held, and the size of the last of them."""

    size: Resources
    guaranteed: int = 0
    queueable: int = 0


class HeldContainers:
    """All of them, with their sums."""

    def __init__(self) -> None:
        self.by_id: dict[str, HeldContainer] = {}
        """Only to be read elsewhere."""
        self.used_g = Resources()
        self.used_q = Resources()
        self.over_g = Resources()
        self.over_q = Resources()
        """The parts of both that containers have whose ends were reported, and not delivered."""
        self.count_q = 0
        self.by_priority: dict[int, AtPriority] = {}
        self.version = 0
        """Grows with each container that comes, goes or changes its kind."""
        self.ended_s = 0.0
        """Service of the containers that ended, in seconds of run time."""
        self.changed: dict[str, None] = {}
        """Containers that ended or changed since their attempt was last journaled."""

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[HeldContainer]:
        return iter(self.by_id.values())

    def __contains__(self, container_id: str) -> bool:
        return container_id in self.by_id

    def get(self, container_id: str) -> HeldContainer | None:
        """Return a container, None when it is not (or no longer) held."""
        return self.by_id.get(container_id)

    def add(self, live: HeldContainer) -> None:
        """Count a delivered container; one that is held already is counted once."""
        if live.id in self.by_id:
            ended_s = self.ended_s
            self.pop(live.id)
            self.ended_s = ended_s
        self.by_id[live.id] = live
        self._count(live, 1)
        self.changed[live.id] = None
        if live.kind is Kind.QUEUEABLE:
            self.used_q += live.resources
            self.count_q += 1
        else:
            self.used_g += live.resources
        if live.is_over:
            self._count_over(live)

    def pop(self, container_id: str) -> HeldContainer | None:
        """Forget a container that ended; one whose run time is not known counts as it was expected to run."""
        live = self.by_id.pop(container_id, None)
        if live is None:
            return None
        if live.is_started:
            self.ended_s += live.expected_s if live.worked_s is None else live.worked_s
        self.touch(container_id)
        self._count(live, -1)
        if live.kind is Kind.QUEUEABLE:
            self.used_q -= live.resources
            if live.is_over:
                self.over_q -= live.resources
            self.count_q -= 1
        else:
            self.used_g -= live.resources
            if live.is_over:
                self.over_g -= live.resources
        return live

    def _count(self, live: HeldContainer, sign: int) -> None:
        self.version += 1
        at = self.by_priority.get(live.priority)
        if at is None:
            at = self.by_priority[live.priority] = AtPriority(live.resources)
        if live.kind is Kind.QUEUEABLE:
            at.queueable += sign
        else:
            at.guaranteed += sign
        if not (at.guaranteed or at.queueable):
            del self.by_priority[live.priority]

    def end(self, live: HeldContainer) -> None:
        """Note that the sidecar reported the end of a container; it is held until its completion is delivered."""
        if not live.is_over:
            live.is_over = True
            self._count_over(live)

    def _count_over(self, live: HeldContainer) -> None:
        if live.kind is Kind.QUEUEABLE:
            self.over_q += live.resources
        else:
            self.over_g += live.resources

    def promote(self, container_id: str, now_s: float | None) -> None:
        """Count a queueable container as guaranteed from now on; None: its application master had it promoted."""
        ended_s, live = self.ended_s, self.pop(container_id)
        if live is not None:
            self.ended_s = ended_s
            live.kind, live.promoted_s = Kind.GUARANTEED, now_s
            self.add(live)

    def touch(self, container_id: str) -> None:
        """Note that a container changed."""
        self.changed[container_id] = None

    def clear(self) -> None:
        """Forget all."""
        self.changed.update(dict.fromkeys(self.by_id))
        self.by_id.clear()
        self.by_priority.clear()
        self.version += 1
        self.used_g = self.used_q = self.over_g = self.over_q = Resources()
        self.count_q = 0

    def attained_s(self, now_s: float) -> float:
        """Return the service of all containers, those that ended included, in seconds of run time."""
        total_s = self.ended_s
        for live in self.by_id.values():
            if live.worked_s is not None:
                total_s += live.worked_s
            elif live.started_s is not None:
                total_s += max(0.0, now_s - live.started_s)
        return total_s

    def late_nodes(self, now_s: float, ratio: float, expected_s: Callable[[int], float]) -> frozenset[str]:
        """Return the nodes of containers that run `ratio` times as long as those of their priority are expected to."""
        means: dict[int, float] = {}
        late = set()
        for live in self.by_id.values():
            if live.started_s is not None and live.worked_s is None:
                if live.priority not in means:
                    means[live.priority] = expected_s(live.priority)
                if now_s - live.started_s > ratio * means[live.priority]:
                    late.add(live.node_id)
        return frozenset(late)

    def precedences(self, app_type: str) -> frozenset[int]:
        """Return the precedences (`rm_proxy.attempt.frameworks`) of containers that occupy a node: guaranteed or
        started.
        """
        return frozenset(
            frameworks.precedence(app_type, c.priority)
            for c in self.by_id.values()
            if c.kind is Kind.GUARANTEED or c.is_started
        )

    def behind_own(self, app_type: str, waited_s: float, now_s: float) -> list[HeldContainer]:
        """Return held containers that wait, for longer than `waited_s`, on a node where containers wait for them.

        Those are containers of the same application with a higher precedence number that occupy the node.
        """
        containers, started = self.by_id.values(), Stage.STARTED
        waiting = [
            c for c in containers if c.held_s is not None and c.stage is not started and now_s - c.held_s > waited_s
        ]
        if not waiting:
            return []
        worst: dict[str, int] = {}
        for c in containers:
            if c.kind is Kind.GUARANTEED or c.stage is started:
                precedence = frameworks.precedence(app_type, c.priority)
                worst[c.node_id] = max(worst.get(c.node_id, precedence), precedence)
        return [c for c in waiting if worst.get(c.node_id, -1) > frameworks.precedence(app_type, c.priority)]

    def count_in(self, app: AppView, wanted_q: int, asked_size: Resources, progress: float = 0.0) -> AppView:
        """Return the application's view with what it holds, and `wanted_q` queueables that it wants, counted.

        asked_size: size of those of them that are asked for at nodes; progress: of the job.
        """
        live_g, live_q = len(self.by_id) - self.count_q, self.count_q + wanted_q
        return _app_with(app, live_g, live_q, self.used_g, self.used_q + asked_size, progress)
