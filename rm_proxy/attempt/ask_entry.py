"""One key of the ask tables: its rows, and the shares of what it wants.

The rows are decremented on delivery as the ResourceManager does (LocalityAppPlacementAllocator), then overwritten by
the application's next absolute rows. Everything that a heartbeat needs is kept as a sum: nothing here is proportional
to the number of rows, except when the rows or the guaranteed share change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Ask, Kind, Placement, Resources

ANY: Final = "*"
_UNKNOWN: Final = -1
"""Told count of a row of which it is not certain that the ResourceManager has seen it."""


@dataclass(frozen=True, slots=True)
class Key:
    """What distinguishes asks; `capability` is the serialised ResourceProto."""

    priority: int
    request_id: int
    opportunistic: bool
    capability: bytes

    @classmethod
    def of(cls, row: y.ResourceRequestProto) -> Key:
        """Return the key of a row as the application master sent it."""
        opportunistic = row.execution_type_request.execution_type == y.OPPORTUNISTIC
        capability = row.capability.SerializeToString(deterministic=True)
        return cls(row.priority.priority, row.allocation_request_id, opportunistic, capability)


@dataclass(slots=True)
class Reason:
    """Why the next `count` containers of a share are in it, and since when they are wanted."""

    text: str
    asked_s: float
    count: int
    shadow: Kind | None = None
    """In shadow mode: what the containers would have been."""
    retries: int = 0
    """How often their tasks were shed or killed before."""
    tries: int = 0
    """Nodes that were asked for each and did not grant it."""
    follows: str = ""
    """The container that was shed or killed before and for which this one is asked; "" for none."""
    version: str = ""
    """Of the settings that routed it; "" where no policy did."""
    slot: str = "route"
    """Whose decision it is that it is not queueable: quota (window) when its route had made it so."""


@dataclass(slots=True, eq=False)
class QPlacement:
    """A queueable container that was asked for under a private request id and not granted yet."""

    private_id: int
    entry: AskEntry
    ask: Ask
    placement: Placement
    node_id: str
    host: str
    rack: str
    reason: Reason
    tries: int = 1
    tried: set[str] = field(default_factory=set)
    """Node ids that were asked for it."""
    over: bool = False
    """Whether it is asked for no longer: granted, given up, or forgotten."""


@dataclass(slots=True)
class AskSums:
    """What all keys of a table have in common: sums, and which of them changed since the last request."""

    changed: dict[Key, AskEntry] = field(default_factory=dict)
    unplaced: dict[Key, AskEntry] = field(default_factory=dict)
    """Keys with queueable containers that are still to be placed."""
    open_q: int = 0
    """Queueable containers wanted: to be placed, or asked for."""
    open_size: Resources = field(default_factory=Resources)
    in_flight: list[AskEntry] = field(default_factory=list)
    """Keys of which rows stand in the request that is not answered yet."""


@dataclass(slots=True, eq=False)
class AskEntry:
    """One key with its rows and shares."""

    key: Key
    resources: Resources
    sums: AskSums
    beyond: bool = False
    """Whether it asks for more than memory and vcores."""
    rows: dict[str, y.ResourceRequestProto] = field(default_factory=dict)
    """By resource name, as the application sees them now."""
    told: dict[str, int] = field(default_factory=dict)
    """Counts of the guaranteed rows that the ResourceManager holds now; no zeros."""
    fresh: dict[str, None] = field(default_factory=dict)
    """Names of rows that came with the request in hand, in their order."""
    g_share: int = 0
    q_wanted: int = 0
    pending: dict[int, QPlacement] = field(default_factory=dict)
    g_reasons: deque[Reason] = field(default_factory=deque)
    q_reasons: deque[Reason] = field(default_factory=deque)
    mixed: bool = False
    """Whether it ever had a queueable share, or containers that were not decided on at once: only then its rows are
    rewritten. OPPORTUNISTIC keys always are, since the ResourceManager keeps a zero row of such a key for ever."""
    _pending_at: dict[str, int] = field(default_factory=dict)
    _hosts: set[str] = field(default_factory=set)
    _racks: set[str] = field(default_factory=set)
    _hints: tuple[frozenset[str], frozenset[str]] | None = None
    _unequal: dict[str, None] = field(default_factory=dict)
    """Names of rows whose guaranteed count may differ from what was told."""
    _in_flight: set[str] = field(default_factory=set)

    @property
    def demand(self) -> int:
        """How many containers the application wants."""
        row = self.rows.get(ANY)
        return max(0, row.num_containers) if row is not None else 0

    @property
    def undecided(self) -> int:
        """Containers wanted beyond the shares; negative when the application wants fewer than it did."""
        return self.demand - self.g_share - self.q_wanted - len(self.pending)

    @property
    def label(self) -> str:
        """The node label that the application named; "" when none, or when it named the default partition."""
        row = self.rows.get(ANY)
        return row.node_label_expression.strip() if row is not None else ""

    @property
    def names_label(self) -> bool:
        """Whether the application named a label, if only the default partition: then the queue's default is not taken.

        DefaultAMSProcessor and SchedulerUtils.normalizeNodeLabelExpressionInRequest fill in what is null, not "".
        """
        row = self.rows.get(ANY)
        return row is not None and row.HasField("node_label_expression")

    @property
    def anywhere(self) -> bool:
        """Whether it may go off its hosts and racks."""
        row = self.rows.get(ANY)
        return row is None or row.relax_locality

    def touch(self) -> None:
        """Note that the next request has to look at this key."""
        self.sums.changed[self.key] = self

    # Shares

    def add_g(self, reason: Reason) -> None:
        """Put `reason.count` wanted containers into the guaranteed share."""
        self._set_g(self.g_share + reason.count)
        _append(self.g_reasons, reason)

    def add_q(self, reason: Reason) -> None:
        """Put `reason.count` wanted containers into the queueable share, to be placed."""
        self.rewrite()
        self._set_q(self.q_wanted + reason.count)
        _append(self.q_reasons, reason)

    def rewrite(self) -> None:
        """From now on send what the shares say, not what the application sends."""
        if not self.mixed:
            self.mixed = True
            self._unequal.update(dict.fromkeys(self.rows))
            self.touch()

    def take_g(self) -> Reason | None:
        """Take one container out of the guaranteed share; None when it is empty."""
        if self.g_share <= 0:
            return None
        self._set_g(self.g_share - 1)
        return _pop(self.g_reasons)

    def drop_g(self, count: int) -> None:
        """Take up to `count` containers, which may be millions, out of the guaranteed share."""
        dropped = min(count, self.g_share)
        if dropped > 0:
            self._set_g(self.g_share - dropped)
            _cut(self.g_reasons, dropped)

    def drop_q(self, count: int) -> int:
        """Take up to `count` containers out of those still to be placed; return how many."""
        return sum(reason.count for reason in self.cut_q(count))

    def set_g(self, reasons: Iterable[Reason]) -> None:
        """Replace the guaranteed share."""
        self.g_reasons = deque(reasons)
        self._set_g(sum(reason.count for reason in self.g_reasons))

    def take_q(self) -> Reason | None:
        """Take one container out of those still to be placed; None when there is none."""
        if self.q_wanted <= 0:
            return None
        self._set_q(self.q_wanted - 1)
        return _pop(self.q_reasons)

    def cut_q(self, most: int) -> list[Reason]:
        """Take up to `most` containers out of those still to be placed at once; return their reasons with counts."""
        count = min(most, self.q_wanted)
        if count <= 0:
            return []
        self._set_q(self.q_wanted - count)
        return _cut(self.q_reasons, count)

    def attach(self, q: QPlacement) -> None:
        """Count a placement as asked for."""
        self.pending[q.private_id] = q
        self._count_open(1)
        self._point(q.host, q.rack, 1)

    def detach(self, q: QPlacement) -> None:
        """Count a placement no longer; nothing happens to one that is not counted."""
        if self.pending.pop(q.private_id, None) is not None:
            self._count_open(-1)
            self._point(q.host, q.rack, -1)

    def redirect(self, q: QPlacement, host: str, rack: str) -> None:
        """Count a placement at another host."""
        self._point(q.host, q.rack, -1)
        q.host, q.rack = host, rack
        self._point(host, rack, 1)

    def _set_g(self, count: int) -> None:
        self.g_share = count
        if self.mixed:
            self._unequal.update(dict.fromkeys(self.rows))
        self.touch()

    def _set_q(self, count: int) -> None:
        self._count_open(count - self.q_wanted)
        self.q_wanted = count
        if count:
            self.sums.unplaced[self.key] = self
        else:
            self.sums.unplaced.pop(self.key, None)

    def _count_open(self, more: int) -> None:
        sums, size = self.sums, self.resources
        sums.open_q += more
        sums.open_size += Resources(size.memory_mb * more, size.vcores * more)
        self.touch()

    def _point(self, host: str, rack: str, more: int) -> None:
        for name in (host, rack):
            count = self._pending_at.get(name, 0) + more
            if count:
                self._pending_at[name] = count
            else:
                del self._pending_at[name]
            self._row_changed(name)

    # Rows

    def put_row(self, row: y.ResourceRequestProto) -> None:
        """Take in a row of the application."""
        name = row.resource_name
        mine = self.rows.get(name)
        if mine is None:
            mine = self.rows[name] = y.ResourceRequestProto()
        mine.CopyFrom(row)
        self.fresh[name] = None
        self._row_changed(name)

    def hints(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the hosts and racks that are still hinted at, pending placements counted against them.

        A rack that stands there only because of a host (relaxLocality off in its row, AMRMClient) is no hint.
        """
        if self._hints is None:
            self._hints = frozenset(self._hosts), frozenset(self._racks)
        return self._hints

    def decrement(self, host: str, rack: str) -> list[str]:
        """Count a delivery in the application's rows as the ResourceManager does in its own; returns their names."""
        rows = self.rows
        here = rows.get(host)
        near = rows.get(rack)
        local = near is not None and near.num_containers > 0
        names = [host, rack, ANY] if here is not None and here.num_containers > 0 else [rack, ANY] if local else [ANY]
        for name in names:
            row = rows.get(name)
            if row is not None and row.num_containers > 0:
                row.num_containers -= 1
                self._row_changed(name)
        return names

    def decrement_told(self, host: str, rack: str) -> None:
        """Count a guaranteed delivery in the rows that the ResourceManager holds.

        Rows of the request that is being answered stay: they have overwritten what it had decremented before.
        """
        told = self.told
        local = told.get(rack, 0) > 0
        for name in [host, rack, ANY] if local and told.get(host, 0) > 0 else [rack, ANY] if local else [ANY]:
            count = told.get(name, 0)
            if count > 0 and name not in self._in_flight:
                self._tell(name, count - 1)
            self._row_changed(name)

    def answered(self) -> None:
        """Note that the request which held rows of this key was answered, and its deliveries are counted."""
        self._in_flight.clear()

    def _row_changed(self, name: str) -> None:
        self.touch()
        if self.mixed:
            self._unequal[name] = None
        if name == ANY:
            return
        row = self.rows.get(name)
        is_rack = name.startswith("/")
        hinted = row is not None and row.num_containers > self._pending_at.get(name, 0)
        if hinted and is_rack and row is not None:
            hinted = row.relax_locality
        names = self._racks if is_rack else self._hosts
        if hinted and name not in names:
            names.add(name)
            self._hints = None
        elif not hinted and name in names:
            names.discard(name)
            self._hints = None

    # What the ResourceManager is told

    def doubt(self, name: str) -> None:
        """Note that the ResourceManager may not have seen a row: it is sent again with the next request."""
        if name in self.rows:
            self.touch()
            self.told[name] = _UNKNOWN
            self._unequal[name] = None
            self.fresh[name] = None

    @property
    def stale(self) -> bool:
        """Whether the ResourceManager holds other guaranteed rows than it should, of a key that is rewritten."""
        return self.mixed and any(self.told.get(n, 0) != self._guaranteed(n) for n in self._unequal if n in self.rows)

    def rows_for_rm(self) -> list[y.ResourceRequestProto]:
        """Return the guaranteed rows to send now, and note them as told.

        A key that never had a queueable share passes as the application sent it. Of others every row goes out that
        differs from what was told: host, rack and ANY together (without its rack row nothing is granted node-local).
        """
        if not self.mixed:
            rows = [self.rows[name] for name in self.fresh]
            for row in rows:
                self._send(row.resource_name, row.num_containers)
            return rows
        out = []
        for name in [n for n in self._unequal if n in self.rows]:
            count = self._guaranteed(name)
            if self.told.get(name, 0) == count:
                continue
            row = y.ResourceRequestProto()
            row.CopyFrom(self.rows[name])
            row.num_containers = count
            out.append(row)
            self._send(name, count)
        return out

    def settled(self) -> None:
        """Note that the request in hand holds everything."""
        self.fresh.clear()
        self._unequal.clear()

    def _send(self, name: str, count: int) -> None:
        if not self._in_flight:
            self.sums.in_flight.append(self)
        self._in_flight.add(name)
        self._tell(name, count)

    def _tell(self, name: str, count: int) -> None:
        if count > 0:
            self.told[name] = count
        else:
            self.told.pop(name, None)

    def _guaranteed(self, name: str) -> int:
        if name == ANY:
            return self.g_share
        left = self.rows[name].num_containers - self._pending_at.get(name, 0)
        return max(0, min(left, self.g_share))

    @property
    def idle(self) -> bool:
        """Whether nothing is wanted and the ResourceManager holds nothing of it."""
        return not (self.demand or self.g_share or self.q_wanted or self.pending or self.told)


def row_of(key: Key, name: str, count: int) -> y.ResourceRequestProto:
    """Return a row of a key as its words are: without a label, and free to go elsewhere."""
    row = y.ResourceRequestProto(resource_name=name, num_containers=count, relax_locality=True)
    row.priority.priority = key.priority
    row.capability.ParseFromString(key.capability)
    row.execution_type_request.execution_type = y.OPPORTUNISTIC if key.opportunistic else y.GUARANTEED
    row.allocation_request_id = key.request_id
    return row


def _append(reasons: deque[Reason], new: Reason) -> None:
    last = reasons[-1] if reasons else None
    if last is not None and replace(last, count=new.count) == new:
        last.count += new.count
    else:
        reasons.append(new)


def _cut(reasons: deque[Reason], count: int) -> list[Reason]:
    """Take the first `count` containers off, whatever their number costs the same."""
    taken: list[Reason] = []
    while count > 0:
        first = reasons[0]
        if first.count <= count:
            count -= first.count
            taken.append(reasons.popleft())
        else:
            first.count -= count
            taken.append(replace(first, count=count))
            count = 0
    return taken


def _pop(reasons: deque[Reason]) -> Reason:
    first = reasons[0]
    if first.count == 1:
        return reasons.popleft()
    first.count -= 1
    return replace(first, count=1)
