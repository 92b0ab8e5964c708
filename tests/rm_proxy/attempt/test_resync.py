"""A proxy that goes on where one before it was killed: after each step of a conversation."""

from __future__ import annotations

import json
from random import Random

import pytest

from hadoop_rpc.events import Call, Failure, Response
from hadoop_rpc.protos import yarn_pb2 as y
from policies.config.policy_set import Policies
from policies.config.registry import Registry
from policies.model import Kind
from quicksilver.common.messages import EventKind
from rm_proxy.attempt.effects import Announce
from rm_proxy.attempt.snapshot import Snapshot
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.domain import ids
from rm_proxy.relay.refusals import NOT_REGISTERED
from tests.model.wire import Wire
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    APP,
    ATTEMPT,
    cid,
    container,
    coordinator,
    ended,
    event,
    report,
    row,
    yarn_node,
)

KEY = b"secret of clients"


class Proxy:
    """One life after the other, with what is written down in between."""

    def __init__(self) -> None:
        self.kept: dict[str, Snapshot] = {}
        self.world = coordinator()
        self.wire = Wire(self.world)

    def send(self, method: str, body: y.AllocateRequestProto | y.RegisterApplicationMasterRequestProto) -> object:
        event = self.wire.send(method, body)
        self.write()
        return event

    def answer(self, call: object, body: y.AllocateResponseProto | y.RegisterApplicationMasterResponseProto) -> bytes:
        assert isinstance(call, Call)
        raw = self.wire.answer(call, body).body
        self.write()
        return raw

    def write(self) -> None:
        for attempt_id, note in [*self.wire.take_notes(), *self.world.takeover.notes()]:
            self.kept.setdefault(attempt_id, Snapshot()).take(json.loads(json.dumps(note)))

    def dies(self) -> None:
        old = self.world
        self.world = Coordinator(Policies.load(ALL_Q, Registry()), Random(1))
        for attempt_id, kept in self.kept.items():
            self.world.takeover.restore(attempt_id, kept)
        self.world.yarn_nodes([node.yarn for node in old.nodes.values() if node.yarn is not None], 0.0)
        self.world.inventory.update_queues(old.queues.values())
        for number in (1, 2):
            self.world.reports.report(f"host{number}:8041", report(number), 0.0)
        self.wire = Wire(self.world)

    def registers(self) -> None:
        answer = y.RegisterApplicationMasterResponseProto(queue="default", client_to_am_token_master_key=KEY)
        answer.nm_tokens_from_previous_attempts.add().nodeId.host = "old"
        self.answer(self.send("registerApplicationMaster", y.RegisterApplicationMasterRequestProto()), answer)

    def resyncs(self) -> y.RegisterApplicationMasterResponseProto:
        """The application master registers, as it was told; nothing of it reaches the ResourceManager."""
        answer = self.send("registerApplicationMaster", y.RegisterApplicationMasterRequestProto())
        assert isinstance(answer, Response)
        return y.RegisterApplicationMasterResponseProto.FromString(answer.body)

    def is_refused(self, response_id: int) -> None:
        answer = self.send("allocate", asking(response_id))
        assert isinstance(answer, Failure) and answer.exception_class == NOT_REGISTERED

    def asks(self, response_id: int, *rows: y.ResourceRequestProto) -> y.AllocateRequestProto:
        """The application master's request, as it reaches the ResourceManager."""
        self.call = self.send("allocate", asking(response_id, *rows))
        assert isinstance(self.call, Call)
        return y.AllocateRequestProto.FromString(self.call.body)

    def told(self, answer: y.AllocateResponseProto) -> y.AllocateResponseProto:
        return y.AllocateResponseProto.FromString(self.answer(self.call, answer))

    @property
    def live(self) -> dict[str, Kind]:
        return {live.id: live.kind for live in self.world.attempts[ATTEMPT].live}


def asking(response_id: int, *rows: y.ResourceRequestProto) -> y.AllocateRequestProto:
    return y.AllocateRequestProto(response_id=response_id, ask=rows, progress=0.5)


def granting(request: y.AllocateRequestProto, response_id: int, number: int) -> y.AllocateResponseProto:
    """Grant the first queueable row of a request."""
    asked = next(r for r in request.ask if ids.is_private(r.allocation_request_id) and r.num_containers)
    answer = y.AllocateResponseProto(response_id=response_id)
    answer.allocated_containers.add().CopyFrom(container(number, int(asked.resource_name[-1]), asked))
    return answer


@pytest.fixture
def proxy() -> Proxy:
    proxy = Proxy()
    proxy.registers()
    return proxy


def queueable(request: y.AllocateRequestProto) -> list[tuple[str, int]]:
    return [(r.resource_name, r.num_containers) for r in request.ask if ids.is_private(r.allocation_request_id)]


def test_the_registration_is_answered_here_without_tokens_that_may_be_old(proxy: Proxy) -> None:
    proxy.asks(0)
    proxy.told(y.AllocateResponseProto(response_id=1))
    proxy.dies()
    proxy.is_refused(1)
    proxy.is_refused(1)
    answer = proxy.resyncs()
    assert (answer.client_to_am_token_master_key, answer.queue) == (KEY, "default")
    assert not answer.nm_tokens_from_previous_attempts
    assert proxy.asks(0).response_id == 1, "it goes on with the id of the last answer"
    proxy.told(y.AllocateResponseProto(response_id=2))
    assert proxy.asks(2).response_id == 2


def test_a_registration_whose_answer_was_lost_is_answered_whole(proxy: Proxy) -> None:
    proxy.dies()
    assert [t.nodeId.host for t in proxy.resyncs().nm_tokens_from_previous_attempts] == ["old"]
    assert proxy.asks(0).response_id == 0


def test_only_one_registration_is_ours(proxy: Proxy) -> None:
    """The ResourceManager restarted too: the registration that it wants reaches it."""
    proxy.dies()
    proxy.is_refused(4)
    proxy.resyncs()
    proxy.asks(0)
    call = proxy.call
    assert isinstance(call, Call)
    proxy.wire.refuse(call, NOT_REGISTERED)
    proxy.write()
    assert isinstance(proxy.send("registerApplicationMaster", y.RegisterApplicationMasterRequestProto()), Call)


@pytest.mark.parametrize("dies", ["after the refusal", "after the registration", "after the request"])
def test_the_id_is_known_however_often_it_dies(proxy: Proxy, dies: str) -> None:
    proxy.asks(0, row("*", 2))
    proxy.dies()
    proxy.is_refused(41)
    if dies == "after the refusal":
        proxy.dies()
        proxy.resyncs()
    elif dies == "after the registration":
        proxy.resyncs()
        proxy.dies()
        proxy.is_refused(0)
        proxy.resyncs()
    else:
        proxy.resyncs()
        proxy.asks(0, row("*", 2))
        proxy.dies()
        proxy.is_refused(0)
        proxy.resyncs()
    assert proxy.asks(0, row("*", 2)).response_id == 41


def test_a_grant_that_was_told_and_not_heard_is_told_again_as_it_was(proxy: Proxy) -> None:
    request = proxy.asks(0, row("*", 2))
    raw = granting(request, 1, 7)
    first = proxy.told(raw)
    proxy.dies()
    proxy.is_refused(0)
    proxy.resyncs()
    assert proxy.asks(0, row("*", 2)).response_id == 0, "the ResourceManager repeats its answer"
    assert proxy.told(raw) == first
    assert proxy.live == {cid(7): Kind.QUEUEABLE}
    more = proxy.asks(1)
    assert sum(count for name, count in queueable(more) if name == "*") == 1, "of two one is delivered"


def test_a_grant_that_never_came_is_the_application_s_all_the_same(proxy: Proxy) -> None:
    raw = granting(proxy.asks(0, row("*", 1)), 1, 7)
    proxy.dies()  # the answer was on its way
    proxy.is_refused(0)
    proxy.resyncs()
    proxy.asks(0, row("*", 1))
    answer = proxy.told(raw)
    assert [ids.container_id_text(c.id) for c in answer.allocated_containers] == [cid(7)]
    assert answer.allocated_containers[0].allocation_request_id == -1
    assert not answer.completed_container_statuses
    zeroed = proxy.asks(1)
    assert not zeroed.release, "it is kept"
    assert all(count == 0 for _, count in queueable(zeroed)), "what was asked for in its place is taken back"


def test_ends_of_held_starts_are_told_once(proxy: Proxy) -> None:
    proxy.told(granting(proxy.asks(0, row("*", 1)), 1, 7))
    node_id = next(iter(proxy.world.attempts[ATTEMPT].live)).node_id
    number = int(node_id[4])
    proxy.world.reports.report(node_id, report(number, events=[event(7, EventKind.SHED, 1, "the queue was full")]), 1.0)
    proxy.write()  # before the acknowledgement
    proxy.dies()
    proxy.is_refused(1)
    proxy.resyncs()
    request = proxy.asks(0, row("*", 0))
    assert [ids.container_id_text(c) for c in request.release] == [cid(7)]
    told = proxy.told(y.AllocateResponseProto(response_id=2))
    assert [ids.container_id_text(s.container_id) for s in told.completed_container_statuses] == [cid(7)]
    proxy.dies()
    proxy.is_refused(2)
    proxy.resyncs()
    proxy.asks(0)
    answer = y.AllocateResponseProto(response_id=3, completed_container_statuses=[ended(7, -100)])
    assert not proxy.told(answer).completed_container_statuses
    assert proxy.live == {}


def test_rows_that_nobody_wants_any_more_are_zeroed(proxy: Proxy) -> None:
    proxy.world.use(Policies.load({"queues": "*", "routes": [{"policy": "only_g"}]}, Registry()), 0.0)
    sent = proxy.asks(0, row("host1", 3), row("/r1", 3), row("*", 3), row("*", 2, priority=10))
    assert len(sent.ask) == 4
    proxy.told(y.AllocateResponseProto(response_id=1))
    proxy.dies()
    proxy.world.use(Policies.load({"queues": "*", "routes": [{"policy": "only_g"}]}, Registry()), 0.0)
    proxy.is_refused(1)
    proxy.resyncs()
    anew = {(r.priority.priority, r.resource_name): r.num_containers for r in proxy.asks(0, row("/r1", 1), row()).ask}
    assert anew == {(20, "/r1"): 1, (20, "*"): 1, (20, "host1"): 0, (10, "*"): 0}
    proxy.told(y.AllocateResponseProto(response_id=2))
    again = {(r.priority.priority, r.resource_name): r.num_containers for r in proxy.asks(2).ask}
    assert again == anew, "the ResourceManager may have repeated an answer instead of reading the request"
    proxy.told(y.AllocateResponseProto(response_id=3))
    assert not proxy.asks(3).ask


def test_private_ids_are_used_again(proxy: Proxy) -> None:
    before = {r.allocation_request_id for r in proxy.asks(0, row("*", 2)).ask}
    proxy.told(y.AllocateResponseProto(response_id=1))
    proxy.dies()
    proxy.is_refused(1)
    proxy.resyncs()
    assert {r.allocation_request_id for r in proxy.asks(0, row("*", 2)).ask} == before


def test_grants_that_a_sidecar_may_not_know_are_announced_again(proxy: Proxy) -> None:
    proxy.told(granting(proxy.asks(0, row("*", 1)), 1, 7))
    proxy.dies()
    announced = [e for e in proxy.world.take_effects() if isinstance(e, Announce)]
    assert [a.grant.container_id for a in announced] == [cid(7)]
    assert announced[0].grant.app_id == APP
    assert not proxy.world.take_effects()


def test_without_a_word_of_the_earlier_process_the_asks_pass(proxy: Proxy) -> None:
    raw = granting(proxy.asks(0, row("*", 1)), 8, 7)
    proxy.kept.clear()
    proxy.dies()
    proxy.world.yarn_nodes([yarn_node(1), yarn_node(2)], 0.0)
    assert proxy.asks(7, row("*", 5)) == asking(7, row("*", 5))
    answer = proxy.told(raw)
    assert answer.allocated_containers[0].allocation_request_id == -1
    assert answer.allocated_containers[0].execution_type == y.GUARANTEED
    assert proxy.live == {cid(7): Kind.QUEUEABLE}
    proxy.write()
    assert not proxy.kept, "another process would know no more"


def test_an_application_that_ended_is_over(proxy: Proxy) -> None:
    proxy.told(granting(proxy.asks(0, row("*", 1)), 1, 7))
    proxy.dies()
    call = proxy.wire.call("finishApplicationMaster", y.FinishApplicationMasterRequestProto())
    proxy.wire.answer(call, y.FinishApplicationMasterResponseProto(isUnregistered=True))
    proxy.write()
    assert proxy.kept[ATTEMPT].over
