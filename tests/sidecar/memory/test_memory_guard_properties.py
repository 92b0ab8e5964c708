"""What always holds of the memory guard, whatever is measured in whatever order."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sidecar.memory.memory_guard import Alarm, GuardRules, HeldMemory, Kill, Level, Memory, MemoryGuard, Squeeze

RULES = GuardRules(reserve_mb=512, last_resort_mb=128, settle_s=3, kill_wait_s=8, stall_wait_s=4)
HELD = st.builds(
    HeldMemory,
    container_id=st.just(""),
    kind=st.sampled_from(["G", "Q", "Q", "O"]),
    allocated_mb=st.sampled_from([100, 500, 2000]),
    used_mb=st.sampled_from([None, 0, 90, 400, 900, 2500]),
    attained_s=st.sampled_from([0.0, 1.0, 70.0]),
    shrunk=st.booleans(),
    killable=st.sampled_from([True, True, True, False]),
    am=st.sampled_from([False, False, False, True]),
    started_s=st.sampled_from([0.0, 5.0]),
)


class Node(RuleBasedStateMachine):
    """Measures whatever it likes; kills work at once, late or never."""

    def __init__(self) -> None:
        super().__init__()
        self.guard = MemoryGuard(RULES)
        self.now_s = 1000.0
        self.free_mb = 4000
        self.stall: float | None = None
        self.stalled_s = 0.0
        self.there: dict[str, HeldMemory] = {}
        self.killed: dict[str, float] = {}
        self.squeezed_at: list[tuple[bool, float]] = []
        self.serial = 0
        self.kills_work = True

    @rule(several=st.lists(HELD, min_size=1, max_size=6))
    def begin(self, several: list[HeldMemory]) -> None:
        for held in several:
            self.serial += 1
            container_id = f"c{self.serial}"
            self.there[container_id] = replace(held, container_id=container_id)

    @rule(work=st.booleans())
    def kills(self, work: bool) -> None:
        self.kills_work = work

    @precondition(lambda self: self.there)
    @rule(data=st.data())
    def ends(self, data: st.DataObject) -> None:
        del self.there[data.draw(st.sampled_from(sorted(self.there)))]

    @rule(
        free_mb=st.sampled_from([0, 50, 100, 127, 128, 400, 511, 512, 639, 640, 1023, 1024, 4000]),
        stall=st.sampled_from([None, 0.0, 0.06, 0.2, 0.4, 0.41, 1.0]),
        seconds=st.sampled_from([0.0, 0.5, 1.0, 3.0, 60.0]),
        times=st.integers(1, 6),
    )
    def measured(self, free_mb: int, stall: float | None, seconds: float, times: int) -> None:
        self.free_mb, self.stall = free_mb, stall
        for _ in range(times):
            self.now_s += seconds
            self.measure(seconds)

    def measure(self, seconds: float) -> None:
        stalls = (self.stall or 0) > RULES.last_resort_stall_ratio and self.free_mb < RULES.reserve_mb
        self.stalled_s = self.stalled_s + seconds if stalls else 0.0
        before = self.guard.level
        commands = self.guard.handle(Memory(self.now_s, self.free_mb, self.stall, tuple(self.there.values())))
        assert sum(isinstance(c, Kill) for c in commands) <= 1
        for command in commands:
            match command:
                case Kill(container_id):
                    self.kill(container_id)
                case Squeeze(on):
                    assert on is (before is Level.OK), "told twice"
                    self.squeezed_at.append((on, self.now_s))
                case Alarm():
                    assert self.guard.level is Level.CRITICAL

    def kill(self, container_id: str) -> None:
        held = self.there[container_id]
        assert (held.kind, held.killable, held.am) == ("Q", True, False)
        assert container_id not in self.killed
        assert self.free_mb < RULES.last_resort_mb or self.stalled_s >= RULES.stall_wait_s, "killed without need"
        assert all(self.now_s - at_s >= RULES.settle_s for at_s in self.killed.values())
        staying = [at_s for cid, at_s in self.killed.items() if cid in self.there]
        assert all(self.now_s - at_s >= RULES.kill_wait_s for at_s in staying)
        self.killed[container_id] = self.now_s
        if self.kills_work:
            del self.there[container_id]

    @invariant()
    def squeezes_do_not_flap(self) -> None:
        for (on, since_s), (off, until_s) in zip(self.squeezed_at, self.squeezed_at[1:], strict=False):
            assert on is not off
            assert not on or until_s - since_s >= RULES.calm_s

    @invariant()
    def level_is_at_least_what_was_measured(self) -> None:
        if self.free_mb < RULES.last_resort_mb:
            assert self.guard.level is Level.CRITICAL
        elif self.free_mb < RULES.reserve_mb:
            assert self.guard.level is not Level.OK
        assert bool(self.guard.why) is self.guard.squeezed
        assert self.guard.squeezed is (bool(self.squeezed_at) and self.squeezed_at[-1][0])

    def teardown(self) -> None:
        """Memory comes back: then everything is lifted within calm_s, and nobody dies."""
        self.free_mb, self.stall = 4000, 0.0
        for _ in range(7):
            self.now_s += 1
            self.measure(1)
        assert self.guard.level is Level.OK
        assert not self.squeezed_at or not self.squeezed_at[-1][0]


TestNode = Node.TestCase
