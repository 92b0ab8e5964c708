"""The instances of one service, as the machine knows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from quicksilver_apps.master.machine.events import ContainerGrant
from quicksilver_apps.master.machine.spec import ServiceSpec

CORE: Final = "core"
ELASTIC: Final = "elastic"


class InstancePhase(StrEnum):
    """Where an instance is in its life."""

    WAITING = "waiting"
    """For a container, or with one for the services that it starts after."""
    STARTING = "starting"
    """Its container is being started; the command does not run yet."""
    RUNNING = "running"
    READY = "ready"
    ENDED = "ended"
    """By itself, for good."""
    LOST = "lost"
    """Failed too often and given up."""


ACTIVE: Final = frozenset({InstancePhase.STARTING, InstancePhase.RUNNING, InstancePhase.READY})
OVER: Final = frozenset({InstancePhase.ENDED, InstancePhase.LOST})


@dataclass(slots=True)
class Instance:
    """One instance; its index stays, whatever its container is."""

    index: int
    kind: str
    phase: InstancePhase = InstancePhase.WAITING
    grant: ContainerGrant | None = None
    exit_status: int | None = None
    restarts: int = 0
    ports: Mapping[str, int] = field(default_factory=dict)
    listens_on: int = 0
    """Port of its launcher."""
    since_s: float = 0.0
    """When the phase began; a container that waits: when it was granted."""
    started_s: float = 0.0
    """When its container was started; 0: before this attempt."""
    not_before_s: float = 0.0
    """No container is asked for earlier."""
    leaving: bool = False
    """Whether it is being stopped because fewer instances are wanted."""
    failing: str = ""
    """Why it is being stopped as failed; "": it is not."""
    diagnostics: str = ""

    def enter(self, phase: InstancePhase, now_s: float) -> None:
        """Go to another phase."""
        self.phase, self.since_s = phase, now_s

    def clear(self, now_s: float) -> None:
        """Wait for a new container."""
        self.enter(InstancePhase.WAITING, now_s)
        self.grant, self.ports, self.listens_on, self.failing = None, {}, 0, ""

    @property
    def lacks(self) -> bool:
        """Whether it has no container and wants one."""
        return self.phase is InstancePhase.WAITING and self.grant is None


@dataclass(slots=True)
class ServiceState:
    """A service and its instances by index."""

    spec: ServiceSpec
    elastic: int
    """Elastic instances that are wanted now."""
    instances: dict[int, Instance]
    pending: int = 0
    """Containers that the ResourceManager is believed to look for."""
    failed: bool = False

    @classmethod
    def of(cls, spec: ServiceSpec) -> ServiceState:
        """Return the state before anything is granted."""
        state = cls(spec, 0, {})
        for index in range(spec.core):
            state.instances[index] = Instance(index, CORE)
        state.grow(spec.elastic)
        return state

    def grow(self, elastic: int) -> None:
        """Add elastic instances, at the lowest free indices, until there are `elastic` that stay."""
        self.elastic = elastic
        index = 0
        for _ in range(elastic - sum(1 for each in self.kind(ELASTIC) if not each.leaving)):
            while index in self.instances:
                index += 1
            self.instances[index] = Instance(index, ELASTIC)

    def kind(self, kind: str) -> Iterator[Instance]:
        """Return the instances of a kind, by index."""
        return (self.instances[index] for index in sorted(self.instances) if self.instances[index].kind == kind)

    def surplus(self, elastic: int) -> list[Instance]:
        """Return the elastic instances that go when only `elastic` are wanted: those without work, then the newest."""
        staying = [each for each in self.kind(ELASTIC) if not each.leaving]
        ranked = sorted(staying, key=_worth, reverse=True)
        return ranked[: max(0, len(staying) - elastic)]

    def lacking(self, now_s: float) -> list[Instance]:
        """Return the instances that want a container now, core first."""
        lacking = [each for each in self.instances.values() if each.lacks and each.not_before_s <= now_s]
        return sorted(lacking, key=lambda each: (each.kind != CORE, each.index))

    @property
    def ready(self) -> bool:
        """Whether all core instances are ready, or have ended with success."""
        return all(
            each.phase is InstancePhase.READY or (each.phase is InstancePhase.ENDED and each.exit_status == 0)
            for each in self.kind(CORE)
        )

    @property
    def over(self) -> bool:
        """Whether nothing runs or has to run any more."""
        if any(each.phase in ACTIVE for each in self.instances.values()):
            return False
        must = list(self.kind(CORE)) or list(self.instances.values())
        return all(each.phase in OVER for each in must)

    @property
    def state(self) -> str:
        """The state in one word, as the API has it."""
        if self.failed:
            return "failed"
        if self.over and self.instances:
            return "ended"
        if self.ready and (
            self.spec.core or any(each.phase is InstancePhase.READY for each in self.instances.values())
        ):
            return "ready"
        return "starting" if any(each.phase in ACTIVE for each in self.instances.values()) else "waiting"

    def heir(self) -> Instance | None:
        """Return the elastic instance that becomes core when a core instance is gone: the most advanced one."""
        rank = {InstancePhase.READY: 0, InstancePhase.RUNNING: 1, InstancePhase.STARTING: 2}
        able = [each for each in self.kind(ELASTIC) if each.phase in rank and not each.leaving and not each.failing]
        return min(able, key=lambda each: (rank[each.phase], each.index), default=None)


def _worth(instance: Instance) -> tuple[int, float, int]:
    """Rank what goes first: ended, without a container, with one that is not started, the newest that runs."""
    if instance.phase in OVER:
        return 3, 0.0, instance.index
    if instance.phase is InstancePhase.WAITING:
        return (2 if instance.grant is None else 1), 0.0, instance.index
    return 0, instance.started_s, instance.index
