"""The waiting queue under orders that overtake: counters, the limit, and what an application needs first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.common.overtaking import work_s
from policies.config.node_slots import NodeSlots
from policies.config.policy_set import Policies
from policies.model import ContainerView, Kind, Resources
from sidecar.node.queue.waiting_queue import PLAYED, WaitingQueue, WaitingStart
from tests.examples import of_share

ORDERS = ("fifo", "job_submission", "srpt", "sjf", "hrrn")
STRICT = {"bypass_limit_s": 0.0}


def policies(name: str, **chosen: Any) -> NodeSlots:
    return Policies.load({"order": {"policy": name, "settings": chosen}}).node


def queue(name: str, **chosen: Any) -> WaitingQueue:
    slots = policies(name, **chosen)
    return WaitingQueue(slots.order_key, 1000, 10**6, slots.bypass_limit_s, slots.order_steady)


def view(name: str, arrived_s: float, expected_s: float = 10.0, app: str = "", **more: Any) -> ContainerView:
    return ContainerView(
        name, app or name, Kind.QUEUEABLE, Resources(1024, 1), arrived_s=arrived_s, expected_s=expected_s, **more
    )


def put(into: WaitingQueue, *views: ContainerView) -> None:
    for each in views:
        into.add(WaitingStart(each, "attempt", 1e9, 1))


def start(of: WaitingQueue, now_s: float = 100.0) -> str:
    head = of.head(now_s)
    assert head is not None
    return of.launch(head.view.id).view.id


def bypassed_s(of: WaitingQueue, name: str) -> float:
    waiting = of.get(name)
    assert waiting is not None
    return waiting.view.bypassed_s


def test_starts_are_counted_for_those_that_came_earlier() -> None:
    line = queue("sjf")
    put(line, view("a", 1, 9), view("b", 2, 2), view("c", 3, 8))
    assert start(line) == "b"
    assert (bypassed_s(line, "a"), bypassed_s(line, "c")) == (2, 0)
    assert start(line) == "c"
    assert bypassed_s(line, "a") == 10


def test_what_leaves_without_a_start_overtakes_nobody() -> None:
    line = queue("sjf")
    put(line, view("a", 1, 9), view("b", 2, 2))
    line.remove("b")
    assert bypassed_s(line, "a") == 0


def test_one_that_would_go_beyond_the_limit_waits_while_a_smaller_one_may_pass() -> None:
    """`old` allows 5 * 4 = 20 s: after 15 s one of 6 s may not pass, one of 5 s may, and then none."""
    line = queue("job_submission", **STRICT)
    put(line, view("old", 1, 4, job_submitted_s=9), view("x", 2, 15, job_submitted_s=1))
    assert start(line) == "x"
    put(line, view("six", 3, 6, job_submitted_s=2), view("five", 4, 5, job_submitted_s=3))
    assert [w.view.id for w in line.in_order(100)] == ["five", "old", "six"]
    assert start(line) == "five"
    put(line, view("tiny", 5, 0, job_submitted_s=0))
    assert start(line) == "old"
    assert start(line) == "tiny"


def test_a_floor_of_the_limit_lets_short_ones_be_overtaken() -> None:
    line = queue("srpt", bypass_limit_s=60.0)
    put(line, view("short", 1, 1, job_remaining_s=500), view("long", 2, 60, job_remaining_s=60))
    assert start(line) == "long"
    strict = queue("srpt")
    put(strict, view("short", 1, 1, job_remaining_s=500), view("long", 2, 60, job_remaining_s=60))
    assert start(strict) == "short"


def test_without_a_limit_it_may_starve() -> None:
    line = queue("sjf", bypass_ratio=float("inf"))
    put(line, view("long", 0, 50))
    for number in range(200):
        put(line, view(f"s{number:03}", number + 1, 10))
        assert start(line) == f"s{number:03}"
    assert bypassed_s(line, "long") == 2000


@pytest.mark.parametrize("name", ORDERS)
def test_the_limit_stands_above_yarns_priorities(name: str) -> None:
    line = queue(name, **({} if name == "fifo" else STRICT))
    put(line, view("meek", 0, 10, app_priority=0))
    before = 0
    for number in range(1, 100):
        put(line, view(f"p{number:02}", number, 10, app_priority=9, job_submitted_s=-number))
        if start(line, number) == "meek":
            break
        before += 1
    assert before == (0 if name == "fifo" else 5)


def test_an_application_starts_first_what_it_needs_first() -> None:
    """A reduce of a short expectation came first: the maps of its job go before, and are not counted."""
    line = queue("sjf")
    put(line, view("reduce", 1, 1, "job", precedence=1), view("map1", 2, 30, "job"), view("map2", 3, 30, "job"))
    put(line, view("other", 4, 20))
    assert [w.view.id for w in line.in_order(100)] == ["other", "map1", "map2", "reduce"]
    assert [start(line) for _ in range(3)] == ["other", "map1", "map2"]
    assert bypassed_s(line, "reduce") == 0
    assert start(line) == "reduce"


def test_sizes_of_jobs_change_while_they_wait() -> None:
    line = queue("srpt")
    put(line, view("a", 1, 1, "A", job_remaining_s=10), view("b", 1.5, 1, "B", job_remaining_s=20))
    assert [w.view.id for w in line.in_order(100)] == ["a", "b"]
    line.job_sizes({"A": 30.0, "C": 5.0})
    assert [w.view.id for w in line.in_order(100)] == ["b", "a"]
    put(line, view("c", 2, 1, "C", job_remaining_s=99))
    assert [w.view.id for w in line.in_order(100)] == ["c", "b", "a"]


arrivals = st.lists(
    st.tuples(
        st.integers(0, 4),  # application
        st.sampled_from([0.0, 0.5, 3.0, 10.0, 40.0]),
        st.integers(0, 1),  # precedence
        st.integers(0, 2),  # the application's priority
        st.integers(0, 3),  # starts that follow
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=of_share(200))
@given(st.sampled_from(ORDERS), st.booleans(), arrivals)
def test_nobody_is_overtaken_beyond_its_limit(
    name: str, strict: bool, stream: list[tuple[int, float, int, int, int]]
) -> None:
    """A stream of newcomers: each counter stays within its limit, and the order shown is the order of the starts."""
    chosen = policies(name, **(STRICT if strict and name != "fifo" else {}))
    line = WaitingQueue(chosen.order_key, 1000, 10**6, chosen.bypass_limit_s, chosen.order_steady)
    now_s = 0.0
    for number, (app, expected_s, precedence, priority, starts) in enumerate(stream):
        now_s += 1
        more = {"precedence": precedence, "app_priority": priority, "job_remaining_s": 50.0 * app}
        put(line, view(f"c{number:02}", now_s, expected_s, f"app{app}", job_submitted_s=float(app), **more))
        for _ in range(min(starts, len(line))):
            shown = [w.view.id for w in line.in_order(now_s)]
            assert sorted(shown) == sorted(w.view.id for w in line)
            assert start(line, now_s) == shown[0]
            for waiting in line:
                limit_s = chosen.bypass_limit_s(waiting.view)
                assert waiting.view.bypassed_s <= (0.0 if limit_s is None else limit_s) + 1e-6


changes = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "start", "remove", "sizes", "expect"]),
        st.integers(0, 3),  # application, or which one
        st.sampled_from([0.0, 0.5, 3.0, 10.0, 40.0]),
        st.integers(-2, 2),  # how much later it arrived
        st.booleans(),  # needed first
    ),
    max_size=30,
)


def _change(line: WaitingQueue, number: int, change: tuple[str, int, float, int, bool]) -> None:
    what, which, seconds, later, first = change
    ids = sorted(w.view.id for w in line)
    chosen = ids[which % len(ids)] if ids else ""
    match what:
        case "add":
            more = {"job_submitted_s": float(which), "job_remaining_s": seconds * 9, "precedence": int(not first)}
            put(line, view(f"c{number:02}", number + later, seconds, f"app{which}", **more))
        case "start" if ids:
            start(line, number)
        case "remove" if ids:
            line.remove(chosen)
        case "sizes":
            line.job_sizes({f"app{which}": seconds})
        case "expect":
            line.expect(chosen, seconds, 0.0)


@settings(deadline=None, max_examples=of_share(100))
@given(st.sampled_from(ORDERS), st.booleans(), changes)
def test_keys_that_are_kept_are_those_that_would_be_computed(
    name: str, strict: bool, stream: list[tuple[str, int, float, int, bool]]
) -> None:
    """Keeping keys, and the short way to the order where no limit is reached, change nothing."""
    chosen = policies(name, **(STRICT if strict and name != "fifo" else {}))
    keeping = WaitingQueue(chosen.order_key, 1000, 10**6, chosen.bypass_limit_s, chosen.order_steady)
    computing = WaitingQueue(chosen.order_key, 1000, 10**6, chosen.bypass_limit_s)
    for number, change in enumerate(stream):
        for line in (keeping, computing):
            _change(line, number, change)
        assert keeping.head(number) == computing.head(number)
        assert keeping.in_order(number) == computing.in_order(number)
        assert sorted(keeping, key=lambda w: w.view.id) == sorted(computing, key=lambda w: w.view.id)
    while len(computing):
        shown = [w.view.id for w in computing.in_order(99)]
        assert [start(computing, 99) for _ in shown] == shown


def test_keys_are_computed_once_until_the_policy_changes() -> None:
    seen: list[str] = []
    by = [object()]

    def key(waiting: ContainerView, now_s: float) -> tuple[float, ...]:
        seen.append(waiting.id)
        return (waiting.expected_s,)

    line = WaitingQueue(key, 1000, 10**6, None, lambda: by[0])
    put(line, view("a", 1, 9), view("b", 2, 2))
    for _ in range(3):
        assert start(line) == "b"
        put(line, view("b", 3, 2))
    assert seen == ["a", "b", "b", "b"]
    line.expect("a", 1.0, 0.0)
    assert [w.view.id for w in line.in_order(1)] == ["a", "b"]
    by[0] = object()
    line.head(1)
    assert seen == ["a", "b", "b", "b", "a", "b", "a", "b"]


@pytest.mark.parametrize("name", ORDERS)
def test_each_starts_after_a_bounded_amount_of_work_of_newcomers(name: str) -> None:
    """Newcomers that every order prefers come for ever, as fast as one starts."""
    line = queue(name)
    victim = view("victim", 0, 10, job_submitted_s=1e9, job_remaining_s=1e9, priority=99)
    put(line, victim)
    limit_s = policies(name).bypass_limit_s(victim) or 0.0
    work = 0.0
    for number in range(1, 10_000):
        newcomer = view(f"n{number:04}", number, 1.0, app_priority=1)
        put(line, newcomer)
        if start(line, number) == "victim":
            break
        work += work_s(newcomer)
    assert "victim" not in line and work <= limit_s


def test_a_long_queue_is_shown_whole() -> None:
    line = queue("sjf")
    put(line, *(view(f"c{n:03}", n, 1000 - n) for n in range(PLAYED + 50)))
    shown = [w.view.id for w in line.in_order(0)]
    assert len(set(shown)) == PLAYED + 50
    assert shown[0] == start(line)
