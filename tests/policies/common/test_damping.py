"""Damping: dead band, rounding, slow and fast ways, time between changes; then what always holds."""

import math
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from policies.common.damping import Damped, Damping

PROTECTS = Damping(round_to=256, rise_part_ratio=0.25, rise_every_s=10, rise_beyond_ratio=0.05)
"""Falls at once, rises by a quarter of the way each ten seconds."""


def run(cfg: Damping, *wanted: float | None, every_s: float = 1.0) -> list[float | None]:
    damped = Damped()
    return [damped.take(value, cfg, number * every_s) for number, value in enumerate(wanted)]


def test_without_settings_it_follows_at_once() -> None:
    assert run(Damping(), 3.5, 7.25, 1.0) == [3.5, 7.25, 1.0]


def test_falls_at_once_and_rises_slowly() -> None:
    assert run(PROTECTS, 4096, 1000, every_s=1) == [4096, 768]
    assert run(PROTECTS, 1024, 5120, 5120, 5120, every_s=10) == [1024, 2048, 2816, 3328]


def test_rises_no_sooner_than_it_may() -> None:
    assert run(PROTECTS, 1024, 5120, 5120, every_s=5) == [1024, 1024, 2048]


def test_a_step_larger_than_the_way_ends_at_the_goal() -> None:
    assert run(Damping(round_to=10.0, rise_part_ratio=0.5), 100, 112, 113, 127) == [100, 110, 110, 120]
    assert run(Damping(round_to=0.0, rise_part_ratio=1.0), 100, 107) == [100, 107]


def test_a_fall_restarts_the_time_to_the_next_rise() -> None:
    damped = Damped()
    assert [damped.take(w, PROTECTS, t) for w, t in ((2048, 0), (1024, 9), (4096, 18), (4096, 19))] == [
        2048,
        1024,
        1024,
        1792,
    ]


def test_rounds_up_where_it_is_told() -> None:
    assert run(Damping(round_to=5, round_up=True), 11.0, 15.0, 15.1) == [15, 15, 20]
    assert run(Damping(round_to=0.1), 0.3, 0.7) == [pytest.approx(0.3), pytest.approx(0.7)]


def test_no_limit_comes_and_goes_at_once() -> None:
    assert run(PROTECTS, None, 512, None, 4096) == [None, 512, None, 4096]


@pytest.mark.parametrize("wanted", [-1.0, math.inf, math.nan])
def test_refuses_what_is_no_limit(wanted: float) -> None:
    with pytest.raises(ValueError, match="finite and not negative"):
        Damped(1.0).take(wanted, Damping(), 0.0)


ratios = st.floats(0.05, 1.0)
configs = st.builds(
    Damping,
    round_to=st.sampled_from([0.0, 0.5, 1.0, 256.0]),
    round_up=st.booleans(),
    rise_beyond_ratio=st.floats(0, 0.5),
    rise_part_ratio=ratios,
    rise_every_s=st.floats(0, 20),
    fall_beyond_ratio=st.floats(0, 0.5),
    fall_part_ratio=ratios,
    fall_every_s=st.floats(0, 20),
)
figures = st.floats(0, 1e5)


@given(configs, figures, st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_nothing_moves_inside_the_dead_band(cfg: Damping, first: float, noise: list[float]) -> None:
    damped = Damped()
    at = damped.take(first, cfg, 0.0)
    assert at is not None
    low, high = at * (1 - cfg.fall_beyond_ratio), at * (1 + cfg.rise_beyond_ratio)
    for number, part in enumerate(noise, 1):
        wanted = at + 0.999 * (low + part * (high - low) - at)
        assume(abs(cfg.rounded(wanted) - at) <= 0.999 * (high - at if cfg.rounded(wanted) > at else at - low))
        assert damped.take(wanted, cfg, number * 100.0) == at


@given(configs, figures, st.lists(st.tuples(figures, st.floats(0.1, 30)), max_size=50))
def test_steps_are_bounded_towards_what_is_wanted_and_far_enough_apart(
    cfg: Damping, first: float, steps: list[tuple[float, float]]
) -> None:
    damped, now_s, last_s = Damped(), 0.0, -math.inf
    before = damped.take(first, cfg, now_s)
    assert before is not None
    last_s = now_s
    for wanted, after_s in steps:
        now_s += after_s
        value, goal = damped.take(wanted, cfg, now_s), cfg.rounded(wanted)
        assert value is not None
        part, every_s = (
            (cfg.rise_part_ratio, cfg.rise_every_s) if goal > before else (cfg.fall_part_ratio, cfg.fall_every_s)
        )
        assert min(before, goal) <= value <= max(before, goal)
        assert abs(value - before) <= max(part * abs(goal - before), cfg.round_to) * (1 + 1e-9)
        if value != before:
            assert now_s - last_s >= every_s
            last_s = now_s
        before = value


@given(configs, figures, figures)
def test_a_constant_input_is_reached_but_for_the_dead_band(cfg: Damping, first: float, wanted: float) -> None:
    damped = Damped()
    damped.take(first, cfg, 0.0)
    values = [damped.take(wanted, cfg, number * 50.0) for number in range(1, 600)]
    last, goal = values[-1], cfg.rounded(wanted)
    assert last is not None
    band = cfg.rise_beyond_ratio if goal > last else cfg.fall_beyond_ratio
    assert abs(goal - last) <= band * last + 1e-6 * max(1.0, goal)
    signs = {math.copysign(1, b - a) for a, b in pairwise(values) if a and b and a != b}
    assert len(signs) <= 1
