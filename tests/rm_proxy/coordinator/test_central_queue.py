"""Nodes with slots by example: what finds all of them full waits at the proxy, and goes where a report frees a slot."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from policies.config.policy_set import Policies
from policies.config.registry import BoundPolicy
from policies.model import AppView, Ask, Resources
from policies.place.variance import POLICY, Variance
from quicksilver.common.messages import ContainerReport, EventKind
from rm_proxy.attempt.effects import FellBack
from rm_proxy.attempt.routing import steering
from rm_proxy.coordinator.coordinator import Coordinator
from sidecar.node.report_view import containers
from tests.model.requestor import Want
from tests.model.world import Run
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    APP,
    Am,
    cid,
    container_report,
    coordinator,
    event,
    granted_rows,
    node_id,
    report,
    row,
    shown,
)
from tests.sidecar.words import arrived, node


def use_variance(policies: Policies, **settings: Any) -> None:
    policies.choices["place"] = BoundPolicy("place", "variance", "quicksilver", Variance(**settings), POLICY.decide)


def shared(nodes: int = 1, slots: int = 2, vcores: int = 1, app_type: str = "MAPREDUCE") -> Coordinator:
    """Return a coordinator of nodes that start `slots` containers at once on `vcores` cores."""
    world = coordinator(nodes=nodes, app_type=app_type)
    use_variance(world.policies)
    for number in range(1, nodes + 1):
        world.reports.report(node_id(number), report(number, slots=slots, vcores=vcores), 0.0)
    return world


def told(world: Coordinator, number: int, *containers: ContainerReport, now_s: float, **more: Any) -> None:
    """Let the sidecar of a node report these containers."""
    use = 1024 * len(containers)
    base = {"slots": 2, "vcores": 1, "used_q_mb": use, "used_q_vcores": len(containers)}
    world.reports.report(node_id(number), report(number, containers=list(containers), **(base | more)), now_s)


def hosts(am: Am) -> list[str]:
    return sorted(r.resource_name for r in granted_rows(am.sent.ask).values())


def deliver(am: Am, first: int = 1) -> None:
    """Grant all that the last request asked for, and announce it to the sidecars as the proxy does."""
    am.gets(*am.granted(first))


def test_what_finds_no_slot_waits_and_takes_the_first_that_a_report_frees() -> None:
    world = shared()
    am = Am(world)
    am.asks(row("*", 3))
    assert hosts(am) == ["host1", "host1"], "two slots, though the node has one vcore"
    deliver(am)
    assert not [e for e in am.effects if isinstance(e, FellBack)]
    told(world, 1, container_report(1), container_report(2), now_s=1.0)
    am.now_s = 2.0
    assert am.asks() == [], "nothing goes out, guaranteed or queueable"
    am.gets()
    (entry,) = am.attempt.entries
    assert (entry.q_wanted, entry.g_share, am.attempt.table.sums.open_q) == (1, 0, 1)
    told(world, 1, container_report(2), now_s=2.0, events=[event(1, EventKind.ENDED, ran_s=1.0)])
    am.asks()
    assert hosts(am) == ["host1"], "with the first request after the report"
    assert all(kind == "Q" for _, _, kind, _ in shown(am.sent.ask))
    deliver(am, first=3)
    assert len(am.attempt.live) == 3 and am.attempt.table.sums.open_q == 0


def test_it_waits_for_hours_and_is_not_forgotten() -> None:
    world = shared()
    am = Am(world)
    told(world, 1, container_report(98, kind="G"), container_report(99, kind="G"), now_s=0.0)
    am.asks(row("host1", 2), row("/r1", 2), row("*", 2))
    for hour in range(1, 20):
        am.now_s = hour * 3600.0
        told(world, 1, container_report(98, kind="G"), container_report(99, kind="G"), now_s=am.now_s)
        am.gets()
        assert am.asks() == [] and not am.effects
    told(world, 1, container_report(98, kind="G"), now_s=am.now_s)
    am.gets()
    am.asks()
    assert hosts(am) == ["host1"]
    told(world, 1, now_s=am.now_s + 6)
    am.gets(*am.granted())
    am.now_s += 6
    am.asks()
    assert hosts(am) == ["host1"]


def test_what_the_application_takes_back_waits_no_longer() -> None:
    world = shared(slots=1)
    am = Am(world)
    am.asks(row("*", 5))
    deliver(am)
    assert am.attempt.table.sums.open_q == 4
    am.asks(row("*", 0))
    am.gets()
    assert am.attempt.table.sums.open_q == 0 and not am.attempt.entries
    told(world, 1, now_s=1.0, events=[event(1, EventKind.ENDED, ran_s=1.0)])
    assert am.asks() == []


def test_one_request_spreads_over_the_nodes_and_stops_at_their_slots() -> None:
    world = shared(nodes=3, slots=3)
    told(world, 2, container_report(90), container_report(91), slots=3, now_s=0.0)
    am = Am(world)
    am.asks(row("*", 5))
    assert Counter(hosts(am)) == {"host1": 3, "host3": 2}
    am.gets(*am.granted())
    am.asks(row("*", 9))
    assert Counter(hosts(am)) == {"host2": 1, "host3": 1}
    assert am.attempt.table.sums.open_q == 9


def test_what_may_go_to_no_node_at_all_goes_guaranteed() -> None:
    am = Am(shared())
    am.asks(row("*", 2), blacklist=["host1"])
    assert shown(am.sent.ask) == [("*", 2, "G", -1)]


def test_an_application_in_bypass_waits_no_longer() -> None:
    world = shared(slots=1)
    am = Am(world)
    am.asks(row("*", 3))
    deliver(am)
    world.switch(Policies.load({**ALL_Q, "mode": "bypass"}))
    am.asks()
    assert ("*", 2, "G", -1) in shown(am.sent.ask)


def test_application_masters_are_left_out_and_other_containers_count() -> None:
    world = shared(slots=3)
    told(world, 1, container_report(90, kind="G", am=True), container_report(91, kind="G"), slots=3, now_s=0.0)
    view = world.nodes[node_id(1)].view
    assert (view.containers, view.slots) == (1, 3)
    am = Am(world)
    am.asks(row("*", 4))
    assert hosts(am) == ["host1", "host1"]


def test_the_sidecar_tells_which_container_is_an_application_master() -> None:
    site = node()
    site.handle(arrived("master", 0.0, q=False, am=True))
    site.handle(arrived("task", 0.0, q=False))
    assert {c.container_id: c.am for c in containers(site, 0.0)} == {"master": True, "task": False}


def test_what_a_node_refused_waits_again_and_goes_guaranteed_in_the_end() -> None:
    world = shared(nodes=2, slots=1)
    told(world, 2, container_report(90), slots=1, now_s=0.0)
    am = Am(world)
    for tries in range(1, steering.MAX_TRIES + 1):
        am.asks(*([row("*", 1)] if tries == 1 else []))
        assert hosts(am) == ["host1"], tries
        am.gets()
        am.asks()
        assert not granted_rows(am.sent.ask), "host1 counts it for a while, host2 is full"
        if tries < steering.MAX_TRIES:
            assert am.attempt.table.sums.open_q == 1
        am.gets()
        am.now_s += 6.0
        told(world, 2, container_report(90), slots=1, now_s=am.now_s)
        told(world, 1, slots=1, now_s=am.now_s)
    assert am.attempt.table.sums.open_q == 0
    (entry,) = am.attempt.entries
    assert entry.g_share == 1


def test_the_sooner_needed_goes_first() -> None:
    world = shared(slots=1)
    am = Am(world)
    told(world, 1, container_report(90), slots=1, now_s=0.0)
    am.asks(row("*", 1, 10), row("*", 1, 20))
    am.gets()
    told(world, 1, slots=1, now_s=1.0)
    am.asks()
    assert [r.priority.priority for r in granted_rows(am.sent.ask).values()] == [20], "maps before reduces"


def test_a_map_that_waits_for_slots_of_its_own_reduces_goes_guaranteed() -> None:
    """Reduces that wait for maps never end by themselves: they would keep the slots for ever."""
    world = shared()
    am = Am(world)
    am.asks(row("*", 2, 10), row("*", 3, 20))
    assert hosts(am) == ["host1", "host1"]
    am.gets(*am.granted())
    for number in (1, 2):
        live = am.attempt.live.get(cid(number))
        assert live is not None
        live.priority = 10
        live.start(None)
    told(world, 1, container_report(1), container_report(2), now_s=9.0)
    am.now_s = 9.0
    am.asks()
    assert not [r for r in am.sent.ask if r.num_containers], "9 s are not long enough"
    am.gets()
    am.now_s = 11.0
    am.asks()
    assert [(n, kind) for name, n, kind, _ in shown(am.sent.ask) if name == "*" and n] == [(1, "G")], "one at a time"
    (fell,) = [e for e in am.attempt.take_effects() if isinstance(e, FellBack)]
    assert fell.reason == "deadlock guard: its own application's containers wait for it"
    am.gets()
    am.now_s = 30.0
    assert am.asks() == []


def test_many_keys_that_wait_cost_one_look_at_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    world = shared(slots=1, app_type="YARN")
    told(world, 1, container_report(90), slots=1, now_s=0.0)
    am = Am(world)
    am.asks(*(row("*", 1, request_id=n) for n in range(300)))
    am.gets()
    looks = []
    place = world.policies.place
    monkeypatch.setattr(world.policies, "place", lambda *given: looks.append(given) or place(*given))
    assert am.asks() == []
    assert len(looks) == 1
    assert am.attempt.table.sums.open_q == 300


# The coordinator's view of nodes that share their cores


def test_own_placements_take_slots_until_the_sidecar_tells_of_them() -> None:
    world = shared(slots=3)
    am = Am(world)
    am.asks(row("*", 2))
    deliver(am)
    its = world.nodes[node_id(1)]
    assert (its.view.containers, its.view.used_q, its.view.queue_length) == (2, Resources(2048, 2), 0)
    told(world, 1, container_report(1), slots=3, now_s=1.0, attained_sd_s=2.5)
    assert (its.view.containers, its.view.attained_sd_s) == (2, 2.5), "one by the report, one on top"
    told(world, 1, slots=3, now_s=2.0, events=[event(2, EventKind.ENDED, ran_s=1.0)])
    assert its.view.containers == 0


def test_waits_are_estimated_with_slots_as_without() -> None:
    """Below its slots a node queues nothing; above them the queue moves as fast as its cores work."""
    ask = Ask(AppView(APP), 20, Resources(1024, 1), expected_s=8.0)
    seen = {}
    for slots in (0, 6):
        world = coordinator(nodes=1)
        world.reports.report(node_id(1), report(1, vcores=4, slots=slots), 0.0)
        its = world.nodes[node_id(1)]
        seen[slots] = []
        for number in range(8):
            its.reserve(cid(number), ask.resources, ask.expected_s)
            seen[slots].append((its.view.queue_length, its.view.queued_s, its.view.used_q.vcores))
    nothing = [(0, 0.0, n) for n in range(1, 7)]
    assert seen[6] == [*nothing, (1, 2.0, 6), (2, 4.0, 6)]
    assert seen[0] == [*nothing[:4], (1, 2.0, 4), (2, 4.0, 4), (3, 6.0, 4), (4, 8.0, 4)]


def test_topk_wait_fills_shared_nodes_alike() -> None:
    world = coordinator({**ALL_Q, "place": {"policy": "topk_wait"}}, nodes=2)
    for number in (1, 2):
        world.reports.report(node_id(number), report(number, vcores=1, slots=4), 0.0)
    am = Am(world)
    am.asks(row("*", 10))
    assert Counter(hosts(am)) == {"host1": 5, "host2": 5}
    assert [world.nodes[node_id(n)].view.queue_length for n in (1, 2)] == [1, 1]
    assert not [kind for _, count, kind, _ in shown(am.sent.ask) if kind == "G" and count]


def test_room_is_counted_in_slots_and_memory() -> None:
    world = coordinator(nodes=1)
    one, wide = Resources(1024, 1), Resources(8192, 1)
    busy = [container_report(1), container_report(2)]
    world.reports.report(
        node_id(1), report(1, vcores=1, slots=3, used_q_mb=2048, used_q_vcores=2, containers=busy), 0.0
    )
    assert world.placer.has_room(one) and not world.placer.has_room(wide)
    world.reports.report(
        node_id(1), report(1, vcores=1, slots=2, used_q_mb=2048, used_q_vcores=2, containers=busy), 0.0
    )
    assert not world.placer.has_room(one)


# Everything together


@pytest.mark.parametrize("seed", range(12))
def test_all_of_two_jobs_run_through_few_slots(seed: int) -> None:
    """Random asks over models of YARN and the sidecar's machines: all comes to rest, nothing goes guaranteed."""
    rng = Random(seed)
    run = Run({**ALL_Q}, ("YARN", "SPARK"), nodes=rng.choice([1, 2, 3]), seed=seed)
    use_variance(run.coordinator.policies)
    slots = rng.choice([0, 1, 2, 5])
    for site in run.sites.values():
        plain = site.report
        site.report = lambda plain=plain: plain().model_copy(update={"slots": slots})  # type: ignore[method-assign]
    run.tick(1.0)
    for _ in range(15):
        for am in run.ams:
            for _ in range(rng.randrange(3)):
                names = tuple(rng.sample([f"host{n}" for n in range(1, len(run.sites) + 1)], rng.randrange(2)))
                am.ask(Want(0, 20, names, tuple(f"/r{int(n[-1]) % 2}" for n in names), 1024))
        run.round()
        busiest = max(len(site.node.state.containers) for site in run.sites.values())
        assert slots == 0 or busiest <= slots
    run.settle()
    assert run.fallbacks == []
    assert all(attempt.table.sums.open_q == 0 for attempt in run.coordinator.attempts.values())
