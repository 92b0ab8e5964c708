"""The ask table of a MapReduce application master, after what RMContainerRequestor does (Hadoop 3.4).

Others are taken to differ in one point: they enforce no execution type.
"""

from __future__ import annotations

from dataclasses import dataclass

from hadoop_rpc.protos import yarn_pb2 as y

ANY = "*"


@dataclass(frozen=True)
class Want:
    """One container that a task needs; opportunistic maps (priority 19) name no hosts."""

    number: int
    priority: int = 20
    hosts: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    memory_mb: int = 1024
    opportunistic: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.hosts, *self.racks, ANY)


Row = tuple[int, str, int, bool]


class Requestor:
    """Absolute counts by (priority, name, memory, opportunistic); only changed rows are sent."""

    def __init__(self, enforces: bool = True) -> None:
        self.enforces = enforces
        self.counts: dict[Row, int] = {}
        self.changed: dict[Row, None] = {}
        self._sending: dict[Row, int] = {}
        self.blacklisted: set[str] = set()
        self.limits: dict[int, int] = {}
        """Most containers to ask for at a priority (mapreduce.job.running.map.limit)."""

    def add(self, want: Want) -> None:
        for name in want.names:
            if name not in self.blacklisted:
                self._count(want, name, 1)

    def remove(self, want: Want) -> None:
        for name in want.names:
            row = (want.priority, name, want.memory_mb, want.opportunistic)
            if self.counts.get(row, 0) > 0:
                self._count(want, name, -1)

    def _count(self, want: Want, name: str, more: int) -> None:
        row = (want.priority, name, want.memory_mb, want.opportunistic)
        self.counts[row] = self.counts.get(row, 0) + more
        self.changed.pop(row, None)
        self.changed[row] = None
        if not self.counts[row]:
            del self.counts[row]

    def failed_on_host(self, host: str) -> None:
        """Blacklist a host: its rows go out as zeros (containerFailedOnHost)."""
        self.blacklisted.add(host)
        for row in [r for r in self.counts if r[1] == host]:
            del self.counts[row]
            self.changed[row] = None

    def resync(self) -> None:
        """Send everything again (addOutstandingRequestOnResync)."""
        self.changed.update(dict.fromkeys(self.counts))

    def rows(self) -> list[y.ResourceRequestProto]:
        """Return the changed rows, as they stand in the request."""
        self._sending = {row: self.counts.get(row, 0) for row in self.changed}
        return [self.row(row) for row in self.changed]

    def sent(self) -> None:
        """Note that the call succeeded; what changed since its rows were made goes with the next one."""
        for row, count in self._sending.items():
            if self.counts.get(row, 0) == count:
                self.changed.pop(row, None)
        self._sending = {}

    def row(self, row: Row) -> y.ResourceRequestProto:
        priority, name, memory_mb, opportunistic = row
        count = self.counts.get(row, 0)
        if name == ANY:
            count = min(count, self.limits.get(priority, count))
        proto = y.ResourceRequestProto(resource_name=name, num_containers=count, relax_locality=True)
        proto.priority.priority = priority
        proto.capability.memory, proto.capability.virtual_cores = memory_mb, 1
        kind = proto.execution_type_request
        kind.execution_type = y.OPPORTUNISTIC if opportunistic else y.GUARANTEED
        kind.enforce_execution_type = self.enforces
        return proto
