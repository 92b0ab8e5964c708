"""What follows at once when settings change: asks that are decided anew, and containers that are shed over a quota."""

from __future__ import annotations

from typing import Any

import pytest

from policies.config.policy_set import Policies
from policies.errors import PolicyFaultError
from policies.model import Kind
from quicksilver.common.messages import EventKind, Shed
from rm_proxy.attempt.routing import router
from rm_proxy.coordinator import settings_change
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.settings_change import RETRY_S, WATCH_S
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    APP,
    Am,
    cid,
    container,
    coordinator,
    event,
    granted_rows,
    node_id,
    report,
    row,
    shown,
)

NO_Q: dict[str, Any] = {**ALL_Q, "routes": [{"policy": "only_g"}]}


def quota(most: int) -> dict[str, Any]:
    return {**ALL_Q, "quota": {"policy": "absolute", "settings": {"max_q": most}}}


def use(world: Coordinator, policies: dict[str, Any], now_s: float = 1.0) -> None:
    world.use(Policies.load(policies), now_s)


def shares(am: Am) -> tuple[int, int]:
    """Return how many containers that are not delivered are guaranteed, and queueable."""
    entries = am.attempt.entries
    return sum(e.g_share for e in entries), sum(e.q_wanted + len(e.pending) for e in entries)


def holding(most: int, world: Coordinator | None = None) -> Am:
    """An application that holds `most` queueable containers which all wait at node 1."""
    am = Am(world or coordinator(quota(most), nodes=1))
    am.asks(row("*", most))
    am.gets(*am.granted())
    for number in range(1, most + 1):
        am.attempt.containers.on_event(event(number, EventKind.HELD), 0.5)
    return am


def shed(world: Coordinator, now_s: float = 1.0) -> list[str]:
    ack = world.reports.report(node_id(1), report(1), now_s)
    assert all(s.cause == "quota" for s in ack.shed)
    return [s.container_id for s in ack.shed]


# Asks that are not delivered


def test_a_raised_quota_makes_guaranteed_asks_queueable_with_the_next_heartbeat() -> None:
    am = Am(coordinator(quota(1)))
    am.asks(row("*", 4))
    assert shares(am) == (3, 1)
    am.gets(*am.granted())
    assert am.asks() == [], "nothing changes by itself"
    am.gets()
    use(am.world, quota(3))
    sent = am.asks()
    assert shares(am) == (1, 2)
    assert [r for r in shown(sent) if r[2] == "G"] == [("*", 1, "G", -1)]
    assert len(granted_rows(sent)) == 2
    am.gets(*am.granted(2), container(9, 1, row()))
    assert shares(am) == (0, 0)
    reasons = [e.record.route_reason for e in am.effects if type(e).__name__ == "Granted"]
    assert sum(r.startswith("allowed now; before: absolute: ") for r in reasons) == 2


def test_a_lowered_quota_makes_what_waits_for_a_node_guaranteed() -> None:
    am = Am(coordinator({**quota(5), "place": {"policy": "variance"}}, nodes=1))
    size = row().capability
    size.memory = 8192
    am.asks(row("*", 4, size=size))
    assert shares(am) == (0, 4)
    am.gets(*am.granted())
    am.asks()
    assert shares(am) == (0, 3), "the only node is full: they wait"
    am.gets()
    use(am.world, {**quota(2), "place": {"policy": "variance"}})
    sent = am.asks()
    assert shares(am) == (2, 1)
    assert shown(sent) == [("*", 2, "G", -1)]
    am.gets()


def test_a_lowered_quota_takes_back_what_was_asked_for_and_not_granted() -> None:
    am = Am(coordinator(quota(3)))
    am.asks(row("*", 3))
    assert len(granted_rows(am.sent.ask)) == 3
    am.gets()
    use(am.world, quota(1))
    sent = am.asks()
    assert shares(am) == (2, 1)
    assert ("*", 2, "G", -1) in shown(sent)
    assert len(granted_rows(sent)) == 1


def test_only_what_the_quota_refused_is_decided_anew_when_the_quota_changes() -> None:
    """Of ten, chance made some guaranteed: they stay so, however often the quota changes."""
    half = {**quota(1), "routes": [{"policy": "hybrid_gq", "settings": {"td_s": 1000.0, "pq": 50.0}}]}
    am = Am(coordinator(half))
    am.asks(row("*", 10))
    by_route = sum(r.count for e in am.attempt.entries for r in e.g_reasons if r.slot == "route")
    assert 0 < by_route < 9
    for most in (9, 2, 10):
        use(am.world, {**half, "quota": {"policy": "absolute", "settings": {"max_q": most}}})
        am.gets()
        am.asks()
    assert shares(am) == (by_route, 10 - by_route)


def test_nothing_is_decided_anew_when_neither_routes_nor_quotas_change() -> None:
    am = Am(coordinator(quota(1)))
    am.asks(row("*", 3))
    am.gets(*am.granted())
    use(am.world, {**quota(1), "place": {"policy": "random"}})
    assert not am.attempt.router.reconsiders


def test_changed_routes_decide_on_all_that_is_not_delivered() -> None:
    am = Am(coordinator(NO_Q))
    am.asks(row("host1", 3), row("/r1", 3), row("*", 3))
    am.gets(container(1, 1, row()))
    use(am.world, dict(ALL_Q))
    sent = am.asks()
    assert shares(am) == (0, 2)
    counts = {name: count for name, count, kind, _ in shown(sent) if kind == "G"}
    assert counts == {"host1": 0, "/r1": 0, "*": 0}
    am.gets()
    use(am.world, NO_Q)
    sent = am.asks()
    assert shares(am) == (2, 0)
    counts = {name: count for name, count, kind, _ in shown(sent) if kind == "G"}
    assert counts == {"host1": 2, "/r1": 2, "*": 2}


def test_a_rule_that_matches_others_is_a_changed_route() -> None:
    am = Am(coordinator({**ALL_Q, "routes": [{"policy": "only_q", "match": {"priority": 10}}]}))
    am.asks(row("*", 2))
    assert shares(am) == (2, 0)
    am.gets()
    use(am.world, {**ALL_Q, "routes": [{"policy": "only_q", "match": {"priority": 20}}]})
    am.asks()
    assert shares(am) == (0, 2)


def test_leaving_shadow_mode_makes_asks_queueable() -> None:
    am = Am(coordinator({**ALL_Q, "mode": "shadow"}))
    am.asks(row("*", 2))
    am.gets()
    use(am.world, dict(ALL_Q))
    am.asks()
    assert shares(am) == (0, 2)


def test_a_guaranteed_grant_on_its_way_is_not_doubled() -> None:
    """The ResourceManager had granted one before it saw the new rows: the queueable one for it is given back."""
    am = Am(coordinator(NO_Q))
    am.asks(row("*", 1))
    am.gets()
    use(am.world, dict(ALL_Q))
    am.asks()
    (queueable,) = am.granted(2)
    seen = am.gets(queueable, container(1, 1, row()))
    assert [c.id.id for c in seen.allocated_containers] == [1]
    am.asks()
    assert [c.id for c in am.sent.release] == [2]


def test_tasks_that_were_lost_too_often_stay_guaranteed() -> None:
    world = coordinator({**ALL_Q, "retries_to_g": 0}, nodes=1)
    am = holding(1, world)
    am.attempt.containers.on_event(event(1, EventKind.SHED, 2), 1.0)
    am.asks()
    am.gets()
    am.asks(row("*", 1))
    assert shares(am) == (1, 0)
    am.gets()
    use(world, {**ALL_Q, "retries_to_g": 0, "routes": [{"policy": "hybrid_gq", "settings": {"pq": 100.0}}]})
    am.asks()
    assert shares(am) == (1, 0)


def test_a_request_decides_on_so_many_and_the_next_on_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    am = Am(coordinator(quota(0)))
    am.asks(row("*", 7))
    am.asks(row("*", 7), row("*", 4, priority=3))
    am.gets()
    monkeypatch.setattr(router, "MAX_ROUTED", 3)
    use(am.world, quota(100))
    steps = []
    while am.attempt.router.reconsiders:
        am.asks()
        steps.append(shares(am))
        am.gets(*am.granted(3 * len(steps)))
    assert steps == [(8, 3), (5, 3), (2, 3), (0, 2)]


# What waits at nodes


def test_a_lowered_quota_sheds_the_newest_that_wait_and_leaves_those_that_run() -> None:
    am = holding(6)
    for number in (1, 2):
        am.attempt.containers.on_event(event(number, EventKind.STARTED, 2), 0.6)
    use(am.world, quota(3))
    assert shed(am.world) == [cid(6), cid(5), cid(4)]
    assert shed(am.world) == [], "once"
    for number in (4, 5, 6):
        am.attempt.containers.on_event(event(number, EventKind.SHED, 3), 1.5)
    am.asks()
    answer = am.gets()
    assert sorted(s.container_id.id for s in answer.completed_container_statuses) == [4, 5, 6]
    am.asks(row("*", 3))
    assert shares(am) == (3, 0), "they are asked for again as guaranteed ones"


def test_more_run_than_the_quota_allows() -> None:
    am = holding(3)
    for number in (1, 2, 3):
        am.attempt.containers.on_event(event(number, EventKind.STARTED, 2), 0.6)
    use(am.world, quota(1))
    assert shed(am.world) == []


def test_what_comes_to_its_node_after_the_change_is_shed_too() -> None:
    am = Am(coordinator(quota(3), nodes=1))
    am.asks(row("*", 3))
    am.gets(*am.granted())
    use(am.world, quota(2), 1.0)
    assert shed(am.world) == []
    am.attempt.containers.on_event(event(3, EventKind.HELD), 2.0)
    am.world.rounds.all_parts(2.0)
    assert shed(am.world, 2.0) == [cid(3)]


def test_one_that_waits_still_is_shed_again_and_not_for_ever() -> None:
    am = holding(2)
    use(am.world, quota(1), 1.0)
    assert shed(am.world) == [cid(2)]
    am.world.rounds.all_parts(1.0 + RETRY_S)
    assert shed(am.world) == [cid(2)]
    am.world.rounds.all_parts(1.0 + WATCH_S)
    assert shed(am.world) == []


def test_a_quota_by_queue_sheds_by_size() -> None:
    """8192 MB and 8 vcores: a factor of 0.25 leaves room for two."""
    share = {**ALL_Q, "quota": {"policy": "queue_share", "settings": {"user_ratio": 1.0}}}
    am = holding(5, coordinator(share, nodes=1))
    use(am.world, {**ALL_Q, "quota": {"policy": "queue_share", "settings": {"user_ratio": 1.0, "factor": 0.25}}})
    assert shed(am.world) == [cid(5), cid(4), cid(3)]


def test_a_failing_quota_sheds_nothing_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    am = holding(2)

    def fails(*_: object) -> str | None:
        raise PolicyFaultError("quota policy nope")

    monkeypatch.setattr(settings_change, "exceeded_quota", fails)
    am.world.use(Policies.load(quota(0)), 1.0)
    assert shed(am.world) == []
    faults = [e for e in am.world.take_effects() if type(e).__name__ == "Faulted"]
    assert [(f.app_id, f.fault) for f in faults] == [(APP, "quota policy nope")] * 2  # type: ignore[union-attr]


def test_shed_ones_are_named_with_the_figures() -> None:
    am = holding(2)
    use(am.world, quota(0))
    (first, second) = am.world.reports.report(node_id(1), report(1), 1.0).shed
    assert first == Shed(
        container_id=cid(2), cause="quota", reason=f"absolute: {APP} has 1 queueable containers, its quota is 0"
    )
    assert second.container_id == cid(1)
    assert all(c.kind is Kind.QUEUEABLE for c in am.attempt.live)
