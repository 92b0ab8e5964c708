"""The application master as a machine: events in, commands out; it asks, starts, restarts, scales and ends.

Core instances must all be there, elastic ones help (Zoe, §2.1): the ResourceManager is asked for both at once; while a
core instance lacks a container for long, nothing elastic is asked for, so that an application cannot be in its own way.
"""

from __future__ import annotations

from quicksilver_apps.master.machine.adoption import Adoption
from quicksilver_apps.master.machine.application_state import ApplicationState
from quicksilver_apps.master.machine.demand import ServiceDemand
from quicksilver_apps.master.machine.ends import InstanceEnds
from quicksilver_apps.master.machine.events import (
    Allocated,
    CheckPassed,
    Command,
    CommandRuns,
    ContainerCompleted,
    Event,
    FindLauncher,
    LastLines,
    LauncherFound,
    LauncherMissing,
    LauncherUp,
    MasterRegistered,
    MasterTick,
    Resynced,
    ScaleTo,
    Stop,
    StopAll,
)
from quicksilver_apps.master.machine.spec import FilledApplication
from quicksilver_apps.master.machine.starts import Starts


class Machine:
    """One attempt of the master of one application; `handle` is the only way in."""

    def __init__(self, application: FilledApplication, now_s: float) -> None:
        """Begin before the registration."""
        self.app = ApplicationState(application, now_s)
        self.adoption = Adoption()
        self._ends = InstanceEnds(self.app)
        self._demand = ServiceDemand(self.app)
        self._starts = Starts(self.app, self._ends)

    def handle(self, event: Event) -> list[Command]:
        """Return the commands that follow from an event."""
        commands = self._follows(event)
        if isinstance(event, (LauncherUp, LastLines)):
            return commands
        if isinstance(event, (CommandRuns, CheckPassed)):  # all that they change is which services are ready
            starts = self.app.running and not self.adoption.pending
            return commands + (self._starts.due(event.now_s) if starts else [])
        return commands + self._settle(event.now_s)

    def _follows(self, event: Event) -> list[Command]:
        match event:
            case MasterRegistered():
                return self._register(event)
            case Resynced():
                self.app.say(event.now_s, "the ResourceManager forgot the application master, which registered again")
                return self._demand.forgotten(event.now_s)
            case Allocated():
                return self._demand.allocated(event)
            case ContainerCompleted():
                self.adoption.note_end(event)
                return self._ends.container_ended(event)
            case LastLines():
                self._ends.note_lines(event.id, event.text)
                return []
            case LauncherFound() | LauncherMissing():
                return self._adopt(event)
            case ScaleTo():
                return [] if self.app.over else self._demand.scale(event)
            case StopAll():
                return self._ends.end(event.status, event.reason, event.now_s)
            case MasterTick():
                return self._starts.late(event.now_s)
        return self._starts.report(event)

    def _register(self, event: MasterRegistered) -> list[Command]:
        """Begin, or learn of more kept containers, which nodes report late after a restart of the ResourceManager."""
        if self.app.state == "starting":
            self.app.state = "running"
            self.app.say(event.now_s, "the application master registered")
        commands: list[Command] = []
        for grant in event.grants:
            if grant.id in self.app.containers:
                continue
            if self.app.of_priority(grant.priority) is None or self.app.over:
                commands.append(Stop(grant.id))
            else:
                self.adoption.expect(grant)
                commands.append(FindLauncher(grant.id, grant.host))
        return commands

    def _adopt(self, event: LauncherFound | LauncherMissing) -> list[Command]:
        """Handle what is known of a kept container; the last one decides about all that are not there any more."""
        if not self.adoption.settle(event):
            return []
        result = self.adoption.result(self.app.services)
        for text, name, index in result.texts:
            self.app.log.add(event.now_s, text, name, index)
        commands: list[Command] = []
        for grant, name, index, instance in result.adopted:
            self.app.containers[grant.id] = (name, index)
            commands += self._starts.watch(self.app.services[name], instance, event.now_s)
        commands += [Stop(each) for each in result.strangers]
        for end, name, index in result.ended:
            self.app.containers[end.id] = (name, index)
            commands += self._ends.container_ended(end)
        return commands

    def _settle(self, now_s: float) -> list[Command]:
        """Return what follows from where things are now."""
        if self.app.over:
            return self._demand.asks(now_s) + self._ends.last_step(now_s)
        if not self.app.running or self.adoption.pending:
            return []
        commands = self._ends.result(now_s)
        if self.app.over:
            return commands + self._demand.asks(now_s) + self._ends.last_step(now_s)
        return commands + self._starts.due(now_s) + self._demand.reclaim(now_s) + self._demand.asks(now_s)
