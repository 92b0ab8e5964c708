"""Held containers of an application attempt between its calls: events of sidecars, and waits that end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quicksilver.common.messages import ContainerEvent, EventKind
from rm_proxy.attempt.cluster_view import ClusterView
from rm_proxy.attempt.completions import Completions
from rm_proxy.attempt.effects import DropHeld, Effect
from rm_proxy.attempt.held_containers import HeldContainer, HeldContainers
from rm_proxy.attempt.registration.registration import AttemptState, Registration
from rm_proxy.attempt.routing.router import Router
from rm_proxy.attempt.routing.steering import GUARD_WAIT_S
from rm_proxy.domain import ids
from rm_proxy.estimates.estimator import worked_s

_SAME_USE: Final = (EventKind.HELD, EventKind.STARTED)
"""Events that change nothing of what an attempt is charged with."""
AWAY_S: Final = 15.0
"""Time after which no container waits for a node that starts nothing; with a silent sidecar, the hold limit has to be
over as well."""


class ContainerEvents:
    """Part of an attempt's machine that works without its connection."""

    def __init__(
        self,
        registration: Registration,
        world: ClusterView,
        live: HeldContainers,
        router: Router,
        ends: Completions,
        emit: Callable[[Effect], None],
    ) -> None:
        self._registration, self._world, self._live = registration, world, live
        self._router, self._ends, self._effect = router, ends, emit
        self.master_gone_s: float | None = None
        """When its application master's container was over; None while it is not."""
        self.answers = 0
        """How many answers its allocate requests got."""

    def hears_of(self, container_id: str) -> bool:
        """Return whether a sidecar's event of a container matters here: it is held, or its end is not reported yet."""
        return container_id in self._live or self._ends.is_untold(container_id)

    def ended(self, container_id: str) -> bool:
        """Return whether a container's end was reported, or is being reported."""
        return container_id in self._ends

    def settled(self, container_id: str) -> bool:
        """Return whether the application has confirmed a container's end, or there is none to report."""
        confirmed = container_id not in self._ends.unheard and not self.hears_of(container_id)
        came = self._registration.answer is not None or self.answers > 0
        return self._registration.state is AttemptState.FINISHED or (confirmed and came)

    def inherits(self, container_id: str) -> bool:
        """Return whether a container is this attempt's and not known here: another proxy delivered it."""
        known = self.hears_of(container_id) or container_id in self._ends
        own = ids.attempt_of_container(container_id) == self._registration.attempt_id
        return self._registration.valid and not known and own

    def inherit(self, live: HeldContainer) -> None:
        """Take over a container that was delivered before this proxy served the attempt."""
        if live.killed is not None:
            self._ends.killed_before(live)
        else:
            self._live.add(live)
            self._router.charge()

    def on_event(self, event: ContainerEvent, now_s: float) -> None:
        """Handle a sidecar's event of one of the containers."""
        live = self._live.get(event.container_id)
        if live is not None and event.kind in (EventKind.ENDED, EventKind.KILLED):
            live.worked_s = worked_s(event)
            self._live.end(live)
        self._ends.on_event(event, now_s)
        if event.kind not in _SAME_USE:
            self._router.charge()

    def give_up(self, container_id: str) -> None:
        """Release a container that its sidecar killed and cannot stop."""
        self._ends.give_up(container_id)

    def guard(self, now_s: float, away: bool = True) -> None:
        """Do all due work: report unclaimed ends, and return held containers that wait behind their own dependents.

        away: whether there may be nodes that start nothing now.
        """
        self._ends.settle(now_s)
        if away:
            self._give_up_away(now_s)
        app = self._world.apps.app(self._registration.app_id)
        if app is not None and app.type == "MAPREDUCE":
            for live in self._live.behind_own(app.type, GUARD_WAIT_S, now_s):
                reason = "deadlock guard: it waited behind containers of its own application that wait for it"
                self._withdraw(live, reason, now_s)
        self._router.charge()

    def _give_up_away(self, now_s: float) -> None:
        """Replace containers that do not start: the NodeManager stays down, or the sidecar may have died with it.

        A sidecar that is only out of reach has given its held starts up by then (hold limit).
        """
        app = self._world.apps.app(self._registration.app_id)
        for live in [c for c in self._live if c.may_be_held]:
            away = self._world.inventory.away(live.node_id, now_s)
            if away is None or app is None:
                continue
            since_s = live.held_s if live.held_s is not None else live.granted_s
            due = away.for_s if away.nm_down else now_s - since_s - self._world.inventory.hold_limit_s(app)
            if due > AWAY_S:
                self._withdraw(live, f"{live.node_id} starts nothing: {away.why}", now_s)

    def master_gone(self, now_s: float) -> None:
        """Note that the application master's container is over: no container of this attempt may start any more."""
        if self.master_gone_s is None:
            self.master_gone_s = now_s
        for live in [c for c in self._live if c.may_be_held]:
            self._withdraw(live, "its application master is gone", now_s)
        self._router.charge()

    def _withdraw(self, live: HeldContainer, reason: str, now_s: float) -> None:
        self._effect(DropHeld(live.node_id, live.id, reason))
        self._ends.preempt(live, reason, now_s)
