"""Estimates that are wrong at first: Eagle's misestimation (thesis §3.6.5), Mercury's underestimates (§4.2, §7.2.3)."""

from collections.abc import Callable
from functools import cache
from random import Random
from statistics import fmean

import pytest

from policies.config.policy_set import Policies
from policies.config.registry import Registry
from policies.model import AppView, Resources
from quicksilver.common.messages import ContainerReport, ContainerState
from rm_proxy.estimates.estimator import Estimator
from sidecar.node.queue.wait_estimate import CoreRoom, WaitingJob, starts_s
from tests.examples import others_long

JOBS = 200
WEIGHT = 3.0
"""The default of estimate.prior_weight."""
APP = AppView("a1")
REGISTRY = Registry()


@cache
def hinted(expected_s: float) -> Policies:
    return Policies.load({"estimate": {"rules": [{"expected_s": expected_s}]}}, REGISTRY)


def errors(low: float, high: float, task_s: Callable[[Random, float], float], tasks: int, seed: int = 3) -> list[float]:
    """Return the mean error over jobs by the number of completed siblings.

    As in Eagle the estimate of each job is its true mean times a factor, drawn uniformly from [low, high].
    """
    rng, by_count = Random(seed), [[] for _ in range(tasks + 1)]  # type: list[list[float]]
    for _ in range(JOBS):
        true_s = rng.uniform(1, 100)
        policies, known = hinted(true_s * rng.uniform(low, high)), Estimator()
        for count in range(tasks + 1):
            by_count[count].append(abs(known.expected(APP, 0, policies).mean_s / true_s - 1))
            known.observe(APP, 0, task_s(rng, true_s), policies.estimate(APP))
    return [fmean(one) for one in by_count]


@pytest.mark.parametrize(("low", "high"), others_long([(0.3, 1), (1, 1.9), (0.6, 1), (0.9, 1), (1, 1.3), (1, 1.6)], 2))
def test_a_wrong_estimate_is_corrected_by_the_siblings_that_completed(low: float, high: float) -> None:
    """§3.6.5: [0.x, 1] for under-, [1, 1.x] for over-estimation, x = 3, 6, 9.

    A hint counts as three tasks, so that of its error 3 / (n + 3) is left after n siblings; the mean error of a factor
    drawn uniformly is (high - low) / 2.
    """
    first = (high - low) / 2
    found = errors(low, high, lambda _, true_s: true_s, 30)
    for count, error in enumerate(found):
        assert error <= 1.15 * first * WEIGHT / (count + WEIGHT)
        assert error == pytest.approx(found[0] * WEIGHT / (count + WEIGHT))
    assert found[10] < 0.25 * found[0] and found[30] < 0.1 * found[0] and found[30] < 0.05


@pytest.mark.parametrize(("low", "high"), others_long([(0.3, 1), (1, 1.9)]))
def test_so_it_is_when_tasks_vary(low: float, high: float) -> None:
    """Tasks vary by half of their mean: what is left is 0.8 * 0.5 / sqrt(n) by that, and the hint's share."""

    def task_s(rng: Random, true_s: float) -> float:
        return max(0.01, rng.gauss(true_s, true_s / 2))

    found = errors(low, high, task_s, 60)
    for count in (10, 30, 60):
        assert found[count] < 0.45 * WEIGHT / (count + WEIGHT) + 0.5 * count**-0.5
    assert found[60] < 0.08


def stage(durations_s: list[float], slots: int, hint_s: float, *, watched: bool) -> list[float]:
    """Run a stage on a node, second by second; return the error of the estimate by quarters of its time.

    watched: whether the node reports what runs.
    """
    policies, known = hinted(hint_s), Estimator()
    waiting, running, found = list(durations_s), list[list[float]](), list[float]()
    while waiting or running:
        running += [[0.0, waiting.pop()] for _ in range(min(len(waiting), slots - len(running)))]
        for one in running:
            one[0] += 1
        for _, took_s in [one for one in running if one[0] >= one[1]]:
            known.observe(APP, 0, took_s, policies.estimate(APP))
        running = [one for one in running if one[0] < one[1]]
        if watched:
            known.round()
            known.running("n1", [_report(age_s) for age_s, _ in running], {APP.id: APP}, policies)
        found.append(abs(known.expected(APP, 0, policies).mean_s / fmean(durations_s) - 1))
    return [found[len(found) * quarter // 4] for quarter in (1, 2, 3)]


def _report(age_s: float) -> ContainerReport:
    base = {"container_id": "c", "app_id": APP.id, "kind": "Q", "memory_mb": 1, "vcores": 1}
    return ContainerReport(**base, state=ContainerState.RUNNING, since_s=age_s)  # type: ignore[arg-type]


def test_an_underestimate_is_corrected_before_anyone_ends() -> None:
    """Forty tasks of 60 s, expected to take 6 s: their age is what is known, and they may run as long again."""
    policies, known, means = hinted(6.0), Estimator(), []
    for age_s in range(1, 60):
        known.running("n1", [_report(age_s)] * 40, {APP.id: APP}, policies)
        means.append(known.expected(APP, 0, policies).mean_s)
    assert means == sorted(means) and means[5] == 6.0
    assert means[-1] == pytest.approx((3 * 6 + 40 * 2 * 59) / 43)


def test_stragglers_are_known_by_their_age() -> None:
    """One task of ten takes ten times as long; all are expected to take a tenth of the mean.

    Those that completed are the short ones, so that they alone say too little for most of the time.
    """
    rng, watched, unwatched = Random(11), [], []
    for _ in range(20):
        durations_s = [300.0 if rng.random() < 0.1 else 30.0 for _ in range(100)]
        for watch, found in ((True, watched), (False, unwatched)):
            found.append(stage(durations_s, 25, 6.0, watched=watch))
    half, late = (fmean(run[quarter] for run in watched) for quarter in (1, 2))
    half_blind, late_blind = (fmean(run[quarter] for run in unwatched) for quarter in (1, 2))
    assert half < 0.1 * half_blind and late < 0.6 * late_blind
    assert half < 0.05 and late < 0.25


def test_a_node_of_stragglers_does_not_underestimate_its_queue() -> None:
    """§7.2.3: nodes that underestimate queuing delay get too much work.

    Four cores run tasks for 30 s that were expected to take 10; without the spread they seem to end each second.
    """
    full, size = CoreRoom(Resources()), Resources(1024, 1)
    waiting = [WaitingJob(size, 10.0, spread_s=20.0)] * 4
    blind = starts_s(full, [WaitingJob(size, 10.0, 30.0)] * 4, waiting)
    knowing = starts_s(full, [WaitingJob(size, 10.0, 30.0, 20.0)] * 4, waiting)
    assert blind[-1] == 1.0
    assert knowing[-1] == pytest.approx(31.2, abs=0.1), "E[X | X > 30] - 30 of a lognormal of mean 10 and spread 20"
