"""How many containers are asked for, and which go back: core instances first, elastic ones as there is room."""

from __future__ import annotations

from typing import Final

from quicksilver_apps.master.machine.application_state import ApplicationState
from quicksilver_apps.master.machine.events import (
    Allocated,
    AskContainers,
    Command,
    ContainerGrant,
    Release,
    ScaleTo,
    Stop,
)
from quicksilver_apps.master.machine.instances import CORE, ELASTIC, OVER, Instance, InstancePhase, ServiceState

CORE_FIRST_S: Final = 10.0
"""After this time with some containers and without all core ones, elastic ones are not asked for."""
CORE_RECLAIM_S: Final = 20.0
"""After this time, the application stops elastic instances of its own, one at a time."""


class ServiceDemand:
    """The part of the machine that asks for containers and gives them back."""

    def __init__(self, app: ApplicationState) -> None:
        """Begin with nothing asked for."""
        self._app = app
        self._core_lacks_s: float | None = None
        self._reclaimed_s = 0.0

    def allocated(self, event: Allocated) -> list[Command]:
        """Give granted containers to instances; what nobody wants any more goes back."""
        return [command for grant in event.grants for command in self._take(grant, event.now_s)]

    def _take(self, grant: ContainerGrant, now_s: float) -> list[Command]:
        service = self._app.of_priority(grant.priority)
        if service is not None:
            service.pending = max(0, service.pending - 1)
        if grant.id in self._app.containers:
            return []
        waiting = service.lacking(now_s) if service is not None and self._app.running else []
        if service is None or not waiting:
            return [Release(grant.id)]
        instance = waiting[0]
        instance.grant, instance.since_s = grant, now_s
        self._app.containers[grant.id] = (service.spec.name, instance.index)
        self._app.idle_grants.add(grant.id)
        return []

    def forgotten(self, now_s: float) -> list[Command]:
        """Ask for all again. What was granted and not started goes back: a ResourceManager that restarted voids it."""
        commands: list[Command] = []
        for service in self._app.services.values():
            service.pending = 0
            for instance in service.instances.values():
                if instance.phase is InstancePhase.WAITING and instance.grant is not None:
                    commands.append(Release(instance.grant.id))
                    self._app.forget_container(instance, now_s)
        return commands

    def scale(self, event: ScaleTo) -> list[Command]:
        """Have another number of elastic instances; those that ended or were given up make room for new ones."""
        service = self._app.services[event.service]
        self._app.say(event.now_s, f"{event.count} elastic instances are wanted", service)
        for gone in [each for each in service.kind(ELASTIC) if each.phase in OVER]:
            del service.instances[gone.index]
        surplus = service.surplus(event.count)
        commands = [command for each in surplus for command in self._dismiss(service, each, event.now_s)]
        service.grow(event.count)
        return commands

    def _dismiss(self, service: ServiceState, instance: Instance, now_s: float) -> list[Command]:
        """Let an instance go for good; one that runs is stopped first."""
        grant = instance.grant
        if grant is not None and instance.phase is not InstancePhase.WAITING:
            instance.leaving = True
            return [Stop(grant.id)]
        self._app.forget_container(instance, now_s)
        del service.instances[instance.index]
        return [] if grant is None else [Release(grant.id)]

    def asks(self, now_s: float) -> list[Command]:
        """Return the asks whose numbers changed."""
        core_only = self._core_lacks_s is not None and now_s - self._core_lacks_s >= CORE_FIRST_S
        commands: list[Command] = []
        for service in self._app.services.values():
            lacking = service.lacking(now_s) if self._app.running else []
            count = sum(1 for each in lacking if each.kind == CORE or not core_only)
            if count != service.pending:
                service.pending = count
                commands.append(AskContainers(service.spec.name, count))
        return commands

    def reclaim(self, now_s: float) -> list[Command]:
        """Give elastic containers back while core instances lack theirs for long: held ones, then running ones."""
        services = self._app.services.values()
        lacks_core = any(each.kind == CORE for service in services for each in service.lacking(now_s))
        if not lacks_core:
            self._core_lacks_s = None
            return []
        if self._core_lacks_s is None and not self._holds_any():
            return []  # it waits to be admitted: all that it wants stays asked for
        if self._core_lacks_s is None:
            self._core_lacks_s = now_s
        waited_s = now_s - self._core_lacks_s
        if waited_s < CORE_FIRST_S:
            return []
        commands: list[Command] = []
        for each in [each for service in services for each in service.kind(ELASTIC)]:
            if each.phase is InstancePhase.WAITING and each.grant is not None:
                commands.append(Release(each.grant.id))
                self._app.forget_container(each, now_s)
        if commands or waited_s < CORE_RECLAIM_S or now_s - self._reclaimed_s < CORE_FIRST_S:
            return commands
        return self._reclaim_newest(now_s)

    def _holds_any(self) -> bool:
        services = self._app.services.values()
        return any(each.grant is not None for service in services for each in service.instances.values())

    def _reclaim_newest(self, now_s: float) -> list[Command]:
        """Stop the elastic instance that started last; those of fixed nodes stay, as a core one may need others."""
        able = [
            ((each.started_s, each.index), service, each, each.grant)
            for service in self._app.services.values()
            if not service.spec.constraints.nodes
            for each in service.kind(ELASTIC)
            if each.grant is not None
            and each.phase is not InstancePhase.WAITING
            and not each.leaving
            and not each.failing
        ]
        if not able:
            return []
        _, service, newest, grant = max(able, key=lambda candidate: candidate[0])
        self._reclaimed_s = now_s
        self._app.say(now_s, "is stopped, because a core instance lacks room", service, newest)
        return [Stop(grant.id)]
