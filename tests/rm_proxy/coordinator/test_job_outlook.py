"""When the first container of a node is expected to end, by example."""

from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from policies.model import AppView
from quicksilver.common.messages import ContainerReport, ContainerState, Report
from rm_proxy.coordinator.job_outlook import JobOutlook
from rm_proxy.estimates.estimator import EstimateSource, Expectation

KNOWN = Expectation(mean_s=20.0, spread_s=0.0, source=EstimateSource.STAGE, count=5)
LONG, NEW = "application_1_0001", "application_1_0002"


def container(app_id: str, since_s: float, state: ContainerState = ContainerState.RUNNING, am: bool = False) -> object:
    return ContainerReport(
        container_id=f"{app_id}_{since_s}_{state}",
        app_id=app_id,
        kind="Q",
        state=state,
        memory_mb=1024,
        vcores=1,
        since_s=since_s,
        am=am,
    )


def frees_s(*containers: object, app_type: str = "MAPREDUCE") -> float:
    attempt: Any = SimpleNamespace(app=AppView(LONG, type=app_type))
    attempts = {LONG: [attempt]}
    outlook = JobOutlook(
        lambda app_id, priority: KNOWN if app_id == LONG else Expectation(10.0), lambda app_id: attempts.get(app_id, [])
    )
    return outlook.frees_s(Report.model_construct(containers=list(containers)))


def test_what_is_learnt_counts_less_what_has_run() -> None:
    assert frees_s(container(LONG, 5.0), container(LONG, 12.0)) == pytest.approx(8.0)


@pytest.mark.parametrize(("ran_s", "rest_s"), [(20.0, 2.0), (21.0, 2.0), (35.0, 15.0)])
def test_a_task_that_is_late_runs_on_as_long_as_it_is_late(ran_s: float, rest_s: float) -> None:
    assert frees_s(container(LONG, ran_s)) == pytest.approx(rest_s)


@pytest.mark.parametrize(("ran_s", "rest_s"), [(0.0, 10.0), (4.0, 6.0), (6.0, 6.0), (30.0, 30.0)])
def test_an_unknown_task_runs_as_long_again_as_it_ran(ran_s: float, rest_s: float) -> None:
    assert frees_s(container(NEW, ran_s)) == pytest.approx(rest_s)


def test_what_does_not_run_frees_nothing_and_masters_stay() -> None:
    assert frees_s(container(LONG, 19.0, ContainerState.SHRUNK), container(NEW, 1.0, am=True)) == inf
    assert frees_s(container(LONG, 19.0, ContainerState.WAITING), container(NEW, 30.0)) == 30.0


def test_a_container_of_tez_takes_the_next_task() -> None:
    assert frees_s(container(LONG, 19.0), app_type="TEZ") == pytest.approx(frees_s(container(LONG, 19.0)) + 10.0)
    assert frees_s(container(LONG, 19.0), container(NEW, 2.0), app_type="TEZ") == 8.0
