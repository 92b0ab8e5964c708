"""Collects what the other workers have to know of this one, and the parts of the coordinator that report it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from policies.model import AppView, Resources
from rm_proxy.attempt.asks.ask_entry import QPlacement
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.coordinator.cluster_state import ClusterState
from rm_proxy.coordinator.job_outlook import Outlook
from rm_proxy.coordinator.moves import Mover
from rm_proxy.coordinator.nodes.nodes import Node
from rm_proxy.coordinator.placement import Placer
from rm_proxy.coordinator.queue_usage import AllUsage
from rm_proxy.coordinator.workers.news import (
    Charge,
    InLine,
    News,
    Place,
    PlacedApart,
    charge_of,
    demand_of,
    demand_tuple,
    is_used,
    place_of,
    sizes_of,
    sizes_tuple,
)
from rm_proxy.coordinator.workers.spread import Spread
from rm_proxy.dispatch.central_queue import CentralQueue
from rm_proxy.dispatch.free_places import FreePlaces, LabelledSize
from rm_proxy.dispatch.group_queue import Demand
from rm_proxy.dispatch.shares import Shares

_NOTHING: Final = Resources()
_DIFFERS_RATIO: Final = 0.1
"""An outlook is passed on when a figure of it changed by more than this part."""


class Outbox:
    """A machine: changes of this worker's applications in, news out.

    changed: called when there is news to take, with whether it is urgent: whether others might take what is taken.
    """

    def __init__(self, spread: Spread) -> None:
        self.changed: Callable[[bool], None] = lambda urgent: None
        self._spread = spread
        self._news = News()
        self._nodes: dict[str, None] = {}
        """Nodes whose places have to be looked at."""
        self._places: dict[str, dict[str, Place]] = {}
        """By node: the places that the others know."""
        self._charges: dict[str, Charge] = {}
        self._demands: dict[str, tuple[tuple[Any, ...], float]] = {}
        self._outlooks: dict[str, Outlook] = {}

    def is_own(self, node_id: str) -> bool:
        """Return whether a node reports to this worker."""
        return self._spread.of_node(node_id) == self._spread.own

    # Changes

    def charge(self, attempt_id: str, charge: Charge) -> None:
        """Note what an attempt uses now."""
        before = self._charges.get(attempt_id)
        if before == charge:
            return
        if is_used(charge):
            self._charges[attempt_id] = charge
        elif self._charges.pop(attempt_id, None) is None:
            return
        self._news.charges[attempt_id] = charge
        self.changed(before is None or charge[2] > before[2] or charge[4] > before[4])

    def waits(
        self, attempt_id: str, demand: Demand | None, now_s: float, placed: int, full: Collection[LabelledSize] = ()
    ) -> None:
        """Note what an attempt waits for in the central queue, None for nothing."""
        fields = None
        if demand is not None:
            fields = demand_tuple(demand)
            self._demands[attempt_id] = fields, now_s
        else:
            self._demands.pop(attempt_id, None)
        before = self._news.line.get(attempt_id)
        if before is not None:
            placed += before.placed
        self._news.line[attempt_id] = InLine(now_s, fields, placed, sizes_tuple(dict.fromkeys(full, 0)))
        self.changed(fields is not None)

    def apart(self, placed: PlacedApart) -> None:
        """Note that an application got places without waiting."""
        self._news.apart.append(placed)
        self.changed(False)

    def place(self, node_id: str, *, urgent: bool) -> None:
        """Note that the containers on their way to a node changed; urgent: there is one more."""
        self._nodes[node_id] = None
        self.changed(urgent)

    def report(self, node_id: str) -> None:
        """Note that a node reported: containers that are there now are on their way no more."""
        if node_id in self._places:
            self.place(node_id, urgent=False)

    def round(self, attempts: Collection[Attempt], outlook_of: Callable[[str], Outlook]) -> None:
        """Look once a second for places that were given up, and for new outlooks of applications with containers."""
        self._nodes.update(dict.fromkeys(self._places))
        known = {attempt.app_id: outlook_of(attempt.app_id) for attempt in attempts if len(attempt.live)}
        for app_id, outlook in known.items():
            before = self._outlooks.get(app_id)
            if before is None or _differs(before, outlook):
                self._outlooks[app_id] = self._news.outlooks[app_id] = outlook
        for app_id in self._outlooks.keys() - known.keys():
            del self._outlooks[app_id]
            self._news.outlooks[app_id] = None
        self.changed(False)

    # News

    def take(self, nodes: Mapping[str, Node]) -> News:
        """Return the news since the last call; nodes: as they are now."""
        news, self._news = self._news, News()
        for node_id in self._nodes:
            now, before = self._places_at(nodes.get(node_id)), self._places.get(node_id, {})
            if now != before:
                news.places[node_id] = now
            if now:
                self._places[node_id] = now
            else:
                self._places.pop(node_id, None)
        self._nodes.clear()
        return news

    def whole(self) -> News:
        """Return all that the others knew up to the last news."""
        line = {attempt_id: InLine(now_s, fields) for attempt_id, (fields, now_s) in self._demands.items()}
        return News(
            whole=True,
            places=dict(self._places),
            charges=dict(self._charges),
            line=line,
            outlooks=dict[str, Outlook | None](self._outlooks),
        )

    def _places_at(self, node: Node | None) -> dict[str, Place]:
        """Return this worker's containers on their way to a node; those without an id are numbered."""
        places: dict[str, Place] = {}
        for key, own in (node.own if node is not None else {}).items():
            if not own.reserved:  # those of other workers are
                name = key if isinstance(key, str) else f"{self._spread.own}/{len(places)}"
                places[name] = place_of(own)
        return places


class SharedUsage(AllUsage):
    """The use of YARN queues, which the other workers get to know."""

    def __init__(self, outbox: Outbox) -> None:
        super().__init__()
        self._outbox = outbox

    def charge(
        self,
        attempt_id: str,
        queue: str,
        user: str,
        used_q: Resources,
        used_g: Resources,
        over_q: Resources = _NOTHING,
    ) -> None:
        """Replace what an attempt was charged with."""
        super().charge(attempt_id, queue, user, used_q, used_g, over_q)
        self._outbox.charge(attempt_id, charge_of(queue, user, used_q, used_g, over_q))

    def charge_elsewhere(self, attempt_id: str, charge: Charge) -> None:
        """Replace what an attempt of another worker was charged with."""
        queue, user, *amounts = charge
        sizes = (Resources(*amounts[at : at + 2]) for at in (0, 2, 4))  # type: ignore[arg-type]
        super().charge(attempt_id, queue, user, *sizes)


class SharedLine(CentralQueue):
    """The central queue with the applications of all workers."""

    def __init__(self, outbox: Outbox, free: FreePlaces, key: Callable[..., tuple[float, ...]], shares: Shares) -> None:
        super().__init__(free, key, shares)
        self._outbox = outbox

    def waits(
        self,
        attempt_id: str,
        demand: Demand,
        now_s: float,
        placed: int = 0,
        full: Collection[LabelledSize] = (),
    ) -> None:
        """Handle a message of an application: what it wants now."""
        self._outbox.waits(attempt_id, demand, now_s, placed, full)
        super().waits(attempt_id, demand, now_s, placed, full)

    def waits_no_more(self, attempt_id: str, placed: int = 0, now_s: float = 0.0) -> None:
        """Forget an application."""
        self._outbox.waits(attempt_id, None, now_s, placed)
        super().waits_no_more(attempt_id, placed, now_s)

    def placed(self, app: AppView, sizes: Mapping[LabelledSize, int], count: int, now_s: float) -> None:
        """Note that an application of which it did not know got places."""
        self._outbox.apart(PlacedApart(app.queue, app.user, sizes_tuple(sizes), count, now_s))
        super().placed(app, sizes, count, now_s)

    def waits_elsewhere(self, attempt_id: str, news: InLine) -> None:
        """Handle what an application of another worker wants. Raises PolicyFaultError."""
        if news.demand is None:
            super().waits_no_more(attempt_id, news.placed, news.now_s)
        else:
            full = sizes_of(news.full)
            super().waits(attempt_id, demand_of(news.demand), news.now_s, news.placed, full)

    def placed_elsewhere(self, news: PlacedApart) -> None:
        """Note that an application of another worker got places, and did not wait."""
        app = AppView("", queue=news.queue, user=news.user)
        super().placed(app, sizes_of(news.sizes), news.placed, news.now_s)


class SharedPlacer(Placer):
    """Chooses nodes, of those alike one that reports to this worker; the other workers get to know which."""

    def __init__(self, outbox: Outbox, state: ClusterState, mover: Mover) -> None:
        super().__init__(state, mover)
        self._outbox = outbox
        state.ranking.is_own = outbox.is_own

    def count_asked(self, q: QPlacement) -> None:
        """Count a queueable container at the node where it is asked for."""
        super().count_asked(q)
        self._outbox.place(q.node_id, urgent=True)

    def count_granted(self, live: HeldContainer, q: QPlacement | None) -> None:
        """Count a queueable container at its node until the sidecar mentions it."""
        super().count_granted(live, q)
        self._outbox.place(live.node_id, urgent=q is None)


def shared_parts(
    outbox: Outbox,
) -> tuple[SharedUsage, Callable[..., SharedLine], Callable[[ClusterState, Mover], SharedPlacer]]:
    """Return the parts that a worker's coordinator has in place of its own."""
    return SharedUsage(outbox), partial(SharedLine, outbox), partial(SharedPlacer, outbox)


def _differs(before: Outlook, now: Outlook) -> bool:
    if before.expected.keys() != now.expected.keys() or before.idle_s != now.idle_s:
        return True
    figures = [(before.attained_s, now.attained_s), (before.remaining_s, now.remaining_s)]
    figures += [(before.expected[stage].mean_s, known.mean_s) for stage, known in now.expected.items()]
    return any(abs(new - old) > _DIFFERS_RATIO * old for old, new in figures)
