"""A sidecar that died, at each step of a container's way, and what the next life of it makes of the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.model import Resources
from quicksilver.common.messages import ContainerState, EventKind, Report
from sidecar.node.events import (
    Adopted,
    Answered,
    Command,
    Doubtful,
    Ended,
    Forward,
    Granted,
    Hold,
    Kill,
    KillOver,
    Launch,
    Outcome,
    Released,
    ReportEvent,
    SessionLost,
    SessionUp,
    Tick,
    Unwatch,
    Warn,
    Watch,
)
from sidecar.node.journal_records import (
    SEQ_SKIPPED,
    BadJournalError,
    MemoryRecord,
    acked_line,
    all_lines,
    event_line,
    head_line,
    line_of,
    read,
)
from sidecar.node.nm_reconcile import UNANSWERED_S, Listed, NmList, compare
from sidecar.node.node import SidecarNode
from sidecar.node.phases import KEPT, Phase
from sidecar.node.recovery import Restored
from sidecar.node.report_view import fill_report
from tests.playbook import play
from tests.sidecar.words import APP, ATTEMPT, arrived, grant, node, reports

LIFE = SEQ_SKIPPED


class Lives:
    """A node machine with its journal, as the shell keeps it."""

    def __init__(self, **rules: Any) -> None:
        self.rules = rules
        self.lines = [head_line("n:1", "boot", 0)]
        self.node = node(**rules)

    def handle(self, event: Any) -> Sequence[Command]:
        commands = self.node.handle(event)
        self.lines += [line_of(self.node.state, cid) for cid in self.node.state.take_changed()]
        self.lines += [event_line(c.event) for c in commands if isinstance(c, ReportEvent)]
        return commands

    def die(self, now_s: float, cut: int = 0) -> Sequence[Command]:
        """Begin the next life with the journal, the last `cut` bytes of which were never written."""
        text = "".join(f"{line}\n" for line in self.lines)
        text = text[: len(text) - cut]
        self.lines = text.split("\n")[:-1]
        self.node = node(**self.rules)
        return self.handle(Restored(read(text), now_s))

    def memory(self) -> MemoryRecord:
        return read("".join(f"{line}\n" for line in self.lines))


def lived(*events: Any, **rules: Any) -> Lives:
    lives = Lives(**rules)
    for event in events:
        lives.handle(event)
    return lives


def held(*ids: str) -> list[Any]:
    return [SessionUp(ATTEMPT, 0), Granted(tuple(grant(i) for i in ids), 0), *(arrived(i, 1) for i in ids)]


def test_a_grant_is_known_again() -> None:
    lives = lived(Granted((grant("q"),), 0))
    assert lives.die(5) == []
    play(
        lives,
        (SessionUp(ATTEMPT, 6), []),
        (
            arrived("q", 6),
            [
                Hold("q"),
                reports(LIFE + 1, "q", EventKind.HELD, 6),
                Launch("q", ATTEMPT, b"launch"),
                Watch("q", APP),
            ],
        ),
    )


def test_a_held_start_is_lost_and_a_repeated_one_is_answered() -> None:
    lives = lived(*held("a", "b", "c"))
    assert lives.node.state.held_state("c") is ContainerState.WAITING
    lost = lives.die(5)
    assert reports(3 + LIFE + 1, "c", EventKind.LOST, 5, waited_s=4, reason="the sidecar restarted") in lost
    assert "c" not in lives.node.state.containers
    play(lives, (arrived("c", 6), [Hold("c")]), (Granted((grant("c"),), 7), []), (arrived("c", 8), [Hold("c")]))
    again = lives.die(9)
    assert not [c for c in again if isinstance(c, ReportEvent)]
    play(lives, (arrived("c", 10), [Hold("c")]))


def test_what_was_lost_is_forgotten_with_its_token() -> None:
    lives = lived(*held("a", "b", "c"))
    lives.die(5)
    lives.handle(Tick(905.5))
    assert not lives.node.state.over
    assert not lives.memory().over


def started(*ids: str) -> list[Any]:
    return [*held(*ids), *(Answered(i, Outcome.STARTED, "", 2) for i in ids)]


def test_a_running_one_is_taken_over_with_its_times() -> None:
    lives = lived(*started("q"))
    play(lives)
    assert lives.die(10) == [Watch("q", APP)]
    assert lives.node.state.used("Q") == Resources(1024, 1)
    play(
        lives,
        (
            Ended("q", 12),
            [
                reports(2 + LIFE + 1, "q", EventKind.ENDED, 12, ran_s=10.0),
                Unwatch("q"),
                Released(ATTEMPT),
            ],
        ),
    )
    assert not lives.memory().entries


@pytest.mark.parametrize("there", [True, False])
def test_a_start_without_an_answer_is_looked_up(there: bool) -> None:
    lives = lived(*held("q"))
    assert lives.node.state.containers["q"].phase is Phase.STARTING
    assert lives.die(5) == [Watch("q", APP)]
    assert lives.node.state.containers["q"].phase is Phase.DOUBTFUL
    listed = (Listed(id="q", state="RUNNING"),) if there else ()
    early = compare(NmList(listed, 6.0), lives.node.state.containers, (), (), 6.1)
    assert early == ([Doubtful("q", True, 6.1)] if there else [])
    assert compare(NmList(listed, 8.5), lives.node.state.containers, (), (), 8.6) == [Doubtful("q", there, 8.6)]
    kinds = [c.event.kind for c in lives.handle(Doubtful("q", there, 8.6)) if isinstance(c, ReportEvent)]
    assert kinds == [EventKind.STARTED if there else EventKind.LOST]
    assert ("q" in lives.node.state.containers) is there
    assert ("q" in lives.node.state.over) is not there


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("queueable", [True, False])
def test_an_answer_that_never_comes_is_looked_up_after_a_while(queueable: bool, there: bool) -> None:
    """Else the container would count as use of the node until the sidecar's end."""
    lives = lived(*held("q") if queueable else [arrived("q", 1, q=False)])
    sent_s = lives.node.state.containers["q"].since_s
    listed = (Listed(id="q", state="RUNNING"),) if there else ()
    due_s = sent_s + UNANSWERED_S + 0.1
    containers = lives.node.state.containers
    assert compare(NmList(listed, sent_s + UNANSWERED_S), containers, (), (), due_s) == []
    (event,) = compare(NmList(listed, due_s), containers, (), (), due_s)
    assert event == Doubtful("q", there, due_s)
    kinds = [c.event.kind for c in lives.handle(event) if isinstance(c, ReportEvent)]
    assert kinds == [EventKind.STARTED] if there else kinds == [EventKind.LOST] * queueable
    assert ("q" in containers) is there
    assert lives.handle(Answered("q", Outcome.STARTED, "", due_s + 1)) == []


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "without an answer"])
def test_what_a_nodemanager_lost_that_died_with_the_sidecar_is_reported(answered: bool) -> None:
    lives = lived(*(started("q") if answered else held("q")))
    lives.die(5)
    listed = NmList((Listed(id="q", state="SCHEDULED"),), 8.5, 6.0)
    for now_s in (8.5, 9.5, 19.4, 19.5):
        for event in compare(listed, lives.node.state.containers, (), (), now_s):
            lives.handle(event)
    kinds = [event.kind for event in lives.memory().events.values()]
    assert kinds == [EventKind.HELD, EventKind.STARTED, EventKind.LOST]
    assert "q" in lives.node.state.containers, "the NodeManager has it still"


def test_a_repeated_guaranteed_start_goes_to_the_nodemanager_again() -> None:
    lives = lived(arrived("g", 1, q=False))
    lives.die(5)
    assert lives.node.state.was_answered("g")
    play(
        lives,
        (arrived("g", 6, q=False), [Forward("g")]),
        (
            Answered("g", Outcome.STARTED, "already is running", 7),
            [reports(LIFE + 1, "g", EventKind.STARTED, 7, reason="already is running")],
        ),
        (Doubtful("g", False, 9), []),
    )


def test_a_guaranteed_start_that_never_arrived_is_forgotten() -> None:
    lives = lived(arrived("g", 1, q=False))
    lives.die(5)
    play(lives, (Doubtful("g", False, 9), [Unwatch("g")]))
    assert not lives.memory().entries


def killed(*more: Any) -> Lives:
    """One that was killed for a guaranteed one."""
    return lived(*started("a", "b"), arrived("g", 5, q=False), *more)


def test_a_kill_whose_stop_may_not_have_gone_out_is_the_proxy_s_to_release() -> None:
    lives = killed()
    victim = next(e.id for e in lives.node.state.containers.values() if e.phase is Phase.KILLING)
    commands = lives.die(7)
    assert lives.node.state.containers[victim].phase is Phase.STRANDED
    assert not [c for c in commands if isinstance(c, ReportEvent)], "the kill was reported before"
    assert [e.kind for e in lives.memory().events.values() if e.container_id == victim][-1] is EventKind.KILLED
    assert list(lives.node.state.to_release()) == [victim]
    assert lives.node.state.used("Q") == Resources(2048, 2), "it counts until it is gone"
    play(
        lives,
        (SessionUp(ATTEMPT, 8), [Kill(victim, ATTEMPT)]),
        (KillOver(victim, False, "no", 8.5), [*_warned(victim)]),
        (Ended(victim, 9), [Unwatch(victim)]),
    )
    assert list(lives.node.state.to_release()) == []


def _warned(cid: str) -> list[Any]:
    return [Warn(cid, "the NodeManager did not stop it: no")]


def test_without_a_session_a_kill_is_the_proxy_s_to_carry_out() -> None:
    lives = lived(*started("a", "b"), SessionLost(ATTEMPT, 4))
    commands = lives.handle(arrived("g", 5, q=False))
    (event,) = [c.event for c in commands if isinstance(c, ReportEvent)]
    assert (event.kind, event.cause) == (EventKind.KILLED, "room")
    assert not [c for c in commands if isinstance(c, Kill | Forward)]
    assert report(lives.node).release == [event.container_id]
    after = lives.handle(Ended(event.container_id, 6))
    assert [c for c in after if isinstance(c, Forward)] == [Forward("g")]
    assert report(lives.node).release == []


def report(of: SidecarNode) -> Report:
    return fill_report(Report(node_id="n", boot="b", seq=1, sidecar_url="", memory_mb=1, vcores=1), of, 7.0)


def test_what_the_nodemanager_started_without_the_sidecar_is_the_proxy_s_if_it_was_announced() -> None:
    lives = lived(Granted((grant("q"),), 0))
    lives.die(5)
    adopted = lives.handle(Adopted("q", APP, Resources(1024, 1), True, 6))
    assert [c.event.kind for c in adopted if isinstance(c, ReportEvent)] == [EventKind.STARTED]
    assert lives.node.state.containers["q"].kind == "Q"
    assert not lives.node.state.announced


def test_events_are_reported_until_they_are_acknowledged() -> None:
    lives = lived(*started("q"))
    lives.lines.append(acked_line(1))
    assert [e.kind for e in lives.memory().events.values()] == [EventKind.STARTED]
    lives.die(5)
    lives.handle(Ended("q", 6))
    assert list(lives.memory().events) == [2, 2 + LIFE + 1]


def test_a_line_that_was_not_finished_says_nothing() -> None:
    lives = lived(Granted((grant("p"), grant("q")), 0))
    lives.die(5, cut=3)
    assert list(lives.node.state.announced) == ["p"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense\n",
        '{"journal":2,"node":"n","boot":"b","seq":0}\n',
        head_line("n", "b", 0) + '\n{"entry":{}}\n',
        head_line("n", "b", 0) + '\n{"what":1}\n',
        head_line("n", "b", 0) + "\n[]\n",
        head_line("n", "b", 0) + "\n{}\n",
    ],
)
def test_a_journal_that_cannot_be_understood_is_refused(text: str) -> None:
    with pytest.raises(BadJournalError):
        read(text)


STEPS = st.lists(
    st.sampled_from(["grant", "arrive", "start", "end", "g", "die", "up", "lost", "doubt", "ack"]), max_size=40
)


@given(STEPS, st.integers(0, 3))
def test_two_lives_know_what_one_would(steps: list[str], which: int) -> None:
    """What uses the node, what is announced and what is to be reported never depends on how often it died."""
    lives, now_s, number = Lives(memory_mb=4096, vcores=4), 1.0, 0
    for step in steps:
        now_s += 1.0
        ids = sorted(lives.node.state.containers)
        pick = ids[which % len(ids)] if ids else "none"
        match step:
            case "grant":
                number += 1
                lives.handle(Granted((grant(f"q{number}"),), now_s))
            case "arrive" if lives.node.state.announced:
                lives.handle(arrived(next(iter(lives.node.state.announced)), now_s))
            case "start":
                lives.handle(Answered(pick, Outcome.STARTED, "", now_s))
            case "end":
                lives.handle(Ended(pick, now_s))
            case "g":
                number += 1
                lives.handle(arrived(f"g{number}", now_s, q=False))
            case "up":
                lives.handle(SessionUp(ATTEMPT, now_s))
            case "lost":
                lives.handle(SessionLost(ATTEMPT, now_s))
            case "doubt":
                lives.handle(Doubtful(pick, which > 0, now_s))
            case "ack":
                lives.lines.append(acked_line(max(lives.memory().events, default=0)))
            case "die":
                before, unacknowledged = lives.node, set(lives.memory().events)
                lives.die(now_s)
                assert lives.node.state.used() == before.state.used()
                assert list(lives.node.state.announced) == list(before.state.announced)
                assert not len(lives.node.state.queue)
                assert unacknowledged <= set(lives.memory().events)
    memory, of = lives.memory(), lives.node
    anew = read("".join(f"{line}\n" for line in all_lines(of.state, "n:1", "boot", memory.events.values())))
    assert (anew.entries, anew.announced, anew.over) == (memory.entries, memory.announced, memory.over)
    assert anew.events == memory.events
    assert set(memory.entries) == {e.id for e in of.state.containers.values() if e.phase in KEPT}


def test_every_event_is_reported_once_over_all_lives() -> None:
    lives = lived(*started("a", "b"), *held("c"))
    lives.die(5)
    lives.die(6)
    kinds = [(e.container_id, e.kind) for e in lives.memory().events.values()]
    assert kinds.count(("c", EventKind.LOST)) == 1
    assert len(set(lives.memory().events)) == len(kinds)


def test_nothing_of_a_launch_is_kept() -> None:
    lives = lived(*held("a", "b", "c"))
    assert "launch" not in "\n".join(lives.lines)
