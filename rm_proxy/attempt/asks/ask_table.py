"""The two ask tables of an application attempt: its wanted containers, and the rows that the ResourceManager holds.

An ask is a key (priority, request id, execution type, capability) with rows: ANY carries the demand, hosts and racks
are hints (MapReduce's rows need not add up). Each wanted container of a key is in one of three shares: guaranteed,
queueable and still to be placed, queueable and asked for (`pending`).

A queueable container is asked for as a host row and an ANY row under a private request id, which serves one capability
for ever. The ResourceManager forgets an id that it granted; one that was given up is parked and used again. A container
that the proxy grants itself has an id that the ResourceManager was never asked with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Ask, Placement, Resources
from rm_proxy.attempt.asks.ask_entry import AskEntry, AskSums, QPlacement, Reason
from rm_proxy.attempt.asks.ask_rows import ANY, AskRows, Key, row_of
from rm_proxy.domain import ids
from rm_proxy.domain.resources import beyond_memory_and_cpu, resources_of

__all__ = ["ANY", "MAX_PARKED", "AskEntry", "AskTable", "Key", "QPlacement", "Reason"]

MAX_PARKED: Final = 256
"""Parked request ids of one attempt from which on no new ones are made: the ResourceManager looks at each of them with
every allocate, and before 3.5.0 has no way to forget one that it did not grant (YARN-11808)."""

MAX_FORMS: Final = 256
"""Priorities and sizes of queueable containers whose rows are remembered but for what differs."""
NOWHERE: Final = ""
"""In place of a host: the ResourceManager holds no host row of an id."""
_Name = tuple[int, int, bool]
Mint = Callable[[QPlacement, int], bool]
"""Grants a container on its node under a private id, or returns that this cannot be done."""


class AskTable:
    """All asks of one application attempt.

    first_serial: private request ids are made from the numbers above it.
    """

    def __init__(self, first_serial: int = 0) -> None:
        self.serial = first_serial
        self._clear()

    def _clear(self) -> None:
        self.entries: dict[Key, AskEntry] = {}
        self.by_private: dict[int, QPlacement] = {}
        self.sums = AskSums()
        self.by_guaranteed_id: dict[int, AskEntry] = {}
        """OPPORTUNISTIC keys by the request id under which their guaranteed share is asked for as GUARANTEED."""
        self._named: dict[_Name, dict[Key, AskEntry]] = {}
        self._parked: dict[Key, list[int]] = {}
        self._parked_for: dict[int, Key] = {}
        self._to_zero: dict[int, tuple[Key, str]] = {}
        """Host rows that the ResourceManager still holds for ids that are pending no longer."""
        self._to_send: dict[int, QPlacement] = {}
        self.takes_back = False
        """Whether the request in hand may take guaranteed containers back that are wanted as queueable ones now."""

    def update(self, rows: Iterable[y.ResourceRequestProto]) -> list[AskEntry]:
        """Handle the absolute rows of a request; returns the keys that they touch, in their order."""
        touched: dict[Key, AskEntry] = {}
        for row in rows:
            key = Key.of(row)
            entry = touched.get(key)
            if entry is None:
                entry = touched[key] = self.entries.get(key) or self._new(key, row)
            entry.rows.put(row)
        return list(touched.values())

    def _new(self, key: Key, row: y.ResourceRequestProto) -> AskEntry:
        beyond = beyond_memory_and_cpu(row.capability)
        rows = AskRows(key, self._touch, self.sums.in_flight, rewritten=key.opportunistic)
        entry = self.entries[key] = AskEntry(key, resources_of(row.capability), self.sums, rows, beyond)
        if key.opportunistic and -1 <= key.request_id <= ids.MAX_REQUEST_ID and self.serial < ids.MAX_SERIAL:
            self.serial += 1
            rows.guaranteed_id = ids.private_id(self.serial, key.request_id, True)
            self.by_guaranteed_id[rows.guaranteed_id] = entry
        self._named.setdefault((key.priority, key.request_id, key.opportunistic), {})[key] = entry
        return entry

    def _touch(self, key: Key) -> None:
        self.sums.changed[key] = self.entries[key]

    def _drop(self, key: Key) -> None:
        guaranteed_id = self.entries.pop(key).rows.guaranteed_id
        if guaranteed_id is not None:
            del self.by_guaranteed_id[guaranteed_id]
        name = (key.priority, key.request_id, key.opportunistic)
        del self._named[name][key]
        if not self._named[name]:
            del self._named[name]

    def shrink(self, entry: AskEntry, count: int) -> None:
        """Take back wanted containers: first those still to be placed, then those asked for, then guaranteed ones."""
        count -= entry.drop_q(count)
        while count > 0 and entry.pending:
            self.park(next(reversed(entry.pending.values())))
            count -= 1
        entry.drop_g(count)

    # Queueable containers that are asked for

    def place(
        self, entry: AskEntry, ask: Ask, placement: Placement, host: str, rack: str, reason: Reason
    ) -> QPlacement | None:
        """Ask for one queueable container on a node, under a private id: a parked one, or a new one.

        `reason` was taken from the share with `take_q`. None when there is no id: MAX_PARKED, or 2**30 are used up.
        """
        assert placement.node is not None
        parked, row_host = self._parked.get(entry.key), NOWHERE
        private, listed = parked[-1] if parked else None, bool(parked)
        if private is not None:
            _, row_host = self._to_zero.get(private, (entry.key, NOWHERE))
            self.unpark(private)
        elif len(self._parked_for) < MAX_PARKED or entry.only_q:  # those cannot go guaranteed
            private = self._next_id(entry)
        if private is None:
            return None
        tried = {placement.node}
        q = QPlacement(private, entry, ask, placement, placement.node, host, rack, reason, reason.tries + 1, tried)
        q.listed, q.row_host = listed, row_host
        entry.attach(q)
        self.by_private[private] = self._to_send[private] = q
        return q

    def _next_id(self, entry: AskEntry) -> int | None:
        """Return a new private id; None when all are used up."""
        if self.serial >= ids.MAX_SERIAL:
            return None
        self.serial += 1
        return ids.private_id(self.serial, entry.key.request_id, entry.key.opportunistic)

    def steer(self, q: QPlacement, placement: Placement, host: str, rack: str) -> None:
        """Ask for a container that its node did not grant on another node, under the same id."""
        assert placement.node is not None
        q.placement, q.node_id, q.sent, q.minted = placement, placement.node, False, False
        q.entry.redirect(q, host, rack)
        q.tries += 1
        q.tried.add(placement.node)
        self._to_send[q.private_id] = q

    def park(self, q: QPlacement) -> None:
        """Give up a placement: its host row is zeroed, its id kept for the next one of the same key."""
        self.granted(q)
        self._to_send.pop(q.private_id, None)
        self.park_asked(q.private_id, q.entry.key, q.row_host)

    def granted(self, q: QPlacement) -> None:
        """Forget a placement whose container came; the ResourceManager has dropped the id by itself."""
        q.over = True
        q.entry.detach(q)
        self.by_private.pop(q.private_id, None)

    def close(self) -> None:
        """Note that every ask of this table is over."""
        for q in self.by_private.values():
            q.over = True

    def start_over(self) -> None:
        """Forget all asks: the application master will send them anew. Private ids are made from where they are."""
        self.close()
        self._clear()

    def unpark(self, private: int) -> None:
        """Forget a parked id and the row to be zeroed for it; an id that is not parked is ignored."""
        key = self._parked_for.pop(private, None)
        if key is not None:
            self._parked[key].remove(private)
            if not self._parked[key]:
                del self._parked[key]
        self._to_zero.pop(private, None)

    def park_asked(self, private: int, key: Key, host: str) -> None:
        """Keep an id for the next one of its key; it may be granted still. host: of its row, which is to be zeroed."""
        if private not in self.by_private and private not in self._parked_for:
            if host != NOWHERE:
                self._to_zero[private] = (key, host)
            self._parked.setdefault(key, []).append(private)
            self._parked_for[private] = key

    def rows_at_rm(self) -> Iterator[y.ResourceRequestProto]:
        """Yield a row for each that the ResourceManager may hold, the host rows of queueable ones included."""
        for entry in self.entries.values():
            for name in entry.rows.at_rm:
                yield row_of(entry.rows.key_at_rm, name, 1)
        for private, q in self.by_private.items():
            if q.listed:
                yield _q_row(q.entry.key, private, q.row_host, 1)
        for private, key in self._parked_for.items():
            host = self._to_zero[private][1] if private in self._to_zero else NOWHERE
            yield _q_row(key, private, host, 1)

    # Keys of granted containers

    def is_own_id(self, priority: int, request_id: int) -> bool:
        """Return whether the application itself uses a request id that looks like a private one."""
        return (priority, request_id, False) in self._named or (priority, request_id, True) in self._named

    def entry_of(self, private: int, priority: int, resources: Resources) -> AskEntry | None:
        """Return the key of a private id, whether the id is pending, parked or from before a restart."""
        if private in self.by_private:
            return self.by_private[private].entry
        if private in self.by_guaranteed_id:
            return self.by_guaranteed_id[private]
        if private in self._parked_for:
            return self.entries.get(self._parked_for[private])
        entry = _best(
            self._named.get((priority, ids.original_id(private), ids.asked_opportunistic(private))), resources
        )
        return entry if entry is not None and entry.resources.fits(resources) else None

    def entry_of_passed(
        self, priority: int, request_id: int, opportunistic: bool, resources: Resources
    ) -> AskEntry | None:
        """Return the key of a container that the ResourceManager granted for rows that passed under their own id."""
        return _best(self._named.get((priority, request_id, opportunistic)), resources)

    # Rows for the ResourceManager

    @property
    def busy(self) -> bool:
        """Whether a request without asks needs a look at this table at all."""
        return bool(self.sums.changed or self.by_private or self.sums.unplaced or self._to_zero)

    @property
    def dirty(self) -> bool:
        """Whether rows of ours are to be sent beside those of the application."""
        return bool(self._to_send or self._to_zero) or any(e.rows.stale for e in self.sums.changed.values())

    def rows_for_rm(self, mint: Mint | None = None) -> list[y.ResourceRequestProto]:
        """Return all rows to send with the request in hand, guaranteed and queueable, and note them as sent.

        mint: has the proxy grant a container itself where it can; what was asked for it before is taken back then.
        """
        out: list[y.ResourceRequestProto] = []
        self.takes_back = False
        for entry in self.sums.changed.values():
            rows, before = entry.rows, entry.rows.at_rm.get(ANY, 0)
            out.extend(rows.rows_for_rm())
            rows.settled()
            if rows.rewritten and before and not 0 < before <= rows.at_rm.get(ANY, 0):
                self.takes_back = True
            if entry.idle and self.entries.get(entry.key) is entry:
                self._drop(entry.key)
        self.sums.changed.clear()
        for private, (key, host) in self._to_zero.items():
            out.append(_q_row(key, private, host, 0))
        for private, q in self._to_send.items():
            key, row_host, q.sent = q.entry.key, q.row_host, True
            q.minted = mint is not None and _minted(self, q, mint)
            if row_host and (q.minted or row_host != q.host):
                out.append(_q_row(key, private, row_host, 0))
            if q.minted:
                continue
            here, anywhere = _q_row(key, private, q.host, 1), y.ResourceRequestProto()
            anywhere.CopyFrom(here)
            anywhere.resource_name = ANY
            out += here, anywhere
            q.listed, q.row_host = True, q.host
        self._to_zero.clear()
        self._to_send.clear()
        return out

    def answered(self) -> None:
        """Note that the last request was answered, and the deliveries of the answer are counted."""
        for rows in self.sums.in_flight:
            rows.answered()
        self.sums.in_flight.clear()

    def doubt(self, rows: Iterable[y.ResourceRequestProto]) -> list[y.ResourceRequestProto]:
        """Send rows again that the ResourceManager may not have seen; returns those of keys that are forgotten already.

        rows: guaranteed rows as they went out. Queueable rows need nothing: ungranted ones are steered elsewhere.
        """
        gone = []
        for row in rows:
            entry, private = entry_of_row(self, row), ids.is_private(row.allocation_request_id)
            if entry is not None:
                entry.rows.doubt(row.resource_name, row.allocation_request_id == entry.rows.guaranteed_id)
            elif not (row.num_containers or (private and Key.of(row).opportunistic)):
                gone.append(row)
        return gone


def _minted(table: AskTable, q: QPlacement, mint: Mint) -> bool:
    """Have the proxy grant a container itself; return whether it did.

    The ResourceManager never forgets an id that it did not grant: one that it has is parked, for another one.
    """
    listed_id = q.private_id if q.listed else None
    private = q.private_id if listed_id is None else table._next_id(q.entry)
    if private is None or not mint(q, private):
        return False
    if listed_id is not None:
        del table.by_private[listed_id], q.entry.pending[listed_id]
        table.by_private[private] = q.entry.pending[private] = q
        q.private_id, q.listed, q.row_host = private, False, NOWHERE
        table.park_asked(listed_id, q.entry.key, NOWHERE)
    return True


def postpone(table: AskTable, rows: Iterable[y.ResourceRequestProto]) -> list[y.ResourceRequestProto]:
    """Have rows that the ResourceManager refused sent with each request until one is answered, whoever made them.

    Returns those of keys that are forgotten already.
    """
    doubtful, gone = [], []
    for row in rows:
        entry = entry_of_row(table, row)
        if entry is not None:
            entry.rows.rewrite()
            doubtful.append(row)
        elif not row.num_containers:
            gone.append(row)
    return [*table.doubt(doubtful), *gone]


def row_count(table: AskTable) -> int:
    """Return how many rows of the application are remembered."""
    return sum(len(entry.rows.by_name) for entry in table.entries.values())


def ask_again(table: AskTable, private: int) -> None:
    """Ask for a container again on the same node, as nobody may know of the one that the proxy granted there."""
    q = table.by_private.get(private)
    if q is not None and q.minted:
        q.sent = q.minted = False
        table._to_send[private] = q


def give_up(table: AskTable) -> list[y.ResourceRequestProto]:
    """Forget all asks; returns the rows with which the ResourceManager holds them as the application sees them."""
    out = [row for entry in table.entries.values() for row in entry.rows.as_asked()]
    for q in list(table.by_private.values()):
        table.park(q)
    out += [_q_row(key, private, host, 0) for private, (key, host) in table._to_zero.items()]
    table.start_over()
    return out


def entry_of_row(table: AskTable, row: y.ResourceRequestProto) -> AskEntry | None:
    """Return the key of a guaranteed row as it went out; None when that is forgotten, or not asked for so."""
    return table.entries.get(Key.of(row)) or table.by_guaranteed_id.get(row.allocation_request_id)


def is_rewritten(table: AskTable, row: y.ResourceRequestProto) -> bool:
    """Return whether a guaranteed row that went out is ours, so that the application does not send it again."""
    entry = entry_of_row(table, row)
    if entry is not None:
        return entry.rows.rewritten
    return not Key.of(row).opportunistic and ids.is_instead(row.allocation_request_id)


def _q_row(key: Key, private: int, name: str, count: int) -> y.ResourceRequestProto:
    row = y.ResourceRequestProto()
    row.CopyFrom(_q_form(key.priority, key.capability))
    row.resource_name = name
    row.num_containers = count
    row.allocation_request_id = private
    return row


@lru_cache(MAX_FORMS)
def _q_form(priority: int, capability: bytes) -> y.ResourceRequestProto:
    """Return what the rows of queueable containers of a priority and size have in common; do not change it."""
    form = y.ResourceRequestProto()
    form.priority.priority = priority
    form.capability.ParseFromString(capability)
    form.relax_locality = True
    form.execution_type_request.execution_type = y.OPPORTUNISTIC
    form.execution_type_request.enforce_execution_type = True
    return form


def _best(named: Mapping[Key, AskEntry] | None, resources: Resources) -> AskEntry | None:
    """Prefer keys that want something, then the largest capability within what was granted (YARN rounds up)."""
    entries = list((named or {}).values())
    if len(entries) < 2:
        return entries[0] if entries else None
    within = [e for e in entries if e.resources.memory_mb <= resources.memory_mb] or entries
    return max(within, key=lambda e: (e.demand > 0, e.resources.memory_mb, e.resources.vcores))
