"""How long tasks run: from completed siblings, then from earlier runs of the same job name, then by hints and default.

Mercury §4.1: estimates come with the job and are refined at run time from containers that completed. Times are the
sidecars' (start to end), since YARN's history counts the wait in a node's queue as run time.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, TypeVar

from policies.model import AppView
from shell.messages import ContainerEvent

K = TypeVar("K")

MAX_KEYS: Final = 20_000
"""Stages and job names that are remembered; the ones used least recently are forgotten."""


@dataclass(slots=True)
class Durations:
    """Running mean and spread of durations in seconds (Welford)."""

    count: int = 0
    mean_s: float = 0.0
    _m2: float = 0.0

    def add(self, seconds: float) -> None:
        """Take in one duration."""
        self.count += 1
        delta = seconds - self.mean_s
        self.mean_s += delta / self.count
        self._m2 += delta * (seconds - self.mean_s)

    @property
    def spread_s(self) -> float:
        """Standard deviation; 0 with fewer than two durations."""
        return math.sqrt(self._m2 / (self.count - 1)) if self.count > 1 else 0.0


def worked_s(event: ContainerEvent) -> float | None:
    """Return how long a container ran, in seconds; None when that is not known.

    Of one that was shrunk meanwhile it is the CPU time that it was given, since it stood still for a part of the rest.
    """
    if event.ran_s is None:
        return None
    if event.times_shrunk and event.attained_s is not None:
        return max(0.0, min(event.attained_s, event.ran_s))
    return max(0.0, event.ran_s)


class Estimator:
    """Durations by application and priority (a stage), and by job name, type and priority."""

    def __init__(self) -> None:
        self._stages: OrderedDict[tuple[str, int], Durations] = OrderedDict()
        self._names: OrderedDict[tuple[str, str, int], Durations] = OrderedDict()

    def observe(self, app: AppView, priority: int, ran_s: float) -> None:
        """Take in how long a container ran, in seconds."""
        if ran_s < 0 or not math.isfinite(ran_s):
            raise ValueError(f"a container cannot have run for {ran_s} s")
        _entry(self._stages, (app.id, priority)).add(ran_s)
        _entry(self._names, (app.type, app.name, priority)).add(ran_s)

    def expected(self, app: AppView, priority: int) -> Durations | None:
        """Return what is known of a stage: by its own containers, or by earlier jobs of that name; None for nothing."""
        own = self._stages.get((app.id, priority))
        return own if own is not None else self._names.get((app.type, app.name, priority))


def _entry(known: OrderedDict[K, Durations], key: K) -> Durations:
    found = known.get(key)
    if found is None:
        found = known[key] = Durations()
        if len(known) > MAX_KEYS:
            known.popitem(last=False)
    known.move_to_end(key)
    return found
