"""What the other workers report: it becomes part of this worker's picture of the cluster."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from policies.errors import PolicyFaultError
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.workers.news import InLine, News, is_used, own_of
from rm_proxy.coordinator.workers.outbox import SharedLine, SharedUsage

_NO_CHARGE: Final = ("", "", 0, 0.0, 0, 0.0, 0, 0.0)


class _PeerState:
    """What one worker reported, by name, so that it can be taken back."""

    def __init__(self) -> None:
        self.places: dict[str, tuple[str, ...]] = {}
        """By node: the keys of its containers there."""
        self.charges: set[str] = set()
        self.line: set[str] = set()
        self.outlooks: set[str] = set()


class Peers:
    """A machine: news of the other workers in, which change the coordinator."""

    def __init__(self, coordinator: Coordinator, usage: SharedUsage, line: SharedLine) -> None:
        self._coordinator, self._usage, self._line = coordinator, usage, line
        self._known: dict[int, _PeerState] = {}

    def take(self, worker: int, news: News) -> None:
        """Handle the news of a worker."""
        if news.whole:
            self.forget(worker)
        known = self._known.setdefault(worker, _PeerState())
        self._places(known, news)
        for attempt_id, charge in news.charges.items():
            self._usage.charge_elsewhere(attempt_id, charge)
            (known.charges.add if is_used(charge) else known.charges.discard)(attempt_id)
        for attempt_id, in_line in news.line.items():
            with suppress(PolicyFaultError):  # its own worker counts the fault; it has no rank here either
                self._line.waits_elsewhere(attempt_id, in_line)
            (known.line.discard if in_line.demand is None else known.line.add)(attempt_id)
        for apart in news.apart:
            self._line.placed_elsewhere(apart)
        elsewhere = self._coordinator.durations.outlook.elsewhere
        for app_id, outlook in news.outlooks.items():
            if outlook is None:
                elsewhere.pop(app_id, None)
                known.outlooks.discard(app_id)
            else:
                elsewhere[app_id] = outlook
                known.outlooks.add(app_id)

    def _places(self, known: _PeerState, news: News) -> None:
        for node_id, places in news.places.items():
            before, node = known.places.pop(node_id, ()), self._coordinator.nodes.get(node_id)
            if node is None:
                continue
            node.replace_reserved(before, {key: own_of(place) for key, place in places.items()})
            if places:
                known.places[node_id] = tuple(places)

    def forget(self, worker: int) -> None:
        """Take back all that a worker reported: the one that replaces it reports anew."""
        known = self._known.pop(worker, None)
        if known is None:
            return
        self._places(known, News(places={node_id: {} for node_id in known.places}))
        for attempt_id in known.charges:
            self._usage.charge_elsewhere(attempt_id, _NO_CHARGE)
        for attempt_id in known.line:
            self._line.waits_elsewhere(attempt_id, InLine(0.0))
        for app_id in known.outlooks:
            self._coordinator.durations.outlook.elsewhere.pop(app_id, None)
