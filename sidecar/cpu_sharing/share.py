"""A container's share of its node's cores: its grant, its limits as set by the resizer, its attained service."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from policies.model import Way
from sidecar.cpu_sharing.events import LasRules, Story

EPS = 1e-9
"""Differences of cores and seconds below this count as zero."""
MAX_RETRY_S = 60.0


@dataclass(frozen=True, slots=True)
class CoreGrant:
    """Cores that a container may use. `runs` False: it is shrunk or frozen."""

    cores: float | None
    """None: its full limits; 0: frozen."""
    runs: bool


FULL = CoreGrant(None, True)


@dataclass(slots=True)
class CoreShare:
    """One container of a node, as `sidecar.cpu_sharing.las` sees it. Times are Unix seconds."""

    id: str
    vcores: float
    way: Way
    joined_s: float
    since_s: float
    """When it began to run, or to stand still."""
    whole: bool = False
    """It runs in full or not at all."""
    app_id: str = ""
    level: float = 0.0
    """Of the service that its job attained over all nodes, where jobs count; else 0."""
    spared: bool = False
    """Whether as many containers of its job gave way as may."""
    ready: bool = False
    ready_s: float = 0.0
    overdue: bool = False
    """It was not attached in time: it counts in full, like one that is never resized."""
    is_new: bool = True
    """It has not had a turn yet."""
    granted: CoreGrant = FULL
    applied: CoreGrant = FULL
    """The grant that was set last."""
    flight: CoreGrant | None = None
    """The grant that is being set."""
    attained_s: float = 0.0
    """CPU seconds: accounted, else wall time while it ran, times its cores."""
    earlier_s: float = 0.0
    """Attained service before this sidecar process."""
    accounted_s: float | None = None
    """The last accounted figure."""
    began_s: float = 0.0
    """When its quantum began, while it runs."""
    idle_since_s: float = 0.0
    """Since when it stands still, while it does."""
    protected_until_s: float = 0.0
    """It starved, and does not give way before this time."""
    times_shrunk: int = 0
    shrunk_s: float | None = None
    """When it was shrunk last; None when it never was."""
    saved_s: float = 0.0
    """CPU seconds that kills in place of its shrinks for other applications would have lost.

    Each kill would have lost what was attained since the one before, after which the task began anew; together that is
    what was attained until the last shrink.
    """
    last_by: str = ""
    """Which container took its place last."""
    last_why: str = ""
    by: str = ""
    why: str = ""
    """The reason for its grant."""
    for_kin: bool = False
    """Whether `by` is of the same application: stock YARN would not have killed it for that one."""
    stuck: str = ""
    """Why the resizer refused; the container stays as it is until the next try."""
    tries: int = 0
    retry_at_s: float = 0.0
    pinned: bool = False
    """It became guaranteed: it has its full limits, or gets them back."""
    resizable: bool = field(init=False)
    """Whether it ever gives way without being killed."""

    def __post_init__(self) -> None:
        self.resizable = self.way in (Way.SHRINK, Way.FREEZE)

    @property
    def measured_s(self) -> float | None:
        """Attained service in CPU seconds, rounded; None while it is not attached, so that nothing is known of it."""
        return round(self.attained_s, 3) if self.ready or self.accounted_s is not None else None

    @property
    def untouchable(self) -> bool:
        """Whether it counts in full now, whatever the others need."""
        return not self.resizable or self.overdue

    @property
    def running(self) -> bool:
        """Whether it is granted more than a sliver."""
        return (self.ready and self.granted.runs) or not self.resizable or self.overdue

    @property
    def cores(self) -> float | None:
        """Granted cores; None: its full limits."""
        return self.granted.cores

    def amount(self, grant: CoreGrant) -> float:
        """Return the cores that a grant takes of the room; slivers take none."""
        if not grant.runs:
            return 0.0
        return self.vcores if grant.cores is None else grant.cores

    @property
    def rank(self) -> tuple[float, float]:
        """The order in which containers go first: the level of its job, then what it attained itself.

        One that runs goes before all others while its job is spared.
        """
        spared = self.spared and self.granted.runs and not self.is_new
        return -1.0 if spared else self.level, self.attained_s

    def story(self) -> Story:
        """Return its history."""
        return Story(round(self.attained_s, 3), self.times_shrunk, round(self.saved_s, 3))

    def go_on(self, story: Story) -> None:
        """Count from where an earlier sidecar process stopped."""
        self.attained_s = self.earlier_s = story.attained_s
        self.times_shrunk, self.saved_s = story.times_shrunk, story.saved_s

    def pin(self) -> None:
        """Make it a container that never gives way."""
        self.pinned, self.way, self.resizable, self.overdue = True, Way.NONE, False, False
        self.granted, self.by, self.why, self.stuck, self.tries = FULL, "", "it is guaranteed now", "", 0

    def to_restore(self, now_s: float) -> bool:
        """Return whether it has to be given its full limits back now, because it was pinned while it stood still."""
        if not self.pinned or self.flight is not None or self.applied == FULL:
            return False
        return not self.stuck or now_s >= self.retry_at_s

    def over(self, rules: LasRules, now_s: float) -> bool:
        """Return whether its quantum is over; the end of its protection ends it too."""
        return now_s >= self.began_s + rules.quantum_s or self.began_s < self.protected_until_s <= now_s

    def times_s(self, rules: LasRules) -> tuple[float, ...]:
        """Return the times at which its grant may change by time alone; past ones change nothing."""
        if not self.resizable or self.overdue:
            is_retried = self.pinned and self.stuck and self.flight is None and self.applied != FULL
            return (self.retry_at_s,) if is_retried else ()
        if not self.ready:
            return (self.joined_s + rules.ready_wait_s,)
        if self.stuck:
            return (self.retry_at_s,) if self.flight is None else ()
        if self.granted.runs:
            return self.began_s + rules.quantum_s, self.protected_until_s
        return (self.starves_at_s(rules),)

    def starves_at_s(self, rules: LasRules) -> float:
        """Return when it starves, if it stands still until then."""
        return self.idle_since_s + rules.starve_quanta * rules.quantum_s

    def starving(self, rules: LasRules, now_s: float) -> bool:
        """Return whether it has stood still for too long, or lost its place while it was protected."""
        still = self.is_new or not self.granted.runs
        return still and (now_s >= self.starves_at_s(rules) or now_s < self.protected_until_s)

    def take(self, grant: CoreGrant, rules: LasRules, now_s: float) -> None:
        """Apply the grant of a plan; it starts quanta, protection and the wait of a starving one."""
        ran = self.granted.runs and not self.is_new
        if grant.runs and not ran:
            if self.starving(rules, now_s):
                self.protected_until_s = now_s + rules.protect_quanta * rules.quantum_s
            self.is_new = False
            self.began_s = self.since_s = now_s
        elif ran and not grant.runs:
            self.idle_since_s = self.since_s = now_s
        elif grant.runs and self.over(rules, now_s):
            self.began_s = now_s
        self.granted = grant

    def serve(self, seconds: float) -> None:
        """Count wall time where nothing is measured."""
        if self.accounted_s is None and self.ready:
            self.attained_s += seconds * self.amount(self.applied)

    def account(self, cpu_s: float) -> None:
        """Handle an accounted figure; counting continues from one that fell (a new group)."""
        if self.accounted_s is None:
            self.attained_s = self.earlier_s + cpu_s
        else:
            self.attained_s += max(0.0, cpu_s - self.accounted_s)
        self.accounted_s = cpu_s

    def done(self, now_s: float) -> None:
        """Note that the resizer set the grant in flight."""
        grant, self.flight = self.flight or self.applied, None
        if self.applied.runs and not grant.runs:
            self.times_shrunk += 1
            self.shrunk_s = now_s
            if not self.for_kin:
                self.saved_s = max(self.saved_s, self.attained_s)
            self.last_by, self.last_why = self.by, self.why
        self.applied, self.tries = grant, 0
        if self.stuck:
            self.stuck, self.granted = "", grant
            if not grant.runs:
                self.idle_since_s = self.since_s = now_s

    def refuse(self, refused: str, rules: LasRules, now_s: float) -> None:
        """Note that the resizer refused the grant in flight: the container keeps the old one until the next try."""
        self.flight = None
        if not self.stuck and self.granted == self.applied:
            return  # its limits are the wanted ones by now
        self.stuck = refused
        self.tries += 1
        self.retry_at_s = now_s + min(MAX_RETRY_S, rules.retry_s * 2.0 ** min(self.tries - 1, 30))
        if self.granted.runs != self.applied.runs:
            self.since_s = now_s
        self.granted = self.applied
        if self.applied.runs:
            self.is_new, self.began_s = False, -inf  # it was to give way: its quantum is over
