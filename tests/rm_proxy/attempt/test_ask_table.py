"""The ask tables by example: mixed keys, steering, parked ids, what shrinks first."""

from typing import Any

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import NodeView, Placement
from rm_proxy.attempt.asks import ask_table
from rm_proxy.attempt.effects import FellBack
from rm_proxy.attempt.routing import steering
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    Am,
    capability,
    container,
    coordinator,
    ended,
    granted_rows,
    node_id,
    row,
    shown,
    yarn_node,
)

HALF: dict[str, Any] = {**ALL_Q, "routes": [{"policy": "hybrid_gq", "settings": {"td_s": 1000.0, "pq": 50.0}}]}


def guaranteed(am: Am) -> dict[str, int]:
    """What the guaranteed rows of the last request say."""
    return {name: count for name, count, kind, _ in shown(am.sent.ask) if kind == "G"}


def test_mixed_key_goes_out_as_complete_triplets_and_is_brought_down_as_qs_take_hosts() -> None:
    am = Am(coordinator(HALF, nodes=2))
    am.asks(row("host1", 4), row("host2", 4), row("/r1", 8), row("*", 8))
    queued = len(granted_rows(am.sent.ask))
    assert 0 < queued < 8
    rows = guaranteed(am)
    assert rows["*"] == 8 - queued
    assert rows["/r1"] == 8 - queued, "without its rack row nothing is granted node-local"
    on_host1 = sum(1 for r in granted_rows(am.sent.ask).values() if r.resource_name == "host1")
    assert rows["host1"] == min(4 - on_host1, 8 - queued)
    am.gets(*am.granted())
    assert am.asks() == [], "a delivery of queueables changes nothing of what the ResourceManager holds"


def test_guaranteed_delivery_of_a_mixed_key_is_not_told_again() -> None:
    am = Am(coordinator(HALF, nodes=2))
    am.asks(row("host1", 8), row("/r1", 8), row("*", 8))
    g = guaranteed(am)["*"]
    am.gets(*am.granted())
    assert am.asks() == []
    am.gets(container(100, 1, row("*", 1)))
    assert am.asks() == []
    (entry,) = am.attempt.entries
    assert (entry.demand, entry.g_share, entry.rows.at_rm["*"]) == (g - 1, g - 1, g - 1)


def test_rows_that_overwrote_a_grant_on_its_way_are_brought_down_after_it() -> None:
    """The ResourceManager granted before it took in our rows: its count is one too high, as after any absolute row."""
    am = Am(coordinator(HALF, nodes=2))
    am.asks(row("*", 8))
    g = guaranteed(am)["*"]
    am.gets(*am.granted(), container(100, 1, row("*", 1)))
    am.asks()
    assert guaranteed(am) == {"*": g - 1}


def test_demand_shrinks_from_unplaced_over_pending_to_guaranteed(monkeypatch: Any) -> None:
    monkeypatch.setattr(steering, "MAX_PLACED", 2)
    am = Am(coordinator(HALF, nodes=2))
    am.asks(row("*", 12))
    (entry,) = am.attempt.entries
    g, unplaced = entry.g_share, entry.q_wanted
    assert unplaced > 0 and len(entry.pending) == 2 and g > 0
    am.gets()
    monkeypatch.setattr(steering, "MAX_PLACED", 0)
    am.asks(row("*", g + 2))
    assert (entry.g_share, entry.q_wanted, len(entry.pending)) == (g, 0, 2)
    am.gets()
    am.asks(row("*", g + 1))
    assert (entry.g_share, len(entry.pending)) == (g, 1)
    assert [s[1] for s in shown(am.sent.ask) if s[2] == "Q"] == [0], "the host row of the one taken back is zeroed"
    am.gets()
    am.asks(row("*", 1))
    assert (entry.g_share, len(entry.pending)) == (1, 0)
    assert guaranteed(am) == {"*": 1}
    am.gets()
    am.asks(row("*", 0))
    assert guaranteed(am) == {"*": 0}
    assert am.attempt.entries == []


def test_not_granted_is_steered_under_its_id_then_falls_back() -> None:
    am = Am(coordinator(nodes=5))
    am.asks(row("host1"), row("/r1"), row("*"))
    hosts = []
    private = 0
    for _ in range(steering.MAX_TRIES):
        ((private, asked),) = granted_rows(am.sent.ask).items()
        zeroed = [r.resource_name for r in am.sent.ask if not r.num_containers]
        assert zeroed == hosts[-1:], "the old host row is zeroed in the same request"
        assert {r.allocation_request_id for r in am.sent.ask} == {private}
        hosts.append(asked.resource_name)
        am.gets()
        am.asks()
    assert len(set(hosts)) == steering.MAX_TRIES
    whole = {("*", 1, "G", -1), ("host1", 1, "G", -1), ("/r1", 1, "G", -1), (hosts[-1], 0, "Q", -1)}
    assert set(shown(am.sent.ask)) == whole and len(am.sent.ask) == 4
    am.gets()
    assert any(isinstance(e, FellBack) for e in am.effects)
    assert am.asks(row("*", 2)) and list(granted_rows(am.sent.ask)) == [private], "the parked id is used again"


def test_late_grant_of_a_parked_id_is_kept_instead_of_its_guaranteed_one() -> None:
    am = Am(coordinator(nodes=1))
    am.asks(row("host1"), row("/r1"), row("*"))
    (late,) = am.granted()
    am.gets()
    am.asks()  # no other node: guaranteed
    assert guaranteed(am) == {"host1": 1, "/r1": 1, "*": 1}
    seen = am.gets(late).allocated_containers
    assert [(c.id.id, c.execution_type) for c in seen] == [(1, y.GUARANTEED)]
    assert am.attempt.live.count_q == 1
    am.asks()
    assert guaranteed(am) == {"host1": 0, "/r1": 0, "*": 0}, "the guaranteed one is taken back"
    assert am.attempt.entries == []


def test_late_grant_that_nobody_wants_is_given_back_and_its_completion_not_told() -> None:
    am = Am(coordinator(nodes=1))
    am.asks(row("*"))
    (late,) = am.granted()
    am.gets()
    am.asks(row("*", 0))
    assert not am.gets(late).allocated_containers
    am.asks()
    assert [c.id for c in am.sent.release] == [1]
    assert not am.gets(completed=[ended(1, -100)]).completed_container_statuses


def test_no_new_ids_while_too_many_are_parked(monkeypatch: Any) -> None:
    monkeypatch.setattr(ask_table, "MAX_PARKED", 2)
    am = Am(coordinator(nodes=1))
    am.asks(row("*", 2))
    am.gets()
    am.asks()
    am.gets()
    assert len(am.attempt.table._parked_for) == 2
    am.asks(row("*", 3, priority=5))
    assert guaranteed(am) == {"*": 3}
    assert granted_rows(am.sent.ask) == {}


def test_grant_elsewhere_is_kept_where_the_ask_may_go() -> None:
    am = Am(coordinator())
    am.asks(row("*"))
    (asked,) = granted_rows(am.sent.ask).values()
    other = next(n for n in (1, 2, 3) if f"host{n}" != asked.resource_name)
    assert [c.nodeId.host for c in am.gets(container(1, other, asked)).allocated_containers] == [f"host{other}"]


def test_grant_elsewhere_is_given_back_and_its_nm_token_delivered() -> None:
    am = Am(coordinator())
    am.asks(row("host1"), row("/r1", relax=False), row("*", relax=False))
    (asked,) = granted_rows(am.sent.ask).values()
    assert asked.resource_name == "host1"
    am.response_id += 1
    answer = y.AllocateResponseProto(response_id=am.response_id, allocated_containers=[container(1, 2, asked)])
    answer.nm_tokens.add().nodeId.host = "host2"
    seen = am.attempt.exchange.on_answer(answer.SerializeToString(), 0.0)
    assert seen is not None
    got = y.AllocateResponseProto.FromString(seen)
    assert not got.allocated_containers
    assert [t.nodeId.host for t in got.nm_tokens] == ["host2"]
    am.asks()
    assert [c.id for c in am.sent.release] == [1]
    assert guaranteed(am) == {"host1": 1, "/r1": 1, "*": 1}, "it goes guaranteed"


def test_strict_locality_keeps_to_its_host_though_its_rack_row_is_there() -> None:
    """AMRMClient adds the rack row of a strict host with relaxLocality off; only host1 may be used."""
    world = coordinator(nodes=3)
    am = Am(world)
    am.asks(row("host1", 3), row("/r1", 3, relax=False), row("*", 3, relax=False))
    assert {r.resource_name for r in granted_rows(am.sent.ask).values()} == {"host1"}
    am.gets()
    am.asks()
    assert guaranteed(am) == {"host1": 3, "/r1": 3, "*": 3}, "no other node is tried"


def test_strict_rack() -> None:
    world = coordinator(nodes=3)
    world.yarn_nodes([yarn_node(1, rack="/r2"), yarn_node(2), yarn_node(3)], 0.0)
    am = Am(world)
    am.asks(row("/r2", 2), row("*", 2, relax=False))
    assert {r.resource_name for r in granted_rows(am.sent.ask).values()} == {"host1"}


def test_one_capability_per_private_id() -> None:
    am = Am(coordinator(nodes=1))
    small, large = capability(1024), capability(2048)
    am.asks(row("*", 1, 0, request_id=0, size=small))
    (parked,) = granted_rows(am.sent.ask)
    am.gets()
    am.asks(row("*", 0, 0, request_id=0, size=small), row("*", 1, 0, request_id=0, size=large))
    assert parked not in granted_rows(am.sent.ask)


def test_late_grant_of_another_capability_is_not_delivered() -> None:
    am = Am(coordinator(nodes=1))
    small, large = capability(1024), capability(2048)
    am.asks(row("*", 1, 0, request_id=0, size=small))
    (late,) = am.granted()
    am.gets()
    am.asks(row("*", 0, 0, request_id=0, size=small), row("*", 1, 0, request_id=0, size=large))
    assert not am.gets(late).allocated_containers


def test_surprise_guaranteed_grant_takes_a_queueable_ones_place() -> None:
    am = Am(coordinator())
    am.asks(row("*"))
    am.gets(container(7, 1, row("*")))
    am.asks()
    assert am.attempt.table.sums.open_q == 0
    assert [s[1] for s in shown(am.sent.ask)] == [0], "the pending one is taken back"


def test_untold_rows_stay_unsent_when_a_host_disappears() -> None:
    am = Am(coordinator(HALF, nodes=2))
    am.asks(row("host1", 2), row("host9", 2), row("/r1", 2), row("/r9", 2), row("*", 4))
    g = guaranteed(am)
    assert g["host9"] <= g["*"] and set(g) <= {"host1", "host9", "/r1", "/r9", "*"}
    am.asks(row("host9", 0), row("/r9", 0))
    assert guaranteed(am).get("host9", 0) == 0


def test_policy_that_places_nowhere() -> None:
    world = coordinator()
    world.policies.place = lambda ask, nodes, rng: Placement(None, reason="closed")  # type: ignore[method-assign]
    am = Am(world)
    am.asks(row("*", 2))
    assert guaranteed(am) == {"*": 2}
    am.gets(container(1, 1, row("*")))
    record = next(e.record for e in am.effects if type(e).__name__ == "Granted")
    assert record.route_reason.startswith("fell back to guaranteed: closed")


def test_placement_respects_what_a_node_can_hold() -> None:
    am = Am(coordinator())
    am.asks(row("*", 1, size=capability(8193)))
    assert guaranteed(am) == {"*": 1}
    assert isinstance(am.world.inventory.node(node_id(1)), NodeView)
