"""The proxy's own error budget: when it is spent, bypass begins and nothing new becomes queueable.

At first only the application that caused the faults; the whole cluster when applications of several users are over
their budgets at once, when faults belong to none, or when the proxy answers late. What a peer sends counts for it
alone. After a quiet time there is a trial: of the single application, or of a part of the cluster's applications. A
trial that fails makes the next quiet time longer (a circuit breaker: closed, open, half open).
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Final, Literal

from rm_proxy.attempt.effects import BypassPhase, Turned

SLICES: Final = 12
"""Parts of a window; counts older than a window are forgotten part by part."""
MAX_APPS: Final = 10_000
"""Applications whose faults are counted; of more, those with the oldest are forgotten."""
MAX_DOUBLED: Final = 3
"""How often a quiet time doubles: at most eight times as long."""

Order = Literal["on", "off", "auto"]


class FaultKind(StrEnum):
    """Kinds of faults."""

    PROTOCOL = "protocol"
    """Malformed bytes of a peer that had logged in."""
    POLICY = "policy"
    """A policy raised, or returned an invalid answer."""
    INTERNAL = "internal"
    """The proxy's own code raised."""
    REFUSED = "refused"
    """The ResourceManager refused an allocate call that the proxy had rewritten."""


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """Settings `proxy.budget_*`; see `rm_proxy.config` for meaning, unit and range."""

    window_s: float = 60.0
    app_faults: int = 10
    faults: int = 30
    apps: int = 3
    apps_ratio: float = 0.25
    added_s: float = 1.0
    slow_ratio: float = 0.5
    quiet_s: float = 300.0
    trial_s: float = 120.0
    trial_ratio: float = 0.1


class Sum:
    """A sum over the last window; bounded memory."""

    def __init__(self, window_s: float) -> None:
        self._slice_s = window_s / SLICES
        self._parts: dict[int, float] = {}

    def add(self, amount: float, now_s: float) -> None:
        """Add to the current part."""
        part = int(now_s // self._slice_s)
        self._parts[part] = self._parts.get(part, 0.0) + amount
        if len(self._parts) > 2 * SLICES:
            self.total(now_s)

    def total(self, now_s: float) -> float:
        """Return the sum over the last window."""
        first = int(now_s // self._slice_s) - SLICES + 1
        for old in [part for part in self._parts if part < first]:
            del self._parts[old]
        return sum(self._parts.values())


@dataclass(slots=True)
class _App:
    """An application with faults."""

    faults: Sum
    shared: Sum
    """Those that may be the proxy's own, and so count for the cluster: all but malformed bytes."""
    last_s: float
    kinds: dict[FaultKind, int] = field(default_factory=dict)
    phase: BypassPhase = BypassPhase.ACTIVE
    since_s: float = 0.0
    doubled: int = 0
    why: str = ""


class ErrorBudget:
    """A machine: faults and lateness in, applications in bypass out."""

    def __init__(self, limits: BudgetLimits | None = None) -> None:
        self.limits = limits or BudgetLimits()
        self.order: Order = "auto"
        self.phase = BypassPhase.ACTIVE
        self.why = ""
        """Why the cluster is in bypass, or on trial."""
        self.faulty: OrderedDict[str, _App] = OrderedDict()
        """Applications with faults, by id."""
        self._nobody = Sum(self.limits.window_s)
        self._slow = Sum(self.limits.window_s)
        self._since_s = self._bad_s = 0.0
        self._doubled = 0
        self._tried_before: frozenset[str] = frozenset()
        """Applications that were over their budgets before the trial: they do not fail it."""

    # Faults and lateness

    def note(self, kind: FaultKind, app_id: str, now_s: float) -> None:
        """Count a fault; app_id "" when it belongs to no application."""
        if not app_id:
            self._nobody.add(1, now_s)
            return
        app = self.faulty.get(app_id)
        if app is None:
            app = self.faulty[app_id] = _App(Sum(self.limits.window_s), Sum(self.limits.window_s), now_s)
            if len(self.faulty) > MAX_APPS:
                self.faulty.popitem(last=False)
        self.faulty.move_to_end(app_id)
        app.last_s = now_s
        app.kinds[kind] = app.kinds.get(kind, 0) + 1
        # after one fault of our own the attempt's state is uncertain already
        amount = self.limits.app_faults if kind is FaultKind.INTERNAL else 1
        app.faults.add(amount, now_s)
        if kind is not FaultKind.PROTOCOL:
            app.shared.add(amount, now_s)

    def measure(self, late_s: float, since_s: float, now_s: float) -> None:
        """Note how late the proxy answers now, and the time since the last measurement; seconds.

        A single pause, however long, counts as one part of the window: a machine may have slept.
        """
        if late_s > self.limits.added_s:
            self._slow.add(min(since_s, self.limits.window_s / SLICES), now_s)

    def command(self, order: Order, now_s: float) -> list[Turned]:
        """Handle an admin's order: bypass on, off, or as the budget decides."""
        self.order = order
        if order == "on":
            return self._turn(BypassPhase.BYPASS, "ordered", now_s)
        for app_id in [app_id for app_id, app in self.faulty.items() if app.phase is not BypassPhase.ACTIVE]:
            del self.faulty[app_id]
        self._doubled = 0
        return self._turn(BypassPhase.ACTIVE, "ordered" if order == "off" else "ordered: by the budget", now_s)

    # Applications in bypass

    def reason(self, app_id: str) -> str:
        """Return why an application is in bypass; "" when it is not."""
        if self.order == "off":
            return ""
        if self.phase is BypassPhase.BYPASS or (self.phase is BypassPhase.TRIAL and not self._on_trial(app_id)):
            return self.why
        app = self.faulty.get(app_id)
        return app.why if app is not None and app.phase is BypassPhase.BYPASS else ""

    @property
    def apps(self) -> dict[str, str]:
        """Applications in bypass because of their own budgets, with the reasons."""
        return {app_id: app.why for app_id, app in self.faulty.items() if app.phase is BypassPhase.BYPASS}

    def _on_trial(self, app_id: str) -> bool:
        drawn = int.from_bytes(blake2b(f"trial {app_id}".encode(), digest_size=8).digest()) / 2**64
        return drawn < self.limits.trial_ratio

    # Rounds

    def round(self, alive: Mapping[str, str], now_s: float) -> list[Turned]:
        """Update all breakers; `alive`: the applications that live, by id, with their users. Returns the changes."""
        if self.order != "auto":
            return []
        turned = [turn for app_id, app in list(self.faulty.items()) if (turn := self._of_app(app_id, app, now_s))]
        return turned + self._of_cluster(alive, now_s)

    def look(self, app_id: str, now_s: float) -> list[Turned]:
        """Update one application's breaker at once."""
        app = self.faulty.get(app_id) if self.order == "auto" else None
        turn = self._of_app(app_id, app, now_s) if app is not None else None
        return [turn] if turn is not None else []

    def _of_app(self, app_id: str, app: _App, now_s: float) -> Turned | None:
        count = app.faults.total(now_s)
        if app.phase is BypassPhase.BYPASS:
            if now_s - max(app.last_s, app.since_s) < self.limits.quiet_s * 2**app.doubled:
                return None
            app.phase, app.since_s = BypassPhase.TRIAL, now_s
            return Turned(app_id, BypassPhase.TRIAL, f"no fault for {self.limits.quiet_s * 2**app.doubled:.0f} s")
        failed_trial = app.phase is BypassPhase.TRIAL and app.last_s >= app.since_s
        if count >= self.limits.app_faults or failed_trial:
            app.doubled = min(MAX_DOUBLED, app.doubled + 1) if failed_trial else app.doubled
            app.phase, app.since_s = BypassPhase.BYPASS, now_s
            kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(app.kinds.items()))
            app.why = f"its own error budget is spent ({kinds})"
            return Turned(app_id, BypassPhase.BYPASS, app.why)
        if app.phase is BypassPhase.TRIAL and now_s - app.since_s >= self.limits.trial_s:
            del self.faulty[app_id]
            return Turned(app_id, BypassPhase.ACTIVE, "its trial went well")
        if not count and app.phase is BypassPhase.ACTIVE:
            del self.faulty[app_id]
        return None

    def _of_cluster(self, alive: Mapping[str, str], now_s: float) -> list[Turned]:
        bad = self._spent(alive, now_s)
        if bad:
            self._bad_s = now_s
        if self.phase is BypassPhase.BYPASS:
            quiet_s = self.limits.quiet_s * 2**self._doubled
            if bad or now_s - max(self._bad_s, self._since_s) < quiet_s:
                return []
            self._tried_before = frozenset(self.faulty)
            part = f"{self.limits.trial_ratio:.0%} of the applications are tried"
            return self._turn(BypassPhase.TRIAL, f"{part}; before: {self.why}", now_s)
        if bad:
            self._doubled = min(MAX_DOUBLED, self._doubled + 1) if self.phase is BypassPhase.TRIAL else self._doubled
            return self._turn(BypassPhase.BYPASS, bad, now_s)
        if self.phase is BypassPhase.TRIAL and now_s - self._since_s >= self.limits.trial_s:
            self._since_s = now_s
            return self._turn(BypassPhase.ACTIVE, "the trial went well", now_s)
        if self._doubled and now_s - self._since_s >= self.limits.quiet_s * 2**MAX_DOUBLED:
            self._doubled = 0
        return []

    def _turn(self, phase: BypassPhase, why: str, now_s: float) -> list[Turned]:
        self.phase, self.why, self._since_s = phase, why if phase is not BypassPhase.ACTIVE else "", now_s
        return [Turned("", phase, why)]

    def _spent(self, alive: Mapping[str, str], now_s: float) -> str:
        """Return why the cluster's budget is spent; "" while it is not."""
        limits = self.limits
        nobody = self._nobody.total(now_s)
        if nobody >= limits.faults:
            return f"{nobody:.0f} faults of no application within {limits.window_s:.0f} s"
        spent = self._spent_by_users(alive, now_s)
        if spent:
            return spent
        slow = self._slow.total(now_s) / limits.window_s
        if slow >= limits.slow_ratio:
            return (
                f"answers were more than {limits.added_s:g} s late for {slow:.0%} of the last {limits.window_s:.0f} s"
            )
        return ""

    def _spent_by_users(self, alive: Mapping[str, str], now_s: float) -> str:
        """Return why applications spent the cluster's budget; "" if they did not.

        Those of one user are not enough, unless all are his: his programs may be what is broken.
        """
        limits, tried = self.limits, self.phase is BypassPhase.TRIAL
        among = [a for a in alive if self._on_trial(a)] if tried else list(alive)
        over = [a for a in among if (app := self.faulty.get(a)) and app.shared.total(now_s) >= limits.app_faults]
        if tried:
            over = [a for a in over if a not in self._tried_before]
        needed = min(limits.apps, max(1, math.ceil(len(among) * limits.apps_ratio))) if tried else limits.apps
        if len(over) < needed:
            return ""
        users, bad = Counter(alive[a] for a in among), Counter(alive[a] for a in over)
        users_over = [user for user, count in bad.items() if count >= users[user] * limits.apps_ratio]
        if len(users_over) < max(min(needed, len(users)), len(users) * limits.apps_ratio):
            return ""
        return (
            f"{len(over)} of {len(among)} applications, of {len(users_over)} of {len(users)} users, "
            f"spent their error budgets ({_few(over)})"
        )


def _few(ids: Iterable[str]) -> str:
    shown = sorted(ids)
    return ", ".join(shown[:3]) + (" ..." if len(shown) > 3 else "")
