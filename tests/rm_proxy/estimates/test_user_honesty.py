"""Users whose tags name wrong durations are found, corrected, and believed again."""

from __future__ import annotations

import math

import pytest

from policies.config.policy_set import Policies
from policies.config.schema import Estimate
from policies.model import AppView
from rm_proxy.estimates.estimator import EstimateSource, Estimator
from rm_proxy.estimates.user_honesty import MAX_USERS, Doubt, UserHonesty


def after(named_s: float, *took_s: float) -> UserHonesty:
    honesty = UserHonesty()
    for seconds in took_s:
        honesty.observe("ann", named_s, seconds)
    return honesty


def test_nobody_is_doubted_after_two_stages_or_within_a_factor_of_one_and_a_half() -> None:
    assert after(10.0, 100.0, 100.0).of("ann") == Doubt()
    assert after(10.0, 14.0, 8.0, 14.9, 7.0).of("ann") == Doubt()
    assert after(10.0, 100.0, 100.0, 100.0).of("bob") == Doubt()


@pytest.mark.parametrize(("took_s", "times"), [(60.0, 6.0), (10 / 6, 1 / 6)])
def test_who_is_off_by_a_factor_of_six_weighs_a_quarter(took_s: float, times: float) -> None:
    doubt = after(10.0, *[took_s] * 3).of("ann")
    assert doubt.trust_ratio == pytest.approx(0.25)
    assert doubt.times == pytest.approx(times**0.75)


def test_one_odd_job_changes_little_and_honesty_is_believed_again() -> None:
    assert after(10.0, *[10.0] * 10, 100.0).of("ann").trust_ratio > 0.9
    trust = [after(10.0, *[100.0] * 5, *[10.0] * count).of("ann").trust_ratio for count in range(10)]
    assert trust == sorted(trust) and trust[0] < 0.2 and trust[-1] == 1.0


def test_errors_and_users_are_bounded() -> None:
    assert after(1e-6, *[1e9] * 3).of("ann").times <= 1000.0
    honesty = after(10.0, *[100.0] * 3)
    for number in range(MAX_USERS):
        honesty.observe(str(number), 1.0, 1.0)
    assert honesty.of("ann") == Doubt(), "forgotten"


def estimator(jobs: int, took_s: float) -> Estimator:
    """Return an estimator that saw jobs of ann, whose tags said 10 s."""
    known, policies = Estimator(), Policies.load({})
    for number in range(jobs):
        app = AppView(f"a{number}", user="ann", name=f"job {chr(97 + number)}", tags=frozenset({"expected_s:10"}))
        for _ in range(5):
            known.observe(app, 20, took_s, policies.estimate(app))
    return known


def test_a_tag_of_a_liar_is_corrected_and_weighs_less_than_the_first_siblings() -> None:
    liar = AppView("new", user="ann", name="new", tags=frozenset({"expected_s:10"}))
    honest, policies = AppView("other", user="bob", name="other", tags=liar.tags), Policies.load({})
    known = estimator(3, 60.0)
    got = known.expected(liar, 20, policies)
    assert (got.source, got.mean_s) == (EstimateSource.DOUBTED_TAG, pytest.approx(10 * 6**0.75))
    assert known.expected(honest, 20, policies).source is EstimateSource.TAG
    for app in (liar, honest):
        known.observe(app, 20, 100.0, Estimate())
    assert known.expected(honest, 20, policies).mean_s == pytest.approx((3 * 10 + 100) / 4)
    assert known.expected(liar, 20, policies).mean_s == pytest.approx((0.75 * 10 * 6**0.75 + 100) / 1.75)


def test_it_can_be_switched_off() -> None:
    liar = AppView("new", user="ann", name="new", tags=frozenset({"expected_s:10"}))
    got = estimator(3, 60.0).expected(liar, 20, Policies.load({"estimate": {"doubt_tags": False}}))
    assert (got.source, got.mean_s) == (EstimateSource.TAG, 10.0)


def test_two_jobs_do_not_make_a_liar() -> None:
    liar = AppView("new", user="ann", name="new", tags=frozenset({"expected_s:10"}))
    assert math.isclose(estimator(2, 60.0).expected(liar, 20, Policies.load({})).mean_s, 10.0)
