"""Calls that wait for news, through a relay: what ends a wait, what passes meanwhile, what a break leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hadoop_rpc.connection import AM_PROTOCOL
from hadoop_rpc.events import Call, Failure, Response
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver.common.messages import EventKind
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.long_poll.long_poll import FAST_PACE_S, PACE_S, Why
from rm_proxy.long_poll.signs import Sign
from rm_proxy.relay.commands import Answered, ToAm, ToRm, Waits
from rm_proxy.relay.refusals import NOT_REGISTERED, WRONG_ID
from rm_proxy.relay.relay import LAST_CALL_ID
from tests.model.wire import Wire
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    ATTEMPT,
    cid,
    container,
    container_proto,
    coordinator,
    ended,
    event,
    report,
    row,
)

ALL_G = {**ALL_Q, "routes": [{"policy": "only_g"}], "long_poll": "short"}
LATE = {**ALL_Q, "long_poll": "short"}
H_S = 5.0


def asking(
    response_id: int, *rows: y.ResourceRequestProto, release: Sequence[int] = (), progress: float = 0.5
) -> y.AllocateRequestProto:
    request = y.AllocateRequestProto(response_id=response_id, ask=rows, progress=progress)
    request.release.extend(container_proto(n) for n in release)
    return request


def read(call: Call) -> y.AllocateRequestProto:
    return y.AllocateRequestProto.FromString(call.body)


class Story:
    """An application master, its relay and the ResourceManager's end."""

    def __init__(self, policies: object = ALL_G, *, world: Coordinator | None = None, **app: str) -> None:
        self.world = world or coordinator(policies, **app)  # type: ignore[arg-type]
        self.wire = Wire(self.world)
        self.now_s = 0.0

    @property
    def attempt(self):  # type: ignore[no-untyped-def]
        return self.world.attempts[ATTEMPT]

    def registers(self) -> None:
        call = self.wire.call("registerApplicationMaster", y.RegisterApplicationMasterRequestProto())
        self.wire.answer(call, y.RegisterApplicationMasterResponseProto(queue="default"))

    def up(self, request: y.AllocateRequestProto, method: str = "allocate") -> Call:
        self.wire.now_s = self.now_s
        return self.wire.call(method, request)

    def down(self, call: Call, answer: y.AllocateResponseProto | bytes) -> list[Response | Failure]:
        """The ResourceManager answers; returns what reaches the application master."""
        self.wire.now_s = self.now_s
        return self.got(self.wire.down(self.wire.server.response(call, answer)))

    def got(self, raw: bytes) -> list[Response | Failure]:
        events = list(self.wire.client.receive_data(raw)) if raw else []
        assert all(isinstance(one, Response | Failure) for one in events)
        return events  # type: ignore[return-value]

    def tick(self, now_s: float, pace_s: float = FAST_PACE_S) -> tuple[list[Call], list[Response | Failure]]:
        """The timer; returns what the ResourceManager and the application master get."""
        self.now_s = self.wire.now_s = now_s
        return self.carry_out(self.wire.relay.tick(now_s, pace_s))

    def carry_out(self, commands: Sequence[object]) -> tuple[list[Call], list[Response | Failure]]:
        self.wire.commands += commands  # type: ignore[arg-type]
        up = b"".join(c.data for c in commands if isinstance(c, ToRm))
        down = b"".join(c.data for c in commands if isinstance(c, ToAm))
        calls = list(self.wire.server.receive_data(up)) if up else []
        return calls, self.got(down)  # type: ignore[return-value]

    def waits(self, *rows: y.ResourceRequestProto) -> Call:
        """Register, be answered once, then ask: the call waits; returns it as the ResourceManager got it."""
        self.registers()
        (first,) = self.down(self.up(asking(0)), answer(1))
        assert isinstance(first, Response)
        call = self.up(asking(1, *(rows or (row("*", 2),))))
        assert self.down(call, answer(2)) == []
        assert self.attempt.long_poll.waiting and self.wire.relay.outstanding
        return call

    def why(self) -> Why:
        return [c.why for c in self.wire.commands if isinstance(c, Answered)][-1]


def answer(response_id: int, *allocated: y.ContainerProto, **more: object) -> y.AllocateResponseProto:
    proto = y.AllocateResponseProto(response_id=response_id, allocated_containers=allocated, num_cluster_nodes=3)
    for name, value in more.items():
        getattr(proto, name).CopyFrom(value) if name == "application_priority" else setattr(proto, name, value)
    return proto


def body(event: Response | Failure) -> y.AllocateResponseProto:
    assert isinstance(event, Response)
    return y.AllocateResponseProto.FromString(event.body)


def test_the_resource_manager_is_called_as_the_application_master_would_until_there_is_news() -> None:
    story = Story()
    call = story.waits()
    assert story.tick(FAST_PACE_S - 0.01) == ([], []), "guaranteed containers are out: four times a second"
    (poll,), got = story.tick(FAST_PACE_S)
    assert got == [] and poll.call_id == LAST_CALL_ID and poll.client_id == call.client_id
    assert (read(poll).response_id, read(poll).progress, list(read(poll).ask)) == (2, 0.5, [])
    assert story.tick(0.3) == ([], []), "one call at a time"
    story.now_s = 0.31
    (first,) = story.down(poll, answer(3, container(1, 1, row())))
    assert first.call_id == call.call_id
    assert (body(first).response_id, len(body(first).allocated_containers)) == (3, 1)
    assert story.why() is Why.NEWS and not story.wire.relay.outstanding
    assert read(story.up(asking(3))).response_id == 3, "the ids that it sees are the ResourceManager's latest"


def test_at_the_bound_it_is_answered_with_the_last_that_came() -> None:
    story = Story()
    call = story.waits()
    at_s, number, calls = 0.0, 2, 0
    while at_s < H_S - 0.1:
        at_s += FAST_PACE_S
        polls, got = story.tick(at_s)
        if got:
            break
        calls += len(polls)
        for poll in polls:
            number += 1
            assert story.down(poll, answer(number)) == []
    _, got = ([], got) if got else story.tick(H_S)
    assert [one.call_id for one in got] == [call.call_id] and body(got[0]).response_id == number
    assert calls == H_S / FAST_PACE_S - 1
    assert story.why() is Why.BOUND


def test_without_guaranteed_asks_it_calls_once_a_second() -> None:
    story = Story({**LATE, "place": {"policy": "least_queue"}})
    story.waits(row("*", 1))
    assert story.tick(PACE_S - 0.01) == ([], [])
    (poll,), _ = story.tick(PACE_S)
    assert read(poll).ask, "what was not granted is asked for elsewhere"


@pytest.mark.parametrize(
    ("news", "ends"),
    [
        (answer(3), False),
        (answer(3, container(1, 1, row())), True),
        (y.AllocateResponseProto(response_id=3, completed_container_statuses=[ended(1)]), True),
        (y.AllocateResponseProto(response_id=3, updated_nodes=[y.NodeReportProto()]), True),
        (y.AllocateResponseProto(response_id=3, a_m_command=y.AM_SHUTDOWN), True),
        (y.AllocateResponseProto(response_id=3, nm_tokens=[y.NMTokenProto()]), True),
        (y.AllocateResponseProto(response_id=3, rejected_scheduling_requests=[b""]), True),
        (y.AllocateResponseProto(response_id=3, application_priority=y.PriorityProto(priority=7)), True),
        (y.AllocateResponseProto(response_id=3, application_priority=y.PriorityProto(priority=0)), True),
        (y.AllocateResponseProto(response_id=3, preempt=y.PreemptionMessageProto()), False),
        (
            y.AllocateResponseProto(
                response_id=3,
                preempt=y.PreemptionMessageProto(
                    strictContract=y.StrictPreemptionContractProto(container=[y.PreemptionContainerProto()])
                ),
            ),
            True,
        ),
    ],
)
def test_news(news: y.AllocateResponseProto, ends: bool) -> None:
    story = Story()
    story.waits()
    (poll,), _ = story.tick(FAST_PACE_S)
    assert len(story.down(poll, news)) == ends


def test_a_priority_and_a_token_are_news_once() -> None:
    story = Story()
    story.registers()
    same = answer(1, application_priority=y.PriorityProto(priority=0))
    same.am_rm_token.CopyFrom(TokenProto(identifier=b"i", password=b"p", kind="k", service="s"))
    story.down(story.up(asking(0)), same)
    same.response_id = 2
    assert story.down(story.up(asking(1, row("*"))), same) == []
    same.am_rm_token.kind, same.response_id = "new", 3
    (poll,), _ = story.tick(FAST_PACE_S)
    assert len(story.down(poll, same)) == 1


def test_who_never_waits() -> None:
    story = Story()
    story.registers()
    assert story.down(story.up(asking(0, row("*", 2))), answer(1)), "the first answer"
    assert story.down(story.up(asking(1, row("*", 0))), answer(2)), "nothing is wanted"
    story.up(asking(2, row("*", 1)))
    off = Story({**ALL_G, "long_poll": "off"})
    off.registers()
    off.down(off.up(asking(0)), answer(1))
    assert off.down(off.up(asking(1, row("*", 2))), answer(2)), "by the settings"
    shadow = Story({**ALL_G, "mode": "shadow"})
    shadow.registers()
    shadow.down(shadow.up(asking(0)), answer(1))
    assert shadow.down(shadow.up(asking(1, row("*", 2))), answer(2)), "in shadow mode"


def test_a_job_whose_maps_wait_for_its_own_reduces_never_waits() -> None:
    """It preempts a reduce after an answer (RMContainerAllocator.preemptReducesIfNeeded)."""
    story = Story()
    story.registers()
    story.down(story.up(asking(0, row("*", 1, 10))), answer(1))
    story.down(story.up(asking(1)), answer(2, container(1, 1, row("*", 1, 10))))
    assert story.down(story.up(asking(2, row("*", 1, 20))), answer(3)), "only a reduce runs"
    assert story.down(story.up(asking(3, row("*", 1, 10), row("*", 0, 20))), answer(4)) == [], "it wants a reduce"


def test_one_with_scheduling_requests_never_waits() -> None:
    story = Story()
    story.registers()
    request = asking(0)
    request.scheduling_requests.add()
    story.down(story.up(request), answer(1))
    assert story.down(story.up(asking(1, row("*", 2))), answer(2))


def test_other_calls_pass_a_waiting_one_and_finish_ends_it() -> None:
    story = Story()
    call = story.waits()
    (poll,), _ = story.tick(FAST_PACE_S)
    ping = story.wire.client.ping()
    assert [type(c) for c in story.wire.relay.from_am(ping, 0.3)] == [ToRm]
    register = story.up(y.RegisterApplicationMasterRequestProto(), "registerApplicationMaster")  # type: ignore[arg-type]
    assert register.method == "registerApplicationMaster"
    raw = story.wire.client.call("finishApplicationMaster", AM_PROTOCOL, y.FinishApplicationMasterRequestProto())
    commands = story.wire.relay.from_am(raw, 0.4)
    (finish,), (got,) = story.carry_out(commands)
    assert [type(c) for c in commands if isinstance(c, ToRm | ToAm)] == [ToRm, ToAm], "it passes first"
    assert (got.call_id, body(got).response_id) == (call.call_id, 2)
    assert story.down(poll, answer(3)) == [], "the answer to our own call goes nowhere"
    assert story.tick(9.0) == ([], [])
    assert story.down(finish, y.FinishApplicationMasterResponseProto(isUnregistered=True))  # type: ignore[arg-type]
    assert story.wire.relay.attempt is not None and story.wire.relay.attempt.finished


def test_a_second_allocate_on_the_connection_gets_the_answer_of_the_call_under_way() -> None:
    story = Story()
    call = story.waits()
    (poll,), _ = story.tick(FAST_PACE_S)
    raw = story.wire.client.call("allocate", AM_PROTOCOL, asking(1, row("*", 2)))
    (again,), (older,) = story.carry_out(story.wire.relay.from_am(raw, 0.3))
    assert (older.call_id, body(older).response_id) == (call.call_id, 2)
    assert again.body == poll.body, "the ResourceManager carries one of them out, and repeats its answer"
    news = answer(3, container(1, 1, row()))
    assert story.down(poll, news) == []
    (newer,) = story.down(again, news)
    assert newer.call_id == again.call_id and len(body(newer).allocated_containers) == 1
    assert len(story.attempt.live) == 1


@pytest.mark.parametrize("at", ["absorbed", "poll under way", "poll executed", "answered"])
@pytest.mark.parametrize("more", [False, True])
def test_a_broken_connection(at: str, more: bool) -> None:
    """The application master sends the same request again, maybe with more in it: nothing is lost or doubled."""
    story = Story()
    story.waits()
    if at != "absorbed":
        (poll,), _ = story.tick(FAST_PACE_S)
    if at == "answered":
        assert story.down(poll, answer(3, container(1, 1, row())))
    story.carry_out(story.wire.relay.lost(0.3))
    story.wire = Wire(story.world)
    request = asking(1, row("*", 2), *([row("*", 1, 10)] if more else []))
    call = story.up(request)
    if at == "absorbed":
        assert read(call).response_id == 1, "the last answer again"
        (got,) = story.down(call, answer(2))
    elif at == "answered":
        assert read(call).response_id == 2
        (got,) = story.down(call, answer(3, container(1, 1, row())))
    else:
        assert read(call).response_id == 2
        (got,) = story.down(call, answer(3, container(1, 1, row())))
    assert not story.attempt.long_poll.waiting, "it is not held again"
    number = body(got).response_id
    assert len(story.attempt.live) == len(body(got).allocated_containers) == (at != "absorbed")
    sent = {r.priority.priority: r.num_containers for r in read(call).ask}
    following = read(story.up(asking(number, row("*", 1 if at != "absorbed" else 2))))
    assert following.response_id == number
    sent |= {r.priority.priority: r.num_containers for r in following.ask}
    assert (10 in sent) == more
    if at != "answered":
        assert story.attempt.long_poll.signs.limit_s == H_S / 2


def test_an_exception_to_our_own_call_is_the_answer_to_the_waiting_one() -> None:
    story = Story()
    call = story.waits()
    (poll,), _ = story.tick(FAST_PACE_S)
    failure = story.wire.refuse(poll, NOT_REGISTERED, "register")
    assert (failure.call_id, failure.exception_class) == (call.call_id, NOT_REGISTERED)
    assert story.why() is Why.REFUSED and story.attempt.long_poll.signs.off is None
    story.registers()
    assert read(story.up(asking(0))).response_id == 0


def test_an_exception_that_our_rewriting_may_have_caused_ends_all_waits() -> None:
    story = Story()
    story.waits()
    (poll,), _ = story.tick(FAST_PACE_S)
    story.wire.refuse(poll, "org.apache.hadoop.yarn.exceptions.InvalidResourceRequestException", "no")
    assert story.attempt.long_poll.signs.off is Sign.REFUSED


def test_our_own_call_heals_its_id_too() -> None:
    story = Story()
    call = story.waits()
    (poll,), _ = story.tick(FAST_PACE_S)
    commands = story.wire.relay.from_rm(
        story.wire.server.error(poll, WRONG_ID, "expect responseId to be 9 but get 2"), 0.3
    )
    (again,), got = story.carry_out(commands)
    assert got == [] and read(again).response_id == 8
    (first,) = story.down(again, answer(9, container(1, 1, row())))
    assert first.call_id == call.call_id and len(body(first).allocated_containers) == 1


@pytest.mark.parametrize(("wanted", "at_s"), [(1, 0.1), (20, 0.31)])
def test_places_that_get_free_are_asked_for(wanted: int, at_s: float) -> None:
    """At once if all that it wants has a place then, else as soon as more may have come."""
    story = Story({**LATE, "place": {"policy": "variance"}})
    for number in (1, 2, 3):
        story.world.reports.report(f"host{number}:8041", report(number, queue_length=1), 0.0)
    call = story.waits(row("*", wanted))
    assert not read(call).ask, "all nodes are full"
    story.world.wakeups.waiting[ATTEMPT] = story.attempt
    story.world.reports.report("host2:8041", report(2, seq=2, memory_mb=4096), 0.1)
    assert story.world.wakeups.take() == [ATTEMPT]
    assert story.tick(at_s - 0.02) == ([], [])
    (poll,), _ = story.tick(at_s)
    asked = [r for r in read(poll).ask if r.resource_name != "*"]
    assert [r.resource_name for r in asked] == ["host2"] * min(wanted, 4)
    (got,) = story.down(poll, answer(3, container(1, 2, asked[0])))
    assert len(body(got).allocated_containers) == 1
    following = read(story.up(asking(3, row("*", wanted - 1))))
    assert following.response_id == 3


def test_ends_that_a_node_reports_bring_the_answer_within_a_second() -> None:
    story = Story()
    story.registers()
    story.down(story.up(asking(0, row("*", 1))), answer(1))
    story.down(story.up(asking(1)), answer(2, container(1, 1, row())))
    story.down(story.up(asking(2, row("*", 5))), answer(3))
    wakeups = story.world.wakeups
    wakeups.waiting[ATTEMPT] = story.attempt
    story.world.reports.report("host1:8041", report(1, events=[event(1, EventKind.ENDED, ran_s=1.0)]), 0.1)
    assert wakeups.take() == [ATTEMPT] and wakeups.take() == []
    at_s, number = 0.1, 3
    while at_s < 1.3:
        at_s += 0.05
        polls, got = story.tick(at_s)
        assert got == []
        for poll in polls:
            number += 1
            got = story.down(poll, answer(number))
        if got:
            break
    assert 1.0 < at_s <= 1.15 and story.why() is Why.ENDED, "a second after the end, whatever the answer says"


def test_a_completion_of_ours_is_told_at_once() -> None:
    story = Story(LATE)
    story.registers()
    story.down(story.up(asking(0)), answer(1))
    call = story.up(asking(1, row("*", 2)))
    asked = [r for r in read(call).ask if r.resource_name != "*"]
    (got,) = story.down(call, answer(2, container(1, 1, asked[0])))
    assert len(body(got).allocated_containers) == 1
    assert story.down(story.up(asking(2)), answer(3)) == []
    story.world.wakeups.waiting[ATTEMPT] = story.attempt
    story.world.reports.report("host1:8041", report(1, events=[event(1, EventKind.SHED, reason="full")]), 0.1)
    assert story.world.wakeups.take() == [ATTEMPT]
    (poll,), _ = story.tick(0.1)
    assert [c.id for c in read(poll).release] == [1]
    (got,) = story.down(poll, answer(4))
    assert [s.container_id.id for s in body(got).completed_container_statuses] == [1]
    assert cid(1) not in story.attempt.live


def test_the_proxy_stops_and_answers_first() -> None:
    story = Story()
    call = story.waits()
    _, (got,) = story.carry_out(story.wire.relay.end_wait(Why.STOPPED, 0.1))
    assert (got.call_id, body(got).response_id) == (call.call_id, 2)
    again = Story()
    call = again.waits()
    (poll,), _ = again.tick(FAST_PACE_S)
    assert again.carry_out(again.wire.relay.end_wait(Why.STOPPED, 0.3)) == ([], [])
    (got,) = again.down(poll, answer(3))
    assert (got.call_id, body(got).response_id) == (call.call_id, 3), "with the answer that was on its way"


def test_settings_that_turn_it_off_end_the_wait_with_the_next_answer() -> None:
    story = Story()
    story.waits()
    story.world.wakeups.waiting[ATTEMPT] = story.attempt
    story.world.use(coordinator({**ALL_G, "long_poll": "off"}).policies, 0.1)
    assert story.world.wakeups.take() == [ATTEMPT]
    (poll,), _ = story.tick(0.1)
    assert len(story.down(poll, answer(3))) == 1 and story.why() is Why.MODE


STEPS = st.lists(st.sampled_from(["tick", "answer", "news", "again", "other", "finish", "break"]), max_size=30)


@settings(deadline=None, max_examples=60)
@given(STEPS, st.integers(0, 2**16))
def test_no_call_is_answered_twice_and_each_is_answered(steps: list[str], seed: int) -> None:
    """Whatever comes in whatever order; the ResourceManager repeats, refuses and counts as it does."""
    rng, story = Random(seed), Story()
    story.registers()
    rm_id, last, at_s, x, finished = 0, answer(0), 0.0, 0, False
    open_calls: dict[int, Call] = {}
    owed: set[int] = set()

    def arrive(events: Sequence[Response | Failure]) -> None:
        nonlocal x
        for one in events:
            assert one.call_id in owed, "an answer to no call, or a second one"
            owed.discard(one.call_id)
            if isinstance(one, Response) and one.body:
                x = y.AllocateResponseProto.FromString(one.body).response_id

    def sent(data: bytes) -> None:
        commands = story.wire.relay.from_am(data, at_s)
        calls, got = story.carry_out(commands)
        for call in calls:
            open_calls[call.call_id] = call
        arrive(got)

    def allocate() -> None:
        call_id = story.wire.client.next_call_id()
        owed.add(call_id)
        sent(story.wire.client.call("allocate", AM_PROTOCOL, asking(x, row("*", 2)), call_id=call_id))

    def execute(news: bool) -> None:
        nonlocal rm_id, last
        if not open_calls:
            return
        call = open_calls.pop(rng.choice(sorted(open_calls)))
        if call.method != "allocate":
            arrive(story.down(call, b""))
            return
        m = read(call).response_id
        if m == rm_id:
            rm_id += 1
            last = answer(rm_id, *([container(rm_id, 1, row())] if news else []))
        elif m != rm_id - 1:
            raw = story.wire.server.error(call, WRONG_ID, f" expect responseId to be {rm_id} but get {m}")
            calls, got = story.carry_out(story.wire.relay.from_rm(raw, at_s))
            open_calls.update((one.call_id, one) for one in calls)
            arrive(got)
            return
        arrive(story.down(call, last))

    allocate()
    for step in steps:
        at_s += rng.choice([0.0, 0.1, 0.3, 1.0])
        if step == "tick":
            calls, got = story.tick(at_s)
            open_calls.update((one.call_id, one) for one in calls)
            arrive(got)
        elif step in ("answer", "news"):
            execute(step == "news")
        elif step == "again" and not finished:
            allocate()
        elif step in ("other", "finish"):
            finished = finished or step == "finish"
            method = "finishApplicationMaster" if step == "finish" else "getOther"
            call_id = story.wire.client.next_call_id()
            owed.add(call_id)
            sent(story.wire.client.call(method, AM_PROTOCOL, b"", call_id=call_id))
        elif step == "break":
            story.carry_out(story.wire.relay.lost(at_s))
            story.wire, open_calls, owed = Wire(story.world), {}, set()
            if not finished:
                allocate()
    for _ in range(200):
        at_s += 0.5
        calls, got = story.tick(at_s)
        open_calls.update((one.call_id, one) for one in calls)
        arrive(got)
        execute(False)
        if not owed:
            break
    assert not owed and not story.attempt.long_poll.waiting


def test_waits_are_announced_to_the_shell() -> None:
    story = Story()
    story.waits()
    assert [c.attempt_id for c in story.wire.commands if isinstance(c, Waits)] == [ATTEMPT]
