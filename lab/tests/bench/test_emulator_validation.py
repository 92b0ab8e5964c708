"""What `make bench-emulator` makes of its runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from quicksilver_lab.bench.emulator.model import JobRecord, TaskRecord
from quicksilver_lab.bench.emulator_validation.figures import compared, figures
from quicksilver_lab.bench.emulator_validation.plan import ValidationPlan, draw, spec
from quicksilver_lab.bench.emulator_validation.run import order


def job(*tasks: tuple[float | None, float | None], submitted_s: float = 0.0) -> JobRecord:
    records = [TaskRecord(1, n, 1.0, started_s=began, ended_s=ended) for n, (began, ended) in enumerate(tasks)]
    return JobRecord(1, "small", submitted_s, 0.5, 9.0, records)


def test_figures_of_a_run() -> None:
    found = figures([job((2.0, 4.0), (4.0, 8.5)), job((1.5, 7.0), submitted_s=1.0)])
    assert found == {"makespan_s": 8.5, "queueing_mean_s": 1.5, "job_latency_mean_s": 8.5}


@pytest.mark.parametrize("tasks", [[(2.0, None)], [(None, None)], []])
def test_a_run_that_is_not_whole_has_no_figures(tasks: list[tuple[float | None, float | None]]) -> None:
    with pytest.raises(ValueError, match=r"has no end|no job had a task"):
        figures([job(*tasks)])


def _run(makespan_s: float, queueing_s: float) -> dict[str, float]:
    return {"makespan_s": makespan_s, "queueing_mean_s": queueing_s, "job_latency_mean_s": 1.0}


@pytest.mark.parametrize(
    ("emulated", "met"),
    [((11.0, 5.5), True), ((9.0, 4.5), True), ((11.1, 5.0), False), ((10.0, 4.4), False)],
)
def test_the_goal_is_ten_percent_on_both_figures(emulated: tuple[float, float], met: bool) -> None:
    found = compared([_run(9.0, 4.0), _run(11.0, 6.0)], [_run(*emulated), _run(*emulated)])
    assert found["goal_met"] is met
    assert found["makespan_s"] == {"real": 10.0, "emulated": emulated[0], "ratio": round(emulated[0] / 10, 4)}


def test_runs_without_a_partner_are_not_compared() -> None:
    with pytest.raises(ValueError, match="1 real and 0 emulated"):
        compared([_run(1, 1)], [])


def test_each_round_begins_with_another_block_and_the_first_measures_the_delays() -> None:
    blocks = order(4)
    assert blocks[0] == (0, ("real", False))
    assert len({block for r, block in blocks if blocks.index((r, block)) % 4 == 0}) == 4
    assert all(len({block for other, block in blocks if other == r}) == 4 for r in range(4))


@pytest.mark.parametrize(("mode", "through"), [("stock", False), ("quicksilver", True)])
def test_one_mode_alone_begins_with_the_real_cluster(mode: str, through: bool) -> None:
    places = [place for _, (place, one) in order(2, [mode]) if one is through]
    assert places == ["real", "emulated", "emulated", "real"]


def test_equal_seeds_draw_equal_jobs_for_a_cluster_that_holds_a_task_per_vcore() -> None:
    plan = ValidationPlan()
    assert draw(plan, 1) == draw(plan, 1) != draw(plan, 2)
    assert all(2.0 <= task.duration_s <= 4.0 for job in draw(plan, 1) for task in job.tasks)
    cluster = spec(plan, Path("run"), 20000, quicksilver=False)
    assert cluster.node_memory_mb == plan.vcores * draw(plan, 1)[0].memory_mb
