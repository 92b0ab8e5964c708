"""Asks that are decided anew because settings changed: what was asked for and not delivered yet."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policies.errors import PolicyFaultError
from policies.model import AppView, Ask, Kind, QueueView, Route
from rm_proxy.attempt.ask_entry import AskEntry, Reason

if TYPE_CHECKING:
    from rm_proxy.attempt.router import Router


@dataclass(frozen=True, slots=True)
class Credit:
    """A task whose container was shed or killed, and that will be asked for again."""

    retries: int = 0
    """How often it was lost so far."""
    follows: str = ""
    """The container that was lost last."""


@dataclass(slots=True)
class _Part:
    """How many containers of a key are still to be decided on, by the share that they are in."""

    entry: AskEntry
    queueable: int
    guaranteed: int


class Reroute:
    """One round over the keys of an application attempt, as long as its requests need for it.

    routes: whether routes are asked again; else quotas and windows alone, of what is queueable, or would be but for
    them.
    """

    def __init__(self, routes: bool) -> None:
        self.routes = routes
        self._todo: deque[_Part] | None = None

    @property
    def done(self) -> bool:
        """Whether everything was decided on."""
        return self._todo is not None and not self._todo

    def decide(self, router: Router, most: int, answered: bool, now_s: float) -> None:
        """Decide anew on up to `most` containers; answered: whether an answer came since the last request."""
        if router.app is None:
            return
        if self._todo is None:
            self._todo = deque(self._part(e) for e in router.table.entries.values())
        while self._todo and most > 0:
            part = self._todo[0]
            taken: list[Reason] = []
            if router.table.entries.get(part.entry.key) is part.entry:
                if answered and not part.entry.key.opportunistic:
                    _take_back(router, part.entry)
                taken = self._recall(part, most)
                self._decide(router, part.entry, taken, now_s)
            most -= len(taken)
            if most > 0:
                self._todo.popleft()

    def _part(self, entry: AskEntry) -> _Part:
        if entry.key.opportunistic:  # only what went to the ResourceManager as it came, in bypass
            return _Part(entry, 0, entry.g_share)
        queueable = entry.q_wanted + len(entry.pending)
        return _Part(entry, queueable, sum(r.count for r in entry.g_reasons if self._concerns(r)))

    def _concerns(self, reason: Reason) -> bool:
        """Tell whether a guaranteed container may be decided otherwise now."""
        return self.routes or reason.slot != "route"

    def _recall(self, part: _Part, most: int) -> list[Reason]:
        """Take up to `most` containers out of their shares, the oldest first; one reason for each."""
        entry, taken = part.entry, list[Reason]()
        while part.queueable and len(taken) < most and (reason := entry.take_q()) is not None:
            part.queueable -= 1
            taken.append(reason)
        left = min(part.guaranteed, most - len(taken))
        if not left:
            return taken
        kept: list[Reason] = []
        for reason in entry.g_reasons:
            count = min(reason.count, left) if self._concerns(reason) else 0
            left -= count
            part.guaranteed -= count
            taken.extend(replace(reason, count=1) for _ in range(count))
            if reason.count > count:
                kept.append(replace(reason, count=reason.count - count))
        entry.set_g(kept)
        return taken

    def _decide(self, router: Router, entry: AskEntry, taken: Sequence[Reason], now_s: float) -> None:
        """Give each of the containers that were taken out of the shares of a key a share."""
        router.charge()
        app = router.app
        always = router.always_guaranteed(entry, app)
        if app is None or always is not None:
            for reason in taken:
                entry.add_g(replace(reason, text=always or reason.text, slot="route", shadow=None, tries=0))
            return
        if entry.key.opportunistic:
            for reason in taken:
                entry.add_q(replace(reason, text="the application asked for an OPPORTUNISTIC container", tries=0))
            return
        queue, mode = router.world.queue(app.queue) or QueueView(app.queue), router.world.mode(app)
        refusals: Counter[Route] = Counter()
        for reason in taken:
            ask = router.retry(router.ask(entry, app), Credit(reason.retries, reason.follows))
            chosen = router.choose(ask, queue, now_s) if self.routes else _allowed(router, ask, queue, reason, now_s)
            if chosen.kind is Kind.QUEUEABLE:
                queue, app = queue.plus(app.user, entry.resources), one_more(app, entry)
            elif chosen.slot != "route":
                refusals[chosen] += 1
            share(entry, chosen, reason, mode)
            if mode != "shadow" and chosen.kind is Kind.GUARANTEED:
                router.world.cancel_move(reason.follows)
        router.verdicts.refused(app, refusals, now_s)


def _take_back(router: Router, entry: AskEntry) -> None:
    """Have those placed anew that the last answer did not grant."""
    for q in list(entry.pending.values()):
        router.table.park(q)
        entry.add_q(replace(q.reason, tries=q.tries))


def _allowed(router: Router, ask: Ask, queue: QueueView, reason: Reason, now_s: float) -> Route:
    """Return the route of a container whose route stands, by quotas and windows alone."""
    words = reason.text if reason.slot == "route" else f"allowed now; before: {reason.text}"
    try:
        return router.world.policies.allow(Route(Kind.QUEUEABLE, words), ask, queue, router.world.rng, now_s)
    except PolicyFaultError as error:
        return router.faulted(error)


def one_more(app: AppView, entry: AskEntry) -> AppView:
    """Return the application with one more queueable container of a key."""
    return replace(app, live_q=app.live_q + 1, used_q=app.used_q + entry.resources)


def share(entry: AskEntry, chosen: Route, reason: Reason, mode: str) -> None:
    """Put one container into the share that was chosen for it; in shadow mode it is guaranteed whatever that is."""
    reason = replace(reason, text=chosen.reason, slot=chosen.slot, version=chosen.version, shadow=None)
    if mode == "shadow":
        text = f"shadow mode: {chosen.kind} ({chosen.reason})"
        entry.add_g(replace(reason, text=text, shadow=chosen.kind, tries=0))
    elif chosen.kind is Kind.QUEUEABLE:
        entry.add_q(reason)
    else:
        entry.add_g(replace(reason, tries=0))
