"""The applications that are admitted as a whole: what the proxy remembers of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from policies.common.app_admission import AppAdmission
from policies.model import AppView, Resources
from policies.requests import AppRequest, Containers
from rm_proxy.admission.demand import CoreNeed, DemandAtPriority, demand_of
from rm_proxy.admission.request_tags import RequestTags, request_tags
from rm_proxy.attempt.attempt import Attempt


@dataclass(slots=True)
class GovernedApp:
    """One application, from its first demand on until it ends."""

    app: AppView
    attempt: Attempt
    need: CoreNeed
    entered_s: float | None = None
    """Since when it is in service; None while it waits."""
    came_s: float = 0.0
    """When the proxy saw its first demand."""
    shares: Mapping[int, int] = field(default_factory=dict)
    """Elastic containers that it may have, by request priority."""
    why: str = ""
    """Why it waits."""
    demand: dict[int, DemandAtPriority] = field(default_factory=dict)
    """As of the last decision."""
    sizes: dict[int, Resources] = field(default_factory=dict)
    """Of containers that it had or wanted, by request priority."""
    core_since_s: float | None = None
    """Since when it is in service and lacks core containers; None while it lacks none."""
    short_since_s: float | None = None
    """Since when it has fewer elastic containers than its share, and wants more; None while it does not."""
    complete: bool = False
    """Whether it had all of its core once: before that it gets no elastic containers, which would take the places at
    which the ResourceManager, that does not see them, starts the core."""
    crowded: frozenset[str] = frozenset()
    """Hosts without room for the core containers that it asked for, while others have room."""
    idle_until_s: float = -inf
    """Until then it gets no more elastic containers than it has: some of them did nothing."""
    whole: Resources = field(default_factory=Resources)
    """Core and elastic together, as of the last decision."""
    stamp: tuple[int, int] = (-1, -1)
    """Versions of what the attempt holds and wants of which `demand` was made."""
    _basis: tuple[object, ...] = ()
    _request: AppRequest | None = None
    """The last answer of `request`, and what it was made of."""

    def follow(self, app: AppView, attempt: Attempt) -> None:
        """Learn what the application wants now, where that changed."""
        stamp = attempt.live.version, attempt.table.sums.version
        if self.attempt is not attempt or self.stamp != stamp:
            self.demand, self.stamp = demand_of(attempt), stamp
            self.sizes |= {priority: at.size for priority, at in self.demand.items()}
        self.app, self.attempt = app, attempt

    @property
    def tags(self) -> RequestTags:
        """What its own tags say."""
        return request_tags(self.app.tags)

    def core_left(self) -> int:
        """Return how many core containers it wants and does not have, as of the last decision."""
        asks = sum(at.asked_g for at in self.demand.values())
        return asks + sum(min(at.waiting, self.need.remainder(self.demand, p)) for p, at in self.demand.items())

    def over(self) -> dict[int, int]:
        """Return by priority how many elastic containers it has beyond its share."""
        if self.entered_s is None:
            return {}
        beyond = {p: at.queueable - self.shares.get(p, 0) for p, at in self.demand.items()}
        return {priority: count for priority, count in beyond.items() if count > 0}

    def under(self) -> dict[int, int]:
        """Return by priority how many elastic containers it wants and may have, and does not have."""
        if self.entered_s is None:
            return {}
        shortfall = {}
        for priority, at in self.demand.items():
            elastic = max(0, at.waiting - self.need.remainder(self.demand, priority))
            count = min(elastic, self.shares.get(priority, 0) - at.queueable)
            if count > 0:
                shortfall[priority] = count
        return shortfall

    def request(self, cfg: AppAdmission, now_s: float) -> AppRequest:
        """Return it as the policy sees it."""
        capped = now_s < self.idle_until_s
        basis = self.demand, self.app, self.shares, self.entered_s, capped, self.attempt.router.progress, cfg
        if self._request is None or not _same(basis, self._basis):
            self._basis, self._request = basis, self._as_request(cfg, capped)
        return self._request

    def _as_request(self, cfg: AppAdmission, capped: bool) -> AppRequest:
        core, elastic = self.need.split(self.demand, self.sizes)
        if capped:
            elastic = tuple(self._capped(each) for each in elastic)
        tags, app = self.tags, self.app
        return AppRequest(
            id=app.id,
            limits=limits_of(app),
            arrived_s=app.submitted_s,
            core=core,
            elastic=elastic,
            runtime_s=tags.runtime_s or cfg.runtime_s,
            priority=app.priority + (cfg.interactive_priority if tags.interactive else 0),
            left_ratio=1.0 - self.attempt.router.progress,
            entered_s=self.entered_s,
            granted=self.shares,
        )

    def _capped(self, elastic: Containers) -> Containers:
        at = self.demand.get(elastic.priority)
        return Containers(elastic.priority, elastic.size, min(elastic.count, at.queueable if at else 0))


def _same(basis: tuple[object, ...], before: tuple[object, ...]) -> bool:
    """Return whether two answers are made of the same objects, or equal numbers."""
    return len(basis) == len(before) and all(
        a is b or (isinstance(a, float) and a == b) for a, b in zip(basis, before, strict=True)
    )


def limits_of(app: AppView) -> tuple[str, ...]:
    """Return the names of the limits that an application falls under, the narrowest first (`AppRequest.limits`)."""
    names, queue = [user_limit(app.queue, app.user)], app.queue
    while queue:
        names.append(f"queue {queue}")
        queue = queue.rpartition(".")[0]
    return tuple(names)


def user_limit(queue: str, user: str) -> str:
    """Return the name of the limit of one user in a YARN queue."""
    return f"user {user} in queue {queue}"
