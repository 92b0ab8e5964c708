"""One key of the ask tables, with the shares of its wanted containers.

Everything that a heartbeat needs is kept as a sum: nothing here is proportional
to the number of rows, except when the rows or the guaranteed share change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from policies.model import Ask, Kind, Placement, Resources, Route
from rm_proxy.attempt.asks.ask_rows import AskRows, Key


@dataclass(slots=True)
class Reason:
    """Reason why the next `count` containers of a share are in it, and the time since which they are wanted."""

    text: str
    asked_s: float
    count: int
    shadow: Kind | None = None
    """In shadow mode: the kind that the containers would have had."""
    retries: int = 0
    """How often their tasks were shed or killed before."""
    tries: int = 0
    """Nodes on which each was asked for without being granted."""
    follows: str = ""
    """The container that was shed or killed before and for which this one is asked; "" for none."""
    version: str = ""
    """Version of the settings that routed it; "" if no policy did."""
    slot: str = "route"
    """Slot whose decision made it guaranteed: quota (or admit, window) if its route had made it queueable."""

    def decided(self, route: Route) -> Reason:
        """Return the reason of the same containers once a route was chosen for them."""
        return Reason(
            route.reason,
            self.asked_s,
            self.count,
            retries=self.retries,
            tries=self.tries,
            follows=self.follows,
            version=route.version,
            slot=route.slot,
        )

    def part(self, count: int) -> Reason:
        """Return the reason of so many of its containers."""
        return Reason(
            self.text,
            self.asked_s,
            count,
            self.shadow,
            self.retries,
            self.tries,
            self.follows,
            self.version,
            self.slot,
        )

    def alike(self, peer: Reason) -> bool:
        """Return whether they differ in the number of containers at most."""
        return (
            self.asked_s == peer.asked_s
            and self.text == peer.text
            and self.version == peer.version
            and self.follows == peer.follows
            and self.tries == peer.tries
            and self.retries == peer.retries
            and self.slot == peer.slot
            and self.shadow == peer.shadow
        )


@dataclass(slots=True, eq=False)
class QPlacement:
    """A queueable container that was asked for under a private request id and is not granted yet."""

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
    """Ids of the nodes on which it was asked for."""
    sent: bool = False
    """Whether the ResourceManager was asked for it on this node."""
    minted: bool = False
    """Whether the proxy grants it itself, so that the ResourceManager was not asked for it."""
    listed: bool = False
    """Whether the ResourceManager may have its request id in its list of asks."""
    row_host: str = ""
    """Host whose row the ResourceManager may hold under that id; "" for none."""
    over: bool = False
    """Whether its ask is over: granted, given up, or forgotten."""


@dataclass(slots=True)
class AskSums:
    """State shared by all keys of a table: sums, and the keys that changed since the last request."""

    changed: dict[Key, AskEntry] = field(default_factory=dict)
    unplaced: dict[Key, AskEntry] = field(default_factory=dict)
    """Keys with queueable containers that are still to be placed."""
    open_q: int = 0
    """Queueable containers wanted: to be placed, or asked for."""
    asked_size: Resources = field(default_factory=Resources)
    """Size of those that are asked for at a node."""
    asked_g: int = 0
    """Containers of the guaranteed shares: asked for, and not delivered yet."""
    asked_g_size: Resources = field(default_factory=Resources)
    """Size of those."""
    version: int = 0
    """Grows with each change of a share."""
    in_flight: list[AskRows] = field(default_factory=list)
    """Keys of which rows stand in the request that is not answered yet."""


@dataclass(slots=True, eq=False)
class AskEntry:
    """One key: its rows, and the guaranteed and the queueable share of its wanted containers."""

    key: Key
    resources: Resources
    sums: AskSums
    rows: AskRows
    beyond: bool = False
    """Whether it asks for resources other than memory and vcores."""
    q_wanted: int = 0
    pending: dict[int, QPlacement] = field(default_factory=dict)
    g_reasons: deque[Reason] = field(default_factory=deque)
    q_reasons: deque[Reason] = field(default_factory=deque)

    @property
    def demand(self) -> int:
        """How many containers the application wants."""
        return self.rows.demand

    @property
    def g_share(self) -> int:
        """Containers of the guaranteed share."""
        return self.rows.guaranteed

    @property
    def only_q(self) -> bool:
        """Whether no container of it may be guaranteed: the application enforces OPPORTUNISTIC.

        Without that flag YARN may give it a guaranteed one instead.
        """
        return self.key.opportunistic and (self.rows.enforced or self.rows.guaranteed_id is None)

    @property
    def undecided(self) -> int:
        """Containers wanted beyond the shares; negative when the application wants fewer than it did."""
        rows = self.rows
        return rows.demand - rows.guaranteed - self.q_wanted - len(self.pending)

    # Shares

    def add_g(self, reason: Reason, as_it_came: bool = False) -> None:
        """Put `reason.count` wanted containers into the guaranteed share.

        as_it_came: whether an OPPORTUNISTIC ask goes to the ResourceManager as such, as it does where that is enforced.
        A key that is asked for as GUARANTEED already stays so.
        """
        if self.only_q:
            self.rows.ask_as(guaranteed=False)
        elif self.key.opportunistic and not as_it_came:
            self.rows.ask_as(guaranteed=True)
        self._set_g(self.g_share + reason.count)
        _append(self.g_reasons, reason)

    def add_q(self, reason: Reason) -> None:
        """Put `reason.count` wanted containers into the queueable share, to be placed."""
        self.rows.rewrite()
        self._set_q(self.q_wanted + reason.count)
        _append(self.q_reasons, reason)

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

    def cut_q(self, limit: int) -> list[Reason]:
        """Take up to `limit` containers out of those still to be placed at once; return their reasons with counts."""
        count = min(limit, self.q_wanted)
        if count <= 0:
            return []
        self._set_q(self.q_wanted - count)
        return _cut(self.q_reasons, count)

    def attach(self, q: QPlacement) -> None:
        """Count a placement as asked for."""
        sums = self.sums
        self.pending[q.private_id] = q
        sums.version += 1
        sums.open_q += 1
        sums.changed[self.key] = self
        sums.asked_size += self.resources
        self.rows.point(q.host, q.rack, 1)

    def detach(self, q: QPlacement) -> None:
        """Count a placement no longer; nothing happens to one that is not counted."""
        if self.pending.pop(q.private_id, None) is not None:
            sums = self.sums
            sums.version += 1
            sums.open_q -= 1
            sums.changed[self.key] = self
            sums.asked_size -= self.resources
            self.rows.point(q.host, q.rack, -1)

    def redirect(self, q: QPlacement, host: str, rack: str) -> None:
        """Count a placement at another host."""
        self.sums.changed[self.key] = self
        self.rows.point(q.host, q.rack, -1)
        q.host, q.rack = host, rack
        self.rows.point(host, rack, 1)

    def _set_g(self, count: int) -> None:
        more = count - self.g_share
        self.sums.version += 1
        self.sums.asked_g += more
        self.sums.asked_g_size += times(self.resources, more)
        self.rows.set_guaranteed(count)

    def _set_q(self, count: int) -> None:
        sums, key = self.sums, self.key
        sums.version += 1
        sums.open_q += count - self.q_wanted
        sums.changed[key] = self
        self.q_wanted = count
        if count:
            sums.unplaced[key] = self
        else:
            sums.unplaced.pop(key, None)

    @property
    def idle(self) -> bool:
        """Whether nothing is wanted and the ResourceManager holds nothing of it."""
        rows = self.rows
        return not (self.q_wanted or self.pending or rows.guaranteed or rows.at_rm or rows.demand)


def times(size: Resources, count: int) -> Resources:
    """Return the size of so many containers together."""
    return Resources(size.memory_mb * count, size.vcores * count)


def _append(reasons: deque[Reason], new: Reason) -> None:
    last = reasons[-1] if reasons else None
    if last is not None and last.alike(new):
        last.count += new.count
    else:
        reasons.append(new)


def _cut(reasons: deque[Reason], count: int) -> list[Reason]:
    """Take the first `count` containers off; the cost does not depend on their number."""
    taken: list[Reason] = []
    while count > 0:
        first = reasons[0]
        if first.count <= count:
            count -= first.count
            taken.append(reasons.popleft())
        else:
            first.count -= count
            taken.append(first.part(count))
            count = 0
    return taken


def _pop(reasons: deque[Reason]) -> Reason:
    first = reasons[0]
    if first.count == 1:
        return reasons.popleft()
    first.count -= 1
    return first.part(1)
