"""When a MapReduce master asks for its reduces, and when it kills some for its maps (RMContainerAllocator, Hadoop 3.4).

Maps and reduces are of one size here, so what MapReduce reckons in memory are containers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

UNCONDITIONAL_S: Final = 300.0
"""So long a map may hang before reduces are killed for it, whatever the headroom
(mapreduce.job.reducer.unconditional-preempt.delay.sec)."""


@dataclass(frozen=True, slots=True)
class ReduceStages:
    """Containers of one job. headroom: the `limit` of the last answer; assigned: granted, not told to have ended."""

    headroom: int
    maps: int
    maps_done: int
    maps_asked: int
    maps_assigned: int
    reduces_asked: int
    reduces_assigned: int
    reduces_pending: int

    @property
    def limit(self) -> int:
        """What the job may have in all."""
        return self.headroom + self.maps_assigned + self.reduces_assigned


def started(stages: ReduceStages, slow_start: float) -> bool:
    """Return whether enough maps are done for reduces to be asked for. slow_start: share of the maps, 0..1."""
    return stages.maps_done >= ceil(slow_start * stages.maps)


def ramp(stages: ReduceStages, ramp_up_limit: float) -> int:
    """Return how many pending reduces to ask for; below zero: how many to ask for no longer.

    ramp_up_limit: share of the job's limit that reduces may have while maps wait, 0..1.
    """
    if not stages.reduces_pending:
        return 0
    if not stages.maps_asked:
        return stages.reduces_pending
    share = stages.maps_done / stages.maps if stages.maps else 1.0
    for_reduces = stages.limit * min(share, ramp_up_limit)
    for_maps = stages.limit - for_reduces
    maps = stages.maps_asked + stages.maps_assigned
    if int(for_maps) >= maps:
        for_reduces += for_maps - maps
    more = int(for_reduces - stages.reduces_asked - stages.reduces_assigned)
    return min(more, stages.reduces_pending) if more > 0 else -min(-more, stages.reduces_asked)


def preempted(stages: ReduceStages, longest_s: float, hanging: int, preemption_limit: float) -> int:
    """Return how many assigned reduces to kill, so that maps can run.

    longest_s: how long the oldest asked map has been hanging. hanging: maps that hang longer than UNCONDITIONAL_S when
    any does, else all that are asked for. preemption_limit: share of the job's limit that may be killed at once, 0..1.
    """
    if stages.maps_assigned or not stages.maps_asked or not stages.reduces_assigned:
        return 0
    if longest_s <= UNCONDITIONAL_S and stages.headroom > stages.reduces_asked:
        return 0
    return min(max(1, ceil(stages.limit * preemption_limit)), hanging, stages.reduces_assigned)
