"""Which jobs are short and which are long: by a cut-off that is given, or learnt from earlier jobs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from policies.config.registry import Registry
from policies.model import AppView, JobClass, JobView

REGISTRY = Registry()
HUNDRED = [float(n) for n in range(1, 101)]


def classed(
    task_s: float, *, known: bool = True, earlier_s: Sequence[float] = (), name: str = "task_time", **chosen: object
) -> str:
    bound = REGISTRY.bind("classify", name, chosen)
    answer = bound.decide(JobView(AppView("application_1_1"), task_s, known, earlier_s), bound.cfg)
    assert isinstance(answer, JobClass)
    return answer.value


def test_the_given_cutoff_divides() -> None:
    assert classed(30.0, cutoff_s=30.0) == "short"
    assert classed(30.1, cutoff_s=30.0) == "long"
    assert classed(30.1, name="none") == ""


@pytest.mark.parametrize(("task_s", "expected"), [(89.0, "short"), (90.0, "short"), (90.5, "long")])
def test_the_cutoff_is_learnt_from_earlier_jobs(task_s: float, expected: str) -> None:
    assert classed(task_s, earlier_s=HUNDRED) == expected


def test_the_part_that_is_short_can_be_set() -> None:
    assert classed(60.0, earlier_s=HUNDRED, short_ratio=0.5) == "long"
    assert classed(50.0, earlier_s=HUNDRED, short_ratio=0.5) == "short"
    assert classed(1e6, earlier_s=HUNDRED, short_ratio=0.999) == "long"


def test_nothing_is_learnt_from_few_jobs() -> None:
    assert classed(60.0, earlier_s=[1.0] * 19) == ""
    assert classed(60.0, earlier_s=[1.0] * 20) == "long"


def test_a_job_of_which_nothing_is_known_counts_as_short() -> None:
    assert classed(1e6, known=False, cutoff_s=30.0) == "short"
    assert classed(1.0, known=False, cutoff_s=30.0, unknown="long") == "long"
