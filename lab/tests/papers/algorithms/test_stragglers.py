"""When a second copy of a running task is worth it (Apollo §3.4)."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from quicksilver_lab.papers.algorithms.stragglers import StragglerProgress, Stragglers, catches_up_s, rerun

CFG = Stragglers()


def test_a_copy_must_be_over_significantly_sooner() -> None:
    """A tenth of 100 done in 50 s leaves 450 s; siblings do 1 a second, a copy takes 100 s and its wait."""
    slow = StragglerProgress(10, 100, 50)
    assert slow.left_s == 450
    assert rerun(slow, 1.0, 0.0, CFG)
    assert rerun(slow, 1.0, 120.0, CFG)
    assert not rerun(slow, 1.0, 130.0, CFG), "225 s are half of what is left"
    assert not rerun(slow, 0.0, 0.0, CFG), "no sibling to compare with"
    assert not rerun(StragglerProgress(1, 100, 4.9), 1.0, 0.0, CFG), "too early to tell"
    assert rerun(StragglerProgress(0, 100, 5), 0.01, 1e6, CFG), "it stands still"


def test_when_the_copy_is_as_far() -> None:
    assert catches_up_s(10, rate=1, copy_rate=3) == 5
    assert catches_up_s(10, rate=1, copy_rate=1) == inf


@given(st.floats(0.1, 1e3), st.floats(0.1, 1e3), st.floats(0, 1e3))
def test_a_task_as_fast_as_its_siblings_is_none(total: float, rate: float, ran_s: float) -> None:
    done = min(total, rate * ran_s)
    assert not rerun(StragglerProgress(done, total, ran_s), rate, 0.0, CFG) or done == 0


@given(st.floats(1, 1e3), st.floats(0.01, 10), st.floats(0.01, 10))
def test_a_copy_that_catches_up_is_over_first(ahead: float, rate: float, copy_rate: float) -> None:
    after_s = catches_up_s(ahead, rate, copy_rate)
    assert after_s == inf or abs(copy_rate * after_s - (ahead + rate * after_s)) < 1e-6 * copy_rate * after_s
