"""A run in numbers."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.simulator.figures import GRID, MOST_QUEUES, Figures, behind, figures, sampled, thinned
from quicksilver.simulator.model import ClusterModel, JobOutcome, SimResult

CLUSTER = ClusterModel(nodes=2, slots=2)


def outcome(number: int, took_s: float, tasks: int = 1, klass: str = "", wait_s: float = 0.0) -> JobOutcome:
    return JobOutcome(number, 10.0, 10.0 + took_s, tasks, work_s=2.0 * tasks, klass=klass, wait_s=wait_s)


def test_figures_by_class() -> None:
    jobs = [outcome(1, 4.0, wait_s=1.0), outcome(2, 6.0, tasks=3, wait_s=2.0), outcome(3, 20.0, klass="short")]
    busy = [(10.0, 1.0), (20.0, 0.25), (30.0, 0.5)]
    values = figures(SimResult("x", 1, jobs, busy, {"tasks": 5}, {"nan": float("nan"), "k": 2.0}), CLUSTER, {3})
    assert {
        name: values.metrics[name] for name in ("jobs_all", "jobs_short", "jobs_long", "mean_all", "p50_short")
    } == {
        "jobs_all": 3,
        "jobs_short": 2,
        "jobs_long": 1,
        "mean_all": 10.0,
        "p50_short": 5.0,
    }
    assert values.metrics["wait_short"] == 7 / 4  # of tasks, not of jobs
    assert (values.metrics["makespan"], values.metrics["throughput"]) == (20.0, 5 / 20)
    assert (values.metrics["utilisation"], values.metrics["utilisation_p50"]) == (10 / (20 * 4), 0.25)
    assert values.metrics["utilisation_max"] == 1.0
    assert values.completion_s["all"][0] == 4.0
    assert values.completion_s["all"][-1] == 20.0
    assert len(values.completion_s["all"]) == len(GRID)
    assert values.extra == {"k": 2.0}


def test_a_kind_of_the_system_s_own_stays_and_no_samples_are_no_utilisation_but_work() -> None:
    values = figures(SimResult("x", 1, [outcome(1, 5.0, klass="interactive"), outcome(2, 5.0)]), CLUSTER, set())
    assert set(values.completion_s) == {"all", "interactive", "short"}
    assert values.metrics["utilisation"] == 4.0 / (5.0 * 4)
    assert figures(SimResult("x", 1), CLUSTER, set()).metrics == {}


def test_figures_by_queue_where_there_are_several() -> None:
    jobs = [outcome(1, 4.0), outcome(2, 2.0), outcome(3, 6.0)]
    found = figures(SimResult("x", 1, jobs), CLUSTER, (), {1: "a", 2: "b", 3: "b"}).queues
    assert list(found) == ["b", "a"]
    assert (found["b"]["jobs"], found["b"]["mean"], found["b"]["p95"]) == (2, 4.0, 5.8)
    assert figures(SimResult("x", 1, jobs), CLUSTER, (), dict.fromkeys((1, 2, 3), "a")).queues == {}
    many = {number: f"q{number:02}" for number in range(30)}
    kept = figures(SimResult("x", 1, [outcome(number, 1.0) for number in many]), CLUSTER, (), many).queues
    assert list(kept) == [f"q{number:02}" for number in range(MOST_QUEUES)]


def test_figures_survive_json() -> None:
    values = figures(SimResult("x", 1, [outcome(1, 1 / 3)], [(0.0, 0.1), (1.0, 0.2)], {"behind_long": 2}), CLUSTER, ())
    assert json.dumps(asdict(Figures(**json.loads(json.dumps(asdict(values)))))) == json.dumps(asdict(values))


@given(st.lists(st.tuples(st.floats(0.001, 100), st.floats(0, 1)), min_size=2, max_size=300), st.integers(1, 40))
def test_thinning_keeps_time_and_work(steps: list[tuple[float, float]], most: int) -> None:
    at_s, busy = 5.0, []
    for lasts_s, share in steps:
        busy.append((at_s, share))
        at_s += lasts_s
    thin = thinned(busy, most)
    assert len(thin) <= most + 1
    assert (thin[0][0], thin[-1][0]) == (busy[0][0], busy[-1][0])

    def area(samples: list[tuple[float, float]]) -> float:
        return sum(share * (until_s - at_s) for (at_s, share), (until_s, _) in pairwise(samples))

    assert area(thin) == pytest.approx(area(busy), abs=1e-6)
    assert all(one < other for (one, _), (other, _) in pairwise(thin))


def test_samples_of_steps() -> None:
    assert sampled([(1.0, 0.5), (2.0, 0.25), (3.0, 0.0)], [0.5, 1.0, 1.9, 2.0, 3.0, 9.0]) == [0, 0.5, 0.5, 0.25, 0, 0]


def test_who_waited_behind_whom_is_told_by_the_counts_names() -> None:
    counts = {"behind_long": 3, "tasks_after_long": 1, "long_behind_long": 0, "probes": 7, "left_behind": 1}
    assert behind(counts) == {
        "short queued behind long": 3,
        "short started after long": 1,
        "long queued behind long": 0,
    }
