"""Decides anew on undelivered asks when settings changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from rm_proxy.attempt.asks.ask_entry import AskEntry, Reason
from rm_proxy.attempt.asks.ask_table import AskTable


class Decider(Protocol):
    """Gives wanted containers of a key a share: the router."""

    def decide(self, entry: AskEntry, reasons: Iterable[Reason], now_s: float, routes: bool) -> None:
        """Decide on each of the wanted containers; routes: by the route as well, not by quotas and windows alone."""


@dataclass(slots=True)
class _Part:
    """How many containers of a key are still to be decided on, for each of its shares."""

    entry: AskEntry
    queueable: int
    guaranteed: int


class Reroute:
    """One round over the keys of an ask table, over as many requests as it needs.

    routes: whether routes are asked again; else quotas and windows alone are, and only for containers that are
    queueable or were made guaranteed by a quota or a window.
    """

    def __init__(self, routes: bool) -> None:
        self.routes = routes
        self._todo: deque[_Part] | None = None

    @property
    def done(self) -> bool:
        """Whether everything was decided on."""
        return self._todo is not None and not self._todo

    def decide(self, table: AskTable, router: Decider, limit: int, answered: bool, now_s: float) -> None:
        """Decide anew on up to `limit` containers; answered: whether an answer came since the last request."""
        if self._todo is None:
            self._todo = deque(self._part(e) for e in table.entries.values())
        while self._todo and limit > 0:
            part = self._todo[0]
            recalled: list[Reason] = []
            if table.entries.get(part.entry.key) is part.entry:
                if answered and not part.entry.only_q:
                    _recall_placements(table, part.entry)
                recalled = self._recall(part, limit)
                router.decide(part.entry, recalled, now_s, self.routes)
            limit -= len(recalled)
            if limit > 0:
                self._todo.popleft()

    def _part(self, entry: AskEntry) -> _Part:
        if entry.only_q:  # only what went to the ResourceManager as it came, in bypass
            return _Part(entry, 0, entry.g_share)
        queueable = entry.q_wanted + len(entry.pending)
        return _Part(entry, queueable, sum(r.count for r in entry.g_reasons if self._concerns(r)))

    def _concerns(self, reason: Reason) -> bool:
        """Return whether a guaranteed container may be decided otherwise now."""
        return self.routes or reason.slot != "route"

    def _recall(self, part: _Part, limit: int) -> list[Reason]:
        """Take up to `limit` containers out of their shares, the oldest first; one reason for each."""
        entry, recalled = part.entry, list[Reason]()
        while part.queueable and len(recalled) < limit and (reason := entry.take_q()) is not None:
            part.queueable -= 1
            recalled.append(reason)
        remainder = min(part.guaranteed, limit - len(recalled))
        if not remainder:
            return recalled
        rest: list[Reason] = []
        for reason in entry.g_reasons:
            count = min(reason.count, remainder) if self._concerns(reason) else 0
            remainder -= count
            part.guaranteed -= count
            recalled.extend(reason.part(1) for _ in range(count))
            if reason.count > count:
                rest.append(reason.part(reason.count - count))
        entry.set_g(rest)
        return recalled


def _recall_placements(table: AskTable, entry: AskEntry) -> None:
    """Put containers that the last answer did not grant back to be placed."""
    for q in list(entry.pending.values()):
        table.park(q)
        entry.add_q(replace(q.reason, tries=q.tries))
