"""Empty heartbeats are recognised by their bytes, and pass as if they had been parsed."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.protos import yarn_pb2 as y
from rm_proxy.attempt.allocate_exchange import AllocateExchange
from rm_proxy.attempt.heartbeats import MAX_HEARTBEAT_BYTES, head_after, id_before_rest, progress_in, split_answer
from rm_proxy.relay.relay import Relay
from tests.rm_proxy.test_call_trace import Master
from tests.rm_proxy.yarn_messages import ALL_Q, container, granted_rows, row

IDS = st.integers(-(2**31), 2**31 - 1)


def empty(response_id: int, progress: float | None = None) -> y.AllocateRequestProto:
    request = y.AllocateRequestProto(response_id=response_id)
    if progress is not None:
        request.progress = progress
    return request


@given(IDS, st.floats(width=32, allow_nan=False) | st.none(), st.booleans())
def test_a_heartbeat_says_what_its_message_says(response_id: int, progress: float | None, blacklist: bool) -> None:
    request = empty(response_id, progress)
    if blacklist:
        request.blacklist_request.SetInParent()
    body, head = request.SerializeToString(), head_after(response_id)
    if response_id < 0:  # ten bytes on the wire; no ResourceManager counts below 0
        assert head is None
        return
    assert head is not None and len(body) <= MAX_HEARTBEAT_BYTES
    assert progress_in(body, head) == min(max(request.progress, 0.0), 1.0)
    other = head_after((response_id + 1) % 2**31)
    assert other is not None and progress_in(body, other) is None


@given(st.integers(0, 2**31 - 1), st.binary(max_size=20))
def test_no_other_bytes_are_read_otherwise_than_by_protobuf(response_id: int, rest: bytes) -> None:
    head = head_after(response_id)
    assert head is not None
    for body in (head + rest, b"\x1a\x00" + head + rest, rest):
        progress = progress_in(body, head)
        if progress is not None:
            request = y.AllocateRequestProto.FromString(body)
            assert request.response_id == response_id
            assert progress == min(max(request.progress, 0.0), 1.0) or math.isnan(progress)
            assert not (request.ask or request.release or request.update_requests or request.scheduling_requests)


@pytest.mark.parametrize(
    "request_proto",
    [
        y.AllocateRequestProto(response_id=3, progress=0.5, ask=[row("*", 1)]),
        y.AllocateRequestProto(response_id=3, release=[y.ContainerIdProto(id=7)]),
        y.AllocateRequestProto(response_id=3, tracking_url="x"),
        y.AllocateRequestProto(
            response_id=3, blacklist_request=y.ResourceBlacklistRequestProto(blacklist_additions=["a"])
        ),
        y.AllocateRequestProto(progress=0.5),
    ],
)
def test_what_holds_more_is_no_heartbeat(request_proto: y.AllocateRequestProto) -> None:
    assert progress_in(request_proto.SerializeToString(), b"\x20\x03") is None


@given(st.integers(0, 2**31 - 1))
def test_an_answer_is_split_behind_its_id(response_id: int) -> None:
    rest = y.AllocateResponseProto(num_cluster_nodes=3).SerializeToString()
    body = y.AllocateResponseProto(response_id=response_id, num_cluster_nodes=3).SerializeToString()
    assert split_answer(body) == (response_id, rest)
    assert id_before_rest(body, rest) == response_id and id_before_rest(body, rest + b"\x00") is None
    shutdown = y.AllocateResponseProto(a_m_command=y.AM_SHUTDOWN, response_id=response_id)
    assert split_answer(shutdown.SerializeToString()) is None


@given(st.binary(max_size=7), st.sampled_from((b"", b"\x18\x03", b"\x03")))
def test_an_id_is_read_before_its_rest_as_an_answer_is_split(number: bytes, rest: bytes) -> None:
    body = b"\x10" + number + rest
    parts = split_answer(body)
    assert id_before_rest(body, rest) == (parts[0] if parts is not None and parts[1] == rest else None)


class Recorder(Master):
    """A master whose exchanges are recorded: what reached both sides, and the attempt's state after each."""

    def __init__(self, policies: dict[str, object]) -> None:
        super().__init__(policies)
        self.story: list[object] = []
        assert self.wire.relay.attempt is not None
        self.wire.relay.attempt.table.serial = 1_000  # else random

    def exchange(self, request: y.AllocateRequestProto, news: y.AllocateResponseProto, repeat: bool) -> None:
        request.response_id = self.response_id
        raw = self.wire.client.call("allocate", "org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB", request)
        (call,) = self.wire.up(raw)
        sent = y.AllocateRequestProto.FromString(call.body)  # type: ignore[attr-defined]
        for number, asked in enumerate(granted_rows(sent.ask).values(), 1000 * self.response_id + 1):
            news.allocated_containers.append(container(number, 1, asked))
        self.response_id += 1
        news.response_id, news.num_cluster_nodes = self.response_id, 3
        (got,) = self.wire.client.receive_data(self.wire.down(self.wire.server.response(call, news)))  # type: ignore[arg-type]
        attempt = self.wire.relay.attempt
        assert attempt is not None
        last = attempt.exchange.last
        self.story.append((sent, got.body, attempt.whole_note(), last, attempt.at_rest, attempt.router.progress))
        if repeat:  # the answer is lost, and the application master asks again
            self.wire.up(raw)
            self.wire.client.receive_data(self.wire.down(self.wire.server.response(call, news)))  # type: ignore[arg-type]


def story(seed: int) -> list[object]:
    rng, master = random.Random(seed), Recorder(dict(ALL_Q) if seed % 2 else {"preset": "default"})
    for _ in range(60):
        request = y.AllocateRequestProto(progress=rng.choice([0.0, 0.5, 2.0]))
        if rng.random() < 0.15:
            request.ask.append(row("*", rng.randint(0, 3), priority=10))
        if rng.random() < 0.5:
            request.blacklist_request.SetInParent()
        news = y.AllocateResponseProto()
        if rng.random() < 0.3:
            news.limit.CopyFrom(y.ResourceProto(memory=rng.choice([1024, 2048]), virtual_cores=1))
        master.exchange(request, news, repeat=rng.random() < 0.1)
    return master.story


@pytest.mark.parametrize("seed", range(8))
def test_exchanges_are_the_same_with_heartbeats_by_bytes_and_parsed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = counted(monkeypatch)
    at_once = story(seed)
    assert passed["up at once"]
    monkeypatch.setattr(Relay, "beat_up", lambda relay, data: False)
    assert at_once == story(seed), "with a call and commands of each"
    monkeypatch.setattr(AllocateExchange, "passes_up", lambda exchange, body: False)
    assert at_once == story(seed), "with a message of each"


def test_heartbeats_pass_by_their_bytes_both_ways(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed = counted(monkeypatch)
    master = Master({"preset": "default"})
    before = dict(passed)
    for _ in range(10):
        master.beat()
    assert {name: count - before[name] for name, count in passed.items()} == dict.fromkeys(passed, 10)


def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Return how many requests and answers pass by their bytes from now on, and how many of them at once."""
    passed = {"up": 0, "down": 0, "up at once": 0, "down at once": 0}
    up, down = AllocateExchange.passes_up, AllocateExchange.passes_down
    beat_up, beat_down = Relay.beat_up, Relay.beat_down

    def counted_up(exchange: AllocateExchange, body: bytes) -> bool:
        passes = up(exchange, body)
        passed["up"] += passes
        return passes

    def counted_down(exchange: AllocateExchange, body: bytes) -> bool:
        passes = down(exchange, body)
        passed["down"] += passes
        return passes

    def counted_beat_up(relay: Relay, data: bytes) -> bool:
        passes = beat_up(relay, data)
        passed["up at once"] += passes
        return passes

    def counted_beat_down(relay: Relay, data: bytes) -> bool:
        passes = beat_down(relay, data)
        passed["down at once"] += passes
        return passes

    monkeypatch.setattr(Relay, "beat_up", counted_beat_up)
    monkeypatch.setattr(Relay, "beat_down", counted_beat_down)
    monkeypatch.setattr(AllocateExchange, "passes_up", counted_up)
    monkeypatch.setattr(AllocateExchange, "passes_down", counted_down)
    return passed
