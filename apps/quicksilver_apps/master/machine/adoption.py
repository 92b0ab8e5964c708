"""What a second attempt learns from the containers of the first, whose launchers still run.

A launcher knows its instance, its ports and whether it is ready; a few also have the notes of the master before: how
many elastic instances were wanted, what had ended, which container ran which instance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from quicksilver_apps.master.machine.events import ContainerCompleted, ContainerGrant, LauncherFound, LauncherMissing
from quicksilver_apps.master.machine.instances import CORE, ELASTIC, Instance, InstancePhase, ServiceState


@dataclass(slots=True)
class Result:
    """What became of the kept containers, and of those that ended meanwhile."""

    adopted: list[tuple[ContainerGrant, str, int, Instance]] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    """Containers whose instance is not known; they are stopped."""
    ended: list[tuple[ContainerCompleted, str, int]] = field(default_factory=list)
    texts: list[tuple[str, str, int]] = field(default_factory=list)


class Adoption:
    """Collects answers until all kept containers are settled."""

    def __init__(self) -> None:
        """Begin without kept containers."""
        self._expected: dict[str, ContainerGrant] = {}
        self._answers: dict[str, tuple[ContainerGrant, LauncherFound]] = {}
        self._missing: list[str] = []
        self._ends: dict[str, ContainerCompleted] = {}
        self._notes: Mapping[str, Any] = {}

    @property
    def pending(self) -> bool:
        """Whether answers are still awaited."""
        return bool(self._expected)

    def expect(self, grant: ContainerGrant) -> None:
        """Await an answer about a kept container."""
        self._expected[grant.id] = grant

    def note_end(self, end: ContainerCompleted) -> None:
        """Note the end of a container while answers are awaited."""
        if self.pending:
            self._ends[end.id] = end

    def settle(self, event: LauncherFound | LauncherMissing) -> bool:
        """Note an answer; return whether it was the last one that was awaited."""
        grant = self._expected.pop(event.id, None)
        if grant is None:
            return False
        if isinstance(event, LauncherFound):
            self._answers[event.id] = (grant, event)
            if event.notes.get("seq", 0) > self._notes.get("seq", 0):
                self._notes = event.notes
        else:
            self._missing.append(event.id)
        return not self.pending

    def result(self, services: Mapping[str, ServiceState]) -> Result:
        """Fill the services with the adopted instances and what the notes say; return what is left to do."""
        result = Result(strangers=list(self._missing))
        ran = self._recall(services)
        for grant, event in self._answers.values():
            instance = _place(services, event)
            if instance is None or event.id in self._ends:
                result.strangers.append(grant.id)
                continue
            instance.grant, instance.ports, instance.listens_on = grant, dict(event.ports), event.listens_on
            instance.enter(InstancePhase(event.phase), event.now_s)
            result.adopted.append((grant, event.service, event.index, instance))
            result.texts.append((f"goes on in {grant.id} on {grant.host}", event.service, event.index))
        for service in services.values():
            _count_core(service)
        for container_id, (name, index) in ran.items():
            end = self._ends.get(container_id)
            free = services[name].instances.get(index)
            if end is not None and free is not None and free.lacks:
                free.phase = InstancePhase.RUNNING
                result.ended.append((end, name, index))
        self._answers, self._ends, self._missing = {}, {}, []
        return result

    def _recall(self, services: Mapping[str, ServiceState]) -> dict[str, tuple[str, int]]:
        """Put what the notes say into the services; return which container ran which instance.

        Containers that are reported late come too late for it: this attempt has begun instances of its own.
        """
        ran: dict[str, tuple[str, int]] = {}
        if any(instance.grant is not None for each in services.values() for instance in each.instances.values()):
            return ran
        for name, note in self._notes.get("services", {}).items():
            service = services.get(name)
            if service is None:
                continue
            service.elastic = note["elastic"]
            service.instances = {}
            for index, kind, phase, exit_status, restarts, container_id in note["instances"]:
                instance = Instance(index, kind, restarts=restarts, exit_status=exit_status)
                if phase in (InstancePhase.ENDED, InstancePhase.LOST):
                    instance.phase = InstancePhase(phase)
                service.instances[index] = instance
                if container_id:
                    ran[container_id] = (name, index)
        return ran


def notes(services: Mapping[str, ServiceState], seq: int) -> dict[str, Any]:
    """Return what the next attempt has to know of this one, as JSON data."""
    return {
        "seq": seq,
        "services": {
            name: {
                "elastic": service.elastic,
                "instances": [
                    [
                        each.index,
                        each.kind,
                        each.phase.value,
                        each.exit_status,
                        each.restarts,
                        each.grant.id if each.grant is not None and each.phase is not InstancePhase.WAITING else "",
                    ]
                    for each in service.instances.values()
                    if not each.leaving
                ],
            }
            for name, service in services.items()
        },
    }


def _place(services: Mapping[str, ServiceState], event: LauncherFound) -> Instance | None:
    """Return the free instance of a launcher; None when there is none of its index that is free."""
    service = services.get(event.service)
    if service is None:
        return None
    instance = service.instances.get(event.index)
    if instance is None:
        instance = service.instances[event.index] = Instance(event.index, ELASTIC)
        service.elastic += 1
    return instance if instance.lacks else None


def _count_core(service: ServiceState) -> None:
    """Have exactly the described number of instances be core: those that run before those that do not."""
    order = sorted(
        service.instances.values(),
        key=lambda each: (each.phase is InstancePhase.LOST, each.lacks, each.kind != CORE, each.index),
    )
    for place, instance in enumerate(order):
        instance.kind = CORE if place < service.spec.core else ELASTIC
