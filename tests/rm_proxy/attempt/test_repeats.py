"""Requests and answers that come twice (lab/docs/internals.md; ApplicationMasterService.allocate)."""

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver.common.messages import EventKind
from rm_proxy.attempt.attempt import Attempt
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    ATTEMPT,
    Am,
    cid,
    container,
    container_proto,
    coordinator,
    ended,
    event,
    granted_rows,
    row,
    shown,
)

ALL_G = {**ALL_Q, "routes": [{"policy": "only_g"}]}


def request(response_id: int, *rows: y.ResourceRequestProto, release: tuple[int, ...] = ()) -> bytes:
    proto = y.AllocateRequestProto(response_id=response_id, ask=rows)
    proto.release.extend(container_proto(n) for n in release)
    return proto.SerializeToString()


def answer(response_id: int, *allocated: y.ContainerProto) -> bytes:
    return y.AllocateResponseProto(response_id=response_id, allocated_containers=allocated).SerializeToString()


def sent(attempt: Attempt, body: bytes) -> y.AllocateRequestProto:
    rewritten = attempt.exchange.on_allocate(body, 0.0)
    return y.AllocateRequestProto.FromString(body if rewritten is None else rewritten)


def queueable(message: y.AllocateRequestProto, first: int = 1) -> list[y.ContainerProto]:
    rows = granted_rows(message.ask).values()
    return [container(first + n, int(r.resource_name.removeprefix("host")), r) for n, r in enumerate(rows)]


def test_the_same_answer_twice_gives_the_same_bytes_and_one_delivery() -> None:
    attempt = coordinator().attempt(ATTEMPT)
    first = sent(attempt, request(0, row("*", 2)))
    raw = answer(1, *queueable(first))
    rewritten = attempt.exchange.on_answer(raw, 0.0)
    effects = attempt.take_effects()
    assert rewritten is not None and len(effects) == 4  # two grants, two announcements
    assert attempt.exchange.on_allocate(request(0, row("*", 2)), 0.0) is None, (
        "the ResourceManager ignores it, it passes"
    )
    assert attempt.exchange.on_answer(raw, 0.0) == rewritten
    assert attempt.take_effects() == []
    assert attempt.live.count_q == 2
    assert attempt.table.sums.open_q == 0, "the repeated row did not ask again"
    assert list(sent(attempt, request(1, row("*", 0))).ask) == []


def test_the_same_request_before_any_answer_goes_out_as_the_same_bytes() -> None:
    """Either the ResourceManager has seen the first one and ignores this, or it needs every row of it."""
    attempt = coordinator().attempt(ATTEMPT)
    body = request(0, row("host1", 1), row("/r1", 1), row("*", 1))
    first = attempt.exchange.on_allocate(body, 0.0)
    assert first is not None
    assert attempt.exchange.on_allocate(body, 1.0) == first
    assert attempt.table.sums.open_q == 1
    (granted,) = queueable(y.AllocateRequestProto.FromString(first))
    attempt.exchange.on_answer(answer(1, granted), 1.0)
    assert attempt.live.count_q == 1
    assert attempt.exchange.on_allocate(request(1), 2.0) is None


def test_release_of_ours_is_repeated_too() -> None:
    am = Am(coordinator())
    am.asks(row("*"))
    am.gets(*queueable(am.sent))
    am.attempt.containers.on_event(event(1, EventKind.SHED), 0.0)
    first = sent(am.attempt, request(1, row("*", 0)))
    assert [c.id for c in first.release] == [1]
    assert sent(am.attempt, request(1, row("*", 0))) == first


def test_a_restarted_resourcemanager_gets_releases_again_until_it_reports_the_end() -> None:
    """It recovers every container that runs, also one whose release was under way, or not executed yet."""
    am = Am(coordinator())
    am.asks(row("*", 2))
    am.gets(*queueable(am.sent))
    for number in (1, 2):
        am.attempt.containers.on_event(event(number, EventKind.STARTED), 0.0)
    am.attempt.containers.on_event(event(1, EventKind.LOST), 0.0)
    am.asks()
    assert [c.id for c in am.sent.release] == [1]
    am.gets()  # the ResourceManager dies before it has the node stop the container
    am.attempt.containers.on_event(event(2, EventKind.LOST), 0.0)
    am.asks()
    assert [c.id for c in am.sent.release] == [2]
    for released in ([1, 2], [2]):
        am.attempt.on_not_registered(1.0)
        am.attempt.on_registered(y.RegisterApplicationMasterResponseProto().SerializeToString(), 1.0)
        am.response_id = 0
        am.asks()
        assert [c.id for c in am.sent.release] == released
        am.gets(completed=[ended(1, -100)])
        am.asks()
        assert not am.sent.release
        am.gets()


def test_a_repetition_with_more_rows_carries_what_the_first_one_held() -> None:
    attempt = coordinator(ALL_G).attempt(ATTEMPT)
    sent(attempt, request(0, row("*", 2, 20), release=(5,)))
    second = sent(attempt, request(0, row("*", 1, 10)))
    assert sorted((r.priority.priority, r.num_containers) for r in second.ask) == [(10, 1), (20, 2)]
    assert [c.id for c in second.release] == [5]
    attempt.exchange.on_answer(answer(1), 0.0)
    third = sent(attempt, request(1))
    assert [(r.priority.priority, r.num_containers) for r in third.ask] == [(10, 1)], "which it may have ignored"
    attempt.exchange.on_answer(answer(2), 0.0)
    assert attempt.exchange.on_allocate(request(2), 0.0) is None


def test_a_repetition_that_cancels_sends_the_zero_again() -> None:
    attempt = coordinator(ALL_G).attempt(ATTEMPT)
    sent(attempt, request(0, row("*", 2)))
    second = sent(attempt, request(0, row("*", 0)))
    assert [r.num_containers for r in second.ask] == [0]
    attempt.exchange.on_answer(answer(1), 0.0)
    assert [r.num_containers for r in sent(attempt, request(1)).ask] == [0]


def test_a_repetition_steers_nothing() -> None:
    attempt = coordinator().attempt(ATTEMPT)
    first = sent(attempt, request(0, row("*", 1, 20)))
    second = sent(attempt, request(0, row("*", 1, 20), row("*", 1, 5)))
    before, after = granted_rows(first.ask), granted_rows(second.ask)
    assert before.items() <= after.items(), "the first placement stands as it was"
    assert len(after) == 2
    attempt.exchange.on_answer(answer(1, *queueable(first)), 0.0)
    third = sent(attempt, request(1))
    assert list(granted_rows(third.ask)) == [i for i in after if i not in before], "the second one is steered"


def test_a_refused_request_comes_again() -> None:
    """An exception of the ResourceManager: nothing was taken in; the application sends its rows again."""
    am = Am(coordinator())
    am.asks(row("*"))
    am.gets(*queueable(am.sent))
    am.attempt.containers.on_event(event(1, EventKind.SHED), 0.0)
    assert [c.id for c in am.asks(row("*", 1)) and am.sent.release] == [1]
    am.attempt.exchange.on_refused()
    am.asks(row("*", 1))
    assert [c.id for c in am.sent.release] == [1]


def test_refused_guaranteed_rows_of_a_mixed_key_go_out_again() -> None:
    am = Am(coordinator(nodes=1))
    am.asks(row("host1"), row("/r1"), row("*"))
    am.gets()
    am.asks()
    assert ("*", 1, "G", -1) in shown(am.sent.ask)
    am.attempt.exchange.on_refused()
    am.asks()
    assert {s for s in shown(am.sent.ask) if s[2] == "G"} == {(n, 1, "G", -1) for n in ("host1", "/r1", "*")}


def test_not_registered_starts_the_tables_over_and_ends_what_never_started() -> None:
    am = Am(coordinator())
    am.asks(row("*", 3))
    am.gets(*queueable(am.sent)[:2])
    am.attempt.containers.on_event(event(1, EventKind.STARTED), 0.0)
    am.attempt.containers.on_event(event(2, EventKind.HELD), 0.0)
    am.attempt.on_not_registered(1.0)
    assert am.attempt.entries == [] and am.attempt.table.sums.open_q == 0
    dropped = [e.container_id for e in am.attempt.take_effects() if type(e).__name__ == "DropHeld"]
    assert dropped == [cid(2)]
    am.attempt.on_registered(y.RegisterApplicationMasterResponseProto().SerializeToString(), 1.0)
    am.response_id = 0
    assert len(granted_rows(am.asks(row("*", 1)))) == 1
    (status,) = am.gets().completed_container_statuses
    assert (status.container_id.id, status.exit_status) == (2, -102)
    am.asks()
    assert not am.gets(completed=[ended(2, -100)]).completed_container_statuses


def test_registration_restores_containers_of_earlier_attempts() -> None:
    am = Am(coordinator())
    am.asks(row("*"))
    (granted,) = queueable(am.sent)
    world = am.world
    second = world.attempt(ATTEMPT[:-1] + "2")
    body = y.RegisterApplicationMasterResponseProto(containers_from_previous_attempts=[granted])
    body.client_to_am_token_master_key = b"key"
    seen = second.on_registered(body.SerializeToString(), 0.0)
    assert seen is not None
    got = y.RegisterApplicationMasterResponseProto.FromString(seen)
    assert [(c.allocation_request_id, c.execution_type) for c in got.containers_from_previous_attempts] == [(-1, 1)]
    assert got.client_to_am_token_master_key == b"key"
    second.containers.on_event(event(1, EventKind.KILLED), 0.0)
    rewritten = second.exchange.on_answer(
        y.AllocateResponseProto(response_id=1, completed_container_statuses=[ended(1, -105)]).SerializeToString(), 0.0
    )
    assert rewritten is not None
    (status,) = y.AllocateResponseProto.FromString(rewritten).completed_container_statuses
    assert status.exit_status == -102


def test_registration_without_them_passes_as_it_came() -> None:
    attempt = coordinator().attempt(ATTEMPT)
    body = y.RegisterApplicationMasterResponseProto(queue="default")
    body.maximumCapability.memory = 4096
    assert attempt.on_registered(body.SerializeToString(), 0.0) is None


def test_what_a_repetition_says_beyond_the_answered_request_is_not_lost() -> None:
    """The answer was lost behind the proxy; the ResourceManager ignores the repetition, new rows and all."""
    attempt = coordinator(ALL_G).attempt(ATTEMPT)
    sent(attempt, request(0, row("*", 2)))
    attempt.exchange.on_answer(answer(1, container(1, 1, row())), 0.0)
    late = request(0, row("*", 5), row("*", 1, 10), release=(7,))
    assert attempt.exchange.on_allocate(late, 0.0) is None
    attempt.exchange.on_answer(answer(1, container(1, 1, row())), 0.0)
    third = sent(attempt, request(1))
    assert sorted((r.priority.priority, r.num_containers) for r in third.ask) == [(10, 1), (20, 4)], "one has come"
    assert [c.id for c in third.release] == [7]
    attempt.exchange.on_answer(answer(2), 0.0)
    assert attempt.exchange.on_allocate(request(2), 0.0) is None


def test_the_next_request_itself_overrules_what_came_late() -> None:
    attempt = coordinator(ALL_G).attempt(ATTEMPT)
    sent(attempt, request(0, row("*", 2)))
    attempt.exchange.on_answer(answer(1), 0.0)
    attempt.exchange.on_allocate(request(0, row("*", 5)), 0.0)
    attempt.exchange.on_answer(answer(1), 0.0)
    assert [r.num_containers for r in sent(attempt, request(1, row("*", 3))).ask] == [3]


def test_a_doubtful_row_goes_out_again_although_its_key_became_mixed() -> None:
    world = coordinator({**ALL_Q, "quota": {"policy": "absolute", "settings": {"max_q": 0}}})
    attempt = world.attempt(ATTEMPT)
    sent(attempt, request(0, row("*", 1, 10)))
    sent(attempt, request(0, row("*", 2, 20)))
    attempt.exchange.on_answer(answer(1), 0.0)
    world.switch(coordinator().policies)
    third = sent(attempt, request(1, row("*", 3, 20)))
    assert ("*", 2, "G", -1) in shown(third.ask)
    assert len(granted_rows(third.ask)) == 1


def test_restart_before_the_application_got_its_answer() -> None:
    """Of containers that it never saw it hears nothing; ends that it never saw are told again, once."""
    am = Am(coordinator())
    am.asks(row("*"))
    am.gets(*queueable(am.sent))
    am.attempt.containers.on_event(event(1, EventKind.STARTED), 0.0)
    am.asks(row("*", 2))
    am.gets(*queueable(am.sent, first=2), completed=[ended(1, 0)])  # lost on its way
    am.attempt.exchange.on_allocate(request(1, row("*", 2)), 0.0)
    am.attempt.on_not_registered(2.0)
    dropped = [e.container_id for e in am.attempt.take_effects() if type(e).__name__ == "DropHeld"]
    assert dropped == [cid(2), cid(3)]
    am.attempt.on_registered(y.RegisterApplicationMasterResponseProto().SerializeToString(), 2.0)
    am.response_id = 0
    am.asks(row("*", 2))
    ends = am.gets(completed=[ended(1, 0)]).completed_container_statuses
    assert [(s.container_id.id, s.exit_status) for s in ends] == [(1, 0)]
    assert not len(am.attempt.live)


def test_zero_row_of_an_opportunistic_key_that_was_never_told_is_not_sent() -> None:
    """Before 3.5.0 the ResourceManager would keep it for ever (YARN-11808)."""
    am = Am(coordinator())
    assert am.asks(row("*", 0, 19, opportunistic=True)) == []
    assert am.attempt.entries == []
