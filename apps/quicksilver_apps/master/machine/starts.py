"""From a granted container to an instance that is ready: the order of starts, reports of launchers, time limits."""

from __future__ import annotations

from typing import Final

from quicksilver_apps.master.machine.application_state import ApplicationState
from quicksilver_apps.master.machine.ends import InstanceEnds
from quicksilver_apps.master.machine.events import (
    CheckPassed,
    Command,
    CommandRuns,
    ContainerGrant,
    LauncherUp,
    ProbeInstance,
    Release,
    StartFailed,
    StartInstance,
    Stop,
)
from quicksilver_apps.master.machine.instances import Instance, InstancePhase, ServiceState

HOLD_S: Final = 300.0
"""A container that waits for other services is given back after this time; its token lives for 600 s."""
START_LIMIT_S: Final = 900.0
"""A container whose launcher does not report in this time has failed; files may take long to be localised."""


class Starts:
    """The part of the machine that starts instances."""

    def __init__(self, app: ApplicationState, ends: InstanceEnds) -> None:
        """Begin with nothing started."""
        self._app, self._ends = app, ends

    def due(self, now_s: float) -> list[Command]:
        """Start the instances that have a container, and whose earlier services are ready."""
        commands: list[Command] = []
        for service in self._app.services.values() if self._app.idle_grants else ():
            if not all(self._app.services[name].ready for name in service.spec.after):
                continue
            for instance in service.instances.values():
                if instance.phase is InstancePhase.WAITING and instance.grant is not None:
                    self._app.idle_grants.discard(instance.grant.id)
                    instance.enter(InstancePhase.STARTING, now_s)
                    instance.started_s = now_s
                    where = f"starts in {instance.grant.id} on {instance.grant.host}"
                    self._app.say(now_s, where, service, instance)
                    commands.append(StartInstance(instance.grant.id, service.spec.name, instance.index, instance.kind))
        return commands

    def report(self, event: StartFailed | LauncherUp | CommandRuns | CheckPassed) -> list[Command]:
        """Handle what NodeManagers, launchers and probes say of an instance; of others it is ignored."""
        pair = self._app.instance(event.id)
        if pair is None:
            return []
        service, instance = pair
        match event:
            case StartFailed():
                return self._failed(service, instance, event)
            case LauncherUp():
                instance.ports, instance.listens_on = dict(event.ports), event.listens_on
            case CommandRuns():
                return self._runs(service, instance, event.now_s)
            case CheckPassed():
                self._ready(service, instance, event.now_s)
        return []

    def _failed(self, service: ServiceState, instance: Instance, event: StartFailed) -> list[Command]:
        """Treat it as a failure of the instance: a resource that is missing fails everywhere."""
        if instance.phase is not InstancePhase.STARTING:
            return []
        del self._app.containers[event.id]
        instance.grant = None
        if instance.leaving or not self._app.running:
            del service.instances[instance.index]
            return [Release(event.id)]
        lines = event.text.strip().splitlines() or ["no reason was given"]
        instance.failing = instance.diagnostics = f"its container was not started: {lines[0][:500]}"
        return [Release(event.id), *self._ends.command_ended(service, instance, instance.failing, event.now_s)]

    def _runs(self, service: ServiceState, instance: Instance, now_s: float) -> list[Command]:
        if instance.phase is not InstancePhase.STARTING:
            return []
        instance.enter(InstancePhase.RUNNING, now_s)
        self._app.say(now_s, "runs", service, instance)
        return self.watch(service, instance, now_s)

    def watch(self, service: ServiceState, instance: Instance, now_s: float) -> list[Command]:
        """Have an instance that runs become ready: at once, by a probe, or by a check of its launcher."""
        check = service.spec.ready
        if not check.checked:
            self._ready(service, instance, now_s)
        number = instance.ports.get(check.port)
        if instance.grant is None or number is None or instance.phase is not InstancePhase.RUNNING:
            return []
        return [ProbeInstance(instance.grant.id, instance.grant.host, number, check.every_s)]

    def _ready(self, service: ServiceState, instance: Instance, now_s: float) -> None:
        if instance.phase is InstancePhase.RUNNING and not instance.failing:
            instance.enter(InstancePhase.READY, now_s)
            self._app.say(now_s, "is ready", service, instance)

    def late(self, now_s: float) -> list[Command]:
        """Return what follows where instances are in a phase for too long."""
        return [
            command
            for service in self._app.services.values()
            for instance in list(service.instances.values())
            if instance.grant is not None
            for command in self._late(service, instance, instance.grant, now_s)
        ]

    def _late(self, service: ServiceState, instance: Instance, grant: ContainerGrant, now_s: float) -> list[Command]:
        age_s = now_s - instance.since_s
        if instance.phase is InstancePhase.WAITING and age_s > HOLD_S:
            self._app.forget_container(instance, now_s)
            self._app.say(now_s, f"its container waited {HOLD_S:.0f} s and is given back", service, instance)
            return [Release(grant.id)]
        limit_s = {InstancePhase.STARTING: START_LIMIT_S, InstancePhase.RUNNING: service.spec.ready.timeout_s}.get(
            instance.phase
        )
        if limit_s is None or age_s <= limit_s or instance.failing or instance.leaving:
            return []
        state = "not started" if instance.phase is InstancePhase.STARTING else "not ready"
        instance.failing = f"it was {state} after {limit_s:g} s"
        self._app.say(now_s, instance.failing, service, instance)
        return [Stop(grant.id)]
