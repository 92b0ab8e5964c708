"""Allocate requests that are too large to be read: that attempt alone passes, and YARN's protocol holds."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.protos import yarn_pb2 as y
from rm_proxy.attempt import allocate_exchange
from rm_proxy.attempt.asks.ask_rows import Key
from rm_proxy.attempt.effects import TooLarge
from rm_proxy.attempt.registration.registration import AttemptState
from rm_proxy.attempt.snapshot import Snapshot
from rm_proxy.domain import ids, message_checks
from rm_proxy.domain.message_checks import MAX_READ_BYTES, MAX_RELEASES, MAX_ROWS, response_id_of, too_large
from tests.rm_proxy.yarn_messages import ATTEMPT, Am, cid, container, container_proto, coordinator, ended, row
from tests.rm_proxy.yarn_messages import granted_rows as queueable_rows

SMALL = 10
"""Rows beyond which a request is not read, in most of these tests."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(message_checks, "MAX_ROWS", SMALL)
    yield


def many(count: int = SMALL + 1, first: int = 100, containers: int = 1) -> list[y.ResourceRequestProto]:
    return [row("*", containers, priority=first + number) for number in range(count)]


# Counting


def test_what_real_ones_send_is_read() -> None:
    request = y.AllocateRequestProto(ask=many(MAX_ROWS), response_id=7)
    request.release.extend(container_proto(number) for number in range(MAX_RELEASES))
    request.blacklist_request.blacklist_additions.extend(f"h{number}" for number in range(MAX_RELEASES))
    assert too_large(request.SerializeToString()) == ""


@pytest.mark.parametrize(
    ("grow", "why"),
    [
        (lambda r: r.ask.extend(many(MAX_ROWS + 1)), f"more than {MAX_ROWS} rows"),
        (lambda r: r.release.extend(map(container_proto, range(MAX_RELEASES + 1))), f"{MAX_RELEASES} releases"),
        (
            lambda r: r.blacklist_request.blacklist_removals.extend(str(n) for n in range(MAX_RELEASES + 1)),
            "names on its blacklist",
        ),
        (lambda r: [r.update_requests.add() for _ in range(MAX_ROWS + 1)], f"more than {MAX_ROWS} parts"),
        (lambda r: r.ask.add(resource_name="x" * MAX_READ_BYTES), "bytes, more than"),
    ],
)
def test_what_is_beyond_is_not(grow: Callable[[y.AllocateRequestProto], object], why: str) -> None:
    request = y.AllocateRequestProto(response_id=7)
    grow(request)
    body = request.SerializePartialToString()
    assert why in too_large(body) and response_id_of(body) == 7


@given(st.integers(0, 2 * SMALL), st.integers(0, 5), st.binary(max_size=20))
def test_any_bytes_are_counted(rows: int, releases: int, more: bytes) -> None:
    request = y.AllocateRequestProto(ask=many(rows), release=map(container_proto, range(releases)))
    before, message_checks.MAX_ROWS = message_checks.MAX_ROWS, SMALL  # type: ignore[misc]
    try:
        whole, odd = too_large(request.SerializeToString()), too_large(request.SerializeToString() + more)
    finally:
        message_checks.MAX_ROWS = before  # type: ignore[misc]
    assert ("rows" in whole) == (rows > SMALL), whole
    assert odd or rows <= SMALL, "whatever follows"


def test_sixty_thousand_rows_cost_little() -> None:
    am = Am(coordinator())
    am.asks(row("*", 3))
    am.gets()
    body = y.AllocateRequestProto(ask=many(60_000), response_id=am.response_id).SerializeToString()
    tracemalloc.start()
    begin_s = time.process_time()
    sent = am.attempt.exchange.on_allocate(body, 0.0)
    took_s = time.process_time() - begin_s
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sent is not None and body in sent
    assert took_s < 0.3 and peak < 20e6, (took_s, peak)


# What the ResourceManager holds


class Held:
    """The ask table of a ResourceManager: absolute rows, the latest of a name."""

    def __init__(self) -> None:
        self.rows: dict[tuple[Key, str], int] = {}

    def takes(self, request: y.AllocateRequestProto) -> None:
        for one in request.ask:
            self.rows[Key.of(one), one.resource_name] = one.num_containers

    def grants(self, asked: y.ResourceRequestProto) -> y.ResourceRequestProto:
        """Forget a private id, as it is granted."""
        self.rows = {at: n for at, n in self.rows.items() if at[0].request_id != asked.allocation_request_id}
        return asked

    @property
    def own(self) -> dict[tuple[int, str], int]:
        """Rows of the application's own request ids, by priority and name."""
        rows = {(key.priority, name): count for (key, name), count in self.rows.items() if key.request_id == -1}
        return {name: count for name, count in rows.items() if count}

    @property
    def placed(self) -> list[str]:
        """Host rows of ours that ask for something."""
        ours = ((key, name) for (key, name), count in self.rows.items() if count and ids.is_private(key.request_id))
        return [name for _, name in ours if name != "*"]


def registered(am: Am) -> Am:
    am.attempt.on_registered(y.RegisterApplicationMasterResponseProto(queue="default").SerializeToString(), 0.0)
    am.attempt.take_note()
    return am


@pytest.mark.usefixtures("small")
def test_it_takes_back_what_is_ours_and_passes_from_then_on() -> None:
    am, rm = registered(Am(coordinator())), Held()
    am.asks(row("*", 4, priority=1))
    rm.takes(am.sent)
    am.gets(container(1, 1, rm.grants(next(iter(queueable_rows(am.sent.ask).values())))))
    assert rm.placed and rm.own == {}
    am.asks(*many())
    rm.takes(am.sent)
    assert rm.placed == [], "nothing of ours is asked for"
    assert rm.own == {(1, "*"): 3} | {(100 + n, "*"): 1 for n in range(SMALL + 1)}
    assert am.attempt.registration.state is AttemptState.UNTRACKED
    am.gets(container(2, 1, row("*", 1, priority=100)), completed=[ended(1, -108)])
    assert [type(effect) for effect in am.effects].count(TooLarge) == 1
    assert cid(2) in am.attempt.live
    assert am.asks(row("*", 1, priority=5)) == [row("*", 1, priority=5)], "all passes as it came"
    am.gets()
    assert len(am.asks(*many())) == SMALL + 1 and not am.attempt.take_effects()


@pytest.mark.usefixtures("small")
def test_ends_of_what_was_queueable_are_still_translated() -> None:
    am = registered(Am(coordinator()))
    am.asks(row("*", 1))
    am.gets(container(1, 1, next(iter(queueable_rows(am.sent.ask).values()))))
    am.asks(*many())
    seen = am.gets(completed=[ended(1, -108)])
    assert [status.exit_status for status in seen.completed_container_statuses] == [-102]


@pytest.mark.usefixtures("small")
def test_a_restart_knows_nothing_of_it_and_a_registration_begins_anew() -> None:
    am = registered(Am(coordinator()))
    am.asks(row("*", 1))
    am.attempt.take_note()
    am.asks(*many())
    kept, note = Snapshot(), am.attempt.take_note()
    assert note is not None
    kept.take(note)
    assert kept.over and am.attempt.take_note() is None and am.attempt.whole_note() is None
    am.gets()
    registered(am)
    am.asks(row("*", 1))
    assert queueable_rows(am.sent.ask)


@pytest.mark.usefixtures("small")
def test_a_refused_one_is_taken_back_with_the_next() -> None:
    am, rm = registered(Am(coordinator())), Held()
    am.asks(row("*", 4, priority=1))
    rm.takes(am.sent)
    am.gets()
    am.asks(*many())
    am.attempt.exchange.on_refused("java.io.IOException")
    am.asks(*many())
    rm.takes(am.sent)
    assert rm.placed == [] and rm.own[1, "*"] == 4
    am.gets()
    assert len(am.asks(*many())) == SMALL + 1, "once is enough"


@pytest.mark.usefixtures("small")
def test_a_repeated_one_is_repeated() -> None:
    am, rm = registered(Am(coordinator())), Held()
    am.asks(row("*", 4, priority=1))
    rm.takes(am.sent)
    am.gets()
    first = list(am.asks(*many()))
    assert list(am.asks(*many())) == first, "the connection broke before the answer"
    am.asks(*many(SMALL + 2))
    rm.takes(am.sent)
    assert rm.placed == [] and rm.own[1, "*"] == 4 and (100 + SMALL + 1, "*") in rm.own
    am.gets()
    am.response_id -= 1
    am.asks(*many())
    assert am.sent.response_id == am.response_id, "it asks for the last answer again"
    assert list(am.sent.ask) == many()


@pytest.mark.usefixtures("small")
def test_one_after_a_request_without_an_answer_brings_its_content_along() -> None:
    am, rm = registered(Am(coordinator())), Held()
    am.asks(row("*", 4, priority=1), release=[9], blacklist=["h3"])
    am.asks(*many())
    rm.takes(am.sent)
    assert rm.placed == [] and rm.own[1, "*"] == 4
    assert [one.id & 0xFF for one in am.sent.release] == [9]
    assert list(am.sent.blacklist_request.blacklist_additions) == ["h3"]


@pytest.mark.usefixtures("small")
def test_one_after_a_restart_of_the_proxy_goes_on_with_the_old_id() -> None:
    world = coordinator()
    am = registered(Am(world))
    am.asks(row("*", 4, priority=1))
    asked = Held()
    asked.takes(am.sent)
    am.gets()
    kept, note = Snapshot(), am.attempt.whole_note()
    assert note is not None and asked.placed
    kept.take(note)
    world = coordinator()
    world.takeover.restore(ATTEMPT, kept)
    am.attempt, last = world.attempts[ATTEMPT], am.response_id
    assert am.attempt.refuses(last) and am.attempt.registration_answer()
    am.response_id = 0
    am.asks(*many())
    asked.takes(am.sent)
    assert am.sent.response_id == last and asked.placed == []
    assert asked.own == {(100 + n, "*"): 1 for n in range(SMALL + 1)}, "it asks anew for all that it wants"


def test_rows_that_add_up_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocate_exchange, "MAX_ROWS_KEPT", 25)
    am, rm = registered(Am(coordinator())), Held()
    for first in (100, 200, 300):
        am.asks(*many(10, first))
        rm.takes(am.sent)
        am.gets()
    assert am.attempt.registration.state is AttemptState.UNTRACKED and not am.attempt.entries
    assert rm.placed == [] and len(rm.own) == 30
