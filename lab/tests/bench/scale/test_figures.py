from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver_lab.bench.scale.field import TASK_MB, endless, stream
from quicksilver_lab.bench.scale.figures import exponent, growth, headline, heartbeat_cpu_ms, per_unit


@given(st.floats(0.1, 3), st.floats(0.001, 1000))
def test_a_power_law_is_found(e: float, c: float) -> None:
    assert exponent({size: c * size**e for size in (64.0, 256.0, 1000.0)}) == pytest.approx(e, abs=1e-3)


@pytest.mark.parametrize("costs", [{}, {1: 1.0, 2: 2.0}, {1: 1.0, 2: 0.0, 3: 2.0}, {1: 1.0, 2: -1.0, 3: 2.0}])
def test_too_little_or_noise_has_no_exponent(costs: dict[float, float]) -> None:
    assert exponent(costs) is None


def test_a_line_has_what_is_there_without_and_what_one_more_costs() -> None:
    assert per_unit({10: 7.0, 20: 9.0, 40: 13.0}) == {"base": 5.0, "each": 0.2}
    assert per_unit({10: 7.0, 20: 9.0}) is None


def test_heartbeats_cost_what_phases_with_them_use_beyond_those_without() -> None:
    assert heartbeat_cpu_ms([0.5, 0.7], [0.2, 0.2], [2000, 2000]) == pytest.approx(200)


def test_growth_looks_at_the_points_where_all_else_is_equal() -> None:
    points: list[dict[str, Any]] = [{"nodes": n, "masters": m, "cost": n * m} for n in (1, 2, 4, 8) for m in (1, 3)]
    found = growth([*points, {"nodes": 16, "masters": 3, "cost": None}], "cost", "nodes", masters=3)
    assert found == {
        "exponent": 1.0,
        "line": {"base": 0.0, "each": 3.0},
        "points": {"1": 3.0, "2": 6.0, "4": 12.0, "8": 24.0},
    }


def test_the_worst_of_all_points_stands_for_them() -> None:
    names = ("added_p50_ms", "added_p99_ms", "cpu_ms_per_1000_heartbeats")
    points = [dict(zip(names, values, strict=True)) for values in ((0.1, 1.0, 90.0), (0.4, 0.5, 50.0))]
    assert headline(points, 0.97) == {
        "added_p50_ms": 0.4,
        "added_p99_ms": 1.0,
        "cpu_ms_per_1000_heartbeats": 90.0,
        "saturation_ratio": 0.97,
        "goals_met": {"added_p50_ms": False, "added_p99_ms": True, "saturation_ratio": True},
    }


def test_endless_tasks_are_split_among_jobs_of_bounded_size() -> None:
    jobs = endless(450)
    assert [len(job.tasks) for job in jobs] == [200, 200, 50]
    assert [job.number for job in jobs] == [0, 1, 2] and {job.memory_mb for job in jobs} == {TASK_MB}


def test_the_stream_of_short_tasks_has_its_rate() -> None:
    jobs = list(stream(40, 10))
    assert sum(len(job.tasks) for job in jobs) == 400
    assert [job.arrives_s for job in jobs[:3]] == [0.0, 0.5, 1.0] and jobs[-1].arrives_s == 9.5
