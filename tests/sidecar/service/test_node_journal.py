"""What a sidecar writes of its node for the next process, and what that makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quicksilver.common.messages import EventKind
from sidecar.node.events import Answered, Drain, Granted, Outcome, ReportEvent, SessionUp, Tick
from sidecar.node.node import SidecarNode
from sidecar.node.recovery import Restored
from sidecar.service.node_journal import Identity, NodeJournal
from tests.sidecar.words import ATTEMPT, arrived, grant, node


class Process:
    """A sidecar process with its node, which goes on with the journal in a folder."""

    def __init__(self, folder: Path, now_s: float) -> None:
        self.node: SidecarNode = node()
        self.reports: list[ReportEvent] = []
        self._journal = NodeJournal(folder / "journal", "n:1", self.node, Identity("n:1"), ())
        memory = self._journal.recall()
        if memory is not None:
            self.handle(Restored(memory, now_s))
        self._journal.renew()

    def handle(self, event: Any) -> None:
        """Handle an event; write what changed, and remember what is reported."""
        commands = self.node.handle(event)
        self._journal.write_changes(self.node.state.take_changed(), commands)
        self.reports += [command for command in commands if isinstance(command, ReportEvent)]

    def die(self) -> None:
        """End without a word."""
        self._journal.close()


def lives(folder: Path, *events: Any, now_s: float = 100.0) -> Process:
    """Return the process after the one that handled these events."""
    before = Process(folder, 0.0)
    for event in events:
        before.handle(event)
    before.die()
    return Process(folder, now_s)


def test_an_admins_drain_holds_after_a_restart_until_an_admin_ends_it(tmp_path: Path) -> None:
    process = lives(tmp_path, Drain(True, "new disk", 5))
    assert (process.node.state.draining, process.node.state.drain_until_s) == ("new disk", None)
    process.die()
    process = lives(tmp_path, now_s=200)
    assert process.node.state.draining == "new disk", "the rewritten journal has it, too"
    process.handle(Drain(False, "", 201))
    process.die()
    assert Process(tmp_path, 300).node.state.draining == ""


@pytest.mark.parametrize("by", ["yarn", "stop", "nodemanager"])
def test_other_drains_are_of_one_process(tmp_path: Path, by: str) -> None:
    assert lives(tmp_path, Drain(True, "why", 5, by)).node.state.draining == ""


def test_the_time_limit_goes_on_while_no_sidecar_runs(tmp_path: Path) -> None:
    running = (
        SessionUp(ATTEMPT, 0),
        Granted((grant("q"),), 0),
        arrived("q", 0),
        Answered("q", Outcome.STARTED, "", 1),
    )
    process = lives(tmp_path, *running, Drain(True, "new disk", 5, timeout_s=600), now_s=100)
    assert process.node.deadline_s() == 605
    process.handle(Tick(604.9))
    assert process.reports == []
    process.die()
    late = Process(tmp_path, 1000.0)
    (killed,) = late.reports
    assert (killed.event.kind, killed.event.reason, killed.event.cause) == (EventKind.KILLED, "new disk", "drain")
