"""Guards a node's physical memory as a machine: CPU can be shrunk, memory cannot.

Two levels beyond `ok`. Squeezed: nothing new starts and nothing is resumed beside others. Critical: the last resort,
queueable containers are killed, one at a time. Guaranteed ones are left to YARN's own monitor; application masters
are never killed here. Beside this, the kernel kills queueable ones first at the bound of memory/cgroup_fence.py, and
the start of a guaranteed one that lacks memory has some killed: node/starts/guaranteed_starts.py.

A stall (PSI, `full`) counts only while memory is low too: with plenty of it free, a process is at a limit of its own,
and neither waiting nor killing others helps it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sidecar.node.container import QUEUEABLE

_CALM: Final = 1.25
"""A squeeze ends when free memory exceeds the reserve by this factor."""
_STALL_RANGE: Final = 2.0
"""A stall squeezes only while free memory is below the reserve times this factor."""
_EXCESS: Final = 0.05
"""Tolerated excess over the allocation, as a part of it: shared pages count in each process."""
_ALARM_S: Final = 60.0


class Level(StrEnum):
    """How short memory is."""

    OK = "ok"
    SQUEEZED = "squeezed"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class GuardRules:
    """Settings of the guard. Raises ValueError where the last resort would come before the squeeze."""

    reserve_mb: int = 512
    """Less free physical memory squeezes; 0 turns the guard off."""
    last_resort_mb: int = 128
    """Less of it kills; at most `reserve_mb`."""
    squeeze_stall_ratio: float = 0.1
    """Part of the time in which all tasks waited for memory (PSI memory, full, avg10)."""
    last_resort_stall_ratio: float = 0.4
    stall_wait_s: float = 5.0
    """Duration of a stall from which on the guard kills."""
    calm_s: float = 5.0
    """Time for which memory must be sufficient again before the squeeze ends."""
    settle_s: float = 3.0
    """Time between two kills, for the memory to come back."""
    kill_wait_s: float = 10.0
    """Longest time for which a killed container that is still there delays the next kill."""

    def __post_init__(self) -> None:
        if not 0 <= self.last_resort_mb <= self.reserve_mb:
            raise ValueError(f"last_resort_mb {self.last_resort_mb} is not within 0 and reserve_mb {self.reserve_mb}")
        if self.last_resort_stall_ratio < self.squeeze_stall_ratio:
            raise ValueError("last_resort_stall_ratio is less than squeeze_stall_ratio")


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """A container at the node that has processes, as the guard sees it."""

    container_id: str
    kind: str
    """G, Q or O, as in `sidecar.node.container`."""
    allocated_mb: int
    used_mb: int | None = None
    """Resident memory; None when it is not measured, then the allocation counts."""
    attained_s: float = 0.0
    """CPU seconds."""
    shrunk: bool = False
    killable: bool = False
    """Whether it runs, is not being killed yet, and there is a session to stop it on."""
    am: bool = False
    protected: bool = False
    """Whether it has run for less than `policies.protect` says."""
    started_s: float = 0.0

    @property
    def holds_mb(self) -> int:
        """Memory that is freed when it ends."""
        return self.allocated_mb if self.used_mb is None else self.used_mb

    @property
    def excess_mb(self) -> int:
        """Memory beyond its allocation; 0 within the tolerance."""
        excess = self.holds_mb - self.allocated_mb
        return excess if excess > self.allocated_mb * _EXCESS else 0


@dataclass(frozen=True, slots=True)
class Memory:
    """One measurement, taken each second."""

    now_s: float
    free_mb: int
    """Available physical memory, or the memory left in the containers' own fence if that is less."""
    stall_ratio: float | None
    """PSI memory, full, avg10; None without PSI."""
    containers: tuple[HeldMemory, ...]


@dataclass(frozen=True, slots=True)
class GuardRuled:
    """The rules changed."""

    rules: GuardRules


GuardEvent = Memory | GuardRuled


@dataclass(frozen=True, slots=True)
class Squeeze:
    """Begin or end a squeeze: start nothing new, resume nothing beside others. `Squeezed` informs the machine."""

    on: bool
    why: str


@dataclass(frozen=True, slots=True)
class Kill:
    """Stop a queueable container, as preempted."""

    container_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Alarm:
    """Log an error: the guard can do no more."""

    why: str


GuardCommand = Squeeze | Kill | Alarm


def rules_for(total_mb: int, reserve_mb: int) -> GuardRules:
    """Return rules for a machine of `total_mb`.

    A reserve beyond an eighth of a small machine would squeeze it for ever. A large one fills faster than it is
    measured, so its last resort comes at 0.5 % of it, though never before half of the reserve.
    """
    reserve_mb = min(reserve_mb, total_mb // 8)
    return GuardRules(reserve_mb, min(reserve_mb // 2, max(reserve_mb // 4, total_mb // 200)))


class MemoryGuard:
    """Watches one node. `handle(event)` is the only way in; `level` and `why` may be read."""

    def __init__(self, rules: GuardRules) -> None:
        self.rules = rules
        self.level = Level.OK
        self.why = ""
        """Why it is not ok, with figures."""
        self._clock_s = 0.0
        """Monotonic time: grows with `now_s`, and stops while that is set back."""
        self._now_s: float | None = None
        self._calm_since_s: float | None = None
        self._stall_since_s: float | None = None
        self._killed: dict[str, float] = {}
        """Victims that are still there, and when they were chosen."""
        self._last_kill_s: float | None = None
        self._alarmed_s: float | None = None

    @property
    def squeezed(self) -> bool:
        """Whether nothing may start or be resumed beside others."""
        return self.level is not Level.OK

    def handle(self, event: GuardEvent) -> list[GuardCommand]:
        """Handle a measurement; return the commands to execute, in order."""
        if isinstance(event, GuardRuled):
            self.rules = event.rules
            return []
        self._tick(event)
        there = {c.container_id for c in event.containers}
        self._killed = {cid: at_s for cid, at_s in self._killed.items() if cid in there}
        critical = self._critical(event)
        out = self._settle_level(event, critical or self._shortage(event), bool(critical))
        if critical:
            return out + self._last_resort(event, critical)
        self._alarmed_s = None
        return out

    def _tick(self, event: Memory) -> None:
        if self._now_s is not None:
            self._clock_s += max(0.0, event.now_s - self._now_s)
        self._now_s = event.now_s

    # Levels

    def _settle_level(self, event: Memory, short: str, critical: bool) -> list[GuardCommand]:
        """Go to the level that was measured; a squeeze ends only when memory has been back for a while."""
        was_squeezed = self.squeezed
        if short:
            self.level, self.why, self._calm_since_s = (Level.CRITICAL if critical else Level.SQUEEZED), short, None
            return [] if was_squeezed else [Squeeze(True, short)]
        if was_squeezed and self._calm(event):
            self.level, self.why, self._calm_since_s = Level.OK, "", None
            return [Squeeze(False, f"{event.free_mb} MB of memory free again")]
        if was_squeezed:
            self.level = Level.SQUEEZED
        return []

    def _shortage(self, event: Memory) -> str:
        """Return why the node is squeezed; "" when it is not, by this measurement."""
        rules = self.rules
        if event.free_mb < rules.reserve_mb:
            return f"{event.free_mb} MB of memory free, less than {rules.reserve_mb} MB"
        stall = event.stall_ratio or 0.0
        if stall > rules.squeeze_stall_ratio and event.free_mb < rules.reserve_mb * _STALL_RANGE:
            return f"all stood still for memory {stall:.0%} of the time, {event.free_mb} MB free"
        return ""

    def _critical(self, event: Memory) -> str:
        """Return why a container must be killed; "" when none must."""
        rules = self.rules
        stall = event.stall_ratio or 0.0
        if stall <= rules.last_resort_stall_ratio or event.free_mb >= rules.reserve_mb:
            self._stall_since_s = None
        elif self._stall_since_s is None:
            self._stall_since_s = self._clock_s
        if event.free_mb < rules.last_resort_mb:
            return f"{event.free_mb} MB of memory free, less than {rules.last_resort_mb} MB"
        if self._stall_since_s is None or self._clock_s - self._stall_since_s < rules.stall_wait_s:
            return ""
        lasted_s = self._clock_s - self._stall_since_s
        return f"all stood still for memory {stall:.0%} of the time for {lasted_s:.0f} s, {event.free_mb} MB free"

    def _calm(self, event: Memory) -> bool:
        """Return whether memory has been back for long enough."""
        rules = self.rules
        quiet = (event.stall_ratio or 0.0) <= rules.squeeze_stall_ratio / 2
        back = event.free_mb >= rules.reserve_mb * _CALM
        if not back or not (quiet or event.free_mb >= rules.reserve_mb * _STALL_RANGE):
            self._calm_since_s = None
            return False
        if self._calm_since_s is None:
            self._calm_since_s = self._clock_s
        return self._clock_s - self._calm_since_s >= rules.calm_s

    # Critical

    def _last_resort(self, event: Memory, why: str) -> list[GuardCommand]:
        if self._waits():
            return []
        may_go = [c for c in event.containers if c.kind == QUEUEABLE and c.killable and not c.am and not self._dying(c)]
        if not may_go:
            return self._alarm(event, why)
        short_mb = self._short_mb(event)
        victim = min(may_go, key=lambda c: _cost(c, short_mb))
        self._killed[victim.container_id] = self._last_kill_s = self._clock_s
        self._stall_since_s = None
        return [Kill(victim.container_id, f"last resort, {why}: {_reason(victim, may_go, short_mb)}")]

    def _short_mb(self, event: Memory) -> int:
        """Return the least memory that one victim should free: 1 MB, or up to the limit that was passed."""
        rules = self.rules
        limit_mb = rules.last_resort_mb if event.free_mb < rules.last_resort_mb else rules.reserve_mb
        return max(1, limit_mb - event.free_mb)

    def _dying(self, container: HeldMemory) -> bool:
        return container.container_id in self._killed

    def _waits(self) -> bool:
        """Return whether the last kill has not taken effect yet."""
        rules = self.rules
        if self._last_kill_s is not None and self._clock_s - self._last_kill_s < rules.settle_s:
            return True
        return any(self._clock_s - at_s < rules.kill_wait_s for at_s in self._killed.values())

    def _alarm(self, event: Memory, why: str) -> list[GuardCommand]:
        if self._alarmed_s is not None and self._clock_s - self._alarmed_s < _ALARM_S:
            return []
        self._alarmed_s = self._clock_s
        queueable = sum(1 for c in event.containers if c.kind == QUEUEABLE)
        others_mb = sum(c.holds_mb for c in event.containers if c.kind != QUEUEABLE)
        text = f"{why}, and no queueable container can be killed ({queueable} there)"
        return [Alarm(f"{text}: others hold {others_mb} MB, which is for YARN's own monitor and the kernel to judge")]


def _cost(container: HeldMemory, short_mb: int) -> tuple[float, ...]:
    """Return the cost of losing a container; the lowest is killed first.

    Containers above their allocation, the highest excess first; then those that free enough, so that no kill is in
    vain; of those the ones that are not protected, then the least attained service, at equal service the shrunk one,
    then the newest.
    """
    if container.excess_mb:
        return (0, -container.excess_mb, container.attained_s, 0, -container.started_s)
    vain = container.holds_mb < short_mb
    return (1, vain, container.protected, container.attained_s, not container.shrunk, -container.started_s)


def _reason(victim: HeldMemory, may_go: list[HeldMemory], short_mb: int) -> str:
    if victim.excess_mb:
        return f"it uses {victim.holds_mb} MB and asked for {victim.allocated_mb} MB"
    others = sum(1 for c in may_go if c.holds_mb >= short_mb) or len(may_go)
    state = "shrunk" if victim.shrunk else "running"
    return (
        f"{state}, with {victim.attained_s:.1f} s the least attained service of {others} queueable containers "
        f"that can go; it holds {victim.holds_mb} MB"
    )
