"""What MapReduce sends (RMContainerRequestor, RMContainerAllocator of Hadoop 3.4), and what it must see."""

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver.common.messages import EventKind
from rm_proxy.domain import ids
from tests.model.requestor import Requestor, Want
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    Am,
    capability,
    container,
    coordinator,
    ended,
    event,
    granted_rows,
    row,
    shown,
)

ALL_G = {**ALL_Q, "routes": [{"policy": "only_g"}]}
RACK = "/r1"


def maps(count: int, priority: int = 20) -> list[Want]:
    """Maps with two replicas each on hosts 1..3."""
    return [Want(n, priority, (f"host{n % 3 + 1}", f"host{(n + 1) % 3 + 1}"), (RACK,)) for n in range(count)]


def ask(am: Am, table: Requestor) -> list[y.ResourceRequestProto]:
    sent = am.asks(*table.rows())
    table.sent()
    return sent


def test_guaranteed_rows_pass_as_the_bytes_that_came() -> None:
    am, table = Am(coordinator(ALL_G)), Requestor()
    for want in maps(4):
        table.add(want)
    request = y.AllocateRequestProto(ask=table.rows(), response_id=0, progress=0.5)
    assert am.attempt.exchange.on_allocate(request.SerializeToString(), 0.0) is None
    granted = container(1, 2, row("*", 1))
    answer = y.AllocateResponseProto(response_id=1, allocated_containers=[granted])
    assert am.attempt.exchange.on_answer(answer.SerializeToString(), 0.0) is None
    table.sent()
    table.remove(maps(4)[0])
    request = y.AllocateRequestProto(ask=table.rows(), response_id=1)
    assert am.attempt.exchange.on_allocate(request.SerializeToString(), 1.0) is None


def test_all_maps_go_queueable_with_an_id_each_and_no_rack_row() -> None:
    am, table = Am(coordinator()), Requestor()
    wants = maps(4)
    for want in wants:
        table.add(want)
    sent = ask(am, table)
    by_id: dict[int, list[str]] = {}
    for each in sent:
        assert each.execution_type_request.execution_type == y.OPPORTUNISTIC
        assert each.num_containers == 1
        by_id.setdefault(each.allocation_request_id, []).append(each.resource_name)
    assert len(by_id) == 4
    for names in by_id.values():
        assert names[0].startswith("host") and names[1:] == ["*"]
    seen = am.gets(*am.granted()).allocated_containers
    assert [(c.priority.priority, c.allocation_request_id, c.execution_type) for c in seen] == [(20, -1, 1)] * 4
    for want in wants:
        table.remove(want)
    assert ask(am, table) == []
    assert am.attempt.entries == []


def test_delivery_then_the_absolute_row_makes_no_second_grant() -> None:
    """YARN-1902: the next request's rows still count what was delivered with the last answer."""
    am, table = Am(coordinator()), Requestor()
    wants = maps(3)
    for want in wants:
        table.add(want)
    ask(am, table)
    am.gets(*am.granted()[:2])
    table.remove(wants[0])
    table.remove(wants[1])
    sent = ask(am, table)
    assert am.attempt.table.sums.open_q == 1
    assert len(granted_rows(sent)) == 1, "the third one is steered, no new one is made"
    assert len({r.allocation_request_id for r in sent if r.num_containers}) == 1


def test_rows_that_do_not_add_up_any_below_hosts() -> None:
    """mapreduce.job.running.map.limit: ANY is the demand, hosts are hints."""
    am, table = Am(coordinator()), Requestor()
    table.limits[20] = 2
    for want in maps(6):
        table.add(want)
    assert len(granted_rows(ask(am, table))) == 2
    am.gets(*am.granted())
    table.remove(maps(6)[0])
    table.remove(maps(6)[1])
    table.limits[20] = 0  # as many run as may
    assert ask(am, table) == []
    assert am.attempt.table.sums.open_q == 0


def test_single_zeroed_host_is_no_hint_any_more() -> None:
    am, table = Am(coordinator(ALL_G, nodes=3)), Requestor()
    for want in maps(3):
        table.add(want)
    ask(am, table)
    am.gets()
    table.failed_on_host("host2")
    request = y.AllocateRequestProto(ask=table.rows(), response_id=1)
    assert [(r.resource_name, r.num_containers) for r in request.ask] == [("host2", 0)]
    assert am.attempt.exchange.on_allocate(request.SerializeToString(), 1.0) is None
    (entry,) = am.attempt.entries
    assert entry.rows.hints()[0] == {"host1", "host3"}


def test_blacklisted_host_is_not_used() -> None:
    am, table = Am(coordinator()), Requestor()
    table.failed_on_host("host1")
    for want in maps(3):
        table.add(want)
    sent = am.asks(*table.rows(), blacklist=["host1"])
    assert {r.resource_name for r in granted_rows(sent).values()} == {"host2", "host3"}


def test_reduces_ramp_up_beside_maps_that_wait() -> None:
    am, table = Am(coordinator({**ALL_Q, "routes": [{"policy": "only_q", "match": {"priority": 20}}]})), Requestor()
    for want in maps(3):
        table.add(want)
    ask(am, table)
    am.gets(*am.granted())
    for want in maps(3):
        table.remove(want)
    reduces = [Want(n, 10, memory_mb=2048) for n in range(2)]
    for want in reduces:
        table.add(want)
    sent = ask(am, table)
    assert [r[:3] for r in shown(sent)] == [("*", 2, "G")]
    am.gets(container(10, 1, sent[0]), container(11, 2, sent[0]))
    for want in reduces:
        table.remove(want)
    ask(am, table)
    late = Want(9, 20, ("host1",), (RACK,))
    table.add(late)
    assert {r[2] for r in shown(ask(am, table))} == {"G"}, "a map that reduces wait for is guaranteed"


def test_failed_map_at_priority_5_is_guaranteed_while_maps_run() -> None:
    am, table = Am(coordinator()), Requestor()
    table.add(maps(1)[0])
    ask(am, table)
    am.gets(*am.granted())
    table.remove(maps(1)[0])
    am.attempt.containers.on_event(event(1, EventKind.STARTED), 1.0)
    table.add(Want(0, 5))
    assert [r[:3] for r in shown(ask(am, table))] == [("*", 1, "G")]


def test_own_opportunistic_maps_come_back_as_opportunistic() -> None:
    """mapreduce.job.num-opportunistic-maps-percent: priority 19, ANY only, OPPORTUNISTIC by the job's own wish."""
    am, table = Am(coordinator(ALL_G)), Requestor()
    wants = [Want(n, 19, opportunistic=True) for n in range(2)]
    for want in wants:
        table.add(want)
    sent = ask(am, table)
    assert len(granted_rows(sent)) == 2, "steered, because the ResourceManager grants on named hosts only"
    seen = am.gets(*am.granted()).allocated_containers
    assert [(c.priority.priority, c.allocation_request_id, c.execution_type) for c in seen] == [(19, -1, 2)] * 2
    for want in wants:
        table.remove(want)
    assert ask(am, table) == []


def test_headroom_is_less_what_queueable_maps_use_but_not_in_the_first_answer() -> None:
    am, table = Am(coordinator()), Requestor()
    for want in maps(2):
        table.add(want)
    ask(am, table)
    assert am.gets(*am.granted(), limit=capability(8192, 8)).limit.memory == 8192
    for want in maps(2):
        table.remove(want)
    ask(am, table)
    assert am.gets(limit=capability(8192, 8)).limit.memory == 8192 - 2048
    ask(am, table)
    assert am.gets(limit=capability(1024, 1)).limit.memory == 0, "never negative"
    ask(am, table)
    am.gets(completed=[ended(1), ended(2)])
    ask(am, table)
    assert am.gets(limit=capability(8192, 8)).limit.memory == 8192


def test_killed_map_is_asked_for_again_and_counts_as_its_retry() -> None:
    """After more than retries_to_g losses of its size a container goes guaranteed."""
    am, table = Am(coordinator({**ALL_Q, "retries_to_g": 2})), Requestor()
    want = Want(0, 20)
    kinds = []
    for number in range(1, 5):
        table.add(want)
        sent = ask(am, table)
        queued = am.granted(number)
        kinds.append("Q" if queued else "G")
        am.gets(*(queued or [container(number, 1, sent[0])]))
        table.remove(want)
        ask(am, table)
        lost = am.gets(completed=[ended(number, -108)]).completed_container_statuses
        assert [s.exit_status for s in lost] == [-102 if queued else -108]
    assert kinds == ["Q", "Q", "Q", "G"]


def test_large_request_id_stays_the_applications_own() -> None:
    am = Am(coordinator())
    large = row("*", 1, request_id=1 << 40)
    assert am.asks(large) == [large]
    seen = am.gets(container(1, 1, large)).allocated_containers
    assert [c.allocation_request_id for c in seen] == [1 << 40]
    assert not am.attempt.live.count_q
    assert ids.is_private(1 << 40), "it looks like one of ours all the same"
