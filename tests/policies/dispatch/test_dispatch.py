"""The order of applications that wait for places: who comes first, and which of them have claims against others."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.config.policy_set import Policies
from policies.config.registry import Registry
from policies.errors import PolicyFaultError
from policies.model import AppView
from policies.waiting import WaitingApp

REGISTRY = Registry()
NOW_S = 1000.0


def waits(name: str = "a", submitted_s: float = 900.0, wanted: int = 1, held: int = 0, **more: float) -> WaitingApp:
    times = {"waits_since_s": NOW_S - 1, "asked_s": NOW_S - 1}
    return WaitingApp(AppView(name, submitted_s=submitted_s), wanted, held, **(times | more))


def key(policy: str, applicant: WaitingApp, **chosen: object) -> tuple[float, ...]:
    bound = REGISTRY.bind("dispatch", policy, chosen)
    answer = bound.decide(applicant, bound.cfg, NOW_S)
    assert isinstance(answer, tuple)
    return answer


def ordered(policy: str, *applicants: WaitingApp) -> str:
    return "".join(one.app.id for one in sorted(applicants, key=lambda one: key(policy, one)))


OLD_WIDE = waits("o", submitted_s=100.0, wanted=50, held=40, attained_s=4000.0, asked_s=100.0)
NEW_WIDE = waits("n", submitted_s=900.0, wanted=80)
SMALL = waits("s", submitted_s=950.0, wanted=2)
LATE_SMALL = waits("t", submitted_s=960.0, wanted=1, held=1)


@pytest.mark.parametrize(
    ("policy", "order"),
    [("fifo", "onst"), ("fair", "nsto"), ("las", "nsto"), ("srpt", "stno"), ("levels", "stno"), ("hrrn", "ostn")],
)
def test_orders(policy: str, order: str) -> None:
    assert ordered(policy, NEW_WIDE, LATE_SMALL, OLD_WIDE, SMALL) == order


def test_none_has_no_order() -> None:
    assert key("none", SMALL) == ()


def test_levels_widen_by_a_factor_and_have_their_upper_ends() -> None:
    levels = [key("levels", waits(wanted=n), within="shared")[0] for n in (1, 2, 3, 8, 9, 32, 33)]
    assert levels == [0, 0, 1, 1, 2, 2, 3]
    assert key("levels", waits(wanted=9), base_s=10.0, factor=3.0, within="shared")[0] == 2


def test_within_a_level_the_oldest_has_claims_if_it_goes_first() -> None:
    submitted_s = 1.7e9
    old, new = (waits(name, submitted_s=submitted_s + at_s, wanted=40) for name, at_s in (("o", 0.0), ("n", 0.01)))
    small = waits("s", submitted_s=submitted_s + 1000, wanted=9)
    assert key("levels", old, within="shared")[0] == key("levels", new, within="shared")[0]
    grades = [key("levels", one, within="age")[0] for one in (small, old, new)]
    assert grades == sorted(set(grades)) and grades[0] < 3 < grades[1]


def test_within_a_level_the_least_open_work_has_claims_if_it_goes_first() -> None:
    less, more, next_level = waits(wanted=10), waits(wanted=30), waits(wanted=33)
    assert key("levels", less, within="shared")[0] == key("levels", more, within="shared")[0] == 2
    grades = [key("levels", one)[0] for one in (less, more, next_level)]
    assert grades == sorted(set(grades)) and 2 < grades[0] < grades[1] < 3 < grades[2]
    starving = waits(wanted=40, waits_since_s=NOW_S - 31)
    assert key("levels", starving, within="work")[0] == 0, "it goes before all"
    assert key("levels", waits(wanted=1, expected_s=inf), within="work")[0] == inf


def test_tasks_that_run_count_as_those_that_wait() -> None:
    assert key("levels", waits(wanted=1, held=8))[0] == key("levels", waits(wanted=9))[0] > 2


@pytest.mark.parametrize("policy", ["fair", "las", "srpt", "levels"])
def test_an_application_that_got_nothing_for_long_comes_to_the_best_class(policy: str) -> None:
    wide = {"wanted": 50, "held": 40, "attained_s": 4000.0}
    assert key(policy, waits(**wide, waits_since_s=NOW_S - 29))[0] > 0  # type: ignore[arg-type]
    assert key(policy, waits(**wide, waits_since_s=NOW_S - 31))[0] == 0  # type: ignore[arg-type]
    assert key(policy, waits(**wide, waits_since_s=NOW_S - 31), starve_s=60.0)[0] > 0  # type: ignore[arg-type]


def test_an_application_keeps_its_age_from_stage_to_stage_if_it_waits_since_its_submission() -> None:
    old = waits("o", submitted_s=NOW_S - 100, wanted=40)  # it asked a second ago, for its reduces
    new = waits("n", submitted_s=NOW_S - 10, wanted=10)
    assert key("hrrn", old) > key("hrrn", new)
    assert key("hrrn", old, since_submission=True) < key("hrrn", new, since_submission=True)
    assert key("hrrn", old, since_submission=True)[0] == -(1 + 100 / 400)


@given(st.floats(0, 1e9), st.floats(1, 1e9), st.sampled_from(["las", "levels"]))
def test_more_work_is_never_a_better_level(work_s: float, times: float, policy: str) -> None:
    def level(seconds: float) -> float:
        return key(policy, waits(wanted=1, expected_s=seconds, attained_s=seconds))[0]

    assert level(work_s) <= level(work_s * times)


def test_a_key_without_an_order_is_a_fault_that_names_the_policy() -> None:
    policies = Policies.load({"dispatch": {"policy": "srpt"}}, REGISTRY)
    with pytest.raises(PolicyFaultError, match="dispatch policy srpt"):
        policies.cluster.dispatch_key(waits(expected_s=float("nan")), NOW_S)
