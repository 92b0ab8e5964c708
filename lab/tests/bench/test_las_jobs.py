"""The workload is the thesis': classes, probabilities, proportions, load."""

from itertools import pairwise
from statistics import fmean

import pytest

from quicksilver_lab.bench.las.jobs import TABLE, LasScale, counts, draw, gap_s, job_of, thesis_load

SCALE = LasScale()
TWO_HOURS_S = 2 * 3600


def test_load_is_that_of_the_thesis_own_numbers() -> None:
    # Table 4.1 on 120 cores: a wave of 15, 15 or 30 tasks; 112 maps in one; 224 in two; reduces in one.
    core_s = (
        0.32 * 30 * 85 / 2
        + 0.31 * 30 * 201 / 2
        + 0.31 * 60 * 239 / 2
        + 0.04 * (112 + 60) * 308 / 2
        + 0.02 * (224 + 60) * 1175 / 3
    )
    assert core_s / (60 * 120) == pytest.approx(0.951, abs=0.001)
    masters_s = 0.32 * 85 + 0.31 * 201 + 0.31 * 239 + 0.04 * 308 + 0.02 * 1175
    early_s = 0.02 * 60 * 1175 / 3  # the reduces of the longest class, while its second wave of maps runs
    assert thesis_load() == pytest.approx((core_s + masters_s + early_s) / (60 * 120))
    assert thesis_load() == pytest.approx(1.044, abs=0.001)
    assert pytest.approx(TWO_HOURS_S, rel=0.2) == 100 * 60  # "The resulting workload takes roughly 2 hours" (§4.5.2)


def test_tasks_are_a_sixtieth_rounded_up() -> None:
    small = [SCALE.small(row) for row in TABLE]
    assert [row.maps for row in small] == [1, 1, 1, 2, 4]
    assert [row.reduces for row in small] == [1, 1, 1, 1, 1]


def test_a_job_alone_takes_its_share_of_the_table() -> None:
    for row in TABLE:
        maps, reduces = job_of(row, SCALE).stages
        waves = -(-maps.tasks // 2) + -(-reduces.tasks // 2)
        assert waves * (maps.task_s + SCALE.overhead_s) + 0.5 == pytest.approx(row.alone_s * 0.055)
        assert maps.priority > reduces.priority
    assert job_of(TABLE[0], SCALE).stages[0].task_s < 50 * SCALE.time  # the shortest tasks end within one quantum


def test_overhead_may_not_eat_the_tasks() -> None:
    with pytest.raises(ValueError, match="small: 0\\.09 s for a task are too few"):
        LasScale(overhead_s=2.0).task_s(TABLE[0])


@pytest.mark.parametrize(
    ("jobs", "expected"),
    ((100, [32, 31, 31, 4, 2]), (25, [8, 8, 7, 1, 1]), (5, [1, 1, 1, 1, 1]), (200, [64, 62, 62, 8, 4])),
)
def test_as_many_of_each_class_as_the_probabilities_say(jobs: int, expected: list[int]) -> None:
    assert counts(jobs) == expected


def test_fewer_jobs_than_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="4 jobs cannot have one of each"):
        counts(4)


@pytest.mark.parametrize("seed", (1, 2018))
@pytest.mark.parametrize("jobs", (25, 100))
def test_arrivals_offer_the_load_whatever_is_drawn(jobs: int, seed: int) -> None:
    drawn = draw(jobs, SCALE, seed)
    assert drawn == draw(jobs, SCALE, seed)
    assert [sum(job.kind == row.name for job in drawn) for row in TABLE] == counts(jobs)
    arrivals = [job.arrives_s for job in drawn]
    assert arrivals == sorted(arrivals) and arrivals[0] == 0
    rows = {row.name: SCALE.small(row) for row in TABLE}
    slot_s = sum(rows[job.kind].core_s(SCALE.cores) for job in drawn)
    gap = arrivals[-1] / (jobs - 1)
    assert slot_s / jobs / gap / SCALE.cores == pytest.approx(thesis_load())
    kinds = [row for row, count in zip(TABLE, counts(jobs), strict=True) for _ in range(count)]
    assert gap_s(kinds, SCALE, thesis_load()) == pytest.approx(gap)
    gaps = [later - earlier for earlier, later in pairwise(arrivals)]
    deviation = fmean((one - gap) ** 2 for one in gaps) ** 0.5
    assert 0.6 < deviation / gap < 1.5  # exponential: 1


def test_another_seed_is_another_workload() -> None:
    one, other = draw(100, SCALE, 1), draw(100, SCALE, 2)
    assert [job.kind for job in one] != [job.kind for job in other]
    assert one[-1].arrives_s == pytest.approx(other[-1].arrives_s)


def test_a_full_run_takes_at_most_15_minutes() -> None:
    longest = max(row.alone_s for row in TABLE) * SCALE.time
    assert draw(100, SCALE, 2018)[-1].arrives_s + 2 * longest < 15 * 60
