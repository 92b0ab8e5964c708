"""Quotas by YARN queue count what has a node; the rest waits, and takes back what its queue is guaranteed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from policies.config.policy_set import Policies
from policies.model import Resources
from rm_proxy.attempt.asks.ask_entry import AskEntry
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.domain.records import AppRecord
from rm_proxy.yarn.models import YarnQueue
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    TIMESTAMP,
    Am,
    capability,
    container,
    coordinator,
    ended,
    node_id,
    report,
    row,
    shown,
    yarn_node,
)

SHARE: Mapping[str, Any] = {**ALL_Q, "quota": {"policy": "queue_share"}}
LATE: Mapping[str, Any] = {**SHARE, "place": {"policy": "variance"}}
OTHER = f"appattempt_{TIMESTAMP}_0002_000001"


def entry_of(am: Am) -> AskEntry:
    (entry,) = am.attempt.entries
    return entry


def shares(am: Am) -> tuple[int, int, int]:
    """Return how many containers are guaranteed, wait at the proxy, and are asked for at nodes."""
    entry = entry_of(am)
    return entry.g_share, entry.q_wanted, len(entry.pending)


def queue(name: str, capacity: Resources) -> YarnQueue:
    return YarnQueue(name, True, "RUNNING", Resources(8192, 8), Resources(), frozenset(), "", capacity=capacity)


def lent(own: Resources, other_uses: Resources) -> Coordinator:
    """Return one full node of 8 places; an application of queue `b` has queueable containers on it."""
    world = coordinator(LATE, nodes=1)
    world.inventory.update_queues([queue("root.default", own), queue("root.b", Resources(4096, 4))])
    world.inventory.update_app(AppRecord(f"application_{TIMESTAMP}_0002", "root.b", "ann", "SPARK", "job", (), 0, 0.0))
    world.inventory.charge(OTHER, other_uses)
    world.reports.report(node_id(1), report(1, seq=2, used_q_mb=8192, used_q_vcores=8), 0.0)
    return world


def test_what_exceeds_the_share_of_its_queue_waits_and_goes_out_as_places_are_freed() -> None:
    am = Am(coordinator(SHARE, nodes=1))
    am.asks(row("*", 20))
    assert shares(am) == (0, 12, 8)
    used = am.world.inventory.queue("root.default")
    assert used is not None and used.used_q == Resources(8192, 8), "those that wait have no place"
    am.gets(*am.granted())
    am.asks(row("*", 12))
    assert shares(am) == (0, 12, 0)
    am.gets()
    am.attempt.on_finished()
    used = am.world.inventory.queue("root.default")
    assert used is not None and used.used_q == Resources()


def test_a_container_that_ends_lets_one_go_out() -> None:
    am = Am(coordinator(SHARE, nodes=1))
    am.asks(row("*", 9))
    am.gets(*am.granted())
    am.asks(row("*", 1))
    assert shares(am) == (0, 1, 0)
    am.gets(completed=[ended(1)])
    am.asks()
    assert shares(am) == (0, 0, 1)


def test_only_what_could_never_fit_goes_guaranteed_at_routing() -> None:
    world = coordinator(SHARE, nodes=2)
    world.inventory.update_queues(
        [YarnQueue("root.default", True, "RUNNING", Resources(2048, 2), Resources(), frozenset(), "")]
    )
    am = Am(world)
    assert shown(am.asks(row("*", 2, size=capability(3072)))) == [("*", 2, "G", -1)]
    full = Resources(2048, 2)
    for _ in range(2):  # what others use counts once two reports in a row have it
        world.inventory.update_queues([YarnQueue("root.default", True, "RUNNING", full, full, frozenset(), "")])
    am = Am(world)
    am.gets()
    am.asks(row("*", 2, priority=3))
    later = next(entry for entry in am.attempt.entries if entry.key.priority == 3)
    assert (later.g_share, later.q_wanted) == (0, 2), "guaranteed containers use the queue now, which ends some time"


def test_a_quota_by_application_still_makes_the_rest_guaranteed() -> None:
    am = Am(coordinator({**ALL_Q, "quota": {"policy": "absolute", "settings": {"max_q": 2}}}))
    am.asks(row("*", 5))
    assert shares(am) == (3, 0, 2)


def test_a_queue_below_its_guarantee_takes_back_one_at_a_time_what_others_use() -> None:
    am = Am(lent(Resources(4096, 4), Resources(8192, 8)))
    am.asks(row("*", 5))
    am.gets()
    am.now_s = 1.0
    am.asks()
    am.gets()
    assert shares(am) == (0, 5, 0), "something may be freed within a second"
    am.now_s = 1.1
    am.asks()
    assert shares(am) == (1, 4, 0)
    am.gets()
    am.now_s = 3.0
    am.asks()
    assert shares(am) == (1, 4, 0), "one at a time"
    am.gets(container(1, 1, row()))
    am.asks(row("*", 4))
    assert shares(am) == (1, 3, 0)
    (reason,) = entry_of(am).g_reasons
    assert "its queue root.default is below its guaranteed capacity, which other queues use" in reason.text


def test_one_for_each_missing_place_goes_guaranteed_where_there_are_as_many_nodes() -> None:
    world = lent(Resources(4096, 4), Resources(8192, 8))
    world.yarn_nodes([yarn_node(n) for n in range(1, 4)], 0.0)
    for number in (2, 3):
        world.reports.report(node_id(number), report(number, used_q_mb=8192, used_q_vcores=8), 0.0)
    am = Am(world)
    am.asks(row("*", 5))
    am.gets()
    am.now_s = 1.1
    am.asks()
    assert shares(am) == (3, 2, 0), "three nodes may each shrink one"
    am.gets(*(container(n, n, row()) for n in (1, 2, 3)))
    am.now_s = 1.2
    am.asks(row("*", 2))
    assert shares(am) == (1, 1, 0), "three are there and one is asked for: all that is guaranteed"


def test_a_user_takes_back_his_share_from_another_one_of_his_queue() -> None:
    world = lent(Resources(4096, 4), Resources())
    world.inventory.update_queues([replace(queue("root.default", Resources(8192, 8)), user_ratio=0.5)])
    world.inventory.update_app(
        AppRecord(f"application_{TIMESTAMP}_0002", "root.default", "ann", "SPARK", "job", (), 0, 0.0)
    )
    world.inventory.charge(OTHER, Resources(8192, 8))
    am = Am(world)
    am.asks(row("*", 5))
    am.gets()
    am.now_s = 1.1
    am.asks()
    assert shares(am) == (1, 4, 0)
    (reason,) = entry_of(am).g_reasons
    assert "user u is below the share of one user of root.default, which others use" in reason.text


@pytest.mark.parametrize(
    ("own", "other_uses"),
    [
        (Resources(4096, 4), Resources(4096, 4)),  # the other queue uses what it is guaranteed
        (Resources(512, 1), Resources(8192, 8)),  # the container is beyond its own queue's guarantee
        (Resources(), Resources(8192, 8)),  # the FIFO scheduler guarantees nothing
    ],
)
def test_what_is_guaranteed_to_no_one_is_waited_for(own: Resources, other_uses: Resources) -> None:
    am = Am(lent(own, other_uses))
    for at_s in (0.0, 2.0, 60.0):
        am.now_s = at_s
        am.asks(*([row("*", 5)] if not at_s else []))
        am.gets()
    assert shares(am) == (0, 5, 0)


def test_what_a_quota_keeps_from_free_nodes_goes_guaranteed_one_at_a_time() -> None:
    world = coordinator({**ALL_Q, "quota": {"policy": "queue_share", "settings": {"factor": 0.25}}}, nodes=1)
    world.inventory.update_queues([queue("root.default", Resources(8192, 8))])
    am = Am(world)
    am.asks(row("*", 5))
    am.gets(*am.granted())
    am.asks(row("*", 3))
    assert shares(am) == (0, 3, 0)
    am.gets()
    am.now_s = 2.0
    am.asks()
    assert shares(am) == (1, 2, 0)


def test_shares_grow_by_the_places_that_nodes_have_beyond_their_cores() -> None:
    world = coordinator(SHARE, nodes=1)
    world.reports.report(node_id(1), report(1, seq=2, slots=10), 1.0)
    world.rounds.all_parts(1.0)
    view = world.inventory.queue("root.default")
    assert view is not None and view.places_ratio == 1.25
    am = Am(world)
    am.asks(row("*", 12))
    assert shares(am) == (0, 2, 10)


def test_a_failing_quota_makes_it_guaranteed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = coordinator(SHARE, nodes=1)
    (bound,) = world.policies.quotas

    def broken(*_: object) -> str | None:
        raise ZeroDivisionError("no")

    faulty = Policies(world.policies.section, world.policies.choices, [r.bound for r in world.policies.rules], [bound])
    object.__setattr__(bound, "decide", broken)
    world.switch(faulty)
    am = Am(world)
    assert shown(am.asks(row("*", 2))) == [("*", 2, "G", -1)]


def test_a_node_that_is_gone_keeps_no_other_off() -> None:
    world = full_nodes(0, 0, 8192)
    world.yarn_nodes([yarn_node(1), yarn_node(2), yarn_node(3, state="LOST")], 1.0)
    assert world.inventory.crowded(Resources(1024, 1)) == frozenset()


def full_nodes(*spare_mb: int) -> Coordinator:
    """Return nodes of 8 places that another queue's containers fill; each with so much memory to spare."""
    world = lent(Resources(4096, 4), Resources(8192, 8))
    world.yarn_nodes([yarn_node(n) for n in range(1, len(spare_mb) + 1)], 0.0)
    for number, spare in enumerate(spare_mb, start=1):
        world.reports.report(node_id(number), report(number, used_q_mb=8192 - spare, used_q_vcores=8), 0.0)
    return world


@pytest.mark.parametrize(
    ("spare_mb", "kept_off"),
    [((0, 4096, 512), {"host1", "host3"}), ((0, 0, 0), set()), ((4096, 4096, 4096), set())],
)
def test_what_is_owed_comes_where_containers_shrink_and_none_is_killed(
    spare_mb: tuple[int, ...], kept_off: set[str]
) -> None:
    am = Am(full_nodes(*spare_mb))
    am.asks(row("*", 5))
    am.gets()
    assert not am.sent.blacklist_request.blacklist_additions, "nothing is guaranteed"
    am.now_s = 1.1
    am.asks()
    assert shares(am) == (3, 2, 0)
    assert set(am.sent.blacklist_request.blacklist_additions) == kept_off
    am.gets(*(container(n, 2, row()) for n in (1, 2, 3)))
    am.now_s = 1.2
    am.asks(row("*", 0))
    assert set(am.sent.blacklist_request.blacklist_removals) == kept_off, "no guaranteed one is asked for"
