"""What always holds at a node, whatever comes in whatever order."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from policies.model import Resources, total
from quicksilver.common.messages import EventKind
from sidecar.node.events import (
    Answered,
    Command,
    Drain,
    Dropped,
    Ended,
    Event,
    Forced,
    Forward,
    Granted,
    Hold,
    Kill,
    KillOver,
    Launch,
    Outcome,
    Physical,
    ReportEvent,
    SessionLost,
    SessionUp,
    Settled,
    StopAsked,
    Tick,
    Unwatch,
    Watch,
    Withdrawn,
)
from sidecar.node.phases import USING, WANTING, Phase
from sidecar.node.wait_reason import obstacle
from tests.examples import of_share
from tests.sidecar.words import ATTEMPT, arrived, grant, node

LAST = {EventKind.ENDED, EventKind.SHED, EventKind.KILLED, EventKind.STOPPED, EventKind.FAILED, EventKind.LOST}
CAPACITY = Resources(4096, 4)
SIZES = st.builds(Resources, st.sampled_from([512, 1024, 2048]), st.sampled_from([1, 2]))


class NodeMachine(RuleBasedStateMachine):
    """Plays application masters, NodeManager and proxy around one node."""

    grace_s = 0.0
    """How long guaranteed ones wait for queueable ones that are about to end."""

    def __init__(self) -> None:
        super().__init__()
        self.node = node(
            4096, 4, self.grace_s, queue_max_length=4, queue_max_bytes=30, kill_wait_s=10, announce_wait_s=1
        )
        self.now_s = 0.0
        self.serial = 0
        self.reported: dict[str, list[EventKind]] = defaultdict(list)
        self.held: set[str] = set()
        self.settled: set[str] = set()
        self.guaranteed: set[str] = set()
        self.forwarded: set[str] = set()
        self.withdrawn: set[str] = set()
        self.unanswered: list[str] = []
        self.killing: list[str] = []
        self.alive: list[str] = []
        self.watched: set[str] = set()
        self.sequence = 0
        self.forced: str | None = None
        self.tell(SessionUp(ATTEMPT, 0))

    def tell(self, event: Event) -> None:
        for command in self.node.handle(event):
            self.obey(command)

    def obey(self, command: Command) -> None:
        match command:
            case Hold(cid):
                assert cid not in self.guaranteed
                self.held.add(cid)
            case Forward(cid):
                assert cid not in self.held
                assert cid not in self.forwarded
                self.forwarded.add(cid)
                self.unanswered.append(cid)
            case Launch(cid, attempt, payload):
                assert cid in self.held
                assert (attempt, payload) == (ATTEMPT, b"launch")
                assert cid == self.forced or self.node.state.used().fits(CAPACITY), "started without room"
                self.unanswered.append(cid)
            case Kill(cid, _):
                assert cid in self.alive, "killed before it was started"
                self.killing.append(cid)
            case Settled(cid):
                assert cid in self.held
                self.settled.add(cid)
            case Watch(cid, _):
                self.watched.add(cid)
            case Unwatch(cid):
                self.watched.remove(cid)
            case ReportEvent(event):
                assert event.seq == self.sequence + 1
                self.sequence = event.seq
                assert not LAST & set(self.reported[event.container_id]), "something was reported after the last event"
                self.reported[event.container_id].append(event.kind)

    def next_id(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    @rule(size=SIZES, announced=st.sampled_from(["before", "after", "never"]), hold_s=st.sampled_from([2.0, 100.0]))
    def queueable(self, size: Resources, announced: str, hold_s: float) -> None:
        cid = self.next_id("q")
        news = Granted((grant(cid, memory_mb=size.memory_mb, vcores=size.vcores, max_hold_s=hold_s),), self.now_s)
        if announced == "before":
            self.tell(news)
        self.tell(arrived(cid, self.now_s, resources=size, expires_s=self.now_s + 500))
        if announced == "after":
            self.tell(news)

    @rule(size=SIZES, closes=st.booleans())
    def guaranteed_start(self, size: Resources, closes: bool) -> None:
        cid = self.next_id("g")
        self.guaranteed.add(cid)
        self.tell(arrived(cid, self.now_s, q=False, resources=size))
        if closes and cid not in self.forwarded:
            self.withdrawn.add(cid)
            self.tell(Withdrawn(cid, self.now_s))

    @precondition(lambda self: self.unanswered)
    @rule(data=st.data(), outcome=st.sampled_from([Outcome.STARTED, Outcome.STARTED, Outcome.REFUSED, Outcome.LOST]))
    def answer(self, data: st.DataObject, outcome: Outcome) -> None:
        cid = data.draw(st.sampled_from(self.unanswered))
        self.unanswered.remove(cid)
        if outcome is Outcome.STARTED or (outcome is Outcome.LOST and cid not in self.held):
            self.alive.append(cid)
        self.tell(Answered(cid, outcome, "", self.now_s))

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        cid = data.draw(st.sampled_from(self.alive))
        self.alive.remove(cid)
        self.tell(Ended(cid, self.now_s))

    @precondition(lambda self: self.killing)
    @rule(data=st.data(), gone=st.booleans())
    def kill_over(self, data: st.DataObject, gone: bool) -> None:
        cid = data.draw(st.sampled_from(self.killing))
        self.killing.remove(cid)
        if gone and cid in self.alive:
            self.alive.remove(cid)
        self.tell(KillOver(cid, gone, "", self.now_s))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), what=st.sampled_from(["drop", "stop", "force"]))
    def call(self, data: st.DataObject, what: str) -> None:
        cid = data.draw(st.sampled_from(sorted(self.held)))
        if what == "drop":
            self.tell(Dropped((cid,), "released", self.now_s))
        elif what == "stop":
            self.tell(StopAsked(cid, self.now_s))
        else:
            self.forced = cid
            self.tell(Forced(cid, self.now_s))
            self.forced = None

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.tell(Tick(self.now_s))

    @rule(free_mb=st.sampled_from([500, 3000, 100_000]))
    def memory(self, free_mb: int) -> None:
        self.tell(Physical(free_mb, self.now_s))

    @rule(up=st.booleans())
    def session(self, up: bool) -> None:
        self.tell(SessionUp(ATTEMPT, self.now_s) if up else SessionLost(ATTEMPT, self.now_s))

    @invariant()
    def queue_is_bounded_and_true(self) -> None:
        waiting = {e.id for e in self.node.state.containers.values() if e.phase is Phase.WAITING}
        assert waiting == {w.view.id for w in self.node.state.queue}
        assert len(waiting) <= 4
        assert self.node.state.queue.bytes == 6 * len(waiting) <= 30

    @invariant()
    def who_uses_the_node_is_watched(self) -> None:
        assert self.watched == {e.id for e in self.node.state.using()}

    @invariant()
    def sums_are_those_of_the_containers(self) -> None:
        state, containers = self.node.state, self.node.state.containers.values()
        ends = [c.until_s for c in containers if c.phase in (*WANTING, Phase.WAITING, Phase.UNANNOUNCED)]
        assert state.free() == CAPACITY - total(c.start.resources for c in containers if c.phase in USING | WANTING)
        assert state.deadline_s() == min(ends, default=None)

    @invariant()
    def nothing_fits_that_waits(self) -> None:
        head = self.node.state.queue.head(self.now_s)
        assert head is None or obstacle(self.node.room, head.view.resources, self.now_s)

    def teardown(self) -> None:
        """Let everything come to its end: then each held container has exactly one last event."""
        self.tell(Drain(True, "over", self.now_s))
        self.now_s += 20
        self.tell(Tick(self.now_s))  # nobody waits for an announcement any more
        while self.unanswered or self.killing or self.alive:
            for cid in self.unanswered[:]:
                self.unanswered.remove(cid)
                self.alive.append(cid)
                self.tell(Answered(cid, Outcome.STARTED, "", self.now_s))
            for cid in self.killing[:]:
                self.killing.remove(cid)
                self.tell(KillOver(cid, True, "", self.now_s))
            for cid in self.alive[:]:
                self.alive.remove(cid)
                self.tell(Ended(cid, self.now_s))
            self.now_s += 20
            self.tell(Tick(self.now_s))
        self.now_s += 20
        self.tell(Tick(self.now_s))
        for cid in self.held:
            assert len(LAST & set(self.reported[cid])) == 1, (cid, self.reported[cid])
        assert self.guaranteed - self.withdrawn <= self.forwarded
        assert not [e for e in self.node.state.containers.values() if e.id in self.held or e.id in self.guaranteed]
        assert not self.watched
        assert self.held <= self.settled | {c for c in self.held if self.reported[c] == [EventKind.SHED]}


class PatientMachine(NodeMachine):
    """The same where some are waited for, and some of those in vain."""

    grace_s = 12.0

    @invariant()
    def who_is_waited_for_has_somebody_waiting(self) -> None:
        for entry in self.node.state.containers.values():
            if entry.awaited_by:
                assert self.node.state.containers[entry.awaited_by].phase is Phase.GRACE


TestPatientNode = PatientMachine.TestCase
TestPatientNode.settings = settings(max_examples=of_share(120), stateful_step_count=40, deadline=None)

TestNode = NodeMachine.TestCase
TestNode.settings = settings(max_examples=of_share(120), stateful_step_count=40, deadline=None)
