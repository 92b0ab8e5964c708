"""What a task has left that has run for a while."""

from math import inf

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from policies.common.remaining_time import left_s

MEAN = st.floats(0.01, 1e6)
SPREAD = st.floats(0, 1e7)
RAN = st.floats(0, 1e7)


@pytest.mark.parametrize(
    ("expected_s", "spread_s", "ran_s", "left"),
    [
        (10, 0, 0, 10),
        (10, 0, 4, 6),
        (10, 0, 10, 1),
        (10, 0, 50, 1),
        (2, 0, 50, 0.5),
        (0, 0, 0, 0.5),
        (0, 3, 5, 0.5),
        (10, 5, 0, 10),
        (10, 1e-9, 4, 6),
        (10, 1e-9, 12, 1),
    ],
)
def test_by_the_mean_alone(expected_s: float, spread_s: float, ran_s: float, left: float) -> None:
    assert left_s(expected_s, spread_s, ran_s) == pytest.approx(left)


def test_by_the_spread() -> None:
    """A lognormal of mean 10 and spread 10, by integration: E[X | X > 10] = 19.533, E[X | X > 40] = 56.614."""
    assert left_s(10, 10, 10) == pytest.approx(9.533, abs=0.001)
    assert left_s(10, 10, 40) == pytest.approx(16.614, abs=0.001)
    assert left_s(10, 10, 5) == pytest.approx(8.519, abs=0.001)


def test_far_in_the_tail_it_goes_on_as_before() -> None:
    """Where the normal's tail is computed by its series, what is left grows with what it ran, and hardly faster."""
    near, far = left_s(1, 1, 1.4e9), left_s(1, 1, 1.8e9)
    assert near == pytest.approx(1.4e9 * 0.0345, rel=0.05)
    assert far / near == pytest.approx(1.8 / 1.4, rel=0.02)


@given(MEAN, SPREAD, RAN)
@example(10.0, 1e7, 1e7)
@example(1e6, 0.01, 1e7)
@example(0.01, 0.001, 1e7)
@example(2.2e-313, 1.0, 1.0)
def test_something_is_left_and_it_is_finite(expected_s: float, spread_s: float, ran_s: float) -> None:
    left = left_s(expected_s, spread_s, ran_s)
    assert 0 < left < inf
    assert ran_s + left >= expected_s * (1 - 1e-9), "never less in all than the mean"
    if ran_s >= expected_s:
        assert left >= max(0.5, 0.1 * expected_s) * (1 - 1e-9)


@given(MEAN, SPREAD, RAN, RAN)
def test_who_ran_longer_runs_longer_in_all(expected_s: float, spread_s: float, one: float, other: float) -> None:
    ran_s, more_s = sorted((one, other))
    in_all = [ran + left_s(expected_s, spread_s, ran) for ran in (ran_s, more_s)]
    assert in_all[1] >= in_all[0] * (1 - 1e-6)
