"""When a waiting call is due, how long it may wait, and the signs that it should not."""

from __future__ import annotations

from math import inf

import pytest

from rm_proxy.long_poll.bounds import long_poll_s
from rm_proxy.long_poll.long_poll import ENDED_S, FAST_PACE_S, GATHER_S, PACE_S, Act, LongPoll, Why
from rm_proxy.long_poll.signs import QUIET, Sign, Signs
from rm_proxy.long_poll.wakeups import Wakeups


def machine(limit_s: float = 5.0, *, fast: bool = False) -> LongPoll:
    made = LongPoll(lambda sign: None)
    made.begin(0.0, limit_s, fast)
    return made


@pytest.mark.parametrize(
    ("app_type", "setting", "seconds"),
    [
        ("MAPREDUCE", "off", 0.0),
        ("MAPREDUCE", "short", 5.0),
        ("MAPREDUCE", "long", 8.0),
        ("YARN", "long", 5.0),
        ("TEZ", "short", 1.0),
        ("SPARK", "long", 2.0),
        ("APACHE FLINK", "short", 1.0),
        ("OWN", "long", 3.5),
        ("NEVER", "long", 0.0),
    ],
)
def test_bounds_by_framework(app_type: str, setting: str, seconds: float) -> None:
    assert long_poll_s(app_type, setting, 10.0, {"OWN": 3.5, "NEVER": 0.2}) == seconds  # type: ignore[arg-type]


@pytest.mark.parametrize(("window_s", "seconds"), [(10.0, 8.0), (4.0, 2.0), (2.0, 0.0)])
def test_a_task_commits_only_if_its_master_was_answered_within_the_window(window_s: float, seconds: float) -> None:
    assert long_poll_s("MAPREDUCE", "long", window_s, {}) == seconds
    assert long_poll_s("MAPREDUCE", "long", window_s, {"MAPREDUCE": 60.0}) == max(0.0, window_s - 2)


def test_the_pace_depends_on_guaranteed_asks_and_on_how_many_wait() -> None:
    assert machine().due_s(FAST_PACE_S) == PACE_S
    assert machine(fast=True).due_s(FAST_PACE_S) == FAST_PACE_S
    assert machine(fast=True).due_s(0.6) == 0.6


def test_one_call_at_a_time_and_the_next_after_its_answer() -> None:
    poll = machine()
    assert poll.act(0.99, FAST_PACE_S) is Act.NOTHING and poll.act(1.0, FAST_PACE_S) is Act.POLL
    poll.polled()
    assert poll.due_s(FAST_PACE_S) == inf and poll.act(7.0, FAST_PACE_S) is Act.NOTHING
    assert poll.answered(1.5, False) is None
    assert poll.due_s(FAST_PACE_S) == 2.5


def test_the_bound_needs_no_call() -> None:
    poll = machine(0.5)
    assert poll.act(0.5, FAST_PACE_S) is Act.END
    assert poll.end(Why.BOUND, 0.5) == 0.5 and not poll.waiting
    assert poll.end(Why.BOUND, 0.6) == 0.0


def test_placements_are_gathered_and_completions_are_not() -> None:
    poll = machine()
    assert poll.to_send(0.1, gather=True)
    assert poll.to_send(0.2, gather=True)
    assert poll.due_s(FAST_PACE_S) == pytest.approx(0.1 + GATHER_S)
    assert poll.to_send(0.25)
    assert poll.act(0.25, FAST_PACE_S) is Act.POLL
    poll.polled()
    poll.to_send(0.26)
    assert poll.answered(0.3, False) is None
    assert poll.act(0.3, FAST_PACE_S) is Act.POLL, "what came while a call was under way goes with the next"


def test_an_end_at_a_node_brings_the_answer_within_a_second() -> None:
    poll = machine()
    assert poll.container_ended(0.5) and poll.container_ended(1.4)
    assert poll.act(1.0, FAST_PACE_S) is Act.POLL
    poll.polled()
    assert poll.answered(1.0, False) is None
    assert poll.due_s(FAST_PACE_S) == 1.0 + FAST_PACE_S
    assert poll.act(0.5 + ENDED_S, FAST_PACE_S) is Act.POLL
    poll.polled()
    assert poll.answered(1.6, False) is Why.ENDED


def test_nothing_is_marked_while_nothing_waits() -> None:
    poll = LongPoll(lambda sign: None)
    assert not (poll.to_send(0.0) or poll.container_ended(0.0) or poll.finish(Why.STOPPED, 0.0))
    assert poll.due_s(FAST_PACE_S) == inf and poll.act(9.0, FAST_PACE_S) is Act.NOTHING


# Signs


def watched(limit_s: float = 4.0) -> tuple[Signs, list[Sign]]:
    off: list[Sign] = []
    signs = Signs(off.append)
    assert signs.allowed_s(limit_s) == limit_s
    return signs, off


def test_a_broken_connection_halves_and_a_second_one_ends() -> None:
    signs, off = watched()
    signs.note(Sign.BROKEN)
    assert signs.allowed_s(4.0) == 2.0 and off == []
    signs.note(Sign.BROKEN)
    signs.note(Sign.BROKEN)
    assert signs.allowed_s(4.0) == 0.0 and off == [Sign.BROKEN], "once"


def test_a_refusal_ends_at_once() -> None:
    signs, off = watched()
    signs.note(Sign.REFUSED)
    assert signs.allowed_s(4.0) == 0.0 and off == [Sign.REFUSED]


def after_the_bound(signs: Signs, contents: list[bool]) -> None:
    for content in contents:
        signs.waited(at_bound=True)
        assert signs.watches
        signs.next_request(content)


def test_content_right_after_empty_answers_halves_until_it_fits() -> None:
    signs, off = watched()
    after_the_bound(signs, [True, False] * (QUIET // 2))
    assert signs.allowed_s(4.0) == 4.0, "a half is by chance"
    signs, off = watched()
    after_the_bound(signs, [True] * QUIET)
    assert signs.allowed_s(4.0) == 2.0
    after_the_bound(signs, [False] * QUIET)
    assert signs.allowed_s(4.0) == 2.5, "it grows again"
    after_the_bound(signs, [True] * 3 * QUIET)
    assert signs.allowed_s(4.0) == 0.0 and off == [Sign.BEHIND], "below half a second it is not worth it"


def test_news_are_no_sign() -> None:
    signs, _ = watched()
    signs.waited(at_bound=False)
    assert not signs.watches


def test_containers_that_come_too_late_are_a_sign() -> None:
    signs, off = watched()
    signs.delivered([f"c{n}" for n in range(10)], 10.0)
    assert signs.watches
    for name, at_s in (("c1", 11.0), ("other", 11.0), ("c2", 14.0), ("c3", 12.9)):
        signs.released(name, at_s)
    assert signs.allowed_s(4.0) == 4.0, "two came back within three seconds"
    signs.released("c4", 13.0)
    assert signs.allowed_s(4.0) == 2.0 and off == []


# Wake-ups


class Someone:
    """An attempt that gets a place, or not."""

    def __init__(self, *, places: bool = False, sends: bool = False, unplaced: bool = True) -> None:
        self.long_poll = machine()
        self.has_unplaced, self.has_to_send, self._places, self.placed_s = unplaced, sends, places, inf

    def place(self, now_s: float) -> bool:
        self.placed_s = now_s
        return self._places


def test_free_places_go_in_order_and_wake_who_got_one() -> None:
    wakeups = Wakeups()
    wakeups.order = lambda now_s: ["b", "gone", "a", "c"]
    a, b, c = Someone(places=True), Someone(), Someone(unplaced=False)
    wakeups.waiting |= {"a": a, "b": b, "c": c}
    wakeups.places_free(1.5)
    assert (a.placed_s, b.placed_s, c.placed_s) == (1.5, 1.5, inf)
    assert wakeups.take() == ["a"] and wakeups.take() == []
    assert a.long_poll.due_s(FAST_PACE_S) == PACE_S < b.long_poll.due_s(FAST_PACE_S) + 1


def test_by_default_they_get_places_as_they_began_to_wait() -> None:
    wakeups = Wakeups()
    wakeups.waiting |= {name: Someone(places=True) for name in "cab"}
    wakeups.places_free(0.5)
    assert wakeups.take() == ["c", "a", "b"]


def test_a_round_calls_for_those_with_something_to_send() -> None:
    wakeups = Wakeups()
    wakeups.waiting |= {"a": Someone(sends=True), "b": Someone()}
    wakeups.round(0.1)
    assert wakeups.take() == ["a"]
    wakeups.round(0.2, changed=True)
    assert wakeups.take() == ["a", "b"]
