"""Generated jobs: equal by seed, streamed, and as the papers print them."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from math import exp
from random import Random
from statistics import fmean, pstdev

import pytest
from click.testing import CliRunner

from quicksilver.simulator.traces import generators
from quicksilver.simulator.traces.cli import trace
from quicksilver.simulator.traces.generators import NoSuchGeneratorError, generate, generator
from quicksilver.simulator.traces.shaping import measured
from quicksilver_lab.papers.workloads import draws
from quicksilver_lab.papers.workloads.clusters import CLOUDERA, FACEBOOK, YAHOO, Clustered
from quicksilver_lab.papers.workloads.generators import GENERATORS
from quicksilver_lab.papers.workloads.google import KINDS, Google


@pytest.mark.parametrize("name", GENERATORS)
def test_equal_seeds_give_equal_jobs_by_arrival(name: str) -> None:
    jobs = list(generate(name, 60, 7))
    assert jobs == list(generate(name, 60, 7)) != list(generate(name, 60, 8))
    assert jobs[:20] == list(generate(name, 20, 7)), "fewer jobs are the first ones"
    assert [job.number for job in jobs] == list(range(1, 61))
    assert [job.arrives_s for job in jobs] == sorted(job.arrives_s for job in jobs)
    assert all(min(job.durations_s) > 0 and job.name for job in jobs)
    if not name.startswith("mercury"):
        assert all(job.estimate_s == pytest.approx(fmean(job.durations_s)) for job in jobs)


@pytest.mark.parametrize("name", GENERATORS)
def test_another_rate_leaves_the_jobs_as_they_are(name: str) -> None:
    one, other = (list(generate(name, 40, 3, interarrival_s=every_s)) for every_s in (1.0, 10.0))
    assert [job.durations_s for job in one] == [job.durations_s for job in other]
    assert other[-1].arrives_s == pytest.approx(10 * one[-1].arrives_s, abs=0.01)


def test_a_stream_holds_no_job_but_the_next() -> None:
    assert sum(1 for _ in islice(generate("facebook", 10**9), 5)) == 5


def test_hawks_example_is_as_the_paper_says() -> None:
    sample = measured(generate("hawk_example"), 10_000.0)
    assert (sample.jobs, sample.tasks, sample.long_jobs) == (1000, 950 * 100 + 50 * 1000, 50)
    assert sample.work_s == 950 * 100 * 100 + 50 * 1000 * 20_000
    assert sample.last_s == pytest.approx(50_000, rel=0.1)
    assert {(job.name, len(job.durations_s), job.durations_s[0]) for job in generate("hawk_example", 40)} == {
        ("short", 100, 100.0),
        ("long", 1000, 20_000.0),
    }


@pytest.mark.parametrize(
    ("workload", "total", "long", "cutoff_s"),
    ((YAHOO, 24_262, 0.0941, 90.5811), (CLOUDERA, 21_030, 0.0502, 272.783), (FACEBOOK, 1_169_184, 0.0201, 76.5951)),
)
def test_clusters_have_the_jobs_and_the_long_ones_of_the_thesis(
    workload: Clustered, total: int, long: float, cutoff_s: float
) -> None:
    """Tables 2.1 and 2.2; long by cluster, and by the mean duration against the cut-off of the public traces."""
    assert workload.total == total
    assert 1 - workload.clusters[0].jobs / total == pytest.approx(long, abs=1e-4)
    above = sum(one.jobs * exp(-cutoff_s / (workload.ratio * one.duration_s)) for one in workload.clusters)
    assert above / total == pytest.approx(long, abs=0.0025)


@pytest.mark.long
def test_yahoo_like_jobs_amount_to_what_clusters_say() -> None:
    sample = measured(generate("yahoo", seed=4), 90.5811)
    assert sample.jobs == 24_262 and sample.tasks == pytest.approx(1_000_000, rel=0.1)
    assert sample.long_jobs / sample.jobs == pytest.approx(0.0941, abs=0.006)
    assert sample.long_work_s / sample.work_s == pytest.approx(0.983, abs=0.01)
    assert sample.work_s / sample.jobs == pytest.approx(YAHOO.mean_work_s, rel=0.35), "a few giants make up the work"


def test_google_like_jobs_have_the_shares_of_the_thesis() -> None:
    share = {long: [kind for kind in KINDS if kind.long is long] for long in (False, True)}
    jobs, tasks, work_s, mean_s = (
        {
            long: sum(kind.share * weight(kind) for kind in kinds) / (sum(k.share for k in kinds) if last else 1.0)
            for long, kinds in share.items()
        }
        for weight, last in (
            (lambda kind: 1.0, False),
            (lambda kind: kind.tasks, False),
            (lambda kind: kind.tasks * kind.mean_s, False),
            (lambda kind: kind.mean_s, True),
        )
    )
    assert jobs[True] == pytest.approx(0.1)
    assert tasks[True] / sum(tasks.values()) == pytest.approx(0.28, abs=1e-3)
    assert work_s[True] / sum(work_s.values()) == pytest.approx(0.8365, abs=1e-3)
    assert mean_s[True] / mean_s[False] == pytest.approx(7.34, abs=1e-2)
    sample = measured(generate("google", 20_000, 2), 1129.532)
    assert sample.long_jobs / sample.jobs == pytest.approx(0.1, abs=0.01)
    assert sample.tasks / sample.jobs == pytest.approx(25.0, rel=0.05)
    assert sample.work_s / sample.jobs == pytest.approx(Google().mean_work_s, rel=0.1)


def test_mercurys_jobs_have_200_tasks_and_keep_the_slots_busy() -> None:
    jobs = list(generate("mercury_hybrid", 100, 1))
    assert {(len(job.durations_s), job.durations_s[0], job.estimate_s) for job in jobs} == {
        (200, 2.0, 2.0),
        (200, 50.0, 50.0),
    }
    assert sum(job.estimate_s == 2.0 for job in jobs) == 80
    errors = [job.estimate_s / job.durations_s[0] for job in generate("mercury_hybrid_error_90", 100, 1)]
    assert 0.1 <= min(errors) < 0.5 and 1.5 < max(errors) <= 1.9
    slow = [max(job.durations_s) for job in generate("mercury_straggler_tasks", 20, 1)]
    assert max(slow) == 20.0
    one = generator("mercury_fixed_10s")
    assert one.mean_work_s / one.interarrival_s == pytest.approx(0.9 * 8192)


def test_a_load_sets_the_rate() -> None:
    sample = measured(generate("mercury_fixed_2s", 2000, 1, load_slots=100))
    assert sample.slots == pytest.approx(100, rel=0.1)


@pytest.mark.parametrize("wrong", ({"interarrival_s": 0}, {"load_slots": -1}, {"interarrival_s": 1, "load_slots": 1}))
def test_rates_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        generate("yahoo", 1, **wrong)  # type: ignore[arg-type]


def test_an_unknown_generator_is_refused_with_the_nearest() -> None:
    with pytest.raises(NoSuchGeneratorError, match="'yaho'; take yahoo"):
        generate("yaho")
    with pytest.raises(NoSuchGeneratorError, match="choose from hawk_example, yahoo"):
        generate("?")


@pytest.mark.parametrize("mean_s", (0.1, 10.0, 49.0))
def test_a_distribution_without_what_is_above_keeps_its_mean(mean_s: float) -> None:
    draw, rng = draws.below(mean_s, 100.0), Random(1)
    sample = [draw(rng) for _ in range(20_000)]
    assert min(sample) >= 0 and max(sample) <= 100.0
    assert fmean(sample) == pytest.approx(mean_s, rel=0.03)
    with pytest.raises(ValueError):
        draws.below(50.0, 100.0)


def test_tasks_of_a_job_are_normal_without_what_is_negative() -> None:
    sample = list(draws.tasks_of(Random(1), 20_000, 100.0, 20.0))
    assert fmean(sample) == pytest.approx(100.0, rel=0.01) and pstdev(sample) == pytest.approx(20.0, rel=0.03)
    short = list(draws.tasks_of(Random(1), 1000, 1e-9, 1e-9))
    assert short == [0.001] * 1000


def test_kairos_test_bed_has_the_jobs_of_its_table() -> None:
    """Category 5: 224 maps in two waves and 60 reduces in one, 1175 s in all (Table 4.1)."""
    jobs = list(generate("kairos_testbed", 2000, 1))
    assert {(job.name, len(job.durations_s), job.durations_s[0]) for job in jobs} == {
        ("1", 30, 42.5),
        ("2", 30, 100.5),
        ("3", 60, 119.5),
        ("4", 172, 154.0),
        ("5", 284, 391.667),
    }
    shares = Counter(job.name for job in jobs)
    assert shares["1"] / 2000 == pytest.approx(0.32, abs=0.03) and shares["5"] / 2000 == pytest.approx(0.02, abs=0.01)
    work_s = sum(job.work_s for job in jobs) / 2000
    assert work_s == pytest.approx(generator("kairos_testbed").mean_work_s, rel=0.1)
    assert {job.name for job in generate("kairos_uniform", 100, 1)} == {"1", "2", "3"}
    assert {job.stages for job in jobs} == {(15, 15), (30, 30), (112, 60), (224, 60)}


def test_without_the_lab_there_is_none_and_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generators, "find_spec", lambda _: None)
    generators.generators.cache_clear()
    try:
        with pytest.raises(NoSuchGeneratorError, match="yarn-quicksilver-lab, which is not installed; run pip install"):
            generator("yahoo")
        done = CliRunner().invoke(trace, ["generators"])
        assert done.exit_code == 1 and "is in yarn-quicksilver-lab" in done.output
    finally:
        generators.generators.cache_clear()
