"""The virtual clock goes forward, in the order of time and of asking."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.simulator.clock import Clock


def test_events_come_by_time_and_then_as_asked_for() -> None:
    clock, seen = Clock(), list[tuple[float, str]]()

    def note(name: str) -> None:
        seen.append((clock.now_s, name))
        if name == "b":
            clock.later(0.0, note, "d")

    clock.at(2.0, note, "c")
    clock.later(1.0, note, "a")
    clock.at(1.0, note, "b")
    assert (len(clock), clock.next_s) == (3, 1.0)
    clock.run()
    assert seen == [(1.0, "a"), (1.0, "b"), (1.0, "d"), (2.0, "c")]
    assert (clock.events, clock.next_s, clock.step()) == (4, float("inf"), False)


def test_it_stops_where_it_is_told_and_goes_on() -> None:
    clock, seen = Clock(10.0), list[float]()
    for at_s in (11.0, 12.0, 13.0):
        clock.at(at_s, lambda: seen.append(clock.now_s))
    clock.run(until_s=12.0)
    assert (seen, clock.now_s, clock.next_s) == ([11.0, 12.0], 12.0, 13.0)
    assert clock.step() and seen[-1] == 13.0


@pytest.mark.parametrize("at_s", (4.9, float("nan")))
def test_nothing_happens_in_the_past(at_s: float) -> None:
    with pytest.raises(ValueError, match="the clock is at 5"):
        Clock(5.0).at(at_s, print)


@given(st.lists(st.floats(0, 1e6), max_size=50), st.lists(st.floats(0, 10), max_size=50))
def test_time_never_goes_backwards(first_s: list[float], after_s: list[float]) -> None:
    clock, seen = Clock(), list[float]()

    def note() -> None:
        seen.append(clock.now_s)
        if after_s:
            clock.later(after_s.pop(), note)

    expected = len(first_s) + (len(after_s) if first_s else 0)
    for at_s in first_s:
        clock.at(at_s, note)
    clock.run()
    assert seen == sorted(seen) and len(seen) == clock.events == expected
