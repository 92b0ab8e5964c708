"""What follows the end of an instance, and how the whole application ends."""

from __future__ import annotations

from typing import Final

from quicksilver_apps.master.machine.application_state import ApplicationState
from quicksilver_apps.master.machine.events import Command, ContainerCompleted, Release, Stop, Unregister
from quicksilver_apps.master.machine.exit_status import SYSTEM, meaning
from quicksilver_apps.master.machine.instances import ELASTIC, Instance, InstancePhase, ServiceState

STOP_LIMIT_S: Final = 10.0
"""At its end the application waits so long for its containers to end."""
BACKOFF_LIMIT_S: Final = 30.0
LINES_CHARS: Final = 2000


class InstanceEnds:
    """The part of the machine that handles ends."""

    def __init__(self, app: ApplicationState) -> None:
        """Begin with nothing ended."""
        self._app = app
        self._lines: dict[str, str] = {}
        self._ends_s = 0.0

    def note_lines(self, container_id: str, text: str) -> None:
        """Store the last lines of a command whose container is about to end."""
        self._lines[container_id] = text[-LINES_CHARS:]

    def container_ended(self, event: ContainerCompleted) -> list[Command]:
        """Handle the end of a container; one that runs no instance is nobody's."""
        lines = self._lines.pop(event.id, "")
        pair = self._app.instance(event.id)
        if pair is None:
            return []
        service, instance = pair
        del self._app.containers[event.id]
        self._app.idle_grants.discard(event.id)
        waiting, failing = instance.phase is InstancePhase.WAITING, instance.failing
        instance.grant = None
        if instance.leaving or not self._app.running:
            self._depart(service, instance, event)
            return []
        if waiting or (event.exit_status in SYSTEM and not failing):
            self._app.say(event.now_s, f"{meaning(event.exit_status)}; another is asked for", service, instance)
            self._app.replace(service, instance, event.now_s)
            return []
        instance.exit_status = event.exit_status
        reason = failing or meaning(event.exit_status)
        instance.diagnostics = "\n".join(part for part in (reason, lines or _useful(event.diagnostics)) if part)
        return self.command_ended(service, instance, reason, event.now_s)

    def _depart(self, service: ServiceState, instance: Instance, event: ContainerCompleted) -> None:
        """Note the end of an instance that was stopped on purpose."""
        if self._app.running:
            self._app.say(event.now_s, "stopped", service, instance)
            del service.instances[instance.index]
        else:
            instance.exit_status = event.exit_status
            instance.enter(InstancePhase.ENDED, event.now_s)

    def command_ended(self, service: ServiceState, instance: Instance, reason: str, now_s: float) -> list[Command]:
        """Decide what follows the end of a command: nothing, a restart, or failure. reason: why it ended."""
        succeeded = instance.exit_status == 0 and not instance.failing
        policy = service.spec.restart
        restarts = policy.policy == "always" or (policy.policy == "on-failure" and not succeeded)
        if restarts and instance.restarts < policy.limit:
            self._restart(service, instance, reason, succeeded, now_s)
            return []
        if succeeded:
            self._app.say(now_s, "ended with exit status 0", service, instance)
            instance.enter(InstancePhase.ENDED, now_s)
            return []
        instance.enter(InstancePhase.LOST, now_s)
        if instance.kind == ELASTIC:
            self._app.say(now_s, f"{reason}; given up after {instance.restarts} restarts", service, instance)
            return []
        service.failed = True
        self._app.say(now_s, f"{reason}; the service failed", service, instance)
        name = f"service {service.spec.name}, instance {instance.index}"
        status = "not started" if instance.exit_status is None else f"exit status {instance.exit_status}"
        return self.end(
            "failed", f"{name} failed ({status}, {instance.restarts} restarts): {instance.diagnostics}", now_s
        )

    def _restart(self, service: ServiceState, instance: Instance, reason: str, succeeded: bool, now_s: float) -> None:
        instance.restarts += 1
        self._app.say(
            now_s, f"{reason}; restart {instance.restarts} of {service.spec.restart.limit}", service, instance
        )
        pause_s = 0.0 if succeeded else min(BACKOFF_LIMIT_S, 2.0 ** (instance.restarts - 1))
        instance.not_before_s = now_s + pause_s
        self._app.replace(service, instance, now_s)

    def end(self, status: str, reason: str, now_s: float) -> list[Command]:
        """Begin the end of the application: give back what was not started, stop all else."""
        app = self._app
        if app.over:
            return []
        app.state, app.final, app.diagnostics, self._ends_s = "ending", status, reason, now_s
        app.say(now_s, f"the application ends as {status}" + (f": {reason}" if reason else ""))
        commands: list[Command] = []
        for service in app.services.values():
            for instance in list(service.instances.values()):
                if instance.grant is None:
                    continue
                if instance.phase is InstancePhase.WAITING:
                    commands.append(Release(instance.grant.id))
                    app.forget_container(instance, now_s)
                else:
                    commands.append(Stop(instance.grant.id))
        return commands

    def result(self, now_s: float) -> list[Command]:
        """End the application when its main services, or without any all services, have ended."""
        states = list(self._app.services.values())
        deciding = [each for each in states if each.spec.main] or states
        ended = any(instance.phase is InstancePhase.ENDED for each in deciding for instance in each.instances.values())
        if not ended or not all(each.over for each in deciding):
            return []
        return self.end("succeeded", "", now_s)

    def last_step(self, now_s: float) -> list[Command]:
        """Return the last command once all containers have ended, or were waited for long enough."""
        waits = bool(self._app.containers) and now_s - self._ends_s < STOP_LIMIT_S
        if self._app.state != "ending" or waits:
            return []
        self._app.state = "ended"
        return [Unregister(self._app.final, self._app.diagnostics)]


def _useful(diagnostics: str) -> str:
    return "" if diagnostics in ("", "N/A") else diagnostics.strip()[-LINES_CHARS:]
