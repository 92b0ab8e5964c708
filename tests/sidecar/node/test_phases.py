"""The phases of a container: the table, its picture in the docs, and moves that it does not have."""

from __future__ import annotations

import re

import pytest

from policies.model import Resources
from quicksilver.common.messages import EventKind
from sidecar.node.container import Rules
from sidecar.node.endings import Endings
from sidecar.node.events import KillOver, SessionUp, Warn
from sidecar.node.node_policies import NodePolicies
from sidecar.node.node_state import NodeState
from sidecar.node.phases import MOVES, Phase, UnexpectedMoveError, diagram
from tests.paths import DOCS
from tests.sidecar.words import ATTEMPT, arrived, by_arrival, node

POLICIES = NodePolicies(by_arrival, lambda need, running, now_s: [])


def test_the_docs_draw_the_table() -> None:
    text = (DOCS / "sidecar.md").read_text(encoding="utf-8")
    (drawn,) = re.findall(r"<!-- phases -->\n```mermaid\n(.*?)\n```\n<!-- /phases -->", text, re.S)
    assert drawn == diagram(), "write phases.diagram() between the two marks of docs/sidecar.md"


@pytest.mark.parametrize("phase", Phase)
def test_every_phase_is_reached_and_left(phase: Phase) -> None:
    reached, frontier = {None}, {None}
    while frontier := {target for source, target in MOVES if source in frontier} - reached:
        reached |= frontier
    assert phase in reached
    assert (phase, None) in MOVES, "every phase may end: processes and connections may die at any time"


def test_a_move_that_the_table_does_not_have_raises() -> None:
    one = node()
    one.handle(arrived("g", 0, q=False))
    container = one.state.containers["g"]
    with pytest.raises(UnexpectedMoveError, match="g: unexpected move of a container from starting to waiting"):
        one.state.move(container, Phase.WAITING, 1)
    assert container.phase is Phase.STARTING


def test_in_production_it_is_logged_and_done() -> None:
    one = node(strict=False)
    one.handle(arrived("g", 0, q=False))
    container = one.state.containers["g"]
    one.state.out = []
    one.state.move(container, Phase.WAITING, 1)
    assert one.state.out == [Warn("g", "unexpected move of a container from starting to waiting")]
    assert (container.phase, container.since_s) == (Phase.WAITING, 1)


def test_a_part_stands_alone() -> None:
    """Endings needs nothing but the state."""
    state = NodeState(Rules(Resources(1024, 1)), POLICIES)
    endings = Endings(state)
    endings.session_up(SessionUp(ATTEMPT, 0))
    endings.kill_over(KillOver("unknown", True, "", 1))
    endings.give_up("unknown", EventKind.SHED, "", 1)
    assert (state.out, state.sessions) == ([], {ATTEMPT})
