"""What a second attempt makes of the containers of the first."""

from __future__ import annotations

from apps.tests.master.descriptions import app, grant
from quicksilver_apps.master.machine.adoption import notes
from quicksilver_apps.master.machine.events import (
    Allocated,
    AskContainers,
    CommandRuns,
    ContainerCompleted,
    FindLauncher,
    LauncherFound,
    LauncherMissing,
    MasterRegistered,
    MasterTick,
    ProbeInstance,
    ScaleTo,
    StartInstance,
    Stop,
    Unregister,
)
from quicksilver_apps.master.machine.machine import Machine
from quicksilver_apps.master.machine.spec import FilledApplication
from tests.playbook import play

POOL = {"name": "pool", "core": 1, "elastic": 3}


def first_attempt(application: FilledApplication) -> Machine:
    """Return a machine with three instances that run in c1 to c3, and one that is not wanted any more."""
    machine = Machine(application, 0)
    machine.handle(MasterRegistered(0))
    machine.handle(Allocated((grant(1), grant(2), grant(3)), 1))
    for number in (1, 2, 3):
        machine.handle(CommandRuns(f"c{number}", 2))
    machine.handle(ScaleTo("pool", 2, 3))
    return machine


def found(number: int, index: int, said: dict[str, object], phase: str = "ready") -> LauncherFound:
    return LauncherFound(f"c{number}", "pool", index, {"web": 8000 + number}, 61000 + number, phase, said, 10)


def test_the_second_attempt_goes_on_where_the_first_was() -> None:
    application = app(POOL)
    said = notes(first_attempt(application).app.services, 7)
    machine = Machine(application, 9)
    play(
        machine,
        (
            MasterRegistered(9, (grant(1), grant(2), grant(3))),
            [FindLauncher("c1", "node"), FindLauncher("c2", "node"), FindLauncher("c3", "node")],
        ),
        (found(2, 1, {}), []),
        (MasterTick(9.5), []),  # nothing is asked for until all is known
        (found(1, 0, said), []),
        (found(3, 2, said), []),  # two elastic ones were wanted and are there
        (ScaleTo("pool", 3, 11), [AskContainers("pool", 1)]),
    )
    instances = machine.app.services["pool"].instances
    assert [(each.index, each.kind, each.phase, dict(each.ports)) for each in instances.values()][:3] == [
        (0, "core", "ready", {"web": 8001}),
        (1, "elastic", "ready", {"web": 8002}),
        (2, "elastic", "ready", {"web": 8003}),
    ]


def test_a_container_without_a_launcher_is_stopped_and_its_instance_starts_again() -> None:
    play(
        Machine(app(POOL | {"elastic": 0}), 9),
        (MasterRegistered(9, (grant(1), grant(5, 77))), [FindLauncher("c1", "node"), Stop("c5")]),
        (LauncherMissing("c1", 30), [Stop("c1"), AskContainers("pool", 1)]),
        (ContainerCompleted("c1", -105, "", 31), []),
        (Allocated((grant(2),), 32), [StartInstance("c2", "pool", 0, "core")]),
    )


def test_ends_between_the_attempts_count() -> None:
    application = app({"name": "pool", "core": 2, "main": True})
    machine = Machine(application, 0)
    machine.handle(MasterRegistered(0))
    machine.handle(Allocated((grant(1), grant(2)), 1))
    for number in (1, 2):
        machine.handle(CommandRuns(f"c{number}", 2))
    said = notes(machine.app.services, 7)
    play(
        Machine(application, 9),
        (MasterRegistered(9, (grant(1),)), [FindLauncher("c1", "node")]),
        (ContainerCompleted("c2", 0, "", 9.5), []),
        (found(1, 0, said), []),  # instance 1 is not started again
        (ContainerCompleted("c1", 0, "", 12), [Unregister("succeeded", "")]),
    )


def test_a_container_that_ended_while_its_launcher_was_looked_for_is_not_adopted() -> None:
    play(
        Machine(app(POOL | {"elastic": 0}), 9),
        (MasterRegistered(9, (grant(1),)), [FindLauncher("c1", "node")]),
        (ContainerCompleted("c1", 1, "", 9.5), []),
        (found(1, 0, {}), [Stop("c1"), AskContainers("pool", 1)]),
    )


def test_one_that_is_not_ready_is_probed_again() -> None:
    service = {**POOL, "elastic": 0, "ports": [{"name": "web"}], "ready": {"port": "web"}}
    play(
        Machine(app(service), 9),
        (MasterRegistered(9, (grant(1),)), [FindLauncher("c1", "node")]),
        (found(1, 0, {}, "running"), [ProbeInstance("c1", "node", 8001, 1.0)]),
    )


def test_one_without_a_check_is_ready_because_it_runs() -> None:
    machine = Machine(app(POOL | {"elastic": 0}), 9)
    machine.handle(MasterRegistered(9, (grant(1),)))
    machine.handle(found(1, 0, {}, "running"))
    assert machine.app.services["pool"].instances[0].phase == "ready"


def test_one_whose_command_does_not_run_yet_is_awaited() -> None:
    machine = Machine(app(POOL | {"elastic": 0}), 9)
    machine.handle(MasterRegistered(9, (grant(1),)))
    machine.handle(found(1, 0, {}, "starting"))
    machine.handle(CommandRuns("c1", 11))
    assert machine.app.services["pool"].instances[0].phase == "ready"


def test_containers_that_are_reported_late_do_not_undo_what_happened_since() -> None:
    application = app(POOL)
    said = notes(first_attempt(application).app.services, 7)
    machine = Machine(application, 9)
    machine.handle(MasterRegistered(9))
    machine.handle(Allocated((grant(6),), 10))
    machine.handle(CommandRuns("c6", 11))
    play(
        machine,
        (MasterRegistered(12, (grant(1), grant(2))), [FindLauncher("c1", "node"), FindLauncher("c2", "node")]),
        (found(1, 0, said), []),
        (found(2, 1, said), [Stop("c1"), AskContainers("pool", 2)]),  # instance 0 runs in c6
    )
    assert machine.app.services["pool"].instances[0].grant == grant(6)
