"""Zoe's applications (§6): what is printed of them holds, and equal seeds give equal ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

import pytest

from quicksilver_lab.bench.zoe.workload import CLUSTER, SERVERS, SHAPE, ZoeWorkload, applications, simulated
from quicksilver_lab.papers.zoe.model import BATCH_ELASTIC, BATCH_RIGID, workers

MANY = applications(ZoeWorkload(seed=3, applications=4000, scale=1.0))


def test_what_the_paper_prints() -> None:
    kinds = Counter((spec.core, spec.elastic, spec.elastic_mb if spec.elastic else spec.core_mb) for spec in MANY)
    elastic = {(3, count, gb * 1024) for count in (32, 24) for gb in (8, 16)}
    assert set(kinds) == elastic | {(1, 0, 16 * 1024), (15, 0, 16 * 1024)}
    assert sum(spec.elastic > 0 for spec in MANY) / len(MANY) == pytest.approx(0.8, abs=0.02)
    gaps_s = [later.arrives_s - one.arrives_s for one, later in pairwise(MANY)]
    assert min(gaps_s) >= 0
    assert fmean(gaps_s) == pytest.approx(65.5, abs=2), "60 s, and those below 0 drawn again"
    assert (SERVERS, SHAPE.vcores, SHAPE.memory_mb) == (10, 32, 131072)


def test_memory_is_wanted_at_the_load() -> None:
    for load in (0.7, 1.0):
        specs = applications(ZoeWorkload(seed=1, load=load))
        wanted_mb_s = sum(spec.memory_mb * spec.runtime_s for spec in specs)
        there_mb_s = specs[-1].arrives_s * CLUSTER.nodes * CLUSTER.memory_mb
        assert wanted_mb_s / there_mb_s == pytest.approx(load, rel=1e-3)


def test_times_are_divided_by_the_scale_and_nothing_else_changes() -> None:
    plain, scaled = (applications(ZoeWorkload(seed=2, scale=scale)) for scale in (1.0, 20.0))
    for one, other in zip(plain, scaled, strict=True):
        assert other.arrives_s == pytest.approx(one.arrives_s / 20, abs=1e-3)
        assert other.runtime_s == pytest.approx(one.runtime_s / 20, abs=1e-3)
        assert replace(other, arrives_s=0, runtime_s=1) == replace(one, arrives_s=0, runtime_s=1)


def test_equal_seeds_give_equal_applications() -> None:
    assert applications(ZoeWorkload(seed=1)) == applications(ZoeWorkload(seed=1)) != applications(ZoeWorkload(seed=2))
    assert len(applications(ZoeWorkload(seed=1, applications=7))) == 7


def test_the_simulator_does_as_much_work_with_as_many_workers() -> None:
    for spec, app in zip(MANY[:50], simulated(MANY[:50]), strict=True):
        assert app.klass == (BATCH_ELASTIC if spec.elastic else BATCH_RIGID)
        assert (app.core, len(app.durations_s), app.memory_mb) == (spec.core, spec.core + spec.elastic, spec.core_mb)
        if spec.elastic:
            for elastic in (0, spec.elastic):
                assert workers(app.core, elastic, "two_coordinate") == spec.core - spec.coordinators + elastic
        else:
            assert spec.work_s / spec.core == app.runtime_s


def test_components_of_two_sizes_cannot_be_simulated() -> None:
    elastic = next(spec for spec in MANY if spec.elastic)
    with pytest.raises(ValueError, match="components of one size"):
        simulated([replace(elastic, core_mb=1)])


@pytest.mark.parametrize("wrong", ({"applications": 1}, {"scale": 0.0}, {"load": -1.0}))
def test_a_workload_without_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="give at least 2 applications"):
        ZoeWorkload(**wrong)  # type: ignore[arg-type]
