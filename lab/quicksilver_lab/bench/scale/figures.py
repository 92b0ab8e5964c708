"""From measurements to figures: growth, and the worst of what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

LEAST_POINTS: Final = 3
GOALS: Final = {"added_p50_ms": 0.3, "added_p99_ms": 2.0, "saturation_ratio": 0.95, "growth": 1.1}
"""At most, but for the ratio: at least. A growth of 1 is linear; its goal leaves room for noise."""


def exponent(costs: Mapping[float, float]) -> float | None:
    """Return e of cost = c * size^e by least squares of the logarithms; None for fewer than three sizes, or no cost.

    costs: by size. Both have to be above 0; points where the cost is not are noise, and make the fit void.
    """
    if len(costs) < LEAST_POINTS or min(*costs, *costs.values()) <= 0:
        return None
    sizes, values = np.log(list(costs)), np.log(list(costs.values()))
    return round(float(np.polyfit(sizes, values, 1)[0]), 3)


def per_unit(costs: Mapping[float, float]) -> dict[str, float] | None:
    """Return the line through the costs by least squares: what is there at size 0, and what one more costs."""
    if len(costs) < LEAST_POINTS:
        return None
    slope, base = np.polyfit(list(costs), list(costs.values()), 1)
    return {"base": round(float(base), 4), "each": round(float(slope), 6)}


def heartbeat_cpu_ms(proxied_s: Sequence[float], idle_s: Sequence[float], heartbeats: Sequence[int]) -> float:
    """Return the proxy's CPU for 1,000 heartbeats, in milliseconds: its use with them less its use without.

    proxied_s, idle_s: CPU seconds of equally long phases that alternate; heartbeats: of each proxied phase.
    """
    return (sum(proxied_s) - sum(idle_s)) * 1e6 / max(1, sum(heartbeats))


def growth(points: Sequence[Mapping[str, Any]], of: str, by: str, **fixed: Any) -> dict[str, Any]:
    """Return exponent and line of one figure of `points` by another, where all of `fixed` holds."""
    costs = {
        float(point[by]): float(point[of])
        for point in points
        if point.get(of) is not None and all(point[name] == value for name, value in fixed.items())
    }
    return {"exponent": exponent(costs), "line": per_unit(costs), "points": {f"{k:g}": v for k, v in costs.items()}}


def headline(points: Sequence[Mapping[str, Any]], saturation: float | None) -> dict[str, Any]:
    """Return the figures that stand for all: of each the worst, with whether it meets its goal."""
    worst = {
        "added_p50_ms": max(point["added_p50_ms"] for point in points),
        "added_p99_ms": max(point["added_p99_ms"] for point in points),
        "cpu_ms_per_1000_heartbeats": max(point["cpu_ms_per_1000_heartbeats"] for point in points),
        "saturation_ratio": saturation,
    }
    met = {name: worst[name] <= GOALS[name] for name in ("added_p50_ms", "added_p99_ms")}
    if saturation is not None:
        met["saturation_ratio"] = saturation >= GOALS["saturation_ratio"]
    return worst | {"goals_met": met}
