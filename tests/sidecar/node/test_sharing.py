"""Playbooks of a node whose containers share its cores: more run than there are cores, and none is killed for CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.common.shrinking import Overcommit
from policies.model import Resources, Way
from policies.preempt.las import POLICY
from policies.preempt.las import Las as LasSettings
from quicksilver.common.messages import ContainerState, EventKind, Report, Targets
from sidecar.cpu_sharing.events import Freeze, ReadyContainer, Resized, Restore, Served, Shrink, Squeezed
from sidecar.node.container import Rules
from sidecar.node.events import (
    Adopted,
    Answered,
    Arrived,
    Drain,
    Dying,
    Ended,
    Forward,
    Granted,
    Kill,
    KillAsked,
    Launch,
    LetGo,
    Outcome,
    Physical,
    ReportEvent,
    Retuned,
    SessionUp,
    Targeted,
    Tick,
    Unwatch,
    Watch,
)
from sidecar.node.node import SidecarNode
from sidecar.node.node_policies import NodePolicies
from sidecar.node.report_view import container, containers, fill_report, picture
from sidecar.node.sharing import Sharing
from sidecar.node.wait_reason import obstacle
from tests.sidecar.words import APP, ATTEMPT, arrived, by_arrival, grant, reports, start

GOOD = (Outcome.STARTED, "")


def shared(memory_mb: int = 8192, cores: int = 2, extra: float = 2, **more: Any) -> SidecarNode:
    """Return a node of `cores` that starts so many `extra`, quantum 10 s."""
    chosen = {name: more.pop(name) for name in ("by_type", "by_job") if name in more}
    settings = LasSettings(quantum_s=10, extra=extra, **({"by_type": {}} | chosen))
    base: dict[str, Any] = {"reserve_mb": 0, "settle_s": 0.0, "nm_vcores": 100}
    rules = Rules(Resources(memory_mb, cores), shares_cpu=True, extra_vcores=extra, **(base | more))
    return SidecarNode(
        rules,
        NodePolicies(by_arrival, lambda need, run, at: POLICY.decide(need, run, settings, at)),
        Sharing(settings, rules),
    )


def run(node: SidecarNode, name: str, now_s: float, **fields: Any) -> list[object]:
    """Bring a queueable container to the point where it runs; return what the node answered to `ReadyContainer`."""
    node.handle(SessionUp(ATTEMPT, now_s))
    node.handle(Granted((grant(name, **fields),), now_s))
    node.handle(arrived(name, now_s))
    node.handle(Answered(name, *GOOD, now_s))
    return list(node.handle(ReadyContainer(name, now_s)))


OTHER = {"app_id": "application_1_0002", "attempt_id": "appattempt_1_0002_000001"}


def run_other(node: SidecarNode, name: str, now_s: float) -> None:
    """Bring a queueable container of another application to the point where it runs."""
    node.handle(SessionUp(OTHER["attempt_id"], now_s))
    node.handle(Granted((grant(name, **OTHER),), now_s))
    node.handle(Arrived(replace(start(name), **OTHER), now_s))
    node.handle(Answered(name, *GOOD, now_s))
    node.handle(ReadyContainer(name, now_s))


def full(**more: Any) -> SidecarNode:
    """Return a node of 2 cores with a, b (running), c, d; who came later preempted who had attained most."""
    node = shared(**more)
    for at_s, name in enumerate("abcd"):
        run(node, name, at_s)
        for command in ("a", "b", "c", "d"):
            node.handle(Resized(command, "", at_s))
    return node


def test_more_start_than_there_are_cores_and_the_next_waits() -> None:
    node = full()
    assert {e.id for e in node.state.using()} == {"a", "b", "c", "d"}
    node.handle(Granted((grant("e"),), 5))
    commands = node.handle(arrived("e", 5))
    assert not [c for c in commands if isinstance(c, Launch)]
    assert obstacle(node.room, Resources(1024, 1), 5).startswith("waits for vcores")
    assert [c for c in node.handle(Ended("d", 6)) if isinstance(c, Launch)] == [Launch("e", ATTEMPT, b"launch")]


def waiting_for_a_core(**fields: Any) -> SidecarNode:
    """Return a node of 2 cores on which a and b run, and c arrived at 5 and waits for a core for 3 s."""
    node = shared()
    run(node, "a", 0)
    run(node, "b", 1)
    node.handle(Granted((grant("c", core_wait_s=3.0, **fields),), 5))
    assert not [one for one in node.handle(arrived("c", 5)) if isinstance(one, Launch)]
    return node


def test_a_container_that_was_bound_ahead_starts_on_the_core_that_comes_free() -> None:
    node = waiting_for_a_core()
    waiting = next(one for one in containers(node, 5.5) if one.container_id == "c")
    assert (waiting.state, waiting.why.partition(";")[0]) == (ContainerState.WAITING, "waits for a core")
    commands = node.handle(Ended("a", 6))
    assert Launch("c", ATTEMPT, b"launch") in commands
    assert not [one for one in node.handle(ReadyContainer("c", 6)) if isinstance(one, Shrink)], "nobody gave way"


def test_a_container_that_waited_for_a_core_in_vain_goes_back() -> None:
    node = waiting_for_a_core()
    assert node.deadline_s() == 8
    assert node.handle(Tick(7.9)) == []
    commands = node.handle(Tick(8))
    assert not [one for one in commands if isinstance(one, Launch | Shrink)]
    (shed,) = (one.event for one in commands if isinstance(one, ReportEvent))
    assert (shed.kind, shed.cause, shed.waited_s) == (EventKind.SHED, "late", 3.0)
    assert (node.held_starts.deadline_s(), picture(node, 8)["ahead"]) == (None, 0)


def test_a_start_beyond_the_cores_overtakes_one_that_waits_for_a_core() -> None:
    node = waiting_for_a_core()
    assert (picture(node, 5.5)["ahead"], picture(node, 5.5)["queue_length"]) == (1, 1)
    node.handle(Granted((grant("d"), grant("e")), 6))
    assert [one for one in node.handle(arrived("d", 6)) if isinstance(one, Launch)] == [Launch("d", ATTEMPT, b"launch")]
    assert not [one for one in node.handle(Ended("a", 7)) if isinstance(one, Launch)], "d has that core now"
    assert Launch("c", ATTEMPT, b"launch") in node.handle(Ended("b", 7.5))
    assert picture(node, 7.5)["ahead"] == 0


def test_a_start_that_was_shed_waits_for_no_core_any_more() -> None:
    node = waiting_for_a_core()
    node.handle(Drain(True, "upgrade", 5))
    assert node.held_starts.deadline_s() is None
    assert picture(node, 5)["ahead"] == 0


def test_a_newcomer_preempts_who_has_attained_most_and_a_freed_core_goes_to_the_least() -> None:
    node = shared()
    assert run(node, "a", 0) == [] and run(node, "b", 1) == []
    (shrink,) = run(node, "c", 5)
    assert isinstance(shrink, Shrink) and (shrink.container_id, shrink.by) == ("a", "c") and shrink.cores == 0.05
    node.handle(Resized("a", "", 5))
    commands = node.handle(Ended("b", 6))
    assert [type(c) for c in commands if not isinstance(c, type(reports(1, "b", EventKind.ENDED, 6)))] == [
        Unwatch,
        Restore,
    ]
    assert node.state.sharing.shares()["a"].times_shrunk == 1


def test_a_guaranteed_start_shrinks_at_once_and_kills_nobody() -> None:
    node = full()
    running = {cid for cid, share in node.state.sharing.shares().items() if share.running}
    assert len(running) == 2
    commands = node.handle(arrived("g", 10, q=False))
    assert not [c for c in commands if isinstance(c, Kill)]
    shrunk = [c for c in commands if isinstance(c, Shrink)]
    assert len(shrunk) == 1 and shrunk[0].container_id in running and shrunk[0].by == "g"
    assert commands.index(shrunk[0]) < commands.index(Forward("g")), "room is made before the start goes on"


def test_a_guaranteed_start_kills_only_for_memory_who_attained_least() -> None:
    node = full(memory_mb=4096)
    node.handle(Served({"a": 9.0, "b": 1.0, "c": 5.0, "d": 3.0}, 10))
    commands = node.handle(arrived("g", 10, q=False))
    assert [c.container_id for c in commands if isinstance(c, Kill)] == ["b"]
    assert Forward("g") not in commands
    assert LetGo("b") in commands and commands.index(LetGo("b")) < commands.index(Kill("b", ATTEMPT))
    assert "b" not in node.state.sharing.shares()


def test_beyond_what_the_nodemanager_believes_the_sidecar_chooses_who_is_killed() -> None:
    node = full(nm_vcores=4)
    node.handle(Served({"a": 9.0, "b": 1.0, "c": 5.0, "d": 3.0}, 10))
    commands = node.handle(arrived("g", 10, q=False))
    assert [c.container_id for c in commands if isinstance(c, Kill)] == ["b"], "else the NodeManager kills the newest"


def test_queueable_ones_stay_within_what_the_nodemanager_believes() -> None:
    node = shared(nm_vcores=3)
    for name in "abc":
        run(node, name, 0)
    node.handle(Granted((grant("d"),), 1))
    assert not [c for c in node.handle(arrived("d", 1)) if isinstance(c, Launch)]


def test_a_dying_container_is_let_go_so_that_it_can_end() -> None:
    node = full()
    small = next(iter(node.state.sharing.las.shrunk())) if node.state.sharing.las else ""
    commands = node.handle(Dying(small, 10))
    assert LetGo(small) in commands and small not in node.state.sharing.shares()
    assert node.handle(Dying(small, 11)) == [], "once"


def test_memory_that_runs_short_stops_starts_and_a_chosen_one_is_killed() -> None:
    node = shared()
    run(node, "a", 0)
    node.handle(Squeezed(True, "100 MB free", 1))
    node.handle(Granted((grant("b"),), 1))
    assert not [c for c in node.handle(arrived("b", 1)) if isinstance(c, Launch)]
    assert obstacle(node.room, Resources(1024, 1), 1) == "waits for physical memory: 100 MB free"
    commands = node.handle(KillAsked("a", "memory runs out", 2))
    assert Kill("a", ATTEMPT) in commands and LetGo("a") in commands
    assert node.handle(KillAsked("a", "again", 3)) == [] and node.handle(KillAsked("x", "unknown", 3)) == []
    assert [c for c in node.handle(Squeezed(False, "", 4)) if isinstance(c, Launch)], "room again: the head starts"


def test_application_masters_and_types_that_are_left_alone_are_never_shrunk() -> None:
    node = shared(by_type={"SPARK": Way.NONE}, am_vcores=0.5)
    node.handle(arrived("am", 0, q=False, am=True))
    run(node, "s", 1, app_type="spark")
    run(node, "q", 2)
    ways = {cid: (share.way, share.vcores) for cid, share in node.state.sharing.shares().items()}
    assert ways == {"am": (Way.NONE, 0.5), "s": (Way.NONE, 1), "q": (Way.SHRINK, 1)}
    share = node.state.sharing.shares()["q"]
    assert share.cores == pytest.approx(0.5), "what the others left"


def test_opportunistic_ones_of_before_are_shared_too() -> None:
    node = shared()
    commands = node.handle(Adopted("old", APP, Resources(1024, 1), True, 0))
    assert Watch("old", APP) in commands and node.state.sharing.shares()["old"].way is Way.SHRINK
    node.handle(Adopted("g", APP, Resources(1024, 1), False, 0))
    assert node.state.sharing.shares()["g"].way is Way.NONE


def test_time_is_wanted_for_the_quantum() -> None:
    node = full()
    at_s = node.deadline_s()
    assert at_s is not None and at_s <= 13
    before = node.state.sharing.las.shrunk() if node.state.sharing.las else set()
    commands = node.handle(Tick(at_s + 10))
    assert [type(c) for c in commands].count(Restore) >= 1 and before


def test_what_people_see_of_a_shrunk_container() -> None:
    node = full()
    assert node.state.sharing.las is not None
    small = sorted(node.state.sharing.las.shrunk())[0]
    seen = container(node, small, 10)
    assert seen is not None and seen.state is ContainerState.SHRUNK
    assert (seen.cores, seen.times_shrunk, seen.shrunk_by != "", seen.why != "") == (0.05, 1, True, True)
    base = Report(node_id="n:1", boot="b", seq=1, sidecar_url="http://n", memory_mb=1, vcores=1)
    report = fill_report(base, node, 10)
    assert report.slots == 4 and report.attained_sd_s > 0
    assert sorted(c.state for c in report.containers) == ["running", "running", "shrunk", "shrunk"]


def test_service_is_unknown_until_a_container_is_attached() -> None:
    node = shared()
    run(node, "a", 0)
    node.handle(Granted((grant("b"),), 9))
    node.handle(arrived("b", 9))
    node.handle(Answered("b", *GOOD, 9))

    def attained_s(name: str) -> float | None:
        seen = container(node, name, 10)
        assert seen is not None
        return seen.attained_s

    assert attained_s("a") is not None
    assert attained_s("b") is None, "0 would be read as idle"
    node.handle(ReadyContainer("b", 10))
    assert attained_s("b") == 0.0


def test_freezing_is_a_command_of_its_own() -> None:
    node = shared(by_type={"MAPREDUCE": Way.FREEZE})
    for at_s, name in enumerate("abc"):
        commands = run(node, name, at_s, app_type="MAPREDUCE")
    assert [type(c) for c in commands] == [Freeze]


def test_without_a_shrinking_policy_nothing_is_shared() -> None:
    rules = Rules(Resources(8192, 2), reserve_mb=0, settle_s=0.0)
    node = SidecarNode(rules, NodePolicies(by_arrival, lambda need, run, at: []))
    assert run(node, "a", 0) == [] and node.state.sharing.shares() == {} and node.state.sharing.spread_s() == 0
    assert node.state.sharing.deadline_s() is None


def test_the_end_of_a_container_tells_what_shrinking_saved_and_for_whom() -> None:
    node = shared()
    run_other(node, "a", 0)
    for at_s, name in enumerate("bcd", 1):
        run(node, name, at_s)
        for each in "abcd":
            node.handle(Resized(each, "", at_s))
    node.handle(Served({"a": 7.0, "b": 1.0, "c": 5.0, "d": 3.0}, 10))
    share = node.state.sharing.shares()["a"]
    by, saved_s = share.last_by, round(share.saved_s, 3)
    (end,) = [c.event for c in node.handle(Ended("a", 12)) if isinstance(c, ReportEvent)]
    assert (end.kind, end.times_shrunk, end.cause) == (EventKind.ENDED, 1, by) and by in ("c", "d")
    assert end.saved_s == saved_s and 0 < end.saved_s < 7.0
    assert end.attained_s is not None and end.attained_s >= 7.0


def test_a_kill_saves_nothing_and_names_its_cause() -> None:
    node = full()
    node.handle(KillAsked("a", "memory is short", 9))
    node.handle(KillAsked("b", "memory is short", 9))
    events = [c.event for c in node.handle(KillAsked("c", "memory is short", 9)) if isinstance(c, ReportEvent)]
    assert [(e.kind, e.cause, e.saved_s) for e in events] == [(EventKind.KILLED, "memory", 0.0)]


def of_two_jobs(**more: Any) -> SidecarNode:
    """Return a node of 2 cores: a of one job attained 9 s, b of another one nothing."""
    node = shared(**more)
    run(node, "a", 0)
    node.handle(SessionUp(OTHER["attempt_id"], 0))
    node.handle(Granted((grant("b", **OTHER),), 0))
    node.handle(Arrived(replace(start("b"), **OTHER), 0))
    node.handle(Answered("b", *GOOD, 0))
    node.handle(ReadyContainer("b", 0))
    node.handle(Served({"a": 9.0, "b": 0.0}, 9))
    return node


@pytest.mark.parametrize(("by_job", "gives_way"), [(True, "b"), (False, "a")])
@pytest.mark.parametrize("q", [True, False])
def test_a_container_of_the_job_with_the_most_service_over_all_nodes_gives_way(
    by_job: bool, gives_way: str, q: bool
) -> None:
    node = of_two_jobs(by_job=by_job)
    told = Targets(job_attained_s={APP: 9.0, OTHER["app_id"]: 5_000.0})
    assert node.handle(Targeted(told, (), (), 9)) == []
    commands = run(node, "n", 10) if q else node.handle(arrived("g", 10, q=False))
    assert [c.container_id for c in commands if isinstance(c, Shrink)] == [gives_way]


def test_of_a_job_that_is_spared_no_more_containers_give_way() -> None:
    node = of_two_jobs(by_job=True)
    told = Targets(job_attained_s={APP: 9.0, OTHER["app_id"]: 5_000.0}, spared=[OTHER["app_id"]])
    node.handle(Targeted(told, (), (), 9))
    assert [c.container_id for c in run(node, "n", 10) if isinstance(c, Shrink)] == ["a"]


def test_answers_of_an_older_proxy_leave_the_containers_own_service() -> None:
    node = of_two_jobs(by_job=True)
    node.handle(Targeted(Targets(), (), (), 9))
    assert [c.container_id for c in run(node, "n", 10) if isinstance(c, Shrink)] == ["a"]


def overcommitted(free_mb: int | None, **more: Any) -> SidecarNode:
    """Return a node that is full by allocation: 4 containers of 1 GB, so much memory not used; NodeManager: 6 GB."""
    node = full(**({"memory_mb": 4096, "overcommit": True, "nm_memory_mb": 6144} | more))
    if free_mb is not None:
        node.handle(Physical(free_mb, 10))
    return node


def kills(commands: list[Any]) -> int:
    return sum(isinstance(command, Kill) for command in commands)


def test_a_guaranteed_start_shrinks_in_place_of_kills_where_memory_is_allocated_and_not_used() -> None:
    node = overcommitted(1024)
    commands = node.handle(arrived("g", 10, q=False))
    assert kills(commands) == 0 and Forward("g") in commands
    assert [type(c) for c in commands if isinstance(c, Shrink | Restore)] == [Shrink]


@pytest.mark.parametrize(
    ("free_mb", "more"),
    [
        (1023, {}),
        (None, {}),
        (1535, {"reserve_mb": 512}),
        (9000, {"nm_memory_mb": 5119}),
        (9000, {"nm_memory_mb": None}),
        (9000, {"overcommit": False}),
    ],
    ids=["used", "not measured", "reserved", "beyond the NodeManager's", "unknown NodeManager", "off"],
)
def test_else_it_kills(free_mb: int | None, more: dict[str, Any]) -> None:
    node = overcommitted(free_mb, **more)
    commands = node.handle(arrived("g", 10, q=False))
    assert kills(commands) == 1 and Forward("g") not in commands


def test_while_the_memory_guard_squeezes_a_guaranteed_start_kills() -> None:
    node = overcommitted(9000)
    node.handle(Squeezed(True, "everything stalls for memory", 10))
    assert kills(node.handle(arrived("g", 10, q=False))) == 1
    node.handle(Ended("a", 11))
    node.handle(Squeezed(False, "", 12))
    assert kills(node.handle(arrived("h", 13, q=False))) == 0


def test_a_guaranteed_start_that_does_not_show_in_the_measurement_yet_counts() -> None:
    node = overcommitted(1500, settle_s=2.0)
    assert kills(node.handle(arrived("g", 10, q=False))) == 0
    assert kills(node.handle(arrived("h", 11, q=False))) == 1
    node = overcommitted(1500, settle_s=2.0)
    node.handle(arrived("g", 10, q=False))
    node.handle(Physical(1500, 13))
    assert kills(node.handle(arrived("h", 13, q=False))) == 0, "it uses little"


def test_the_memory_guard_still_stops_queueable_containers() -> None:
    node = overcommitted(1024)
    node.handle(arrived("g", 10, q=False))
    assert kills(node.handle(KillAsked("a", "memory runs out", 11))) == 1


def test_queueable_containers_stay_within_the_capacity() -> None:
    node = overcommitted(9000, extra=4)
    node.handle(Granted((grant("e"),), 10))
    assert not [c for c in node.handle(arrived("e", 10)) if isinstance(c, Launch)]


def test_settings_that_are_read_again_change_what_counts_as_free() -> None:
    node = overcommitted(9000, overcommit=False)
    settings = LasSettings(quantum_s=10, extra=2, by_type={}, overcommit=Overcommit.MEASURED)
    node.handle(Retuned(settings, 10))
    assert kills(node.handle(arrived("g", 11, q=False))) == 0
