"""What always holds, whatever the ResourceManager, nodes and people do."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from apps.tests.master.descriptions import app
from quicksilver_apps.master.machine.events import (
    Allocated,
    AskContainers,
    CheckPassed,
    Command,
    CommandRuns,
    ContainerCompleted,
    ContainerGrant,
    Event,
    MasterRegistered,
    MasterTick,
    Release,
    Resynced,
    ScaleTo,
    StartFailed,
    StartInstance,
    Stop,
    StopAll,
    Unregister,
)
from quicksilver_apps.master.machine.machine import Machine

SERVICES = (
    {"name": "head", "core": 1, "ready": {"log": "up", "timeout_s": 50}},
    {"name": "pool", "core": 2, "elastic": 3, "after": ["head"], "restart": {"limit": 2}},
    {"name": "extra", "elastic": 2, "restart": {"policy": "always", "limit": 4}},
)
PRIORITY = {"head": 10, "pool": 11, "extra": 12}


class World(RuleBasedStateMachine):
    """A ResourceManager that grants what was asked for, now and then more; all else is chance."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine(app(*SERVICES), 0)
        self.now_s = 0.0
        self.number = 0
        self.asked: dict[str, int] = dict.fromkeys(PRIORITY, 0)
        self.held: dict[str, str] = {}
        """Service by container, of all that the ResourceManager counts as ours."""
        self.started: dict[str, tuple[str, int]] = {}
        self.unregistered = 0
        self.machine_s = 0.0
        self.tell(MasterRegistered(0))

    def tell(self, event: Event) -> list[Command]:
        commands = self.machine.handle(event)
        self.machine_s = event.now_s
        for command in commands:
            match command:
                case AskContainers():
                    assert command.count >= 0
                    self.asked[command.service] = command.count
                case Release():
                    self.held.pop(command.id, None)
                    self.started.pop(command.id, None)
                case StartInstance():
                    assert self.held[command.id] == command.service
                    assert command.id not in self.started, "a container is started once"
                    assert (command.service, command.index) not in self.started.values(), "an instance runs once"
                    self.started[command.id] = (command.service, command.index)
                case Stop():
                    assert command.id in self.held
                case Unregister():
                    self.unregistered += 1
        return commands

    @rule(service=st.sampled_from(sorted(PRIORITY)), more=st.integers(0, 2))
    def grant(self, service: str, more: int) -> None:
        count = min(self.asked[service], 2) + (more if more == 2 else 0)
        grants = []
        for _ in range(count):
            self.number += 1
            grants.append(ContainerGrant(f"c{self.number}", PRIORITY[service], "node"))
            self.held[f"c{self.number}"] = service
            self.asked[service] = max(0, self.asked[service] - 1)
        self.tell(Allocated(tuple(grants), self.now_s))

    @rule(choice=st.randoms(use_true_random=False), status=st.sampled_from([0, 1, 137, -100, -102, -104, -105]))
    @precondition(lambda self: self.held)
    def complete(self, choice: object, status: int) -> None:
        container = choice.choice(sorted(self.held))  # type: ignore[attr-defined]
        del self.held[container]
        self.started.pop(container, None)
        self.tell(ContainerCompleted(container, status, "", self.now_s))

    @rule(choice=st.randoms(use_true_random=False), what=st.sampled_from([CommandRuns, CheckPassed]))
    @precondition(lambda self: self.started)
    def report(self, choice: object, what: type[CommandRuns]) -> None:
        self.tell(what(choice.choice(sorted(self.started)), self.now_s))  # type: ignore[attr-defined]

    @rule(choice=st.randoms(use_true_random=False))
    @precondition(lambda self: self.started)
    def start_fails(self, choice: object) -> None:
        container = choice.choice(sorted(self.started))  # type: ignore[attr-defined]
        self.tell(StartFailed(container, "refused", self.now_s))

    @rule(status=st.sampled_from([0, 1, -102]), container=st.sampled_from(["", "stranger", "c0"]))
    def strangers(self, status: int, container: str) -> None:
        before = len(self.machine.app.containers)
        self.tell(ContainerCompleted(container, status, "", self.now_s))
        self.tell(CommandRuns(container, self.now_s))
        assert len(self.machine.app.containers) == before

    @rule(service=st.sampled_from(["pool", "extra"]), count=st.integers(0, 2))
    def scale(self, service: str, count: int) -> None:
        self.tell(ScaleTo(service, count, self.now_s))

    @rule(seconds=st.sampled_from([0.3, 2.0, 30.0, 400.0]))
    def time(self, seconds: float) -> None:
        self.now_s += seconds
        self.tell(MasterTick(self.now_s))

    @rule()
    def resync(self) -> None:
        """What was granted and not started is unknown to the next ResourceManager."""
        self.held = {name: service for name, service in self.held.items() if name in self.started}
        self.asked = dict.fromkeys(PRIORITY, 0)
        self.tell(Resynced(self.now_s))

    @rule(status=st.sampled_from(["killed", "succeeded"]))
    @precondition(lambda self: self.now_s > 800)
    def stop(self, status: str) -> None:
        self.tell(StopAll(status, "", self.now_s))

    @invariant()
    def never_more_than_wanted(self) -> None:
        """Held and asked for together are never more than wanted, those that are being stopped aside."""
        app = self.machine.app
        held = Counter(service for service in self.held.values())
        for name, service in app.services.items():
            leaving = sum(1 for each in service.instances.values() if each.leaving)
            if not app.over:
                assert held[name] - leaving + self.asked[name] <= service.spec.core + service.elastic
                assert sum(1 for each in service.kind("core")) == service.spec.core
            else:
                assert self.asked[name] == 0

    @invariant()
    def books_agree(self) -> None:
        app = self.machine.app
        placed = [
            (each.grant.id, name, index)
            for name, service in app.services.items()
            for index, each in service.instances.items()
            if each.grant is not None
        ]
        assert len({container for container, _, _ in placed}) == len(placed), "a container runs one instance"
        assert {container: (name, index) for container, name, index in placed} == app.containers
        assert app.containers.keys() == self.held.keys(), "no container is forgotten"
        assert app.idle_grants == self.held.keys() - self.started.keys()

    @invariant()
    def belief_is_truth(self) -> None:
        """What the ResourceManager is believed to look for is what it looks for: no instance waits for nothing."""
        app = self.machine.app
        assert {name: service.pending for name, service in app.services.items()} == self.asked
        core_waits = any(each.kind == "core" for one in app.services.values() for each in one.lacking(self.now_s))
        if app.running and not core_waits:
            for name, service in app.services.items():
                assert self.asked[name] == len(service.lacking(self.machine_s)), name

    @invariant()
    def ends_once(self) -> None:
        assert self.unregistered == (self.machine.app.state == "ended")


TestWorld = World.TestCase
TestWorld.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
