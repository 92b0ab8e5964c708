"""Damping: how a figure in force follows a figure that is wanted, without swinging.

One component for policies and machines. A policy has settings `damping: Damping`; a `Damped` holds the figure in force.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from pydantic import Field
from pydantic.config import JsonDict

from policies.base import PolicyConfig

_OWN: Final[JsonDict] = {"source": "own"}


class Damping(PolicyConfig):
    """How a figure follows its target; rising and falling have settings of their own.

    Slow rise and fast fall: a limit that protects. Fast rise and slow fall: a limit that must not ask too much.
    """

    round_to: float = Field(0.0, ge=0, json_schema_extra={"unit": "of the figure", "source": "own"})
    """The figure in force is a multiple of this; 0 for no rounding."""
    round_up: bool = Field(False, json_schema_extra=_OWN)
    """Round the target up; off: down."""
    rise_beyond_ratio: float = Field(0.0, ge=0, json_schema_extra=_OWN)
    """Dead band: the target has to exceed the figure in force by more than this part of it to raise it."""
    rise_part_ratio: float = Field(1.0, gt=0, le=1, json_schema_extra=_OWN)
    """One rise goes this part of the way, at least one step of the rounding; 1: all the way at once."""
    rise_every_s: float = Field(0.0, ge=0, json_schema_extra=_OWN)
    """A rise comes no sooner than this after the last change."""
    fall_beyond_ratio: float = Field(0.0, ge=0, le=1, json_schema_extra=_OWN)
    """Dead band: the target has to lie below the figure in force by more than this part of it to lower it."""
    fall_part_ratio: float = Field(1.0, gt=0, le=1, json_schema_extra=_OWN)
    """One fall goes this part of the way, at least one step of the rounding; 1: all the way at once."""
    fall_every_s: float = Field(0.0, ge=0, json_schema_extra=_OWN)
    """A fall comes no sooner than this after the last change."""

    def rounded(self, target: float) -> float:
        """Return the multiple of `round_to` for a target."""
        if not self.round_to:
            return target
        steps = round(target / self.round_to, 6)  # 0.3 / 0.1 is no whole number in binary
        return (math.ceil(steps) if self.round_up else math.floor(steps)) * self.round_to


@dataclass(slots=True)
class Damped:
    """A figure in force; None: no limit. It appears and vanishes at once, since damping needs two figures."""

    value: float | None = None
    changed_s: float = -math.inf

    def take(self, target: float | None, cfg: Damping, now_s: float) -> float | None:
        """Follow the value wanted now and return the one in force.

        target: a finite figure, >= 0, or None; anything else raises ValueError.
        """
        if target is None or self.value is None:
            return self._become(None if target is None else cfg.rounded(_checked(target)), now_s)
        goal = cfg.rounded(_checked(target))
        if goal == self.value:
            return goal
        rises = goal > self.value
        beyond, part, every_s = (
            (cfg.rise_beyond_ratio, cfg.rise_part_ratio, cfg.rise_every_s)
            if rises
            else (cfg.fall_beyond_ratio, cfg.fall_part_ratio, cfg.fall_every_s)
        )
        way = abs(goal - self.value)
        if way <= beyond * self.value or now_s - self.changed_s < every_s:
            return self.value
        return self._become(_on_the_way(self.value, goal, max(part * way, cfg.round_to), cfg.round_to), now_s)

    def _become(self, value: float | None, now_s: float) -> float | None:
        if value != self.value:
            self.value, self.changed_s = value, now_s
        return self.value


def _checked(limit: float) -> float:
    if not 0 <= limit < math.inf:
        raise ValueError(f"a limit must be finite and not negative, got {limit}")
    return limit


def _on_the_way(value: float, goal: float, move: float, step: float) -> float:
    """Return where a move of this size ends: a multiple of `step`, not beyond the goal."""
    if move >= abs(goal - value):
        return goal
    if not step:
        return value + math.copysign(move, goal - value)
    steps = round(move / step, 6)
    return value + math.copysign(math.floor(steps) * step, goal - value)
