"""The two ask tables of an application attempt: what it wants, and what the ResourceManager was told.

An ask is a key (priority, request id, execution type, capability) with rows: ANY carries the demand, hosts and racks
are hints (MapReduce's rows need not add up). Each wanted container of a key is in one of three shares: guaranteed,
queueable and still to be placed, queueable and asked for (`pending`). The rows are decremented on delivery
as the ResourceManager does (LocalityAppPlacementAllocator), then overwritten by its next absolute rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Ask, Kind, Placement, Resources
from rm_proxy import ids

ANY = "*"
MAX_PARKED = 64
"""Parked request ids of one attempt; beyond it a failed placement's id is simply left to the ResourceManager."""


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


@dataclass(slots=True)
class QPlacement:
    """A queueable container that was asked for under a private request id and not granted yet."""

    private_id: int
    entry: Entry
    ask: Ask
    placement: Placement
    node_id: str
    host: str
    rack: str
    reason: str
    asked_s: float
    tries: int = 1
    tried: set[str] = field(default_factory=set)
    """Node ids that were asked for it."""


@dataclass(slots=True)
class Entry:
    """One key with its rows and shares."""

    key: Key
    resources: Resources
    rows: dict[str, y.ResourceRequestProto] = field(default_factory=dict)
    """By resource name, as the application sees them now."""
    told: dict[str, int] = field(default_factory=dict)
    """Counts of the guaranteed rows that the ResourceManager holds now."""
    fresh: set[str] = field(default_factory=set)
    """Names of rows that came with the request in hand."""
    g_share: int = 0
    q_wanted: int = 0
    pending: dict[int, QPlacement] = field(default_factory=dict)
    g_reasons: deque[Reason] = field(default_factory=deque)
    q_reasons: deque[Reason] = field(default_factory=deque)
    mixed: bool = False
    """Whether it ever had a queueable share: only then its rows are rewritten."""

    @property
    def demand(self) -> int:
        """How many containers the application wants."""
        row = self.rows.get(ANY)
        return row.num_containers if row is not None else 0

    @property
    def undecided(self) -> int:
        """Containers wanted beyond the shares; negative when the application wants fewer than it did."""
        return self.demand - self.g_share - self.q_wanted - len(self.pending)

    def add_g(self, count: int, reason: str, now_s: float, shadow: Kind | None = None) -> None:
        """Put wanted containers into the guaranteed share."""
        self.g_share += count
        _append(self.g_reasons, Reason(reason, now_s, count, shadow))

    def add_q(self, count: int, reason: str, now_s: float) -> None:
        """Put wanted containers into the queueable share, to be placed."""
        self.mixed = True
        self.q_wanted += count
        _append(self.q_reasons, Reason(reason, now_s, count))

    def take_g(self) -> Reason | None:
        """Take one container out of the guaranteed share; None when it is empty."""
        if self.g_share <= 0:
            return None
        self.g_share -= 1
        return _pop(self.g_reasons)

    def take_q(self) -> Reason | None:
        """Take one container out of those still to be placed; None when there is none."""
        if self.q_wanted <= 0:
            return None
        self.q_wanted -= 1
        return _pop(self.q_reasons)

    def hosts_and_racks(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the hosts and racks that are still hinted at, pending placements counted against them."""
        left = {name: row.num_containers for name, row in self.rows.items() if name != ANY}
        for placement in self.pending.values():
            for name in (placement.host, placement.rack):
                if name in left:
                    left[name] -= 1
        names = [name for name, count in left.items() if count > 0]
        return (
            frozenset(n for n in names if not n.startswith("/")),
            frozenset(n for n in names if n.startswith("/")),
        )

    def decrement(self, host: str, rack: str) -> None:
        """Count a delivery in the application's rows as the ResourceManager does in its own."""
        _decrement({n: r.num_containers for n, r in self.rows.items()}, host, rack, self._set_row)

    def decrement_told(self, host: str, rack: str) -> None:
        """Count a guaranteed delivery in the rows that the ResourceManager holds."""
        _decrement(self.told, host, rack, self.told.__setitem__)

    def _set_row(self, name: str, count: int) -> None:
        self.rows[name].num_containers = count

    def rows_for_rm(self) -> list[y.ResourceRequestProto]:
        """Return the guaranteed rows to send now, and note them as told.

        A key that never had a queueable share passes as the application sent it. Others go out as complete triplets
        whenever one row differs from what was told: without its rack row an ask is never granted node-local.
        """
        if not self.mixed:
            rows = [self.rows[name] for name in self.rows if name in self.fresh]
            self.told.update((row.resource_name, row.num_containers) for row in rows)
            return rows
        if not self.stale:
            return []
        out = []
        for name in self.rows:
            count = self._guaranteed(name)
            if count == 0 and not self.told.get(name):
                continue
            row = y.ResourceRequestProto()
            row.CopyFrom(self.rows[name])
            row.num_containers = count
            out.append(row)
            self.told[name] = count
        return out

    @property
    def stale(self) -> bool:
        """Whether the ResourceManager holds other guaranteed rows than it should, of a key that is rewritten."""
        return self.mixed and any(self.told.get(name, 0) != self._guaranteed(name) for name in self.rows)

    def _guaranteed(self, name: str) -> int:
        if name == ANY:
            return self.g_share
        pending = sum(1 for p in self.pending.values() if name in (p.host, p.rack))
        return max(0, min(self.rows[name].num_containers - pending, self.g_share))

    @property
    def idle(self) -> bool:
        """Whether nothing is wanted and the ResourceManager holds nothing of it."""
        return not (self.demand or self.g_share or self.q_wanted or self.pending or any(self.told.values()))


def _append(reasons: deque[Reason], new: Reason) -> None:
    last = reasons[-1] if reasons else None
    if last is not None and (last.text, last.asked_s, last.shadow) == (new.text, new.asked_s, new.shadow):
        last.count += new.count
    else:
        reasons.append(new)


def _pop(reasons: deque[Reason]) -> Reason:
    first = reasons[0]
    first.count -= 1
    if first.count == 0:
        reasons.popleft()
    return replace(first, count=1)


def _decrement(counts: dict[str, int], host: str, rack: str, put: Callable[[str, int], None]) -> None:
    names = [host, rack, ANY] if counts.get(host, 0) > 0 else [rack, ANY] if counts.get(rack, 0) > 0 else [ANY]
    for name in names:
        if counts.get(name, 0) > 0:
            put(name, counts[name] - 1)


class AskTable:
    """All asks of one application attempt."""

    def __init__(self) -> None:
        self.entries: dict[Key, Entry] = {}
        self.by_private: dict[int, QPlacement] = {}
        self._parked: dict[tuple[int, int, bool, bytes], list[int]] = {}
        self._parked_count = 0
        self._to_zero: dict[int, tuple[Entry, str]] = {}
        self._to_send: list[tuple[QPlacement, str | None]] = []
        self._serial = 0

    def update(self, rows: Iterable[y.ResourceRequestProto]) -> list[Entry]:
        """Take in the absolute rows of a request; returns the keys that they touch, in their order."""
        touched: dict[Key, Entry] = {}
        for row in rows:
            key = Key.of(row)
            entry = self.entries.get(key)
            if entry is None:
                entry = self.entries[key] = Entry(key, resources_of(row.capability))
            mine = entry.rows.get(row.resource_name)
            if mine is None:
                mine = entry.rows[row.resource_name] = y.ResourceRequestProto()
            mine.CopyFrom(row)
            entry.fresh.add(row.resource_name)
            touched[key] = entry
        return list(touched.values())

    def shrink(self, entry: Entry, count: int) -> None:
        """Take back wanted containers: first those still to be placed, then those asked for, then guaranteed ones."""
        for _ in range(count):
            if entry.take_q() is not None:
                continue
            if entry.pending:
                self.park(next(reversed(entry.pending.values())))
            else:
                entry.take_g()

    def place(self, entry: Entry, ask: Ask, placement: Placement, host: str, rack: str, reason: Reason) -> QPlacement:
        """Ask for one queueable container on a node, under a private id: a parked one, or a new one.

        `reason` was taken from the share with `take_q`. Raises OverflowError after 2**30 ids of one attempt.
        """
        assert placement.node is not None
        key = entry.key
        parked = self._parked.get((key.priority, key.request_id, key.opportunistic, key.capability))
        if parked:
            self._parked_count -= 1
            private = parked.pop()
        else:
            self._serial += 1
            if self._serial > ids.MAX_SERIAL:
                raise OverflowError("an attempt used up its private request ids")
            private = ids.private_id(self._serial, key.request_id, key.opportunistic)
        q = QPlacement(private, entry, ask, placement, placement.node, host, rack, reason.text, reason.asked_s)
        q.tried.add(placement.node)
        entry.pending[private] = q
        self.by_private[private] = q
        self._to_send.append((q, None))
        return q

    def steer(self, q: QPlacement, placement: Placement, host: str, rack: str) -> None:
        """Ask for a container that its node did not grant on another node, under the same id."""
        assert placement.node is not None
        old, q.placement, q.node_id, q.host, q.rack = q.host, placement, placement.node, host, rack
        q.tries += 1
        q.tried.add(placement.node)
        self._to_send.append((q, old if old != host else None))

    def park(self, q: QPlacement) -> None:
        """Give up a placement: its host row is zeroed, its id kept for the next one of the same key."""
        q.entry.pending.pop(q.private_id, None)
        self.by_private.pop(q.private_id, None)
        unsent = [old for sent, old in self._to_send if sent is q]
        self._to_send = [s for s in self._to_send if s[0] is not q]
        self._to_zero[q.private_id] = (q.entry, (unsent[0] if unsent else None) or q.host)
        key = q.entry.key
        if self._parked_count < MAX_PARKED:
            self._parked.setdefault((key.priority, key.request_id, key.opportunistic, key.capability), []).append(
                q.private_id
            )
            self._parked_count += 1

    def granted(self, q: QPlacement) -> None:
        """Forget a placement whose container came; the ResourceManager has dropped the id by itself."""
        q.entry.pending.pop(q.private_id, None)
        self.by_private.pop(q.private_id, None)

    def forget_parked(self, entry: Entry, private: int) -> None:
        """Forget a parked id whose container came late."""
        key = entry.key
        parked = self._parked.get((key.priority, key.request_id, key.opportunistic, key.capability), [])
        if private in parked:
            parked.remove(private)
            self._parked_count -= 1
        self._to_zero.pop(private, None)

    def entry_of(self, private: int, priority: int, resources: Resources) -> Entry | None:
        """Find the key that a private id was made for, whether it is pending, parked or given up."""
        if private in self.by_private:
            return self.by_private[private].entry
        return self._best(priority, ids.original_id(private), ids.asked_opportunistic(private), resources)

    def entry_of_guaranteed(self, priority: int, request_id: int, resources: Resources) -> Entry | None:
        """Find the key of a guaranteed container by priority, request id and the capability that it came from."""
        return self._best(priority, request_id, False, resources)

    def _best(self, priority: int, request_id: int, opportunistic: bool, resources: Resources) -> Entry | None:
        """Prefer keys that want something, then the largest capability within what was granted (YARN rounds up)."""
        found = [
            e
            for k, e in self.entries.items()
            if k.priority == priority and k.request_id == request_id and k.opportunistic == opportunistic
        ]
        if len(found) < 2:
            return found[0] if found else None
        within = [e for e in found if e.resources.memory_mb <= resources.memory_mb] or found
        return max(within, key=lambda e: (e.demand > 0, e.resources.memory_mb, e.resources.vcores))

    def rows_for_rm(self) -> list[y.ResourceRequestProto]:
        """Return all rows to send with the request in hand, guaranteed and queueable, and note them as told."""
        out: list[y.ResourceRequestProto] = []
        for entry in list(self.entries.values()):
            out.extend(entry.rows_for_rm())
            entry.fresh.clear()
            if entry.idle:
                del self.entries[entry.key]
        reused = {q.private_id for q, _ in self._to_send}
        for private, (entry, host) in self._to_zero.items():
            if private not in reused:
                out.append(_q_row(entry, private, host, 0))
        for q, old_host in self._to_send:
            zero = old_host or self._zero_host(q)
            if zero is not None:
                out.append(_q_row(q.entry, q.private_id, zero, 0))
            out.append(_q_row(q.entry, q.private_id, q.host, 1))
            out.append(_q_row(q.entry, q.private_id, ANY, 1))
        self._to_zero.clear()
        self._to_send.clear()
        return out

    def _zero_host(self, q: QPlacement) -> str | None:
        zero = self._to_zero.get(q.private_id)
        return zero[1] if zero is not None and zero[1] != q.host else None

    @property
    def dirty(self) -> bool:
        """Whether rows of ours are to be sent beside those of the application."""
        return bool(self._to_send or self._to_zero) or any(e.stale for e in self.entries.values())

    @property
    def open_queueables(self) -> bool:
        """Whether queueable containers are wanted that no node has granted yet."""
        return bool(self.by_private) or any(e.q_wanted for e in self.entries.values())


def _q_row(entry: Entry, private: int, name: str, count: int) -> y.ResourceRequestProto:
    row = y.ResourceRequestProto()
    row.priority.priority = entry.key.priority
    row.resource_name = name
    row.capability.ParseFromString(entry.key.capability)
    row.num_containers = count
    row.relax_locality = True
    row.execution_type_request.execution_type = y.OPPORTUNISTIC
    row.execution_type_request.enforce_execution_type = True
    row.allocation_request_id = private
    return row


def resources_of(resource: y.ResourceProto) -> Resources:
    """Return memory (MB) and vcores of a capability; the newer value map counts where it is set."""
    memory, vcores = resource.memory, resource.virtual_cores
    for value in resource.resource_value_map:
        if value.key == "memory-mb":
            memory = value.value
        elif value.key == "vcores":
            vcores = value.value
    return Resources(memory, vcores)


def beyond_memory_and_cpu(resource: y.ResourceProto) -> bool:
    """Tell whether a capability asks for more than memory and vcores (GPUs and the like)."""
    return any(v.value > 0 and v.key not in ("memory-mb", "vcores") for v in resource.resource_value_map)


def set_resources(proto: y.ResourceProto, resources: Resources) -> None:
    """Write memory (MB) and vcores into a capability, in both of its notations."""
    proto.memory, proto.virtual_cores = resources.memory_mb, int(resources.vcores)
    for value in proto.resource_value_map:
        if value.key == "memory-mb":
            value.value = resources.memory_mb
        elif value.key == "vcores":
            value.value = int(resources.vcores)
