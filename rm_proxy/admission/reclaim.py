"""Takes elastic containers back: those beyond a share that somebody else lacks, and those that do nothing.

A core container needs nothing of this: the ResourceManager grants it, and queueable containers of its node are shrunk
for it, or killed where memory wants it; those of applications beyond their shares first. Here the rest follows: an
application that lost some to it, and has a right to them, gets them back from those that have more than their share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from policies.model import Kind, Resources
from quicksilver.common.messages import Shed
from rm_proxy.admission.admissions import Admissions
from rm_proxy.admission.governed_apps import GovernedApp
from rm_proxy.admission.idle_containers import IdleContainers
from rm_proxy.attempt.effects import Decided, Effect
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.domain.ids import app_of_container
from rm_proxy.domain.records import DecisionRecord

SHORT_S: Final = 1.0
"""How long an application lacks elastic containers of its share before others give some back."""
RETRY_S: Final = 10.0
"""After this time a container that still runs is reclaimed again."""
MAX_RECLAIMED: Final = 500
"""Containers that are reclaimed in one round."""


class Reclaimer:
    """A machine, once a round: `shed` takes the node and the container that ends."""

    def __init__(
        self,
        admissions: Admissions,
        idle: IdleContainers,
        shed: Callable[[str, Shed], None],
        has_room: Callable[[Resources], bool],
        emit: Callable[[Effect], None],
        due_s: Callable[[HeldContainer, bool, float], float] = lambda live, negotiable, now_s: now_s,
        protect_s: Callable[[str], float] = lambda queue: 0.0,
    ) -> None:
        """Prepare.

        due_s: has an application master hear of a container that will end, and returns when it may; with whether it may
        return another one instead. protect_s: returns for how long after its start a container of a YARN queue stays.
        """
        self._admissions, self._idle, self._shed, self._has_room = admissions, idle, shed, has_room
        self._emit, self._due_s, self._protect_s = emit, due_s, protect_s
        self._going: dict[str, float] = {}
        """Containers that are being reclaimed, and since when."""
        self.reclaimed = 0
        self.idled = 0
        """Containers that were given back: for others, and because they did nothing."""

    def round(self, now_s: float) -> None:
        """Reclaim what is due."""
        self._going = {cid: since_s for cid, since_s in self._going.items() if now_s < since_s + RETRY_S}
        if self._admissions.settings is None:
            return
        self._give_idle_back(now_s)
        demand = self._demand(now_s)
        if demand == Resources():
            return
        for known, live in self._beyond(now_s):
            if (demand.memory_mb <= 0 and demand.vcores <= 0) or len(self._going) >= MAX_RECLAIMED:
                return
            if live.id not in self._going and self._is_due(live, True, now_s):
                self.reclaimed += 1
                self._reclaim(live, f"{known.app.id} has more elastic containers than its share", now_s)
            demand -= live.resources

    def over_share(self) -> frozenset[str]:
        """Return the applications that have more elastic containers than their shares."""
        return frozenset(app_id for app_id, known in self._admissions.apps.items() if known.over())

    def _demand(self, now_s: float) -> Resources:
        """Return the size of what applications lack of their shares, for long and without room anywhere."""
        demand = Resources()
        for known in self._admissions.apps.values():
            under = known.under()
            known.short_since_s = (known.short_since_s or now_s) if under else None
            if known.short_since_s is None or now_s - known.short_since_s < SHORT_S:
                continue
            for priority, count in under.items():
                size = known.demand[priority].size
                if not self._has_room(size):
                    demand += Resources(size.memory_mb * count, size.vcores * count)
        return demand

    def _is_due(self, live: HeldContainer, negotiable: bool, now_s: float) -> bool:
        """Return whether a container may be reclaimed now; the first call has its application master hear of it."""
        return not live.is_started or now_s >= self._due_s(live, negotiable, now_s)

    def _is_protected(self, known: GovernedApp, live: HeldContainer, now_s: float) -> bool:
        return live.started_s is not None and now_s - live.started_s < self._protect_s(known.app.queue)

    def _beyond(self, now_s: float) -> Iterator[tuple[GovernedApp, HeldContainer]]:
        """Yield containers beyond shares: of the application that entered last first, its newest first."""
        apps = sorted(self._admissions.apps.values(), key=lambda known: (known.entered_s or 0.0, known.app.id))
        for known in reversed(apps):
            for priority, count in known.over().items():
                free = [live for live in running(known, priority) if not self._is_protected(known, live, now_s)]
                for live in free[:count]:
                    yield known, live

    def _give_idle_back(self, now_s: float) -> None:
        settings = self._admissions.settings
        assert settings is not None
        for node_id, container_id, idle_s in list(self._idle.idle()):
            known = self._holder(container_id)
            if known is None or container_id in self._going:
                continue
            limit_s = known.tags.idle_s or settings.idle_s
            live = known.attempt.live.get(container_id)
            if not limit_s or idle_s < limit_s or live is None or live.node_id != node_id or not _runs(live):
                continue
            if not self._is_due(live, False, now_s):
                continue
            self.idled += 1
            known.idle_until_s = now_s + settings.idle_hold_s
            self._reclaim(live, f"it did next to nothing for {idle_s:.0f} s", now_s)

    def _holder(self, container_id: str) -> GovernedApp | None:
        return next((known for known in self._admissions.apps.values() if container_id in known.attempt.live), None)

    def _reclaim(self, live: HeldContainer, why: str, now_s: float) -> None:
        self._going[live.id] = now_s
        self._shed(live.node_id, Shed(container_id=live.id, cause="admit", reason=why))
        record = DecisionRecord(
            at_s=now_s,
            slot="admit",
            policy=self._admissions.policy,
            app_id=app_of_container(live.id),
            container_id=live.id,
            node_id=live.node_id,
            chosen="reclaimed",
            reason=why,
        )
        self._emit(Decided(record))


def _runs(live: HeldContainer) -> bool:
    return live.kind is Kind.QUEUEABLE and live.killed is None and not (live.released or live.is_over)


def running(known: GovernedApp, priority: int) -> list[HeldContainer]:
    """Return the queueable containers of an application at a priority that are not ending, the newest first."""
    containers = [live for live in known.attempt.live if live.priority == priority and _runs(live)]
    return sorted(containers, key=lambda live: (live.started_s or live.granted_s, live.id), reverse=True)
