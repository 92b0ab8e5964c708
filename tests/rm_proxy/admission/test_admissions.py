"""Whole applications through the proxy: core guaranteed, elastic queueable within shares, others wait."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from policies.config.policy_set import Policies
from policies.model import Resources
from quicksilver.common.messages import ContainerEvent, EventKind
from rm_proxy.admission.admissions import CORE_WAIT_S, NEXT_MASTER_S
from rm_proxy.api.admission_views import admission_info
from rm_proxy.attempt.snapshot import Snapshot
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.yarn.models import YarnQueue
from tests.rm_proxy.admission.apps import ZOE, App, app, cluster, reported, wants
from tests.rm_proxy.yarn_messages import container, node_id, report, row


def zoe(policy: str = "flexible", **settings: Any) -> Coordinator:
    return cluster({**ZOE, "admit": {"policy": policy, "settings": settings}})


def beats(now_s: float, *apps: App) -> None:
    for one in apps:
        one.beat(now_s)


def shares(world: Coordinator) -> dict[int, int | None]:
    """Return by application its elastic share; None while it waits."""
    return {
        int(known.app.id[-4:]): None if known.entered_s is None else sum(known.shares.values())
        for known in world.admissions.apps.values()
    }


def test_core_goes_guaranteed_and_elastic_queueable_within_the_share() -> None:
    world = zoe()  # room for 24
    one = app(world, 2, "core:10=3")
    assert one.beat(1, *wants(3, 30)) == (3, 21)
    assert shares(world) == {2: 21}
    assert one.beat(2) == (0, 0)


def test_one_that_is_not_admitted_gets_nothing_until_there_is_room_for_its_core() -> None:
    world = zoe()
    one, two = app(world, 2, "core:10=20"), app(world, 3, "core:10=6")
    assert one.beat(1, *wants(20, 0)) == (20, 0)
    for now_s in range(2, 6):
        world.rounds.all_parts(now_s)
        assert two.beat(now_s, *(wants(6, 4) if now_s == 2 else ())) == (0, 0)
    assert shares(world) == {2: 0, 3: None}
    assert world.admissions.apps[two.id].why.startswith("queue root.default has no room for 6144 MB and 6 vcores")
    one.attempt.on_finished()
    assert two.beat(7) == (6, 4)


def test_a_departure_lets_elastic_ones_make_way_and_they_are_ended_when_others_lack_their_share() -> None:
    world = zoe()
    one, two = app(world, 2, "core:10=3"), app(world, 3, "core:10=8")
    first = app(world, 1, "core:10=10")
    assert first.beat(1, *wants(10, 0)) == (10, 0)
    assert one.beat(1, *wants(3, 30)) == (3, 11)
    assert two.beat(2, *wants(8, 4)) == (0, 0), "nothing is unused"
    first.attempt.on_finished()
    assert two.beat(3) == (0, 0), "those in service can use the whole cluster: nobody else is served"
    assert one.beat(4) == (0, 10)
    one.beat(5, row("*", 1, 11))
    one.attempt.on_finished()
    assert two.beat(6) == (8, 4)


def test_over_its_share_its_newest_containers_end_for_one_that_lacks_some() -> None:
    world = zoe("preemptive")
    batch, urgent = app(world, 2, "core:10=2"), app(world, 3, "core:10=4", "class:interactive")
    assert batch.beat(1, *wants(2, 40)) == (2, 22)
    reported(world, 1, batch)
    assert urgent.beat(2, *wants(4, 6)) == (4, 6), "this place policy knows no full node"
    assert shares(world) == {2: 12, 3: 6}
    assert world.features.reclaimer.over_share() == {batch.id}
    assert not any(ack.shed for ack in reported(world, 3, batch, urgent)), "the urgent one lacks nothing"


def test_node_is_asked_to_end_containers_beyond_a_share() -> None:
    late = {**ZOE, "place": {"policy": "late"}, "admit": {"policy": "preemptive"}}
    world = cluster(late)
    batch, urgent = app(world, 2, "core:10=2"), app(world, 3, "core:10=4", "class:interactive")
    assert batch.beat(1, *wants(2, 40)) == (2, 22)
    reported(world, 1, batch)
    assert urgent.beat(2, *wants(4, 6)) == (4, 2), "core at once; nodes have room for two of the elastic ones"
    reported(world, 2, batch, urgent)
    sheds: list[str] = []
    targets: list[list[str]] = []
    for now_s in (3, 4, 5):
        world.rounds.all_parts(now_s)
        for ack in reported(world, now_s, batch, urgent):
            sheds += [shed.container_id for shed in ack.shed]
            assert all(shed.cause == "admit" for shed in ack.shed)
            targets.append(ack.targets.over_share if ack.targets is not None else [])
    newest = sorted((n for n, (kind, _) in batch.held.items() if kind == "Q"), reverse=True)[:4]
    assert sorted(sheds) == sorted(batch.container_id(n) for n in newest)
    assert [batch.id] in targets, "nodes know whose containers give way first"


def contended(**policies: Any) -> tuple[Coordinator, App, App]:
    """Return a cluster where one application has four elastic containers that another one has a right to."""
    late = {**ZOE, "place": {"policy": "late"}, "admit": {"policy": "preemptive"}}
    world = cluster({**late, **policies})
    batch, urgent = app(world, 2, "core:10=2"), app(world, 3, "core:10=4", "class:interactive")
    batch.beat(1, *wants(2, 40))
    reported(world, 1, batch)
    for live in batch.attempt.live:
        live.start(1.0)
    urgent.beat(2, *wants(4, 6))
    reported(world, 2, batch, urgent)
    return world, batch, urgent


def sheds_by_second(world: Coordinator, batch: App, urgent: App, until_s: int) -> dict[int, int]:
    """Return how many containers nodes get orders to end, by second."""
    sheds = {}
    for now_s in range(3, until_s):
        world.rounds.all_parts(now_s)
        sheds[now_s] = sum(len(ack.shed) for ack in reported(world, now_s, batch, urgent))
    return {second: count for second, count in sheds.items() if count}


def test_a_master_hears_of_containers_beyond_its_share_before_they_end() -> None:
    world, batch, urgent = contended(notice={"wait_s": 5, "type": "*"})
    assert sheds_by_second(world, batch, urgent, 9) == {}
    answer = y.AllocateResponseProto()
    assert world.hooks.news[batch.attempt.id](answer, 8.0) and urgent.attempt.id not in world.hooks.news
    contract = answer.preempt.contract
    newest = sorted((n for n, (kind, _) in batch.held.items() if kind == "Q"), reverse=True)[:4]
    assert sorted(each.id.id for each in contract.container) == sorted(newest)
    (wanted,) = (each.resource for each in contract.resource)
    assert (wanted.resource_name, wanted.num_containers, wanted.priority.priority) == ("*", 4, 11)
    assert (wanted.capability.memory, wanted.capability.virtual_cores) == (1024, 1)
    assert not answer.preempt.HasField("strictContract")
    sheds = sheds_by_second(world, batch, urgent, 12)
    assert sum(sheds.values()) == 4 and min(sheds) >= 8


def test_containers_beyond_a_share_stay_while_their_run_time_is_protected() -> None:
    world, batch, urgent = contended(protect=[{"queue": "default", "protect_s": 10}])
    sheds = sheds_by_second(world, batch, urgent, 14)
    assert sum(sheds.values()) == 4 and min(sheds) >= 11, "they started in second 1"


def test_a_lost_elastic_container_is_asked_for_again_and_a_lost_core_one_goes_guaranteed() -> None:
    world = zoe()
    one = app(world, 2, "core:10=3")
    one.beat(1, *wants(3, 2))
    (core, elastic) = (min(n for n, (kind, _) in one.held.items() if kind == wanted) for wanted in "GQ")
    one.beat(2, ended=[(core, -100), (elastic, -102)])
    assert one.beat(3, row("*", 1, 10), row("*", 1, 11)) == (1, 1)


@pytest.mark.parametrize(
    ("app_type", "first", "core"), [("SPARK", 2, 2), ("MAPREDUCE", 9, 1), ("TEZ", 9, 1), ("YARN", 9, 9)]
)
def test_core_by_framework(app_type: str, first: int, core: int) -> None:
    world = zoe()
    one = app(world, 2, app_type=app_type)
    got = one.beat(1, row("*", first, 1))
    assert got == (core, first - core)
    assert one.beat(2, row("*", 4, 1))[0] == (0 if app_type != "YARN" else 4)


def test_the_first_that_waits_holds_up_the_others() -> None:
    world = zoe()
    runs, big, small = (app(world, n, f"core:10={core}") for n, core in ((2, 20), (3, 8), (4, 2)))
    runs.beat(1, *wants(20, 0))
    assert big.beat(1, *wants(8, 0)) == small.beat(1, *wants(2, 0)) == (0, 0)
    assert world.admissions.apps[small.id].why == f"{big.id} goes before it, for which queue root.default has no room"


def test_after_a_restart_those_that_hold_containers_are_in_service() -> None:
    world = zoe()
    one, two = app(world, 2, "core:10=20"), app(world, 3, "core:10=6")
    one.beat(1, *wants(20, 3))
    two.beat(1, *wants(6, 0))
    world.admissions.clear()
    world.rounds.all_parts(2)
    assert shares(world) == {2: 3, 3: None}


def test_core_that_outlives_its_master_is_counted_once_and_stays_core() -> None:
    """Of a YARN service: the next master takes over what runs; the ResourceManager reports it as used, too."""
    world = zoe(core=[{"type": "yarn-service", "core": "initial"}])
    one = app(world, 2, app_type="yarn-service")
    assert one.beat(1, row("*", 4, 0)) == (4, 0)
    kept = [container(number, 1, row("*", priority=0)) for number in one.held]
    for each in kept:
        each.id.CopyFrom(one.proto(each.id.id))
    one.number_of_attempt, one.response_id = 2, 0
    answer = y.RegisterApplicationMasterResponseProto(containers_from_previous_attempts=kept)
    one.attempt.on_registered(answer.SerializeToString(), 1.0)
    used = YarnQueue("root.default", True, "RUNNING", Resources(24576, 24), Resources(4096, 4), frozenset(), "")
    for now_s in (1, 2):
        world.inventory.update_queues([used])
        world.rounds.all_parts(now_s)
    (info,) = admission_info(world).applications
    assert (info.state, info.core, info.core_held) == ("in service", 4, 4)
    assert world.admissions.room.total == Resources(24576, 24)
    assert one.beat(2, row("*", 3, 0)) == (0, 0)
    world.rounds.all_parts(3)
    assert one.beat(3) == (0, 3), "more than at first is elastic"


def test_policies_that_admit_none_or_tokens_change_nothing() -> None:
    world = cluster({**ZOE, "admit": {"policy": "none"}})
    one = app(world, 2, "core:10=3")
    assert one.beat(1, *wants(3, 30)) == (0, 33)
    assert world.admissions.apps == {}


def test_from_a_reload_on_applications_are_admitted() -> None:
    world = cluster({**ZOE, "admit": {"policy": "none"}})
    one, two = app(world, 2, "core:10=3"), app(world, 3, "core:10=3")
    one.beat(1, *wants(3, 0))
    world.use(Policies.load({**ZOE, "admit": {"policy": "rigid"}}), 2)
    world.rounds.all_parts(2)
    assert shares(world) == {2: 0}
    assert two.beat(3, *wants(3, 30)) == (0, 0)
    assert "smaller" in world.admissions.apps[two.id].why


def test_bad_tags_are_reported_and_count_for_nothing() -> None:
    world = zoe()
    one = app(world, 2, "core:ten=3", "runtime_s:-1", "class:urgent", "core:10=2")
    assert one.beat(1, *wants(3, 0)) == (2, 1)
    bad = [effect.tags for effect in world.take_effects() if hasattr(effect, "tags")]
    assert bad == [("class:urgent", "core:ten=3", "runtime_s:-1")]


def test_while_a_core_is_incomplete_for_long_nobody_else_is_admitted_and_the_last_of_two_goes_back() -> None:
    world = zoe()
    one, two, three = (app(world, n, "core:10=4") for n in (2, 3, 4))
    one.beat(1, *wants(4, 0), grant=False)
    two.beat(2, *wants(4, 0), grant=False)
    world.rounds.all_parts(3)
    now_s = 3 + CORE_WAIT_S + 1
    world.rounds.all_parts(now_s)
    assert three.beat(now_s, *wants(4, 0)) == (0, 0)
    assert world.admissions.apps[three.id].why == f"{one.id} is in service and waits for its core containers"
    world.rounds.all_parts(4 + 2 * CORE_WAIT_S)
    assert shares(world) == {2: 0, 3: None, 4: None}
    assert two.beat(5 + 2 * CORE_WAIT_S) == (0, 0)
    assert one.beat(6 + 2 * CORE_WAIT_S) == (4, 0)
    world.rounds.all_parts(7 + 2 * CORE_WAIT_S)
    assert two.beat(8 + 2 * CORE_WAIT_S) == (4, 0)


@pytest.mark.parametrize("comes_back", [True, False])
def test_between_two_masters_of_one_in_service_nobody_else_is_admitted(comes_back: bool) -> None:
    """The ResourceManager shows the place of the one that died as free, and a core would fit into it."""
    world = zoe()  # room for 24
    one, two = app(world, 2, "core:10=20"), app(world, 3, "core:10=4")
    one.beat(1, *wants(20, 0))
    event = ContainerEvent(seq=1, container_id=one.container_id(1), kind=EventKind.ENDED, at_s=2, am=True)
    world.reports.report(node_id(1), report(1, seq=2, events=[event]), 2)
    assert two.beat(2, *wants(4, 0)) == (0, 0)
    assert world.admissions.apps[two.id].why == f"{one.id} is in service and waits for its next application master"
    if comes_back:
        one.number_of_attempt, one.response_id = 2, 0
        one.attempt.on_registered(y.RegisterApplicationMasterResponseProto().SerializeToString(), 3.0)
    later_s = 4 if comes_back else 2 + NEXT_MASTER_S
    world.rounds.all_parts(later_s)
    assert two.beat(later_s) == (4, 0)


@pytest.mark.parametrize("whole", [True, False])
def test_a_restart_of_the_proxy_between_two_masters_admits_nobody_else(whole: bool) -> None:
    """whole: whether the journal was written anew since the master died."""
    before, after, kept = zoe(), zoe(), Snapshot()
    one = app(before, 2, "core:10=20")
    one.attempt.on_registered(y.RegisterApplicationMasterResponseProto().SerializeToString(), 0.5)
    one.beat(1, *wants(20, 0))
    event = ContainerEvent(seq=1, container_id=one.container_id(1), kind=EventKind.ENDED, at_s=2, am=True)
    before.reports.report(node_id(1), report(1, seq=2, events=[event]), 2)
    note = one.attempt.whole_note() if whole else one.attempt.take_note()
    kept.take(json.loads(json.dumps(note)))
    app(after, 2, "core:10=20")
    after.takeover.restore(one.attempt.id, kept)
    two = app(after, 3, "core:10=4")
    assert two.beat(3, *wants(4, 0)) == (0, 0)
    assert after.admissions.apps[two.id].why == f"{one.id} is in service and waits for its next application master"
    after.rounds.all_parts(2 + NEXT_MASTER_S)
    assert two.beat(2 + NEXT_MASTER_S) == (4, 0)


def test_idle_elastic_containers_are_given_back_and_not_asked_for_again_for_a_while() -> None:
    world = zoe(idle_s=10, idle_hold_s=100)
    one = app(world, 2, "core:10=1")
    assert one.beat(1, *wants(1, 4)) == (1, 4)
    sheds: list[str] = []
    for now_s in range(2, 16):
        acks = reported(world, now_s, one)
        assert not any(ack.shed for ack in acks), "what is not measured is not idle"
        world.rounds.all_parts(now_s)
    for now_s in range(16, 30):
        for ack in reported(world, now_s, one, attained_s=0.5):
            sheds += [shed.container_id for shed in ack.shed]
        world.rounds.all_parts(now_s)
    assert len(set(sheds)) == 4
    gone = [n for n, (kind, _) in one.held.items() if kind == "Q"]
    for number in gone:
        event = ContainerEvent(seq=number, container_id=one.container_id(number), kind=EventKind.KILLED, at_s=30.0)
        host = one.held[number][1]
        world.reports.report(f"{host}:8041", report(int(host[4:]), events=[event]), 30)
    one.beat(31, ended=[(number, 143) for number in gone])
    assert one.beat(32, row("*", 4, 11)) == (0, 0)
    reported(world, 140, one)
    world.rounds.all_parts(140)
    assert one.beat(141) == (0, 4)


def test_the_rest_api_says_who_is_in_service_and_why_others_wait() -> None:
    world = zoe("preemptive")
    one, two = app(world, 2, "core:10=20", "runtime_s:60"), app(world, 3, "core:10=6", "class:interactive")
    one.beat(1, *wants(20, 3))
    two.beat(1, *wants(6, 1))
    world.rounds.all_parts(2)
    info = admission_info(world)
    assert (info.policy, info.room.memory_mb, info.core_size.vcores) == ("preemptive", 24 * 1024, 20)
    served, waits = info.applications
    assert (served.id, served.state, served.why, served.runtime_s) == (one.id, "in service", "", 60.0)
    assert (served.core, served.core_held, served.elastic, served.elastic_share, served.elastic_held) == (
        20,
        20,
        3,
        3,
        3,
    )
    assert (waits.id, waits.state, waits.interactive, waits.priority) == (two.id, "waiting", True, 1000)
    assert waits.why == "queue root.default has no room for 6144 MB and 6 vcores"


def test_where_whole_applications_are_not_admitted_the_rest_api_says_so() -> None:
    info = admission_info(cluster({**ZOE, "admit": {"policy": "none"}}))
    assert (info.policy, info.applications) == ("none", [])


def test_an_application_without_a_record_waits_for_it_and_is_admitted_then() -> None:
    world = zoe()
    one = App(world, 2)
    assert one.beat(1, *wants(3, 4)) == (0, 0)
    assert one.beat(2) == (0, 0)
    app(world, 2, "core:10=3")
    assert one.beat(3) == (3, 4)


def test_an_application_whose_record_does_not_come_goes_guaranteed() -> None:
    world = zoe()
    one = App(world, 2)
    assert one.beat(1, *wants(3, 4)) == (0, 0)
    assert one.beat(12) == (7, 0)
    plain = App(cluster({**ZOE, "admit": {"policy": "none"}}), 2)
    assert plain.beat(1, *wants(3, 4)) == (7, 0)


def test_core_is_kept_off_crowded_hosts_while_others_have_room() -> None:
    world = cluster({**ZOE, "place": {"policy": "late"}, "admit": {"policy": "flexible"}})
    one, two = app(world, 2, "core:10=1"), app(world, 3, "core:10=2")
    one.beat(1, *wants(1, 20))
    reported(world, 1, one)
    busy = [number for number in (1, 2, 3) if sum(host == f"host{number}" for _, host in one.held.values()) == 8]
    assert busy and len(busy) < 3
    two.beat(2, *wants(2, 0), grant=False)
    world.rounds.all_parts(3)
    two.beat(4, grant=False)
    assert two.blacklist == {f"host{number}" for number in busy}
    two.beat(5)
    world.rounds.all_parts(6)
    two.beat(7)
    assert two.blacklist == set(), "all of its core has come"


def test_elastic_containers_come_after_the_core_has_come() -> None:
    world = zoe()
    one = app(world, 2, "core:10=3")
    assert one.beat(1, *wants(3, 4), grant=False) == (0, 0)
    assert one.beat(2, grant=False) == (0, 0)
    assert one.beat(3) == (3, 4)
    (core,) = {number for number, (kind, _) in one.held.items() if kind == "G" and number == 1}
    one.beat(4, row("*", 2, 11), ended=[(core, -100)])
    world.rounds.all_parts(5)
    assert one.beat(5, row("*", 1, 10), row("*", 2, 11), grant=False) == (0, 2), (
        "once complete, a lost one is no reason"
    )
