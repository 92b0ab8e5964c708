"""Applies changes of settings: asks are decided anew, and waiting containers beyond a lowered quota are shed.

Each container that an application asked for and did not get yet is decided on again with its next request (see
`rm_proxy.attempt.routing.reroute`). Running containers continue. Containers that wait at a node are shed, newest first,
until the rest is within the quota (Mercury §4.1); their applications ask again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from policies.config.policy_set import Policies
from policies.decisions.quotas import exceeded_quota
from policies.errors import PolicyFaultError
from policies.model import AppView, Ask, Kind, QueueView, Resources
from policies.value_types import replace
from quicksilver.common.messages import Shed
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.attempt.cluster_view import ClusterView
from rm_proxy.attempt.effects import Effect, Faulted
from rm_proxy.attempt.held_containers import HeldContainer

WATCH_S: Final = 30.0
"""How long after a change containers that were granted before it are shed as they come to their nodes."""
RETRY_S: Final = 5.0
"""After this time a container that still waits is shed again."""
MAX_SHED: Final = 1_000
"""Containers that are shed in one round; the rest with the next."""


@dataclass(slots=True)
class _HeldInQueue:
    """Containers held in a YARN queue: the queue's view, its applications by id, and the waiting containers of each."""

    queue: QueueView
    apps: dict[str, AppView] = field(default_factory=dict)
    waiting: list[tuple[HeldContainer, str]] = field(default_factory=list)


class SettingsChange:
    """A machine: changes of settings and rounds in, containers to shed out (`shed` takes node and container)."""

    def __init__(self, world: ClusterView, attempts: Mapping[str, Attempt], shed: Callable[[str, Shed], None]) -> None:
        self._world, self._attempts, self._shed = world, attempts, shed
        self._watched: dict[str, float] = {}
        """Applications whose quota changed, and until when they are looked at."""
        self._going: dict[str, float] = {}
        """Containers that are being shed, and since when."""

    def follow(self, before: Policies, after: Policies, now_s: float) -> list[Effect]:
        """Have attempts decide anew where other policies are in force now; returns faults of policies."""
        for attempt in self._attempts.values():
            app = self._world.apps.app(attempt.app_id)
            if attempt.finished or app is None:
                continue
            old, new = before.for_app(app), after.for_app(app)
            routes = old.differs(new, "route") or before.mode(app) != after.mode(app)
            quotas = old.differs(new, "quota")
            if routes or quotas or old.differs(new, "admit"):
                attempt.reconsider(routes)
            if quotas:
                self._watched[attempt.app_id] = now_s + WATCH_S
        return self.round(now_s)

    def round(self, now_s: float) -> list[Effect]:
        """Shed waiting containers beyond a quota that changed lately; returns faults of policies."""
        self._watched = {app_id: until_s for app_id, until_s in self._watched.items() if now_s < until_s}
        self._going = {cid: since_s for cid, since_s in self._going.items() if now_s < since_s + RETRY_S}
        if not self._watched:
            return []
        queues: dict[str, list[Attempt]] = {}
        for attempt in self._attempts.values():
            app = self._world.apps.app(attempt.app_id)
            if app is not None and not attempt.finished:
                queues.setdefault(app.queue, []).append(attempt)
        failed: list[Effect] = []
        for name, attempts in queues.items():
            queue = self._world.inventory.queue(name)
            if queue is not None and any(a.app_id in self._watched for a in attempts):
                failed += self._shed_over(queue, attempts, now_s)
        return failed

    def _shed_over(self, queue: QueueView, attempts: Iterable[Attempt], now_s: float) -> list[Effect]:
        """Shed the newest that wait in one YARN queue until the rest is allowed."""
        occupancy = self._occupancy(queue, attempts)
        failed: list[Effect] = []
        remainder = MAX_SHED
        for live, app_id in sorted(occupancy.waiting, key=lambda w: (w[0].granted_s, w[0].id), reverse=True):
            if app_id not in self._watched or not remainder:
                continue
            queue, app = _without(occupancy.queue, occupancy.apps[app_id], live)
            ask = Ask(app, live.priority, live.resources, expected_s=live.expected_s, retries=live.retries)
            try:
                over = exceeded_quota(self._world.policies, ask, queue)
            except PolicyFaultError as error:
                failed.append(Faulted(app_id, str(error)))
                continue
            if over is not None:
                remainder -= 1
                occupancy.queue, occupancy.apps[app_id] = queue, app
                self._going[live.id] = now_s
                self._shed(live.node_id, Shed(container_id=live.id, cause="quota", reason=over))
        return failed

    def _occupancy(self, queue: QueueView, attempts: Iterable[Attempt]) -> _HeldInQueue:
        """Return the containers that applications hold in a queue, without asks: these are decided on afterwards."""
        occupancy = _HeldInQueue(queue)
        for attempt in attempts:
            known = self._world.apps.app(attempt.app_id)
            assert known is not None
            app = attempt.live.count_in(known, 0, Resources())
            occupancy.queue = occupancy.queue.plus(app.user, Resources() - attempt.table.sums.asked_size)
            for live in attempt.live:
                if live.kind is not Kind.QUEUEABLE or live.held_s is None or live.is_started:
                    continue
                if live.id in self._going:
                    occupancy.queue, app = _without(occupancy.queue, app, live)
                else:
                    occupancy.waiting.append((live, app.id))
            occupancy.apps[app.id] = app
        return occupancy


def _without(queue: QueueView, app: AppView, live: HeldContainer) -> tuple[QueueView, AppView]:
    """Return queue and application without one of its queueable containers."""
    fewer = replace(app, live_q=app.live_q - 1, used_q=app.used_q - live.resources)
    return queue.plus(app.user, Resources() - live.resources), fewer
