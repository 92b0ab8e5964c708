"""Samples made into lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver_lab.bench.page.shapes import cdf, growth, per_second, smoothed


def test_a_cdf_ends_at_one() -> None:
    line = cdf("a", [3, 1, 2, 2])
    assert (list(line.x), list(line.y)) == ([1, 1, 2, 2, 3], [0.0, 0.25, 0.5, 0.75, 1.0])


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=400), st.integers(2, 50))
def test_a_thinned_cdf_lies_on_the_whole_one(samples: list[float], points: int) -> None:
    whole, thin = cdf("a", samples, 1000), cdf("a", samples, points)
    assert set(zip(thin.x, thin.y, strict=True)) <= set(zip(whole.x, whole.y, strict=True))
    assert len(thin.x) <= points + 1
    assert thin.x[-1] == max(samples)
    assert thin.x[0] == min(samples)
    assert (thin.y[0], thin.y[-1]) == (0.0, 1.0)


def test_rates_are_of_whole_steps_inside() -> None:
    assert per_second([-0.1, 0.0, 0.9, 2.5, 3.9, 4.0], 4.5, 2.0) == [1.0, 1.0]


def test_growth_is_found_again() -> None:
    found = growth([64, 256, 1000], [2 * x**1.1 for x in (64, 256, 1000)])
    assert (found.factor, found.exponent) == (pytest.approx(2), pytest.approx(1.1))
    assert found.at(100) == pytest.approx(2 * 100**1.1)


@pytest.mark.parametrize(("x", "y"), [([64], [1.0]), ([64, 64], [1.0, 2.0]), ([64, 128], [0.0, 1.0])])
def test_growth_needs_two_sizes_above_nothing(x: list[float], y: list[float]) -> None:
    with pytest.raises(ValueError, match="two different sizes"):
        growth(x, y)


def test_smoothing_keeps_a_level_and_spreads_a_peak() -> None:
    assert smoothed([2.0] * 5, 3) == [2.0] * 5
    assert smoothed([0, 3, 0, 0], 3) == [1.5, 1.0, 1.0, 0.0]
