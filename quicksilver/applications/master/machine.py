"""The application master as a machine: events in, commands out; it asks, starts, restarts, scales and ends.

Core instances must all be there, elastic ones help (Zoe, §2.1): the ResourceManager is asked for both at once; while a
core instance lacks a container for long, nothing elastic is asked for, so that an application cannot be in its own way.
"""

from __future__ import annotations

from typing import Final

from quicksilver.applications.master import adoption
from quicksilver.applications.master.event_log import EventLog
from quicksilver.applications.master.events import (
    Allocated,
    Ask,
    CheckPassed,
    Command,
    CommandRuns,
    Completed,
    Event,
    FindLauncher,
    Grant,
    LastLines,
    LauncherFound,
    LauncherMissing,
    LauncherUp,
    Probe,
    Registered,
    Release,
    Resynced,
    ScaleTo,
    Start,
    StartFailed,
    Stop,
    StopAll,
    Tick,
    Unregister,
)
from quicksilver.applications.master.exit_status import SYSTEM, meaning
from quicksilver.applications.master.instances import CORE, ELASTIC, OVER, Instance, Phase, ServiceState
from quicksilver.applications.master.spec import Application

HOLD_S: Final = 300.0
"""A container that waits for other services is given back after this time; its token lives for 600 s."""
CORE_FIRST_S: Final = 3.0
"""After this time without all core containers, elastic ones are not asked for."""
CORE_RECLAIM_S: Final = 20.0
"""After this time, the application stops elastic instances of its own, one at a time."""
START_LIMIT_S: Final = 900.0
"""A container whose launcher does not report in this time has failed; files may take long to be localised."""
STOP_LIMIT_S: Final = 10.0
"""At its end the application waits so long for its containers to end."""
LINES_CHARS: Final = 2000


class Machine:
    """One attempt of the master of one application; `handle` is the only way in."""

    def __init__(self, application: Application, now_s: float) -> None:
        """Begin before the registration."""
        self.application = application
        self.started_s = now_s
        self.state = "starting"
        self.final = ""
        self.diagnostics = ""
        self.services = {spec.name: ServiceState.of(spec) for spec in application.services}
        self.containers: dict[str, tuple[str, int]] = {}
        self.log = EventLog()
        self.adoption = adoption.Adoption()
        self._lines: dict[str, str] = {}
        self._retiring: set[str] = set()
        self._core_lacks_s: float | None = None
        self._reclaimed_s = 0.0
        self._ends_s = 0.0
        self._unregistered = False

    def handle(self, event: Event) -> list[Command]:
        """Return the commands that follow from an event."""
        match event:
            case Registered():
                commands = self._register(event)
            case Resynced():
                commands = self._resync(event.now_s)
            case Allocated():
                commands = [command for grant in event.grants for command in self._allocate(grant, event.now_s)]
            case Completed():
                commands = self._complete(event)
            case LauncherFound() | LauncherMissing():
                commands = self._adopt(event)
            case ScaleTo():
                commands = self._scale(event)
            case StopAll():
                commands = self._end(event.status, event.reason, event.now_s)
            case Tick():
                commands = self._tick(event.now_s)
            case _:
                commands = self._report(event)
        return commands + self._settle(event.now_s)

    def instance(self, container_id: str) -> tuple[ServiceState, Instance] | None:
        """Return the instance that a container runs, or None."""
        place = self.containers.get(container_id)
        if place is None:
            return None
        service = self.services[place[0]]
        return service, service.instances[place[1]]

    # -- what the ResourceManager says

    def _register(self, event: Registered) -> list[Command]:
        self.state = "running" if self.state == "starting" else self.state
        self._say(event.now_s, "the application master registered")
        known = {spec.priority for spec in self.application.services}
        commands: list[Command] = []
        for grant in event.kept:
            if grant.priority in known:
                self.adoption.expect(grant)
                commands.append(FindLauncher(grant.id, grant.host))
            else:
                self._retiring.add(grant.id)
                commands.append(Stop(grant.id))
        return commands

    def _resync(self, now_s: float) -> list[Command]:
        """Ask for all again; what was granted and not started is void (its token is of the ResourceManager before)."""
        self._say(now_s, "the ResourceManager forgot the application master, which registered again")
        for service in self.services.values():
            service.asked = 0
            for instance in service.instances.values():
                if instance.phase is Phase.WAITING and instance.grant is not None:
                    self._forget(instance, now_s)
        return []

    def _allocate(self, grant: Grant, now_s: float) -> list[Command]:
        service = next((one for one in self.services.values() if one.spec.priority == grant.priority), None)
        if service is not None:
            service.asked = max(0, service.asked - 1)
        waiting = service.lacking(now_s) if service is not None and self.state == "running" else []
        if service is None or not waiting or grant.id in self.containers:
            return [Release(grant.id)]
        instance = waiting[0]
        instance.grant, instance.since_s = grant, now_s
        self.containers[grant.id] = (service.spec.name, instance.index)
        return []

    def _complete(self, event: Completed) -> list[Command]:
        self._retiring.discard(event.id)
        lines = self._lines.pop(event.id, "")
        self.adoption.note_end(event)
        found = self.instance(event.id)
        if found is None:
            return []
        service, instance = found
        del self.containers[event.id]
        held, failing = instance.phase is Phase.WAITING, instance.failing
        instance.grant = None
        if instance.leaving or self.state != "running":
            self._depart(service, instance, event)
            return []
        if held or (event.exit_status in SYSTEM and not failing):
            self._say(event.now_s, f"{meaning(event.exit_status)}; another is asked for", service, instance)
            self._replace(service, instance, event.now_s)
            return []
        instance.exit_status = event.exit_status
        reason = failing or meaning(event.exit_status)
        instance.diagnostics = "\n".join(part for part in (reason, lines or _useful(event.diagnostics)) if part)
        return self._ended(service, instance, reason, event.now_s)

    # -- how instances end

    def _depart(self, service: ServiceState, instance: Instance, event: Completed) -> None:
        """Note the end of an instance that was stopped on purpose."""
        if self.state == "running":
            self._say(event.now_s, "stopped", service, instance)
            del service.instances[instance.index]
        else:
            instance.exit_status = event.exit_status
            instance.enter(Phase.ENDED, event.now_s)

    def _ended(self, service: ServiceState, instance: Instance, reason: str, now_s: float) -> list[Command]:
        """Decide what follows the end of a command: nothing, a restart, or failure."""
        succeeded = instance.exit_status == 0 and not instance.failing
        policy = service.spec.restart
        if succeeded and policy.policy != "always":
            self._say(now_s, "ended with exit status 0", service, instance)
            instance.enter(Phase.ENDED, now_s)
            return []
        if policy.policy != "never" and instance.restarts < policy.limit:
            instance.restarts += 1
            self._say(now_s, f"{reason}; restart {instance.restarts} of {policy.limit}", service, instance)
            instance.not_before_s = now_s + min(30.0, 2.0 ** (instance.restarts - 1)) if not succeeded else now_s
            self._replace(service, instance, now_s)
            return []
        if succeeded:
            self._say(now_s, "ended with exit status 0; no restart is left", service, instance)
            instance.enter(Phase.ENDED, now_s)
            return []
        instance.enter(Phase.LOST, now_s)
        if instance.kind == ELASTIC:
            self._say(now_s, f"{reason}; given up after {instance.restarts} restarts", service, instance)
            return []
        service.failed = True
        self._say(now_s, f"{reason}; the service failed", service, instance)
        what = f"service {service.spec.name}, instance {instance.index}"
        status = f"exit status {instance.exit_status}, {instance.restarts} restarts"
        return self._end("failed", f"{what} failed ({status}): {instance.diagnostics}", now_s)

    def _replace(self, service: ServiceState, instance: Instance, now_s: float) -> None:
        """Have an instance wait for a new container; an elastic one takes the place of a core one."""
        instance.clear(now_s)
        heir = service.heir() if instance.kind == CORE else None
        if heir is not None:
            instance.kind, heir.kind = ELASTIC, CORE
            self._say(now_s, f"counts as core in place of instance {instance.index}", service, heir)

    def _forget(self, instance: Instance, now_s: float) -> None:
        if instance.grant is not None:
            self.containers.pop(instance.grant.id, None)
        instance.clear(now_s)

    # -- what launchers and NodeManagers say

    def _report(self, event: StartFailed | LauncherUp | CommandRuns | CheckPassed | LastLines) -> list[Command]:
        found = self.instance(event.id)
        if found is None:
            return []
        service, instance = found
        match event:
            case StartFailed():
                return self._start_failed(service, instance, event)
            case LauncherUp():
                instance.ports, instance.listens_on = dict(event.ports), event.listens_on
            case CommandRuns():
                return self._runs(service, instance, event.now_s)
            case CheckPassed():
                self._ready(service, instance, event.now_s)
            case LastLines():
                self._lines[event.id] = event.text[-LINES_CHARS:]
        return []

    def _start_failed(self, service: ServiceState, instance: Instance, event: StartFailed) -> list[Command]:
        """Treat it as a failure of the instance: a resource that is missing fails everywhere."""
        if instance.phase is not Phase.STARTING:
            return []
        del self.containers[event.id]
        self._retiring.add(event.id)
        instance.grant = None
        if instance.leaving:
            del service.instances[instance.index]
            return [Release(event.id)]
        instance.failing = instance.diagnostics = f"its container was not started: {event.text.splitlines()[0][:500]}"
        return [Release(event.id), *self._ended(service, instance, instance.failing, event.now_s)]

    def _runs(self, service: ServiceState, instance: Instance, now_s: float) -> list[Command]:
        if instance.phase is not Phase.STARTING:
            return []
        instance.enter(Phase.RUNNING, now_s)
        self._say(now_s, "runs", service, instance)
        if not service.spec.ready.checked:
            self._ready(service, instance, now_s)
            return []
        return self._probe(service, instance)

    def _probe(self, service: ServiceState, instance: Instance) -> list[Command]:
        check = service.spec.ready
        number = instance.ports.get(check.port)
        if instance.grant is None or number is None:
            return []
        return [Probe(instance.grant.id, instance.grant.host, number, check.every_s)]

    def _ready(self, service: ServiceState, instance: Instance, now_s: float) -> None:
        if instance.phase is Phase.RUNNING:
            instance.enter(Phase.READY, now_s)
            self._say(now_s, "is ready", service, instance)

    def _adopt(self, event: LauncherFound | LauncherMissing) -> list[Command]:
        """Handle what is known of a kept container; the last one decides about all that are not there any more."""
        if not self.adoption.settle(event):
            return []
        result = self.adoption.result(self.services)
        for text, name, index in result.texts:
            self.log.add(event.now_s, text, name, index)
        commands: list[Command] = []
        for grant, name, index, instance in result.adopted:
            self.containers[grant.id] = (name, index)
            if instance.phase is Phase.RUNNING:
                commands += self._probe(self.services[name], instance)
        self._retiring.update(result.strangers)
        commands += [Stop(each) for each in result.strangers]
        for end, name, index in result.ended:
            self.containers[end.id] = (name, index)
            commands += self._complete(end)
        return commands

    # -- time, size and end

    def _scale(self, event: ScaleTo) -> list[Command]:
        service = self.services[event.service]
        self._say(event.now_s, f"{event.count} elastic instances are wanted", service)
        for gone in [each for each in service.kind(ELASTIC) if each.phase in OVER]:
            del service.instances[gone.index]
        commands = [
            command for each in service.surplus(event.count) for command in self._dismiss(service, each, event.now_s)
        ]
        service.grow(event.count)
        return commands

    def _dismiss(self, service: ServiceState, instance: Instance, now_s: float) -> list[Command]:
        """Let an instance go for good; a container that runs is stopped first."""
        grant = instance.grant
        if grant is not None and instance.phase is not Phase.WAITING:
            instance.leaving = True
            return [Stop(grant.id)]
        self._forget(instance, now_s)
        del service.instances[instance.index]
        if grant is None:
            return []
        self._retiring.add(grant.id)
        return [Release(grant.id)]

    def _tick(self, now_s: float) -> list[Command]:
        commands: list[Command] = []
        for service in self.services.values():
            for instance in list(service.instances.values()):
                if instance.grant is not None:
                    commands += self._late(service, instance, instance.grant, now_s)
        return commands

    def _late(self, service: ServiceState, instance: Instance, grant: Grant, now_s: float) -> list[Command]:
        """Return what follows when an instance is where it is for too long."""
        age_s = now_s - instance.since_s
        if instance.phase is Phase.WAITING and age_s > HOLD_S:
            self._forget(instance, now_s)
            self._retiring.add(grant.id)
            self._say(now_s, f"its container waited {HOLD_S:.0f} s and is given back", service, instance)
            return [Release(grant.id)]
        limit_s = {Phase.STARTING: START_LIMIT_S, Phase.RUNNING: service.spec.ready.timeout_s}.get(instance.phase)
        if limit_s is None or age_s <= limit_s or instance.failing or instance.leaving:
            return []
        what = "not started" if instance.phase is Phase.STARTING else "not ready"
        instance.failing = f"it was {what} after {limit_s:g} s"
        self._say(now_s, instance.failing, service, instance)
        return [Stop(grant.id)]

    def _end(self, status: str, reason: str, now_s: float) -> list[Command]:
        """Begin the end: ask for nothing, give back, stop."""
        if self.state in ("ending", "ended"):
            return []
        self.state, self.final, self.diagnostics, self._ends_s = "ending", status, reason, now_s
        self._say(now_s, f"the application ends as {status}" + (f": {reason}" if reason else ""))
        commands: list[Command] = []
        for service in self.services.values():
            for instance in list(service.instances.values()):
                if instance.phase is Phase.WAITING and instance.grant is not None:
                    commands.append(Release(instance.grant.id))
                    self._forget(instance, now_s)
                elif instance.grant is not None:
                    commands.append(Stop(instance.grant.id))
        return commands

    # -- after each event

    def _settle(self, now_s: float) -> list[Command]:
        if self.state == "ending":
            return self._asks(now_s) + self._last_step(now_s)
        if self.state != "running" or self.adoption.pending:
            return []
        commands = self._result(now_s)
        if self.state != "running":
            return commands + self._asks(now_s) + self._last_step(now_s)
        return commands + self._starts(now_s) + self._reclaim(now_s) + self._asks(now_s)

    def _result(self, now_s: float) -> list[Command]:
        """End the application when its main services, or without any all services, have ended."""
        states = list(self.services.values())
        deciding = [each for each in states if each.spec.main] or states
        ended = [one for each in deciding for one in each.instances.values() if one.phase is Phase.ENDED]
        if not ended or not all(each.over for each in deciding):
            return []
        return self._end("succeeded", "", now_s)

    def _starts(self, now_s: float) -> list[Command]:
        commands: list[Command] = []
        for service in self.services.values():
            if not all(self.services[name].ready for name in service.spec.after):
                continue
            for instance in service.instances.values():
                if instance.phase is Phase.WAITING and instance.grant is not None:
                    instance.enter(Phase.STARTING, now_s)
                    where = f"starts in {instance.grant.id} on {instance.grant.host}"
                    self._say(now_s, where, service, instance)
                    commands.append(Start(instance.grant.id, service.spec.name, instance.index, instance.kind))
        return commands

    def _asks(self, now_s: float) -> list[Command]:
        """Return the asks whose numbers changed."""
        core_only = self._core_lacks_s is not None and now_s - self._core_lacks_s >= CORE_FIRST_S
        commands: list[Command] = []
        for service in self.services.values():
            lacking = service.lacking(now_s) if self.state == "running" else []
            wanted = sum(1 for each in lacking if each.kind == CORE or not core_only)
            if wanted != service.asked:
                service.asked = wanted
                commands.append(Ask(service.spec.name, wanted))
        return commands

    def _reclaim(self, now_s: float) -> list[Command]:
        """Give elastic containers back while core instances lack theirs for long: held ones, then running ones."""
        lacking = [each for service in self.services.values() for each in service.lacking(now_s) if each.kind == CORE]
        if not lacking:
            self._core_lacks_s = None
            return []
        if self._core_lacks_s is None:
            self._core_lacks_s = now_s
        waited_s = now_s - self._core_lacks_s
        commands: list[Command] = []
        for service in self.services.values():
            for each in service.kind(ELASTIC) if waited_s >= CORE_FIRST_S else ():
                if each.phase is Phase.WAITING and each.grant is not None:
                    self._retiring.add(each.grant.id)
                    commands.append(Release(each.grant.id))
                    self._forget(each, now_s)
        if commands or waited_s < CORE_RECLAIM_S or now_s - self._reclaimed_s < CORE_FIRST_S:
            return commands
        return self._reclaim_running(now_s)

    def _reclaim_running(self, now_s: float) -> list[Command]:
        running = [
            (each.since_s, service, each)
            for service in self.services.values()
            if not service.spec.constraints.nodes
            for each in service.kind(ELASTIC)
            if each.grant is not None and each.phase is not Phase.WAITING and not each.leaving and not each.failing
        ]
        if not running:
            return []
        _, service, newest = max(running, key=lambda one: one[0])
        self._reclaimed_s = now_s
        self._say(now_s, "is stopped, because a core instance lacks room", service, newest)
        return [Stop(newest.grant.id)] if newest.grant is not None else []

    def _last_step(self, now_s: float) -> list[Command]:
        if self._unregistered or (self.containers and now_s - self._ends_s < STOP_LIMIT_S):
            return []
        self._unregistered, self.state = True, "ended"
        return [Unregister(self.final, self.diagnostics)]

    def _say(
        self, now_s: float, text: str, service: ServiceState | None = None, instance: Instance | None = None
    ) -> None:
        name = service.spec.name if service is not None else ""
        self.log.add(now_s, text, name, instance.index if instance is not None else None)


def _useful(diagnostics: str) -> str:
    return "" if diagnostics in ("", "N/A") else diagnostics.strip()[-LINES_CHARS:]
