"""An application counts as alive until its next heartbeat is long due, by its own interval, and no longer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_proxy.dispatch.heartbeats import ASSUMED_S, INTERVALS, LEAST_S, LIMIT_S, Heartbeats


def after(*intervals_s: float) -> Heartbeats:
    beats = Heartbeats(0.0)
    for interval_s in intervals_s:
        beats.beat(beats.last_s + interval_s)
    return beats


@pytest.mark.parametrize(
    ("name", "intervals_s", "alive_s"),
    [
        ("the first", (), INTERVALS * ASSUMED_S),
        ("the second, soon", (0.1,), INTERVALS * ASSUMED_S),
        ("MapReduce, Tez", (1.0, 1.0, 1.0), LEAST_S),
        ("Spark, while it waits: each interval is twice as long, up to its own", (0.2, 0.4, 0.8, 1.6), 3.2),
        ("Spark", (3.0, 3.0), 6.0),
        ("Spark, one of whose heartbeats was late", (1.0, 3.0, 1.0), 6.0),
        ("a busy master", (1.0, 1.0, 4.0), 8.0),
        ("one that stood still", (1.0, 600.0), LIMIT_S),
        ("one that is quick again", (600.0, 1.0, 1.0), LEAST_S),
    ],
)
def test_how_long(name: str, intervals_s: tuple[float, ...], alive_s: float) -> None:
    beats = after(*intervals_s)
    assert beats.alive_until_s - beats.last_s == pytest.approx(alive_s), name


def test_two_messages_at_once_are_one_heartbeat_and_a_clock_set_back_is_no_interval() -> None:
    beats = after(1.0, 1.0, 0.0)
    assert beats.alive_until_s == 2.0 + LEAST_S
    beats.beat(-5.0)
    assert beats.alive_until_s == -5.0 + LEAST_S


@given(st.lists(st.floats(0.05, 5.0), min_size=2, max_size=10), st.floats(0.0, 0.99))
def test_a_heartbeat_that_comes_no_later_than_twice_its_interval_is_in_time(
    intervals_s: list[float], late: float
) -> None:
    beats = after(*intervals_s)
    assert beats.last_s + (1 + late) * intervals_s[-1] <= beats.alive_until_s + 1e-9
    assert LEAST_S - 1e-9 <= beats.alive_until_s - beats.last_s <= LIMIT_S + 1e-9
