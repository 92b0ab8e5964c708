"""What always holds under least attained service, whatever comes in whatever order."""

from __future__ import annotations

import dataclasses
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from policies.model import Way
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
from sidecar.cpu_sharing.las import Las
from sidecar.cpu_sharing.plan import Need, least_part, plan
from sidecar.cpu_sharing.share import FULL, CoreGrant, CoreShare
from tests.examples import of_share

W, K, M = 8.0, 2, 1
EPS = 1e-4
MIN_CORES = (0.05, 0.2)
LARGEST_LEAST = 2 * max(MIN_CORES)
JOBS = st.sampled_from(["", "a", "b"])
SIZES = st.sampled_from([0.0, 0.06, 0.25, 0.5, 1.0, 1.0, 1.0, 2.0, 3.5])


@dataclasses.dataclass
class Process:
    """A container as it really is."""

    vcores: float
    way: Way
    measured: bool
    ready: bool = False
    cores: float | None = None
    cpu_s: float = 0.0
    """What the machine should know: with slivers where accounting measures, else without."""
    free_at_s: float = 0.0
    """When it last was not stuck any more, or came."""
    first_s: float = -inf
    head_start_s: float = 0.0
    """What it had attained when its first turn began: a newcomer that had to wait, and was not shrunk in time."""
    companions: int = 0
    """How many others there were at most since it stands still."""


class LasMachine(RuleBasedStateMachine):
    """Plays shell, kernel and ResourceManager around one node."""

    by_job = False

    def __init__(self) -> None:
        super().__init__()
        self.las = Las(LasRules(2, W, K, M, MIN_CORES[0], ready_wait_s=20, by_job=self.by_job))
        self.now_s = 0.0
        self.serial = 0
        self.real: dict[str, Process] = {}
        self.flying: dict[str, LasCommand] = {}
        self.sent_before: dict[str, LasCommand] = {}
        """Commands that were in flight when their container was promoted."""
        self.bad_s = -inf
        """When a refusal, or guaranteed ones, last left no room."""
        self.allowed: int | None = None

    # The shell

    def tell(self, event: LasEvent) -> None:
        room, protected = self.room(), self.protected()
        commands = self.las.handle(event)
        if self.room() >= room and not self.stuck():
            for container_id, cores in protected.items():
                share = self.las.shares.get(container_id)
                assert share is None or share.amount(share.granted) >= cores - EPS, "a protected one gave way"
        touched = [command.container_id for command in commands]
        assert len(set(touched)) == len(touched)
        order = [self.amount(command) > self.holds(command.container_id) for command in commands]
        assert order == sorted(order), "something was given before something was taken"
        for command in commands:
            process = self.real[command.container_id]
            assert command.container_id not in self.flying, "two commands in flight"
            assert process.ready and process.way in (Way.SHRINK, Way.FREEZE)
            assert not isinstance(command, Freeze) or process.way is Way.FREEZE
            assert command.why
            self.flying[command.container_id] = command
        if self.room() < LARGEST_LEAST or self.stuck():
            self.bad_s = self.now_s
        for share in self.las.shares.values():
            process = self.real[share.id]
            if share.stuck:
                process.free_at_s = self.now_s
            if share.running and process.first_s == -inf:
                process.first_s, process.head_start_s = share.began_s, share.attained_s
            others = len(self.in_hand()) - 1
            process.companions = others if share.running else max(others, process.companions)

    @staticmethod
    def amount(command: LasCommand) -> float:
        match command:
            case Restore():
                return inf
            case Shrink():
                return command.cores
            case Freeze():
                return 0.0

    def holds(self, container_id: str) -> float:
        cores = self.real[container_id].cores
        return inf if cores is None else cores

    def carry_out(self, container_id: str, refused: str = "") -> None:
        command = self.flying.pop(container_id)
        if not refused:
            amount = self.amount(command)
            self.real[container_id].cores = None if amount == inf else amount
        self.tell(Resized(container_id, refused, self.now_s))

    def serve(self, seconds: float) -> None:
        for container_id, process in self.real.items():
            cores = process.vcores if process.cores is None else process.cores
            idle = not self.las.shares[container_id].applied.runs
            if process.ready and not (idle and not process.measured):
                process.cpu_s += seconds * cores
        self.now_s += seconds
        self.tell(Served({c: p.cpu_s for c, p in self.real.items() if p.measured and p.ready}, self.now_s))

    # What happens

    @initialize(cores=st.sampled_from([0.5, 1, 2, 3, 4.5]), min_cores=st.sampled_from(MIN_CORES))
    def begin(self, cores: float, min_cores: float) -> None:
        self.ruled(cores, min_cores)

    @rule(attained_s=st.lists(st.sampled_from([0.0, 50.0, 1e3, 1e5]), min_size=3, max_size=3), spared=JOBS)
    def jobs(self, attained_s: list[float], spared: str) -> None:
        self.tell(Jobs(dict(zip("abc", attained_s, strict=True)), (spared,), self.now_s))

    def come(self, vcores: float, way: Way, measured: bool, *, whole: bool = False) -> str:
        self.serial += 1
        container_id = f"c{self.serial * 7 % 100:02}"  # ids are in no order
        self.real[container_id] = Process(vcores, way, measured, free_at_s=self.now_s)
        self.tell(Joined(container_id, vcores, way, self.now_s, whole, app_id="abc"[self.serial % 3]))
        return container_id

    @precondition(lambda self: self.serial < 99)
    @rule(
        size=SIZES, way=st.sampled_from([Way.SHRINK, Way.SHRINK, Way.FREEZE]), measured=st.booleans(), at=st.booleans()
    )
    def queueable(self, size: float, way: Way, measured: bool, at: bool) -> None:
        container_id = self.come(size, way, measured)
        if at:
            self.ready(container_id)

    @precondition(lambda self: self.serial < 99)
    @rule(size=st.sampled_from([0.5, 1.0, 2.0]))
    def all_or_nothing(self, size: float) -> None:
        self.ready(self.come(size, Way.FREEZE, False, whole=True))

    @precondition(lambda self: self.serial < 99)
    @rule(size=st.sampled_from([0.25, 1.0, 1.92, 2.0]), way=st.sampled_from([Way.NONE, Way.KILL]))
    def guaranteed(self, size: float, way: Way) -> None:
        self.come(size, way, True)

    def ready(self, container_id: str) -> None:
        before = {s.id for s in self.in_hand() if s.running}
        self.real[container_id].ready = True
        self.tell(ReadyContainer(container_id, self.now_s))
        if not self.las.squeezed and self.las.shares[container_id].running:
            self.check_most_attained_gave_way(before, container_id)

    @precondition(lambda self: any(not p.ready for p in self.real.values()))
    @rule(data=st.data())
    def in_hand_at_last(self, data: st.DataObject) -> None:
        self.ready(data.draw(st.sampled_from(sorted(c for c, p in self.real.items() if not p.ready))))

    @precondition(lambda self: self.real)
    @rule(data=st.data())
    def leaves(self, data: st.DataObject) -> None:
        container_id = data.draw(st.sampled_from(sorted(self.real)))
        del self.real[container_id]
        late = self.flying.pop(container_id, None)
        self.tell(Left(container_id, self.now_s))
        if late is not None:
            self.tell(Resized(container_id, "gone", self.now_s))

    @precondition(lambda self: any(s.resizable for s in self.las.shares.values()))
    @rule(data=st.data())
    def promoted(self, data: st.DataObject) -> None:
        resizable = sorted(s.id for s in self.las.shares.values() if s.resizable)
        container_id = data.draw(st.sampled_from(resizable))
        if container_id in self.flying:
            self.sent_before[container_id] = self.flying[container_id]
        self.tell(Pinned(container_id, self.now_s))

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), refused=st.sampled_from(["", "", "", "EBUSY"]))
    def resized(self, data: st.DataObject, refused: str) -> None:
        self.carry_out(data.draw(st.sampled_from(sorted(self.flying))), refused)

    @rule()
    def all_resized(self) -> None:
        for _ in range(200):
            if not self.flying:
                break
            self.carry_out(min(self.flying))
        assert not self.flying, "commands without end"

    @rule(seconds=st.sampled_from([0.125, 1.0, 3.0, W, 3 * W, 10 * W]))
    def time_passes(self, seconds: float) -> None:  # in fractions of two, so that times are exact
        until_s, turns = self.now_s + seconds, 0
        while self.now_s < until_s:
            deadline_s = self.las.deadline_s()
            assert deadline_s is None or deadline_s > self.now_s
            self.serve(min(until_s, deadline_s or inf) - self.now_s)
            if deadline_s is not None and self.now_s >= deadline_s - 1e-9:
                self.now_s = max(self.now_s, deadline_s)
            self.tell(SharingTurn(self.now_s))
            self.everything_holds()
            turns += 1
            assert turns < 2000, "turns without end"

    @rule(cores=st.sampled_from([0.5, 1, 2, 3, 4.5]), min_cores=st.sampled_from(MIN_CORES))
    def ruled(self, cores: float, min_cores: float) -> None:
        rules = dataclasses.replace(self.las.rules, cores=cores, min_cores=min_cores)
        self.tell(Ruled(rules, self.now_s))

    @rule(on=st.booleans())
    def memory(self, on: bool) -> None:
        if not on:
            self.allowed = None
        elif self.allowed is None:
            self.allowed = max(1, sum(s.running for s in self.in_hand()))
        self.tell(Squeezed(on, "some 20 %", self.now_s))

    # What holds

    def in_hand(self) -> list[CoreShare]:
        return [s for s in self.las.shares.values() if s.ready and s.resizable]

    def stuck(self) -> list[CoreShare]:
        return [s for s in self.in_hand() if s.stuck]

    def protected(self) -> dict[str, float]:
        shares = [s for s in self.in_hand() if s.running and s.protected_until_s > self.now_s and not s.whole]
        return {s.id: s.amount(s.granted) for s in shares}

    def room(self) -> float:
        taken = sum(s.vcores for s in self.las.shares.values() if s.untouchable)
        return max(0.0, self.las.rules.cores - taken)

    def left(self) -> float:
        return self.room() - sum(s.amount(s.granted) for s in self.in_hand())

    def check_most_attained_gave_way(self, before: set[str], newcomer: str) -> None:
        shares = self.las.shares
        stay = [
            s
            for s in self.in_hand()
            if s.running and s.id in before and s.protected_until_s <= self.now_s and not s.stuck
        ]
        for gone in (shares[c] for c in before if not shares[c].running):
            for other in stay:
                if other.vcores >= LARGEST_LEAST and not gone.whole:
                    assert gone.attained_s >= other.attained_s - EPS, (gone, other, newcomer)

    @invariant()
    def the_stored_deadline_is_the_true_one(self) -> None:
        stored_s = self.las.deadline_s()
        times = (at_s for share in self.las.shares.values() for at_s in share.times_s(self.las.rules))
        assert stored_s == min((at_s for at_s in times if at_s > self.las._now_s), default=None)

    @invariant()
    def everything_holds(self) -> None:
        self.room_is_not_exceeded()
        self.no_core_is_left_alone()
        self.least_attained_goes_first()
        self.nobody_starves()
        self.nothing_is_shrunk_without_need()
        self.squeeze_holds()
        self.promoted_ones_are_full()
        self.service_is_known()
        self.order_of_arrival_is_no_matter()

    def room_is_not_exceeded(self) -> None:
        runs = [s for s in self.in_hand() if s.running and s.vcores > 0]
        if self.left() < -EPS:
            free = [s for s in runs if not s.stuck]
            stuck = sum(s.amount(s.granted) for s in runs if s.stuck)
            alone = len(runs) == 1 and runs[0].whole
            assert alone or sum(s.amount(s.granted) for s in free) <= max(0.0, self.room() - stuck) + EPS
        part = [s for s in runs if s.cores is not None and not s.stuck]
        assert not [s for s in part if s.whole]
        small = [s for s in part if (s.cores or 0) < least_part(self.las.rules) - EPS]
        assert not small or len(runs) == 1, "a sliver was handed out beside others"

    def no_core_is_left_alone(self) -> None:
        least, left = least_part(self.las.rules), self.left()
        shares = [s for s in self.in_hand() if not s.stuck]
        if any(s.starving(self.las.rules, self.now_s) for s in shares):
            return  # what is left is kept for it
        runs = [s for s in self.in_hand() if s.running]
        for share in shares:
            if not share.running and self.allowed is not None and len(runs) >= self.allowed:
                continue
            fits = left >= share.vcores - (share.amount(share.granted) if share.running else 0) + EPS
            if share.whole:
                assert share.running or not fits
            elif not share.running or share.cores is not None:
                assert not fits, (share, left)
                assert left < least + EPS, (share, left)
        if not [s for s in runs if s.vcores > 0] and [s for s in shares if s.vcores > 0] and self.allowed is None:
            assert self.room() < self.las.rules.min_cores

    def least_attained_goes_first(self) -> None:
        for running in self.in_hand():
            small = running.vcores < LARGEST_LEAST
            if not running.running or running.stuck or small or running.protected_until_s > self.now_s:
                continue
            assert self.now_s < running.began_s + W, "its quantum is over, and did not begin again"
            for idle in self.in_hand():
                since_s = max(idle.idle_since_s, self.real[idle.id].free_at_s)
                if idle.running or idle.stuck or idle.whole or since_s >= running.began_s:
                    continue
                real = self.real[running.id]
                head_start_s = real.head_start_s if real.first_s == running.began_s else 0.0
                most_s = idle.attained_s + W * running.vcores + head_start_s
                assert running.attained_s <= most_s + EPS, (running, idle)

    def nobody_starves(self) -> None:
        """Who waited (k + (n - 1) * m) * W, of n containers, runs, once there is room for any at all."""
        for share in self.in_hand():
            if not share.running and not share.stuck and self.now_s > self.bad_s:
                from_s = max(share.idle_since_s + K * W, self.bad_s)
                assert self.now_s < from_s + self.real[share.id].companions * M * W, share

    def nothing_is_shrunk_without_need(self) -> None:
        shares = self.in_hand()
        if sum(s.vcores for s in shares) > self.room() - EPS or self.stuck() or self.allowed is not None:
            return
        assert all(s.running and s.cores is None for s in shares)
        pinned = {s.id for s in self.las.shares.values() if s.pinned}
        assert self.flying or all(p.cores is None for c, p in self.real.items() if c not in pinned)

    def squeeze_holds(self) -> None:
        if self.allowed is not None and not self.stuck():
            assert sum(s.running for s in self.in_hand()) <= self.allowed

    def promoted_ones_are_full(self) -> None:
        for share in self.las.shares.values():
            if share.pinned:
                full = self.real[share.id].cores is None
                assert share.running and not share.resizable
                assert full or share.flight is not None or (share.stuck and self.now_s < share.retry_at_s), share
                command = self.flying.get(share.id)
                harmless = command is None or isinstance(command, Restore) or command is self.sent_before.get(share.id)
                assert harmless or full, "it was taken something again"

    def service_is_known(self) -> None:
        for share in self.in_hand():
            assert abs(share.attained_s - self.real[share.id].cpu_s) < EPS
            assert not share.stuck or share.granted == share.applied
        assert {s.id: s.applied.cores for s in self.in_hand()} == {s.id: self.real[s.id].cores for s in self.in_hand()}

    def order_of_arrival_is_no_matter(self) -> None:
        shares = self.in_hand()
        need = Need(self.room(), self.las.rules, self.now_s, True, self.allowed)
        assert plan(shares, need) == plan(shares[::-1], need)


TestLas = LasMachine.TestCase
TestLas.settings = settings(max_examples=of_share(150), stateful_step_count=40, deadline=None)


class JobsMachine(LasMachine):
    """The same where the service of jobs comes first: its levels decide, and within one the container's own."""

    by_job = True

    def check_most_attained_gave_way(self, before: set[str], newcomer: str) -> None:
        """The order of all, below, says more."""

    def least_attained_goes_first(self) -> None:
        for running in self.in_hand():
            if not running.running or running.stuck or running.protected_until_s > self.now_s:
                continue
            assert self.now_s < running.began_s + W, "its quantum is over, and did not begin again"
            for idle in self.in_hand():
                if idle.running or idle.stuck or idle.whole or running.vcores < LARGEST_LEAST:
                    continue
                assert idle.rank[0] >= running.rank[0], (running, idle)


TestJobs = JobsMachine.TestCase
TestJobs.settings = settings(max_examples=of_share(100), stateful_step_count=40, deadline=None)


@st.composite
def one_share(draw: st.DrawFn) -> CoreShare:
    """A container of a plan at second 100, quantum 10 s, in any state but starving."""
    vcores = draw(st.sampled_from([0.06, 0.25, 0.5, 1.0, 1.5, 2.0]))
    granted = draw(st.sampled_from([FULL, CoreGrant(0.05, False), CoreGrant(vcores / 2, True)]))
    share = CoreShare(str(draw(st.integers(0, 10**6))), vcores, Way.SHRINK, 0, 0, ready=True, granted=granted)
    share.is_new, share.attained_s = draw(st.booleans()), draw(st.sampled_from([0.0, 1.0, 5.0, 5.5]))
    share.began_s, share.idle_since_s = draw(st.sampled_from([85.0, 91.0, 97.0])), 99.0
    return share


@settings(deadline=None, max_examples=of_share(500))
@given(
    st.lists(one_share(), max_size=6, unique_by=lambda s: s.id),
    st.sampled_from([0.0, 0.04, 0.08, 0.5, 0.55, 1.0, 1.3, 2.0, 3.75]),
    st.sampled_from(MIN_CORES),
    st.booleans(),
)
def test_any_plan_uses_the_room_and_no_more(
    shares: list[CoreShare], room: float, min_cores: float, arriving: bool
) -> None:
    rules = LasRules(9, 10, min_cores=min_cores)
    grants = plan(shares, Need(room, rules, 100, arriving)).grants
    given_cores = {s.id: s.amount(grants[s.id]) for s in shares}
    left, least = room - sum(given_cores.values()), least_part(rules)
    assert left > -EPS
    for share in shares:
        cores, runs = given_cores[share.id], grants[share.id].runs
        unmet = share.vcores - cores
        assert unmet < EPS or (left < least + EPS and left < unmet), "a core is left alone"
        assert not runs or unmet < EPS or cores >= least - EPS or cores == sum(given_cores.values())
    assert not shares or room < min_cores or any(given_cores.values())
    rest = [s for s in shares if not s.is_new and not (s.granted.runs and s.began_s > 90)]
    for first in rest:
        for second in rest:
            if first.attained_s < second.attained_s and second.vcores >= least and grants[second.id].runs:
                assert grants[first.id].runs, "who attained more goes first"
