"""The master's machine: playbooks."""

from __future__ import annotations

from apps.tests.master.descriptions import app, grant
from quicksilver_apps.master.machine.demand import CORE_FIRST_S, CORE_RECLAIM_S
from quicksilver_apps.master.machine.ends import STOP_LIMIT_S
from quicksilver_apps.master.machine.events import (
    Allocated,
    AskContainers,
    CheckPassed,
    CommandRuns,
    ContainerCompleted,
    LastLines,
    LauncherUp,
    MasterRegistered,
    MasterTick,
    ProbeInstance,
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
from quicksilver_apps.master.machine.starts import HOLD_S, START_LIMIT_S
from tests.playbook import play

SERVER = {"name": "server", "core": 1, "ports": [{"name": "web"}], "ready": {"port": "web"}}
WORKER = {"name": "worker", "core": 1, "elastic": 1, "after": ["server"]}


def started(*services: dict[str, object], count: int = 1) -> Machine:
    """Return a machine whose `count` instances of the first service run in the containers c1, c2 .."""
    machine = Machine(app(*services), 0)
    machine.handle(MasterRegistered(0))
    machine.handle(Allocated(tuple(grant(number) for number in range(1, count + 1)), 1))
    for number in range(1, count + 1):
        machine.handle(CommandRuns(f"c{number}", 2))
    return machine


def texts(machine: Machine) -> list[str]:
    return [each["text"] for each in machine.app.log.after(0)]


def test_services_start_in_order_and_main_ends_the_application() -> None:
    play(
        Machine(app(SERVER, {**WORKER, "main": True}), 0),
        (MasterRegistered(0), [AskContainers("server", 1), AskContainers("worker", 2)]),
        (Allocated((grant(2, 11), grant(3, 11)), 1), []),  # they wait for the server
        (Allocated((grant(1, 10),), 2), [StartInstance("c1", "server", 0, "core")]),
        (LauncherUp("c1", {"web": 80}, 61001, 3), []),
        (CommandRuns("c1", 3), [ProbeInstance("c1", "node", 80, 1.0)]),
        (CheckPassed("c1", 4), [StartInstance("c2", "worker", 0, "core"), StartInstance("c3", "worker", 1, "elastic")]),
        (CommandRuns("c2", 5), []),
        (CommandRuns("c3", 5), []),
        (ContainerCompleted("c2", 0, "", 6), []),  # an elastic one works on
        (ContainerCompleted("c3", 0, "", 7), [Stop("c1")]),
        (ContainerCompleted("c1", -105, "", 8), [Unregister("succeeded", "")]),
        (MasterTick(9), []),
    )


def test_containers_that_nobody_wants_go_back() -> None:
    play(
        Machine(app(WORKER | {"after": []}), 0),
        (MasterRegistered(0), [AskContainers("worker", 2)]),
        (
            Allocated((grant(1), grant(2), grant(3), grant(4, 99)), 1),
            [
                Release("c3"),
                Release("c4"),
                StartInstance("c1", "worker", 0, "core"),
                StartInstance("c2", "worker", 1, "elastic"),
            ],
        ),
        (ContainerCompleted("c3", -100, "", 2), []),
        (ContainerCompleted("unknown", 1, "", 2), []),
    )


def test_a_granted_container_waits_five_minutes_for_other_services() -> None:
    play(
        Machine(app(SERVER, WORKER), 0),
        (MasterRegistered(0), [AskContainers("server", 1), AskContainers("worker", 2)]),
        (Allocated((grant(2, 11),), 1), []),
        (MasterTick(1), []),
        (
            MasterTick(1 + HOLD_S),
            [AskContainers("worker", 0)],
        ),  # core first: the elastic one is not asked for while core lacks
        (MasterTick(2 + HOLD_S), [Release("c2"), AskContainers("worker", 1)]),
    )


def test_failures_restart_with_pauses_until_the_limit_and_fail_the_application() -> None:
    machine = started({"name": "job", "core": 1, "restart": {"policy": "on-failure", "limit": 2}})
    play(
        machine,
        (LastLines("c1", "no such file", 3), []),
        (ContainerCompleted("c1", 3, "Exception from container-launch", 3), []),
        (MasterTick(3.5), []),
        (MasterTick(4), [AskContainers("job", 1)]),
        (Allocated((grant(2),), 5), [StartInstance("c2", "job", 0, "core")]),
        (CommandRuns("c2", 6), []),
        (ContainerCompleted("c2", 3, "", 7), []),
        (MasterTick(8.9), []),
        (MasterTick(9), [AskContainers("job", 1)]),
        (Allocated((grant(3),), 9), [StartInstance("c3", "job", 0, "core")]),
        (LastLines("c3", "no such file", 10), []),
        (
            ContainerCompleted("c3", 3, "", 10),
            [
                Unregister(
                    "failed",
                    "service job, instance 0 failed (exit status 3, 2 restarts): "
                    "it ended with exit status 3\nno such file",
                )
            ],
        ),
    )
    assert machine.app.services["job"].state == "failed"


def test_what_the_system_ends_is_no_failure_and_is_asked_for_at_once() -> None:
    machine = started({"name": "job", "core": 1, "restart": {"policy": "never"}})
    for status in (-100, -101, -102, -105, -106, -107, -108):
        assert machine.handle(ContainerCompleted("c1", status, "", 3)) == [AskContainers("job", 1)]
        assert machine.handle(Allocated((grant(1),), 4)) == [StartInstance("c1", "job", 0, "core")]
        machine.handle(CommandRuns("c1", 5))
    assert machine.app.services["job"].instances[0].restarts == 0


def test_memory_limits_are_the_instances_own_fault() -> None:
    machine = started({"name": "job", "core": 1, "restart": {"policy": "never"}})
    [end] = machine.handle(ContainerCompleted("c1", -104, "", 3))
    assert isinstance(end, Unregister)
    assert "more memory than its container has" in end.diagnostics


def test_an_elastic_instance_that_fails_too_often_is_given_up() -> None:
    service = {"name": "job", "core": 1, "elastic": 1, "restart": {"policy": "never"}}
    machine = started(service, count=2)
    assert machine.handle(ContainerCompleted("c2", 1, "", 3)) == []
    assert machine.app.services["job"].instances[1].phase == "lost"
    assert machine.handle(ScaleTo("job", 1, 4)) == [AskContainers("job", 1)]  # somebody wants another one


def test_an_elastic_instance_counts_as_core_when_a_core_one_is_gone() -> None:
    machine = started({"name": "job", "core": 1, "elastic": 2}, count=3)
    play(
        machine,
        (ContainerCompleted("c1", -102, "", 3), [AskContainers("job", 1)]),
        (Allocated((grant(4),), 4), [StartInstance("c4", "job", 0, "elastic")]),
    )
    assert machine.app.services["job"].instances[1].kind == "core"
    assert machine.app.services["job"].ready


def test_scaling_down_stops_the_newest_elastic_instances_first() -> None:
    machine = started({"name": "job", "core": 1, "elastic": 3}, count=2)
    machine.handle(Allocated((grant(3),), 5))
    play(
        machine,
        (ScaleTo("job", 1, 6), [Stop("c3"), AskContainers("job", 0)]),  # index 3 had no container yet
        (ContainerCompleted("c3", -105, "", 7), []),
        (ScaleTo("job", 2, 8), [AskContainers("job", 1)]),
        (Allocated((grant(4),), 9), [StartInstance("c4", "job", 2, "elastic")]),
        (ScaleTo("job", 0, 10), [Stop("c4"), Stop("c2")]),
    )


def test_the_newest_is_the_one_that_started_last_whenever_it_was_ready() -> None:
    machine = Machine(app({"name": "job", "elastic": 2}), 0)
    machine.handle(MasterRegistered(0))
    machine.handle(Allocated((grant(1), grant(2)), 1))
    machine.handle(CommandRuns("c2", 2))
    machine.handle(CommandRuns("c1", 3))
    assert machine.handle(ScaleTo("job", 1, 4)) == [Stop("c2")]


def test_while_core_instances_lack_containers_elastic_ones_give_way() -> None:
    machine = Machine(app({"name": "first", "elastic": 2}, {"name": "second", "core": 1, "after": ["first"]}), 0)
    play(
        machine,
        (MasterRegistered(0), [AskContainers("first", 2), AskContainers("second", 1)]),
        (Allocated((grant(1),), 1), [StartInstance("c1", "first", 0, "elastic")]),
        (MasterTick(1), []),
        (MasterTick(1 + CORE_FIRST_S), [AskContainers("first", 0)]),
        (CommandRuns("c1", 2 + CORE_FIRST_S), []),
        (MasterTick(1 + CORE_RECLAIM_S), [Stop("c1")]),
        (ContainerCompleted("c1", -105, "", 22), []),
        (Allocated((grant(2, 11),), 23), [StartInstance("c2", "second", 0, "core"), AskContainers("first", 2)]),
    )


def test_while_it_waits_to_be_admitted_all_that_it_wants_stays_asked_for() -> None:
    machine = Machine(app({"name": "first", "core": 1, "elastic": 2}, {"name": "second", "core": 1}), 0)
    play(
        machine,
        (MasterRegistered(0), [AskContainers("first", 3), AskContainers("second", 1)]),
        (MasterTick(1), []),
        (MasterTick(600), []),
        (
            Allocated((grant(1), grant(2)), 601),
            [StartInstance("c1", "first", 0, "core"), StartInstance("c2", "first", 1, "elastic")],
        ),
        (MasterTick(602), []),
        (MasterTick(602 + CORE_FIRST_S), [AskContainers("first", 0)]),
    )


def test_an_instance_that_is_not_ready_in_time_has_failed() -> None:
    service = {**SERVER, "ready": {"port": "web", "timeout_s": 5}, "restart": {"limit": 1}}
    machine = started(service)
    play(
        machine,
        (MasterTick(6.9), []),
        (MasterTick(7.1), [Stop("c1")]),
        (CheckPassed("c1", 7.2), []),  # too late
        (MasterTick(7.3), []),
        (ContainerCompleted("c1", -105, "Killed by the application master", 8), []),
        (MasterTick(9), [AskContainers("server", 1)]),
    )
    instance = machine.app.services["server"].instances[0]
    assert (instance.restarts, instance.phase) == (1, "waiting")
    assert "it was not ready after 5 s" in instance.diagnostics


def test_a_launcher_that_does_not_report_has_failed() -> None:
    machine = Machine(app({"name": "job", "core": 1}), 0)
    machine.handle(MasterRegistered(0))
    machine.handle(Allocated((grant(1),), 1))
    assert machine.handle(MasterTick(1 + START_LIMIT_S)) == []
    assert machine.handle(MasterTick(2 + START_LIMIT_S)) == [Stop("c1")]


def test_a_start_that_the_node_refuses_is_a_failure() -> None:
    machine = Machine(app({"name": "job", "core": 1, "restart": {"limit": 1}}), 0)
    machine.handle(MasterRegistered(0))
    machine.handle(Allocated((grant(1),), 1))
    play(
        machine,
        (StartFailed("c1", "no auxiliary service\n at java", 2), [Release("c1")]),
        (StartFailed("c1", "again", 2), []),
        (MasterTick(3), [AskContainers("job", 1)]),
        (Allocated((grant(2),), 4), [StartInstance("c2", "job", 0, "core")]),
    )
    end = machine.handle(StartFailed("c2", "no auxiliary service", 5))
    assert end[0] == Release("c2")
    assert isinstance(end[1], Unregister)
    assert "not started, 1 restarts): its container was not started: no auxiliary service" in end[1].diagnostics


def test_after_a_resync_all_is_asked_for_again_and_what_runs_goes_on() -> None:
    machine = Machine(app(SERVER, WORKER), 0)
    machine.handle(MasterRegistered(0))
    machine.handle(Allocated((grant(1), grant(2, 11)), 1))
    play(
        machine,
        (Resynced(2), [Release("c2"), AskContainers("worker", 2)]),  # c2 waited: its token is void after a restart
        (Allocated((grant(3, 11), grant(4, 11)), 3), []),
        (LauncherUp("c1", {"web": 80}, 61001, 3), []),
        (CommandRuns("c1", 3), [ProbeInstance("c1", "node", 80, 1.0)]),
        (CheckPassed("c1", 3), [StartInstance("c3", "worker", 0, "core"), StartInstance("c4", "worker", 1, "elastic")]),
    )


def test_a_stop_waits_for_the_containers_and_not_for_ever() -> None:
    machine = started({"name": "job", "core": 1, "elastic": 2}, count=2)
    play(
        machine,
        (StopAll("killed", "enough", 10), [Stop("c1"), Stop("c2"), AskContainers("job", 0)]),
        (StopAll("succeeded", "", 11), []),
        (Allocated((grant(3),), 11), [Release("c3")]),
        (ContainerCompleted("c1", -105, "", 12), []),
        (MasterTick(10 + STOP_LIMIT_S), [Unregister("killed", "enough")]),
        (MasterTick(40), []),
    )


def test_always_restarts_ends_with_success_too() -> None:
    machine = started({"name": "job", "core": 1, "restart": {"policy": "always", "limit": 1}})
    assert machine.handle(ContainerCompleted("c1", 0, "", 3)) == [AskContainers("job", 1)]
    machine.handle(Allocated((grant(2),), 4))
    machine.handle(CommandRuns("c2", 5))
    assert machine.handle(ContainerCompleted("c2", 0, "", 6)) == [Unregister("succeeded", "")]


def test_without_main_it_ends_with_the_last_service() -> None:
    machine = Machine(app({"name": "a", "core": 1}, {"name": "b", "core": 1}), 0)
    machine.handle(MasterRegistered(0))
    machine.handle(Allocated((grant(1), grant(2, 11)), 1))
    play(
        machine,
        (CommandRuns("c1", 2), []),
        (CommandRuns("c2", 2), []),
        (ContainerCompleted("c1", 0, "", 3), []),
        (ContainerCompleted("c2", 0, "", 4), [Unregister("succeeded", "")]),
    )
    assert texts(machine)[-1] == "the application ends as succeeded"
