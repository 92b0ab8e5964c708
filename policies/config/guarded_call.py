"""Calls a bound policy: an exception, a late answer, or one out of form, becomes a fault that names the policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from policies.config.registry import BoundPolicy
from policies.errors import PolicyFaultError

T = TypeVar("T")
CALL_LIMIT_S: Final = 1.0
"""How long one call of a policy may take: nothing else happens meanwhile (own)."""
OFF_S: Final = 300.0
"""How long a policy is not called after a call that took longer (own)."""

_clock: Callable[[], float] | None = None


def measure_calls(clock: Callable[[], float] | None) -> None:
    """Hold all calls from now on to their limit. clock: seconds; None, as at the start: calls may take any time."""
    global _clock
    _clock = clock


def call(bound: BoundPolicy, answer_type: type[T], *arguments: object, function: Callable[..., Any] | None = None) -> T:
    """Return the answer of a policy, or of another function of it than that of its slot.

    Raises PolicyFaultError, also in place of SystemExit.
    """
    clock = _clock
    begun_s = clock() if clock is not None else 0.0
    if begun_s < bound.off.until_s:
        raise PolicyFaultError(f"{bound}: {bound.off.why}")
    try:
        answer = (function or bound.decide)(*arguments)
    except BaseException as error:
        raise PolicyFaultError(f"{bound}: {type(error).__name__}: {error}") from error
    finally:
        took_s = clock() - begun_s if clock is not None else 0.0
        if took_s > CALL_LIMIT_S:
            bound.off.until_s = begun_s + took_s + OFF_S
            bound.off.why = f"a call took {took_s:.1f} s, more than {CALL_LIMIT_S:g} s: it is off for {OFF_S:.0f} s"
    if took_s > CALL_LIMIT_S:
        raise PolicyFaultError(f"{bound}: {bound.off.why}")
    if not isinstance(answer, answer_type):
        raise PolicyFaultError(f"{bound}: answered {answer!r}, a {type(answer).__name__}")
    return answer
