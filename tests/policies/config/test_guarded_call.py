"""Calls of policies that fail in ways that are no Exception, or take too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from policies.base import PolicyConfig
from policies.config import guarded_call
from policies.config.guarded_call import CALL_LIMIT_S, OFF_S, call, measure_calls
from policies.config.registry import BoundPolicy
from policies.errors import PolicyFaultError


def bound(decide: Callable[[], int]) -> BoundPolicy:
    return BoundPolicy("route", "mine", "theirs 1.0", PolicyConfig(), decide)


@pytest.fixture(autouse=True)
def unmeasured() -> Iterator[None]:
    before = guarded_call._clock
    yield
    measure_calls(before)


@pytest.mark.parametrize(
    "raised", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit(), ValueError("x")]
)
def test_whatever_is_raised_is_a_fault(raised: BaseException) -> None:
    def fails() -> int:
        raise raised

    with pytest.raises(PolicyFaultError, match=type(raised).__name__):
        call(bound(fails), int)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0
        self.calls = 0

    def __call__(self) -> float:
        return self.now_s

    def policy(self, *took_s: float) -> BoundPolicy:
        """Return a policy that takes this long, call by call."""

        def decide() -> int:
            self.now_s += took_s[self.calls]
            self.calls += 1
            return self.calls

        return bound(decide)


def test_a_policy_that_takes_too_long_is_off_for_a_while() -> None:
    clock = Clock()
    measure_calls(clock)
    slow, quick = clock.policy(CALL_LIMIT_S, CALL_LIMIT_S + 7, 0), bound(lambda: 5)
    assert call(slow, int) == 1
    with pytest.raises(PolicyFaultError, match=r"route policy mine of theirs 1.0: a call took 8.0 s, more than 1 s"):
        call(slow, int)
    clock.now_s += OFF_S - 1
    with pytest.raises(PolicyFaultError, match=r"it is off for 300 s"):
        call(slow, int)
    assert clock.calls == 2, "it was not called"
    assert call(quick, int) == 5, "others are"
    clock.now_s += 1
    assert call(slow, int) == 3


def test_one_that_takes_long_and_then_fails_is_off_too() -> None:
    clock = Clock()
    measure_calls(clock)

    def fails() -> int:
        clock.now_s += 9
        raise ValueError("late")

    policy = bound(fails)
    for why in ("ValueError: late", "a call took 9.0 s"):
        with pytest.raises(PolicyFaultError, match=why):
            call(policy, int)


def test_without_a_clock_calls_may_take_any_time() -> None:
    clock = Clock()
    assert call(clock.policy(1000), int) == 1
