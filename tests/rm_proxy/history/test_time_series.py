"""The bounded series: steps, levels, gaps."""

from hypothesis import given
from hypothesis import strategies as st

from rm_proxy.history.time_series import TimeSeries

LEVELS = ((5.0, 4), (20.0, 3))


def test_steps_have_means_and_the_running_one_is_not_shown_yet() -> None:
    series = TimeSeries(("a", "b"), LEVELS)
    for at, a in ((100, 1), (102, 3), (105, 10), (121, 7)):
        series.add(at, {"a": a, "b": 2 * a})
    found = series.last(20, 121)
    assert (found.step_s, found.t, found.values) == (5.0, [105.0], {"a": [10.0], "b": [20.0]})
    assert series.last(60, 121).t == [100.0] and series.last(60, 121).values["a"] == [4.6667], "coarser, further back"


def test_a_clock_that_was_set_back_counts_in_the_last_step() -> None:
    series = TimeSeries(("a",), LEVELS)
    for at, a in ((100, 2), (50, 4), (105, 9)):
        series.add(at, {"a": a})
    assert series.last(20, 106).values == {"a": [3.0]}


@given(st.lists(st.floats(0, 1000), max_size=200), st.floats(1, 60))
def test_it_is_bounded_and_ordered(steps: list[float], last_s: float) -> None:
    series, now_s = TimeSeries(("a",), LEVELS), 1e9
    for step in steps:
        now_s += step
        series.add(now_s, {"a": 1})
    found = series.last(last_s, now_s)
    assert len(found.t) <= 4 and found.t == sorted(set(found.t)) and len(found.values["a"]) == len(found.t)
    assert all(value == 1 for value in found.values["a"]) and all(t >= now_s - last_s for t in found.t)
    assert series.span_s == 60
