"""Least attained service on a node: containers are resized, not killed (Kairos thesis §4.3.2, Algorithm 2).

Each event makes a new plan; the commands are its difference to the resizes that are done or in flight. As in the
thesis, a newcomer runs at once and the container that attained most gives way; a free core goes to the idle one that
attained least; and a container that has run for a quantum gives way to an idle one that attained no more. Beyond the
thesis, containers may have any size, and containers that are never resized take their cores first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import fsum, inf, sqrt

from policies.common.service_levels import level
from sidecar.cpu_sharing.events import (
    Freeze,
    Jobs,
    Joined,
    LasCommand,
    LasEvent,
    LasRules,
    Left,
    Pinned,
    ReadyContainer,
    Resized,
    Restore,
    Ruled,
    Served,
    SharingTurn,
    Shrink,
    Squeezed,
)
from sidecar.cpu_sharing.plan import Need, Plan, plan
from sidecar.cpu_sharing.share import FULL, CoreGrant, CoreShare


class Las:
    """The containers of one node; `handle(event)` is the only way in."""

    def __init__(self, rules: LasRules) -> None:
        self.rules = rules
        self.shares: dict[str, CoreShare] = {}
        self.squeezed = ""
        """Why no more containers may run side by side; "" when they may."""
        self._places: int | None = None
        self._now_s = 0.0
        self._unmeasured: dict[str, CoreShare] = {}
        """Those whose service is counted by wall time: nothing is accounted of them yet."""
        self._is_surveyed = False
        """Whether the next two are of the present shares."""
        self._deadline_s: float | None = None
        self._is_stuck = False
        """Whether the resizer refused a resize that is to be tried again."""
        self._levels: dict[str, float] = {}
        """By application: the level of the service that its job attained over all nodes."""
        self._spared: frozenset[str] = frozenset()

    # Questions

    def deadline_s(self) -> float | None:
        """Return the time of the next `SharingTurn`; None when time alone changes nothing."""
        if not self._is_surveyed:
            self._survey()
        return self._deadline_s

    def attained_s(self) -> float:
        """Return the attained service of the resizable containers together."""
        return fsum(share.attained_s for share in self._in_hand())

    def spread_s(self) -> float:
        """Return the standard deviation of the resizable containers' attained service (Algorithm 2, line 48)."""
        attained = [share.attained_s for share in self._in_hand()]
        if len(attained) < 2:
            return 0.0
        mean = fsum(attained) / len(attained)
        return sqrt(fsum((sample - mean) ** 2 for sample in attained) / len(attained))

    def shrunk(self) -> set[str]:
        """Return the containers that are shrunk or frozen."""
        return {share.id for share in self._in_hand() if not share.running}

    # Events

    def handle(self, event: LasEvent) -> list[LasCommand]:
        """Handle an event; return the commands to execute, in order."""
        if (type(event) is SharingTurn or _as_planned(event, self.shares)) and not self._due(event.now_s):
            self._advance(event.now_s)
            if type(event) is Resized:
                self._resized(event)
            return []
        self._advance(event.now_s)
        self._is_surveyed = False
        arriving, by = False, ""
        match event:
            case Joined():
                by = self._join(event)
            case ReadyContainer():
                arriving = self._ready(event.container_id)
                by = event.container_id if arriving else ""
            case Pinned():
                by = self._pin(event.container_id)
            case Left():
                self.shares.pop(event.container_id, None)
                self._unmeasured.pop(event.container_id, None)
            case Served():
                self._account(event)
            case Resized():
                self._resized(event)
            case Squeezed():
                arriving = self._squeeze(event)
            case Ruled():
                self.rules = event.rules
                self._rank_jobs()
            case Jobs():
                if not self._learn(event):
                    return []
            case SharingTurn():
                pass
        by = self._find_overdue() or by
        return self._commands(list(self._replan(arriving and not self.squeezed, by)))

    def _due(self, now_s: float) -> bool:
        """Return whether time alone may change a grant by `now_s`; without any such time a turn plans anew."""
        deadline_s = self.deadline_s()
        return self._is_stuck or deadline_s is None or deadline_s <= now_s

    def _survey(self) -> None:
        """Find the next time at which a grant may change, once for all events that change no share's times."""
        now_s, soonest_s, stuck = self._now_s, inf, False
        starve_s = self.rules.starve_quanta * self.rules.quantum_s
        for share in self.shares.values():
            if share.ready and share.resizable and not share.granted.runs and not share.stuck:
                if now_s < share.idle_since_s + starve_s < soonest_s:  # most of a crowd stand still
                    soonest_s = share.idle_since_s + starve_s
                continue
            stuck = stuck or bool(share.stuck)
            for at_s in share.times_s(self.rules):
                if now_s < at_s < soonest_s:
                    soonest_s = at_s
        self._deadline_s = None if soonest_s == inf else soonest_s
        self._is_stuck, self._is_surveyed = stuck, True

    def _advance(self, now_s: float) -> None:
        seconds = max(0.0, now_s - self._now_s)
        self._now_s += seconds
        for share in self._unmeasured.values():
            share.serve(seconds)

    def _join(self, event: Joined) -> str:
        if event.container_id in self.shares:
            return ""
        share = CoreShare(
            event.container_id, event.vcores, event.way, self._now_s, self._now_s, event.whole, event.app_id
        )
        share.go_on(event.story)
        self.shares[share.id] = self._unmeasured[share.id] = share
        self._rank_jobs()
        return share.id if share.untouchable else ""

    def _ready(self, container_id: str) -> bool:
        share = self.shares.get(container_id)
        if share is None or share.ready:
            return False
        share.ready, share.overdue = True, False
        share.ready_s = share.idle_since_s = share.since_s = self._now_s
        return share.resizable

    def _pin(self, container_id: str) -> str:
        share = self.shares.get(container_id)
        if share is None or not share.resizable:
            return ""
        share.pin()
        return container_id

    def _account(self, event: Served) -> None:
        for container_id, cpu_s in event.cpu_s.items():
            if container_id in self.shares:
                self.shares[container_id].account(cpu_s)
                self._unmeasured.pop(container_id, None)

    def _resized(self, event: Resized) -> None:
        share = self.shares.get(event.container_id)
        if share is None or share.flight is None:
            return
        if event.refused:
            share.refuse(event.refused, self.rules, self._now_s)
            if share.pinned:
                share.granted = FULL
        else:
            share.done(self._now_s)

    def _squeeze(self, event: Squeezed) -> bool:
        """Return whether newcomers that had to wait may go now."""
        if event.on and self._places is None:
            self._places = max(1, sum(share.running for share in self._in_hand()))
        ended = not event.on and self._places is not None
        if not event.on:
            self._places = None
        self.squeezed = (event.why or "no reason given") if event.on else ""
        return ended

    def _learn(self, event: Jobs) -> bool:
        """Learn the service of jobs, in place of what was known; returns whether that changes anything."""
        before = self._levels, self._spared
        self._levels = {app_id: level(attained_s) for app_id, attained_s in event.attained_s.items()}
        self._spared = frozenset(event.spared)
        if (self._levels, self._spared) == before:
            return False
        self._rank_jobs()
        return True

    def _rank_jobs(self) -> None:
        by_job = self.rules.by_job
        for share in self.shares.values():
            share.level = self._levels.get(share.app_id, 0.0) if by_job else 0.0
            share.spared = by_job and share.app_id in self._spared

    def _find_overdue(self) -> str:
        newest = ""
        for share in self.shares.values():
            late = not share.ready and share.resizable and not share.overdue
            if late and self._now_s >= share.joined_s + self.rules.ready_wait_s:
                share.overdue, newest = True, share.id
        return newest

    # The plan

    def _in_hand(self) -> list[CoreShare]:
        return [share for share in self.shares.values() if share.ready and share.resizable]

    def _replan(self, arriving: bool, by: str) -> Iterator[CoreShare]:
        """Make the plan; yield the containers whose retry is due."""
        taken = sum(share.vcores for share in self.shares.values() if not share.resizable or share.overdue)
        need = Need(max(0.0, self.rules.cores - taken), self.rules, self._now_s, arriving, self._places)
        shares = self._in_hand()
        yield from self._retries(shares, need)
        result = plan(shares, need, {share.id for share in shares if share.stuck})
        grants = result.grants
        planned = [  # without those that stand still and go on standing still
            share
            for share in shares
            if not share.stuck and (share.granted.runs or grants[share.id] is not share.granted)
        ]
        changed = [share.id for share in planned if grants[share.id] != share.granted]
        gaining = {share.id for share in planned if self._gains(share, grants[share.id])}
        started = [cid for cid in grants if cid in gaining] if gaining else []
        if by in grants and not grants[by].runs:
            by = ""
        whys = {cid: self._why(self.shares[cid], result, by, started) for cid in changed}
        for share in planned:
            grant, cid = grants[share.id], share.id
            if cid in whys:
                share.by, share.why = whys[cid]
                taker = self.shares.get(share.by)
                share.for_kin = bool(share.app_id) and taker is not None and taker.app_id == share.app_id
            share.take(grant, self.rules, self._now_s)

    @staticmethod
    def _gains(share: CoreShare, grant: CoreGrant) -> bool:
        if not grant.runs:
            return False
        return share.is_new or (grant is not share.granted and share.amount(grant) > share.amount(share.granted))

    def _retries(self, shares: Iterable[CoreShare], need: Need) -> Iterator[CoreShare]:
        """Yield due retries: a shrunk container gets its turn again; a running one if the plan would resize it.

        Until that succeeds the others are planned around it, so that a refusal costs no other container anything.
        """
        due = [s for s in shares if s.stuck and s.flight is None and self._now_s >= s.retry_at_s]
        for share in due:
            if not share.applied.runs:
                share.stuck = ""
        still = {share.id for share in shares if share.stuck and share not in due}
        wish = plan(list(shares), need, still).grants if due else {}
        for share in due:
            if share.stuck and wish[share.id].cores == share.applied.cores:
                share.stuck, share.tries = "", 0
            elif share.stuck:
                share.flight = wish[share.id]
                yield share

    def _why(self, share: CoreShare, result: Plan, by: str, started: list[str]) -> tuple[str, str]:
        """Return the container that caused a grant, and the reason as text."""
        grant = result.grants[share.id]
        others = [cid for cid in (by, *started) if cid and cid != share.id]
        cause = others[0] if others else ""
        if grant.runs and grant.cores is None:
            if share.starving(self.rules, self._now_s):
                return "", f"stood still for {self._now_s - share.idle_since_s:.0f} s"
            return "", f"its turn: attained {share.attained_s:.1f} s"
        if grant.runs:
            return cause, f"{grant.cores:g} cores are left for it"
        if not cause:
            squeezed = self.squeezed and share.id in result.capped
            return "", f"memory is short: {self.squeezed}" if squeezed else "others go first"
        return cause, self._compare(share, self.shares[cause])

    def _compare(self, share: CoreShare, cause: CoreShare) -> str:
        if cause.untouchable:
            return f"{cause.id} needs {cause.vcores:g} vcores and is never resized"
        if cause.starving(self.rules, self._now_s):
            return f"{cause.id} stood still for {self._now_s - cause.idle_since_s:.0f} s"
        if cause.rank[0] < share.rank[0]:
            return f"its job attained more over all nodes than that of {cause.id}"
        if cause.attained_s < share.attained_s:
            return f"attained {share.attained_s:.1f} s, {cause.id} only {cause.attained_s:.1f} s"
        return f"attained {share.attained_s:.1f} s, {cause.id} {cause.attained_s:.1f} s"

    # Commands

    def _commands(self, retried: list[CoreShare]) -> list[LasCommand]:
        changed = [(share, share.flight) for share in retried if share.flight is not None]
        for share in self.shares.values():
            if share.pinned:
                if share.to_restore(self._now_s):
                    share.flight = FULL
                    changed.append((share, FULL))
            elif share.granted is share.applied or share.flight is not None or share.stuck or not share.ready:
                continue
            elif share.granted.cores == share.applied.cores:
                share.applied = share.granted
            else:
                share.flight = share.granted
                changed.append((share, share.flight))
        return [_command(share, grant) for share, grant in sorted(changed, key=_takes_away_first)]


def _as_planned(event: LasEvent, shares: Mapping[str, CoreShare]) -> bool:
    """Return whether the resizer set what the plan still grants: the next plan would be the same one."""
    if type(event) is not Resized or event.refused:
        return False
    share = shares.get(event.container_id)
    return share is not None and not share.stuck and not share.pinned and share.flight == share.granted


def _takes_away_first(change: tuple[CoreShare, CoreGrant]) -> tuple[int, str]:
    share, grant = change
    if grant.cores is None:
        return 2, share.id
    return (1 if share.applied.cores is not None and grant.cores > share.applied.cores else 0), share.id


def _command(share: CoreShare, grant: CoreGrant) -> LasCommand:
    if grant.cores is None:
        return Restore(share.id, share.why)
    if grant.cores == 0:
        return Freeze(share.id, share.by, share.why)
    return Shrink(share.id, grant.cores, share.by, share.why)
