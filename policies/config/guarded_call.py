"""Calls a bound policy: an exception, or an answer out of form, becomes a fault that names the policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from policies.config.registry import Bound
from policies.errors import PolicyFaultError

T = TypeVar("T")


def call(bound: Bound, wanted: type[T], *arguments: object) -> T:
    """Return the answer of a policy. Raises PolicyFaultError."""
    return guarded(bound, bound.decide, wanted, *arguments)


def guarded(bound: Bound, function: Callable[..., Any], wanted: type[T], *arguments: object) -> T:
    """Return the answer of a function of a policy. Raises PolicyFaultError."""
    try:
        answer = function(*arguments)
    except Exception as error:
        raise PolicyFaultError(f"{bound}: {type(error).__name__}: {error}") from error
    if not isinstance(answer, wanted):
        raise PolicyFaultError(f"{bound}: answered {answer!r}, a {type(answer).__name__}")
    return answer
