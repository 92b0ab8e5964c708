"""Routing by example: what is always guaranteed, modes, faults of policies, deadlock guard, one request's limits."""

from typing import Any

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from policies.config.policy_set import Policies
from policies.errors import PolicyFaultError
from policies.model import Resources
from quicksilver.common.messages import EventKind
from rm_proxy.attempt.effects import DropHeld, Faulted, Granted
from rm_proxy.attempt.routing import router, steering
from rm_proxy.domain.records import GrantRecord
from rm_proxy.yarn.models import YarnQueue
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    APP,
    Am,
    capability,
    cid,
    container,
    coordinator,
    ended,
    event,
    granted_rows,
    row,
    shown,
    yarn_node,
)

HALF: dict[str, Any] = {**ALL_Q, "routes": [{"policy": "hybrid_gq", "settings": {"td_s": 1000.0, "pq": 50.0}}]}


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (row(size=capability(1024, 1, gpus=1)), "asks for more than memory and vcores"),
        (row(size=capability(4096)), "asks for more than the maximum allocation"),
        (row(size=capability(1024, 9)), "asks for more than the maximum allocation"),
        (row(request_id=2**31 - 1), "request id 2147483647 is outside -1..2^31-2"),
        (row(request_id=-7), "request id -7 is outside -1..2^31-2"),
        (row(label="gpu"), "queue root.default is not known to reach nodes labelled gpu"),
    ],
)
def test_always_guaranteed(asked: y.ResourceRequestProto, why: str) -> None:
    am = Am(coordinator())
    registered = y.RegisterApplicationMasterResponseProto()
    registered.maximumCapability.memory, registered.maximumCapability.virtual_cores = 2048, 8
    am.attempt.on_registered(registered.SerializeToString(), 0.0)
    body = y.AllocateRequestProto(ask=[asked], response_id=0).SerializeToString()
    assert am.attempt.exchange.on_allocate(body, 0.0) is None, "it passes as the bytes that came"
    am.gets(container(1, 1, asked))
    (record,) = (e.record for e in am.effects if type(e).__name__ == "Granted")
    assert record.route_reason.startswith(why)


@pytest.mark.parametrize("request_id", [None, -1, 0, 2**31 - 2])
def test_request_ids_that_fit(request_id: int | None) -> None:
    am = Am(coordinator())
    am.asks(row(request_id=request_id))
    (seen,) = am.gets(*am.granted()).allocated_containers
    assert seen.allocation_request_id == (-1 if request_id is None else request_id)


def test_unknown_application_goes_guaranteed() -> None:
    am = Am(coordinator())
    am.world.inventory.apps.clear()
    assert shown(am.asks(row())) == [("*", 1, "G", -1)]


def test_hybrid_as_shipped_queues_on_a_cluster_without_history_and_learns() -> None:
    """estimate.default_s and td_s are both 10 s: that a task is expected to take the default says nothing of it."""
    routes = [{"match": {"type": "MAPREDUCE"}, "policy": "hybrid_gq", "settings": {"td_s": 10, "pq": 70}}]
    am = Am(coordinator({"queues": ["root.default"], "routes": routes}, nodes=6))
    am.asks(row("*", 40))
    (entry,) = am.attempt.entries
    queueable = entry.q_wanted + len(entry.pending)
    assert queueable > 20 and entry.g_share == 40 - queueable
    world = am.world
    app = world.apps.app(APP)
    assert app is not None
    world.durations.estimator.observe(app, 3, 60.0, world.policies.estimate(app))
    am.gets()
    am.asks(row("*", 10, priority=3))
    (later,) = (entry for entry in am.attempt.entries if entry.key.priority == 3)
    assert (later.g_share, later.q_wanted + len(later.pending)) == (10, 0), "its first task took 60 s"


def test_labels_of_the_queue() -> None:
    world = coordinator(nodes=2)
    world.yarn_nodes([yarn_node(1, label="gpu"), yarn_node(2)], 0.0)
    size = Resources(16384, 16)
    world.inventory.update_queues(
        [YarnQueue("root.default", True, "RUNNING", size, Resources(), frozenset({"gpu"}), "")]
    )
    am = Am(world)
    am.asks(row("*", 2, label="gpu"))
    assert {r.resource_name for r in granted_rows(am.sent.ask).values()} == {"host1"}
    am.gets()
    am.asks(row("*", 2, priority=3))
    assert {r.resource_name for r in granted_rows(am.sent.ask).values() if r.priority.priority == 3} == {"host2"}


def test_default_label_of_the_queue_is_the_asks() -> None:
    world = coordinator(nodes=2)
    world.yarn_nodes([yarn_node(1, label="gpu"), yarn_node(2)], 0.0)
    size = Resources(16384, 16)
    world.inventory.update_queues(
        [YarnQueue("root.default", True, "RUNNING", size, Resources(), frozenset({"*"}), "gpu")]
    )
    am = Am(world)
    am.asks(row("*", 1))
    assert {r.resource_name for r in granted_rows(am.sent.ask).values()} == {"host1"}
    am.asks(row("*", 1, priority=3, label=""))
    assert "host2" in {r.resource_name for r in granted_rows(am.sent.ask).values()}, "the default partition by name"


def test_shadow_changes_nothing_and_records() -> None:
    am = Am(coordinator({**ALL_Q, "mode": "shadow"}))
    body = y.AllocateRequestProto(ask=[row("*", 1)], response_id=0).SerializeToString()
    assert am.attempt.exchange.on_allocate(body, 0.0) is None
    answer = y.AllocateResponseProto(response_id=1, allocated_containers=[container(1, 1, row())]).SerializeToString()
    assert am.attempt.exchange.on_answer(answer, 0.0) is None
    (record,) = (e.record for e in am.attempt.take_effects() if type(e).__name__ == "Granted")
    assert (record.kind, record.shadow) == ("G", "Q")
    assert record.route_reason.startswith("shadow mode: Q")


def test_bypass_passes_and_takes_back_what_waited_for_a_node() -> None:
    world = coordinator()
    am = Am(world)
    am.asks(row("host1", 2), row("/r1", 2), row("*", 2))
    am.gets()
    world.switch(Policies.load({**ALL_Q, "mode": "bypass"}))
    am.asks()
    counts = {name: count for name, count, kind, _ in shown(am.sent.ask) if kind == "G"}
    assert counts == {"host1": 2, "/r1": 2, "*": 2}
    assert am.attempt.table.sums.open_q == 0
    am.gets()
    more = row("*", 5)
    assert am.asks(more) == [more]


def test_a_policy_that_raises_makes_it_guaranteed_and_says_so() -> None:
    world = coordinator()

    def broken(*_: object) -> Any:
        raise PolicyFaultError("route policy nope of a-package: ZeroDivisionError: division by zero")

    world.policies.route = broken  # type: ignore[method-assign]
    am = Am(world)
    assert shown(am.asks(row("*", 2))) == [("*", 2, "G", -1)]
    am.gets(container(1, 1, row()))
    assert all(e.fault.startswith("route policy nope") for e in am.effects if isinstance(e, Faulted))
    (record,) = (e.record for e in am.effects if type(e).__name__ == "Granted")
    assert record.route_reason.startswith("a policy failed: route policy nope")


def test_a_headroom_policy_that_raises_leaves_the_answer_as_it_is() -> None:
    world = coordinator()

    def broken(*_: object) -> Any:
        raise PolicyFaultError("headroom policy nope")

    world.policies.headroom = broken  # type: ignore[method-assign]
    am = Am(world)
    am.asks(row("*", 2))
    am.gets(*am.granted())
    am.asks(row("*", 0))
    assert am.gets(limit=capability(777)).limit.memory == 777
    assert [e.fault for e in am.effects if isinstance(e, Faulted)] == ["headroom policy nope"]


def test_a_placement_policy_that_raises_makes_it_guaranteed() -> None:
    world = coordinator()

    def broken(*_: object) -> Any:
        raise PolicyFaultError("place policy nope")

    world.policies.place = broken  # type: ignore[method-assign]
    am = Am(world)
    assert shown(am.asks(row("*", 2))) == [("*", 2, "G", -1)]


def test_quota_counts_what_one_request_itself_asks_for() -> None:
    am = Am(coordinator({**ALL_Q, "quota": {"policy": "absolute", "settings": {"max_q": 2}}}))
    am.asks(row("*", 5))
    assert len(granted_rows(am.sent.ask)) == 2
    assert ("*", 3, "G", -1) in shown(am.sent.ask)


def test_quota_of_the_queue_counts_all_its_applications_and_falls_to_zero() -> None:
    world = coordinator({**ALL_Q, "quota": {"policy": "queue_share"}}, nodes=1)
    am = Am(world)
    am.asks(row("*", 20))
    assert len(granted_rows(am.sent.ask)) == 8
    am.gets(*am.granted())
    used = world.inventory.queue("root.default")
    assert used is not None and used.used_q == Resources(8192, 8) and used.user_used_q == {"u": Resources(8192, 8)}
    am.attempt.on_finished()
    used = world.inventory.queue("root.default")
    assert used is not None and used.used_q == Resources() and used.user_used_q == {}


@pytest.mark.parametrize(("policies", "calls"), [(ALL_Q, [1, 2]), (HALF, [5, 10])])
def test_containers_that_differ_in_nothing_are_decided_on_together(
    policies: dict[str, Any], calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    am, route, seen = Am(coordinator(policies)), Policies.route, []

    def counted(self: Policies, ask: Any, *more: Any) -> Any:
        seen.append(ask.app.live_q)
        return route(self, ask, *more)

    monkeypatch.setattr(Policies, "route", counted)
    am.asks(row("*", 5))
    counts = [len(seen)]
    am.asks(row("*", 10))
    (entry,) = am.attempt.entries
    assert entry.g_share + entry.q_wanted + len(entry.pending) == 10
    assert [*counts, len(seen)] == calls
    assert seen[-1] >= (5 if policies is ALL_Q else 1), "what was decided before counts"


def test_more_than_one_request_may_decide_is_decided_with_the_next_ones(monkeypatch: Any) -> None:
    monkeypatch.setattr(router, "MAX_ROUTED", 10)
    am = Am(coordinator(HALF))
    am.asks(row("*", 35))
    (entry,) = am.attempt.entries
    assert entry.undecided == 25
    for left in (15, 5, 0):
        am.gets(*am.granted(first=1000 - left * 10))
        am.asks()
        assert entry.undecided == left
    am.gets()
    am.asks(row("*", 0))
    assert am.attempt.entries == []
    assert am.attempt.table.sums.open_q == 0


def test_a_million_containers_do_not_block() -> None:
    am = Am(coordinator())
    am.asks(row("*", 2**31 - 1))
    assert len(granted_rows(am.sent.ask)) == steering.MAX_PLACED
    am.gets()
    am.asks(row("*", 0))
    assert am.attempt.table.sums.open_q == 0


def test_blacklist_counts_when_a_placement_is_steered() -> None:
    am = Am(coordinator(nodes=3))
    am.asks(row("*"))
    ((_, asked),) = granted_rows(am.sent.ask).items()
    others = [f"host{n}" for n in (1, 2, 3) if f"host{n}" != asked.resource_name]
    am.gets()
    am.asks(blacklist=[others[0]])
    ((_, steered),) = granted_rows(am.sent.ask).items()
    assert steered.resource_name == others[1]


def test_guard_sheds_held_maps_behind_reduces_of_the_same_job() -> None:
    am = Am(coordinator(nodes=1))
    am.asks(row("*", 1, 20), row("*", 1, 10))
    am.gets(*am.granted())
    am.asks(row("*", 0, 20), row("*", 0, 10))
    am.gets()
    reduce, held = (1, 2) if am.attempt.live.get(cid(1)).priority == 10 else (2, 1)  # type: ignore[union-attr]
    am.attempt.containers.on_event(event(reduce, EventKind.STARTED), 1.0)
    am.attempt.containers.on_event(event(held, EventKind.HELD), 1.0)
    am.attempt.containers.guard(5.0)
    assert not am.attempt.take_effects(), "it has waited 4 s only"
    am.attempt.containers.guard(12.0)
    assert [e.container_id for e in am.attempt.take_effects() if isinstance(e, DropHeld)] == [cid(held)]
    am.asks()
    assert [c.id for c in am.sent.release] == [held]
    (status,) = am.gets().completed_container_statuses
    assert (status.container_id.id, status.exit_status) == (held, -102)
    sent = am.asks(row("*", 1, 5))
    assert shown(sent) == [("*", 1, "G", -1)], "and it comes back guaranteed"


def test_guard_leaves_other_frameworks_alone() -> None:
    am = Am(coordinator(nodes=1, app_type="SPARK"))
    am.asks(row("*", 2, 0))
    am.gets(*am.granted())
    am.attempt.containers.on_event(event(1, EventKind.STARTED), 1.0)
    am.attempt.containers.on_event(event(2, EventKind.HELD), 1.0)
    am.attempt.containers.guard(100.0)  # before the hold limit is over
    am.attempt.take_effects()
    assert len(am.attempt.live) == 2


def test_the_grant_after_a_loss_names_what_it_follows() -> None:
    am = Am(coordinator(nodes=1))
    am.asks(row("*", 2))
    am.gets(*am.granted())
    assert [(r.retries, r.follows) for r in records(am)] == [(0, ""), (0, "")]
    am.attempt.containers.on_event(event(2, EventKind.SHED, reason="hold limit"), 1.0)
    am.asks()
    am.gets()
    am.asks(row("*", 2))
    am.gets(*am.granted(first=3))
    assert [(r.container_id, r.retries, r.follows) for r in records(am)] == [(cid(3), 1, cid(2)), (cid(4), 0, "")]


def records(am: Am) -> list[GrantRecord]:
    return [effect.record for effect in am.effects if isinstance(effect, Granted)]


def test_late_stages_of_a_job_are_guaranteed() -> None:
    late = {"match": {"progress": {"min": 0.8}}, "policy": "only_g"}
    am = Am(coordinator({**ALL_Q, "routes": [late, {"policy": "only_q"}]}))
    assert granted_rows(am.asks(row("*", 1))), "its progress is 0"
    am.gets()
    request = y.AllocateRequestProto(response_id=am.response_id, progress=0.9, ask=[row("*", 2, priority=10)])
    rewritten = am.attempt.exchange.on_allocate(request.SerializeToString(), am.now_s)
    rows = (y.AllocateRequestProto.FromString(rewritten) if rewritten is not None else request).ask
    assert [one for one in shown(rows) if one[1] == 2] == [("*", 2, "G", -1)]


def test_what_an_application_asks_for_as_opportunistic_keeps_to_quotas() -> None:
    """Two at a time; the others wait, since they cannot go guaranteed."""
    am = Am(coordinator({**ALL_Q, "quota": {"policy": "absolute", "settings": {"max_q": 2}}}))
    am.asks(row("*", 5, opportunistic=True))
    first = am.granted()
    assert len(first) == 2
    am.gets(*first)
    assert not granted_rows(am.asks()), "it holds two"
    am.attempt.containers.on_event(event(1, EventKind.ENDED), 1.0)
    am.gets(completed=[ended(1)])
    assert len(granted_rows(am.asks())) == 1


def test_shares_of_queues_hold_for_them_too() -> None:
    none = {"policy": "queue_share", "settings": {"cluster_ratio": 0.0, "user_ratio": 1}}
    am = Am(coordinator({**ALL_Q, "quota": none}))
    assert not granted_rows(am.asks(row("*", 2, opportunistic=True)))
    assert Am(coordinator(ALL_Q)).asks(row("*", 2, opportunistic=True))


def test_in_a_queue_that_is_not_listed_they_go_as_they_came() -> None:
    am = Am(coordinator({**ALL_Q, "queues": ["other"]}))
    assert shown(am.asks(row("*", 2, opportunistic=True))) == [("*", 2, "Q", -1)]
    assert not granted_rows(am.sent.ask)
