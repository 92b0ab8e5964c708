"""The master of a whole application: what it asks for, when its work is done, what follows a lost component."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver_lab.bench.emulator.masters.application import (
    CORE_PRIORITY,
    ELASTIC_PRIORITY,
    ApplicationAm,
    ApplicationSpec,
    MasterRecord,
)
from rm_proxy.domain.ids import container_id_text

SPEC = ApplicationSpec(
    1, 0.0, "batch-elastic", core=3, elastic=4, core_mb=2048, elastic_mb=1024, runtime_s=10.0, coordinators=2
)


def container(number: int, priority: int) -> y.ContainerProto:
    made = y.ContainerProto()
    made.id.id = number
    made.id.app_attempt_id.attemptId = 1
    made.nodeId.host, made.nodeId.port = "n", 1
    made.priority.priority = priority
    return made


def status(number: int, exit_status: int) -> y.ContainerStatusProto:
    return y.ContainerStatusProto(container_id=container(number, 0).id, exit_status=exit_status)


def name(number: int) -> str:
    return container_id_text(container(number, 0).id)


class World:
    """One application on a node whose processes run at a speed each."""

    def __init__(self, spec: ApplicationSpec = SPEC) -> None:
        self.record = MasterRecord(spec.number, spec.klass, spec.runtime_s, 0.0)
        self.am = ApplicationAm(spec, self.record)
        self.speed: dict[str, float] = {}
        self.served: dict[str, float] = {}
        self.now_s = 0.0

    def grant(self, numbers: Iterable[int], priority: int) -> list[str]:
        answer = y.AllocateResponseProto(allocated_containers=[container(n, priority) for n in numbers])
        return [one.container_id for one in self.am.answered(answer, self.now_s)]

    def run(self, numbers: Iterable[int], priority: int, speed: float = 1.0) -> None:
        for started in self.grant(numbers, priority):
            self.speed[started], self.served[started] = speed, 0.0
            self.am.began(started, self.now_s)

    def end(self, number: int, exit_status: int) -> None:
        self.speed.pop(name(number), None)
        self.am.answered(
            y.AllocateResponseProto(completed_container_statuses=[status(number, exit_status)]), self.now_s
        )

    def pass_by(self, seconds: float, step_s: float = 0.125) -> None:
        for _ in range(round(seconds / step_s)):
            self.now_s += step_s
            for running, speed in self.speed.items():
                self.served[running] += step_s * speed
            self.am.advance(self.now_s, lambda _, cid: self.served[cid] if cid in self.speed else None)


def asked(am: ApplicationAm) -> dict[int, tuple[int, int]]:
    request = am.request()
    return (
        {row.priority.priority: (row.num_containers, row.capability.memory) for row in request.ask} if request else {}
    )


def test_all_is_asked_for_at_once_and_once() -> None:
    world = World()
    assert asked(world.am) == {CORE_PRIORITY: (3, 2048), ELASTIC_PRIORITY: (4, 1024)}
    assert world.am.request() is None
    assert SPEC.tags == ("core:10=3", "runtime_s:10.000")
    world.run((1, 2), CORE_PRIORITY)
    assert world.am.request() is None, "grants count down at the ResourceManager too"
    world.am.resync()
    assert asked(world.am) == {CORE_PRIORITY: (1, 2048), ELASTIC_PRIORITY: (4, 1024)}


def test_no_work_is_done_before_all_core_components_run() -> None:
    world = World()
    world.run((1, 2), CORE_PRIORITY)
    world.run((4, 5, 6, 7), ELASTIC_PRIORITY)
    world.pass_by(5)
    assert world.am.left_s == SPEC.work_s == 50
    assert (world.record.first_core_s, world.record.began_s) == (0, None)
    world.run((3,), CORE_PRIORITY)
    world.pass_by(10)
    assert world.record.began_s == 5
    assert world.record.ended_s == 15, "with all components it takes its runtime"
    assert world.am.over and not world.am.broken
    assert world.grant((8,), ELASTIC_PRIORITY) == [] and world.am.surplus == 1


@pytest.mark.parametrize(("elastic", "ends_s"), ((0, 50), (1, 25), (4, 10)))
def test_two_core_components_coordinate(elastic: int, ends_s: float) -> None:
    world = World()
    world.run((1, 2, 3), CORE_PRIORITY)
    world.run(range(4, 4 + elastic), ELASTIC_PRIORITY)
    world.pass_by(60)
    assert world.record.ended_s == ends_s


def test_all_core_components_of_a_rigid_application_work_and_the_slowest_sets_the_pace() -> None:
    spec = ApplicationSpec(1, 0.0, "batch-rigid", core=3, elastic=0, core_mb=1024, elastic_mb=1024, runtime_s=10.0)
    world = World(spec)
    assert asked(world.am) == {CORE_PRIORITY: (3, 1024)}
    world.run((1, 2), CORE_PRIORITY)
    world.run((3,), CORE_PRIORITY, speed=0.5)
    world.pass_by(30)
    assert world.record.ended_s == 20


def test_a_shrunk_elastic_component_does_its_share() -> None:
    world = World()
    world.run((1, 2, 3), CORE_PRIORITY)
    world.run((4,), ELASTIC_PRIORITY, speed=0.25)
    world.pass_by(4)
    assert world.am.left_s == pytest.approx(50 - 4 * 1.25)


@pytest.mark.parametrize(("exit_status", "preempted", "otherwise"), ((-102, 1, 0), (-100, 0, 1)))
def test_an_elastic_component_that_ends_is_asked_for_again(exit_status: int, preempted: int, otherwise: int) -> None:
    world = World()
    world.am.request()
    world.run((1, 2, 3), CORE_PRIORITY)
    world.run((4, 5, 6, 7), ELASTIC_PRIORITY)
    world.pass_by(2)
    world.end(5, exit_status)
    assert (world.record.preempted, world.record.lost_elastic, world.record.lost_core) == (preempted, otherwise, 0)
    assert asked(world.am) == {ELASTIC_PRIORITY: (1, 1024)}
    world.pass_by(2)
    assert world.am.left_s == 50 - 2 * 5 - 2 * 4
    assert not world.record.errors, "it is no failure"


def test_a_lost_core_component_stops_the_work_until_it_is_back() -> None:
    world = World()
    world.am.request()
    world.run((1, 2, 3), CORE_PRIORITY)
    world.run((4, 5, 6, 7), ELASTIC_PRIORITY)
    world.pass_by(2)
    world.speed.pop(name(2))
    world.pass_by(3)
    assert world.am.left_s == 40, "its process is gone, which YARN has still to report"
    world.end(2, -100)
    assert world.record.lost_core == 1
    assert asked(world.am) == {CORE_PRIORITY: (1, 2048)}
    world.run((8,), CORE_PRIORITY)
    world.pass_by(8)
    assert world.record.ended_s == 13
    assert [span.ended_s for span in world.record.spans if span.ended_s is not None] == [2.125]


def test_what_cannot_be_started_is_released_and_asked_for_again() -> None:
    world = World()
    world.am.request()
    world.grant((1,), CORE_PRIORITY)
    world.am.refused(name(1), "no room", 0.0)
    request = world.am.request()
    assert request is not None and [one.id for one in request.release] == [1]
    assert [row.num_containers for row in request.ask] == [3]
    assert "no room" in world.record.errors[0]
    world.am.resync()
    assert asked(world.am) == {CORE_PRIORITY: (3, 2048), ELASTIC_PRIORITY: (4, 1024)}
    for number in range(2, 102):
        world.grant((number,), CORE_PRIORITY)
        world.am.refused(name(number), "no room", 0.0)
    assert world.am.over and "101 containers failed" in world.am.broken


def test_more_containers_than_asked_for_are_released() -> None:
    world = World()
    world.am.request()
    assert len(world.grant(range(1, 6), CORE_PRIORITY)) == 3
    request = world.am.request()
    assert request is not None and [one.id for one in request.release] == [4, 5]
    assert world.am.surplus == 2


@pytest.mark.parametrize(("core", "coordinators", "runtime_s"), ((2, 2, 1.0), (0, 0, 1.0), (3, 2, 0.0)))
def test_an_application_that_could_not_work_is_refused(core: int, coordinators: int, runtime_s: float) -> None:
    with pytest.raises(ValueError, match="at least one core component works"):
        ApplicationSpec(1, 0.0, "x", core, 1, 1, 1, runtime_s, coordinators)


@given(st.lists(st.integers(0, 6), max_size=40))
def test_each_component_is_held_or_asked_for(choices: list[int]) -> None:
    """Whatever ends: those held and those asked for are as many as the application has."""
    world, serial = World(), 0
    outstanding = {CORE_PRIORITY: 3, ELASTIC_PRIORITY: 4}
    held: list[tuple[int, int]] = []
    world.am.request()
    for choice in choices:
        priority = CORE_PRIORITY if choice % 2 else ELASTIC_PRIORITY
        if choice < 4 and outstanding[priority]:
            serial += 1
            outstanding[priority] -= 1
            held.append((serial, priority))
            world.run((serial,), priority)
        elif held:
            number, priority = held.pop(choice % len(held))
            world.end(number, -102)
            outstanding[priority] += 1
        for at, (count, _) in asked(world.am).items():
            assert count == outstanding[at]
    assert world.am.running(core=True) + outstanding[CORE_PRIORITY] == 3
    assert world.am.running(core=False) + outstanding[ELASTIC_PRIORITY] == 4
