"""The emulated NodeManager starts, queues, kills and sheds as ContainerScheduler of Hadoop 3.4.2."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver_lab.bench.emulator.nodes.nm import NmPhase, NodeManager
from quicksilver_lab.bench.emulator.nodes.nm_events import (
    BY_APPMASTER,
    KILLED_AFTER_APP_COMPLETION,
    KILLED_BY_APPMASTER,
    KILLED_BY_CONTAINER_SCHEDULER,
    AppOver,
    Command,
    Done,
    Event,
    Exited,
    Launched,
    Limited,
    NmAsked,
    NmKill,
    NmKillOver,
    NmLaunch,
    NmSize,
    NmStart,
    NmStop,
    Retyped,
    RunProcess,
)
from tests.playbook import play

ONE = NmSize(1024, 1)
SCHEDULER = KILLED_BY_CONTAINER_SCHEDULER


def asked(name: str, opportunistic: bool = False, size: NmSize = ONE) -> NmAsked:
    return NmAsked(name, name[0], size, opportunistic, runs_s=2.0)


def node(slots: int = 2, queue: int = 3) -> NodeManager:
    return NodeManager(NmSize(slots * 1024, slots), queue)


def test_a_container_runs_to_its_end_and_is_told() -> None:
    nm = node()
    play(
        nm,
        (NmStart(asked("a"), 0), [NmLaunch("a")]),
        (Launched("a", 0.5), [RunProcess("a", 2.0)]),
        (Exited("a", 2.5), [Done("a", 0, 2.0)]),
    )
    assert nm.containers["a"].phase is NmPhase.DONE and (nm.used_mb, nm.used_vcores) == (0, 0)
    assert nm.forget(["a"]) == [] and not nm.containers


def test_opportunistic_ones_wait_in_order_of_arrival_and_the_queue_has_an_end() -> None:
    nm = node(slots=1, queue=2)
    play(
        nm,
        (NmStart(asked("a", True), 0), [NmLaunch("a")]),
        (NmStart(asked("b", True), 1), []),
        (NmStart(asked("c", True), 1), []),
        (NmStart(asked("d", True), 1), [Done("d", SCHEDULER, 0.0)]),
        (Launched("a", 1), [RunProcess("a", 2.0)]),
        (Exited("a", 3), [Done("a", 0, 2), NmLaunch("b")]),
        (NmStop("c", KILLED_BY_APPMASTER, BY_APPMASTER, 3), [Done("c", KILLED_BY_APPMASTER, 0.0)]),
    )
    assert nm.containers["d"].diagnostics.startswith("Opportunistic container queue is full.")


def test_without_a_queue_a_guaranteed_one_starts_at_once_and_an_opportunistic_one_dies() -> None:
    play(
        node(slots=1, queue=0),
        (NmStart(asked("a"), 0), [NmLaunch("a")]),
        (NmStart(asked("b"), 0), [NmLaunch("b")]),
        (NmStart(asked("c", True), 0), [Done("c", SCHEDULER, 0.0)]),
    )


def test_a_guaranteed_one_kills_the_newest_opportunistic_ones_and_waits_for_their_end() -> None:
    nm = node(slots=3)
    for name in ("a", "b", "c"):
        nm.handle(NmStart(asked(name, True), 0))
        nm.handle(Launched(name, 0))
    play(
        nm,
        (NmStart(asked("x", size=NmSize(2048, 2)), 1), [NmKill("c"), NmKill("b")]),
        (NmStart(asked("y"), 1), [NmKill("a")]),  # b and c are dying for x
        (NmStart(asked("z"), 1), []),  # nothing is left to kill
        (NmKillOver("c", 2), [Done("c", SCHEDULER, 2)]),
        (Exited("b", 2), []),  # its process went with the kill
        (NmKillOver("b", 2), [Done("b", SCHEDULER, 2), NmLaunch("x")]),
        (NmKillOver("a", 3), [Done("a", SCHEDULER, 3), NmLaunch("y")]),
    )
    assert (nm.counts.killed_for_room, nm.counts.work_lost_s) == (3, 7)


def test_opportunistic_ones_do_not_pass_a_guaranteed_one_that_waits() -> None:
    play(
        node(slots=2),
        (NmStart(asked("a"), 0), [NmLaunch("a")]),
        (NmStart(asked("b", size=NmSize(2048, 2)), 0), []),
        (NmStart(asked("c", True), 0), []),
        (Launched("a", 0), [RunProcess("a", 2.0)]),
        (Exited("a", 2), [Done("a", 0, 2), NmLaunch("b")]),
    )


def test_a_container_that_is_killed_before_its_process_began_never_begins() -> None:
    play(
        node(),
        (NmStart(asked("a"), 0), [NmLaunch("a")]),
        (NmStop("a", KILLED_BY_APPMASTER, BY_APPMASTER, 0.1), [NmKill("a")]),
        (Launched("a", 0.2), []),
        (NmKillOver("a", 0.3), [Done("a", KILLED_BY_APPMASTER, 0.0)]),
        (NmStop("a", KILLED_BY_APPMASTER, BY_APPMASTER, 1), []),
        (NmStop("nobody", KILLED_BY_APPMASTER, BY_APPMASTER, 1), []),
    )


def test_the_limit_sheds_from_the_end_of_the_queue() -> None:
    nm = node(slots=1)
    for name in ("a", "b", "c", "d"):
        nm.handle(NmStart(asked(name, True), 0))
    play(
        nm,
        (Limited(-1, 1), []),
        (Limited(1, 1), [Done("c", SCHEDULER, 0.0), Done("d", SCHEDULER, 0.0)]),
        (Limited(1, 1), []),
    )
    assert list(nm.opportunistic) == ["b"] and nm.counts.shed == 2


def test_a_promoted_one_goes_before_and_makes_room() -> None:
    nm = node(slots=1)
    for name in ("a", "b", "c"):
        nm.handle(NmStart(asked(name, True), 0))
    play(nm, (Retyped("c", False, 1), [NmKill("a")]), (NmKillOver("a", 1), [Done("a", SCHEDULER, 0.0), NmLaunch("c")]))
    assert not nm.containers["c"].opportunistic


def test_what_is_left_of_an_application_ends_with_it() -> None:
    nm = node(slots=1)
    nm.handle(NmStart(asked("a1"), 0))
    nm.handle(NmStart(asked("a2"), 0))
    nm.handle(NmStart(asked("b1"), 0))
    over = KILLED_AFTER_APP_COMPLETION
    play(
        nm,
        (AppOver("a", 1), [NmKill("a1"), Done("a2", over, 0.0)]),
        (NmKillOver("a1", 1), [Done("a1", over, 0.0), NmLaunch("b1")]),
    )


class Shell:
    """Does at once, or later, what a NodeManager wants done, and keeps count on its own."""

    def __init__(self, nm: NodeManager) -> None:
        self.nm = nm
        self.due: list[Event] = []
        self.done: list[str] = []
        self.holding: dict[str, NmSize] = {}

    def tell(self, event: Event) -> None:
        self.obey(self.nm.handle(event))

    def obey(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case NmLaunch(name):
                    assert name not in self.holding
                    self.holding[name] = self.nm.containers[name].spec.size
                    self.due.append(Launched(name, 1))
                case RunProcess(name):
                    self.due.append(Exited(name, 2))
                case NmKill(name):
                    self.due.append(NmKillOver(name, 2))
                case Done(name):
                    self.done.append(name)
                    self.holding.pop(name, None)


@given(st.data(), st.integers(0, 4), st.integers(1, 4))
def test_each_container_ends_once_and_nothing_runs_beyond_the_node(data: st.DataObject, queue: int, slots: int) -> None:
    shell = Shell(node(slots, queue))
    names = [f"{data.draw(st.sampled_from('gq'))}{number}" for number in range(data.draw(st.integers(1, 12)))]
    for name in names:
        vcores = data.draw(st.integers(1, slots))
        shell.tell(NmStart(asked(name, name[0] == "q", NmSize(1024 * vcores, vcores)), 0))
        for _ in range(data.draw(st.integers(0, 3))):
            if shell.due:
                shell.tell(shell.due.pop(data.draw(st.integers(0, len(shell.due) - 1))))
        if data.draw(st.booleans()):
            shell.tell(Limited(data.draw(st.integers(-1, 3)), 1))
        if queue:  # without one guaranteed containers start whatever room there is
            assert sum(size.vcores for size in shell.holding.values()) <= slots
    while shell.due:
        shell.tell(shell.due.pop(0))
    assert sorted(shell.done) == sorted(names)
    nm, counts = shell.nm, shell.nm.counts
    assert (nm.used_mb, nm.used_vcores, nm.running, nm.guaranteed, nm.opportunistic) == (0, 0, {}, {}, {})
    assert counts.succeeded + counts.killed_for_room + counts.queue_full + counts.shed == len(names)
    assert all(c.exit_status in (0, SCHEDULER) for c in nm.containers.values())
    assert not any(name[0] == "g" and nm.containers[name].exit_status for name in names)


@pytest.mark.parametrize(("size", "fits"), [(NmSize(2048, 1), True), (NmSize(2049, 1), False), (NmSize(1, 3), False)])
def test_room_is_memory_and_vcores(size: NmSize, fits: bool) -> None:
    assert node(slots=2).has_room(size) is fits
