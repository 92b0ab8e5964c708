"""The ask table of a MapReduce master: absolute counts by priority and place, of which changed ones are sent.

As RMContainerRequestor keeps it (Hadoop 3.4): a row of count zero is sent once and forgotten, and counts never go
below zero, whatever is taken back.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y

FAILED_MAP_PRIORITY: Final = 5
REDUCE_PRIORITY: Final = 10
OPPORTUNISTIC_MAP_PRIORITY: Final = 19
MAP_PRIORITY: Final = 20
ANY: Final = "*"


class MasterAsks:
    """Counts by (priority, resource name); one capability per job."""

    __slots__ = ("_changed", "_memory_mb", "counts")

    def __init__(self, memory_mb: int) -> None:
        """Begin empty. memory_mb: of each container, beside its one vcore."""
        self.counts: dict[tuple[int, str], int] = {}
        self._changed: dict[tuple[int, str], None] = {}
        self._memory_mb = memory_mb

    @property
    def changed(self) -> bool:
        """Whether there is something to send."""
        return bool(self._changed)

    def add(self, priority: int, places: Iterable[str]) -> None:
        """Ask for one container more, at each of these places and anywhere."""
        for place in (*places, ANY):
            key = (priority, place)
            self.counts[key] = self.counts.get(key, 0) + 1
            self._changed[key] = None

    def take(self, priority: int, places: Iterable[str]) -> None:
        """Ask for one container less."""
        for place in (*places, ANY):
            key = (priority, place)
            count = self.counts.pop(key, 0)
            if count > 1:
                self.counts[key] = count - 1
            self._changed[key] = None

    def total(self, *priorities: int) -> int:
        """Return how many containers are asked for at these priorities."""
        return sum(self.counts.get((priority, ANY), 0) for priority in priorities)

    def resend(self) -> None:
        """Have all rows that are not zero sent again: the ResourceManager knows nothing."""
        self._changed = dict.fromkeys(self.counts)

    def drain(self) -> list[y.ResourceRequestProto]:
        """Return the rows that changed since the last call."""
        changed, self._changed = self._changed, {}
        rows = []
        for key in changed:
            row = y.ResourceRequestProto.FromString(_template(*key, self._memory_mb))
            row.num_containers = self.counts.get(key, 0)
            rows.append(row)
        return rows


@lru_cache(8192)
def _template(priority: int, place: str, memory_mb: int) -> bytes:
    opportunistic = priority == OPPORTUNISTIC_MAP_PRIORITY
    row = y.ResourceRequestProto(resource_name=place, relax_locality=True)
    row.priority.priority = priority
    row.capability.memory, row.capability.virtual_cores = memory_mb, 1
    row.execution_type_request.execution_type = y.OPPORTUNISTIC if opportunistic else y.GUARANTEED
    row.execution_type_request.enforce_execution_type = opportunistic
    return row.SerializeToString()
