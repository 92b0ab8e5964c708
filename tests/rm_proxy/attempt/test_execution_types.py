"""What an application asks for as OPPORTUNISTIC or GUARANTEED, with and without `enforceExecutionType`."""

from typing import Any

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Kind
from quicksilver.common.messages import EventKind
from rm_proxy.attempt.routing.steering import MAX_TRIES
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.domain import ids
from tests.rm_proxy.attempt.test_resync import Proxy
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    Am,
    cid,
    container,
    coordinator,
    ended,
    event,
    granted_rows,
    row,
    shown,
)

NO_Q: dict[str, Any] = {**ALL_Q, "quota": {"policy": "absolute", "settings": {"max_q": 0}}}


def master(policies: dict[str, Any] | None = None, app_type: str = "SPARK", **more: Any) -> Am:
    return Am(coordinator(policies or dict(ALL_Q), app_type=app_type, **more))


def either(count: int = 1, **more: Any) -> y.ResourceRequestProto:
    """Return an ask for OPPORTUNISTIC containers that may also be guaranteed."""
    return row("*", count, opportunistic=True, enforced=False, **more)


def only_o(count: int = 1, **more: Any) -> y.ResourceRequestProto:
    return row("*", count, opportunistic=True, enforced=True, **more)


def any_rows(am: Am, kind: str = "G") -> list[tuple[str, int, str, int]]:
    """Return the ANY rows of one type of the last request."""
    return [one for one in shown(am.sent.ask) if one[0] == "*" and one[2] == kind]


@pytest.mark.parametrize("opportunistic", [False, True])
@pytest.mark.parametrize("enforced", [False, True])
def test_within_its_quota_only_an_enforced_guaranteed_ask_is_not_queueable(opportunistic: bool, enforced: bool) -> None:
    am = master()
    am.asks(row("*", 2, opportunistic=opportunistic, enforced=enforced))
    queueable = opportunistic or not enforced
    assert len(granted_rows(am.sent.ask)) == (2 if queueable else 0)
    if not queueable:
        (entry,) = am.attempt.entries
        assert [reason.text for reason in entry.g_reasons] == ["the application enforces GUARANTEED"]


def test_mapreduce_enforces_all_of_its_asks_which_tells_nothing() -> None:
    """RMContainerRequestor.addResourceRequest sets the flag in guaranteed asks too."""
    am = master(app_type="MAPREDUCE")
    assert len(granted_rows(am.asks(row("*", 2, enforced=True)))) == 2


@pytest.mark.parametrize("opportunistic", [False, True])
@pytest.mark.parametrize("enforced", [False, True])
def test_beyond_a_quota_only_an_enforced_opportunistic_ask_waits(opportunistic: bool, enforced: bool) -> None:
    am = master(NO_Q)
    am.asks(row("*", 2, opportunistic=opportunistic, enforced=enforced))
    waits = opportunistic and enforced
    assert not any_rows(am, "Q")
    assert any_rows(am) == ([] if waits else [("*", 2, "G", -1)])
    (entry,) = am.attempt.entries
    assert (entry.q_wanted, entry.g_share) == ((2, 0) if waits else (0, 2))
    assert waits or [reason.slot for reason in entry.g_reasons] == [
        "quota" if opportunistic or not enforced else "route"
    ]


def test_a_guaranteed_one_comes_back_as_it_was_asked_for() -> None:
    """With request id and type of the ask; the ResourceManager holds no more of it."""
    am = master(NO_Q)
    (sent,) = am.asks(either(request_id=7))
    assert ids.is_private(sent.allocation_request_id), "a GUARANTEED ask of the same id must not be replaced"
    assert not sent.execution_type_request.enforce_execution_type
    am.gets()
    am.asks()
    (seen,) = am.gets(container(1, 1, sent)).allocated_containers
    assert (seen.execution_type, seen.allocation_request_id) == (y.OPPORTUNISTIC, 7)
    held = am.attempt.live.get(cid(1))
    assert held is not None and held.kind is Kind.GUARANTEED
    assert am.asks(either(0, request_id=7)) == [] and not am.attempt.entries
    (status,) = am.gets(completed=[ended(1)]).completed_container_statuses
    assert status.exit_status == 0 and not len(am.attempt.live)


def test_it_stands_beside_a_guaranteed_ask_of_the_same_priority_and_id() -> None:
    am = master({**NO_Q, "routes": [{"policy": "only_g"}]})
    am.asks(either(2), row("*", 3))
    rows = {r.allocation_request_id: r.num_containers for r in am.sent.ask}
    private = max(rows)
    assert rows == {-1: 3, private: 2} and ids.is_private(private)
    (own, theirs) = (next(r for r in am.sent.ask if r.allocation_request_id == key) for key in (-1, private))
    seen = am.gets(container(1, 1, own), container(2, 1, theirs)).allocated_containers
    assert [c.execution_type for c in seen] == [y.GUARANTEED, y.OPPORTUNISTIC]
    assert sorted((e.key.opportunistic, e.demand, e.g_share) for e in am.attempt.entries) == [
        (False, 2, 2),
        (True, 1, 1),
    ]


def test_after_too_many_losses_it_goes_guaranteed_unless_the_type_is_enforced() -> None:
    kinds: dict[bool, list[str]] = {True: [], False: []}
    for enforced, seen in kinds.items():
        am = master({**ALL_Q, "retries_to_g": 1})
        for number in range(1, 4):
            ask = row("*", 1, opportunistic=True, enforced=enforced)
            sent = next(r for r in am.asks(ask) if r.num_containers)
            host = int(sent.resource_name[4:]) if sent.resource_name != "*" else 1
            seen.append("Q" if sent.execution_type_request.execution_type == y.OPPORTUNISTIC else "G")
            am.gets(container(number, host, sent))
            am.asks(row("*", 0, opportunistic=True, enforced=enforced))
            am.gets(completed=[ended(number, -108)])
    assert kinds == {True: ["Q", "Q", "Q"], False: ["Q", "Q", "G"]}


def refusing(world: Coordinator, am: Am) -> list[tuple[str, int, str, int]]:
    """Have the ResourceManager grant nothing on any node; return the ANY rows of guaranteed containers."""
    out: list[tuple[str, int, str, int]] = []
    for _ in range(MAX_TRIES + 1):
        am.gets()
        am.asks()
        out += any_rows(am)
    return out


def test_where_no_node_grants_it_it_goes_guaranteed_unless_the_type_is_enforced() -> None:
    for ask, rows in ((either(), [("*", 1, "G", -1)]), (only_o(), [])):
        am = master(nodes=MAX_TRIES)
        am.asks(ask)
        assert refusing(am.world, am) == rows


def test_in_bypass_it_goes_guaranteed_unless_the_type_is_enforced() -> None:
    am = master()
    am.world.modes.bypass("on", 0.0)
    am.asks(either(2, priority=1), only_o(3, priority=2))
    assert shown(am.sent.ask) == [("*", 2, "G", -1), ("*", 3, "Q", -1)]
    am.gets()
    am.world.modes.bypass("off", 1.0)
    am.asks()
    assert len(granted_rows(am.sent.ask)) == 5
    assert {("*", 0, "G", -1), ("*", 0, "Q", -1)} <= set(shown(am.sent.ask)), "what they went out as is taken back"


def test_in_a_queue_that_is_not_listed_it_goes_as_it_came_in_bypass_too() -> None:
    am = master({**ALL_Q, "queues": ["other"]})
    assert am.asks(either(2)) == [either(2)]
    am.gets()
    am.world.modes.bypass("on", 0.0)
    assert am.asks(either(3)) == [either(3)]


def test_in_shadow_mode_it_stays_opportunistic() -> None:
    am = master({**NO_Q, "mode": "shadow"})
    assert am.asks(either(2)) == []
    am = master({**ALL_Q, "mode": "shadow"})
    am.asks(either(2))
    assert len(granted_rows(am.sent.ask)) == 2


def test_rows_go_from_one_form_to_the_other_when_settings_change() -> None:
    am = master()
    am.world.modes.bypass("on", 0.0)
    am.asks(only_o(2))
    assert shown(am.sent.ask) == [("*", 2, "Q", -1)]
    am.gets()
    am.asks(either(2))
    (entry,) = am.attempt.entries
    assert not entry.rows.as_guaranteed, "it is asked for already"
    am.gets()
    am.asks(either(3))
    assert shown(am.sent.ask) == [("*", 0, "Q", -1), ("*", 3, "G", -1)]
    am.gets()
    am.asks(only_o(3))
    assert shown(am.sent.ask) == [("*", 0, "G", -1), ("*", 3, "Q", -1)], "enforced from now on"


def test_a_type_that_is_enforced_later_is_kept_from_then_on() -> None:
    am = master(NO_Q)
    am.asks(either(2))
    assert any_rows(am) == [("*", 2, "G", -1)]
    am.gets()
    am.asks(only_o(2))
    assert shown(am.sent.ask) == [("*", 0, "G", -1)]
    (entry,) = am.attempt.entries
    assert (entry.q_wanted, entry.g_share) == (2, 0)


def test_one_that_comes_after_its_rows_were_taken_back_counts_as_one_of_them() -> None:
    am = master(NO_Q)
    (sent,) = am.asks(either(2))
    am.gets()
    am.asks(only_o(2))
    (seen,) = am.gets(container(1, 1, sent)).allocated_containers
    assert (seen.execution_type, seen.allocation_request_id) == (y.OPPORTUNISTIC, -1)
    (entry,) = am.attempt.entries
    assert (entry.demand, entry.q_wanted, entry.rows.at_rm) == (1, 1, {})


def test_a_refused_request_is_sent_again() -> None:
    am = master(NO_Q)
    am.asks(either(2))
    am.attempt.exchange.on_refused()
    am.asks()
    assert any_rows(am) == [("*", 2, "G", -1)]
    am.gets()
    am.asks(either(0))
    assert any_rows(am) == [("*", 0, "G", -1)] and not am.attempt.entries
    am.attempt.exchange.on_refused()
    am.asks()
    assert any_rows(am) == [("*", 0, "G", -1)], "the ResourceManager would grant it for nothing"


def test_after_a_restart_of_the_proxy_its_rows_are_taken_back() -> None:
    proxy = Proxy()
    proxy.registers()
    proxy.world.modes.bypass("on", 0.0)
    (sent,) = proxy.asks(0, either(2)).ask
    assert sent.execution_type_request.execution_type == y.GUARANTEED
    proxy.told(y.AllocateResponseProto(response_id=1))
    proxy.dies()
    proxy.is_refused(1)
    proxy.resyncs()
    again = proxy.asks(0, either(2))
    zeros = [r for r in again.ask if r.allocation_request_id == sent.allocation_request_id]
    assert [(r.resource_name, r.num_containers) for r in zeros] == [("*", 0)]
    assert zeros[0].execution_type_request.execution_type == y.GUARANTEED
    assert len(granted_rows(again.ask)) == 2
    answer = y.AllocateResponseProto(response_id=2)
    answer.allocated_containers.add().CopyFrom(container(1, 1, sent))
    (seen,) = proxy.told(answer).allocated_containers
    assert (seen.execution_type, seen.allocation_request_id) == (y.OPPORTUNISTIC, -1), "granted before"
    assert proxy.live == {cid(1): Kind.GUARANTEED}


def running(ask: y.ResourceRequestProto) -> Am:
    """Return a master of which one queueable container runs, where containers are promoted as they start."""
    am = master({**ALL_Q, "promote": {"policy": "on_start"}, "estimate": {"default_s": 60}})
    am.asks(ask)
    (asked,) = granted_rows(am.sent.ask).values()
    am.gets(container(1, int(asked.resource_name[4:]), asked))
    am.attempt.containers.on_event(event(1, EventKind.STARTED), 0.0)
    return am


def updates(am: Am, *theirs: y.UpdateContainerRequestProto) -> list[y.UpdateContainerRequestProto]:
    am.world.rounds.all_parts(1.0)
    request = y.AllocateRequestProto(response_id=am.response_id, update_requests=theirs)
    raw = request.SerializeToString()
    rewritten = am.attempt.exchange.on_allocate(raw, 1.0)
    return list(y.AllocateRequestProto.FromString(raw if rewritten is None else rewritten).update_requests)


def promotion(am: Am) -> y.AllocateResponseProto:
    """Return the answer to a promotion, as the application master gets it."""
    am.response_id += 1
    answer = y.AllocateResponseProto(response_id=am.response_id)
    done = answer.updated_containers.add(update_type=y.PROMOTE_EXECUTION_TYPE)
    held = am.attempt.live.get(cid(1))
    assert held is not None
    done.container.CopyFrom(container(1, 1, row("*", request_id=held.private_id)))
    done.container.version = 1
    raw = answer.SerializeToString()
    rewritten = am.attempt.exchange.on_answer(raw, 1.0)
    return y.AllocateResponseProto.FromString(raw if rewritten is None else rewritten)


@pytest.mark.parametrize(("ask", "promoted"), [(either(), True), (only_o(), False), (row("*"), True)])
def test_a_running_one_is_promoted_unless_the_type_is_enforced(ask: y.ResourceRequestProto, promoted: bool) -> None:
    am = running(ask)
    assert len(updates(am)) == promoted
    if promoted:
        assert not promotion(am).updated_containers, "the application is not told"
        held = am.attempt.live.get(cid(1))
        assert held is not None and held.kind is Kind.GUARANTEED


@pytest.mark.parametrize("ask", [either(), only_o()])
def test_the_application_may_promote_its_own(ask: y.ResourceRequestProto) -> None:
    """It sees the type that it asked for, and the container counts as guaranteed."""
    am = running(ask)
    own = y.UpdateContainerRequestProto(
        container_version=0, update_type=y.PROMOTE_EXECUTION_TYPE, execution_type=y.GUARANTEED
    )
    held = am.attempt.live.get(cid(1))
    assert held is not None
    own.container_id.CopyFrom(held.proto)
    assert updates(am, own) == [own]
    (seen,) = promotion(am).updated_containers
    assert (seen.container.execution_type, seen.container.version) == (y.GUARANTEED, 1)
    assert seen.container.allocation_request_id == -1
    live = am.attempt.live
    assert (live.count_q, live.used_g.memory_mb) == (0, 1024) and held.promoted_s is None
