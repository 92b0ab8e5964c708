"""How much longer a task runs that has run for a while: its expectation given that it is not over yet (own).

Durations are taken as lognormal with the known mean and spread: many are a little shorter, few a lot longer. A task
that ran longer is expected to run longer in all; past its estimate it is assumed to need another tenth of it.
"""

from __future__ import annotations

import math
from typing import Final

OVERRUN_RATIO: Final = 0.1
OVERRUN_MIN_S: Final = 0.5
_MAX_CV: Final = 1e3
_LEAST_S: Final = 1e-3
"""A shorter mean says nothing of what ran on, and a shorter run nothing at all."""
_FAR: Final = 25.0
"""Standard deviations from which on the normal tail is computed by its asymptotic series."""


def left_s(expected_s: float, spread_s: float, ran_s: float) -> float:
    """Return how much longer a task runs, in seconds; > 0.

    expected_s, spread_s: mean and standard deviation of its like; spread_s 0: not known, then the rest of the mean.
    """
    overrun_s = max(OVERRUN_MIN_S, OVERRUN_RATIO * expected_s)
    if ran_s < _LEAST_S:
        return expected_s if expected_s > 0 else overrun_s
    if spread_s <= 0 or expected_s < _LEAST_S:
        return expected_s - ran_s if ran_s < expected_s else overrun_s
    known_s = _total_s(expected_s, spread_s, ran_s) - ran_s
    return max(known_s, overrun_s) if ran_s >= expected_s else max(known_s, expected_s - ran_s)


def _total_s(mean_s: float, spread_s: float, ran_s: float) -> float:
    """Return E[X | X > ran_s] of a lognormal X: mean_s * Q(z - s) / Q(z), Q being the normal's upper tail."""
    s = math.sqrt(math.log1p(min(spread_s / mean_s, _MAX_CV) ** 2))
    if s < 1e-6:
        return max(mean_s, ran_s)
    z = (math.log(ran_s / mean_s) + s * s / 2) / s
    if z - s > _FAR:
        return ran_s * _tail(z - s) / _tail(z)
    return mean_s * math.erfc((z - s) / math.sqrt(2)) / math.erfc(z / math.sqrt(2))


def _tail(x: float) -> float:
    """Return Q(x) / density(x) for large x."""
    return (1 - 1 / x**2 + 3 / x**4) / x
