"""Which applications are in service, and how many elastic containers each of them may have (Zoe, §3).

The `admit` policy decides, over all applications at once, when one comes or ends, and each second. What it decides is a
virtual assignment; a container without a node asks for its part of it (`portion`) with each request of its application.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from policies.common.app_admission import AppAdmission
from policies.config.policy_set import Policies
from policies.errors import PolicyFaultError
from policies.model import AppView, Portion, Resources
from policies.requests import Room
from rm_proxy.admission.demand import Demand, core_need, demand_of
from rm_proxy.admission.governed_apps import GovernedApp
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.domain.ids import app_of_attempt

FEW: Final = 50
"""Applications up to which each arrival and each departure is decided on at once."""
DECIDE_S: Final = 0.001
"""For each one more: how long after a decision a request may cause the next one; a round always does."""
CORE_WAIT_S: Final = 30.0
"""How long an application in service may lack core containers before no other one is admitted; after twice that the
one admitted last goes back, if another one lacks some, too: both may hold what the other one needs."""
NEXT_MASTER_S: Final = 60.0
"""How long after the end of an application master in service no other application is admitted: the ResourceManager
shows the place as free before it allocates it to the next one."""
NOT_KNOWN: Final = "it has just come"
_NOWHERE: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class AdmissionWorld:
    """Methods of the coordinator that the admission calls."""

    policies: Callable[[], Policies]
    living: Callable[[], Iterable[Attempt]]
    app: Callable[[str], AppView | None]
    active: Callable[[AppView], bool]
    """Returns whether the proxy decides on an application."""
    room: Callable[[Mapping[str, Resources], Mapping[tuple[str, str], Resources]], Room]
    """Returns the room; given what admitted applications hold as guaranteed, by YARN queue, and by queue and user."""
    crowded: Callable[[Resources], frozenset[str]]
    """Returns the hosts without room for a container of this size; none where no host has room."""
    failed: Callable[[str], None]
    """Called with the fault of a policy."""


class Admissions:
    """A machine: applications and room in, portions out."""

    def __init__(self, world: AdmissionWorld) -> None:
        self.apps: dict[str, GovernedApp] = {}
        """By id, those with any demand."""
        self._world = world
        self._stale = True
        self._next_s = 0.0
        """When a request may cause the next decision."""
        self._departed = False
        self._now_s = 0.0
        """Time of the last decision, or question."""
        self._room = Room(Resources())

    @property
    def settings(self) -> AppAdmission | None:
        """The settings of the policy in force; None where whole applications are not admitted."""
        return self._world.policies().for_nodes.cluster.admission

    def admits_whole(self) -> bool:
        """Return whether applications are admitted as a whole, so that none may ask before its record is known."""
        return self.settings is not None

    @property
    def policy(self) -> str:
        """The name of the policy in force."""
        return self._world.policies().for_nodes.policy_name("admit")

    @property
    def room(self) -> Room:
        """The room as of the last decision."""
        return self._room

    def governs(self, app: AppView) -> bool:
        """Return whether an application is admitted as a whole."""
        policies = self._world.policies()
        same = policies.for_app(app).choices["admit"] is policies.for_nodes.choices["admit"]
        return (
            self.settings is not None and same and policies.for_app(app).listed(app.queue) and self._world.active(app)
        )

    def portion(self, attempt_id: str, priority: int, now_s: float) -> Portion | None:
        """Return what an application has left of its share at a priority; None where it is not admitted as a whole."""
        app = self._world.app(app_of_attempt(attempt_id))
        if app is None or not self.governs(app):
            return None
        self._now_s = now_s
        if (self._stale or app.id not in self.apps) and now_s >= self._next_s:
            self.decide(now_s)
        known = self.apps.get(app.id)
        if known is None or known.attempt.id != attempt_id:
            return Portion(False, why=NOT_KNOWN)
        if known.entered_s is None:
            return Portion(False, why=known.why or NOT_KNOWN)
        demand = demand_of(known.attempt)
        at = demand.get(priority)
        remainder = known.shares.get(priority, 0) - (at.queueable if at is not None else 0)
        known.complete = known.complete or not known.need.lacks(demand)
        elastic = max(0, remainder) if known.complete and now_s >= known.idle_until_s else 0
        return Portion(True, known.need.remainder(demand, priority), elastic)

    def crowded(self, app_id: str) -> frozenset[str]:
        """Return hosts without room for the core containers that an application asked for, while others have room."""
        known = self.apps.get(app_id)
        return known.crowded if known is not None else _NOWHERE

    def departed(self, app_id: str) -> None:
        """Note that an attempt of an application is over."""
        if app_id in self.apps:
            self._stale = True
            if len(self.apps) <= FEW:
                self.decide(self._now_s)

    def clear(self) -> None:
        """Forget all: another proxy decides now."""
        self.apps.clear()
        self._stale = True

    def decide(self, now_s: float) -> None:
        """Have the policy decide anew."""
        self._stale, self._now_s = False, now_s
        settings = self.settings
        if settings is None:
            self.apps.clear()
            return
        self._follow(settings, now_s)
        self._next_s = now_s + DECIDE_S * max(0, len(self.apps) - FEW)
        freed, self._departed = self._departed, False
        room = self._world.room(*self._usage())
        freed = freed or _grew(self._room, room)
        self._room = room
        stalled = self._stalled(now_s)
        requests = {known.app.id: known.request(settings, now_s) for known in self.apps.values()}
        for known in self.apps.values():
            size = requests[known.app.id].whole_size
            freed = freed or (known.entered_s is not None and not known.whole.fits(size))
            known.whole = size
        candidates = [r for r in requests.values() if not stalled or r.entered_s is not None]
        try:
            answer = self._world.policies().for_nodes.cluster.assign(candidates, room, freed, now_s)
        except PolicyFaultError as error:
            self._world.failed(str(error))
            return
        self._note(answer.shares, {**answer.waits, **{r.id: stalled for r in requests.values() if stalled}}, now_s)

    def _follow(self, settings: AppAdmission, now_s: float) -> None:
        """Learn which applications there are, and what each of them wants."""
        present = {}
        for attempt in self._world.living():
            app = self._world.app(attempt.app_id)
            if app is None or not self.governs(app):
                continue
            known = self.apps.get(app.id)
            if known is None:
                demand = demand_of(attempt)
                if not demand:
                    continue
                known = _new(settings, app, attempt, demand, now_s)
            known.follow(app, attempt)
            present[app.id] = known
        self._departed = self._departed or any(
            known.entered_s is not None for app_id, known in self.apps.items() if app_id not in present
        )
        self.apps = present

    def _usage(self) -> tuple[dict[str, Resources], dict[tuple[str, str], Resources]]:
        by_queue: dict[str, Resources] = {}
        by_user: dict[tuple[str, str], Resources] = {}
        for known in self.apps.values():
            if not known.attempt.live.by_priority:
                continue
            used, app = known.attempt.live.used_g - known.attempt.live.over_g, known.app
            by_queue[app.queue] = by_queue.get(app.queue, Resources()) + used
            by_user[app.queue, app.user] = by_user.get((app.queue, app.user), Resources()) + used
        return by_queue, by_user

    def _stalled(self, now_s: float) -> str:
        """Return why nobody is admitted now: somebody in service waits for its core, or its next master; "" if nobody.

        Where two of them wait for long, the one that was admitted last goes back and returns its containers.
        """
        late = []
        for known in self.apps.values():
            lacks = known.entered_s is not None and known.core_left() > 0
            known.core_since_s = (known.core_since_s or now_s) if lacks else None
            if known.core_since_s is not None and now_s - known.core_since_s > CORE_WAIT_S:
                late.append(known)
        if not late:
            between = (known.app.id for known in self.apps.values() if _between_masters(known, now_s))
            return next((f"{app_id} is in service and waits for its next application master" for app_id in between), "")
        late.sort(key=lambda known: (known.entered_s or 0.0, known.app.id))
        last = late[-1]
        if len(late) > 1 and now_s - (last.core_since_s or now_s) > 2 * CORE_WAIT_S:
            last.entered_s, last.core_since_s, last.shares = None, None, {}
            last.attempt.reconsider(routes=True)
            for live in list(last.attempt.live):
                last.attempt.containers.give_up(live.id)
        return f"{late[0].app.id} is in service and waits for its core containers"

    def _note(self, shares: Mapping[str, Mapping[int, int]], waits: Mapping[str, str], now_s: float) -> None:
        for app_id, known in self.apps.items():
            share = shares.get(app_id)
            if share is None and known.entered_s is None:
                known.why = waits.get(app_id, NOT_KNOWN)
                continue
            if share is None:
                continue  # a policy that leaves out one in service changes nothing
            if known.entered_s is None:
                known.entered_s, known.why = now_s, ""
            known.shares = share
        for known in self.apps.values():
            sizes = [at.size for at in known.demand.values() if at.asked_g]
            largest = max(sizes, key=lambda size: (size.memory_mb, size.vcores), default=None)
            known.crowded = self._world.crowded(largest) if largest is not None else _NOWHERE


def _between_masters(known: GovernedApp, now_s: float) -> bool:
    gone_s = known.attempt.containers.master_gone_s
    return known.entered_s is not None and gone_s is not None and now_s - gone_s < NEXT_MASTER_S


def _new(settings: AppAdmission, app: AppView, attempt: Attempt, demand: Demand, now_s: float) -> GovernedApp:
    """Return an application with its first demand; one that holds containers already was admitted before."""
    known = GovernedApp(app, attempt, core_need(settings.core_of(app.type, app.queue), {}, demand), came_s=now_s)
    if known.tags.core:
        known.need = core_need("all", known.tags.core, demand)
    if any(at.held_g or at.held_q for at in demand.values()):
        known.entered_s = app.submitted_s
        known.shares = {priority: at.queueable for priority, at in demand.items()}
    return known


def _grew(before: Room, now: Room) -> bool:
    """Return whether there is more room than before."""
    limits = (not now.limits[name].fits(size) for name, size in before.limits.items() if name in now.limits)
    return not now.total.fits(before.total) or any(limits)
