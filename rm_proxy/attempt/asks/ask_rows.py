"""The rows of one key: as the application sees them, and as the ResourceManager holds them.

The rows are decremented on delivery as the ResourceManager does (LocalityAppPlacementAllocator), then overwritten by
the application's next absolute rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hadoop_rpc.protos import yarn_pb2 as y

ANY: Final = "*"
_OPPORTUNISTIC: Final = y.OPPORTUNISTIC
_UNKNOWN: Final = -1
"""Count of a row that the ResourceManager may or may not have seen."""


class Key(NamedTuple):
    """Fields that distinguish asks; `capability` is the serialised ResourceProto. A tuple: it is hashed often."""

    priority: int
    request_id: int
    opportunistic: bool
    capability: bytes

    @classmethod
    def of(cls, row: y.ResourceRequestProto) -> Key:
        """Return the key of a row as the application master sent it."""
        opportunistic = row.execution_type_request.execution_type == _OPPORTUNISTIC
        capability = row.capability.SerializeToString(deterministic=True)
        return cls(row.priority.priority, row.allocation_request_id, opportunistic, capability)


@dataclass(slots=True, eq=False)
class AskRows:
    """Rows by resource name: a host, a rack, or ANY, which carries the demand."""

    key: Key
    touch: Callable[[Key], None]
    """Notes that the next request has to check this key."""
    sent_with: list[AskRows]
    """Keys of which rows stand in the request that is not answered yet."""
    rewritten: bool = False
    """Whether the key ever had a queueable share, or containers that were not decided on at once: only then its rows
    are rewritten. OPPORTUNISTIC keys always are: the ResourceManager keeps a zero row of such a key for ever."""
    guaranteed_id: int | None = None
    """Of an OPPORTUNISTIC key: the request id under which its guaranteed share is asked for as GUARANTEED; None if that
    cannot be done. Under its own id such rows would replace those of a GUARANTEED key in the ResourceManager."""
    as_guaranteed: bool = False
    """Whether it is asked for so; else its rows go out as they came."""
    guaranteed: int = 0
    """Containers of the guaranteed share."""
    by_name: dict[str, y.ResourceRequestProto] = field(default_factory=dict)
    """As the application sees them now."""
    at_rm: dict[str, int] = field(default_factory=dict)
    """Counts of the guaranteed rows that the ResourceManager holds now; no zeros."""
    arrived: dict[str, None] = field(default_factory=dict)
    """Names of rows that came with the request in hand, in their order."""
    pending_at: dict[str, int] = field(default_factory=dict)
    """Queueable containers that are asked for, by host and by rack."""
    demand: int = 0
    """How many containers the application wants."""
    anywhere: bool = True
    """Whether it may go off its hosts and racks."""
    enforced: bool = False
    """Whether the application takes containers of no other execution type."""
    label: str | None = None
    """The node label that the application named; None where it named none, so that the queue's default is taken.

    DefaultAMSProcessor and SchedulerUtils.normalizeNodeLabelExpressionInRequest fill in what is null, not "".
    """
    _hosts: set[str] = field(default_factory=set)
    _racks: set[str] = field(default_factory=set)
    hinted: tuple[frozenset[str], frozenset[str]] | None = None
    """As `hints` returned it last; None once it has changed."""
    _unequal: dict[str, None] = field(default_factory=dict)
    """Names of rows whose guaranteed count may differ from what the ResourceManager holds."""
    _in_flight: set[str] = field(default_factory=set)
    _to_zero: dict[tuple[str, bool], None] = field(default_factory=dict)
    """Names of rows that the ResourceManager may hold in the form that is no longer used, each with `as_guaranteed`."""

    def set_guaranteed(self, count: int) -> None:
        """Change the guaranteed share."""
        self.guaranteed = count
        if self.rewritten:
            self._unequal.update(dict.fromkeys(self.by_name))
        self.touch(self.key)

    def rewrite(self) -> None:
        """From now on send rows computed from the shares, not the application's own."""
        if not self.rewritten:
            self.rewritten = True
            self._unequal.update(dict.fromkeys(self.by_name))
            self.touch(self.key)

    def ask_as(self, guaranteed: bool) -> None:
        """Ask for the guaranteed share of an OPPORTUNISTIC key as GUARANTEED, or as it came."""
        if guaranteed != self.as_guaranteed:
            self._to_zero.update(dict.fromkeys((name, self.as_guaranteed) for name in self.at_rm))
            self.at_rm.clear()
            self.as_guaranteed = guaranteed
            self._unequal.update(dict.fromkeys(self.by_name))
            self.touch(self.key)

    def point(self, host: str, rack: str, more: int) -> None:
        """Count `more` queueable containers that are asked for at a host and its rack; the key counts as changed."""
        for name in (host, rack):
            count = self.pending_at.get(name, 0) + more
            if count:
                self.pending_at[name] = count
            else:
                del self.pending_at[name]
            if name in self.by_name:
                self._row_changed(name)

    def put(self, row: y.ResourceRequestProto) -> None:
        """Handle an absolute row of the application."""
        name = row.resource_name
        own = self.by_name.get(name)
        if own is None:
            own = self.by_name[name] = y.ResourceRequestProto()
        own.CopyFrom(row)
        if name == ANY:
            self.demand, self.anywhere = max(0, row.num_containers), row.relax_locality
            self.enforced = row.execution_type_request.enforce_execution_type
            self.label = row.node_label_expression.strip() if row.HasField("node_label_expression") else None
        self.arrived[name] = None
        self.touch(self.key)
        self._row_changed(name)

    def hints(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the hosts and racks that are still hinted at, pending placements counted against them.

        A rack that stands there only because of a host (relaxLocality off in its row, AMRMClient) is no hint.
        """
        if self.hinted is None:
            self.hinted = frozenset(self._hosts), frozenset(self._racks)
        return self.hinted

    def decrement(self, host: str, rack: str) -> list[str]:
        """Count a delivery in the application's rows as the ResourceManager does in its own; returns their names."""
        rows = self.by_name
        if len(rows) == 1 and self.demand:  # the row of all places alone, as mostly
            self.demand -= 1
            rows[ANY].num_containers -= 1
            self.touch(self.key)
            self._row_changed(ANY)
            return [ANY]
        here = rows.get(host)
        near = rows.get(rack)
        local = near is not None and near.num_containers > 0
        names = [host, rack, ANY] if here is not None and here.num_containers > 0 else [rack, ANY] if local else [ANY]
        for name in names:
            row = rows.get(name)
            if row is not None and row.num_containers > 0:
                row.num_containers -= 1
                if name == ANY:
                    self.demand -= 1
                self.touch(self.key)
                self._row_changed(name)
        return names

    def decrement_at_rm(self, host: str, rack: str) -> None:
        """Count a guaranteed delivery in the rows that the ResourceManager holds.

        Rows of the request that is being answered stay: they have overwritten what it had decremented before.
        """
        counts = self.at_rm
        self.touch(self.key)
        local = counts.get(rack, 0) > 0
        for name in [host, rack, ANY] if local and counts.get(host, 0) > 0 else [rack, ANY] if local else [ANY]:
            count = counts.get(name, 0)
            if count > 0 and name not in self._in_flight:
                self._set_at_rm(name, count - 1)
            self._row_changed(name)

    def answered(self) -> None:
        """Note that the request which held rows of this key was answered, and its deliveries are counted."""
        self._in_flight.clear()

    def _row_changed(self, name: str) -> None:
        """Note that a row may differ from what the ResourceManager holds, and whether it is a hint still."""
        if self.rewritten:
            self._unequal[name] = None
        if name == ANY:
            return
        row = self.by_name.get(name)
        is_rack = name.startswith("/")
        hinted = row is not None and row.num_containers > self.pending_at.get(name, 0)
        if hinted and is_rack and row is not None:
            hinted = row.relax_locality
        names = self._racks if is_rack else self._hosts
        if hinted and name not in names:
            names.add(name)
            self.hinted = None
        elif not hinted and name in names:
            names.discard(name)
            self.hinted = None

    # Rows that the ResourceManager holds

    def doubt(self, name: str, as_guaranteed: bool = False) -> None:
        """Note that the ResourceManager may not have seen a row: it is sent again with the next request."""
        if name in self.by_name and as_guaranteed != self.as_guaranteed:
            self.touch(self.key)
            self._to_zero[name, as_guaranteed] = None
        elif name in self.by_name:
            self.touch(self.key)
            self.at_rm[name] = _UNKNOWN
            self._unequal[name] = None
            self.arrived[name] = None

    @property
    def stale(self) -> bool:
        """Whether the ResourceManager holds other guaranteed rows than it should, of a key that is rewritten."""
        if self._to_zero:
            return True
        return self.rewritten and any(
            self.at_rm.get(n, 0) != self._guaranteed(n) for n in self._unequal if n in self.by_name
        )

    def rows_for_rm(self) -> list[y.ResourceRequestProto]:
        """Return the guaranteed rows to send now, and note that it holds them.

        A key that never had a queueable share passes as the application sent it. Of others every row goes out that
        differs from what it holds: host, rack and ANY together (without its rack row nothing is granted node-local).
        """
        if not self.rewritten:
            rows = [self.by_name[name] for name in self.arrived]
            for row in rows:
                self._send(row.resource_name, row.num_containers)
            return rows
        out = [self._row(name, 0, as_guaranteed) for name, as_guaranteed in self._to_zero if name in self.by_name]
        self._to_zero.clear()
        for name in [n for n in self._unequal if n in self.by_name]:
            count = self._guaranteed(name)
            if self.at_rm.get(name, 0) == count:
                continue
            out.append(self._row(name, count, self.as_guaranteed))
            self._send(name, count)
        return out

    def _row(self, name: str, count: int, as_guaranteed: bool) -> y.ResourceRequestProto:
        row = y.ResourceRequestProto()
        row.CopyFrom(self.by_name[name])
        row.num_containers = count
        if as_guaranteed and self.guaranteed_id is not None:
            row.execution_type_request.Clear()
            row.execution_type_request.execution_type = y.GUARANTEED
            row.allocation_request_id = self.guaranteed_id
        return row

    def as_asked(self) -> list[y.ResourceRequestProto]:
        """Return the rows with which the ResourceManager holds what the application sees, and nothing of ours."""
        if not self.rewritten:
            return [self.by_name[name] for name in self.arrived]
        rows = {**self._to_zero, **dict.fromkeys((name, True) for name in self.at_rm if self.as_guaranteed)}
        zeros = [self._row(name, 0, as_guaranteed) for name, as_guaranteed in rows if name in self.by_name]
        return zeros + list(self.by_name.values())

    @property
    def key_at_rm(self) -> Key:
        """The key under which the ResourceManager holds the rows of the guaranteed share."""
        if self.as_guaranteed and self.guaranteed_id is not None:
            return Key(self.key.priority, self.guaranteed_id, False, self.key.capability)
        return self.key

    def settled(self) -> None:
        """Note that the request in hand holds everything."""
        self.arrived.clear()
        self._unequal.clear()

    def _send(self, name: str, count: int) -> None:
        if not self._in_flight:
            self.sent_with.append(self)
        self._in_flight.add(name)
        self._set_at_rm(name, count)

    def _set_at_rm(self, name: str, count: int) -> None:
        if count > 0:
            self.at_rm[name] = count
        else:
            self.at_rm.pop(name, None)

    def _guaranteed(self, name: str) -> int:
        if name == ANY:
            return self.guaranteed
        rest = self.by_name[name].num_containers - self.pending_at.get(name, 0)
        return max(0, min(rest, self.guaranteed))


def reach(rows: AskRows, default_label: str) -> tuple[frozenset[str], frozenset[str], bool, str]:
    """Return the hosts and racks that a key's rows hint at, whether it may go off them, and its node label."""
    hosts, racks = rows.hinted or rows.hints()
    return hosts, racks, rows.anywhere, default_label if rows.label is None else rows.label


def row_of(key: Key, name: str, count: int) -> y.ResourceRequestProto:
    """Return a plain row of a key: without a label, and with relaxed locality."""
    row = y.ResourceRequestProto(resource_name=name, num_containers=count, relax_locality=True)
    row.priority.priority = key.priority
    row.capability.ParseFromString(key.capability)
    row.execution_type_request.execution_type = y.OPPORTUNISTIC if key.opportunistic else y.GUARANTEED
    row.allocation_request_id = key.request_id
    return row
